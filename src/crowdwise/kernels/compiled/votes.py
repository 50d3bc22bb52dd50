"""Shares of votes and means of opinions, some tasks at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.block_layout import TaskLane
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["average_opinions", "share_votes"]


@njit(cache=True, nogil=True, error_model="numpy")
def average_opinions(lane: TaskLane, opinions: FloatArray, otherwise: FloatArray, means: FloatArray) -> None:
    """Means of opinions of some tasks."""
    for task in range(lane.first, lane.last):
        row = means[task]
        n_labels = lane.ptr[task + 1] - lane.ptr[task]
        if n_labels == 0:
            for k in range(row.size):
                row[k] = otherwise[k]
            continue
        row[:] = 0.0
        for edge in range(lane.ptr[task], lane.ptr[task + 1]):
            opinion = opinions[lane.worker[edge], lane.label[edge]]
            for k in range(row.size):
                row[k] += opinion[k]
        for k in range(row.size):
            row[k] /= n_labels


@njit(cache=True, nogil=True, error_model="numpy")
def share_votes(lane: TaskLane, weights: FloatArray, otherwise: FloatArray, gold: IntArray, shares: FloatArray) -> None:
    """Shares of votes of some tasks."""
    for task in range(lane.first, lane.last):
        row = shares[task]
        row[:] = 0.0
        if gold.size > 0 and gold[task] >= 0:
            row[gold[task]] = 1.0
            continue
        total = 0.0
        for edge in range(lane.ptr[task], lane.ptr[task + 1]):
            weight = weights[lane.worker[edge]]
            row[lane.label[edge]] += weight
            total += weight
        if total > 0.0:
            for k in range(row.size):
                row[k] /= total
        else:
            for k in range(row.size):
                row[k] = otherwise[k]
