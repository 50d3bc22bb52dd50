"""CSV and its relatives: the delimiter is found, names stay text, an error knows its line."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from functools import cached_property
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from crowdwise.labels.byte_source import HEAD
from crowdwise.labels.columns import ROLES, Columns, candidates
from crowdwise.labels.csv_quotes import Quotes, find_stray_quotes
from crowdwise.labels.errors import SHOWN, InputError, InputWarning, listing, quote
from crowdwise.labels.source_location import Place, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crowdwise.labels.byte_source import Blob

__all__ = ["delimited_columns", "nul_byte_error"]

DELIMITERS = (",", ";", "\t", "|")
SAMPLED = 50
BLOCK = 1 << 22  # bytes at a time
EXCEL_LINE = re.compile(rb"(\xef\xbb\xbf)?sep=[^\r\n]?\r?\n")
MARKDOWN = re.compile(
    rb"\A[^\r\n]*\|[^\r\n]*\r?\n[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(\|[ \t]*:?-{2,}:?[ \t]*)+\|?[ \t]*(\r|\n|\Z)"
)
ESCAPED_QUOTE = re.compile(rb'\\"[^,;\t|\r\n"]')  # a quote inside a field, as some programs write it
UNSEEN = "\ufeff\u200b\u200c\u200d\u2060"  # around the name of a column


def delimited_columns(blob: Blob, head: bytes) -> Columns:
    """Columns of a delimited text file, as strings; only those asked for are read."""
    if not head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].strip():
        raise InputError(
            f"{blob.name}, line 1 is blank. Begin the file with its header line, such as task,worker,label."
        )
    if EXCEL_LINE.match(head):
        raise InputError(f"{blob.name}, line 1 is meant for Excel alone (sep=). Remove it: the separator is found.")
    if MARKDOWN.search(head):
        raise InputError(
            f"{blob.name} is a table as Markdown writes it (a line of dashes under the header). Save it as CSV."
        )
    if len(head) == HEAD and b"\n" not in head:  # a header of many columns
        head = blob.first_line(BLOCK)
    text = _Delimited(blob, *_dialect(blob, head))
    text.check_bytes(head)
    return Columns(text.header, text.column, place=Place(blob.name, "line", text.line), text=True, batches=text.batches)


class _Delimited:
    def __init__(self, blob: Blob, delimiter: str, header: list[str]) -> None:
        self.blob, self.delimiter, self.header = blob, delimiter, header
        self.skips_headers = False

    def column(self, name: str) -> pa.ChunkedArray:
        """Read one column whole."""
        return pa.chunked_array([chunk for (chunk,) in self.batches([name])], pa.string())

    def batches(self, names: list[str]) -> Iterator[list[pa.Array]]:
        """Read several columns, some megabytes at a time."""
        first = {name: place for place, name in reversed(list(enumerate(self.header)))}
        places = [first[name] for name in names]
        if not self.skips_headers:
            yield from self.read_columns(places)
            return
        for batch in self.read_columns(range(len(self.header))):
            kept = pa.array(~self.find_headers(batch))
            yield [batch[place].filter(kept) for place in places]

    def read_columns(self, places: Iterable[int]) -> Iterator[list[pa.Array]]:
        """Read columns by position: a header may repeat names that nobody asked for."""
        chosen = [str(place) for place in places]
        try:
            yield from (
                batch.columns
                for batch in pacsv.open_csv(
                    self.blob.open_for_arrow(),
                    read_options=pacsv.ReadOptions(
                        column_names=[str(place) for place in range(len(self.header))],
                        skip_rows_after_names=1,
                        block_size=BLOCK,
                    ),
                    parse_options=pacsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                    convert_options=pacsv.ConvertOptions(
                        include_columns=chosen, column_types=dict.fromkeys(chosen, pa.string())
                    ),
                )
            )
        except (pa.ArrowException, OSError) as error:
            raise self.explain_arrow_error(error) from error

    def check_bytes(self, head: bytes) -> None:
        """Go through the file once for what would be read wrongly without a word.

        A quote that is never closed would swallow the rows after it; a NUL byte is no text; a backslash does not escape
        a quote; and the header again, where files were put together with `cat`, would be an answer. Rows that repeat it
        are left out.
        """
        header = head.removeprefix(b"\xef\xbb\xbf").replace(b"\r", b"\n").split(b"\n", 1)[0]
        cut = max(len(header) - 1, 1)  # bytes of a header that the end of a block may cut off
        quotes, lines, headers, before = Quotes(), 0, 0, b""
        escaped: int | None = None
        for block in self.blob.blocks():
            if b"\0" in block:
                raise nul_byte_error(self.blob.name, lines + block[: block.index(b"\0")].count(b"\n") + 1)
            if escaped is None and b'\\"' in block and (found := ESCAPED_QUOTE.search(block)):
                escaped = lines + block[: found.start()].count(b"\n") + 1
            quotes.look(block)
            lines += block.count(b"\n")
            headers += block.count(header) + (before + block[:cut]).count(header)
            before = (before + block[max(0, len(block) - cut) :])[-cut:]
        if quotes.are_doubtful:
            self.check_quotes()
        if escaped is not None:
            warnings.warn(
                f"{self.blob.name}, line {escaped}: a quote behind a backslash. CSV has no such escape, and the field "
                'may be read otherwise than meant: write a quote that belongs to a name as "" inside quotes.',
                InputWarning,
                stacklevel=2,
            )
        if headers > 1:
            self.leave_out_headers()

    def leave_out_headers(self) -> None:
        """Leave out rows that repeat the header, and say so; where there are none, read on as before."""
        repeated = [number for number, record in self.records() if self.is_header(record)][1:]
        if repeated:
            self.skips_headers = True
            where = Place(self.blob.name, "line").name_rows(repeated)
            warnings.warn(
                f"{where}: the header again, which is left out. Were several files put together?",
                InputWarning,
                stacklevel=2,
            )

    def is_header(self, record: list[str]) -> bool:
        """Whether a record holds the names of the columns."""
        return [_clean_name(name) for name in record] == self.header

    def find_headers(self, columns: list[pa.Array]) -> np.ndarray[Any, Any]:
        """Mark the rows that repeat the header."""
        likely = np.ones(len(columns[0]), np.bool_)
        for column, name in zip(columns, self.header, strict=True):
            likely &= pc.match_substring(column, name).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(likely).tolist():
            likely[row] = self.is_header([column[row].as_py() for column in columns])
        return likely

    def check_quotes(self) -> None:
        """Refuse a quote that is never closed, and warn of rows that quotes seem to have made one."""
        stray = find_stray_quotes(self.blob.blocks(), self.delimiter)
        if stray.never_closed is not None:
            raise InputError(
                f"{self.blob.name}, line {stray.never_closed}: a double quote is opened and never closed. Close it, or "
                'write a quote that belongs to a name as "" inside quotes.'
            )
        if stray.closed_amid is not None:
            begin, end = stray.closed_amid
            warnings.warn(
                f"{self.blob.name}: a double quote that is opened on line {begin} is closed on line {end}, and more "
                "text follows in the same field. The lines are read as one row; is the quote on "
                f'line {begin} meant? Write a quote that belongs to a name as "" inside quotes.',
                InputWarning,
                stacklevel=2,
            )

    def explain_arrow_error(self, error: Exception) -> InputError:
        """Find the lines that Arrow stumbled over."""
        size, lines, decoder = 0, 0, codecs.getincrementaldecoder("utf-8")()
        for block in self.blob.blocks():  # which says so if compressed data are damaged
            try:
                decoder.decode(block)
            except UnicodeDecodeError as wrong:
                number = lines + wrong.object[: wrong.start].count(b"\n") + 1
                return _not_utf8_error(self.blob.name, number, wrong.object[wrong.start])
            size, lines = size + len(block), lines + block.count(b"\n")
        if "straddl" in str(error) and size > BLOCK:  # a line that need not fit the memory
            return InputError(
                f"{self.blob.name} has a row of more than {BLOCK >> 20} MB: probably a quote that is never closed. "
                "Mend that row."
            )
        width = len(self.header)
        ragged = ((number, len(record)) for number, record in self.records() if record and len(record) != width)
        found = list(islice(ragged, SHOWN))
        if found:
            shown = ", ".join(f"line {number} has {fields}" for number, fields in found)
            return InputError(
                f"{self.blob.name}: the header has {format_count(width, 'field')}, but {shown}. Quote a field "
                f"that contains {quote(self.delimiter)} or a line break, and give every row the same fields."
            )
        if next(islice(self.records(), 1, None), None) is None:  # a header without the end of its line
            return InputError(f"{self.blob.name} has columns but no rows. Give a row for each answer.")
        if "zlib" in str(error):  # bytes behind the end, which Python's gzip leaves out if they are zero
            return self.blob.gzip_error()
        return InputError(f"{self.blob.name} cannot be read as a table: {str(error).splitlines()[0]}")

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Read records as Python does, with the line they begin on: slow, for errors only."""
        with io.TextIOWrapper(self.blob.stream(), encoding="utf-8-sig", errors="replace", newline="") as text:
            reader = csv.reader(text, delimiter=self.delimiter)
            begin = 1
            try:
                for record in reader:
                    yield begin, record
                    begin = reader.line_num + 1
            except csv.Error:  # a field beyond csv's limit: what came before stands
                return

    @cached_property
    def has_one_record_per_line(self) -> bool:
        """Whether record after record stands on line after line: no quotes, no blank lines."""
        return all(line.strip() and b'"' not in line and b"\r" not in line[:-2] for line in self.blob.lines())

    def line(self, row: int) -> int:
        """Find the line on which the n-th record after the header begins."""
        if self.has_one_record_per_line and not self.skips_headers:
            return row + 2
        skipped = self.is_header if self.skips_headers else lambda _: False
        records = (number for place, (number, record) in enumerate(filter(itemgetter(1), self.records()))
                   if place == 0 or not skipped(record))  # fmt: skip
        return next(islice(records, row + 1, None), row + 2)


