"""A simulated crowd that marks points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.boxes.simulation import FRAME, make_scene, place_apart, simulate_objects
from crowdwise.kinds.points.answers import Points
from crowdwise.kinds.points.geometry import distances
from crowdwise.kinds.simulated_crowd import CrowdSizes, SimulatedCrowd, add_crowd_parameters

if TYPE_CHECKING:
    from crowdwise.kinds.simulator_parameters import Range
    from crowdwise.labels.types import FloatArray

__all__ = ["simulate_points"]


@add_crowd_parameters(n_tasks=30, n_workers=12, answers_per_task=6)
def simulate_points(
    sizes: CrowdSizes, /, *, error: Range = (3.0, 12.0), apart: float = 50.0, **scene: Any
) -> SimulatedCrowd[Any]:
    """Points in a frame of 1000 × 1000, at least `apart`, and what workers mark; other parameters are of a `Scene`."""
    generator = sizes.generator

    def draw() -> FloatArray:
        return generator.uniform(0, FRAME, (1, 2))

    def place(n: int) -> FloatArray:
        return place_apart(n, 2, draw, lambda point, made: distances(point, made) < apart)

    return simulate_objects(Points, sizes, make_scene(error=error, **scene), place, np.ones_like)
