"""How probable an answer about two items is: Bradley and Terry's model with ties, a worker's slope, bias and quality.

The items of an answer have the scores s and s', the left one first. With the worker's slope u and bias c,

    x = u (s - s') + c,    L, T, R = (e^(x/2), ν, e^(-x/2)) / (e^(x/2) + ν + e^(-x/2))

and with probability ω, the worker's quality, the answer is left, tie or right as L, T and R say; else left and right
are exchanged.

| equation | here |
|---|---|
| Bradley and Terry (1952): P(left) = σ(s - s'), where u = 1, c = 0, ω = 1, ν = 0 | `choice_shares` |
| Davidson (1970): ties, ν > 0 | `choice_shares` |
| Chen et al. (2013), equation 4: ω σ(s - s') + (1 - ω) σ(s' - s) | `answer_probabilities` |
| derivatives with respect to x, logit ω and log ν, and Fisher's information on them | `differentiate` |
| the observed information, minus the second derivatives of log p: (p' / p)² - p'' / p | `observe_information` |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

if TYPE_CHECKING:
    from crowdwise.kinds.comparisons.answers import Comparisons
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = [
    "Curvature",
    "Derivatives",
    "Parameters",
    "answer_probabilities",
    "choice_shares",
    "differentiate",
    "log_odds",
    "observe_information",
]

TINY = 1e-300  # a probability that rounding made 0


@dataclass(frozen=True)
class Parameters:
    """What the model says of items and workers."""

    score: FloatArray  # (N,): of the items
    # (M,), of the workers: how a difference of scores moves them, and how much they prefer the left side.
    slope: FloatArray
    bias: FloatArray
    quality: FloatArray  # (M,): log-odds of ω; infinite where no answer is exchanged
    tie: float  # log ν; minus infinity where there are no ties

    @classmethod
    def plain(cls, n_items: int, n_workers: int, *, ties: bool) -> Parameters:
        """Items alike and workers who answer as Bradley and Terry's model says."""
        workers = np.ones(n_workers), np.zeros(n_workers), np.full(n_workers, np.inf)
        return cls(np.zeros(n_items), *workers, 0.0 if ties else -np.inf)


class Curvature(NamedTuple):
    """Information of each answer (n,) on x, logit ω (q) and log ν (t)."""

    xx: FloatArray
    qq: FloatArray
    tt: FloatArray
    xq: FloatArray
    xt: FloatArray
    qt: FloatArray


class Derivatives(NamedTuple):
    """Of the log-probability of each answer (n,): `value`, by x, logit ω (q) and log ν (t); Fisher's information."""

    value: FloatArray
    by_x: FloatArray
    by_q: FloatArray
    by_t: FloatArray
    expected: Curvature


def log_odds(answers: Comparisons, parameters: Parameters) -> FloatArray:
    """Log-odds x of left against right for each answer (n,)."""
    difference = parameters.score[answers.left] - parameters.score[answers.right]
    x: FloatArray = parameters.slope[answers.worker] * difference + parameters.bias[answers.worker]
    return x


