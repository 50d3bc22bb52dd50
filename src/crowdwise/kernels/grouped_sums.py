"""Sums over consecutive rows, and the end of Bayes' rule, in NumPy: what the passes that NumPy runs share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["TruthPrior", "softmax_tasks", "sum_cells", "sum_groups"]


class TruthPrior(NamedTuple):
    """What is known of the truth without the labels.

    Attributes
    ----------
    log_prior : (K,), or (N, K) or (1, K) where a pass says so
    gold
        Known class of each task, -1 where unknown; `NO_GOLD` for none.
    """

    log_prior: FloatArray
    gold: IntArray


def sum_groups(values: FloatArray, ptr: IntArray) -> FloatArray:
    """Sums (G, …) of the rows `ptr[g]:ptr[g + 1]` of values (S, …); zero where there are none.

    >>> sum_groups(np.array([1.0, 2.0, 3.0]), np.array([0, 2, 2, 3])).tolist()
    [3.0, 0.0, 3.0]
    """
    found = np.zeros((ptr.size - 1, *values.shape[1:]))
    some = np.flatnonzero(np.diff(ptr))
    if some.size:
        found[some] = np.add.reduceat(values, ptr[some], axis=0)
    return found


def sum_cells(cell: IntArray, values: FloatArray, n_cells: int) -> FloatArray:
    """Sums (n_cells,) of the values (S,) of each cell."""
    return np.bincount(cell, values, n_cells).astype(np.float64, copy=False)


def softmax_tasks(log_weights: FloatArray, gold: IntArray) -> tuple[float, FloatArray]:
    """Σ over tasks of the logarithm of the sum of weights, and their shares (N, K), of log-weights (N, K).

    Where the truth is known, the other classes have none.
    """
    if gold.size:
        other = (gold[:, None] >= 0) & (np.arange(log_weights.shape[1]) != gold[:, None])
        log_weights = np.where(other, -np.inf, log_weights)
    highest = log_weights.max(axis=1, keepdims=True)
    weights = np.exp(log_weights - highest)
    mass = weights.sum(axis=1, keepdims=True)
    return float((highest + np.log(mass)).sum()), weights / mass
