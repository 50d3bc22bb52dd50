"""Consensus of spans by the methods for tasks in sequences: a text's segments are the tasks, tags the classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.aggregate.bsc import BayesianSequenceCombination
from crowdwise.aggregate.hmm_crowd import HmmCrowd
from crowdwise.aggregate.majority_vote import MajorityVote
from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.fitting.saved_arrays import SMALLEST, SavedArray
from crowdwise.kernels import vote_shares
from crowdwise.kinds.spans.model import SpanModel, TagFit

if TYPE_CHECKING:
    from crowdwise.kinds.spans.segments import Segments
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import FloatArray

__all__ = ["SpanBsc", "SpanHmmCrowd", "SpanVotes"]


class ChainModel(SpanModel):
    """Base of the methods with a Markov chain of tags along a text."""

    climbs = True

    max_iter: int
    tol: float
    steps_: FloatArray
    habits_: FloatArray
    habit_answers_: FloatArray

    def _inner(self, sequences: Any) -> Any:
        """The method for labels, not fitted."""
        raise NotImplementedError

    def _extra(self) -> dict[str, FloatArray]:
        """What that method keeps besides, as this model saves it."""
        raise NotImplementedError

    def _fit_tags(self, labels: CrowdLabels, segments: Segments, gold: dict[int, str] | None) -> TagFit:
        place = np.arange(segments.task.size)
        model = self._inner({"task": place, "sequence": segments.task, "position": place}).fit(labels, gold)
        return TagFit(
            model.posterior_, model.prior_, model.confusion_, model.skill_, model.skill_beta_, dict(model.extra_),
            model.objective_, model.n_iter_, model.converged_,
        )  # fmt: skip

    def _predict_tags(self, labels: CrowdLabels, segments: Segments) -> FloatArray:
        model = self._inner(None)
        model.confusion_, model.extra_ = self.confusion_, self._extra()
        model.labels_per_worker_ = self.answers_per_worker_
        found: FloatArray = model._predict_in_sequences(labels, segments.as_sequences())
        return found


@estimator
class SpanHmmCrowd(ChainModel):
    """Consensus of spans: a confusion matrix of tags for every worker, a Markov chain of tags along a text.

    Facts
    -----
    Assumes: a worker's tag of a segment depends on the true tag alone; true tags are a Markov chain
    Fails with: workers with few spans, whose mistakes along one span count as several
    Cost: O(tags × K + segments × K²) an iteration
    Paper: Nguyen et al. 2017, ACL

    Parameters
    ----------
    smoothing : float, 0 or more
        Pseudo-count of every cell of every confusion matrix.
    """

    slug = "hmm-crowd"
    saved: ClassVar[tuple[SavedArray, ...]] = (SavedArray("steps", "K+1 K", low=0, high=1 + 1e-6, sums_to_one=True),)

    smoothing: float = 0.5
    max_iter: int = 200
    tol: float = 1e-5

    def _check(self) -> None:
        check_number("smoothing", self.smoothing, low=0)

    def _inner(self, sequences: Any) -> Any:
        return HmmCrowd(sequences=sequences, smoothing=self.smoothing, max_iter=self.max_iter, tol=self.tol)

    def _extra(self) -> dict[str, FloatArray]:
        return {"steps": self.steps_}

    def _nothing(self, n_workers: int, n_tags: int) -> dict[str, FloatArray]:  # noqa: ARG002
        return {"steps": np.full((n_tags + 1, n_tags), 1 / n_tags)}


@estimator
class SpanBsc(ChainModel):
    """Consensus of spans, where a worker's tag of a segment also depends on their tag before (BSC-seq).

    Facts
    -----
    Assumes: a worker's tag depends on the true tag and on their tag before; true tags are a Markov chain
    Fails with: few answers a worker: each has a confusion matrix for every tag they gave before
    Cost: O(tags × K + segments × K² + habits × K²) an iteration
    Paper: Simpson & Gurevych 2019, EMNLP
    """

    slug = "bsc"
    saved: ClassVar[tuple[SavedArray, ...]] = (
        SavedArray("habits", "H", low=0, codes="K+1*M"),
        SavedArray("habit_answers", "H K K", low=SMALLEST),
        SavedArray("steps", "K+1 K", low=SMALLEST),
    )

    max_iter: int = 200
    tol: float = 1e-5

    def _inner(self, sequences: Any) -> Any:
        return BayesianSequenceCombination(sequences=sequences, max_iter=self.max_iter, tol=self.tol)

    def _fit_tags(self, labels: CrowdLabels, segments: Segments, gold: dict[int, str] | None) -> TagFit:
        found = super()._fit_tags(labels, segments, gold)
        found.own["habit_answers"] = found.own.pop("answers")
        return found

    def _extra(self) -> dict[str, FloatArray]:
        return {"habits": self.habits_, "answers": self.habit_answers_, "steps": self.steps_}

    def _nothing(self, n_workers: int, n_tags: int) -> dict[str, FloatArray]:  # noqa: ARG002
        return {
            "habits": np.zeros(1),
            "habit_answers": np.ones((1, n_tags, n_tags)),
            "steps": np.ones((n_tags + 1, n_tags)),
        }


@estimator
class SpanVotes(SpanModel):
    """Consensus of spans: the tag that most workers give to each segment.

    Facts
    -----
    Assumes: workers are alike, and err independently
    Fails with: workers of unequal skill, spans that fewer than half of the workers see
    Cost: O(tags)
    Paper: folklore
    """

    slug = "majority-vote"
    uses = frozenset()

    def _fit_tags(self, labels: CrowdLabels, segments: Segments, gold: dict[int, str] | None) -> TagFit:  # noqa: ARG002
        model = MajorityVote().fit(labels)
        counts = np.ones((labels.n_workers, labels.n_classes, labels.n_classes))
        cells: Any = labels.worker, slice(None), labels.label
        np.add.at(counts, cells, model.posterior_[labels.task])
        return TagFit(
            model.posterior_, model.prior_, counts / counts.sum(axis=2, keepdims=True), model.skill_, model.skill_beta_,
            {}, np.empty(0), 1, True,
        )  # fmt: skip

    def _predict_tags(self, labels: CrowdLabels, segments: Segments) -> FloatArray:  # noqa: ARG002
        found: FloatArray = vote_shares(labels, np.empty(0, np.int64))
        return found
