"""Steps of the variational fit of values: the posterior of the values, of each worker's line and of their noise.

The bound and its steps are those of `gaussian`, in units in which the answers have mean 0 and variance 1. Every step
raises `evidence_lower_bound`, and each function is one of them. Below, v is a variance of a prior, the noise or ν, and
v' the one that raises the bound most.

| equation | here |
|---|---|
| v' given the posteriors | `improve` |
| v (v' / v)^f: log v goes f times as far; a step that lowers the bound is refused by the caller | `overrelax` |
| noise and lines anew for such v | `adopt_priors` |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, gammaln

from crowdwise.kernels.value_sums import value_pass

if TYPE_CHECKING:
    from crowdwise.kernels.value_sums import ValueEdges, ValuePass
    from crowdwise.labels.types import FloatArray

__all__ = [
    "PINNED",
    "Beliefs",
    "Crowd",
    "GammaShapes",
    "Hyperparameters",
    "LinePosterior",
    "adopt_priors",
    "evidence_lower_bound",
    "expect_values",
    "improve",
    "overrelax",
    "worker_sums",
]

PINNED = 1e-12  # variance of a prior that lets a scale or a bias be nothing but what the prior says
VALUE_TASKS = 2.0  # tasks of the variance of the answers that the prior of the values' variance counts as
LINE_WORKERS = 1.0  # workers that the priors of the variances of scale and bias count as
USUAL_SCALE_VARIANCE = 0.1
FEWEST_FREEDOM, MOST_FREEDOM = 3.0, 100.0  # of Student's t: with fewer no variance, with more it is normal
NOISE_WORKERS = 1.0  # workers that the prior of the common noise counts as, lest exact workers draw all after them


class LinePosterior(NamedTuple):
    """Posterior of each worker's scale a and bias b: means, variances and covariance (M, D)."""

    scale: FloatArray
    bias: FloatArray
    scale_variance: FloatArray
    bias_variance: FloatArray
    covariance: FloatArray

    def second_moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """E[a²], E[ab] and E[b²] (M, D)."""
        return (
            self.scale**2 + self.scale_variance,
            self.scale * self.bias + self.covariance,
            self.bias**2 + self.bias_variance,
        )


@dataclass(frozen=True)
class Crowd:
    """What is fitted: the answers by coordinate, the number of answers of workers (M,), and what is fitted of lines."""

    edges: tuple[ValueEdges, ...]
    per_worker: FloatArray
    usual_noise: float
    fits_scale: bool
    fits_bias: bool

    @property
    def has_gold(self) -> bool:
        """Whether some values are known."""
        return bool(self.edges[0].known.size)


@dataclass(frozen=True)
class Hyperparameters:
    """Mean and variance of values (D,); prior variances of scales and biases (D,); prior of the workers' noise.

    The precision of a worker's noise has the prior Gamma(strength / 2, strength × noise / 2).
    """

    mean: FloatArray
    spread: FloatArray
    scale_variance: FloatArray
    bias_variance: FloatArray
    strength: float
    noise: float
    freedom: float  # of Student's t; infinite for normal noise


class GammaShapes(NamedTuple):
    """Shapes of the posteriors of precisions (M,), which a fit never changes, and ψ and log Γ of them."""

    shape: FloatArray
    digamma: FloatArray
    log_gamma: FloatArray

    @classmethod
    def of(cls, strength: float, counts: FloatArray) -> GammaShapes:
        """Those of a prior that counts as `strength` numbers and of workers with so many numbers of their own (M,)."""
        shape = (strength + counts) / 2
        return cls(shape, digamma(shape), gammaln(shape))


@dataclass(frozen=True)
class Beliefs:
    """Posteriors but those of the values: of lines, of precisions (M,) and of the answers' weights, both Gamma."""

    lines: LinePosterior
    shapes: GammaShapes
    rate: FloatArray
    weight_shape: float
    weight_rate: FloatArray | None
    priors: Hyperparameters

    @property
    def precision(self) -> FloatArray:
        """Expected precision of each worker's noise (M,)."""
        return self.shapes.shape / self.rate


def answer_weights(beliefs: Beliefs) -> FloatArray | None:
    """Expected weight of each answer (n,): low for one that is far off; None where noise is normal."""
    if beliefs.weight_rate is None:
        return None
    return beliefs.weight_shape / beliefs.weight_rate


