"""A worker's skill and how sure it is, in closed form: for crowds that are too large to sample.

The truth is not seen, so n labels tell less than n graded answers. Louis (1982): observed information =
complete information - variance of the complete score under the posterior. In units of answers, with accuracy a:
`effective = answers - lost`, where `lost` is that variance times a(1-a). (The complete information is taken as
expected, n: as observed, it would say that a worker who is never wrong has told nothing.)

Where answers are few, the posterior at the maximum of the likelihood is too sure of itself, and so would be the
intervals. They are therefore taken at parameters drawn towards the crowd (`shrink_accuracies`, `shrink_rows`), by as
many answers as made nine intervals in ten hold the truth on simulated crowds. `fitting.skill_sampler` learns that
number from each crowd instead, and `fitting.skill_posterior` chooses between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaincinv

from crowdwise.kernels import sum_named_class

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = [
    "DRAWS",
    "FEW_ANSWERS",
    "FEW_LABELS",
    "beta_interval",
    "coin_skill_beta",
    "confusion_skill",
    "confusion_skill_beta",
    "match_beta",
    "mean_vote_agreement",
    "shrink_accuracies",
    "shrink_rows",
    "shrink_rows_to_crowd",
    "skill_beta_given_variance",
]

JEFFREYS = 0.5
UNLIKE = 2.0  # tosses of a coin that an answer to a task of its own ease tells as much as, at most
SHARPEST = 1e-9  # share of its largest possible value that a variance is taken to have at least
COIN_DRAW = 3.0  # answers of the crowd that count as a worker's own, where one accuracy describes each
ROW_DRAW = 15.0  # the same for a row of a confusion matrix
OWN_DRAW = 8.0  # the same for the accuracy that rows are drawn towards
CLASS_DRAW = 3.0  # answers at a worker's accuracy on all that count for each class
OTHERS = 1.0  # power of the share of answers left that is lost once more, to the other workers' uncertainty
COIN_OTHERS = 0.4  # the same where one accuracy describes each of them
FEW_ANSWERS = 40.0  # for a worker and class: above it, drawing changes nothing worth a pass over the labels
FEW_LABELS = 200.0  # of a worker, where one accuracy describes each: the same
DRAWS = 2  # passes at drawn rows, each of which starts from the counts of the one before


def shrink_accuracies(correct: FloatArray, total: FloatArray) -> FloatArray:
    """Accuracy of each worker (M,), drawn towards that of the crowd."""
    return _shrink(correct, total, COIN_DRAW)


def shrink_rows(counts: FloatArray) -> FloatArray:
    """Logarithm of the rows of confusion matrices, drawn towards the worker's accuracy and the crowd's errors.

    `counts` and the result are [worker, truth, label].
    """
    rows = shrink_rows_to_crowd(counts, OWN_DRAW)
    log_rows: FloatArray = np.log((counts + ROW_DRAW * rows) / (counts.sum(axis=2) + ROW_DRAW)[:, :, None])
    return log_rows


def shrink_rows_to_crowd(counts: FloatArray, answers: float) -> FloatArray:
    """Rows with each worker's own accuracy, drawn towards the crowd's by so many answers, and the crowd's errors.

    `counts` and the result are [worker, truth, label].
    """
    diagonal = np.arange(counts.shape[1])
    accuracy = _shrink(np.einsum("wkk->w", counts), counts.sum(axis=(1, 2)), answers)
    errors = counts.sum(axis=0) + JEFFREYS
    errors[diagonal, diagonal] = 0
    errors /= np.maximum(errors.sum(axis=1, keepdims=True), JEFFREYS)
    rows: FloatArray = (1 - accuracy)[:, None, None] * errors
    rows[:, diagonal, diagonal] = accuracy[:, None]
    return rows


def coin_skill_beta(correct: FloatArray, total: FloatArray, undecided: FloatArray) -> FloatArray:
    """Beta parameters (M, 2) of each worker's accuracy when one number describes the worker.

    Parameters
    ----------
    correct, total : (M,)
        Expected right answers, and answers.
    undecided : (M,)
        Σ q(1-q) over the worker's labels, q the posterior that the label is right.
    """
    rate = shrink_accuracies(correct, total)
    effective = np.clip(total - undecided / (rate * (1 - rate)), 0, total)
    effective *= ((effective + COIN_DRAW) / (total + COIN_DRAW)) ** COIN_OTHERS
    crowd = _crowd_accuracy(correct, total)
    return np.stack([rate * effective + crowd, (1 - rate) * effective + 1 - crowd], axis=1)


def skill_beta_given_variance(correct: FloatArray, total: FloatArray, noise: FloatArray) -> FloatArray:
    """Beta parameters (M, 2) of the mean chance of right answers whose number has the variance `noise` (M,).

    An answer counts as at most `UNLIKE` tosses of a coin.
    """
    rate = shrink_accuracies(correct, total)
    tosses = rate * (1 - rate) * total
    effective = total * tosses / np.maximum(np.maximum(noise, tosses / UNLIKE), SHARPEST)
    crowd = _crowd_accuracy(correct, total)
    return np.stack([rate * effective + crowd, (1 - rate) * effective + 1 - crowd], axis=1)


def confusion_skill(confusion: FloatArray, counts: FloatArray, weights: FloatArray) -> FloatArray:
    """Each worker's chance to be right (M,), from confusion matrices [worker, truth, label].

    Parameters
    ----------
    counts : (M, K, K) [worker, truth, label]
        Σ q over the worker's labels.
    weights : (K,)
        The class prior.

    Notes
    -----
    A class that a worker has hardly met is drawn towards their accuracy on all, with the weight of one answer: a
    matrix says nothing of a class it has never seen, and its skill should not either.
    """
    total = counts.sum(axis=2)
    accuracy = np.einsum("wkk->wk", confusion)
    answers = total.sum(axis=1)
    mean_accuracy = (accuracy * total).sum(axis=1) / np.where(answers > 0, answers, 1)
    pooled = np.where(answers > 0, mean_accuracy, accuracy @ weights)
    skill: FloatArray = ((accuracy * total + pooled[:, None]) / (total + 1)) @ weights
    return np.minimum(skill, 1)  # shares can sum to a rounding more than 1


def confusion_skill_beta(
    counts: FloatArray, undecided: FloatArray, undecided_named: FloatArray, weights: FloatArray
) -> FloatArray:
    """Beta parameters (M, 2) of Σ_k weights[k] A[w, k, k], the chance that a worker is right.

    Parameters
    ----------
    counts : (M, K, K) [worker, truth, label]
        Σ q over the worker's labels.
    undecided, undecided_named : (M, K)
        Σ q(1-q) over all of the worker's labels, and over those that name the class.
    weights : (K,)
        The class prior.

    Notes
    -----
    Two levels. A worker's accuracy on class k is Beta around their accuracy on all, with the weight of `CLASS_DRAW`
    answers; that in turn is Beta around the crowd's, with `OWN_DRAW`. What is not known of a class adds to the variance
    by the square of its weight, what is not known of the accuracy on all once, for all classes that lean on it. Lost
    answers are counted with an accuracy for each class and with one for all; the larger loss is believed. That loss
    takes the other workers as known. They are not, and what that costs is taken to be as much again (a power, `OTHERS`,
    of the share left): a rule that fits simulated crowds, not a derivation.
    """
    correct, total = np.einsum("wkk->wk", counts), counts.sum(axis=2)
    right, answers = correct.sum(axis=1), total.sum(axis=1)
    overall = _shrink(right, answers, OWN_DRAW)
    rate = np.clip((correct + CLASS_DRAW * overall[:, None]) / (total + CLASS_DRAW), SHARPEST, 1 - SHARPEST)
    lost = undecided_named * (1 - rate) / rate + (undecided - undecided_named) * rate / (1 - rate)
    by_class = np.clip(total - lost, 0, total)
    as_one = answers - undecided_named.sum(axis=1) / (overall * (1 - overall))
    effective = by_class.sum(axis=1)
    believed = np.minimum(effective, np.clip(as_one, 0, answers))
    believed *= ((believed + OWN_DRAW) / (answers + OWN_DRAW)) ** OTHERS
    by_class *= (believed / np.maximum(effective, SHARPEST))[:, None]
    leaning = (CLASS_DRAW / (by_class + CLASS_DRAW)) @ weights
    variance = (rate * (1 - rate) / (by_class + CLASS_DRAW + 1)) @ weights**2
    variance += leaning**2 * overall * (1 - overall) / (believed + OWN_DRAW + 1)
    return match_beta(rate @ weights, variance)


def beta_interval(parameters: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Central intervals of Beta distributions, parameters (M, 2)."""
    tail = (1 - level) / 2
    first, second = parameters[:, 0], parameters[:, 1]
    low, high = (np.asarray(betaincinv(first, second, share), np.float64) for share in (tail, 1 - tail))
    return low, high


