"""Parquet as a stranger might write it, byte by byte: a column "name" of integers, pages without values."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["EMPTY_PAGE", "make_column", "make_footer", "make_group", "write_parquet"]

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12  # of Thrift's compact protocol


def _varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def _number(number: int) -> bytes:
    return _varint(2 * number if number >= 0 else -2 * number - 1)


def _text(text: str) -> bytes:
    return _varint(len(text)) + text.encode()


def _list(kind: int, items: list[bytes]) -> bytes:
    length = bytes([len(items) << 4 | kind]) if len(items) < 15 else bytes([0xF0 | kind]) + _varint(len(items))
    return length + b"".join(items)


def _struct(*fields: tuple[int, int, bytes]) -> bytes:
    found, before = b"", 0
    for number, kind, value in fields:
        found, before = found + bytes([(number - before) << 4 | kind]) + value, number
    return found + b"\0"


EMPTY_PAGE = _struct(
    (1, I32, _number(0)), (2, I32, _number(0)), (3, I32, _number(0)),
    (5, STRUCT, _struct((1, I32, _number(0)), (2, I32, _number(0)), (3, I32, _number(3)), (4, I32, _number(3)))),
)  # fmt: skip
SCHEMA = _list(
    STRUCT,
    [
        _struct((4, BINARY, _text("schema")), (5, I32, _number(1))),
        _struct((1, I32, _number(2)), (3, I32, _number(1)), (4, BINARY, _text("name"))),
    ],
)


def make_column(n_values: int, size: int, codec: int = 0) -> bytes:
    """A column chunk of so many values, in so many bytes from the beginning of the file on."""
    held = _struct(
        (1, I32, _number(2)), (2, LIST, _list(I32, [_number(0)])), (3, LIST, _list(BINARY, [_text("name")])),
        (4, I32, _number(codec)), (5, I64, _number(n_values)), (6, I64, _number(size)), (7, I64, _number(size)),
        (9, I64, _number(4)),
    )  # fmt: skip
    return _struct((2, I64, _number(0)), (3, STRUCT, held))


def make_group(columns: list[bytes], n_rows: int, size: int) -> bytes:
    """A row group."""
    return _struct((1, LIST, _list(STRUCT, columns)), (2, I64, _number(size)), (3, I64, _number(n_rows)))


def make_footer(groups: list[bytes], n_rows: int) -> bytes:
    """What a file says of itself at its end."""
    return _struct((1, I32, _number(1)), (2, LIST, SCHEMA), (3, I64, _number(n_rows)), (4, LIST, _list(STRUCT, groups)))


def write_parquet(path: Path, body: bytes, footer: bytes) -> None:
    """Put a file together."""
    path.write_bytes(b"PAR1" + body + footer + len(footer).to_bytes(4, "little") + b"PAR1")
