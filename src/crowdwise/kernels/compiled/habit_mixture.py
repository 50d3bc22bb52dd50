"""Attention and habit of one worker after the other; see `kernels.habit_mixture`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["profile_log_likelihood"]


@njit(cache=True, nogil=True, error_model="numpy")
def profile_log_likelihood(
    ptr: IntArray, label: IntArray, beside: FloatArray, grid: FloatArray, n_classes: int, steps: int, precise: float
) -> FloatArray:
    """Log-likelihood of each worker at each s of the grid."""
    found = np.zeros(grid.shape)
    habit, sums = np.empty(n_classes), np.empty(n_classes)
    for worker in range(grid.shape[0]):
        first, last = ptr[worker], ptr[worker + 1]
        if first == last:
            continue
        shares = np.zeros(n_classes)
        for e in range(first, last):
            shares[label[e]] += 1 / (last - first)
        for k in range(n_classes):
            habit[k] = shares[k]  # the best habit where s = 0; each s starts from the habit of the one before
        for g in range(grid.shape[1]):
            s = grid[worker, g]
            total = 0.0
            for k in range(n_classes):
                habit[k] = 0.99 * habit[k] + 0.01 * shares[k]  # no class loses its habit for good: EM never leaves 0
                total += habit[k]
            for k in range(n_classes):
                habit[k] *= (1 - s) / total
            for _ in range(steps):
                sums[:] = 0.0
                for e in range(first, last):
                    by_habit = habit[label[e]]
                    sums[label[e]] += by_habit / max(by_habit + s * beside[e], 1e-300)
                total = 0.0
                for k in range(n_classes):
                    total += sums[k]
                scale = (1 - s) / total if total > 0 else 0.0
                moved = 0.0
                for k in range(n_classes):
                    moved = max(moved, abs(sums[k] * scale - habit[k]))
                    habit[k] = sums[k] * scale
                if moved < precise:
                    break
            for e in range(first, last):
                found[worker, g] += math.log(max(habit[label[e]] + s * beside[e], 1e-300))
            if s >= 1:
                for k in range(n_classes):
                    habit[k] = shares[k]
    return found