def match_beta(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Beta parameters (M, 2) with these means and variances, from 0 to 1; a variance of 0 becomes a tiny one."""
    inside = np.clip(mean, SHARPEST, 1 - SHARPEST)
    most = inside * (1 - inside)
    strength = most / np.clip(variance, SHARPEST * most, (1 - SHARPEST) * most) - 1
    return np.stack([inside * strength, (1 - inside) * strength], axis=1)


def _crowd_accuracy(correct: FloatArray, total: FloatArray) -> float:
    """Accuracy of all workers together."""
    return float((correct.sum() + JEFFREYS) / (total.sum() + 2 * JEFFREYS))


def _shrink(correct: FloatArray, total: FloatArray, answers: float) -> FloatArray:
    """Share of right answers, drawn towards that of the crowd by so many answers."""
    rate: FloatArray = (correct + answers * _crowd_accuracy(correct, total)) / (total + answers)
    return np.clip(rate, SHARPEST, 1 - SHARPEST)  # 0 or 1 by rounding where answers are a great many


def mean_vote_agreement(labels: CrowdLabels, posterior: FloatArray) -> FloatArray:
    """Mean share of a vote (N, K) that stands behind each worker's labels (M,), the worker's own vote included."""
    agreed = sum_named_class(labels, posterior)
    share: FloatArray = agreed / np.maximum(labels.labels_per_worker, 1)
    return share
