"""Votes class by class: what a model of the workers must beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.kinds.model import Found
from crowdwise.kinds.multi_label.model import SetModel, SetPosterior, sum_by_task
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from crowdwise.kinds.multi_label.answers import LabelSets
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["SetVotes", "share_votes"]


@estimator
class SetVotes(SetModel):
    """The classes that more than half of a task's answers name; probabilities are shares of the votes.

    Facts
    -----
    Assumes: workers are alike, and miss a class as often as they name a wrong one
    Fails with: workers who leave out much: a class that half of them miss is lost
    Cost: O(answers × K)
    Paper: folklore
    """

    slug = "votes"
    intervals = False

    def _fit(self, answers: LabelSets, gold: FloatArray | None) -> Found:  # noqa: ARG002
        prior = (answers.member.sum(axis=0) + 1.0) / (answers.n_answers + 2.0)
        found = share_votes(answers, prior)
        return Found({"posterior": found, "exact": _chance_of_all(found), "prior": prior})

    def _posterior(self, answers: LabelSets, worker: IntArray) -> SetPosterior:  # noqa: ARG002
        found = share_votes(answers, self.prior_)
        return SetPosterior(found, _chance_of_all(found))

    def _log_density(self, answers: LabelSets) -> FloatArray:
        matched = self._match_classes(answers)
        task = positions(answers.tasks, self._names["tasks"])[answers.task]
        number = np.where(task >= 0, self.answers_per_task_[task], 0)[:, None]
        chance = (number * self.posterior_[task] + 2 * self.prior_) / (number + 2)
        density: FloatArray = np.log(np.where(matched.member, chance, 1 - chance)).sum(axis=1)
        return density


def share_votes(answers: LabelSets, otherwise: FloatArray) -> FloatArray:
    """Share of each task's answers that name each class (N, K); for a task without answers what is given."""
    number = answers.answers_per_task[:, None]
    votes = sum_by_task(answers, answers.member.astype(np.float64))
    return np.where(number > 0, np.clip(votes / np.maximum(number, 1), 0.0, 1.0), otherwise)


def _chance_of_all(posterior: FloatArray) -> FloatArray:
    found: FloatArray = np.maximum(posterior, 1 - posterior).prod(axis=1)
    return found
