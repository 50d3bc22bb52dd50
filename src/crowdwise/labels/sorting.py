"""Counting sorts over edges: linear time, stable, no comparison of names.

They live in this room because the data model is sorted when it is made; the kernels reuse them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray

__all__ = ["first_repeats", "group_by", "group_offsets"]


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
    """The stable order that sorts the keys, given their `group_offsets`."""
    order = np.empty(keys.size, np.int32 if keys.size < 2**31 else np.int64)
    _fill_order(keys, offsets[:-1].copy(), order)
    return order


@njit(cache=True, nogil=True)
def _fill_order(keys: IntArray, cursor: IntArray, order: IntArray) -> None:
    for edge in range(keys.size):
        key = keys[edge]
        order[cursor[key]] = edge
        cursor[key] += 1


@njit(cache=True, nogil=True)
def first_repeats(task_ptr: IntArray, worker: IntArray, n_workers: int) -> IntArray:
    """For each edge, the earlier edge of the same task and worker, or -1."""
    previous = np.full(worker.size, -1, np.int64)
    seen_task = np.full(n_workers, -1, np.int64)
    seen_edge = np.zeros(n_workers, np.int64)
    for task in range(task_ptr.size - 1):
        for edge in range(task_ptr[task], task_ptr[task + 1]):
            who = worker[edge]
            if seen_task[who] == task:
                previous[edge] = seen_edge[who]
            seen_task[who] = task
            seen_edge[who] = edge
    return previous
