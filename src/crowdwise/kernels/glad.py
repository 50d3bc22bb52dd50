"""Passes for models where ability times ease is the log-odds of a right answer (GLAD).

Edges stay in task order: an edge reads its worker's ability from a table of M numbers, which is small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kernels.block_layout import map_tasks
from crowdwise.kernels.grouped_sums import TruthPrior, softmax_tasks, sum_cells
from crowdwise.labels.engine_choice import choose_engine

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["ability_gradient", "truth_posterior"]


def truth_posterior(
    labels: CrowdLabels, ability: FloatArray, ease: FloatArray, log_prior: FloatArray, gold: IntArray
) -> tuple[float, FloatArray, FloatArray]:
    """Log-likelihood, posterior (N, K), and the posterior that each label is right (S,)."""
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        return _truth_posterior(labels, ability, ease, log_prior, gold)
    from crowdwise.kernels.compiled.glad import e_step

    posterior = np.empty((labels.n_tasks, labels.n_classes))
    right = np.empty(labels.n_labels)
    values = map_tasks(labels, e_step, ability, ease, TruthPrior(log_prior, gold), posterior, right)
    return float(np.sum(values)), posterior, right


def ability_gradient(
    labels: CrowdLabels, right: FloatArray, ability: FloatArray, ease: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Expected log-likelihood Σ r log σ(αβ) + (1-r) log(1-σ(αβ)), and its gradients by ability and by log ease."""
    if choose_engine(labels.n_labels, labels.n_classes) == "numpy":
        return _ability_gradient(labels, right, ability, ease)
    from crowdwise.kernels.compiled.glad import gradient

    by_ease = np.empty(labels.n_tasks)
    values, by_ability = zip(*map_tasks(labels, gradient, right, ability, ease, by_ease), strict=True)
    return float(np.sum(values)), np.sum(by_ability, axis=0), by_ease


def _truth_posterior(
    labels: CrowdLabels, ability: FloatArray, ease: FloatArray, log_prior: FloatArray, gold: IntArray
) -> tuple[float, FloatArray, FloatArray]:
    shape = labels.n_tasks, labels.n_classes
    log_others = np.log(max(labels.n_classes - 1, 1))
    odds = ability[labels.worker] * ease[labels.task]
    # log(1 - σ(x)) - log(K-1) for every class, and x + log(K-1) more for the class named.
    cell = labels.task.astype(np.int64) * labels.n_classes + labels.label
    more = sum_cells(cell, odds + log_others, labels.n_tasks * labels.n_classes).reshape(shape)
    total, posterior = softmax_tasks(log_prior + more, gold)
    total -= float((np.maximum(odds, 0) + np.log1p(np.exp(-np.abs(odds))) + log_others).sum())
    return total, posterior, posterior[labels.task, labels.label]


def _ability_gradient(
    labels: CrowdLabels, right: FloatArray, ability: FloatArray, ease: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    odds = ability[labels.worker] * ease[labels.task]
    small = np.exp(-np.abs(odds))
    surprise = right - np.where(odds >= 0, 1, small) / (1 + small)
    value = float((right * odds - np.maximum(odds, 0) - np.log1p(small)).sum())
    by_ability = sum_cells(labels.worker, ease[labels.task] * surprise, labels.n_workers)
    by_ease = sum_cells(labels.task, ability[labels.worker] * surprise, labels.n_tasks) * ease
    return value, by_ability, by_ease
