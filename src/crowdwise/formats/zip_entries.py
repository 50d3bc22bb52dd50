"""One file of a zip archive, without going through the list of all files again: archives of logs hold thousands.

Python's own module reads the list each time that it opens an archive, and knows Zstandard, with which logs of
evaluations are packed, only from Python 3.14 on.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

if TYPE_CHECKING:
    from crowdwise.labels.byte_source import Blob

__all__ = ["read_entry"]

HEADER = struct.Struct("<4s22xHH")  # of a file: magic, …, length of its name, length of what stands after it
MAGIC = b"PK\x03\x04"
ZSTANDARD = 93


def read_entry(blob: Blob, entry: zipfile.ZipInfo) -> bytes:
    """The bytes of a file, unpacked; raises `zipfile.BadZipFile` where they are not what the archive's list says."""
    with blob.stream() as stream:
        packed = _read_packed(stream, entry)
    try:
        data = _unpack(packed, entry)
    except (zlib.error, OSError, pa.ArrowException) as error:
        raise zipfile.BadZipFile(str(error)) from error
    if len(data) != entry.file_size or zlib.crc32(data) != entry.CRC:
        raise zipfile.BadZipFile("its checksum differs")
    return data


def _read_packed(stream: BinaryIO, entry: zipfile.ZipInfo) -> bytes:
    stream.seek(entry.header_offset)
    head = stream.read(HEADER.size)
    if len(head) < HEADER.size:
        raise zipfile.BadZipFile("it is cut short")
    magic, name, extra = HEADER.unpack(head)
    if magic != MAGIC:
        raise zipfile.BadZipFile("it does not begin where the list says")
    stream.seek(name + extra, 1)
    return stream.read(entry.compress_size)


def _unpack(packed: bytes, entry: zipfile.ZipInfo) -> bytes:
    """The file, never more than one byte longer than the list says."""
    size = entry.file_size + 1
    if entry.compress_type == zipfile.ZIP_STORED:
        return packed[:size]
    if entry.compress_type == zipfile.ZIP_DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, size)
    if entry.compress_type == ZSTANDARD:
        data: bytes = pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read(size)
        return data
    raise zipfile.BadZipFile(f"it is packed by method {entry.compress_type}, which is not read")
