"""Numbering text by first appearance, batch after batch, with one table for the whole column.

Arrow's own encoders keep a dictionary for each chunk, or need the whole column at once. This hash table takes
one batch at a time, so that a file never has to be in memory whole, and takes about half of Arrow's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numba import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray

__all__ = ["Interner"]

Numbers: TypeAlias = np.ndarray[Any, Any]  # of several widths, signed and not

SMALLEST = 1 << 12
BATCH = 1 << 16  # rows at a time: the table is sized for the worst case of one batch


class Interner:
    """Gives each distinct text a number, in order of first appearance."""

    def __init__(self) -> None:
        self.count = 0
        self.codes: list[IntArray] = []
        # A slot holds the low 32 bits of the hash above the number plus one; zero is free.
        self.slots: Numbers = np.zeros(SMALLEST, np.uint64)
        self.starts: Numbers = np.zeros(SMALLEST, np.int64)
        self.bytes: Numbers = np.empty(16 * SMALLEST, np.uint8)

    def add(self, array: pa.Array) -> None:
        """Give numbers to the texts of one batch, which holds no nulls."""
        for begin in range(0, len(array), BATCH):
            self._add(array.slice(begin, BATCH))

    def _add(self, array: pa.Array) -> None:
        offsets, data = _buffers(array)
        rows = len(array)
        self.starts = _room(self.starts, self.count + rows + 1)
        self.bytes = _room(self.bytes, int(self.starts[self.count] + offsets[-1] - offsets[0]))
        while self.slots.size < 2 * (self.count + rows):
            self.slots = _rehashed(self.slots)
        codes = np.empty(rows, np.int32)
        self.count = _intern(offsets, data, self.slots, self.starts, self.bytes, self.count, codes)
        self.codes.append(codes)

    def finish(self) -> tuple[IntArray, pa.Array]:
        """Hand over all numbers and the texts they stand for, checked to be UTF-8."""
        codes = np.concatenate(self.codes) if self.codes else np.zeros(0, np.int32)
        used = int(self.starts[self.count])
        starts = self.starts[: self.count + 1]
        kind, width = (pa.string(), np.int32) if used < 2**31 else (pa.large_string(), np.int64)
        buffers = [None, pa.py_buffer(starts.astype(width)), pa.py_buffer(self.bytes[:used].copy())]
        self.__init__()  # type: ignore[misc]  # lets go of the table
        names = pa.Array.from_buffers(kind, starts.size - 1, buffers)
        names.validate(full=True)
        return codes, names


def _buffers(array: pa.Array) -> tuple[Numbers, Numbers]:
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        array = array.cast(pa.large_string())
    width = np.int32 if pa.types.is_string(array.type) else np.int64
    _, offsets, data = array.buffers()
    view = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1]
    return view, np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)


def _room(array: Numbers, size: int) -> Numbers:
    """Give an array at least as large as asked, at least half as large again if it grows."""
    if array.size >= size:
        return array
    larger = np.empty(max(size, array.size * 3 // 2), array.dtype)
    larger[: array.size] = array
    return larger


@njit(cache=True, nogil=True)
def _rehashed(slots: Numbers) -> Numbers:
    larger = np.zeros(slots.size * 2, np.uint64)
    mask = np.uint64(larger.size - 1)
    for slot in slots:
        if slot != 0:
            at = (slot >> np.uint64(32)) & mask
            while larger[at] != 0:
                at = (at + np.uint64(1)) & mask
            larger[at] = slot
    return larger


@njit(cache=True, nogil=True, inline="always")
def _word(data: Numbers, at: Any) -> Any:
    """Eight bytes as one number; the compiler makes this a single load."""
    return (
        np.uint64(data[at])
        | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
        | np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
        | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
        | np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
        | np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
        | np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
        | np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
    )


@njit(cache=True, nogil=True)
def _hashes(offsets: Numbers, data: Numbers, tags: Numbers) -> None:
    eight, one = np.uint64(8), np.uint64(1)
    for row in range(tags.size):
        at, end = np.uint64(offsets[row]), np.uint64(offsets[row + 1])
        mixed = np.uint64(0x9E3779B97F4A7C15) ^ (end - at)
        while at + eight <= end:
            mixed = (mixed ^ _word(data, at)) * np.uint64(0xFF51AFD7ED558CCD)
            mixed ^= mixed >> np.uint64(32)
            at += eight
        rest = np.uint64(0)
        while at < end:
            rest = (rest << eight) | np.uint64(data[at])
            at += one
        mixed = (mixed ^ rest) * np.uint64(0xC4CEB9FE1A85EC53)
        mixed ^= mixed >> np.uint64(32)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        tags[row] = mixed >> np.uint64(33)  # 31 bits


@njit(cache=True, nogil=True)
def _same(texts: Numbers, first: Any, data: Numbers, second: Any, length: Any) -> Any:
    eight, one, place = np.uint64(8), np.uint64(1), np.uint64(0)
    while place + eight <= length:
        if _word(texts, first + place) != _word(data, second + place):
            return False
        place += eight
    while place < length:
        if texts[first + place] != data[second + place]:
            return False
        place += one
    return True


@njit(cache=True, nogil=True)
def _intern(
    offsets: Numbers,
    data: Numbers,
    slots: Numbers,
    starts: Numbers,
    texts: Numbers,
    count: int,
    codes: Numbers,
) -> int:
    # Hashes first: the look-ups that follow do not wait for them, and so overlap in memory.
    tags = np.empty(codes.size, np.uint64)
    _hashes(offsets, data, tags)
    mask, one, low = np.uint64(slots.size - 1), np.uint64(1), np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    for row in range(codes.size):
        begin = np.uint64(offsets[row])
        length = np.uint64(offsets[row + 1]) - begin
        tag = tags[row]
        at = tag & mask
        while True:
            slot = slots[at]
            if slot == 0:
                slots[at] = (tag << shift) | np.uint64(count + 1)
                start = np.uint64(starts[count])
                place = np.uint64(0)
                while place < length:
                    texts[start + place] = data[begin + place]
                    place += one
                starts[count + 1] = start + length
                codes[row] = count
                count += 1
                break
            if slot >> shift == tag:
                code = (slot & low) - one
                start = np.uint64(starts[code])
                if np.uint64(starts[code + one]) - start == length and _same(texts, start, data, begin, length):
                    codes[row] = code
                    break
            at = (at + one) & mask
    return count
