"""Columns that grow row by row: lists that go over into Arrow arrays, so that a large export stays small in memory."""

from __future__ import annotations

from mmap import mmap
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.errors import InputError, quote

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray

__all__ = ["GrowingTable", "as_array", "as_text", "check_choices", "first_rows", "is_name"]

ROWS = 1 << 12  # that are held as Python objects, ten times as large, before they become Arrow arrays
TIME = pa.timestamp("us", "UTC")
TOGETHER = 4  # arrays that are joined to one


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
        self._columns = [_GrowingColumn() for _ in names]

    def add(self, *row: Any) -> None:
        """Add one row: a value for each column."""
        self._rows.append(row)
        if len(self._rows) == ROWS:
            self._pack()

    def __len__(self) -> int:
        return self.n_rows + len(self._rows)

    def _pack(self) -> None:
        if self._rows:
            for name, column, values in zip(self.names, self._columns, zip(*self._rows, strict=True), strict=True):
                array = as_array(values, name)
                column.add(_as_times(array) if name == "time" else array)
        self.n_rows += len(self._rows)
        self._rows = []

    def to_table(self) -> pa.Table:
        """All rows, as an Arrow table."""
        self._pack()
        return pa.table({name: _join(each.finish()) for name, each in zip(self.names, self._columns, strict=True)})


class _GrowingColumn:
    """Arrays of one column, joined to a few large ones as they come."""

    def __init__(self) -> None:
        self.small: list[pa.Array] = []
        self.large: list[pa.Array] = []

    def add(self, array: pa.Array) -> None:
        """Put an array after those before."""
        if self.small and self.small[0].type != array.type:
            self._join()
        self.small.append(array)
        if len(self.small) == TOGETHER:
            self._join()

    def _join(self) -> None:
        self.large.append(_copy_to_own_pages(pa.concat_arrays(self.small)))
        self.small = []
        pa.default_memory_pool().release_unused()  # Arrow's pool would keep ten megabytes for more of the same

    def finish(self) -> list[pa.Array]:
        """All arrays; others may follow."""
        return self.large + self.small


def _copy_to_own_pages(array: pa.Array) -> pa.Array:
    """The same array in pages that are asked of the system for it alone, and go back to it with the array.

    Taken from a heap, arrays that stay and objects that go lie between each other, and the gaps are not given back:
    a third of the memory.
    """
    batch = pa.record_batch([array], ["values"])
    message = batch.serialize()
    try:
        pages = mmap(-1, message.size)
    except OSError:  # a process may not have more pieces
        return array
    pages.write(message)
    copied: pa.Array = pa.ipc.read_record_batch(pa.py_buffer(pages), batch.schema).column(0)
    return copied


def as_array(values: tuple[Any, ...], name: str | None = None) -> pa.Array:
    """An array of values; where their types differ, as text (lists: of texts).

    What is no Unicode (a lone surrogate) is refused in a column that has a name: replaced, two names would be one.
    """
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeEncodeError):
        there = [value for value in values if value is not None]
        if there and all(isinstance(value, list) for value in there):
            rows = [None if value is None else [as_text(each, name) for each in value] for value in values]
            return pa.array(rows, pa.list_(pa.string()))
        return pa.array([None if value is None else as_text(value, name) for value in values], pa.string())


def as_text(value: Any, name: str | None = None) -> str:
    """A value as text; what is no Unicode is refused where the column has a name, and replaced where it has none."""
    try:
        return str(value).encode().decode()
    except UnicodeEncodeError as error:
        if name is None:
            return str(value).encode("utf-8", "replace").decode()
        raise InputError(
            f"{name!r} of an answer holds text that is not Unicode, half of a surrogate pair: {quote(value)}. Clean it "
            "first."
        ) from error


def first_rows(names: pa.ChunkedArray) -> IntArray:
    """Where each name stands first.

    Sorted, not hashed: Arrow's tables of hashes take several times the memory of the names.
    """
    if pc.all(
        pc.less(names[:-1], names[1:]), skip_nulls=False, min_count=0
    ).as_py():  # numbered one after the other, as a rule
        return np.arange(len(names))
    order = pc.sort_indices(names).to_numpy()  # stable
    ordered = names.take(pa.array(order))
    differs = pc.fill_null(pc.not_equal(ordered[1:], ordered[:-1]), True).to_numpy()
    first: IntArray = np.sort(order[np.append(True, differs)])
    return first


def is_name(value: Any) -> bool:
    """Whether a value can name a task or a worker: a text or a whole number."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def check_choices(chosen: Any) -> list[Any]:
    """What was chosen, if it is a list of texts, numbers or truth values; raises `TypeError` if not.

    A text in place of the list would be taken letter by letter, and a list or nothing in it as the name of a class.
    """
    if not isinstance(chosen, list) or not all(isinstance(each, str | int | float) for each in chosen):
        raise TypeError(f"{quote(chosen)} is no list of names")
    return chosen


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
    if all(map(pa.types.is_list, kinds)):
        return pa.chunked_array([chunk.cast(pa.list_(pa.string())) for chunk in chunks], pa.list_(pa.string()))
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        return pa.chunked_array([chunk.cast(pa.float64()) for chunk in chunks], pa.float64())
    texts = [chunk if pa.types.is_string(chunk.type) else _cast_to_text(chunk) for chunk in chunks]
    return pa.chunked_array(texts, pa.string())


def _cast_to_text(array: pa.Array) -> pa.Array:
    if pa.types.is_nested(array.type):
        return pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())
    return pc.cast(array, pa.string())
