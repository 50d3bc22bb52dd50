"""EM for one number a worker: with chance s she gives the class, else she answers by a habit.

    P(label e) = (1 - s) h[label] + s beside[e],   beside[e] what the others say of the class that she names.

Workers are independent, so each goes her own number of steps, with her labels in the cache.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["fit_habits"]


def fit_habits(
    labels: CrowdLabels, beside: FloatArray, skill: FloatArray | None, steps: int, precise: float
) -> tuple[FloatArray, FloatArray]:
    """The skill (M,) of greatest likelihood, or the one given, and the log-likelihood (M,) with the best habit.

    Parameters
    ----------
    beside : (S,)
    steps, precise
        Stop after so many steps, or when no entry of (1 - s) h moves by more than this.
    """
    edge, ptr = labels.by_worker
    found = np.full(labels.n_workers, 0.5) if skill is None else skill.astype(np.float64)
    likely = np.zeros(labels.n_workers)
    answers = labels.label[edge].astype(np.int64)
    _fit(ptr, answers, beside[edge], labels.n_classes, skill is None, steps, precise, found, likely)
    return found, likely


@njit(cache=True, nogil=True, error_model="numpy")
def _fit(
    ptr: IntArray,
    label: IntArray,
    beside: FloatArray,
    n_classes: int,
    free: bool,
    steps: int,
    precise: float,
    skill: FloatArray,
    likely: FloatArray,
) -> None:
    habit, sums = np.empty(n_classes), np.empty(n_classes)
    for worker in range(skill.size):
        first, last = ptr[worker], ptr[worker + 1]
        if first == last:
            if free:
                skill[worker] = 1.0
            continue
        number, s = last - first, skill[worker]
        habit[:] = 0.0
        for e in range(first, last):
            habit[label[e]] += (1 - s) / number
        for _ in range(steps):
            sums[:] = 0.0
            for e in range(first, last):
                by_habit = habit[label[e]]
                sums[label[e]] += by_habit / max(by_habit + s * beside[e], 1e-300)
            total = sums.sum()
            scale = 1 / number if free else (1 - s) / max(total, 1e-300)
            moved = 0.0
            for k in range(n_classes):
                moved = max(moved, abs(sums[k] * scale - habit[k]))
                habit[k] = sums[k] * scale
            if free:
                s = 1 - total * scale
            if moved < precise:
                break
        skill[worker] = s
        for e in range(first, last):
            likely[worker] += math.log(max(habit[label[e]] + s * beside[e], 1e-300))
