"""Consensus of boxes by a model of the workers: who misses objects, who draws what is none, and how exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.kinds.boxes.answers import Boxes
from crowdwise.kinds.boxes.geometry import BoxGeometry, Geometry
from crowdwise.kinds.boxes.methods import MarkClusters, ObjectEm
from crowdwise.kinds.boxes.model import ObjectModel

if TYPE_CHECKING:
    from crowdwise.kinds.boxes.object_likelihood import Drawn
    from crowdwise.kinds.marks import Marks

__all__ = ["BoxClusters", "ObjectBoxes"]


class BoxModel(ObjectModel):
    """Base of the methods for boxes.

    Examples
    --------
    >>> from crowdwise.kinds import read_boxes
    >>> boxes = read_boxes({"task": [1, 1, 1, 1], "worker": ["ann", "bob", "cy", "cy"], "x_min": [10, 11, 9, 70],
    ...                     "y_min": [10, 10, 12, 80], "x_max": [50, 52, 49, 90], "y_max": [40, 41, 40, 95]})
    """

    kind: ClassVar[str] = "boxes"
    marks: ClassVar[type[Marks]] = Boxes
    geometry: ClassVar[type[Geometry]] = BoxGeometry
    example: ClassVar[str] = ">>> {name}().fit(boxes).consensus()['x_min'].to_numpy()[0].round() in (10, 11)\nTrue"


@estimator
class ObjectBoxes(BoxModel, ObjectEm):
    """Consensus of boxes: every worker misses objects, draws false ones and errs in corners at rates of their own.

    Facts
    -----
    Assumes: objects differ in how visible they are; workers draw the others' mistakes now and then, not by agreement
    Fails with: two or three answers a task, many workers who make the same mistake
    Cost: O(boxes × boxes of a task) an iteration
    Paper: after Branson et al. 2017, CVPR
    """

    slug = "object-em"


@estimator
class BoxClusters(BoxModel, MarkClusters):
    """Consensus of boxes: clusters by intersection over union, averaged where enough workers drew one.

    Facts
    -----
    Assumes: workers are alike
    Fails with: workers who miss much or draw much that is none
    Cost: O(boxes of a task²) for every box
    Paper: folklore

    Parameters
    ----------
    overlap : float from 0 to 1
        Least intersection over union of the boxes of a cluster, on average.
    share : float from 0 to 1
        Least share of the task's answers that have the box.
    """

    slug = "iou-clusters"

    overlap: float = 0.5
    share: float = 0.2

    def _check(self) -> None:
        super()._check()
        check_number("overlap", self.overlap, low=0, high=1, above=True)

    def _together(self, drawn: Drawn) -> float:  # noqa: ARG002
        return self.overlap
