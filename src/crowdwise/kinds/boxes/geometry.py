"""What a model of marked objects asks of the marks: how large they are, how near to each other, how usual.

Coordinates are taken in units of the largest extent of the answers, about their middle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    from typing import Self

    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["LEAST_EXTENT", "BoxGeometry", "Geometry", "intersection_over_union"]

LEAST_EXTENT = 1e-90  # of a frame: the lengths of a unit are multiplied by it and divided by it
SMALLEST_SPREAD = 0.1  # of logarithms of sizes: boxes of one size are not all there may be


@dataclass(frozen=True)
class Geometry:
    """Base of the geometries of boxes and points.

    Attributes
    ----------
    numbers : (G,)
        Middle (2), extent, logarithm of the frame's area in units, and what a geometry adds.
    """

    numbers: FloatArray
    n_numbers: ClassVar[int]
    together: ClassVar[float]  # marks nearer than this start in one group

    @classmethod
    def measure(cls, place: FloatArray, answer: IntArray) -> Self:
        """Geometry of all marks (n, D) of a fit; `answer` tells which marks are of one answer."""
        raise NotImplementedError

    @property
    def unit(self) -> float:
        """Length of a unit."""
        return float(self.numbers[2])

    def to_units(self, place: FloatArray) -> FloatArray:
        """Places in units."""
        return (place - self._middle(place.shape[-1])) / self.unit

    def from_units(self, place: FloatArray) -> FloatArray:
        """Places as they were given."""
        return place * self.unit + self._middle(place.shape[-1])

    def _middle(self, n_coordinates: int) -> FloatArray:
        return np.tile(self.numbers[:2], n_coordinates // 2)

    def log_density(self, place: FloatArray) -> FloatArray:
        """Logarithm (…,) of how usual places (…, D) are, whatever is there; in units."""
        raise NotImplementedError

    def log_size(self, place: FloatArray) -> FloatArray:
        """Logarithm (…, D) of the length that errors of each coordinate are measured by; in units."""
        raise NotImplementedError

    def nearness(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """How near marks are to each other (n, m): 1 at the same place, 0 or less if they cannot be the same object."""
        raise NotImplementedError


def measure_frame(place: FloatArray) -> FloatArray:
    """Middle of all places (n, D), their larger extent, and the logarithm of the frame's area in units of it."""
    corners = place.reshape(len(place), -1, 2)
    low, high = corners.min(axis=(0, 1)), corners.max(axis=(0, 1))
    extent = float(max((high - low).max(), np.abs([low, high]).max() * 1e-9, LEAST_EXTENT))
    area = float(np.log(np.maximum((high - low) / extent, 1e-3)).sum())
    frame: FloatArray = np.array([*((low + high) / 2), extent, area])
    return frame


class BoxGeometry(Geometry):
    """Of boxes: centres anywhere in the frame, log-normal widths and heights.

    Errors of a corner are measured by the geometric mean of the side that it moves and the square root of the area: in
    long boxes both matter. Real boxes are more probable so than with sides alone (compared without their truth).
    """

    n_numbers: ClassVar[int] = 8
    together: ClassVar[float] = 0.3

    @classmethod
    def measure(cls, place: FloatArray, answer: IntArray) -> Self:  # noqa: ARG003
        """Geometry of all boxes of a fit."""
        frame = measure_frame(place)
        sides = np.log((place[:, 2:] - place[:, :2]) / frame[2])
        return cls(np.concatenate([frame, sides.mean(axis=0), np.maximum(sides.std(axis=0), SMALLEST_SPREAD)]))

    def log_density(self, place: FloatArray) -> FloatArray:
        """Uniform centres, log-normal sides."""
        sides = self._log_sides(place)
        mean, spread = self.numbers[4:6], self.numbers[6:8]
        normal = -0.5 * ((sides - mean) / spread) ** 2 - np.log(spread) - 0.5 * np.log(2 * np.pi) - sides
        found: FloatArray = normal.sum(axis=-1) - self.numbers[3]
        return found

    def log_size(self, place: FloatArray) -> FloatArray:
        """Geometric mean of the side and the square root of the area."""
        sides = self._log_sides(place)
        mixed = 0.5 * sides + 0.25 * sides.sum(axis=-1, keepdims=True)
        found: FloatArray = mixed[..., [0, 1, 0, 1]]
        return found

    def nearness(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Intersection over union."""
        return intersection_over_union(first, second)

    @staticmethod
    def _log_sides(place: FloatArray) -> FloatArray:
        # A mean of boxes has sides; one that was weighed by precisions may have none.
        found: FloatArray = np.log(np.maximum(place[..., 2:] - place[..., :2], 1e-12))
        return found


def intersection_over_union(first: FloatArray, second: FloatArray) -> FloatArray:
    """Area that boxes (n, 4) and (m, 4) share, over the area that they cover together (n, m).

    >>> intersection_over_union(np.array([[0.0, 0.0, 2.0, 1.0]]), np.array([[1.0, 0.0, 3.0, 1.0]])).round(3).tolist()
    [[0.333]]
    """
    one, other = first[:, None], second[None]
    sides = np.minimum(one[..., 2:], other[..., 2:]) - np.maximum(one[..., :2], other[..., :2])
    shared = np.maximum(sides, 0).prod(axis=-1)
    areas = [(each[..., 2:] - each[..., :2]).prod(axis=-1) for each in (one, other)]
    union = areas[0] + areas[1] - shared
    found: FloatArray = np.where(union > 0, shared / np.where(union > 0, union, 1.0), 0.0)
    return found
