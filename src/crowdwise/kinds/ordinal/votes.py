"""The median of each task's grades: what a model of the workers must beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.kinds.model import Found
from crowdwise.kinds.ordinal.model import GradeModel

if TYPE_CHECKING:
    from crowdwise.kinds.ordinal.answers import Grades
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["MedianGrade"]


@estimator
class MedianGrade(GradeModel):
    """The median of each task's grades; probabilities are shares of the votes.

    Facts
    -----
    Assumes: workers are alike, and err as often upwards as downwards
    Fails with: workers who guess, who grade too high or too low, few answers to a task
    Cost: O(answers + tasks × K)
    Paper: folklore
    """

    slug = "median"
    uses = frozenset()

    def _fit(self, answers: Grades, gold: IntArray | None) -> Found:  # noqa: ARG002
        prior = (np.bincount(answers.grade, minlength=answers.n_classes) + 1.0) / (
            answers.n_answers + answers.n_classes
        )
        return Found({"posterior": share_votes(answers, prior), "prior": prior})

    def _posterior(self, answers: Grades, worker: IntArray) -> FloatArray:  # noqa: ARG002
        return share_votes(answers, self.prior_)

    def _answer_probabilities(self, task: IntArray, worker: IntArray) -> FloatArray:  # noqa: ARG002
        number = np.where(task >= 0, self.answers_per_task_[task], 0)[:, None]
        found: FloatArray = (number * self.posterior_[task] + self.prior_) / (number + 1)
        return found


def share_votes(answers: Grades, otherwise: FloatArray) -> FloatArray:
    """Share of each task's answers for each class (N, K); for a task without answers what is given."""
    cells = answers.task.astype(np.int64) * answers.n_classes + answers.grade
    votes = np.bincount(cells, minlength=answers.n_tasks * answers.n_classes).reshape(answers.n_tasks, -1)
    number = votes.sum(axis=1, keepdims=True)
    return np.where(number > 0, votes / np.maximum(number, 1), otherwise)
