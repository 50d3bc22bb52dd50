"""How sure we are of a worker's skill: a Beta distribution matched to what the labels can tell.

The truth is not seen, so n labels tell less than n graded answers. Louis (1982): observed information =
complete information - variance of the complete score under the posterior. In units of answers,
`effective = total - lost`, where `lost` is that variance times a(1-a).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaincinv

from crowdwise.kernels import worker_sums

if TYPE_CHECKING:
    from crowdwise.labels.model import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["agreement_skill", "beta_interval", "coin_skill", "confusion_skill"]

JEFFREYS = 0.5


def coin_skill(correct: FloatArray, total: FloatArray, spread: FloatArray) -> FloatArray:
    """Beta parameters (M, 2) of each worker's accuracy when one number describes the worker.

    Parameters
    ----------
    correct, total : (M,)
        Expected right answers, and answers.
    spread : (M,)
        Σ q(1-q) over the worker's labels, q the posterior that the label is right.
    """
    rate = _rate(correct, total)
    effective = np.clip(total - spread / (rate * (1 - rate)), 0, total)
    return np.stack([rate * effective + JEFFREYS, (1 - rate) * effective + JEFFREYS], axis=1)


def confusion_skill(
    confusion: FloatArray, counts: FloatArray, undecided: FloatArray, undecided_named: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Each worker's chance to be right (M,), and the Beta parameters (M, 2) that say how sure it is.

    Parameters
    ----------
    confusion : (M, K, K) [worker, truth, label]
    counts : (M, K, K) [worker, label, truth]
        Σ q over the worker's labels.
    undecided, undecided_named : (M, K)
        Σ q(1-q) over all of the worker's labels, and over those that name the class.
    weights : (K,)
        The class prior.

    Notes
    -----
    A class that a worker has hardly met is drawn towards her accuracy on all, with the weight of one answer: a
    matrix says nothing of a class it has never seen, and its skill should not either.
    """
    total = counts.sum(axis=1)
    accuracy = np.einsum("wkk->wk", confusion)
    answers = total.sum(axis=1)
    mean_accuracy = (accuracy * total).sum(axis=1) / np.where(answers > 0, answers, 1)
    pooled = np.where(answers > 0, mean_accuracy, accuracy @ weights)
    skill = ((accuracy * total + pooled[:, None]) / (total + 1)) @ weights
    correct = np.einsum("wkk->wk", counts)
    rate = (correct + _rate(correct.sum(axis=1), answers)[:, None]) / (total + 1)
    lost = (1 - rate) / rate * undecided_named + rate / (1 - rate) * (undecided - undecided_named)
    effective = np.clip(total - lost, 0, total)
    mean = rate @ weights
    variance = (rate * (1 - rate) / (effective + 2)) @ weights**2
    strength = np.maximum(mean * (1 - mean) / variance - 1, 2 * JEFFREYS)
    return skill, np.stack([mean * strength, (1 - mean) * strength], axis=1)


def beta_interval(parameters: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Central intervals of Beta distributions, parameters (M, 2)."""
    tail = (1 - level) / 2
    first, second = parameters[:, 0], parameters[:, 1]
    low, high = (np.asarray(betaincinv(first, second, share), np.float64) for share in (tail, 1 - tail))
    return low, high


def _rate(correct: FloatArray, total: FloatArray) -> FloatArray:
    rate: FloatArray = (correct + JEFFREYS) / (total + 2 * JEFFREYS)
    return rate


def agreement_skill(labels: CrowdLabels, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Each worker's mean agreement with a consensus, and the Beta parameters (M, 2) that say how sure it is."""
    right = posterior[labels.task, labels.label]
    correct = worker_sums(labels, right)
    total = labels.labels_per_worker
    rate = correct / np.maximum(total, 1)
    return rate, np.stack([correct + JEFFREYS, total - correct + JEFFREYS], axis=1)
