"""How sure the workers' rates are, and their standard deviations once the things are known.

The fit says of every mark and coordinate whether it is careless, which makes its own standard deviations a little too
large or too small. Here that is a probability (EM for a contaminated normal distribution), given the grouping.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from crowdwise.kinds.boxes.object_em import PRECISION_STRENGTH, USUAL_VARIANCE, Things, improve, objective
from crowdwise.kinds.boxes.object_likelihood import FACTOR, LOG_SHARES, Crowd, Drawn, Grouping

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["estimate_errors", "shared_variance"]

PASSES = 50
SHIFT = 0.3
PROFILE_STEPS = 10
LEAST_CURVATURE = 1.0  # that of the prior of the common level


def estimate_errors(
    drawn: Drawn, things: Things, grouping: Grouping, precision: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Variance (M,) of the coordinates of each worker's careful marks, and its degrees of freedom (M,).

    A thing's place takes one of its marks' degrees of freedom for each coordinate, most from those who are most exact.
    """
    n_workers = drawn.sizes[1]
    told = np.bincount(grouping.thing, drawn.worker == n_workers, grouping.n_things) > 0
    count = np.bincount(grouping.thing, minlength=grouping.n_things)
    own = (drawn.worker < n_workers) & ((count > 1) | told)[grouping.thing]
    worker, thing = drawn.worker[own], grouping.thing[own]
    squares = ((drawn.place[own] - things.place[thing]) / things.size[thing]) ** 2
    # The residual of a mark about a mean of which it is a share s has 1 - s of the variance of its error.
    share = (things.variance / things.size**2)[thing] * np.append(precision, 1)[worker][:, None]
    left = 1 - np.clip(np.where(told[thing][:, None], 0.0, share), 0, 1)
    free = np.bincount(worker, left.sum(axis=1), n_workers).astype(np.float64)
    variance, usual = 1 / precision, float(1 / precision.mean())
    half = PRECISION_STRENGTH / 2
    for _ in range(PASSES):
        weight = _expected_weights(squares / variance[worker][:, None])
        total = np.bincount(worker, (weight * squares).sum(axis=1), n_workers)
        variance = (total + PRECISION_STRENGTH * usual) / (free + PRECISION_STRENGTH)
        usual = (half * n_workers + 1) / (half * float((1 / variance).sum()) + 1 / USUAL_VARIANCE)
    return variance, free + PRECISION_STRENGTH


def _expected_weights(scaled: FloatArray) -> FloatArray:
    """Expected factor of the precision of each coordinate (n, D), given squares in units of the variance."""
    parts, means = [], []
    for state in (0, 1):
        factors = FACTOR ** (state + np.arange(2))
        each = LOG_SHARES + 0.5 * np.log(factors) - 0.5 * scaled[..., None] * factors
        total = np.logaddexp(each[..., 0], each[..., 1])
        means.append(np.exp(each - total[..., None]) @ factors)
        parts.append(LOG_SHARES[state] + total.sum(axis=-1))
    careless = expit(parts[1] - parts[0])[:, None]
    found: FloatArray = (1 - careless) * means[0] + careless * means[1]
    return found


def shared_variance(drawn: Drawn, crowd: Crowd, grouping: Grouping, name: str) -> float:
    """Variance of a shift that the log-odds of all workers have in common ("draw" or "false_draw").

    What nobody drew is not seen: how many objects there are is known as well as the workers' common level is. By the
    curvature of the objective along the shift, with the rates and the spread as they are best for it.
    """
    middle = objective(drawn, crowd, grouping)
    heights = []
    for shift in (-SHIFT, SHIFT):
        mean = f"{name}_mean"
        now = replace(crowd, **{name: getattr(crowd, name) + shift, mean: getattr(crowd, mean) + shift})
        for _ in range(PROFILE_STEPS):
            better = improve(drawn, now, grouping)
            now = replace(now, objects=better.objects, distractors=better.distractors, spread=better.spread)
        heights.append(objective(drawn, now, grouping))
    curvature = (2 * middle - sum(heights)) / SHIFT**2
    return float(1 / max(curvature, LEAST_CURVATURE))
