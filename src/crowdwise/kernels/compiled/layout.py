"""Edges into blocks of tasks, sorted by worker and label inside a block: a counting sort."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray

__all__ = ["lay_blocks"]


@njit(cache=True, nogil=True, error_model="numpy")
def lay_blocks(
    first: int,
    last: int,
    size: int,
    n_classes: int,
    n_rows: int,
    ptr: IntArray,
    task: IntArray,
    worker: IntArray,
    label: IntArray,
    out_row: IntArray,
    out_label: IntArray,
    out_slot: IntArray,
) -> None:
    """Sort the edges of some blocks by worker and label."""
    cursor = np.empty(n_rows + 1, np.int64)
    for block in range(first, last):
        start, end = ptr[block], ptr[block + 1]
        cursor[:] = 0
        for edge in range(start, end):
            cursor[np.int64(worker[edge]) * n_classes + label[edge] + 1] += 1
        for row in range(n_rows):
            cursor[row + 1] += cursor[row]
        for edge in range(start, end):
            row = np.int64(worker[edge]) * n_classes + label[edge]
            place = start + cursor[row]
            cursor[row] += 1
            out_row[place] = row
            out_label[place] = label[edge]
            out_slot[place] = task[edge] - block * size