def expect_values(crowd: Crowd, beliefs: Beliefs) -> list[ValuePass]:
    """Posterior of the values of each coordinate, given those of the workers."""
    square, both, _ = beliefs.lines.second_moments()
    weight, priors = answer_weights(beliefs), beliefs.priors
    found = []
    for place, edges in enumerate(crowd.edges):
        table = beliefs.precision[:, None] * np.column_stack(
            [square[:, place], beliefs.lines.scale[:, place], both[:, place]]
        )
        found.append(value_pass(edges, table, float(priors.mean[place]), float(priors.spread[place]), weight))
    return found


def worker_sums(crowd: Crowd, beliefs: Beliefs) -> FloatArray:
    """Σ 1, Σ x and Σ x² over each worker's answers, weighed (M, D, 3); always the same if noise is normal."""
    weight = answer_weights(beliefs)
    n_workers = crowd.per_worker.size
    columns = []
    for edges in crowd.edges:
        one = np.ones(edges.value.size) if weight is None else weight
        rows = one, one * edges.value, one * edges.value**2
        columns.append(np.column_stack([np.bincount(edges.worker, each, n_workers) for each in rows]))
    return np.stack(columns, axis=1)


def squared_residuals(lines: LinePosterior, passes: list[ValuePass], own: FloatArray) -> FloatArray:
    """Expected Σ (x - a y - b)² over each worker's answers (M, D)."""
    square, both, constant = lines.second_moments()
    sums = np.stack([each.sums for each in passes], axis=1)
    found: FloatArray = (
        own[..., 2] - 2 * lines.scale * sums[..., 2] - 2 * lines.bias * own[..., 1]
        + square * sums[..., 1] + 2 * both * sums[..., 0] + constant * own[..., 0]
    )  # fmt: skip
    return np.maximum(found, 0.0)  # below 0 is rounding


def evidence_lower_bound(crowd: Crowd, beliefs: Beliefs, passes: list[ValuePass], own: FloatArray) -> float:
    """Bound on the log-evidence of the answers; `passes` are the posterior of the values."""
    priors, lines, there = beliefs.priors, beliefs.lines, crowd.per_worker > 0
    shapes = beliefs.shapes
    log_precision = shapes.digamma - np.log(beliefs.rate)
    n_coordinates = len(passes)
    total = 0.5 * n_coordinates * float((crowd.per_worker * (log_precision - np.log(2 * np.pi))).sum())
    total -= 0.5 * float(beliefs.precision @ squared_residuals(lines, passes, own).sum(axis=1))
    for each, mean, spread in zip(passes, priors.mean, priors.spread, strict=True):
        first, second, logs, unknown, number = each.totals
        total -= 0.5 * float((second - 2 * mean * first + number * mean**2) / spread + number * np.log(spread))
        total += 0.5 * float(unknown + logs - np.log(2 * np.pi) * (number - unknown))
        total -= 0.5 * VALUE_TASKS * float(np.log(spread) + 1 / spread)
    total -= float(_line_divergence(lines, priors)[there].sum())
    for fits, variance, usual in (
        (crowd.fits_scale, priors.scale_variance, USUAL_SCALE_VARIANCE),
        (crowd.fits_bias, priors.bias_variance, crowd.usual_noise / 4),
    ):
        total -= 0.5 * LINE_WORKERS * fits * float((np.log(variance) + usual / variance).sum())
    half = priors.strength / 2
    total -= float(_gamma_divergence(shapes, beliefs.rate, half, half * priors.noise)[there].sum())
    total -= NOISE_WORKERS * half * float(np.log(priors.noise) + crowd.usual_noise / priors.noise)
    if beliefs.weight_rate is not None:
        shape, half = beliefs.weight_shape, priors.freedom / 2
        total += 0.5 * n_coordinates * float((digamma(shape) - np.log(beliefs.weight_rate)).sum())
        one = GammaShapes(*(np.array(each) for each in (shape, digamma(shape), gammaln(shape))))
        total -= float(_gamma_divergence(one, beliefs.weight_rate, half, half).sum())
    return total


