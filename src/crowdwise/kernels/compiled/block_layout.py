"""Edges into blocks of tasks, sorted by worker and label inside a block: a counting sort."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.block_layout import Blocks
    from crowdwise.labels.types import IntArray

__all__ = ["sort_blocks"]


@njit(cache=True, nogil=True, error_model="numpy")
def sort_blocks(blocks: Blocks, lane: int, task: IntArray, worker: IntArray, label: IntArray, cursor: IntArray) -> None:
    """Write the edges of one lane's blocks, sorted by worker and label.

    `cursor` is room for a number of labels for each worker and label, and one more.
    """
    n_classes = blocks.n_classes
    n_rows = blocks.n_workers * n_classes
    for block in range(blocks.lanes[lane], blocks.lanes[lane + 1]):
        start, end = blocks.ptr[block], blocks.ptr[block + 1]
        cursor[:] = 0
        for edge in range(start, end):
            cursor[np.int64(worker[edge]) * n_classes + label[edge] + 1] += 1
        for row in range(n_rows):
            cursor[row + 1] += cursor[row]
        for edge in range(start, end):
            row = np.int64(worker[edge]) * n_classes + label[edge]
            place = start + cursor[row]
            cursor[row] += 1
            blocks.row[place] = row
            blocks.label[place] = label[edge]
            blocks.slot[place] = task[edge] - block * blocks.size
