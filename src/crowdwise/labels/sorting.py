"""Counting sorts over edges: linear time, stable, no comparison of names.

They live in this room because the data model is sorted when it is made; the kernels reuse them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray

__all__ = ["first_repeats", "first_seen", "group_by", "group_offsets", "repeats", "spread"]

BUCKET_BITS = 8  # 256 buckets: their open cache lines fit the first-level cache


@njit(cache=True, nogil=True)
def group_offsets(keys: IntArray, n_groups: int) -> IntArray:
    """Offsets of each group were the keys sorted: group g is `offsets[g]:offsets[g + 1]`."""
    offsets = np.zeros(n_groups + 1, np.int64)
    for key in keys:
        offsets[key + 1] += 1
    for group in range(n_groups):
        offsets[group + 1] += offsets[group]
    return offsets


def group_by(keys: IntArray, offsets: IntArray) -> IntArray:
    """Find the stable order that sorts the keys, given their `group_offsets`."""
    order: IntArray = np.empty(keys.size, np.int32 if keys.size < 2**31 else np.int64)
    _fill_order(keys, offsets[:-1].copy(), order)
    return order


@njit(cache=True, nogil=True)
def _fill_order(keys: IntArray, cursor: IntArray, order: IntArray) -> None:
    for edge in range(keys.size):
        key = keys[edge]
        order[cursor[key]] = edge
        cursor[key] += 1


def repeats(task_ptr: IntArray, worker: IntArray, n_workers: int) -> tuple[IntArray, IntArray]:
    """Edges that repeat an earlier edge of the same task and worker, and the last such earlier edge of each."""
    later = np.empty(0, np.int64)
    earlier = np.empty(0, np.int64)
    count = _repeats(task_ptr, worker, n_workers, later, earlier)
    if count:  # counted first: as a rule there are none, and nothing is set aside for them
        later, earlier = np.empty(count, np.int64), np.empty(count, np.int64)
        _repeats(task_ptr, worker, n_workers, later, earlier)
    return later, earlier


def first_repeats(task_ptr: IntArray, worker: IntArray, n_workers: int) -> IntArray:
    """For each edge, the earlier edge of the same task and worker, or -1; see `repeats`."""
    previous = np.full(worker.size, -1, np.int64)
    later, earlier = repeats(task_ptr, worker, n_workers)
    previous[later] = earlier
    return previous


@njit(cache=True, nogil=True)
def _repeats(task_ptr: IntArray, worker: IntArray, n_workers: int, later: IntArray, earlier: IntArray) -> int:
    seen = np.full(n_workers, -1, np.int64)
    count = 0
    for task in range(task_ptr.size - 1):
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


def spread(task: IntArray, worker: IntArray, label: IntArray, offsets: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Sort edges by task, stable, given the tasks' `group_offsets`.

    Edges are written straight to their place, without an order array. Where the tasks are too many for
    the cache, a first pass brings neighbouring tasks together, so that the second writes near by: on ten
    million edges two passes take half the time of one.
    """
    shift = max(0, (offsets.size - 1).bit_length() - BUCKET_BITS)
    if shift:
        task, worker, label = _scatter(task, worker, label, offsets[: -1 : 1 << shift].copy(), shift)
    return _scatter(task, worker, label, offsets[:-1].copy(), 0)


@njit(cache=True, nogil=True)
def _scatter(
    task: IntArray, worker: IntArray, label: IntArray, cursor: IntArray, shift: int
) -> tuple[IntArray, IntArray, IntArray]:
    new_task = np.empty(task.size, np.int32)
    new_worker = np.empty(worker.size, np.int32)
    new_label = np.empty_like(label)
    for edge in range(task.size):
        key = task[edge] >> shift
        at = cursor[key]
        cursor[key] = at + 1
        new_task[at] = task[edge]
        new_worker[at] = worker[edge]
        new_label[at] = label[edge]
    return new_task, new_worker, new_label


def first_seen(values: IntArray, low: int, span: int) -> tuple[IntArray, IntArray]:
    """Give codes by first appearance to integers in `low … low + span - 1`, and what the codes stand for."""
    codes = np.empty(values.size, np.int32)
    seen = np.empty(min(span, values.size), np.int64)
    count = _number(values, low, np.full(span, -1, np.int32), codes, seen)
    return codes, seen[:count].copy()


@njit(cache=True, nogil=True)
def _number(values: IntArray, low: int, table: IntArray, codes: IntArray, seen: IntArray) -> int:
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
