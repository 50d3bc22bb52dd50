"""Values of tasks from workers whose lines and noise are known, but not exactly.

Independent posteriors of values and workers make intervals too short. What is added to the variances here is the first
term of the linear response of the values to the workers: R. Giordano, T. Broderick and M. I. Jordan (2018),
"Covariances, robustness, and variational Bayes", Journal of Machine Learning Research 19.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from scipy.special import polygamma
from scipy.stats import t as student_t

from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kernels.value_sums import UncertainLines, ValueEdges, value_pass, value_uncertainty
from crowdwise.kinds.values.line_posteriors import LinePosterior
from crowdwise.kinds.values.model import ValueModel
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.kernels.value_sums import ValuePass
    from crowdwise.kinds.values.answers import Values
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["KnownLineModel", "KnownWorkers", "as_arrays", "infer_values"]

REWEIGHTS = 30  # rounds of weights for the answers, where noise is Student's t


class KnownWorkers(NamedTuple):
    """What a fit knows of workers, in the users' units.

    Attributes
    ----------
    lines : (M, D)
        Posterior of the lines; biases are those at `centre`.
    variance, freedom : (M,)
        Of the noise, and the degrees of freedom that it is known with.
    centre, mean, spread : (D,)
        Mean answer; mean and variance of the values.
    shift, stretch : (D,)
        Variances of a bias and a scale that all workers have in common.
    noise_freedom
        Of Student's t; infinite for normal noise.
    """

    lines: LinePosterior
    variance: FloatArray
    freedom: FloatArray
    centre: FloatArray
    mean: FloatArray
    spread: FloatArray
    shift: FloatArray
    stretch: FloatArray
    noise_freedom: float


def infer_values(
    answers: Values, worker: IntArray, known: KnownWorkers, gold: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of every value (N, D); `worker` (n,) are positions in `known`."""
    lines, start, normal = known.lines, known.mean - known.centre, bool(np.isinf(known.noise_freedom))
    square, both, _ = lines.second_moments()
    precision = 1 / known.variance
    worker = np.asarray(worker, np.int64)
    edges = [
        ValueEdges(
            answers.task_ptr, answers.task, worker, answers.value[:, place] - known.centre[place],
            np.empty(0) if gold is None else gold[:, place] - known.centre[place],
        )
        for place in range(answers.n_coordinates)
    ]  # fmt: skip
    weight: FloatArray | None = None if normal else np.ones(answers.n_answers)
    for _ in range(1 if normal else REWEIGHTS):
        passes = [
            value_pass(
                each, precision[:, None] * np.column_stack([square[:, d], lines.scale[:, d], both[:, d]]),
                float(start[d]), float(known.spread[d]), weight,
            )
            for d, each in enumerate(edges)
        ]  # fmt: skip
        if not normal:
            weight = _weigh_answers(edges, passes, known)
    value, variance = (
        np.column_stack([each.mean for each in passes]),
        np.column_stack([each.variance for each in passes]),
    )
    more = np.column_stack(
        [
            value_uncertainty(each, _lines_of_coordinate(known, d), value[:, d], variance[:, d], weight)
            for d, each in enumerate(edges)
        ]
    )
    more += known.shift + known.stretch * (value - start) ** 2
    # A task without answers has the variance of all values, which leaves nothing to add.
    unknown = (answers.answers_per_task > 0)[:, None] & (variance > 0)
    return value + known.centre, variance + np.where(unknown, more, 0.0)


def _lines_of_coordinate(known: KnownWorkers, place: int) -> UncertainLines:
    lines = LinePosterior(*(each[:, place] for each in known.lines))
    return UncertainLines(
        lines.scale,
        lines.bias,
        1 / known.variance,
        lines.scale_variance,
        lines.bias_variance,
        lines.covariance,
        polygamma(1, np.maximum(known.freedom / 2, 0.5)),
    )


def _weigh_answers(edges: list[ValueEdges], passes: list[ValuePass], known: KnownWorkers) -> FloatArray:
    """Weight of each answer (n,), where noise is Student's t: low for one that is far off."""
    off = np.zeros(edges[0].value.size)
    square, _, _ = known.lines.second_moments()
    for place, (each, found) in enumerate(zip(edges, passes, strict=True)):
        scale, bias = known.lines.scale[each.worker, place], known.lines.bias[each.worker, place]
        off += (each.value - scale * found.mean[each.task] - bias) ** 2
        off += square[each.worker, place] * found.variance[each.task]
    total = known.noise_freedom + off / known.variance[edges[0].worker]
    return np.asarray((known.noise_freedom + len(edges)) / total)


