"""Points, as a model of marked objects sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from crowdwise.kinds.boxes.geometry import Geometry, measure_frame

if TYPE_CHECKING:
    from typing import Self

    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["PointGeometry", "distances", "usual_distance"]

REACH = 10  # of the usual distance of two workers' points of one object: the length that errors are measured by
MOST = 2000  # points of an answer's neighbours that are looked at for it


class PointGeometry(Geometry):
    """Of points: anywhere in the frame, with errors of the same length everywhere.

    The last number is that length: `REACH` times the median distance from a point to the nearest of another worker.
    """

    n_numbers: ClassVar[int] = 5
    together: ClassVar[float] = 0.5

    @classmethod
    def measure(cls, place: FloatArray, answer: IntArray) -> Self:
        """Geometry of all points of a fit; the columns of `answer` (n, 2) are task and worker."""
        frame = measure_frame(place)
        usual = usual_distance(place / frame[2], answer)
        return cls(np.append(frame, np.log(REACH * usual)))

    def log_density(self, place: FloatArray) -> FloatArray:
        """Uniform in the frame."""
        return np.full(place.shape[:-1], -self.numbers[3])

    def log_size(self, place: FloatArray) -> FloatArray:
        """The same everywhere."""
        return np.full(place.shape, self.numbers[4])

    def nearness(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """1 at the same place, 0 at the length that errors are measured by."""
        return 1 - distances(first, second) / float(np.exp(self.numbers[4]))


def distances(first: FloatArray, second: FloatArray) -> FloatArray:
    """Distances of points (n, 2) and (m, 2), as (n, m)."""
    found: FloatArray = np.sqrt(((first[:, None] - second[None]) ** 2).sum(axis=-1))
    return found


def usual_distance(place: FloatArray, answer: IntArray) -> float:
    """Median distance from a point to the nearest of another worker on the task; a hundredth where there is none."""
    nearest = []
    order = np.argsort(answer[:, 0], kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(answer[order, 0])) + 1):
        some = rows[:MOST]
        apart = distances(place[some], place[some])
        apart[answer[some, 1][:, None] == answer[some, 1][None]] = np.inf
        nearest.append(apart.min(axis=1))
    found = np.concatenate(nearest)
    found = found[np.isfinite(found)]
    return float(np.clip(np.median(found), 1e-5, 0.1)) if found.size else 0.01
