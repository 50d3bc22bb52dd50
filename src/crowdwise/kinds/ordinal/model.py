"""What every method for grades shares: two tables, prediction for new tasks, and how probable an answer is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from scipy.special import ndtri

from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.kinds.agreement import number_agreement
from crowdwise.kinds.model import KindModel, check_level
from crowdwise.kinds.ordinal.answers import Grades, grade_numbers
from crowdwise.kinds.ordinal.truth import align_true_grades
from crowdwise.labels.errors import InputError, listing
from crowdwise.labels.table_output import native_table
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.kinds.agreement import Agreement
    from crowdwise.kinds.model import Found
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["GradeModel", "quantile_class"]

FEW = 5.0  # answers of the crowd that count beside a worker's own in their error
LEAST_LEAN = 0.25  # standard deviations of the consensus by which a worker is off to one side, for it to matter
LEAST = 1e-12  # probability that an answer has at least


class GradeModel(KindModel[Grades]):
    """Base of the methods for grades.

    Attributes
    ----------
    posterior_ : (N, K)
        Probability of each class for each task.
    prior_ : (K,)
        Share of each class.
    worker_error_, worker_error_spread_, worker_bias_ : (M,)
        Mean number of classes by which a worker's answers miss the truth, the standard error of that mean, and the mean
        with its sign: above 0 for a worker who grades too high.

    Examples
    --------
    >>> from crowdwise.kinds import read_grades
    >>> grades = read_grades({"task": [1, 1, 1, 2, 2, 2, 3, 3, 3], "worker": ["ann", "bob", "cy"] * 3,
    ...                       "grade": [1, 1, 2, 3, 3, 4, 5, 4, 5]})
    """

    kind: ClassVar[str] = "ordinal"
    vocabularies: ClassVar[dict[str, str]] = {"tasks": "N", "workers": "M", "classes": "K"}
    uses: ClassVar[frozenset[str]] = frozenset({"gold"})
    example: ClassVar[str] = (
        ">>> {name}().fit(grades).consensus().column_names\n"
        "['task', 'label', 'confidence', 'expected', 'low', 'high', 'n_answers']"
    )
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("posterior", "N K", low=0, high=1, sums_to_one=True),
        SavedArray("prior", "K", low=0, high=1, sums_to_one=True),
        SavedArray("answers_per_task", "N", low=0, high=2**31, integer=True),
        SavedArray("worker_error", "M", low=0),
        SavedArray("worker_error_spread", "M", low=0),
        SavedArray("worker_bias", "M"),
    )
    posterior_: FloatArray
    prior_: FloatArray
    answers_per_task_: IntArray
    worker_error_: FloatArray
    worker_error_spread_: FloatArray
    worker_bias_: FloatArray

    def consensus(self, level: float = 0.9) -> Any:
        """Table of task, label (the median), confidence, expected grade, low and high, and n_answers.

        The classes from low to high hold at least the probability `level` of the posterior. How often they hold the
        truth depends on the method: of 90 % intervals, those of `dawid-skene` held it in 64 % of the tasks of simulated
        crowds, those of `ordered-classes` in 92 % (docs/kinds.md).
        """
        self._check_fitted()
        return self._table_of_grades(self._names["tasks"], self.posterior_, self.answers_per_task_, check_level(level))

    def workers(self, level: float = 0.9) -> Any:
        """Table of worker, n_answers, error (mean classes off) with its interval, and bias."""
        self._check_fitted()
        reach = float(ndtri((1 + check_level(level)) / 2)) * self.worker_error_spread_
        columns: dict[str, Any] = {
            "worker": self._names["workers"],
            "n_answers": self.answers_per_worker_,
            "error": self.worker_error_,
            "error_low": np.maximum(self.worker_error_ - reach, 0.0),
            "error_high": self.worker_error_ + reach,
            "bias": self.worker_bias_,
        }
        return native_table(columns, self.table_kind_)

    def decide(self) -> IntArray:
        """Position of the consensus of each task (N,): the posterior's median, which errs by the fewest classes."""
        self._check_fitted()
        return quantile_class(self.posterior_, 0.5)

    # ---- what a method gives ------------------------------------------------------------------------------

    def _posterior(self, answers: Grades, worker: IntArray) -> FloatArray:
        """Posterior of each task (N, K); `worker` are the model's positions, M for a stranger."""
        raise NotImplementedError

    def _answer_probabilities(self, task: IntArray, worker: IntArray) -> FloatArray:
        """Probability of every grade (n, K); a new task is at position -1, a stranger at M."""
        raise NotImplementedError

    # ---- the rest -----------------------------------------------------------------------------------------

    def _align_gold(self, gold: Any, answers: Grades) -> Any:
        return align_true_grades(gold, answers.tasks, answers.classes)

    def _remember(self, answers: Grades, found: Found) -> None:
        super()._remember(answers, found)
        self.worker_error_, self.worker_error_spread_, self.worker_bias_ = _judge_workers(answers, self.posterior_)

    def _match_classes(self, answers: Grades) -> IntArray:
        """Grades (n,) as positions among the model's classes."""
        there = positions(answers.classes, self._names["classes"])
        used = np.unique(answers.grade)
        if (there[used] < 0).any():
            strange = answers.classes.take(pa.array(used[there[used] < 0])).to_pylist()
            raise InputError(f"The model knows no class {listing(strange)}. Fit it with answers that have it.")
        matched: IntArray = there[answers.grade]
        return matched

    def _with_own_classes(self, answers: Grades) -> Grades:
        """Answers whose grades are positions among the model's classes."""
        return Grades(
            task=answers.task, worker=answers.worker, grade=self._match_classes(answers), tasks=answers.tasks,
            workers=answers.workers, classes=self._names["classes"], table_kind=answers.table_kind,
        )  # fmt: skip

    def _predict_table(self, answers: Grades) -> Any:
        posterior = self._posterior(self._with_own_classes(answers), self._positions_of_workers(answers))
        return self._table_of_grades(answers.tasks, posterior, answers.answers_per_task, 0.9)

    def _table_of_grades(self, tasks: Any, posterior: FloatArray, counts: IntArray, level: float) -> Any:
        chosen, classes = quantile_class(posterior, 0.5), self._names["classes"]
        low, high = (quantile_class(posterior, share) for share in ((1 - level) / 2, (1 + level) / 2))
        columns = {
            "task": tasks,
            "label": classes.take(pa.array(chosen)),
            "confidence": posterior[np.arange(len(posterior)), chosen],
            "expected": posterior @ grade_numbers(classes),
            "low": classes.take(pa.array(low)),
            "high": classes.take(pa.array(high)),
            "n_answers": counts,
        }
        return native_table(columns, self.table_kind_)

    def _log_density(self, answers: Grades) -> FloatArray:
        task = positions(answers.tasks, self._names["tasks"])[answers.task]
        chances = self._answer_probabilities(task, self._positions_of_workers(answers))
        named = chances[np.arange(answers.n_answers), self._match_classes(answers)]
        return np.log(np.maximum(named, LEAST))

    def _agreement(self, answers: Grades) -> Agreement:
        at = positions(answers.tasks, self._names["tasks"])
        known = (at >= 0) & (self.answers_per_task_[at] > 0)
        expected = np.where(known, self.posterior_[at] @ np.arange(self.posterior_.shape[1]), np.nan)[answers.task]
        grade = self._match_classes(answers).astype(np.float64)
        return number_agreement(answers.worker, answers.task, grade, expected, answers.n_workers, LEAST_LEAN)


def quantile_class(posterior: FloatArray, share: float) -> IntArray:
    """The first class (N,) up to which the posterior has at least this share."""
    below = np.cumsum(posterior, axis=1) < share - 1e-12
    found: IntArray = np.minimum(below.sum(axis=1), posterior.shape[1] - 1)
    return found


def _judge_workers(answers: Grades, posterior: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean error of each worker, its standard error, and the mean with its sign (M,), drawn to the crowd's if few."""
    apart = answers.grade[:, None] - np.arange(answers.n_classes)
    shares, counts = posterior[answers.task], answers.answers_per_worker
    off, signed, squares = (
        np.bincount(answers.worker, (shares * each).sum(axis=1), answers.n_workers)
        for each in (np.abs(apart), apart, apart**2)
    )
    total = max(answers.n_answers, 1)
    number = counts + FEW
    error, bias = (off + FEW * off.sum() / total) / number, (signed + FEW * signed.sum() / total) / number
    spread = np.sqrt(np.maximum((squares + FEW * squares.sum() / total) / number - error**2, 0) / number)
    return error, spread, bias
