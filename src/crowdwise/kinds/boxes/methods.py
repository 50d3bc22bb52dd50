"""Methods for marked objects, of boxes and points alike: a model of the workers, and plain clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.kinds.boxes.grouping import start_grouping
from crowdwise.kinds.boxes.model import ObjectModel, combine_found
from crowdwise.kinds.boxes.object_em import Things, expect_things, fit_objects, group_marks, improve, start_crowd

if TYPE_CHECKING:
    from crowdwise.kinds.boxes.object_likelihood import Crowd, Drawn, Grouping
    from crowdwise.kinds.marks import Marks
    from crowdwise.kinds.model import Found
    from crowdwise.labels.types import FloatArray

__all__ = ["MarkClusters", "ObjectEm"]

PASSES = 10  # over the workers, whose shares among fixed objects need few


@estimator
class ObjectEm(ObjectModel):
    """Base of the worker models of boxes and points (`object_em`).

    Attributes
    ----------
    objective_ : (n_iter_,)
        Log-likelihood of the grouping and log-density of the parameters, with coordinates in units of the frame.
    """

    uses = frozenset({"gold"})
    climbs = True

    max_iter: int = 50
    tol: float = 1e-3

    def _fit(self, answers: Marks, gold: Any) -> Found:
        drawn = self._lay_out(answers, gold)
        ended = fit_objects(drawn, self.max_iter, self.tol * answers.n_answers, self.slug)
        crowd, grouping, _ = ended.parameters
        things = expect_things(drawn, crowd, grouping)
        return combine_found(self._found(drawn, crowd, grouping, things), ended)

    def _group(self, drawn: Drawn, crowd: Crowd) -> tuple[Grouping, Things]:
        grouping = group_marks(drawn, crowd)
        return grouping, expect_things(drawn, crowd, grouping)


class MarkClusters(ObjectModel):
    """Base of the plain clusters.

    Attributes
    ----------
    confidence_ : (B,)
        Share of the task's answers that marked the place: no probability.
    """

    share: float

    def _together(self, drawn: Drawn) -> float:
        """Least nearness of the marks of a cluster, on average."""
        raise NotImplementedError

    def _check(self) -> None:
        check_number("share", self.share, low=0, high=1)

    def _kept(self, confidence: FloatArray) -> Any:
        return confidence >= self.share - 1e-9

    def _fit(self, answers: Marks, gold: Any) -> Found:
        drawn = self._lay_out(answers, gold)
        grouping = start_grouping(drawn, self._together(drawn))
        crowd = start_crowd(drawn, grouping)
        things = self._average(drawn, crowd, grouping)
        sure = replace(things, confidence=self._kept(things.confidence).astype(np.float64))
        for _ in range(PASSES):
            crowd = improve(drawn, crowd, grouping, sure)
        return combine_found(self._found(drawn, crowd, grouping, things))

    def _group(self, drawn: Drawn, crowd: Crowd) -> tuple[Grouping, Things]:
        grouping = start_grouping(drawn, self._together(drawn))
        return grouping, self._average(drawn, crowd, grouping)

    def _average(self, drawn: Drawn, crowd: Crowd, grouping: Grouping) -> Things:
        """Things at the mean of their marks, as sure as the share of the answers that marked them."""
        things = expect_things(drawn, crowd, grouping)
        counts = np.bincount(grouping.thing, minlength=grouping.n_things).astype(np.float64)
        answers = np.bincount(drawn.answer_task, minlength=drawn.sizes[0])
        sums = np.stack([np.bincount(grouping.thing, each, grouping.n_things) for each in drawn.place.T], axis=1)
        return replace(
            things,
            confidence=counts / answers[things.task],
            place=sums / counts[:, None],
            variance=things.size**2 * crowd.usual_variance / counts[:, None],
        )