def improve(crowd: Crowd, beliefs: Beliefs, passes: list[ValuePass], own: FloatArray) -> Beliefs:
    """Better posteriors of the workers, then better priors, given the posterior of the values."""
    found = adopt_priors(crowd, beliefs, passes, own)
    if beliefs.weight_rate is not None:
        shape_of_weights = (beliefs.priors.freedom + len(passes)) / 2
        found = replace(found, weight_rate=_weigh_answers(crowd, found, passes), weight_shape=shape_of_weights)
    return _fit_priors(crowd, found, passes)


def adopt_priors(crowd: Crowd, beliefs: Beliefs, passes: list[ValuePass], own: FloatArray) -> Beliefs:
    """The best posteriors of lines, then of precisions, under the priors, given the posterior of the values."""
    priors, lines = beliefs.priors, _fit_lines(crowd, beliefs, passes, own)
    squares = squared_residuals(lines, passes, own).sum(axis=1)
    return replace(beliefs, lines=lines, rate=(priors.strength * priors.noise + squares) / 2)


def overrelax(before: Hyperparameters, after: Hyperparameters, factor: float) -> Hyperparameters:
    """Variances and freedom that go `factor` times as far, in logarithms, as from `before` to `after`.

    Near a variance of 0, which a crowd without biases has, a plain step gains ever less. Longer steps are as sure to
    climb where the caller refuses one that falls (Salakhutdinov and Roweis 2003).
    """
    freedom = after.freedom
    if np.isfinite(freedom):
        freedom = float(np.clip(before.freedom * (freedom / before.freedom) ** factor, FEWEST_FREEDOM, MOST_FREEDOM))
    return replace(
        after,
        scale_variance=before.scale_variance * (after.scale_variance / before.scale_variance) ** factor,
        bias_variance=before.bias_variance * (after.bias_variance / before.bias_variance) ** factor,
        noise=before.noise * (after.noise / before.noise) ** factor,
        freedom=freedom,
    )


def _fit_lines(crowd: Crowd, beliefs: Beliefs, passes: list[ValuePass], own: FloatArray) -> LinePosterior:
    """Posterior of the lines: regression of the answers on the values, with normal priors."""
    if not crowd.fits_bias:
        return beliefs.lines
    priors, precision = beliefs.priors, beliefs.precision[:, None]
    sums = np.stack([each.sums for each in passes], axis=1)
    square = precision * sums[..., 1] + 1 / priors.scale_variance
    both = precision * sums[..., 0]
    one = precision * own[..., 0] + 1 / priors.bias_variance
    determinant = square * one - both**2
    variances = one / determinant, square / determinant, -both / determinant
    first, second = precision * sums[..., 2] + 1 / priors.scale_variance, precision * own[..., 1]
    return LinePosterior(
        variances[0] * first + variances[2] * second, variances[2] * first + variances[1] * second, *variances
    )


def _weigh_answers(crowd: Crowd, beliefs: Beliefs, passes: list[ValuePass]) -> FloatArray:
    """Rate of the Gamma posterior of each answer's weight: its expected squared residual and the prior's."""
    square, both, constant = beliefs.lines.second_moments()
    total = np.full(crowd.edges[0].value.size, beliefs.priors.freedom)
    for place, (edges, each) in enumerate(zip(crowd.edges, passes, strict=True)):
        worker, said = edges.worker, edges.value
        value = each.mean[edges.task]
        rest = said**2 - 2 * said * (beliefs.lines.scale[worker, place] * value + beliefs.lines.bias[worker, place])
        rest += square[worker, place] * (value**2 + each.variance[edges.task])
        rest += 2 * both[worker, place] * value + constant[worker, place]
        total += beliefs.precision[worker] * np.maximum(rest, 0.0)
    return total / 2


