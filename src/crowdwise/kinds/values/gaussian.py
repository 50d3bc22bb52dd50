"""A normal model of values: every worker has a standard deviation, and may shift and stretch the scale.

The generative story. The value y of a task is normal with mean μ and variance τ². Worker w, asked about it, says a
number that is normal with mean a[w] y + b[w] and variance σ²[w]. The variance has an inverse-gamma prior that counts as
`strength` answers of a common worker; a[w] is normal about 1 and b[w] about 0. The values are unknown: EM, whose E-step
is exact.

J. Ok, S. Oh, Y. Jang, J. Shin and Y. Yi (2019), "Iterative Bayesian learning for crowdsourced regression", AISTATS.

| equation | here |
|---|---|
| posterior of y: precision 1/τ² + Σ a²/σ², mean (μ/τ² + Σ a (x - b)/σ²) / precision | `e_step` |
| σ²[w]: expected squared residuals and the prior's, over their number | `m_step` |
| a[w], b[w]: regression of the answers on the expected values, with normal priors | `fit_lines` |
| log p(answers), the values integrated out | `log_likelihood` |

An iteration costs O(answers × D).

Departures: the paper's workers have a variance alone, from a known finite set, and belief propagation in place of EM;
scale and bias are additions, and so are the priors. D coordinates share a worker's variance, each with a line of its
own. Known values enter as tasks whose posterior has no variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.em import climb
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_choice, check_number
from crowdwise.kinds.model import Found
from crowdwise.kinds.values.model import ValueModel, WorkerLines, infer_values, sum_rows, task_means

if TYPE_CHECKING:
    from crowdwise.kinds.values.answers import Values
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["GaussianValues"]

LINES = ("none", "bias", "scale")
SCALE_VARIANCE = 1.0  # of the prior of a worker's scale about 1
SMALL = 1e-9  # share of the answers' variance below which a variance is rounding


@dataclass(frozen=True)
class GaussianParameters:
    """Mean μ and variance τ² of the values (D,), and of each worker the variance σ² (M,), scale a and bias b (M, D)."""

    mean: FloatArray
    spread: FloatArray
    variance: FloatArray
    scale: FloatArray
    bias: FloatArray


@dataclass(frozen=True)
class Priors:
    """Inverse-gamma prior of variances, as `strength` answers of variance `noise`, and the variances of a and b."""

    strength: float
    noise: float
    bias_variance: FloatArray

    def log_density(self, parameters: GaussianParameters, lines: str) -> float:
        """Log of the priors' density at the parameters, without constants."""
        squares = parameters.variance
        half = self.strength / 2
        value = -float(((half + 1) * np.log(squares) + half * self.noise / squares).sum())
        if lines != "none":
            value -= 0.5 * float((parameters.bias**2 / self.bias_variance).sum())
        if lines == "scale":
            value -= 0.5 * float(((parameters.scale - 1) ** 2).sum()) / SCALE_VARIANCE
        return value


