"""Shares of votes and means of opinions, some tasks at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["means_lane", "shares_lane"]


@njit(cache=True, nogil=True, error_model="numpy")
def means_lane(
    first: int,
    last: int,
    task_ptr: IntArray,
    worker: IntArray,
    label: IntArray,
    opinions: FloatArray,
    otherwise: FloatArray,
    means: FloatArray,
) -> None:
    """Means of opinions of some tasks."""
    for task in range(first, last):
        row = means[task]
        n_labels = task_ptr[task + 1] - task_ptr[task]
        if n_labels == 0:
            row[:] = otherwise
            continue
        row[:] = 0.0
        for edge in range(task_ptr[task], task_ptr[task + 1]):
            opinion = opinions[worker[edge], label[edge]]
            for k in range(row.size):
                row[k] += opinion[k]
        for k in range(row.size):
            row[k] /= n_labels


@njit(cache=True, nogil=True, error_model="numpy")
def shares_lane(
    first: int,
    last: int,
    task_ptr: IntArray,
    worker: IntArray,
    label: IntArray,
    weights: FloatArray,
    otherwise: FloatArray,
    gold: IntArray,
    shares: FloatArray,
) -> None:
    """Shares of votes of some tasks."""
    for task in range(first, last):
        row = shares[task]
        row[:] = 0.0
        if gold.size > 0 and gold[task] >= 0:
            row[gold[task]] = 1.0
            continue
        total = 0.0
        for edge in range(task_ptr[task], task_ptr[task + 1]):
            weight = weights[worker[edge]]
            row[label[edge]] += weight
            total += weight
        if total > 0.0:
            for k in range(row.size):
                row[k] /= total
        else:
            row[:] = otherwise
