"""Consensus of points: as of boxes, with distances in place of overlaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.fitting.estimator_decorator import estimator
from crowdwise.fitting.parameter_checks import check_number
from crowdwise.kinds.boxes.methods import MarkClusters, ObjectEm
from crowdwise.kinds.boxes.model import ObjectModel
from crowdwise.kinds.points.answers import Points
from crowdwise.kinds.points.geometry import PointGeometry

if TYPE_CHECKING:
    from crowdwise.kinds.boxes.geometry import Geometry
    from crowdwise.kinds.boxes.object_likelihood import Drawn
    from crowdwise.kinds.marks import Marks

__all__ = ["ObjectPoints", "PointClusters"]


class PointModel(ObjectModel):
    """Base of the methods for points.

    Examples
    --------
    >>> from crowdwise.kinds import read_points
    >>> points = read_points({"task": [1, 1, 1, 1], "worker": ["ann", "bob", "cy", "cy"], "x": [10, 11, 9, 70],
    ...                       "y": [10, 10, 12, 80]})
    """

    kind: ClassVar[str] = "points"
    marks: ClassVar[type[Marks]] = Points
    geometry: ClassVar[type[Geometry]] = PointGeometry
    example: ClassVar[str] = ">>> {name}().fit(points).consensus()['x'].to_numpy()[0].round() in (10, 11)\nTrue"

    def _error_unit(self) -> float:
        geometry = self.geometry(self.frame_)
        return float(np.exp(geometry.numbers[4])) * geometry.unit


@estimator
class ObjectPoints(PointModel, ObjectEm):
    """Consensus of points: every worker misses objects, marks false ones and errs in places at rates of their own.

    Facts
    -----
    Assumes: objects differ in how visible they are; errors are as large everywhere in the frame
    Fails with: two or three answers a task, objects nearer to each other than the workers' errors
    Cost: O(points × points of a task) an iteration
    Paper: after Branson et al. 2017, CVPR
    """

    slug = "object-em"


@estimator
class PointClusters(PointModel, MarkClusters):
    """Consensus of points: clusters by distance, averaged where enough workers marked one.

    Facts
    -----
    Assumes: workers are alike
    Fails with: workers who miss much or mark much that is none
    Cost: O(points of a task²) for every point
    Paper: folklore

    Parameters
    ----------
    distance : float above 0 or "auto"
        Largest distance of the points of a cluster, on average, in the answers' own units. "auto" is five times the
        median distance from a point to the nearest of another worker.
    share : float from 0 to 1
        Least share of the task's answers that have the point.
    """

    slug = "distance-clusters"

    distance: Any = "auto"
    share: float = 0.5

    def _check(self) -> None:
        super()._check()
        if not isinstance(self.distance, str) or self.distance != "auto":
            check_number("distance", self.distance, low=0, above=True)

    def _together(self, drawn: Drawn) -> float:
        if self.distance == "auto":
            return drawn.geometry.together
        return float(1 - self.distance / drawn.geometry.unit / np.exp(drawn.geometry.numbers[4]))
