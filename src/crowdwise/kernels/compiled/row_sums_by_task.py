"""Rows of matrices summed over the labellers of a task; see `audit.hard_tasks`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["add_rows"]


@njit(cache=True, nogil=True)
def add_rows(task: IntArray, worker: IntArray, rows: FloatArray, total: FloatArray, squares: FloatArray) -> None:
    """Add the rows of each task's labellers, and their squares."""
    for edge in range(task.size):
        for k in range(total.shape[1]):
            chance = rows[worker[edge], k]
            total[task[edge], k] += chance
            squares[task[edge]] += chance * chance