def as_arrays(known: KnownWorkers) -> dict[str, FloatArray]:
    """The workers as a fit saves them."""
    lines = known.lines
    return {
        "worker_error": np.sqrt(known.variance),
        "worker_scale": lines.scale,
        "worker_bias": lines.bias + known.centre * (1 - lines.scale),
        "freedom": known.freedom,
        "prior_mean": known.mean,
        "prior_variance": known.spread,
        "worker_scale_variance": lines.scale_variance,
        "worker_bias_variance": lines.bias_variance,
        "worker_covariance": lines.covariance,
        "centre": known.centre,
        "shift_variance": known.shift,
        "stretch_variance": known.stretch,
    }


class KnownLineModel(ValueModel):
    """Base of methods that know how well they know each worker's line.

    Attributes
    ----------
    worker_scale_variance_, worker_bias_variance_, worker_covariance_ : (M, D)
        Posterior variances of a worker's scale and of their bias at `centre_`, and the covariance of the two.
    centre_ : (D,)
        Mean answer.
    shift_variance_, stretch_variance_ : (D,)
        Of a bias and a scale that all workers have in common, which answers alone do not tell.
    """

    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("worker_scale_variance", "M D", low=0),
        SavedArray("worker_bias_variance", "M D", low=0),
        SavedArray("worker_covariance", "M D"),
        SavedArray("centre", "D"),
        SavedArray("shift_variance", "D", low=0),
        SavedArray("stretch_variance", "D", low=0),
    )

    worker_scale_variance_: FloatArray
    worker_bias_variance_: FloatArray
    worker_covariance_: FloatArray
    centre_: FloatArray
    shift_variance_: FloatArray
    stretch_variance_: FloatArray

    @property
    def _noise_freedom(self) -> float:
        """Degrees of freedom of the noise; infinite if it is normal."""
        return np.inf

    @property
    def _stranger_freedom(self) -> float:
        """Degrees of freedom with which the variance of a stranger is known."""
        return 4.0

    def _known_workers(self) -> KnownWorkers:
        """The workers, and last a stranger: the mean worker, whose line varies as those of the others do."""
        scale = self._with_stranger(self.worker_scale_)
        bias = self._with_stranger(self.worker_bias_ + self.centre_ * (self.worker_scale_ - 1))
        variances = [
            self._with_stranger(each)
            for each in (self.worker_scale_variance_, self.worker_bias_variance_, self.worker_covariance_)
        ]
        weights = self.answers_per_worker_
        apart = scale[:-1] - scale[-1], bias[:-1] - bias[-1]
        for place, product in enumerate((apart[0] ** 2, apart[1] ** 2, apart[0] * apart[1])):
            variances[place][-1] += np.average(product, axis=0, weights=weights)
        return KnownWorkers(
            LinePosterior(scale, bias, *variances),
            self._with_stranger(self.worker_error_**2),
            np.append(self.freedom_, self._stranger_freedom),
            self.centre_, self.prior_mean_, self.prior_variance_, self.shift_variance_, self.stretch_variance_,
            self._noise_freedom,
        )  # fmt: skip

    def _posterior(self, answers: Values, worker: IntArray) -> tuple[FloatArray, FloatArray]:
        return infer_values(answers, worker, self._known_workers())

    def _log_density(self, answers: Values) -> FloatArray:
        known, worker = self._known_workers(), self._positions_of_workers(answers)
        task = positions(answers.tasks, self._names["tasks"])[answers.task]
        told = (task >= 0)[:, None]
        value = np.where(told, self.value_[task], self.prior_mean_) - self.centre_
        variance = np.where(told, self.variance_[task], self.prior_variance_)
        lines = LinePosterior(*(each[worker] for each in known.lines))
        square, _, _ = lines.second_moments()
        spread = known.variance[worker][:, None] + square * variance + lines.bias_variance
        spread = np.maximum(spread + value**2 * lines.scale_variance + 2 * value * lines.covariance, SMALLEST)
        rest = answers.value - self.centre_ - lines.scale * value - lines.bias
        if np.isinf(self._noise_freedom):
            density = -0.5 * (np.log(2 * np.pi * spread) + rest**2 / spread)
        else:
            density = np.asarray(student_t.logpdf(rest, self._noise_freedom, scale=np.sqrt(spread)))
        total: FloatArray = density.sum(axis=1)
        return total
