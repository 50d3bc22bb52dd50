"""Structures of Thrift's compact protocol, read and written as far as Parquet's footers and page headers need it.

A field is kept with its kind: where a program expects another kind, it takes the field for missing, and so must whoever
checks a file for it.
"""

from __future__ import annotations

from typing import Any

from crowdwise.labels.errors import InputError

__all__ = ["BINARY", "I32", "I64", "LIST", "STRUCT", "Fields", "read_struct", "take", "write_list", "write_struct"]

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 12
LONGEST_NUMBER = 10  # bytes of 64 bits
DEEPEST = 16
Fields = dict[int, tuple[int, Any]]
_NEEDED = object()


def take(fields: Fields, number: int, kind: int, otherwise: Any = _NEEDED) -> Any:
    """A field's value; where it is missing, or of another kind, what it is otherwise, or an error."""
    found_kind, value = fields.get(number, (None, None))
    if found_kind == kind:
        return value
    if otherwise is _NEEDED:
        raise InputError("a table lacks something that every table has")
    return otherwise


def read_struct(data: bytes, at: int, depth: int = 0) -> tuple[Fields, int]:
    """The fields of a structure by number, and where it ends; lists are pairs of a kind and values."""
    if depth > DEEPEST:
        raise InputError("the structures of a table are nested too deeply")
    fields: Fields = {}
    number = 0
    while data[at]:
        step, kind = data[at] >> 4, data[at] & 15
        at += 1
        if not step:
            raise InputError("a structure of a table is damaged")
        number += step
        value, at = _read_value(data, at, kind, depth)
        fields[number] = kind, value
    return fields, at + 1


def _read_value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (TRUE, FALSE):
        return kind == TRUE, at
    if kind in (I16, I32, I64):
        value, at = _read_number(data, at)
        signed = (value >> 1) ^ -(value & 1)
        if kind != I64 and not -(2**31) <= signed < 2**31:
            raise InputError("a number of a table is longer than its kind")
        return signed, at
    if kind == BINARY:
        length, at = _read_number(data, at)
        if at + length > len(data):
            raise InputError("a text of a table is longer than the table")
        return data[at : at + length], at + length
    if kind in (BYTE, DOUBLE):
        return None, at + (1 if kind == BYTE else 8)
    if kind == LIST:
        return _read_list(data, at, depth)
    if kind == STRUCT:
        return read_struct(data, at, depth + 1)
    raise InputError("a structure of a table is damaged")


def _read_list(data: bytes, at: int, depth: int) -> tuple[tuple[int, list[Any]], int]:
    length, kind = data[at] >> 4, data[at] & 15
    at += 1
    if length == 15:
        length, at = _read_number(data, at)
    if kind in (TRUE, FALSE) or length > len(data) - at:  # in a list, a truth value takes a byte
        raise InputError("a list of a table is damaged")
    values = []
    for _ in range(length):
        value, at = _read_value(data, at, kind, depth)
        values.append(value)
    return (kind, values), at


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * LONGEST_NUMBER, 7):
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise InputError("a number of a table is longer than 64 bits")


def write_struct(*fields: tuple[int, int, Any]) -> bytes:
    """A structure of (number, kind, value), in the order of the numbers; lists and structures are bytes already."""
    found, before = b"", 0
    for number, kind, value in fields:
        found += bytes([(number - before) << 4 | kind]) + _write_value(kind, value)
        before = number
    return found + b"\0"


def write_list(kind: int, values: list[Any]) -> bytes:
    """A list of values of one kind."""
    length = bytes([0xF0 | kind]) + _write_number(len(values))
    return length + b"".join(_write_value(kind, value) for value in values)


def _write_value(kind: int, value: Any) -> bytes:
    if kind in (I32, I64):
        return _write_number(2 * value if value >= 0 else -2 * value - 1)
    written: bytes = _write_number(len(value)) + value if kind == BINARY else value
    return written


def _write_number(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