def e_step(
    answers: Values, parameters: GaussianParameters, gold: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Posterior mean and variance of every value (N, D); those of gold are known."""
    lines = WorkerLines(parameters.scale, parameters.bias, parameters.variance)
    mean, variance = infer_values(answers, answers.worker, lines, parameters.mean, parameters.spread)
    if gold is None:
        return mean, variance
    known = np.isfinite(gold)
    return np.where(known, gold, mean), np.where(known, 0.0, variance)


def fit_lines(
    answers: Values, value: FloatArray, variance: FloatArray, now: GaussianParameters, priors: Priors, lines: str
) -> GaussianParameters:
    """Scale and bias of every worker, by regression of the answers on the expected values."""
    if lines == "none":
        return now
    worker, n_workers = answers.worker, answers.n_workers
    there = value[answers.task]
    precision = 1 / now.variance[:, None]
    counts = answers.answers_per_worker[:, None] * precision + 1 / priors.bias_variance
    if lines == "bias":
        return replace(now, bias=sum_rows(worker, answers.value - there, n_workers) * precision / counts)
    sums = sum_rows(worker, there, n_workers) * precision
    squares = sum_rows(worker, there**2 + variance[answers.task], n_workers) * precision + 1 / SCALE_VARIANCE
    said = sum_rows(worker, answers.value, n_workers) * precision
    both = sum_rows(worker, answers.value * there, n_workers) * precision + 1 / SCALE_VARIANCE
    determinant = squares * counts - sums**2
    return replace(
        now, scale=(counts * both - sums * said) / determinant, bias=(squares * said - sums * both) / determinant
    )


def m_step(
    answers: Values, value: FloatArray, variance: FloatArray, now: GaussianParameters, priors: Priors, lines: str
) -> GaussianParameters:
    """Parameters given the posterior of the values: lines first, at the old variances, then variances."""
    found = fit_lines(answers, value, variance, now, priors, lines)
    scale = found.scale[answers.worker]
    rest = answers.value - scale * value[answers.task] - found.bias[answers.worker]
    squares = (rest**2 + scale**2 * variance[answers.task]).sum(axis=1)
    total = np.bincount(answers.worker, squares, answers.n_workers) + priors.strength * priors.noise
    number = answers.n_coordinates * answers.answers_per_worker + priors.strength + 2
    mean = value.mean(axis=0)
    spread = ((value - mean) ** 2 + variance).mean(axis=0)
    return replace(found, variance=total / number, mean=mean, spread=np.maximum(spread, SMALL * priors.noise))


def log_likelihood(
    answers: Values, value: FloatArray, variance: FloatArray, parameters: GaussianParameters, gold: FloatArray | None
) -> float:
    """Log-density of the answers (and of known values), given the posterior that `e_step` found for the parameters.

    For any y, log p(x) = log p(x, y) - log p(y | x); here y is the posterior mean.
    """
    scale, noise = parameters.scale[answers.worker], parameters.variance[answers.worker][:, None]
    rest = answers.value - scale * value[answers.task] - parameters.bias[answers.worker]
    joint = -0.5 * (np.log(2 * np.pi * noise) + rest**2 / noise).sum()
    joint -= 0.5 * (np.log(2 * np.pi * parameters.spread) + (value - parameters.mean) ** 2 / parameters.spread).sum()
    unknown = np.ones(value.shape, bool) if gold is None else ~np.isfinite(gold)
    return float(joint + 0.5 * np.log(2 * np.pi * variance[unknown]).sum())


def on_scale_of_the_crowd(
    parameters: GaussianParameters, counts: IntArray, gold: FloatArray | None
) -> GaussianParameters:
    """The same model on the scale on which workers, weighed by their answers, have scale 1 and bias 0 on average.

    Values that are stretched and shifted, with workers who undo it, say the same of the answers; only the priors tell
    them apart, and weakly. Known values fix the scale.
    """
    if gold is not None:
        return parameters
    scale, bias = (np.average(each, axis=0, weights=counts) for each in (parameters.scale, parameters.bias))
    scale = np.where(scale > SMALL, scale, 1.0)
    own = parameters.scale / scale
    return GaussianParameters(
        scale * parameters.mean + bias, scale**2 * parameters.spread, parameters.variance, own,
        parameters.bias - own * bias,
    )  # fmt: skip


@estimator
class GaussianValues(ValueModel):
    """Consensus of values: every worker has a standard deviation, and a scale and a bias of their own, by EM.

    Facts
    -----
    Assumes: answers are normal about a line in the true value, with a standard deviation for every worker
    Fails with: answers that pile up at the ends of a scale, single answers that are far off
    Cost: O(answers) an iteration
    Paper: Ok et al. 2019, AISTATS

    Parameters
    ----------
    lines : "scale", "bias", "none"
        What workers make of the scale: stretch and shift it, shift it, or nothing.
    strength : float, above 0
        How many answers of a common worker the prior of a worker's variance counts as.
    """

    slug = "gaussian"
    uses = frozenset({"gold"})
    climbs = True

    lines: str = "scale"
    strength: float = 4.0
    max_iter: int = 500
    tol: float = 1e-7

    def _check(self) -> None:
        check_choice("lines", self.lines, LINES)
        check_number("strength", self.strength, low=0, above=True)

    def _fit(self, answers: Values, gold: FloatArray | None) -> Found:
        start, priors = _start(answers, self.strength)

        def step(now: GaussianParameters) -> tuple[float, float, GaussianParameters]:
            value, variance = e_step(answers, now, gold)
            likelihood = log_likelihood(answers, value, variance, now, gold)
            following = m_step(answers, value, variance, now, priors, self.lines)
            return likelihood + priors.log_density(now, self.lines), likelihood, following

        ended = climb([start], step, max_iter=self.max_iter, tol=self.tol * answers.n_answers, name=self.slug)
        found = on_scale_of_the_crowd(ended.parameters, answers.answers_per_worker, gold)
        value, variance = e_step(answers, found, gold)
        # The share of an answer in its task's posterior says how much of it the consensus has taken up.
        taken = found.scale[answers.worker] ** 2 * variance[answers.task] / found.variance[answers.worker][:, None]
        freedom = np.bincount(answers.worker, (1 - taken).sum(axis=1), answers.n_workers)
        arrays = {
            "value": value,
            "variance": variance,
            "worker_error": np.sqrt(found.variance),
            "worker_scale": found.scale,
            "worker_bias": found.bias,
            "freedom": np.maximum(freedom, 0.0),
            "prior_mean": found.mean,
            "prior_variance": found.spread,
        }
        return Found(arrays, ended.objective, ended.n_iter, ended.converged)


def _start(answers: Values, strength: float) -> tuple[GaussianParameters, Priors]:
    """Workers alike, with the variance within tasks; and the priors, which are set by it."""
    means = task_means(answers)
    answered = answers.answers_per_task > 0
    whole = np.maximum(answers.value.var(axis=0), 1e-200)
    free = max(int(answers.n_answers - answered.sum()), 1)
    within = np.maximum(((answers.value - means[answers.task]) ** 2).sum(axis=0) / free, SMALL * whole)
    noise = float(within.mean())
    shape = answers.n_workers, answers.n_coordinates
    between = means[answered].var(axis=0) - within / answers.answers_per_task[answered].mean()
    start = GaussianParameters(
        answers.value.mean(axis=0),
        np.maximum(between, 0.05 * whole),
        np.full(answers.n_workers, noise),
        np.ones(shape),
        np.zeros(shape),
    )
    return start, Priors(strength, noise, within / 4)