def nul_byte_error(name: str, line: int) -> InputError:
    """Make the error for a NUL byte in text."""
    return InputError(
        f"{name}, line {line}: a NUL byte; this is not a text table. Give CSV, TSV, JSON lines, Parquet or Arrow."
    )


def _not_utf8_error(name: str, line: int, byte: int) -> InputError:
    return InputError(
        f"{name}, line {line}: byte 0x{byte:02x} is not UTF-8. Save the file as UTF-8 "
        "(it may be Latin-1 or Windows-1252 now)."
    )


def _clean_name(name: str) -> str:
    """The name of a column without what is not seen around it."""
    return name.strip().strip(UNSEEN).strip()


def _dialect(blob: Blob, head: bytes) -> tuple[str, list[str]]:
    """Find the delimiter that makes the most sense of the first records, and the header."""
    whole = len(head) < HEAD
    sample = head if whole else head[: head.rfind(b"\n") + 1] or head
    try:  # what is cut off in the middle of a letter is no fault of the file
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(sample, final=whole or sample.endswith(b"\n"))
    except UnicodeDecodeError as error:
        number = sample[: error.start].count(b"\n") + 1
        raise _not_utf8_error(blob.name, number, sample[error.start]) from error
    best: tuple[tuple[int, float, int], str, list[str]] | None = None
    too_long = False
    for delimiter in DELIMITERS:
        try:
            rows = [
                row for row in islice(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), SAMPLED) if row
            ]
        except csv.Error as error:
            too_long = too_long or "field larger" in str(error)
            continue
        if not rows:
            continue
        header = [_clean_name(name) for name in rows[0]]
        width = len(header)
        known = sum(bool(candidates(role, header)) for role in ROLES) if width > 1 else 0
        even = sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0.0
        # ">" keeps the earlier delimiter on a tie: a comma before the rest.
        score = (known, even, width)
        if best is None or score > best[0]:
            best = (score, delimiter, header)
    if best is None and too_long:
        raise InputError(
            f"{blob.name}: a field of its first lines has more than {csv.field_size_limit():,} letters. Shorten it, or "
            "close the quote that it begins with."
        )
    if best is None:
        raise InputError(f"{blob.name} cannot be read as a table. Give CSV, TSV, JSON lines, Parquet or Arrow.")
    if all(not name for name in best[2]):
        raise InputError(f"{blob.name}, line 1: the header is empty. Name the columns: {listing(ROLES)}.")
    return best[1], best[2]
