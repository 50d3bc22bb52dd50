"""Counting sorts over edges: linear time, stable, no comparison of names.

They live in this room because the data model is sorted when it is made; the kernels reuse them. Of few labels NumPy
sorts, with the same result, so that nothing need be compiled (`choice`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.engine_choice import choose_engine
from crowdwise.labels.thread_lanes import map_lanes

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray

__all__ = [
    "codes_by_first_appearance",
    "earlier_edge_of_each_repeat",
    "find_repeated_edges",
    "group_by",
    "group_offsets",
    "look_up",
    "sort_by_task",
]

BUCKET_BITS = 8  # 256 buckets: their open cache lines fit the first-level cache
LANE_ROWS = 500_000  # below this a lane of work costs more to start than it saves
MOST_LANES = 16


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

    def find(first: int, last: int) -> tuple[IntArray, IntArray]:
        nothing = np.empty(0, np.int64)
        count = find_repeats(first, last, task_ptr, worker, n_workers, nothing, nothing)
        if not count:  # counted first: as a rule there are none, and nothing is set aside for them
            return nothing, nothing
        later, earlier = np.empty(count, np.int64), np.empty(count, np.int64)
        find_repeats(first, last, task_ptr, worker, n_workers, later, earlier)
        return later, earlier

    ends = np.searchsorted(task_ptr, _cut_rows(worker.size)[1:-1])
    found = map_lanes(find, np.concatenate(([0], ends, [task_ptr.size - 1])))
    return np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])


def earlier_edge_of_each_repeat(task_ptr: IntArray, worker: IntArray, n_workers: int) -> IntArray:
    """For each edge, the earlier edge of the same task and worker, or -1; see `find_repeated_edges`."""
    previous = np.full(worker.size, -1, np.int64)
    later, earlier = find_repeated_edges(task_ptr, worker, n_workers)
    previous[later] = earlier
    return previous


def sort_by_task(
    task: IntArray, worker: IntArray, label: IntArray, n_tasks: int
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Sort edges by task, stable: tasks and workers as int32, labels, and the tasks' `group_offsets`.

    Edges that are sorted come back as they are. Others are brought to buckets of neighbouring tasks, and each bucket is
    sorted by itself, near by: where the tasks are too many for the cache, two passes take half the time of one.
    """
    task, worker = task.astype(np.int32, copy=False), worker.astype(np.int32, copy=False)
    if choose_engine(task.size, 1) == "numpy":
        offsets = group_offsets(task, n_tasks)
        if not np.any(task[1:] < task[:-1]):
            return task, worker, label, offsets
        order = np.argsort(task, kind="stable")
        return task[order], worker[order], label[order], offsets
    from crowdwise.labels import compiled_loops

    shift = max(0, n_tasks.bit_length() - BUCKET_BITS)
    lanes = _cut_rows(task.size)
    counts = np.zeros((lanes.size - 1, (n_tasks >> shift) + 1), np.int64)
    rows = dict(zip(lanes[:-1].tolist(), range(lanes.size - 1), strict=True))  # the lane that begins at a row
    ascending = map_lanes(
        lambda first, last: compiled_loops.count_buckets(first, last, task, shift, counts[rows[first]]), lanes
    )
    if all(ascending):
        return task, worker, label, group_offsets(task, n_tasks)
    starts = np.append(0, np.cumsum(counts.sum(axis=0)))
    cursors = starts[:-1] + np.cumsum(counts, axis=0) - counts  # of each lane, behind those of earlier lanes
    given, edges = (task, worker, label), (np.empty_like(task), np.empty_like(worker), np.empty_like(label))
    map_lanes(
        lambda first, last: compiled_loops.scatter_to_buckets(first, last, given, cursors[rows[first]], shift, edges),
        lanes,
    )
    if not shift:  # a bucket is a task
        return *edges, starts[: n_tasks + 1].copy()
    offsets = np.zeros(n_tasks + 1, np.int64)
    buckets = np.searchsorted(starts, lanes[1:-1])
    map_lanes(
        lambda first, last: compiled_loops.sort_buckets(first, last, starts, shift, edges, offsets),
        np.concatenate(([0], buckets, [starts.size - 1])),
    )
    return *edges, offsets


def look_up(table: IntArray, codes: IntArray) -> IntArray:
    """The entry of a table for each code, all of which it has."""
    found = np.empty(codes.size, table.dtype)

    def take(first: int, last: int) -> None:
        table.take(codes[first:last], out=found[first:last], mode="clip")  # else NumPy makes a copy on the way

    map_lanes(take, _cut_rows(codes.size))
    return found


def _cut_rows(n_rows: int) -> IntArray:
    """Cut rows into lanes of work, where there is enough to share."""
    n_lanes = max(1, min(MOST_LANES, n_rows // LANE_ROWS))
    return np.linspace(0, n_rows, n_lanes + 1).astype(np.int64)


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
