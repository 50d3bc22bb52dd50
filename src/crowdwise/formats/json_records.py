"""JSON read record after record: an array of records, JSON lines, or one object; never the whole file in memory.

Python's own parser reads one value at a place of a text (`raw_decode`), which is all that streaming needs. Record by
record it takes a third of the time in which orjson parses the file whole, whose objects are then all in memory at once
(`benchmarks/export_reading.py`).
"""

from __future__ import annotations

import codecs
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.labels.byte_source import Blob

__all__ = ["JsonRecords", "explain_unreadable", "format_json", "parse_json_text"]

BLOCK = 1 << 18  # bytes read at a time
LARGEST_RECORD = 1 << 28  # characters: no record of a labelling tool is as long, and it would have to be held whole
BLANKS = " \t\r\n"
NEAR_END = 64  # characters: what is wrong so near the end of the text read so far may only be cut off


@contextmanager
def explain_unreadable(what: str, said: Any) -> Iterator[None]:
    """Say what of a record could not be read, in place of Python's own error."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{what} cannot be read ({error!r}): {quote(said)}.") from error


class _RepeatedNameError(Exception):
    """An object has a name twice: Python's parser would keep the last, and say nothing."""


def _refuse_repeated_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedNameError(quote(next(name for name in names if names.count(name) > 1)))
    return made


DECODER = json.JSONDecoder(object_pairs_hook=_refuse_repeated_names)


class JsonRecords:
    """The records of a JSON file one by one; `number` and `where` name the one that was read last.

    Parameters
    ----------
    blob
        The file.
    largest
        Most characters of a record.
    """

    def __init__(self, blob: Blob, largest: int = LARGEST_RECORD) -> None:
        self.blob, self.largest = blob, largest
        self.number = 0
        self.worker: str | None = None  # whose file it is, where the user said so
        self.is_array = False  # the file is one array; told once the first record is read
        self._text, self._at, self._bytes_before, self._ended = "", 0, 0, False

    @property
    def where(self) -> str:
        """The file and the record read last."""
        return f"{self.blob.name}, record {self.number}"

    def __iter__(self) -> Iterator[Any]:
        """Give every record; raises `InputError` where the file is no JSON from some byte on."""
        self.blob.refuse_bomb()
        self.number, self._text, self._at, self._bytes_before, self._ended = 0, "", 0, 0, False
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        with self.blob.stream() as stream:

            def read_more(size: int = BLOCK) -> None:
                self._forget_what_was_read()
                block = self.blob.read_from(stream, size)
                self._ended = not block
                try:
                    self._text += decoder.decode(block, final=not block)
                except UnicodeDecodeError as error:
                    raise self._error(f"is not UTF-8 ({error.reason}). Save the file as UTF-8.") from error

            first = self._next_character(read_more)
            self.is_array = first == "["
            if self.is_array:
                self._at += 1
                first = self._next_character(read_more)
            while first and not (self.is_array and first == "]"):
                self.number += 1
                yield self._decode(read_more)
                first = self._next_character(read_more)
                if self.is_array and first == ",":
                    self._at += 1
                    first = self._next_character(read_more)
                elif self.is_array and first != "]":
                    self._refuse_end(first)
            if self.is_array:
                self._refuse_rest(first, read_more)

    def _decode(self, read_more: Any) -> Any:
        size = BLOCK
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                unfinished = error.pos > len(self._text) - NEAR_END or error.msg.startswith("Unterminated string")
                if self._ended or not unfinished:
                    self._at = error.pos
                    raise self._error(
                        f"is not JSON ({error.msg}). The file may be cut short: export it again."
                    ) from error
            except _RepeatedNameError as error:
                raise self._error(f"names {error} twice in one object. Export the file again.") from error
            except RecursionError as error:
                raise self._error("is nested too deeply. No export of a labelling tool is.") from error
            except ValueError as error:
                raise self._error("holds an integer of more digits than Python reads.") from error
            else:
                if end < len(self._text) or self._ended:  # a number may go on in the next block
                    self._at = end
                    return value
            if len(self._text) - self._at > self.largest:
                raise self._error(f"is longer than {self.largest:,} characters. Leave media out of the export.")
            read_more(size)
            size *= 2  # a long record is parsed again from its beginning, so that fewer blocks are better

    def _next_character(self, read_more: Any) -> str:
        """Go to the next character that is no blank; "" at the end."""
        while True:
            while self._at < len(self._text):
                character = self._text[self._at]
                if character not in BLANKS:
                    return character
                self._at += 1
            if self._ended:
                return ""
            read_more()

    def _forget_what_was_read(self) -> None:
        self._bytes_before += len(self._text[: self._at].encode())
        self._text, self._at = self._text[self._at :], 0

    def _refuse_end(self, found: str) -> None:
        what = f"{found!r} stands where a comma or ] was expected" if found else "the array does not end"
        raise self._error(f"is not JSON ({what}). The file may be cut short: export it again.")

    def _refuse_rest(self, first: str, read_more: Any) -> None:
        if first != "]":
            self._refuse_end(first)
        self._at += 1
        rest = self._next_character(read_more)
        if rest:
            raise self._error(f"is not JSON ({rest!r} stands after the end of the array). Give one export in a file.")

    def _error(self, what: str) -> InputError:
        byte = self._bytes_before + len(self._text[: self._at].encode())
        return InputError(f"{self.blob.name}, byte {byte:,} (record {max(self.number, 1)}) {what}")


def format_json(value: Any, indent: int | None = None) -> str:
    """A value as JSON that can be written as UTF-8: letters as they are, escaped where one is half a surrogate pair."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


def parse_json_text(text: str, where: str) -> Any:
    """A value that is written as JSON inside a cell or a field; what is wrong with it is said with its place."""
    try:
        return json.loads(text, object_pairs_hook=_refuse_repeated_names)
    except _RepeatedNameError as error:
        raise InputError(f"{where} names {error} twice in one object. Export the file again.") from error
    except RecursionError as error:
        raise InputError(f"{where} is nested too deeply.") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where} is not JSON (character {error.pos}: {error.msg}). The file was changed after the export: "
            "export it again."
        ) from error
    except ValueError as error:
        raise InputError(f"{where} holds an integer of more digits than Python reads.") from error
