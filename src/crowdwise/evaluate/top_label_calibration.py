"""The confidence of a posterior: recalibrated on gold, and drawn to as many levels as the gold can support.

The confidence is the probability of the most probable class. That class was chosen for its probability, so the
confidence is too high wherever probabilities are noisy, even if they are right on average. Top-label calibration (Gupta
and Ramdas 2022, "Top-label calibration and multiclass-to-binary reductions", ICLR) therefore learns from whether gold
tasks were decided rightly: logit c' = α logit c + δ, with priors centred on no change (α = 1, δ = 0).

A hundred gold answers cannot tell a hundred confidences apart. After the scaling, confidences are drawn towards the
mean of a few levels (the scaling-binning calibrator of Kumar, Liang and Ma 2019, "Verified uncertainty calibration",
NeurIPS), but not all the way: the order of the tasks stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from crowdwise.evaluate.penalised_logistic import fit_logistic, leave_one_out_scores, softmax

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "find_confidence_levels",
    "fit_top_label_calibration",
    "scale_confidence",
    "set_confidence",
    "shrink_to_levels",
]

SPREAD = 0.25  # standard deviation of the priors of α and of δ
CERTAIN = 1e-6  # confidences nearer to 0 or 1 are taken as this far from it before the logit
FEWEST_LEVELS, GOLD_PER_LEVEL = 5, 20  # levels with few gold answers; gold answers for each level with many
KEPT = 0.01  # share of the distance to the level's mean that is kept, so that the order of tasks stays
POINTS = 1_000  # quantiles of the confidences that levels are found from
ROUNDS = 50
HALVINGS = 40
STEEPEST = 64.0


def fit_top_label_calibration(confidence: FloatArray, right: BoolArray) -> tuple[FloatArray, FloatArray]:
    """α and δ, (2,); and the confidence (n,) of each gold task by what the others would have given.

    Parameters
    ----------
    confidence, right : (n,)
        Of the gold tasks, cross-fitted: how sure, and whether the decision was right.
    """
    if confidence.size == 0:
        return np.array([1.0, 0.0]), confidence
    design = np.zeros((confidence.size, 2, 2))
    design[:, 1, 0], design[:, 1, 1] = _logit(confidence), 1.0
    decided = right.astype(np.int64)
    fit = fit_logistic(design, decided, np.array([1.0, 0.0]), np.full(2, SPREAD**-2))
    return fit.coefficients, softmax(leave_one_out_scores(design, decided, fit))[:, 1]


def scale_confidence(confidence: FloatArray, slope_and_shift: FloatArray) -> FloatArray:
    """Confidence after top-label calibration."""
    scaled: FloatArray = expit(slope_and_shift[0] * _logit(confidence) + slope_and_shift[1])
    return scaled


def find_confidence_levels(confidence: FloatArray, n_gold: int) -> FloatArray:
    """Levels of confidence, (levels, 2): their centre on the logit scale, and the mean confidence around it.

    One-dimensional k-means over quantiles of the logits of all tasks: at least `FEWEST_LEVELS`, and one for each
    `GOLD_PER_LEVEL` gold answers.
    """
    quantiles = np.quantile(confidence, (np.arange(POINTS) + 0.5) / POINTS)
    logits = _logit(quantiles)
    n_levels = max(FEWEST_LEVELS, n_gold // GOLD_PER_LEVEL)
    centres = np.unique(np.quantile(logits, (np.arange(n_levels) + 0.5) / n_levels))
    for _ in range(ROUNDS):
        nearest = _nearest_centre(logits, centres)
        n = np.bincount(nearest, minlength=centres.size)
        moved = (np.bincount(nearest, logits, centres.size) / np.maximum(n, 1))[n > 0]
        if moved.size == centres.size and np.allclose(moved, centres):
            break
        centres = np.unique(moved)
    nearest = _nearest_centre(logits, centres)
    n = np.bincount(nearest, minlength=centres.size)
    filled = n > 0
    means = np.bincount(nearest, quantiles, centres.size)[filled] / n[filled]
    return np.stack([centres[filled], means], axis=1)


def shrink_to_levels(confidence: FloatArray, levels: FloatArray) -> FloatArray:
    """Confidence drawn to the mean of its level; where there are no levels, as it is."""
    if not len(levels):
        return confidence
    means = levels[_nearest_centre(_logit(confidence), levels[:, 0]), 1]
    drawn: FloatArray = means + KEPT * (confidence - means)
    return drawn


def set_confidence(posterior: FloatArray, confidence: FloatArray) -> FloatArray:
    """The posterior with another confidence: each row to a power of its own, so that the order of its classes stays.

    A row whose best classes tie cannot become surer, and hardly can where they nearly do.

    Examples
    --------
    >>> set_confidence(np.array([[0.7, 0.2, 0.1]]), np.array([0.5])).round(3).tolist()
    [[0.5, 0.288, 0.212]]
    """
    logs = np.log(np.maximum(posterior, np.finfo(np.float64).tiny))
    logs -= logs.max(axis=1, keepdims=True)
    # exp(power × log) sums to 1 / confidence: the sum falls as the power grows.
    low, high = np.zeros(len(posterior)), np.full(len(posterior), STEEPEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        unsure = np.exp(middle[:, None] * logs).sum(axis=1) * confidence > 1
        low, high = np.where(unsure, middle, low), np.where(unsure, high, middle)
    return softmax(((low + high) / 2)[:, None] * logs)


def _logit(confidence: FloatArray) -> FloatArray:
    inside = np.clip(confidence, CERTAIN, 1 - CERTAIN)
    logits: FloatArray = np.log(inside / (1 - inside))
    return logits


def _nearest_centre(values: FloatArray, centres: FloatArray) -> IntArray:
    """Place of the nearest of the sorted centres."""
    return np.searchsorted((centres[1:] + centres[:-1]) / 2, values)
