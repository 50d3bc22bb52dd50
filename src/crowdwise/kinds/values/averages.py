"""Averages of each task's answers: what a model of the workers must beat.

Workers count alike. An answer is the value and noise of one standard deviation for all, pooled over tasks; the interval
of an average follows from it.

| average | its variance, in units of the noise's over n answers |
|---|---|
| mean | 1 |
| mean of the middle, `share` cut at each end | about 1 + share |
| median | π / 2 |
| mean of standardised answers: each worker's less her mean, over her standard deviation | 1 |
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.kinds.model import Found
from crowdwise.kinds.values.model import ValueModel, sum_rows, task_means
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.kinds.values.answers import Values
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Mean", "Median", "StandardisedMean", "TrimmedMean"]

FEW = 5  # answers of the crowd that count beside a worker's own
LEAST_SCALE = 1e-9  # of a worker: no fit finds a smaller one
SMALL = 1e-12  # share of the values' variance that noise has at least, so that intervals are not points
TINY = 1e-60  # variance of answers that are all the same


class Average(ValueModel):
    """Base of the averages; one says how to average, and how much more variance that has than the mean."""

    inflation: ClassVar[float] = 1.0

    def _average(self, answers: Values) -> FloatArray:
        """Average of each task's answers (N, D)."""
        return task_means(answers)

    def _lines_of_workers(self, answers: Values) -> tuple[FloatArray, FloatArray]:
        """Scale and bias of each worker (M, D), which are taken off the answers before they are averaged."""
        shape = answers.n_workers, answers.n_coordinates
        return np.ones(shape), np.zeros(shape)

    def _fit(self, answers: Values, gold: FloatArray | None) -> Found:  # noqa: ARG002
        scale, bias = self._lines_of_workers(answers)
        plain = replace(answers, value=(answers.value - bias[answers.worker]) / scale[answers.worker])
        value = self._average(plain)
        answered = answers.answers_per_task > 0
        free = max(int(answers.n_answers - answered.sum()), 1)
        least = SMALL * np.maximum(answers.value.var(axis=0), TINY)
        noise = np.maximum(((plain.value - value[answers.task]) ** 2).sum(axis=0) / free, least)
        prior_variance = np.maximum(value[answered].var(axis=0), least)
        arrays = {
            "value": value,
            "variance": self._variance(answers, noise, prior_variance),
            "worker_error": np.sqrt(noise.mean()) * scale.mean(axis=1),
            "worker_scale": scale,
            "worker_bias": bias,
            "freedom": free * answers.answers_per_worker / answers.n_answers,
            "prior_mean": answers.value.mean(axis=0),
            "prior_variance": prior_variance,
        }
        return Found(arrays)

    def _check_restored(self) -> None:
        if not (self.worker_scale_ >= LEAST_SCALE).all():
            raise InputError("worker_scale holds scales that no fit could have found")

    def _variance(self, answers: Values, noise: FloatArray, prior_variance: FloatArray) -> FloatArray:
        counts = answers.answers_per_task[:, None]
        return np.where(counts > 0, self.inflation * noise / np.maximum(counts, 1), prior_variance)

    def _posterior(self, answers: Values, worker: IntArray) -> tuple[FloatArray, FloatArray]:
        scale, bias = self._with_stranger(self.worker_scale_)[worker], self._with_stranger(self.worker_bias_)[worker]
        noise = np.full(
            answers.n_coordinates, float((self.worker_error_ / self.worker_scale_.mean(axis=1)).mean()) ** 2
        )
        plain = replace(answers, value=(answers.value - bias) / scale)
        return self._average(plain), self._variance(answers, noise, self.prior_variance_)


@estimator
class Mean(Average):
    """The mean of each task's answers.

    Facts
    -----
    Assumes: workers are alike, and err as often upwards as downwards
    Fails with: workers who guess, who use the scale in their own way, or single answers that are far off
    Cost: O(answers)
    Paper: folklore
    """

    slug = "mean"


@estimator
class Median(Average):
    """The median of each task's answers.

    Facts
    -----
    Assumes: most answers to a task are near its value
    Fails with: few answers to a task, values that most workers miss
    Cost: O(answers × log answers)
    Paper: folklore
    """

    slug = "median"
    inflation = np.pi / 2

    def _average(self, answers: Values) -> FloatArray:
        return _mean_of_middle(answers, 0.5)


@estimator
class TrimmedMean(Average):
    """The mean of each task's answers without the smallest and the largest.

    Facts
    -----
    Assumes: workers are alike, but for some answers that are far off
    Fails with: few answers to a task
    Cost: O(answers × log answers)
    Paper: folklore

    Parameters
    ----------
    share : float, from 0 to below 0.5
        Share of a task's answers that is left out at each end, rounded down.
    """

    slug = "trimmed-mean"
    inflation = 1.2

    share: float = 0.2

    def _check(self) -> None:
        check_number("share", self.share, low=0, high=0.499)

    def _average(self, answers: Values) -> FloatArray:
        return _mean_of_middle(answers, self.share)


@estimator
class StandardisedMean(Average):
    """The mean of answers on one scale: each worker's standardised first.

    Facts
    -----
    Assumes: workers use the scale in their own way, and met tasks that are alike
    Fails with: few answers a worker, workers who met other tasks than the rest
    Cost: O(answers)
    Paper: folklore
    """

    slug = "standardised-mean"

    def _lines_of_workers(self, answers: Values) -> tuple[FloatArray, FloatArray]:
        """Lines that give each worker's answers the mean and the standard deviation of all, or near it if few."""
        counts = answers.answers_per_worker[:, None]
        mean, variance = answers.value.mean(axis=0), answers.value.var(axis=0)
        variance[variance == 0] = 1.0
        own, squares = (
            sum_rows(answers.worker, rows, answers.n_workers)
            for rows in (answers.value - mean, (answers.value - mean) ** 2)
        )
        shift = own / (counts + FEW)
        spread = np.maximum(squares - counts * (own / np.maximum(counts, 1)) ** 2, 0)
        scale = np.sqrt((spread + FEW * variance) / ((counts + FEW) * variance))
        return scale, mean + shift - scale * mean


def _mean_of_middle(answers: Values, share: float) -> FloatArray:
    """Mean of what lies between the `share` smallest and largest answers of each task (N, D); 0.5 is the median."""
    counts = answers.answers_per_task
    cut = np.minimum((share * counts).astype(np.int64), (counts - 1) // 2)
    columns = []
    for column in answers.value.T:
        order = np.lexsort((column, answers.task))
        rank = np.arange(answers.n_answers) - answers.task_ptr[answers.task]
        inside = (rank >= cut[answers.task]) & (rank < (counts - cut)[answers.task])
        sums = np.bincount(answers.task, np.where(inside, column[order], 0.0), answers.n_tasks)
        columns.append(np.where(counts > 0, sums / np.maximum(counts - 2 * cut, 1), column.mean()))
    return np.column_stack(columns)
