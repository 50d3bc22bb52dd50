"""What the passes that go task by task share: the end of Bayes' rule."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["softmax_row", "softmax_task"]


@njit(cache=True, nogil=True, error_model="numpy")
def softmax_row(row: FloatArray) -> tuple[float, float]:
    """Turn log-weights (K,) into probabilities, in place; the highest, and the sum of the weights over its weight."""
    highest = row[0]
    for k in range(1, row.size):
        highest = max(highest, row[k])
    mass = 0.0
    for k in range(row.size):
        row[k] = math.exp(row[k] - highest)
        mass += row[k]
    for k in range(row.size):
        row[k] /= mass
    return highest, mass


@njit(cache=True, nogil=True, error_model="numpy")
def softmax_task(row: FloatArray, gold: IntArray, task: int) -> float:
    """Turn a task's log-weights (K,) into probabilities, in place, and return the logarithm of their sum.

    Where the truth is known, the other classes have none.
    """
    if gold.size > 0 and gold[task] >= 0:
        for k in range(row.size):
            if k != gold[task]:
                row[k] = -np.inf
    highest, mass = softmax_row(row)
    return highest + math.log(mass)
