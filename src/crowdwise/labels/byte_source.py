"""Bytes of a file, of standard input or of an open stream, plain or gzipped."""

from __future__ import annotations

import difflib
import gzip
import io
import os
import re
import stat
import sys
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.unseen_characters import escape_letters

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HEAD", "Blob", "open_blob", "refuse_no_path"]

HEAD = 1 << 16
BLOCK = 1 << 24
GZIP = b"\x1f\x8b"
SMALL = 1 << 28  # bytes that gzipped data may unpack to in any case
MOST_TIMES, GZIP_AT_MOST = 200, 1032  # times their size that they may unpack to, and can
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
WAIT = 5.0  # seconds for somebody to begin writing to a named pipe


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
        """Open it for Arrow with random access; gzipped data is held in memory.

        Not memory-mapped: a file that is cut while it is read would end the process with a bus error.
        """
        self.refuse_bomb()
        return pa.BufferReader(self.all()) if self.gz or self.path is None else pa.OSFile(str(self.path))

    def head(self) -> bytes:
        """Read the first 64 KiB, decompressed."""
        with self.stream() as stream:
            return self._read_or_raise_input_error(lambda: stream.read(HEAD))

    def first_line(self, most: int) -> bytes:
        """Read the first line, or this many bytes of it, decompressed."""
        with self.stream() as stream:
            return self._read_or_raise_input_error(lambda: stream.readline(most))

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
            while block := self.read_from(stream, BLOCK):
                yield block

    def read_from(self, stream: BinaryIO, size: int) -> bytes:
        """Read up to so many bytes of a stream that this opened; what is wrong with the file is said in words."""
        return self._read_or_raise_input_error(lambda: stream.read(size))

    def refuse_bomb(self) -> None:
        """Refuse gzipped data that would fill the memory, before they are held there whole."""
        if not self.gz:
            return
        packed = len(self.data) if self.path is None else self.path.stat().st_size
        limit = max(SMALL, MOST_TIMES * packed)
        if packed * GZIP_AT_MOST <= limit:
            return
        size = 0
        for block in self.blocks():
            size += len(block)
            if size > limit:
                raise InputError(
                    f"{self.name} holds more than {MOST_TIMES} times its size once unpacked, as no table does. If it "
                    "is one, unpack it first."
                )

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
    if isinstance(source, Blob):
        return source
    if source == "-":
        return _hold_bytes("standard input", _read_standard_input())
    if hasattr(source, "read"):
        return _read_open_file(source)
    path = Path(refuse_no_path(source))
    name = escape_letters(path.name)
    try:
        # A named pipe would keep a plain `open` waiting for somebody to write to it.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):  # a pipe gives its bytes once
                return _hold_bytes(name, _read_special_file(handle, quote(str(path))))
            magic = os.read(handle, len(GZIP))
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise InputError(_missing_file_error(path)) from None
    except IsADirectoryError:
        raise InputError(_folder_error(path)) from None
    except PermissionError:
        raise InputError(f"{quote(str(path))} may not be read by you. Change its permissions.") from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{quote(str(source))} cannot be opened: {reason}.") from error
    return Blob(name, path, b"", magic == GZIP)


def refuse_no_path(source: Any) -> Any:
    """Refuse a name that is empty, which would mean the folder here, and the address of a file elsewhere."""
    if source == "":
        raise InputError("The name of a file is empty. Give its path.")
    if isinstance(source, str) and ADDRESS.match(source) and not os.path.lexists(source):
        raise InputError(
            f"{quote(source)} is an address, and files of this machine alone are read. Download it, and give its path."
        )
    return source


def _read_standard_input() -> bytes:
    if sys.stdin is None:
        raise InputError("Standard input is closed. Give a file.")
    try:
        handle = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):  # something else stands in for it
        return sys.stdin.buffer.read() if hasattr(sys.stdin, "buffer") else sys.stdin.read().encode()
    if stat.S_ISCHR(os.fstat(handle).st_mode):
        return _read_special_file(handle, "Standard input")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:  # open for writing only
        raise InputError(f"Standard input cannot be read: {error.strerror or error}.") from error


def _read_special_file(handle: int, called: str) -> bytes:
    """Read a pipe or a terminal to its end; other devices have none."""
    about = os.fstat(handle)
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError
    first = b""
    if stat.S_ISFIFO(about.st_mode):
        first = _read_first_bytes(handle, called)
    elif stat.S_ISCHR(about.st_mode) and about.st_rdev == Path(os.devnull).stat().st_rdev:
        return b""
    elif not os.isatty(handle):
        raise InputError(f"{called} is a device, not a file. Give a file, or - for standard input.")
    os.set_blocking(handle, True)
    with open(handle, "rb", closefd=False) as file:
        return first + file.read()


def _read_first_bytes(handle: int, called: str) -> bytes:
    """The first bytes of a pipe, none where its writer takes time; a pipe that nobody opens for writing is refused."""
    os.set_blocking(handle, False)
    limit = time.monotonic() + WAIT
    while time.monotonic() < limit:
        try:
            first = os.read(handle, HEAD)
        except BlockingIOError:  # a writer is there
            return b""
        if first:
            return first
        time.sleep(0.01)
    raise InputError(f"{called} is a pipe to which nobody writes. Give a file, or - for standard input.")


def _read_open_file(source: Any) -> Blob:
    name = escape_letters(Path(str(getattr(source, "name", "the stream"))).name)
    try:
        data = source.read()
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not {error.encoding} text ({error.reason}). Open it in binary mode.") from error
    except Exception as error:  # closed, open for writing only, damaged: whatever a reader raises
        reason = str(getattr(error, "strerror", None) or error).rstrip(".")
        raise InputError(f"{name} cannot be read: {reason}. Give its path, or open it for reading.") from error
    if isinstance(data, str):
        data = data.encode(errors="surrogatepass")  # what is not text is found, and its line named, as in a file
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InputError(f"{name} gives {quote(data)} where bytes or text were expected. Open it for reading.")
    return _hold_bytes(name, bytes(data))


def _hold_bytes(name: str, data: bytes) -> Blob:
    return Blob(name, None, data, data.startswith(GZIP))


def _list_folder(path: Path) -> list[Path]:
    """What is in a folder; nothing where it cannot be seen."""
    try:
        return list(path.iterdir())
    except OSError:
        return []


def _missing_file_error(path: Path) -> str:
    if "\n" in str(path):
        return "There is no such file: a path was expected, not text of several lines. Write it to a file."
    near = [entry.name for entry in _list_folder(path.parent)]
    close = difflib.get_close_matches(path.name, near, n=3)
    if close:
        return f"There is no file {quote(str(path))}. Did you mean {listing(close)}?"
    here = quote(str(Path.cwd()))
    return f"There is no file {quote(str(path))}. Check the path; relative ones start in {here}."


def _folder_error(path: Path) -> str:
    files = sorted(entry.name for entry in _list_folder(path) if entry.is_file() and not entry.name.startswith("."))
    inside = f" It holds {listing(files)}." if files else " It holds no files."
    return f"{quote(str(path))} is a folder; give a file in it.{inside}"
