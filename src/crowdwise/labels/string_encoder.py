"""Numbering text by first appearance, batch after batch, with one table for the whole column.

Arrow's own encoders keep a dictionary for each chunk, or need the whole column at once. This hash table takes
one batch at a time, so that a file never has to be in memory whole, and takes about half of Arrow's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from collections.abc import Collection

    from crowdwise.labels.types import IntArray

__all__ = ["Interner"]

Numbers: TypeAlias = np.ndarray[Any, Any]  # of several widths, signed and not

SMALLEST = 1 << 12
BATCH = 1 << 16  # rows at a time: the table is sized for the worst case of one batch


class Interner:
    """Gives each distinct text a number, in order of first appearance.

    The first rows are numbered by Arrow and a dict; where more come than NumPy would be chosen for, the texts so far
    move to a compiled hash table, in their order, and so keep their numbers.
    """

    def __init__(self) -> None:
        self.codes: list[IntArray] = []
        self.n_rows = 0
        self.numbers: dict[bytes, int] = {}
        self.table: _HashTable | None = None

    @property
    def count(self) -> int:
        """How many texts are different."""
        return len(self.numbers) if self.table is None else self.table.count

    def add(self, array: pa.Array) -> None:
        """Give numbers to the texts of one batch, which holds no nulls."""
        array = _as_string(array)
        self.n_rows += len(array)
        if self.table is None and choose_engine(self.n_rows, 1) == "numba":
            self.table = _HashTable()
            self.table.number(_bytes_to_strings(self.numbers))
        if self.table is not None:
            self.codes += [self.table.number(array.slice(begin, BATCH)) for begin in range(0, len(array), BATCH)]
        else:
            binary = pa.binary() if pa.types.is_string(array.type) else pa.large_binary()  # text is checked at the end
            encoded = array.cast(binary).dictionary_encode()
            known = [self.numbers.setdefault(text, len(self.numbers)) for text in encoded.dictionary.to_pylist()]
            self.codes.append(np.array(known, np.int32)[encoded.indices.to_numpy(zero_copy_only=False)])

    def finish(self) -> tuple[IntArray, pa.Array]:
        """Hand over all numbers and the texts they stand for, checked to be UTF-8."""
        codes = np.concatenate(self.codes) if self.codes else np.zeros(0, np.int32)
        names = _bytes_to_strings(self.numbers) if self.table is None else self.table.names()
        self.__init__()  # type: ignore[misc]  # lets go of the table
        names.validate(full=True)
        return codes, names


class _HashTable:
    """Texts and their numbers, where they are many."""

    def __init__(self) -> None:
        self.count = 0
        # A slot holds the low 32 bits of the hash above the number plus one; zero is free.
        self.slots: Numbers = np.zeros(SMALLEST, np.uint64)
        self.starts: Numbers = np.zeros(SMALLEST, np.int64)
        self.bytes: Numbers = np.empty(16 * SMALLEST, np.uint8)

    def number(self, array: pa.Array) -> IntArray:
        """Numbers of the texts of an array, each new text the next one."""
        from crowdwise.labels.compiled_loops import enlarge_table, intern_texts

        offsets, data = _buffers(array)
        rows = len(array)
        self.starts = _ensure_capacity(self.starts, self.count + rows + 1)
        self.bytes = _ensure_capacity(self.bytes, int(self.starts[self.count] + offsets[-1] - offsets[0]))
        while self.slots.size < 2 * (self.count + rows):
            self.slots = enlarge_table(self.slots)
        codes = np.empty(rows, np.int32)
        self.count = intern_texts(offsets, data, self.slots, self.starts, self.bytes, self.count, codes)
        return codes

    def names(self) -> pa.Array:
        """The texts, in the order of their numbers."""
        return _text_array(self.starts[: self.count + 1], self.bytes[: int(self.starts[self.count])].copy())


def _bytes_to_strings(texts: Collection[bytes]) -> pa.Array:
    """Bytes as text, not checked."""
    starts = np.cumsum([0, *(len(text) for text in texts)])
    return _text_array(starts, b"".join(texts))


def _text_array(starts: Numbers, data: Any) -> pa.Array:
    """Texts that begin at `starts` (the last is the end) of the bytes."""
    kind, width = (pa.string(), np.int32) if starts[-1] < 2**31 else (pa.large_string(), np.int64)
    return pa.Array.from_buffers(kind, starts.size - 1, [None, pa.py_buffer(starts.astype(width)), pa.py_buffer(data)])


def _as_string(array: pa.Array) -> pa.Array:
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return array
    return array.cast(pa.large_string())


def _buffers(array: pa.Array) -> tuple[Numbers, Numbers]:
    width = np.int32 if pa.types.is_string(array.type) else np.int64
    _, offsets, data = array.buffers()
    view = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    return view, np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)


def _ensure_capacity(array: Numbers, size: int) -> Numbers:
    """Give an array at least as large as asked, at least half as large again if it grows."""
    if array.size >= size:
        return array
    larger = np.empty(max(size, array.size * 3 // 2), array.dtype)
    larger[: array.size] = array
    return larger
