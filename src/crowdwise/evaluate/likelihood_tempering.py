"""How much n labels of one task are worth: a posterior for workers whose errors are not independent.

Every method of the shortlist takes workers to err independently given the class. In real crowds they do not: a task
that misleads one worker misleads others. The log-likelihood of a task's n labels is therefore tempered, multiplied by

    w(n) = (n + 1)^-γ,

so that n labels count as n (n + 1)^-γ independent ones; a trace of belief (`UNEXPLAINED`) stays with the class prior.
γ = 0 is independence; with γ = 1 any number of labels is worth about one. γ cannot be learnt from the labels at hand: a
task that misleads everyone looks like an easy task of another class. `EXPONENT` was chosen on data sets with a known
truth, leave-one-set-out, and on simulated crowds (`benchmarks/auto_generalisation.py`); the form of w was chosen with
all of these sets in sight. Tempered likelihoods are those of "power posteriors" (Holmes & Walker 2017).

The number of wrong answers that a consensus is expected to have depends on γ as well. Its interval runs from
independence (γ = 0) to odds of a wrong answer that are `MORE_ODDS` times as high as expected (more than in 20 of the 21
real sets with a known truth that were looked at), and a share of at least `ALWAYS_WRONG`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "EXPONENT",
    "ExpectedWrong",
    "temper_posterior",
    "wrong_count_interval",
    "wrong_count_moments",
    "wrong_interval_from_gold",
]

EXPONENT = 0.4
MORE_ODDS = 5.0
UNEXPLAINED = 0.002  # share of the belief that no number of labels takes away
ALWAYS_WRONG = 0.02  # share of wrong answers up to which no crowd, however large, is safe
LEAST = 1e-300  # what an underflown probability counts as; raised to w it must stay negligible


@dataclass(frozen=True)
class ExpectedWrong:
    """How many answers of a consensus are wrong.

    Attributes
    ----------
    count
        Expected number.
    low, high
        Interval.
    basis
        What that rests on, as a sentence.
    """

    count: float
    low: float
    high: float
    basis: str


def temper_posterior(
    posterior: FloatArray, n_labels: IntArray, *, exponent: float = EXPONENT, class_prior: FloatArray | None = None
) -> FloatArray:
    """The posterior (N, K) if the n labels of a task count as n (n + 1)^-exponent independent ones.

    Parameters
    ----------
    n_labels : (N,)
        Labels of each task.
    class_prior : (K,)
        What a task without evidence goes back to; uniform by default.

    Examples
    --------
    >>> temper_posterior(np.array([[0.999, 0.001], [0.999, 0.001]]), np.array([3, 24])).round(2).tolist()
    [[0.98, 0.02], [0.87, 0.13]]
    """
    weight = (n_labels + 1.0) ** -exponent
    logs: FloatArray = np.log(np.maximum(posterior, LEAST)) * weight[:, None]
    if class_prior is not None:
        logs += (1 - weight)[:, None] * np.log(np.maximum(class_prior, LEAST))
        logs[:, class_prior == 0] = -np.inf
    logs -= logs.max(axis=1, keepdims=True)
    np.exp(logs, out=logs)
    logs *= (1 - UNEXPLAINED) / logs.sum(axis=1, keepdims=True)
    logs += UNEXPLAINED * (1 / posterior.shape[1] if class_prior is None else class_prior)
    return logs


def wrong_count_moments(posterior: FloatArray, independent: FloatArray) -> FloatArray:
    """Tasks and expected wrong answers; then mean and variance of the wrong ones if workers err independently.

    Parameters
    ----------
    posterior, independent : (n, K)
        The posterior that decides, and the one with γ = 0.

    Returns
    -------
    (2, 2)
    """
    rows, decided = np.arange(posterior.shape[0]), posterior.argmax(axis=1)
    # In rounding, a row may have more than 1.
    wrong, least = (np.maximum(1 - table[rows, decided], 0) for table in (posterior, independent))
    least = np.minimum(least, wrong)  # gold may have changed a decision of which the labels were sure
    return np.array([(decided.size, wrong.sum()), (least.sum(), (least * (1 - least)).sum())], np.float64)


def wrong_count_interval(moments: FloatArray, level: float, n_classes: int) -> tuple[float, float]:
    """Central interval of the number of wrong answers, from `wrong_count_moments`; at most as many as by guessing.

    >>> wrong_count_interval(np.array([[100.0, 10.0], [4.0, 3.0]]), 0.9, 3)
    (0.0, 44.0)
    """
    (n_tasks, count), (mean, variance) = moments
    if not n_tasks:
        return 0.0, 0.0
    z = float(ndtri((1 + level) / 2))
    rate = max(MORE_ODDS * count / (n_tasks - count + MORE_ODDS * count), ALWAYS_WRONG)
    least = mean - z * np.sqrt(variance + 1)  # 1 for a count's continuity
    most = n_tasks * rate + z * np.sqrt(n_tasks * rate * (1 - rate) + 1)
    guessing = n_tasks * (1 - 1 / n_classes)
    return float(max(0.0, np.floor(least))), float(np.ceil(min(most, guessing)))


def wrong_interval_from_gold(wrong: int, n_gold: int, n_tasks: int, level: float) -> tuple[float, float, float]:
    """Mean and central interval of the wrong answers among other tasks, from those among gold tasks that were held out.

    The number is beta-binomial: the rate of errors has Jeffreys' prior, and the gold is a random sample of the tasks.

    Returns
    -------
    Mean, low, high

    >>> [round(each, 1) for each in wrong_interval_from_gold(5, 50, 200, 0.9)]
    [21.6, 8.0, 39.0]
    """
    from scipy.stats import betabinom  # takes most of a second to import

    number = betabinom(n_tasks, wrong + 0.5, n_gold - wrong + 0.5)
    return float(number.mean()), float(number.ppf((1 - level) / 2)), float(number.ppf((1 + level) / 2))
