"""What every method for sets of classes shares: two tables, prediction for new tasks, and how probable an answer is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array
from scipy.special import betaincinv

from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kinds.agreement import another_question, nearness_agreement
from crowdwise.kinds.model import KindModel, check_level
from crowdwise.kinds.multi_label.answers import LabelSets
from crowdwise.kinds.multi_label.set_cells import write_sets
from crowdwise.kinds.multi_label.truth import align_true_sets
from crowdwise.labels.errors import InputError, listing
from crowdwise.labels.table_output import native_table
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.kinds.agreement import Agreement
    from crowdwise.kinds.model import Found
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["SetModel", "SetPosterior", "sum_by_task", "sum_by_worker"]

FEW = 2.0  # classes of the crowd's rate that count beside a worker's own
LEAST_LEAN = 0.5  # classes too many or too few in an answer, on average, for it to matter
LEAST_KEPT = 0.1  # share of the information on a worker that is never thought lost


class SetPosterior(NamedTuple):
    """Probability that each class is in the set of each task (N, K), and that the most probable ones are all (N,)."""

    member: FloatArray
    exact: FloatArray


class SetModel(KindModel[LabelSets]):
    """Base of the methods for sets of classes.

    `intervals` says whether the table of workers has intervals; it has none where the posterior is only votes, which
    are too often wrong to say how sure a worker's rates are.

    Attributes
    ----------
    posterior_ : (N, K)
        Probability that each class is in the set of each task.
    exact_ : (N,)
        Probability that the consensus is the whole set, no class more or less.
    prior_ : (K,)
        Share of the tasks that have each class.
    worker_beta_ : (M, 4)
        Posterior of a worker's sensitivity and specificity over all classes, two Beta distributions: classes in true
        sets that they named and left out, classes outside that they left out and named.

    Examples
    --------
    >>> from crowdwise.kinds import read_label_sets
    >>> sets = read_label_sets({"task": [1, 1, 1, 2, 2, 2], "worker": ["ann", "bob", "cy"] * 2,
    ...                         "labels": ["cat|dog", "cat|dog", "dog", "bird", "bird", ""]})
    """

    kind: ClassVar[str] = "multi-label"
    guessed: ClassVar[str] = "how good answers are. Rates of workers are"
    intervals: ClassVar[bool] = True
    vocabularies: ClassVar[dict[str, str]] = {"tasks": "N", "workers": "M", "classes": "K"}
    example: ClassVar[str] = ">>> {name}().fit(sets).consensus()['labels'].to_pylist()\n['cat|dog', 'bird']"
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("posterior", "N K", low=0, high=1),
        SavedArray("exact", "N", low=0, high=1),
        SavedArray("prior", "K", low=0, high=1),
        SavedArray("answers_per_task", "N", low=0, high=2**31, integer=True),
        SavedArray("worker_beta", "M 4", low=SMALLEST),
    )
    posterior_: FloatArray
    exact_: FloatArray
    prior_: FloatArray
    answers_per_task_: IntArray
    worker_beta_: FloatArray

    def consensus(self, level: float = 0.9) -> Any:
        """Table of task, labels, confidence (that the set is exactly this), n_answers, and a probability a class."""
        self._check_fitted()
        check_level(level)
        posterior = SetPosterior(self.posterior_, self.exact_)
        return self._table_of_sets(self._names["tasks"], posterior, self.answers_per_task_)

    def workers(self, level: float = 0.9) -> Any:
        """Table of worker, n_answers, sensitivity and specificity over all classes, with intervals."""
        self._check_fitted()
        level, beta = check_level(level), self.worker_beta_
        columns: dict[str, Any] = {"worker": self._names["workers"], "n_answers": self.answers_per_worker_}
        for name, one, other in (("sensitivity", beta[:, 0], beta[:, 1]), ("specificity", beta[:, 2], beta[:, 3])):
            columns[name] = one / (one + other)
            if not self.intervals:
                continue
            columns[f"{name}_low"] = betaincinv(one, other, (1 - level) / 2)
            columns[f"{name}_high"] = betaincinv(one, other, (1 + level) / 2)
        return native_table(columns, self.table_kind_)

    def decide(self) -> BoolArray:
        """The consensus (N, K): the classes that are more probably in the set than not."""
        self._check_fitted()
        return self.posterior_ > 0.5

    # ---- what a method gives ------------------------------------------------------------------------------

    def _posterior(self, answers: LabelSets, worker: IntArray) -> SetPosterior:
        """What is known of each task; `worker` are the model's positions, M for a stranger."""
        raise NotImplementedError

    # ---- the rest -----------------------------------------------------------------------------------------

    def _align_gold(self, gold: Any, answers: LabelSets) -> FloatArray:
        return align_true_sets(gold, answers.tasks, answers.classes)[0]

    def _remember(self, answers: LabelSets, found: Found) -> None:
        super()._remember(answers, found)
        self.worker_beta_ = _judge_workers(answers, self.posterior_)

    def _match_classes(self, answers: LabelSets) -> LabelSets:
        """The answers with the model's classes."""
        there = positions(answers.classes, self._names["classes"])
        strange = (there < 0) & answers.member.any(axis=0)
        if strange.any():
            shown = listing(answers.classes.filter(pa.array(strange)).to_pylist())
            raise InputError(f"The model knows no class {shown}. Fit it with answers that have it.")
        member = np.zeros((answers.n_answers, len(self._names["classes"])), np.bool_)
        member[:, there[there >= 0]] = answers.member[:, there >= 0]
        return replace(answers, member=member, classes=self._names["classes"])

    def _predict_table(self, answers: LabelSets) -> Any:
        matched = self._match_classes(answers)
        posterior = self._posterior(matched, self._positions_of_workers(answers))
        return self._table_of_sets(answers.tasks, posterior, answers.answers_per_task)

    def _agreement(self, answers: LabelSets) -> Agreement:
        """By the share of classes, over answer and consensus, that are in both; too many or too few are leans."""
        matched = self._match_classes(answers)
        at = positions(answers.tasks, self._names["tasks"])
        known = (at >= 0) & (self.answers_per_task_[at] > 0)
        expected = np.where(known[:, None], self.posterior_[at], np.nan)
        other = another_question(answers.worker, answers.task)
        near = _overlap(matched.member, expected[answers.task])
        chance = np.where(other < 0, 0.0, _overlap(matched.member, expected[other]))
        found = nearness_agreement(answers.worker, answers.task, near, chance)
        lean: FloatArray = (matched.member - expected[answers.task]).sum(axis=1)
        sides = ("names too few classes", "names too many classes")
        return replace(found, lean=lean, sides=sides, least_lean=LEAST_LEAN)

    def _table_of_sets(self, tasks: Any, posterior: SetPosterior, counts: IntArray) -> Any:
        classes = self._names["classes"]
        columns = {
            "task": tasks,
            "labels": write_sets(posterior.member > 0.5, classes),
            "confidence": posterior.exact,
            "n_answers": counts,
        }
        chances = {f"probability_{name}": posterior.member[:, at] for at, name in enumerate(classes.to_pylist())}
        return native_table(columns | chances, self.table_kind_)


