"""Columns that grow row by row: lists that go over into Arrow arrays, so that a large export stays small in memory."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["GrowingTable", "as_array"]

ROWS = 1 << 14  # that are held as Python objects before they become Arrow arrays
TIME = pa.timestamp("us", "UTC")


class GrowingTable:
    """A table to which rows are added.

    Parameters
    ----------
    names
        The columns. One called "time" is kept as points in time where it holds dates as ISO 8601 writes them.
    """

    def __init__(self, *names: str) -> None:
        self.names = names
        self.n_rows = 0
        self._rows: list[tuple[Any, ...]] = []
        self._chunks: list[list[pa.Array]] = [[] for _ in names]

    def add(self, *row: Any) -> None:
        """Add one row: a value for each column."""
        self._rows.append(row)
        if len(self._rows) == ROWS:
            self._pack()

    def __len__(self) -> int:
        return self.n_rows + len(self._rows)

    def _pack(self) -> None:
        if self._rows:
            for name, chunks, values in zip(self.names, self._chunks, zip(*self._rows, strict=True), strict=True):
                chunks.append(_as_times(as_array(values)) if name == "time" else as_array(values))
        self.n_rows += len(self._rows)
        self._rows = []

    def to_table(self) -> pa.Table:
        """All rows, as an Arrow table."""
        self._pack()
        return pa.table({name: _join(chunks) for name, chunks in zip(self.names, self._chunks, strict=True)})


def as_array(values: tuple[Any, ...]) -> pa.Array:
    """An array of values; where their types differ, as text."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeEncodeError):
        return pa.array([None if value is None else _as_text(value) for value in values], pa.string())


def _as_text(value: Any) -> str:
    return str(value).encode("utf-8", "replace").decode()  # a lone surrogate is no text


def _as_times(array: pa.Array) -> pa.Array:
    if not pa.types.is_string(array.type):
        return array
    try:
        return array.cast(TIME)
    except pa.ArrowInvalid:
        return array


def _join(chunks: list[pa.Array]) -> pa.ChunkedArray:
    kinds = list(dict.fromkeys(chunk.type for chunk in chunks if not pa.types.is_null(chunk.type)))
    if not kinds:
        return pa.chunked_array([chunk.cast(pa.string()) for chunk in chunks], pa.string())
    if len(kinds) == 1:
        return pa.chunked_array([chunk.cast(kinds[0]) for chunk in chunks], kinds[0])
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        return pa.chunked_array([chunk.cast(pa.float64()) for chunk in chunks], pa.float64())
    texts = [chunk if pa.types.is_string(chunk.type) else _cast_to_text(chunk) for chunk in chunks]
    return pa.chunked_array(texts, pa.string())


def _cast_to_text(array: pa.Array) -> pa.Array:
    if pa.types.is_nested(array.type):
        return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())
    return pc.cast(array, pa.string())
