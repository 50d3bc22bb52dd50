"""A simulated crowd that marks points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.kinds.boxes.simulation import FRAME, SimulatedObjects, simulate_objects
from crowdwise.kinds.points.answers import Points
from crowdwise.kinds.points.geometry import distances

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray

__all__ = ["simulate_points"]


def simulate_points(
    n_tasks: int = 30,
    n_workers: int = 12,
    *,
    answers_per_task: int = 6,
    objects: float = 4.0,
    distractors: float = 4.0,
    miss_rate: tuple[float, float] = (0.1, 0.5),
    false_positives: tuple[float, float] = (0.1, 1.0),
    error: tuple[float, float] = (3.0, 12.0),
    apart: float = 50.0,
    spread: float = 1.0,
    careless: float = 0.1,
    n_classes: int = 1,
    random_state: int = 0,
) -> SimulatedObjects:
    """Points in a frame of 1000 × 1000, at least `apart`, and what workers mark of them.

    Parameters
    ----------
    objects, distractors
        Mean number in a task of objects, and of places that are taken for one now and then.
    miss_rate, false_positives, error
        Smallest and largest of a worker; drawn evenly between.
    spread
        Standard deviation of the objects' visibilities, in log-odds.
    careless
        Share of the points and of the coordinates whose errors are three times as large.
    n_classes
        Number of labels; 1 for points without labels.
    """
    generator = np.random.default_rng(random_state)

    def place(n: int) -> FloatArray:
        made: FloatArray = np.empty((0, 2))
        while len(made) < n:
            point = generator.uniform(0, FRAME, (1, 2))
            if not (distances(point, made) < apart).any():
                made = np.concatenate([made, point])
        return made

    ranges = {"miss_rate": miss_rate, "false_positives": false_positives, "error": error}
    return simulate_objects(
        Points, generator, place, np.ones_like, (n_tasks, n_workers, answers_per_task, n_classes),
        (objects, distractors), ranges, spread, careless,
    )  # fmt: skip
