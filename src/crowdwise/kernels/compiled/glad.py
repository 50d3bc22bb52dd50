"""Loops over the labels of tasks, with ability and ease; see `kernels.glad`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.compiled.exponential import exp_of_nonpositive
from crowdwise.kernels.compiled.softmax import softmax_task
from crowdwise.labels.loop_compiler import njit

if TYPE_CHECKING:
    from crowdwise.kernels.block_layout import TaskLane
    from crowdwise.kernels.grouped_sums import TruthPrior
    from crowdwise.labels.types import FloatArray

__all__ = ["e_step", "gradient"]


@njit(cache=True, nogil=True, error_model="numpy")
def e_step(
    lane: TaskLane, ability: FloatArray, ease: FloatArray, prior: TruthPrior, posterior: FloatArray, right: FloatArray
) -> float:
    """Posterior of some tasks, and of their labels being right; their log-likelihood."""
    n_classes = prior.log_prior.size
    log_others = math.log(max(n_classes - 1, 1))
    total = 0.0
    for task in range(lane.first, lane.last):
        row = posterior[task]
        for k in range(n_classes):
            row[k] = prior.log_prior[k]
        for edge in range(lane.ptr[task], lane.ptr[task + 1]):
            odds = ability[lane.worker[edge]] * ease[task]
            # log(1 - σ(x)) - log(K-1) for every class, and x + log(K-1) more for the class named.
            total -= max(odds, 0.0) + math.log1p(math.exp(-abs(odds))) + log_others
            row[lane.label[edge]] += odds + log_others
        total += softmax_task(row, prior.gold, task)
        for edge in range(lane.ptr[task], lane.ptr[task + 1]):
            right[edge] = row[lane.label[edge]]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def gradient(
    lane: TaskLane, right: FloatArray, ability: FloatArray, ease: FloatArray, by_ease: FloatArray
) -> tuple[float, FloatArray]:
    """Expected log-likelihood of some tasks, and its gradient by ability; that by log ease into `by_ease`."""
    by_ability = np.zeros(ability.size)
    total = 0.0
    product = 1.0  # of factors between 1 and 2: one logarithm for hundreds
    for task in range(lane.first, lane.last):
        slope = 0.0
        for edge in range(lane.ptr[task], lane.ptr[task + 1]):
            who = lane.worker[edge]
            odds = ability[who] * ease[task]
            small = exp_of_nonpositive(-abs(odds))
            chance = (1.0 if odds >= 0 else small) / (1.0 + small)
            total += right[edge] * odds - max(odds, 0.0)
            product *= 1.0 + small
            if product > 1e200:
                total -= math.log(product)
                product = 1.0
            surprise = right[edge] - chance
            by_ability[who] += ease[task] * surprise
            slope += ability[who] * surprise
        by_ease[task] = slope * ease[task]
    return total - math.log(product), by_ability
