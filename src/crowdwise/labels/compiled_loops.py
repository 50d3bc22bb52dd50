"""The loops over labels and their names that numba compiles; imported only where the data are large.

Each has a version in NumPy beside the function that calls it, with the same result to the bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray

__all__ = [
    "count_agreeing_pairs",
    "count_buckets",
    "enlarge_table",
    "fill_order",
    "find_connected_workers",
    "find_repeats",
    "group_offsets",
    "intern_texts",
    "number_values",
    "scatter_to_buckets",
    "sort_buckets",
]

Numbers: TypeAlias = np.ndarray[Any, Any]  # of several widths, signed and not
Edges: TypeAlias = "tuple[IntArray, IntArray, IntArray]"  # tasks, workers and labels


@njit(cache=True, nogil=True)
def group_offsets(keys: IntArray, n_groups: int) -> IntArray:
    """Offsets of each group were the keys sorted: group g is `offsets[g]:offsets[g + 1]`."""
    offsets = np.zeros(n_groups + 1, np.int64)
    for key in keys:
        offsets[key + 1] += 1
    for group in range(n_groups):
        offsets[group + 1] += offsets[group]
    return offsets


@njit(cache=True, nogil=True)
def fill_order(keys: IntArray, cursor: IntArray, order: IntArray) -> None:
    """Write each edge's place in the stable order of its key."""
    for edge in range(keys.size):
        key = keys[edge]
        order[cursor[key]] = edge
        cursor[key] += 1


@njit(cache=True, nogil=True)
def find_repeats(
    first: int, last: int, task_ptr: IntArray, worker: IntArray, n_workers: int, later: IntArray, earlier: IntArray
) -> int:
    """Write edges of some tasks that repeat an earlier one, and those, while there is room; how many there are."""
    seen = np.full(n_workers, -1, np.int64)
    count = 0
    for task in range(first, last):
        begin = task_ptr[task]
        for edge in range(begin, task_ptr[task + 1]):
            before = seen[worker[edge]]
            if before >= begin:
                if count < later.size:
                    later[count] = edge
                    earlier[count] = before
                count += 1
            seen[worker[edge]] = edge
    return count


@njit(cache=True, nogil=True)
def count_buckets(first: int, last: int, task: IntArray, shift: int, counts: IntArray) -> bool:
    """Count the edges of some rows by task, shifted; whether the tasks of these rows and the one before ascend."""
    ascending = True
    before = task[first - 1] if first > 0 else np.int32(0)
    for edge in range(first, last):
        counts[task[edge] >> shift] += 1
        ascending &= task[edge] >= before
        before = task[edge]
    return ascending


@njit(cache=True, nogil=True)
def scatter_to_buckets(first: int, last: int, given: Edges, cursor: IntArray, shift: int, out: Edges) -> None:
    """Write the edges of some rows to where the cursor of their task, shifted, stands."""
    task, worker, label = given
    new_task, new_worker, new_label = out
    for edge in range(first, last):
        key = task[edge] >> shift
        at = cursor[key]
        cursor[key] = at + 1
        new_task[at] = task[edge]
        new_worker[at] = worker[edge]
        new_label[at] = label[edge]


@njit(cache=True, nogil=True)
def sort_buckets(first: int, last: int, starts: IntArray, shift: int, edges: Edges, offsets: IntArray) -> None:
    """Sort the edges of some buckets by task, in place, and write where those of each task end."""
    task, worker, label = edges
    most = 0
    for bucket in range(first, last):
        most = max(most, starts[bucket + 1] - starts[bucket])
    held_task, held_worker = np.empty(most, task.dtype), np.empty(most, worker.dtype)
    held_label = np.empty(most, label.dtype)
    cursor = np.empty((1 << shift) + 1, np.int64)
    for bucket in range(first, last):
        begin, end, lowest = starts[bucket], starts[bucket + 1], bucket << shift
        n_tasks = min(1 << shift, offsets.size - 1 - lowest)
        cursor[:] = 0
        for edge in range(begin, end):
            cursor[task[edge] - lowest + 1] += 1
            held_task[edge - begin] = task[edge]
            held_worker[edge - begin] = worker[edge]
            held_label[edge - begin] = label[edge]
        cursor[0] = begin
        for key in range(n_tasks):
            cursor[key + 1] += cursor[key]
            offsets[lowest + key + 1] = cursor[key + 1]
        for held in range(end - begin):
            key = held_task[held] - lowest
            at = cursor[key]
            cursor[key] = at + 1
            task[at] = held_task[held]
            worker[at] = held_worker[held]
            label[at] = held_label[held]


@njit(cache=True, nogil=True)
def number_values(values: IntArray, low: int, table: IntArray, codes: IntArray, seen: IntArray) -> int:
    """Write codes by first appearance; how many there are."""
    count = 0
    for row in range(values.size):
        at = values[row] - low
        code = table[at]
        if code < 0:
            code = count
            table[at] = code
            seen[code] = values[row]
            count += 1
        codes[row] = code
    return count


@njit(cache=True, nogil=True)
def enlarge_table(slots: Numbers) -> Numbers:
    """The same slots in a table twice as large."""
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
def intern_texts(
    offsets: Numbers, data: Numbers, slots: Numbers, starts: Numbers, texts: Numbers, count: int, codes: Numbers
) -> int:
    """Write the number of each text, new ones to the table; how many texts there are."""
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


@njit(cache=True, nogil=True)
def count_agreeing_pairs(task_ptr: IntArray, label: IntArray, n_classes: int) -> tuple[int, int]:
    """Count pairs of answers within tasks, and those that agree."""
    counts = np.zeros(n_classes, np.int64)
    pairs = agreeing = 0
    for task in range(task_ptr.size - 1):
        size = task_ptr[task + 1] - task_ptr[task]
        pairs += size * (size - 1) // 2
        for edge in range(task_ptr[task], task_ptr[task + 1]):
            agreeing += counts[label[edge]]  # the earlier answers that this one agrees with
            counts[label[edge]] += 1
        for edge in range(task_ptr[task], task_ptr[task + 1]):
            counts[label[edge]] = 0
    return pairs, agreeing


@njit(cache=True, nogil=True)
def find_connected_workers(task_ptr: IntArray, worker: IntArray, n_workers: int) -> IntArray:
    """Find for each worker the part of the crowd it belongs to (union-find)."""
    parent = np.arange(n_workers)
    for task in range(task_ptr.size - 1):
        for edge in range(task_ptr[task] + 1, task_ptr[task + 1]):
            one, other = worker[edge - 1], worker[edge]
            while parent[one] != one:
                parent[one] = parent[parent[one]]
                one = parent[one]
            while parent[other] != other:
                parent[other] = parent[parent[other]]
                other = parent[other]
            parent[max(one, other)] = min(one, other)
    for who in range(n_workers):  # a parent comes before its children
        parent[who] = parent[parent[who]]
    return parent