def choice_shares(x: FloatArray, tie: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """L, T and R for log-odds x, by Davidson's model."""
    half = np.exp(-0.5 * np.abs(x))
    tied = np.exp(tie) * half
    whole = 1 / (1 + half * half + tied)
    small = half * half * whole
    return np.where(x > 0, whole, small), tied * whole, np.where(x > 0, small, whole)


def answer_probabilities(x: FloatArray, quality: FloatArray, tie: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Probability of left, tie and right; `quality` is ω."""
    left, tied, right = choice_shares(x, tie)
    return quality * left + (1 - quality) * right, tied, quality * right + (1 - quality) * left


def differentiate(outcome: IntArray, x: FloatArray, quality: FloatArray, tie: float) -> Derivatives:
    """Log-probability of each answer with its derivatives; `quality` is the log-odds of ω of each answer's worker.

    Fisher's information is the expected product of derivatives: never negative, and where ω is 1 it is the curvature.
    """
    if tie == -np.inf:
        return _differentiate_without_ties(outcome, x, quality)
    left, tied, right = choice_shares(x, tie)
    w = expit(quality)
    mean = 0.5 * (left - right)
    left_x, tied_x, right_x = left * (0.5 - mean), -tied * mean, right * (-0.5 - mean)
    p_left, p_right = w * left + (1 - w) * right, w * right + (1 - w) * left
    # Rows: left, tie, right; the derivatives of their probabilities.
    spread = (w * (1 - w)) * (left - right)
    p = np.maximum(np.stack([p_left, tied, p_right]), TINY)
    by_x = np.stack([w * left_x + (1 - w) * right_x, tied_x, w * right_x + (1 - w) * left_x])
    by_q = np.stack([spread, np.zeros_like(spread), -spread])
    by_t = np.stack([-p_left * tied, tied * (1 - tied), -p_right * tied])
    row, at = 1 - outcome.astype(np.intp), np.arange(outcome.size)
    chosen = p[row, at]
    x_said, q_said, t_said = (each[row, at] / chosen for each in (by_x, by_q, by_t))
    expected = Curvature(
        *((one / p * two).sum(axis=0) for one, two in ((by_x, by_x), (by_q, by_q), (by_t, by_t))),
        *((one / p * two).sum(axis=0) for one, two in ((by_x, by_q), (by_x, by_t), (by_q, by_t))),
    )
    return Derivatives(np.log(chosen), x_said, q_said, t_said, expected)


def observe_information(
    found: Derivatives, outcome: IntArray, x: FloatArray, quality: FloatArray, tie: float
) -> Curvature:
    """Minus the second derivatives of the log-probability of each answer, given the first ones.

    Where ω is 1 it is Fisher's information. Elsewhere it may be negative; near a mode it says how far to go, and
    Fisher's information much too little.
    """
    side = np.where(outcome == 0, 1, outcome)
    same, tied, other = choice_shares(side * x, tie)  # of the side that was chosen, and of the other one
    w, mean = expit(quality), 0.5 * (same - other)
    spread = same * (0.5 - mean) ** 2 + tied * mean**2 + other * (0.5 + mean) ** 2
    turned = w * (1 - w) * (same - other)
    # Second derivatives of the probability of the answer, as a choice of a side or as a tie.
    sides = (
        w * same * ((0.5 - mean) ** 2 - spread) + (1 - w) * other * ((0.5 + mean) ** 2 - spread),
        (1 - 2 * w) * turned,
        (w * same + (1 - w) * other) * tied * (2 * tied - 1),
        side * w * (1 - w) * (same * (0.5 - mean) + other * (0.5 + mean)),
        side * tied * (w * same * (2 * mean - 0.5) + (1 - w) * other * (2 * mean + 0.5)),
        -tied * turned,
    )
    none, twice = np.zeros_like(tied), tied * (1 - 2 * tied)
    ties = (tied * (mean**2 - spread), none, (1 - tied) * twice, none, -mean * twice, none)
    p = np.maximum(np.where(outcome == 0, tied, w * same + (1 - w) * other), TINY)
    products = (
        found.by_x * found.by_x,
        found.by_q * found.by_q,
        found.by_t * found.by_t,
        found.by_x * found.by_q,
        found.by_x * found.by_t,
        found.by_q * found.by_t,
    )
    return Curvature(
        *(
            product - np.where(outcome == 0, tie_, side_) / p
            for product, side_, tie_ in zip(products, sides, ties, strict=True)
        )
    )


def _differentiate_without_ties(outcome: IntArray, x: FloatArray, quality: FloatArray) -> Derivatives:
    """The same where no answer is a tie, in fewer passes; σ is the share of the side that was chosen."""
    chosen = outcome * x
    small = np.exp(-np.abs(chosen))
    whole = 1 / (1 + small)
    share = np.where(chosen > 0, whole, small * whole)
    product = small * whole * whole  # σ (1 - σ)
    none = np.broadcast_to(0.0, x.shape)
    if np.isposinf(quality).all():
        value = np.minimum(chosen, 0.0) + np.log(whole)
        expected = Curvature(product, none, none, none, none, none)
        return Derivatives(value, outcome * (1 - share), none, none, expected)
    w = expit(quality)
    p = (1 - w) + (2 * w - 1) * share
    by_x, by_q = outcome * (2 * w - 1) * product, w * (1 - w) * (2 * share - 1)
    # Both outcomes have the same squared derivatives.
    scale = 1 / np.maximum(p * (1 - p), TINY)
    kept = np.maximum(p, TINY)
    expected = Curvature(by_x**2 * scale, by_q**2 * scale, none, by_x * by_q * scale, none, none)
    return Derivatives(np.log(kept), by_x / kept, by_q / kept, none, expected)
