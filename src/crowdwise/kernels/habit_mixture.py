"""Likelihood of one number a worker: with chance s they give the class, else they answer by a habit.

    P(label e) = (1 - s) h[label] + s beside[e],   beside[e] what the others say of the class that the worker names.

The habit h is the one of greatest likelihood for each s, by EM. Workers are independent, so each goes their own number
of steps, with their labels in the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.grouped_sums import sum_cells
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["profile_likelihood"]


def profile_likelihood(
    labels: CrowdLabels, beside: FloatArray, grid: FloatArray, *, steps: int = 50, precise: float = 1e-4
) -> FloatArray:
    """Log-likelihood (M, G) of each worker's labels at each s of the grid, with the best habit for it.

    Parameters
    ----------
    beside : (S,)
    grid : (M, G)
        Values of s, ascending in each row, from 0 to 1.
    steps, precise
        For each s, stop after so many steps of EM, or when no entry of (1 - s) h moves by more than this.
    """
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        return _profile_likelihood(labels, beside, grid, steps, precise)
    from crowdwise.kernels.compiled.habit_mixture import profile_log_likelihood

    edge, ptr = labels.by_worker
    answers = labels.label[edge].astype(np.int64)
    found: FloatArray = profile_log_likelihood(ptr, answers, beside[edge], grid, labels.n_classes, steps, precise)
    return found


def _profile_likelihood(
    labels: CrowdLabels, beside: FloatArray, grid: FloatArray, steps: int, precise: float
) -> FloatArray:
    """All workers at once; one who has come to rest is left as they are."""
    shape = labels.n_workers, labels.n_classes
    cell = labels.worker.astype(np.int64) * labels.n_classes + labels.label
    number = labels.labels_per_worker
    shares = sum_cells(cell, 1 / np.maximum(number, 1)[labels.worker], labels.n_workers * labels.n_classes)
    shares = shares.reshape(shape)
    habit = shares.copy()  # the best habit where s = 0; each s starts from the habit of the one before
    found = np.zeros(grid.shape)
    for g in range(grid.shape[1]):
        s = grid[:, g]
        by_others = s[labels.worker] * beside
        # A class must not lose its habit for good: EM never leaves 0.
        habit = 0.99 * habit + 0.01 * shares
        habit *= ((1 - s) / np.where(number > 0, habit.sum(axis=1), 1))[:, None]
        moving = number > 0
        mine, others = cell, by_others  # of those who still move
        for _ in range(steps):
            by_habit = habit.ravel()[mine]
            sums = sum_cells(mine, by_habit / np.maximum(by_habit + others, 1e-300), habit.size).reshape(shape)
            total = sums.sum(axis=1)
            fresh = sums * np.where(total > 0, (1 - s) / np.where(total > 0, total, 1), 0)[:, None]
            fresh = np.where(moving[:, None], fresh, habit)
            moving &= np.abs(fresh - habit).max(axis=1) >= precise
            habit = fresh
            if not moving.any():
                break
            here = moving[mine // labels.n_classes]
            mine, others = mine[here], others[here]
        chance = np.log(np.maximum(habit.ravel()[cell] + by_others, 1e-300))
        found[:, g] = sum_cells(labels.worker, chance, labels.n_workers)
        habit = np.where(s[:, None] >= 1, shares, habit)
    return found
