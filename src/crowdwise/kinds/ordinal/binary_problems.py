"""Grades as K - 1 questions of yes or no, whether the grade is at least this class.

The generative story, for each class k above the lowest. A task is at least k with a probability of its own. Worker w
says so of a task that is with probability α[w, k], their sensitivity, and of one that is not with probability
1 - β[w, k]. Both have Beta priors. The K - 1 problems are fitted one by one.

V. Raykar, S. Yu, L. Zhao, G. Hermosillo Valadez, C. Florin, L. Bogoni and L. Moy (2010), "Learning from crowds", JMLR
11, section 5.2 (ordinal ratings by two-class problems, after E. Frank and M. Hall 2001).

| equation | here |
|---|---|
| one problem: EM with Beta priors | `aggregate.DawidSkene` with two classes and pseudo-counts |
| P(grade is k) = P(at least k) - P(at least k + 1) | `recombine` |

Departures: problems that are fitted apart may find "at least 3" more probable than "at least 2", and the difference
would be below 0. Probabilities are first made to fall with k, by the nearest ones that do (isotonic regression).
"""

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

__all__ = ["BinaryProblems"]


def make_falling(above: FloatArray) -> FloatArray:
    """The nearest rows to these (n, J) that never rise: g[k] = min over i ≤ k of max over j ≥ k of mean(i … j)."""
    n_steps = above.shape[1]
    sums = np.concatenate([np.zeros((len(above), 1)), np.cumsum(above, axis=1)], axis=1)
    found = np.full_like(above, np.inf)
    for first in range(n_steps):
        highest = np.full(len(above), -np.inf)
        for last in range(n_steps - 1, first - 1, -1):
            highest = np.maximum(highest, (sums[:, last + 1] - sums[:, first]) / (last + 1 - first))
            found[:, last] = np.minimum(found[:, last], highest)
    return found


def recombine(above: FloatArray) -> FloatArray:
    """Probabilities of K classes (n, K) from those of being at least the second, the third, … (n, K - 1)."""
    falling = np.clip(make_falling(above), 0.0, 1.0)
    one, zero = np.ones((len(above), 1)), np.zeros((len(above), 1))
    return -np.diff(np.concatenate([one, falling, zero], axis=1), axis=1)


class ThresholdModel(GradeModel):
    """Base of methods that know of every worker and class how often they say that a task is at least this class.

    Attributes
    ----------
    rate_ : (M, K-1, 2)
        Probability that a worker says "at least this class", of a task that is not and of one that is.
    above_ : (N, K-1)
        Probability that a task is at least this class, by each problem alone.
    share_above_ : (K-1,)
        Share of the tasks that are at least this class.
    """

    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("rate", "M J 2", low=0, high=1),
        SavedArray("above", "N J", low=0, high=1),
        SavedArray("share_above", "J", low=0, high=1),
    )
    rate_: FloatArray
    above_: FloatArray
    share_above_: FloatArray


@estimator
class BinaryProblems(ThresholdModel):
    """Consensus of grades from K - 1 problems with two classes, "at least this class", put together.

    Facts
    -----
    Assumes: a worker's chance to see that a task is above a class does not depend on how far it is
    Fails with: many classes for the answers there are; grades so near each other that "at least" is a guess
    Cost: O(answers × K) an iteration
    Paper: Raykar et al. 2010, JMLR

    Parameters
    ----------
    smoothing : float, above 0
        Pseudo-counts of either answer in the Beta priors of sensitivity and specificity.
    """

    slug = "binary-problems"

    smoothing: float = 0.3
    max_iter: int = 500
    tol: float = 1e-6

    def _check(self) -> None:
        check_number("smoothing", self.smoothing, low=0, above=True)

    def _fit(self, answers: Grades, gold: IntArray | None) -> Found:
        n_steps = answers.n_classes - 1
        rate = np.full((answers.n_workers, n_steps, 2), 0.5)
        above, share = np.empty((answers.n_tasks, n_steps)), np.empty(n_steps)
        told = np.flatnonzero(gold >= 0) if gold is not None else np.empty(0, np.int64)
        names = answers.tasks.take(told).to_pylist()
        n_iter, converged = 1, True
        for step in range(n_steps):
            yes = int((answers.grade > step).sum()) + (int((gold[told] > step).sum()) if gold is not None else 0)
            if yes in (0, answers.n_answers + told.size):  # all on one side: there is no problem
                above[:, step] = share[step] = float(yes > 0)
                continue
            known = None if gold is None else dict(zip(names, (gold[told] > step).astype(int).tolist(), strict=True))
            model = DawidSkene(smoothing=self.smoothing, max_iter=self.max_iter, tol=self.tol)
            model.fit(answers.to_labels(step + 1), known)
            rate[:, step] = model.confusion_[:, :, 1]
            above[:, step], share[step] = model.posterior_[:, 1], model.prior_[1]
            n_iter, converged = max(n_iter, model.n_iter_), converged and model.converged_
        posterior = recombine(above)
        if told.size and gold is not None:
            posterior[told] = np.eye(answers.n_classes)[gold[told]]
        arrays = {"posterior": posterior, "prior": recombine(share[None])[0], "rate": rate, "above": above,
                  "share_above": share}  # fmt: skip
        return Found(arrays, n_iter=n_iter, converged=converged)

    def _rates_with_stranger(self) -> FloatArray:
        mean = np.average(self.rate_, axis=0, weights=self.answers_per_worker_)
        return np.concatenate([self.rate_, mean[None]])

    def _posterior(self, answers: Grades, worker: IntArray) -> FloatArray:
        rate, n_steps = self._rates_with_stranger(), answers.n_classes - 1
        above = np.empty((answers.n_tasks, n_steps))
        for step in range(n_steps):
            share = self.share_above_[step]
            if share in (0.0, 1.0):
                above[:, step] = share
                continue
            chance = np.where((answers.grade > step)[:, None], rate[worker, step], 1 - rate[worker, step])
            odds = np.log(np.maximum(chance[:, 1], 1e-300)) - np.log(np.maximum(chance[:, 0], 1e-300))
            total = np.bincount(answers.task, odds, answers.n_tasks) + np.log(share / (1 - share))
            above[:, step] = 1 / (1 + np.exp(-np.clip(total, -700, 700)))
        return recombine(above)

    def _answer_probabilities(self, task: IntArray, worker: IntArray) -> FloatArray:
        above = np.where((task >= 0)[:, None], self.above_[task], self.share_above_)
        rate = self._rates_with_stranger()[worker]
        certain = (self.share_above_ == 0) | (self.share_above_ == 1)
        said = above * rate[..., 1] + (1 - above) * rate[..., 0]
        found = recombine(np.where(certain, self.share_above_, said))
        # One answer at random counts beside a worker's own: differences of problems fitted apart may be 0.
        number = np.append(self.answers_per_worker_, 0)[worker][:, None]
        mixed: FloatArray = (number * found + 1 / found.shape[1]) / (number + 1)
        return mixed
