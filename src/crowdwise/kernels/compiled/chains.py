"""Forward and backward along some sequences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["forward_backward"]


@njit(cache=True, nogil=True, error_model="numpy")
def forward_backward(
    first: int, last: int, order: IntArray, ptr: IntArray, steps: FloatArray, evidence: FloatArray
) -> tuple[float, FloatArray]:
    """Log-likelihood of some sequences, and their expected steps; their posteriors over their evidence."""
    n_classes = steps.shape[1]
    counts = np.zeros(steps.shape)
    longest = 0
    for s in range(first, last):
        longest = max(longest, ptr[s + 1] - ptr[s])
    forward = np.empty((longest, n_classes))
    scale = np.empty(longest)
    backward, earlier = np.empty(n_classes), np.empty(n_classes)
    total = 0.0
    for s in range(first, last):
        begin, length = ptr[s], ptr[s + 1] - ptr[s]
        for p in range(length):
            row = evidence[order[begin + p]]
            mass = 0.0
            for k in range(n_classes):
                reached = steps[n_classes, k]
                if p > 0:
                    reached = 0.0
                    for j in range(n_classes):
                        reached += forward[p - 1, j] * steps[j, k]
                forward[p, k] = reached * row[k]
                mass += forward[p, k]
            scale[p] = mass
            total += math.log(mass)
            for k in range(n_classes):
                forward[p, k] = forward[p, k] / mass if mass > 0.0 else row[k]
        backward[:] = 1.0
        for p in range(length - 1, -1, -1):
            row = evidence[order[begin + p]]
            if p == 0:
                for k in range(n_classes):
                    counts[n_classes, k] += forward[0, k] * backward[k]
            else:
                for j in range(n_classes):
                    earlier[j] = 0.0 if scale[p] > 0.0 else 1.0
                    if scale[p] > 0.0:
                        for k in range(n_classes):
                            through = steps[j, k] * row[k] * backward[k] / scale[p]
                            earlier[j] += through
                            counts[j, k] += forward[p - 1, j] * through
            mass = 0.0
            for k in range(n_classes):
                row[k] = forward[p, k] * backward[k]
                mass += row[k]
            for k in range(n_classes):
                row[k] /= mass
            backward, earlier = earlier, backward
    return total, counts
