"""Dawid–Skene for grades: the order is left aside. What a model of the order must beat."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from crowdwise.aggregate import DawidSkene
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.fitting.saved_arrays import SavedArray
from crowdwise.kinds.model import Found
from crowdwise.kinds.ordinal.model import GradeModel

if TYPE_CHECKING:
    from crowdwise.kinds.ordinal.answers import Grades
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["NominalDawidSkene"]


class ConfusionModel(GradeModel):
    """Base of methods with a confusion matrix for every worker."""

    saved: ClassVar[tuple[SavedArray, ...]] = (SavedArray("confusion", "M K K", low=0, high=1, sums_to_one=True),)
    confusion_: FloatArray


@estimator
class NominalDawidSkene(ConfusionModel):
    """A confusion matrix for every worker, by EM, without regard to the order of the classes.

    Facts
    -----
    Assumes: a worker's errors depend on the true class alone
    Fails with: few answers a worker: near classes are no likelier to be confused than far ones
    Cost: O(answers × K) an iteration
    Paper: Dawid & Skene 1979, Applied Statistics

    Parameters
    ----------
    smoothing : float, 0 or more
        Pseudo-counts in every cell of a worker's matrix.

    Attributes
    ----------
    confusion_ : (M, K, K)
        P(worker says l | truth is k) at [worker, k, l].
    """

    slug = "dawid-skene"
    climbs = True

    smoothing: float = 0.1
    max_iter: int = 500
    tol: float = 1e-6

    def _check(self) -> None:
        check_number("smoothing", self.smoothing, low=0)

    def _fit(self, answers: Grades, gold: IntArray | None) -> Found:
        labels = answers.to_labels()
        known = None
        if gold is not None:
            told = np.flatnonzero(gold >= 0)
            known = dict(
                zip(answers.tasks.take(told).to_pylist(), answers.classes.take(gold[told]).to_pylist(), strict=True)
            )
        model = DawidSkene(smoothing=self.smoothing, max_iter=self.max_iter, tol=self.tol).fit(labels, known)
        arrays = {"posterior": model.posterior_, "prior": model.prior_, "confusion": model.confusion_}
        return Found(arrays, model.objective_, model.n_iter_, model.converged_)

    def _with_stranger(self) -> FloatArray:
        mean = np.average(self.confusion_, axis=0, weights=self.answers_per_worker_)
        return np.concatenate([self.confusion_, mean[None]])

    def _posterior(self, answers: Grades, worker: IntArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            table, prior = np.log(self._with_stranger()), np.log(self.prior_)
        found = np.tile(np.maximum(prior, -700.0), (answers.n_tasks, 1))
        np.add.at(found, answers.task, np.maximum(table[worker, :, answers.grade], -700.0))
        found = np.exp(found - found.max(axis=1, keepdims=True))
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def _answer_probabilities(self, task: IntArray, worker: IntArray) -> FloatArray:
        posterior = np.where((task >= 0)[:, None], self.posterior_[task], self.prior_)
        found: FloatArray = np.einsum("ek,ekl->el", posterior, self._with_stranger()[worker])
        return found