def _fit_priors(crowd: Crowd, beliefs: Beliefs, passes: list[ValuePass]) -> Beliefs:
    """Units of the values first, which the answers leave open, then the variances of all priors.

    With y = c y' + d, lines a' = c a and b' = b + d a say the same of the answers. The priors are least at odds with
    the lines if d = -Σ E[ab] / Σ E[a²] and c is the root of a quadratic equation. Known values leave no choice.
    """
    priors, there = beliefs.priors, crowd.per_worker > 0
    number = int(there.sum())
    lines, stretch, shift = beliefs.lines, np.ones(len(passes)), np.zeros(len(passes))
    if crowd.fits_bias and not crowd.has_gold:
        square, both, _ = (each[there].sum(axis=0) for each in lines.second_moments())
        shift = -both / square
        if crowd.fits_scale:
            first = square / priors.scale_variance + VALUE_TASKS / priors.spread
            second = lines.scale[there].sum(axis=0) / priors.scale_variance
            stretch = (second + np.sqrt(second**2 + 4 * first * (number + VALUE_TASKS))) / (2 * first)
        lines = _change_units(lines, stretch, shift)
    first, second, _, _, n_values = np.array([each.totals for each in passes]).T
    mean = (first / n_values - shift) / stretch
    spread = ((second - first**2 / n_values) / stretch**2 + VALUE_TASKS) / (n_values + VALUE_TASKS)
    square, _, constant = (each[there].sum(axis=0) for each in lines.second_moments())
    scale_variance, bias_variance = priors.scale_variance, priors.bias_variance
    if crowd.fits_scale:
        off = square - 2 * lines.scale[there].sum(axis=0) + number
        scale_variance = (off + LINE_WORKERS * USUAL_SCALE_VARIANCE) / (number + LINE_WORKERS)
    if crowd.fits_bias:
        bias_variance = (constant + LINE_WORKERS * crowd.usual_noise / 4) / (number + LINE_WORKERS)
    # Root of Σp noise² - (n - prior) noise - prior usual = 0.
    total, rest = float(beliefs.precision[there].sum()), number - NOISE_WORKERS
    noise = (rest + float(np.sqrt(rest**2 + 4 * total * NOISE_WORKERS * crowd.usual_noise))) / (2 * total)
    freedom = priors.freedom if beliefs.weight_rate is None else _fit_freedom(beliefs.weight_shape, beliefs.weight_rate)
    found = Hyperparameters(mean, spread, scale_variance, bias_variance, priors.strength, noise, freedom)
    return replace(beliefs, lines=lines, priors=found)


def _fit_freedom(shape: float, rate: FloatArray) -> float:
    """Degrees of freedom 2k of the weights' prior Gamma(k, k): log k - ψ(k) = E[u] - E[log u] - 1, within bounds."""
    wanted = float((shape / rate - digamma(shape) + np.log(rate)).mean()) - 1

    def short(half: float) -> float:
        return float(np.log(half) - digamma(half)) - wanted

    low, high = FEWEST_FREEDOM / 2, MOST_FREEDOM / 2
    if short(low) <= 0:  # the left side falls with k
        return FEWEST_FREEDOM
    return MOST_FREEDOM if short(high) >= 0 else 2 * float(brentq(short, low, high))


def _change_units(lines: LinePosterior, stretch: FloatArray, shift: FloatArray) -> LinePosterior:
    """The lines of values y' where y = stretch y' + shift."""
    return LinePosterior(
        stretch * lines.scale,
        lines.bias + shift * lines.scale,
        stretch**2 * lines.scale_variance,
        lines.bias_variance + 2 * shift * lines.covariance + shift**2 * lines.scale_variance,
        stretch * (lines.covariance + shift * lines.scale_variance),
    )


def _line_divergence(lines: LinePosterior, priors: Hyperparameters) -> FloatArray:
    """Kullback-Leibler divergence of each worker's lines from their prior (M,)."""
    spread = lines.scale_variance * lines.bias_variance - lines.covariance**2
    found: FloatArray = 0.5 * (
        ((lines.scale - 1) ** 2 + lines.scale_variance) / priors.scale_variance
        + (lines.bias**2 + lines.bias_variance) / priors.bias_variance
        - 2 + np.log(priors.scale_variance * priors.bias_variance) - np.log(spread)
    ).sum(axis=1)  # fmt: skip
    return found


def _gamma_divergence(shapes: GammaShapes, rate: FloatArray, prior_shape: float, prior_rate: float) -> FloatArray:
    """Kullback-Leibler divergence of Gamma distributions from a prior."""
    shape, digamma_shape, log_gamma = shapes
    found: FloatArray = (
        (shape - prior_shape) * digamma_shape - log_gamma + gammaln(prior_shape)
        + prior_shape * (np.log(rate) - np.log(prior_rate)) + shape * (prior_rate - rate) / rate
    )  # fmt: skip
    return found
