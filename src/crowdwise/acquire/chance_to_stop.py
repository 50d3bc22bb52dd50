"""Whether more labels would make anyone sure of a task: chance that it is stopped before its labels run out.

A task has the posterior q after n labels; its most probable class is right with a calibrated chance c. Futures are
drawn, `DRAWS` for each task:

| what is drawn | from |
|---|---|
| its truth k | the most probable class with chance c, else another in proportion to q |
| who gives each further label | workers, in proportion to the labels that they have given |
| label l of worker w | A_w[k, l], the confusion matrices of the consensus |
| calibration δ, α | what is known of them |

After j further labels the posterior is ∝ exp(v(n + j) [log q / v(n) + Σ log A_w[·, l]]) with v(n) = (n + 1)^-0.4, the
tempering of `likelihood_tempering`. The task is stopped in a future if P(right), expit(δ + α x), reaches the target
after any of its further labels, x the logit of the confidence. What further labels teach of the workers is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.evaluate.likelihood_tempering import EXPONENT, UNEXPLAINED

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["chance_to_stop"]

DRAWS = 32
LEAST = 1e-12  # probabilities below it count as this before the logarithm


def chance_to_stop(
    posterior: FloatArray,
    chance: FloatArray,
    n_labels: IntArray,
    left: IntArray,
    confusion: FloatArray,
    answers: IntArray,
    calibrations: FloatArray,
    is_sure: Callable[[FloatArray, int], BoolArray],
    rng: np.random.Generator,
) -> FloatArray:
    """Chance of each task (n,) to be stopped with its further labels.

    Parameters
    ----------
    posterior : (n, K)
    chance, n_labels, left : (n,)
        P(the most probable class is right), labels so far, and labels that can still come.
    confusion, answers : (M, K, K), (M,)
        Matrices of the workers, and how many labels each has given.
    calibrations : (C,)
        Probability of each calibration.
    is_sure
        Whether confidences (n,) are high enough, by the calibration of this number.
    """
    truth_shares = np.cumsum(_recalibrate(posterior, chance), axis=1)
    start = np.log(np.maximum(posterior, LEAST)) / _tempering(n_labels)[:, None]
    share_of_worker = np.cumsum(answers) / max(answers.sum(), 1)
    share_of_label, evidence = np.cumsum(confusion, axis=2), np.log(np.maximum(confusion, LEAST))
    times = np.zeros(len(posterior))
    for calibration in rng.choice(calibrations.size, DRAWS, p=calibrations).tolist():
        truth, logs = _draw(truth_shares, rng), start.copy()
        open_ = np.flatnonzero(left > 0)
        for further in range(1, int(left.max(initial=0)) + 1):
            worker = np.searchsorted(share_of_worker, rng.random(open_.size) * share_of_worker[-1])
            label = _draw(share_of_label[worker, truth[open_]], rng)
            logs[open_] += evidence[worker, :, label]
            confidence = _confidence(logs[open_] * _tempering(n_labels[open_] + further)[:, None])
            sure = is_sure(confidence, calibration)
            times[open_[sure]] += 1
            open_ = open_[~sure & (left[open_] > further)]
            if not open_.size:
                break
    found: FloatArray = times / DRAWS
    return found


def _tempering(n_labels: IntArray) -> FloatArray:
    found: FloatArray = np.power(n_labels + 1.0, -EXPONENT, dtype=np.float64)
    return found


def _recalibrate(posterior: FloatArray, chance: FloatArray) -> FloatArray:
    """The posterior with another probability of the most probable class, the others in proportion."""
    rows, top = np.arange(len(posterior)), posterior.argmax(axis=1)
    rest = np.maximum(posterior, LEAST)
    rest[rows, top] = 0.0
    found: FloatArray = rest * ((1 - chance) / np.maximum(rest.sum(axis=1), LEAST))[:, None]
    found[rows, top] = chance
    return found


def _draw(cumulative: FloatArray, rng: np.random.Generator) -> IntArray:
    """One class for each row of cumulative probabilities."""
    below: IntArray = (rng.random(len(cumulative))[:, None] * cumulative[:, -1:] > cumulative).sum(axis=1)
    return below


def _confidence(logs: FloatArray) -> FloatArray:
    """Probability of the most probable class, with the trace of belief that no number of labels takes away."""
    size = logs.shape[1]
    top = 1 / np.exp(logs - logs.max(axis=1, keepdims=True)).sum(axis=1)
    found: FloatArray = (1 - UNEXPLAINED) * top + UNEXPLAINED / size
    return found