def _overlap(member: BoolArray, expected: FloatArray) -> FloatArray:
    """Expected classes in both over those in either (n,), for the chance of each class in the other; 1 of two empty."""
    both = (member * expected).sum(axis=1)
    either = member.sum(axis=1) + expected.sum(axis=1) - both
    share: FloatArray = np.where(either < 0.5, 1.0, both / np.maximum(either, 0.5))
    return np.where(np.isnan(both), np.nan, share)


def sum_by_task(answers: LabelSets, rows: FloatArray) -> FloatArray:
    """Sums of rows (n, K) over the answers of each task (N, K)."""
    ends = np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0)])
    sums: FloatArray = ends[answers.task_ptr[1:]] - ends[answers.task_ptr[:-1]]
    return sums


def sum_by_worker(worker: IntArray, rows: FloatArray, n_workers: int) -> FloatArray:
    """Sums of rows (n, K) over the answers of each worker (M, K)."""
    gather = csr_array((np.ones(worker.size), (worker, np.arange(worker.size))), shape=(n_workers, worker.size))
    return np.asarray(gather @ rows)


def _judge_workers(answers: LabelSets, posterior: FloatArray) -> FloatArray:
    """Two Beta distributions for each worker (M, 4): of naming classes in true sets, and of leaving out others.

    Counts are those that the posterior expects, made smaller by the share of information that is lost where it is
    unsure (Louis 1982): a class that is in the set with probability p counts p less p (1 - p) (y - α)² / (α (1 - α)).
    """
    inside, said = posterior[answers.task], answers.member
    found = []
    for truth, right in ((inside, said), (1 - inside, ~said)):
        named = np.bincount(answers.worker, (truth * right).sum(axis=1), answers.n_workers)
        total = np.bincount(answers.worker, truth.sum(axis=1), answers.n_workers)
        rate = (named.sum() + 1.0) / (total.sum() + 2.0)
        own = (named + FEW * rate) / (total + FEW)
        squares = (right - own[answers.worker][:, None]) ** 2
        lost = np.bincount(answers.worker, (truth * (1 - truth) * squares).sum(axis=1), answers.n_workers)
        kept = np.clip(total - lost / (own * (1 - own)), LEAST_KEPT * total, total) + FEW
        found += [kept * own, kept * (1 - own)]
    return np.column_stack(found)
