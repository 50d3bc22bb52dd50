"""What people would score on average, from few labels of people and many votes of judges.

With y what people say of a task (a number), f what the panel predicts (made without the task's own answer), n tasks
with both and N tasks in all, the prediction-powered mean (Angelopoulos et al. 2023, Science 382; tuned as in
Angelopoulos, Duchi and Zrnic 2023, "PPI++") is

    θ = λ mean(f over all N) + Σ w (y - λ f) / Σ w over the n,      λ = cov(y, f) / var(f), within 0 … 1.

Judges that are wrong in the same way everywhere are corrected by the second part; judges that tell nothing get λ = 0,
and the estimate is the mean of the people's labels. w is one over the chance that people were given the task. The
variance is that of y - λ f over n, plus that of λ f over N, with Student's quantile. Tasks are taken as drawn at random
from those that the score is about.

`correct_shares` is the correction of Rogan and Gladen (1978) for any number of classes: the shares of the panel's
decisions, p = Cᵀ π, solved for π, with C[k, l] = P(panel says l | people say k) counted on labelled tasks. Its interval
comes from draws of C and p (Dirichlet). `correct_mean` is the mean grade under π. Both assume that C is the same on all
tasks; the prediction-powered mean does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from crowdwise.judges.agreement_with_people import LEVEL, Estimate, effective_number

if TYPE_CHECKING:
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "FEWEST_LABELS",
    "correct_mean",
    "correct_shares",
    "estimate_human_mean",
    "estimate_mean",
    "estimate_system_difference",
]

FEWEST_LABELS = 10  # tasks labelled by people
DRAWS = 1_000
SINGULAR = 0.1  # least singular value of C, below which nothing can be solved for


def estimate_human_mean(
    y: FloatArray, weight: FloatArray | None = None, span: tuple[float, float] = (0.0, 1.0)
) -> Estimate:
    """The mean of people's labels alone, with Student's interval."""
    return estimate_mean(y, np.zeros(y.size), np.zeros(1), weight, span)


def estimate_mean(
    y: FloatArray,
    predicted: FloatArray,
    everywhere: FloatArray,
    weight: FloatArray | None = None,
    span: tuple[float, float] = (0.0, 1.0),
) -> Estimate:
    """Prediction-powered mean.

    Parameters
    ----------
    y, predicted : (n,)
        What people say, and what the panel predicts without them, on labelled tasks.
    everywhere : (N,)
        What the panel predicts on all tasks, the labelled ones among them.
    weight : (n,), optional
        One over the chance that the task was labelled.
    span
        Lowest and highest that a label may be. Where all labels are equal, nothing varies that an interval could be
        made of; it then reaches as far as a share of tasks at the ends that n draws miss in 5 % of samples.
    """
    weight = np.ones(y.size) if weight is None else weight
    share = weight / weight.sum()
    n = effective_number(weight)
    tuning = _tune(y, predicted, share)
    residual = y - tuning * predicted
    middle = float(tuning * everywhere.mean() + share @ residual)
    spread, freedom = _standard_error(residual, tuning * predicted, share, n, everywhere.size)
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * spread
    unseen = 1 - ((1 - LEVEL) / 2) ** (1 / n) if np.ptp(y) == 0 else 0.0
    low, high = (max(half, unseen * abs(middle - end)) for end in span)
    return Estimate(middle, middle - low, middle + high, y.size)


def _tune(y: FloatArray, predicted: FloatArray, share: FloatArray) -> float:
    """λ: how far the predictions are trusted, 0 to 1."""
    away = predicted - share @ predicted
    spread = float(share @ away**2)
    return float(np.clip(share @ (away * y) / spread, 0.0, 1.0)) if spread > 1e-12 else 0.0


def _standard_error(
    residual: FloatArray, scaled: FloatArray, share: FloatArray, n: float, n_all: int
) -> tuple[float, float]:
    """Standard error of the mean and its degrees of freedom: λ f was estimated too."""
    away = residual - share @ residual
    other = scaled - share @ scaled
    freedom = max(n - 2, 1.0) if (scaled != 0).any() else max(n - 1, 1.0)
    # Labels drawn with weights: what is summed is w (y - λ f), tasks of large weight count by its square.
    variance = float((share**2 * away**2).sum()) * n / freedom
    if (scaled != 0).any():
        variance += float(share @ other**2 + 2 * share @ (other * away)) / n_all
    return float(np.sqrt(max(variance, 0.0))), freedom


def estimate_system_difference(
    y: FloatArray,
    predicted: FloatArray,
    everywhere: FloatArray,
    *,
    labelled_first: BoolArray,
    first: BoolArray,
    weight: FloatArray | None = None,
    span: tuple[float, float] = (0.0, 1.0),
) -> Estimate:
    """How much higher people would score the first of two systems than the second: the difference of two means.

    Parameters
    ----------
    y, predicted, labelled_first : (n,)
        Of labelled tasks; whether the task shows the first system's work.
    everywhere, first : (N,)
        Of all tasks of the two.
    """
    weight = np.ones(y.size) if weight is None else weight
    parts = [
        estimate_mean(y[mine], predicted[mine], everywhere[all_mine], weight[mine], span)
        for mine, all_mine in ((labelled_first, first), (~labelled_first, ~first))
    ]
    one, other = parts
    gap = one.value - other.value
    low = float(np.hypot(one.value - one.low, other.high - other.value))
    high = float(np.hypot(one.high - one.value, other.value - other.low))
    return Estimate(gap, gap - low, gap + high, y.size)


def correct_shares(
    decided: IntArray,
    truth: IntArray,
    decided_everywhere: IntArray,
    n_classes: int,
    *,
    weight: FloatArray | None = None,
    random_state: int = 0,
) -> list[Estimate] | None:
    """Shares of the classes in people's answers, corrected for the panel's errors; None where C cannot be inverted.

    Parameters
    ----------
    decided, truth : (n,)
        The panel's decision, made without the task's own answer, and the people's, on labelled tasks.
    decided_everywhere : (N,)
        The panel's decisions on all tasks.
    """
    drawn = _draw_shares(decided, truth, decided_everywhere, n_classes, weight, random_state)
    if drawn is None:
        return None
    used, solved, draws = drawn
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    found = [Estimate(0.0, 0.0, 0.0, truth.size) for _ in range(n_classes)]
    for place, at in enumerate(used):
        found[at] = Estimate(float(solved[place]), float(low[place]), float(high[place]), truth.size)
    return found


def correct_mean(
    decided: IntArray,
    truth: IntArray,
    decided_everywhere: IntArray,
    values: FloatArray,
    *,
    weight: FloatArray | None = None,
    random_state: int = 0,
) -> Estimate | None:
    """Mean grade of people's answers, from their shares corrected for the panel's errors, as `correct_shares`.

    Parameters
    ----------
    values : (K,)
        The grades.
    """
    drawn = _draw_shares(decided, truth, decided_everywhere, values.size, weight, random_state)
    if drawn is None:
        return None
    used, solved, draws = drawn
    low, high = np.quantile(draws @ values[used], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(solved @ values[used]), float(low), float(high), truth.size)


def _draw_shares(
    decided: IntArray,
    truth: IntArray,
    decided_everywhere: IntArray,
    n_classes: int,
    weight: FloatArray | None,
    random_state: int,
) -> tuple[IntArray, FloatArray, FloatArray] | None:
    """The classes that people use, their corrected shares, and draws of these; None where C cannot be inverted."""
    weight = np.ones(decided.size) if weight is None else weight
    weight = weight * effective_number(weight) / weight.sum()
    used = np.flatnonzero(np.bincount(truth, minlength=n_classes) > 0)
    counts = np.zeros((n_classes, n_classes))
    np.add.at(counts, (truth, decided), weight)
    counts = counts[used]
    said = np.bincount(decided_everywhere, minlength=n_classes).astype(np.float64)
    if np.linalg.svd(counts / counts.sum(axis=1, keepdims=True), compute_uv=False)[-1] < SINGULAR:
        return None
    solved = _solve_shares(counts, said)
    rng = np.random.default_rng(random_state)
    rows = rng.standard_gamma(counts + 0.5 / n_classes, (DRAWS, *counts.shape))
    draws = _solve_shares(rows, rng.standard_gamma(np.maximum(said, 0.5 / n_classes), (DRAWS, n_classes)))
    return used, solved, draws


def _solve_shares(counts: FloatArray, said: FloatArray) -> FloatArray:
    """π of p = Cᵀ π by least squares, made a distribution, from counts of C and of p; first axes are draws."""
    confusion = counts / counts.sum(axis=-1, keepdims=True)
    shares = said / said.sum(axis=-1, keepdims=True)
    solved = np.maximum((shares[..., None, :] @ np.linalg.pinv(confusion))[..., 0, :], 0.0)
    found: FloatArray = solved / np.maximum(solved.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
    return found
