"""Arrays of a saved model: npz files whose sizes are checked before any of them is read into memory.

`save` does not compress arrays, so a file that does is refused: what its arrays need is then never more than the bytes
that are there.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.regular_files import open_regular_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["StoredArrays", "open_arrays"]

SUFFIX = ".npy"
MOST_AT_ONCE = 1 << 20  # bytes: of the list of the arrays as well, which zipfile reads whole
KINDS = "fiubU"  # of arrays: numbers and text, never objects


class _PartByPart(io.BufferedReader):
    """A file that refuses to be read by more than `MOST_AT_ONCE` bytes at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read so many bytes, or all that are left."""
        wanted = MOST_AT_ONCE + 1 if size is None or size < 0 else size
        part = super().read(min(wanted, MOST_AT_ONCE + 1))
        if len(part) > MOST_AT_ONCE:
            raise InputError(f"its list of arrays is longer than {MOST_AT_ONCE:,} bytes")
        return part


@dataclass(frozen=True)
class StoredArrays:
    """The arrays of an open npz file: shape and type of each by name; `read` gives one."""

    archive: zipfile.ZipFile
    found: dict[str, tuple[tuple[int, ...], np.dtype[Any]]]  # shape and type of each array

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """Read one array, in C order."""
        with self.archive.open(name + SUFFIX) as stream:
            shape, fortran_order, dtype = _read_header(stream)
            values = np.empty(shape[::-1] if fortran_order else shape, dtype)
            buffer, at = values.reshape(-1).view(np.uint8), 0
            while part := stream.read(MOST_AT_ONCE):  # until the end, where zipfile compares the checksum
                buffer[at : at + len(part)] = np.frombuffer(part, np.uint8)
                at += len(part)
        return np.ascontiguousarray(values.T) if fortran_order else values


@contextmanager
def open_arrays(path: Path) -> Iterator[StoredArrays]:
    """Open an npz file as `save` writes it; what is compressed, repeated, cut short or no plain array is refused."""
    with open_regular_file(path) as plain:
        size = os.fstat(plain.fileno()).st_size
        with _PartByPart(plain.raw) as file, zipfile.ZipFile(file) as archive:
            yield StoredArrays(archive, _read_headers(archive, size))


def _read_headers(archive: zipfile.ZipFile, size: int) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    members = archive.infolist()
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or not member.filename.endswith(SUFFIX):
            raise InputError(f"{quote(member.filename)} is compressed or no array; `save` writes neither")
    if len({member.filename for member in members}) < len(members) or sum(each.file_size for each in members) > size:
        raise InputError("its arrays are repeated, or say that they are longer than the file")
    found = {}
    for member in members:
        with archive.open(member) as stream:
            shape, _, dtype = _read_header(stream)
            # Text of no length takes no bytes, however many there are of it; NumPy makes none.
            if (
                dtype.kind not in KINDS
                or not dtype.itemsize
                or stream.tell() + math.prod(shape) * dtype.itemsize != member.file_size
            ):
                raise InputError(f"{quote(member.filename)} has type {dtype} and shape {shape}, but other bytes")
        found[member.filename.removesuffix(SUFFIX)] = (shape, dtype)
    return found


def _read_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether the order is Fortran's, and type."""
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise InputError(f"an array of version {version}")
    return npy.read_array_header_1_0(stream) if version == (1, 0) else npy.read_array_header_2_0(stream)
