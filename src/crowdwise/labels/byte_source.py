"""Bytes of a file, of standard input or of an open stream, plain or gzipped."""

from __future__ import annotations

import difflib
import gzip
import io
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Blob", "open_blob"]

HEAD = 1 << 16
GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Blob:
    """Something to read, as often as needed."""

    name: str
    path: Path | None
    data: bytes
    gz: bool

    def stream(self) -> BinaryIO:
        """Open it for reading in Python, decompressed."""
        source = io.BytesIO(self.data) if self.path is None else self.path
        if self.gz:
            return gzip.open(source, "rb")  # type: ignore[return-value]
        return source if isinstance(source, io.BytesIO) else source.open("rb")

    def open_for_arrow(self) -> Any:
        """Open it for Arrow, decompressed and in sequence."""
        raw = pa.BufferReader(self.data) if self.path is None else pa.OSFile(str(self.path))
        return pa.CompressedInputStream(raw, "gzip") if self.gz else raw

    def open_for_random_access(self) -> Any:
        """Open it for Arrow with random access; gzipped data is held in memory."""
        return pa.BufferReader(self.all()) if self.gz or self.path is None else pa.memory_map(str(self.path))

    def head(self) -> bytes:
        """Read the first 64 KiB, decompressed."""
        with self.stream() as stream:
            return self._read_or_raise_input_error(lambda: stream.read(HEAD))

    def all(self) -> bytes:
        """Read everything, decompressed."""
        with self.stream() as stream:
            return self._read_or_raise_input_error(stream.read)

    def lines(self) -> Iterator[bytes]:
        """Read physical lines, decompressed."""
        with self.stream() as stream:
            yield from stream

    def blocks(self) -> Iterator[bytes]:
        """Read everything, decompressed, some at a time."""
        with self.stream() as stream:
            while block := self._read_or_raise_input_error(lambda: stream.read(1 << 24)):
                yield block

    def gzip_error(self) -> InputError:
        """Make the error for gzip data that does not decompress."""
        return InputError(f"{self.name} is gzipped, but damaged or cut short. Copy or download it again.")

    def _read_or_raise_input_error(self, read: Any) -> bytes:
        try:
            result: bytes = read()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self.gzip_error() from error
        except OSError as error:
            raise InputError(f"{self.name} cannot be read: {error.strerror or error}.") from error
        return result


def open_blob(source: Any) -> Blob:
    """Take a path, "-" for standard input, or an open file, and check that it can be read at all."""
    if source == "-":
        return _hold_bytes("standard input", sys.stdin.buffer.read())
    if hasattr(source, "read"):
        data = source.read()
        name = Path(str(getattr(source, "name", "the stream"))).name
        return _hold_bytes(name, data.encode() if isinstance(data, str) else data)
    path = Path(source)
    try:
        with path.open("rb") as file:
            if not path.is_file():  # a pipe gives its bytes once
                return _hold_bytes(path.name, file.read())
            magic = file.read(2)
    except FileNotFoundError:
        raise InputError(_missing_file_error(path)) from None
    except IsADirectoryError:
        raise InputError(_folder_error(path)) from None
    except PermissionError:
        raise InputError(f"{quote(str(path))} may not be read by you. Change its permissions.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{quote(str(source))} cannot be opened: {reason}.") from error
    return Blob(path.name, path, b"", magic == GZIP)


def _hold_bytes(name: str, data: bytes) -> Blob:
    return Blob(name, None, data, data.startswith(GZIP))


def _missing_file_error(path: Path) -> str:
    if "\n" in str(path):
        return "There is no such file: a path was expected, not text of several lines. Write it to a file."
    near = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, near, n=3)
    if close:
        return f"There is no file {quote(str(path))}. Did you mean {listing(close)}?"
    here = quote(str(Path.cwd()))
    return f"There is no file {quote(str(path))}. Check the path; relative ones start in {here}."


def _folder_error(path: Path) -> str:
    files = sorted(entry.name for entry in path.iterdir() if entry.is_file() and not entry.name.startswith("."))
    inside = f" It holds {listing(files)}." if files else " It holds no files."
    return f"{quote(str(path))} is a folder; give a file in it.{inside}"
