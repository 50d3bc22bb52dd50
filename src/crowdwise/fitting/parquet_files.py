"""Tables of a saved model: Parquet files that are read only if they hold no more than they say.

A few bytes of Parquet can stand for gigabytes: a name that a million rows share, names that share a long beginning,
a page that is compressed a thousandfold. The footer says how long a column is, but each page says anew how it is
encoded, so the pages are walked before Arrow reads them. What `save` does not write is refused.

Arrow ends the process where parts of a footer contradict each other. It never sees a stranger's: what is needed of it
is read here, checked, and written anew.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crowdwise.fitting.thrift_structs import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Fields,
    read_struct,
    take,
    write_list,
    write_struct,
)
from crowdwise.labels.errors import InputError
from crowdwise.labels.regular_files import open_regular_file

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any, BinaryIO

__all__ = ["read_names", "read_numbers"]

MAGIC = b"PAR1"
LONGEST_FOOTER = 1 << 22
LONGEST_PAGE_HEADER = 1 << 16  # with the smallest and the largest value of the page
UNCOMPRESSED, SNAPPY = 0, 1
MOST_EXPANSION = 22  # three bytes of Snappy stand for 64 at most
PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY = 0, 2, 8
ENCODINGS = (PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY)
KNOWN_ENCODINGS = (*ENCODINGS, 3)  # of a column; 3 is that of which values are missing
DATA_PAGE, DICTIONARY_PAGE = 0, 2
OPTIONAL = 1  # of a column: values may be missing, which is how Arrow writes all of them
INT32, INT64, FLOAT, DOUBLE, BYTES = 1, 2, 4, 5, 6
UTF8 = 0
MOST_COLUMNS = 32
MOST_ROW_GROUPS = 1 << 14


class _Column(NamedTuple):
    """A column of a table: its name and type, and whether bytes are text."""

    name: bytes
    kind: int
    is_text: bool


class _Chunk(NamedTuple):
    """The values of a column in one row group: how and where they are kept."""

    encodings: list[int]
    codec: int
    n_values: int
    unpacked: int
    packed: int
    first_page: int
    dictionary_page: int  # 0 where there is none


class _Table(NamedTuple):
    """What a footer says: the columns, and of each row group the rows and a chunk for each column."""

    columns: list[_Column]
    groups: list[tuple[int, list[_Chunk]]]


def read_names(path: Path, n_rows: int) -> pa.Array:
    """The column "name" of so many rows: integers or text."""
    with open_regular_file(path) as file:
        about = _read_footer(file, n_rows)
        by_code = [_check_chunks(file, chunks)[0] for _, chunks in about.groups]
        content = _rewrite(file, about)
    found = pq.ParquetFile(content, pre_buffer=False)
    kind = found.schema_arrow.types[0]
    if found.schema_arrow.names != ["name"] or not (pa.types.is_int64(kind) or pa.types.is_string(kind)):
        raise InputError(f"{path.name} holds {found.schema_arrow.names} of type {kind}, not names")
    if pa.types.is_string(kind):
        _refuse_shared_codes(content, by_code, path.name)
    names: pa.Array = found.read().column(0).combine_chunks()
    names.validate(full=True)
    if len(names) != n_rows:
        raise InputError(f"{path.name} has {len(names):,} rows; there should be {n_rows:,}")
    return names


def _refuse_shared_codes(content: pa.Buffer, by_code: list[int], name: str) -> None:
    """Refuse rows that share a name of the dictionary: a thousand that share a long one need a thousand times its room.

    Those rows come first in each row group, and are read as codes.
    """
    coded = pq.ParquetFile(content, read_dictionary=["name"], pre_buffer=False)
    for group, n_coded in enumerate(by_code):
        if n_coded:
            first = next(coded.iter_batches(n_coded, row_groups=[group])).column(0)
            if not pa.types.is_dictionary(first.type) or len(pc.unique(first.indices)) < len(first):
                raise InputError(f"names are repeated in {name}")


def read_numbers(path: Path, n_rows: int) -> pa.Table:
    """A table of so many rows whose columns are integers or floating-point numbers."""
    with open_regular_file(path) as file:
        if n_rows > os.fstat(file.fileno()).st_size:  # the first column counts the rows: a byte for each, at least
            raise InputError(f"{path.name} is too short for {n_rows:,} rows")
        about = _read_footer(file, n_rows)
        for _, chunks in about.groups:
            _check_chunks(file, chunks)
        content = _rewrite(file, about)
    table = pq.ParquetFile(content, pre_buffer=False).read()
    if not all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in table.schema.types):
        raise InputError(f"{path.name} does not hold numbers")
    if table.num_rows != n_rows:
        raise InputError(f"{path.name} has {table.num_rows:,} rows; there should be {n_rows:,}")
    return table


# ---- the footer -------------------------------------------------------------------------------------------------


def _read_footer(file: BinaryIO, n_rows: int) -> _Table:
    """What a file says of itself; refuses other than so many rows, and parts that contradict each other."""
    size = os.fstat(file.fileno()).st_size
    file.seek(max(size - 8, 0))
    ending = file.read(8)
    length = int.from_bytes(ending[:4], "little")
    if ending[4:] != MAGIC or length > min(LONGEST_FOOTER, size - 8):
        raise InputError("a table does not end as Parquet does, or its footer is too long")
    file.seek(size - 8 - length)
    footer, _ = read_struct(file.read(length), 0)
    columns = [_read_column(each) for each in _take_list(footer, 2, STRUCT)[1:]]
    groups = [_read_group(each, columns) for each in _take_list(footer, 4, STRUCT)]
    if take(footer, 3, I64) != n_rows or sum(n for n, _ in groups) != n_rows or any(n < 0 for n, _ in groups):
        raise InputError(f"the parts of a table do not make {n_rows:,} rows")
    if not 0 < len(columns) <= MOST_COLUMNS or len(groups) > MOST_ROW_GROUPS:
        raise InputError(f"a table has {len(columns)} columns in {len(groups)} row groups")
    if sum(chunk.packed for _, chunks in groups for chunk in chunks) > size:
        raise InputError("the parts of a table overlap")
    return _Table(columns, groups)


def _take_list(fields: Fields, number: int, kind: int) -> list[Any]:
    found_kind, values = take(fields, number, LIST)
    if values and found_kind != kind:
        raise InputError("a list of a table is damaged")
    found: list[Any] = values
    return found


def _read_column(fields: Fields) -> _Column:
    kind = take(fields, 1, I32, None)
    plain = take(fields, 3, I32, None) == OPTIONAL and not take(fields, 5, I32, 0)
    if not plain or kind not in (INT32, INT64, FLOAT, DOUBLE, BYTES):
        raise InputError("a table has columns of a kind that `save` does not write")
    return _Column(take(fields, 4, BINARY), kind, kind == BYTES and take(fields, 6, I32, None) == UTF8)


def _read_group(fields: Fields, columns: list[_Column]) -> tuple[int, list[_Chunk]]:
    n_rows, given = take(fields, 3, I64), _take_list(fields, 1, STRUCT)
    if len(given) != len(columns):
        raise InputError("a part of a table has other columns")
    chunks = []
    for column, each in zip(columns, given, strict=True):
        held = take(each, 3, STRUCT)
        chunk = _Chunk(
            encodings=_take_list(held, 2, I32),
            codec=take(held, 4, I32),
            n_values=take(held, 5, I64),
            unpacked=take(held, 6, I64),
            packed=take(held, 7, I64),
            first_page=take(held, 9, I64),
            dictionary_page=take(held, 11, I64, 0),
        )
        if take(held, 1, I32) != column.kind or chunk.n_values != n_rows or min(0, *chunk[2:]) < 0:
            raise InputError("a part of a table is no part of its columns")
        if chunk.codec not in (UNCOMPRESSED, SNAPPY) or not set(chunk.encodings) <= set(KNOWN_ENCODINGS):
            raise InputError("a column is compressed or encoded in a way that `save` does not use")
        chunks.append(chunk)
    return n_rows, chunks


def _rewrite(file: BinaryIO, about: _Table) -> pa.Buffer:
    """The file with a footer that says what was checked and nothing else."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    content = file.read(size)
    content = content[: size - 8 - int.from_bytes(content[-8:-4], "little")]
    schema = [write_struct((4, BINARY, b"schema"), (5, I32, len(about.columns)))]
    for column in about.columns:
        text = ((6, I32, UTF8),) if column.is_text else ()
        schema.append(write_struct((1, I32, column.kind), (3, I32, OPTIONAL), (4, BINARY, column.name), *text))
    groups = []
    for n_rows, chunks in about.groups:
        written = [_write_chunk(*each) for each in zip(about.columns, chunks, strict=True)]
        size = sum(chunk.unpacked for chunk in chunks)
        groups.append(write_struct((1, LIST, write_list(STRUCT, written)), (2, I64, size), (3, I64, n_rows)))
    footer = write_struct(
        (1, I32, 2),
        (2, LIST, write_list(STRUCT, schema)),
        (3, I64, sum(n_rows for n_rows, _ in about.groups)),
        (4, LIST, write_list(STRUCT, groups)),
    )
    return pa.py_buffer(b"".join([content, footer, len(footer).to_bytes(4, "little"), MAGIC]))


