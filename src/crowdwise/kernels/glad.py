"""Passes for models where ability times ease is the log-odds of a right answer (GLAD).

Edges stay in task order: an edge reads its worker's ability from a table of M numbers, which is small.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from crowdwise.kernels.compiled.exponential import exp_of_nonpositive
from crowdwise.kernels.compiled.softmax import settled
from crowdwise.kernels.layout import task_lanes
from crowdwise.kernels.threads import run_lanes

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["ability_gradient", "ability_posterior"]


def ability_posterior(
    labels: CrowdLabels, ability: FloatArray, ease: FloatArray, log_prior: FloatArray, gold: IntArray
) -> tuple[float, FloatArray, FloatArray]:
    """Log-likelihood, posterior (N, K), and the posterior that each label is right (S,)."""
    posterior = np.empty((labels.n_tasks, labels.n_classes))
    right = np.empty(labels.n_labels)
    edges = task_lanes(labels)
    values = np.zeros(edges.size - 1)

    def one_lane(lane: int) -> None:
        values[lane] = _posterior_lane(
            edges[lane], edges[lane + 1], labels.task_ptr, labels.worker, labels.label,
            ability, ease, log_prior, gold, posterior, right,
        )  # fmt: skip

    run_lanes(one_lane, values.size)
    return float(values.sum()), posterior, right


def ability_gradient(
    labels: CrowdLabels, right: FloatArray, ability: FloatArray, ease: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Expected log-likelihood Σ r log σ(αβ) + (1-r) log(1-σ(αβ)), and its gradients by ability and by log ease."""
    by_ease = np.empty(labels.n_tasks)
    edges = task_lanes(labels)
    by_ability = np.zeros((edges.size - 1, labels.n_workers))
    values = np.zeros(edges.size - 1)

    def one_lane(lane: int) -> None:
        values[lane] = _gradient_lane(
            edges[lane], edges[lane + 1], labels.task_ptr, labels.worker,
            right, ability, ease, by_ability[lane], by_ease,
        )  # fmt: skip

    run_lanes(one_lane, values.size)
    return float(values.sum()), by_ability.sum(axis=0), by_ease


@njit(cache=True, nogil=True, error_model="numpy")
def _posterior_lane(
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
def _gradient_lane(
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
