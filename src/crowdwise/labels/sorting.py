"""Counting sorts over edges: linear time, stable, no comparison of names.

They live in this room because the data model is sorted when it is made; the kernels reuse them. Of few labels NumPy
sorts, with the same result, so that nothing need be compiled (`choice`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray

__all__ = [
    "codes_by_first_appearance",
    "earlier_edge_of_each_repeat",
    "find_repeated_edges",
    "group_by",
    "group_offsets",
    "sort_by_task",
]

BUCKET_BITS = 8  # 256 buckets: their open cache lines fit the first-level cache


def group_offsets(keys: IntArray, n_groups: int) -> IntArray:
    """Offsets of each group were the keys sorted: group g is `offsets[g]:offsets[g + 1]`."""
    if choose_engine(keys.size, 1) == "numba":
        from crowdwise.labels import compiled_loops

        offsets: IntArray = compiled_loops.group_offsets(keys, n_groups)
        return offsets
    return np.append(0, np.cumsum(np.bincount(keys, minlength=n_groups)))


def group_by(keys: IntArray, offsets: IntArray) -> IntArray:
    """Find the stable order that sorts the keys, given their `group_offsets`."""
    width = np.int32 if keys.size < 2**31 else np.int64
    if choose_engine(keys.size, 1) == "numpy":
        return np.argsort(keys, kind="stable").astype(width)
    from crowdwise.labels.compiled_loops import fill_order

    order: IntArray = np.empty(keys.size, width)
    fill_order(keys, offsets[:-1].copy(), order)
    return order


def find_repeated_edges(task_ptr: IntArray, worker: IntArray, n_workers: int) -> tuple[IntArray, IntArray]:
    """Edges that repeat an earlier edge of the same task and worker, and the last such earlier edge of each."""
    if choose_engine(worker.size, 1) == "numpy":
        task = np.repeat(np.arange(task_ptr.size - 1), np.diff(task_ptr))
        order = np.lexsort((worker, task))
        again = (np.diff(task[order]) == 0) & (np.diff(worker[order]) == 0)
        before = np.full(worker.size, -1, np.int64)
        before[order[1:][again]] = order[:-1][again]
        later = np.flatnonzero(before >= 0)
        return later, before[later]
    from crowdwise.labels.compiled_loops import find_repeats

    later, earlier = np.empty(0, np.int64), np.empty(0, np.int64)
    count = find_repeats(task_ptr, worker, n_workers, later, earlier)
    if count:  # counted first: as a rule there are none, and nothing is set aside for them
        later, earlier = np.empty(count, np.int64), np.empty(count, np.int64)
        find_repeats(task_ptr, worker, n_workers, later, earlier)
    return later, earlier


def earlier_edge_of_each_repeat(task_ptr: IntArray, worker: IntArray, n_workers: int) -> IntArray:
    """For each edge, the earlier edge of the same task and worker, or -1; see `find_repeated_edges`."""
    previous = np.full(worker.size, -1, np.int64)
    later, earlier = find_repeated_edges(task_ptr, worker, n_workers)
    previous[later] = earlier
    return previous


def sort_by_task(
    task: IntArray, worker: IntArray, label: IntArray, offsets: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Sort edges by task, stable, given the tasks' `group_offsets`.

    Edges are written straight to their place, without an order array. Where the tasks are too many for
    the cache, a first pass brings neighbouring tasks together, so that the second writes near by: on ten
    million edges two passes take half the time of one.
    """
    if choose_engine(task.size, 1) == "numpy":
        order = np.argsort(task, kind="stable")
        return task[order].astype(np.int32), worker[order].astype(np.int32), label[order]
    from crowdwise.labels.compiled_loops import scatter

    shift = max(0, (offsets.size - 1).bit_length() - BUCKET_BITS)
    if shift:
        task, worker, label = scatter(task, worker, label, offsets[: -1 : 1 << shift].copy(), shift)
    found: tuple[IntArray, IntArray, IntArray] = scatter(task, worker, label, offsets[:-1].copy(), 0)
    return found


def codes_by_first_appearance(values: IntArray, low: int, span: int) -> tuple[IntArray, IntArray]:
    """Give codes by first appearance to integers in `low … low + span - 1`, and what the codes stand for."""
    if choose_engine(values.size, 1) == "numpy":
        names, first, place = np.unique(values, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return np.argsort(order)[place].astype(np.int32), names[order].astype(np.int64)
    from crowdwise.labels.compiled_loops import number_values

    codes = np.empty(values.size, np.int32)
    seen = np.empty(min(span, values.size), np.int64)
    count = number_values(values, low, np.full(span, -1, np.int32), codes, seen)
    return codes, seen[:count].copy()
