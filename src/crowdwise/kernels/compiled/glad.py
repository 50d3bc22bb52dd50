"""Loops over the labels of tasks, with ability and ease; see `kernels.glad`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numba import njit

from crowdwise.kernels.compiled.exponential import exp_of_nonpositive
from crowdwise.kernels.compiled.softmax import settled

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["gradient_lane", "posterior_lane"]


@njit(cache=True, nogil=True, error_model="numpy")
def posterior_lane(
    first: int,
    last: int,
    task_ptr: IntArray,
    worker: IntArray,
    label: IntArray,
    ability: FloatArray,
    ease: FloatArray,
    log_prior: FloatArray,
    gold: IntArray,
    posterior: FloatArray,
    right: FloatArray,
) -> float:
    """Posterior of some tasks, and of their labels being right; their log-likelihood."""
    n_classes = log_prior.size
    log_others = math.log(max(n_classes - 1, 1))
    total = 0.0
    for task in range(first, last):
        row = posterior[task]
        row[:] = log_prior
        for edge in range(task_ptr[task], task_ptr[task + 1]):
            odds = ability[worker[edge]] * ease[task]
            # log(1 - σ(x)) - log(K-1) for every class, and x + log(K-1) more for the class named.
            total -= max(odds, 0.0) + math.log1p(math.exp(-abs(odds))) + log_others
            row[label[edge]] += odds + log_others
        total += settled(row, gold, task)
        for edge in range(task_ptr[task], task_ptr[task + 1]):
            right[edge] = row[label[edge]]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def gradient_lane(
    first: int,
    last: int,
    task_ptr: IntArray,
    worker: IntArray,
    right: FloatArray,
    ability: FloatArray,
    ease: FloatArray,
    by_ability: FloatArray,
    by_ease: FloatArray,
) -> float:
    """Gradients of some tasks; their expected log-likelihood."""
    total = 0.0
    product = 1.0  # of factors between 1 and 2: one logarithm for hundreds
    for task in range(first, last):
        slope = 0.0
        for edge in range(task_ptr[task], task_ptr[task + 1]):
            who = worker[edge]
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
    return total - math.log(product)
