"""Tables of a saved model: Parquet files that are read only if they hold no more than they say.

A few bytes of Parquet can stand for gigabytes: a name that a million rows share, names that share a long beginning,
a page that is compressed a thousandfold. The footer says how long a column is, but each page says anew how it is
encoded, so the pages are walked before Arrow reads them. What `save` does not write is refused.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crowdwise.labels.errors import InputError
from crowdwise.labels.regular_files import open_regular_file

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

__all__ = ["read_names", "read_numbers"]

MAGIC = b"PAR1"
LONGEST_FOOTER = 1 << 22
LONGEST_PAGE_HEADER = 1 << 16  # with the smallest and the largest value of the page
CODECS = ("SNAPPY", "UNCOMPRESSED")
CODEC_NUMBERS = (0, 1)  # of these, in a footer
MOST_EXPANSION = 22  # three bytes of Snappy stand for 64 at most
PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY = 0, 2, 8
ENCODINGS = (PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY)
DATA_PAGE, DICTIONARY_PAGE = 0, 2
MOST_COLUMNS = 32
MOST_ROW_GROUPS = 1 << 14


def read_names(path: Path, n_rows: int) -> pa.Array:
    """The column "name" of so many rows: integers or text."""
    with open_regular_file(path) as file:
        by_code = _check_file(file, n_rows)
        found = pq.ParquetFile(file, pre_buffer=False)
        kind = found.schema_arrow.types[0]
        if found.schema_arrow.names != ["name"] or not (pa.types.is_int64(kind) or pa.types.is_string(kind)):
            raise InputError(f"{path.name} holds {found.schema_arrow.names} of type {kind}, not names")
        if pa.types.is_string(kind):
            _refuse_shared_codes(file, by_code, path.name)
        names: pa.Array = found.read().column(0).combine_chunks()
    names.validate(full=True)
    if len(names) != n_rows:
        raise InputError(f"{path.name} has {len(names):,} rows; there should be {n_rows:,}")
    return names


def _refuse_shared_codes(file: BinaryIO, by_code: list[int], name: str) -> None:
    """Refuse rows that share a name of the dictionary: a thousand that share a long one need a thousand times its room.

    Those rows come first in each row group, and are read as codes.
    """
    coded = pq.ParquetFile(file, read_dictionary=["name"], pre_buffer=False)
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
        _check_file(file, n_rows)
        table = pq.ParquetFile(file, pre_buffer=False).read()
    if not all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in table.schema.types):
        raise InputError(f"{path.name} does not hold numbers")
    return table


def _check_file(file: BinaryIO, n_rows: int) -> list[int]:
    """Refuse a file of other than so many rows, or with pages not as `save` writes them.

    Gives for each row group how many values of its first column are codes of a dictionary.
    """
    size = os.fstat(file.fileno()).st_size
    file.seek(max(size - 8, 0))
    ending = file.read(8)
    if ending[4:] != MAGIC or int.from_bytes(ending[:4], "little") > min(LONGEST_FOOTER, size):
        raise InputError("a table does not end as Parquet does, or its footer is too long")
    length = int.from_bytes(ending[:4], "little")
    file.seek(max(size - 8 - length, 0))
    _check_footer(file.read(length), n_rows, size)
    about = pq.ParquetFile(file, pre_buffer=False).metadata
    if about.num_rows != n_rows:
        raise InputError(f"a table has {about.num_rows:,} rows; there should be {n_rows:,}")
    if not 0 < about.num_columns <= MOST_COLUMNS or about.num_row_groups > MOST_ROW_GROUPS:
        raise InputError(f"a table has {about.num_columns} columns in {about.num_row_groups} row groups")
    groups = [about.row_group(group) for group in range(about.num_row_groups)]
    counts = [[_check_pages(file, group.column(at), size) for at in range(group.num_columns)] for group in groups]
    return [count[0] for count in counts]


def _check_footer(data: bytes, n_rows: int, size: int) -> None:
    """Refuse a footer whose parts contradict each other, or the file: Arrow ends the process where it meets some."""
    footer, _ = _read_struct(data, 0)
    columns, groups = footer[2][1:], footer.get(4, [])
    if any(each.get(5) or each.get(3) != OPTIONAL for each in columns):
        raise InputError("a table has columns of a kind that `save` does not write")
    if sum(group[3] for group in groups) != n_rows or any(len(group[1]) != len(columns) for group in groups):
        raise InputError(f"the parts of a table do not make {n_rows:,} rows of its columns")
    n_bytes = 0
    for group in groups:
        for about, column in zip(columns, group[1], strict=True):
            held = column[3]
            if held[1] != about[1] or held[4] not in CODEC_NUMBERS or held[5] != group[3]:
                raise InputError("a part of a table is no part of its columns, or is compressed as `save` does not do")
            statistics = held.get(16, {})
            if len(statistics.get(2, [])) > 1 or len(statistics.get(3, [])) not in (0, 2):
                raise InputError("the statistics of a table do not fit its columns")
            n_bytes += held[7]
    if n_bytes > size:
        raise InputError("the parts of a table overlap")


def _check_pages(file: BinaryIO, column: pq.ColumnChunkMetaData, size: int) -> int:
    """Refuse pages that need more room than they say; count the values that are codes of a dictionary."""
    if column.compression not in CODECS:
        raise InputError(f"a column is compressed by {column.compression}, which `save` does not use")
    at = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < at:
        at = column.dictionary_page_offset
    end = at + column.total_compressed_size
    if not 0 < at <= end <= size:
        raise InputError("a column lies outside the file")
    n_coded, plain = 0, False
    while at < end:
        file.seek(at)
        header, header_length = _read_struct(file.read(min(LONGEST_PAGE_HEADER, end - at)), 0)
        kind, unpacked, packed = header[1], header[2], header[3]
        details = header.get(5) if kind == DATA_PAGE else header.get(7) if kind == DICTIONARY_PAGE else None
        if details is None or details[2] not in ENCODINGS or not 0 <= unpacked <= MOST_EXPANSION * packed:
            raise InputError("a page is encoded in a way that `save` does not use")
        if kind == DATA_PAGE:
            coded = details[2] != PLAIN
            if coded and plain:
                raise InputError("pages of codes follow plain ones, which `save` does not write")
            plain, n_coded = not coded, n_coded + details[1] * coded
        at += header_length + packed
    if at != end or not 0 <= n_coded <= column.num_values:
        raise InputError("a column is longer than it says")
    return n_coded


# ---- Thrift's compact protocol, as far as page headers need it -------------------------------------------------

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12
LONGEST_VARINT = 10  # bytes of 64 bits
OPTIONAL = 1  # of a column: values may be missing, which is how Arrow writes all of them


def _read_struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """The fields of a structure by number, and where it ends."""
    fields: dict[int, Any] = {}
    number = 0
    while data[at]:
        step, kind = data[at] >> 4, data[at] & 15
        at += 1
        if not step:
            raise InputError("a page header is damaged")
        number += step
        fields[number], at = _read_value(data, at, kind)
    return fields, at + 1


def _read_value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (TRUE, FALSE):
        return kind == TRUE, at
    if kind in (I16, I32, I64):
        value, at = _read_varint(data, at)
        return (value >> 1) ^ -(value & 1), at
    if kind == BINARY:
        length, at = _read_varint(data, at)
        return None, at + length
    if kind in (BYTE, DOUBLE):
        return None, at + (1 if kind == BYTE else 8)
    if kind == LIST:
        return _read_list(data, at)
    if kind == STRUCT:
        return _read_struct(data, at)
    raise InputError("a page header is damaged")


def _read_list(data: bytes, at: int) -> tuple[list[Any], int]:
    length, kind = data[at] >> 4, data[at] & 15
    at += 1
    if length == 15:
        length, at = _read_varint(data, at)
    values = []
    for _ in range(length):
        if kind in (TRUE, FALSE):  # in a list, a truth value takes a byte
            raise InputError("a footer is damaged")
        value, at = _read_value(data, at, kind)
        values.append(value)
    return values, at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, LONGEST_VARINT * 7, 7):
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise InputError("a number of a table is longer than 64 bits")