def _write_chunk(column: _Column, chunk: _Chunk) -> bytes:
    dictionary = ((11, I64, chunk.dictionary_page),) if chunk.dictionary_page else ()
    held = write_struct(
        (1, I32, column.kind),
        (2, LIST, write_list(I32, chunk.encodings)),
        (3, LIST, write_list(BINARY, [column.name])),
        (4, I32, chunk.codec),
        (5, I64, chunk.n_values),
        (6, I64, chunk.unpacked),
        (7, I64, chunk.packed),
        (9, I64, chunk.first_page),
        *dictionary,
    )
    return write_struct((2, I64, 0), (3, STRUCT, held))


# ---- the pages --------------------------------------------------------------------------------------------------


def _check_chunks(file: BinaryIO, chunks: list[_Chunk]) -> list[int]:
    """Refuse pages not as `save` writes them; how many values of each column are codes of a dictionary."""
    size = os.fstat(file.fileno()).st_size
    return [_check_pages(file, chunk, size) for chunk in chunks]


def _check_pages(file: BinaryIO, chunk: _Chunk, size: int) -> int:
    """Refuse pages that need more room than they say; count the values that are codes of a dictionary."""
    at = chunk.dictionary_page if 0 < chunk.dictionary_page < chunk.first_page else chunk.first_page
    end = at + chunk.packed
    if not 0 < at <= end <= size:
        raise InputError("a column lies outside the file")
    n_coded, plain = 0, False
    while at < end:
        file.seek(at)
        header, header_length = read_struct(file.read(min(LONGEST_PAGE_HEADER, end - at)), 0)
        kind, unpacked, packed = (take(header, number, I32) for number in (1, 2, 3))
        details = take(header, {DATA_PAGE: 5, DICTIONARY_PAGE: 7}.get(kind, 0), STRUCT, {})
        if take(details, 2, I32, None) not in ENCODINGS or not 0 <= unpacked <= MOST_EXPANSION * packed:
            raise InputError("a page is encoded in a way that `save` does not use")
        if kind == DATA_PAGE:
            coded = take(details, 2, I32) != PLAIN
            if coded and plain:
                raise InputError("pages of codes follow plain ones, which `save` does not write")
            plain, n_coded = not coded, n_coded + take(details, 1, I32) * coded
        at += header_length + packed
    if at != end or not 0 <= n_coded <= chunk.n_values:
        raise InputError("a column is longer than it says")
    return n_coded
