"""What every method for values shares: two tables, prediction for new tasks, and how probable an answer is.

Every method says of a worker's answer to a task whose value is y that it is normal with mean a y + b, and a standard
deviation of the worker's own (`worker_error_`). Averages take a = 1, b = 0 and one standard deviation for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import chdtri, stdtrit

from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.agreement import number_agreement
from crowdwise.kinds.model import KindModel, check_level
from crowdwise.kinds.values.answers import Values
from crowdwise.kinds.values.truth import align_true_values
from crowdwise.labels.table_output import native_table
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.kinds.agreement import Agreement
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["ValueModel", "sum_rows", "task_means"]

LEAST_LEAN = 0.25  # standard deviations of the consensus by which a worker is off to one side, for it to matter


class ValueModel(KindModel[Values]):
    """Base of the methods for values.

    Attributes
    ----------
    value_ : (N, D)
        The consensus of each task, its posterior mean; D is 1 for plain values.
    variance_ : (N, D)
        Posterior variance of the consensus.
    worker_error_ : (M,)
        Standard deviation of a worker's answers about what the truth would make them say.
    worker_scale_, worker_bias_ : (M, D)
        What a worker makes of a value y, on average: scale × y + bias.
    freedom_ : (M,)
        How many answers the standard deviation of each worker was estimated from, less what the consensus took of them.
    prior_mean_, prior_variance_ : (D,)
        Of the values of tasks.

    Examples
    --------
    >>> from crowdwise.kinds import read_values
    >>> values = read_values({"task": [1, 1, 1, 2, 2, 2, 3, 3, 3], "worker": ["ann", "bob", "cy"] * 3,
    ...                       "value": [10, 11, 30, 50, 52, 20, 90, 88, 60]})
    """

    kind: ClassVar[str] = "values"
    guessed: ClassVar[str] = "how far answers are off. Errors and intervals are"
    vocabularies: ClassVar[dict[str, str]] = {"tasks": "N", "workers": "M", "coordinates": "D"}
    example: ClassVar[str] = (
        ">>> {name}().fit(values).consensus().column_names\n['task', 'value', 'low', 'high', 'n_answers']"
    )
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("value", "N D"),
        SavedArray("variance", "N D", low=0),
        SavedArray("answers_per_task", "N", low=0, high=2**31, integer=True),
        SavedArray("worker_error", "M", low=SMALLEST),
        SavedArray("worker_scale", "M D"),
        SavedArray("worker_bias", "M D"),
        SavedArray("freedom", "M", low=0),
        SavedArray("prior_mean", "D"),
        SavedArray("prior_variance", "D", low=SMALLEST),
    )
    value_: FloatArray
    variance_: FloatArray
    answers_per_task_: IntArray
    worker_error_: FloatArray
    worker_scale_: FloatArray
    worker_bias_: FloatArray
    freedom_: FloatArray
    prior_mean_: FloatArray
    prior_variance_: FloatArray

    @property
    def coordinates(self) -> tuple[str, ...]:
        """What the numbers of a value are called."""
        return tuple(self._names["coordinates"].to_pylist())

    def consensus(self, level: float = 0.9) -> Any:
        """Table of task, value, low, high (the interval that holds it with probability `level`) and n_answers."""
        self._check_fitted()
        intervals = self._value_interval(check_level(level))
        return self._table_of_values(self._names["tasks"], self.value_, intervals, self.answers_per_task_)

    def workers(self, level: float = 0.9) -> Any:
        """Table of worker, n_answers, error (a standard deviation) and its interval, scale and bias."""
        self._check_fitted()
        low, high = self._error_interval(check_level(level))
        columns: dict[str, Any] = {
            "worker": self._names["workers"],
            "n_answers": self.answers_per_worker_,
            "error": self.worker_error_,
            "error_low": low,
            "error_high": high,
        }
        for place, name in enumerate(self.coordinates):
            end = "" if name == "value" else f"_{name}"
            columns |= {f"scale{end}": self.worker_scale_[:, place], f"bias{end}": self.worker_bias_[:, place]}
        return native_table(columns, self.table_kind_)

    # ---- what a method may give ---------------------------------------------------------------------------

    def _posterior(self, answers: Values, worker: IntArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of each task's value (N, D); `worker` are the model's positions, M for a stranger."""
        raise NotImplementedError

    # ---- the rest -----------------------------------------------------------------------------------------

    def _align_gold(self, gold: Any, answers: Values) -> FloatArray:
        return align_true_values(gold, answers.tasks, answers.coordinates)

    def _predict_table(self, answers: Values) -> Any:
        value, variance = self._posterior(answers, self._positions_of_workers(answers))
        interval = self._interval(value, variance, 0.9)
        return self._table_of_values(answers.tasks, value, interval, answers.answers_per_task)

    def _table_of_values(
        self, tasks: Any, value: FloatArray, interval: tuple[FloatArray, FloatArray], counts: IntArray
    ) -> Any:
        columns: dict[str, Any] = {"task": tasks}
        for place, name in enumerate(self.coordinates):
            start = "" if name == "value" else f"{name}_"
            columns |= {name: value[:, place]}
            columns |= {f"{start}low": interval[0][:, place], f"{start}high": interval[1][:, place]}
        return native_table(columns | {"n_answers": counts}, self.table_kind_)

    def _value_interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Ends (N, D) of intervals that hold the values with this probability."""
        return self._interval(self.value_, self.variance_, level)

    def _interval(self, value: FloatArray, variance: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        freedom = max(float(self.freedom_.sum()), 1.0)
        reach: FloatArray = np.sqrt(variance) * float(stdtrit(freedom, (1 + level) / 2))
        return value - reach, value + reach

    def _error_interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Ends (M,) of intervals of the workers' standard deviations, by the chi-squared distribution."""
        freedom = np.maximum(self.freedom_, 0.5)
        squares = freedom * self.worker_error_**2
        low = np.sqrt(squares / chdtri(freedom, (1 - level) / 2))
        high = np.sqrt(squares / chdtri(freedom, (1 + level) / 2))
        return np.minimum(low, self.worker_error_), np.maximum(high, self.worker_error_)

    def _with_stranger(self, values: FloatArray) -> FloatArray:
        """Values of the workers (M, …), and last those of a stranger: the mean, weighed by answers."""
        return np.concatenate([values, np.average(values, axis=0, weights=self.answers_per_worker_)[None]])

    def _log_density(self, answers: Values) -> FloatArray:
        worker = self._positions_of_workers(answers)
        task = positions(answers.tasks, self._names["tasks"])[answers.task]
        known = (task >= 0)[:, None]
        value = np.where(known, self.value_[task], self.prior_mean_)
        variance = np.where(known, self.variance_[task], self.prior_variance_)
        scale, bias = self._with_stranger(self.worker_scale_)[worker], self._with_stranger(self.worker_bias_)[worker]
        spread = self._with_stranger(self.worker_error_**2)[worker][:, None] + scale**2 * variance
        density = -0.5 * (np.log(2 * np.pi * spread) + (answers.value - scale * value - bias) ** 2 / spread)
        total: FloatArray = density.sum(axis=1)
        return total

    def _agreement(self, answers: Values) -> Agreement:
        """By the first coordinate of several."""
        at = positions(answers.tasks, self._names["tasks"])
        known = (at >= 0) & (self.answers_per_task_[at] > 0)
        consensus = np.where(known, self.value_[at, 0], np.nan)[answers.task]
        return number_agreement(
            answers.worker, answers.task, answers.value[:, 0], consensus, answers.n_workers, LEAST_LEAN
        )


def task_means(answers: Values) -> FloatArray:
    """Mean answer of each task (N, D); of a task without answers that of all."""
    counts = answers.answers_per_task
    sums = sum_rows(answers.task, answers.value, answers.n_tasks)
    means: FloatArray = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], answers.value.mean(axis=0))
    return means


def sum_rows(keys: IntArray, rows: FloatArray, n: int) -> FloatArray:
    """Sums of the rows (len(keys), D) of each key, (n, D)."""
    return np.column_stack([np.bincount(keys, column, n) for column in rows.T])
