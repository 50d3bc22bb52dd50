"""Tasks with features and a small crowd: something to try a learner on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.simulate.checks import as_generator, check_count, check_share

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray
    from crowdwise.simulate.checks import Seed

__all__ = ["simulate_features"]

DISTANCE = 3.0  # of the two classes' means in each feature, in standard deviations


def simulate_features(
    n_tasks: int = 300, n_workers: int = 3, *, skill: float = 0.8, seed: Seed = 0
) -> tuple[FloatArray, CrowdLabels, IntArray]:
    """Two normal features of tasks of two classes, everyone's labels, and the truth.

    Parameters
    ----------
    skill
        The chance that a label is right, the same for all workers and classes.
    n_tasks, n_workers, seed
        As for `simulate_crowd`.

    Examples
    --------
    >>> X, labels, truth = simulate_features()
    >>> X.shape, labels, truth.shape
    ((300, 2), CrowdLabels: 900 labels by 3 workers on 300 tasks, 2 classes (0, 1), (300,))
    """
    rng = as_generator(seed)
    size = (check_count(n_tasks, "n_tasks"), check_count(n_workers, "n_workers"))
    truth = rng.integers(2, size=size[0])
    features = rng.normal(size=(size[0], 2)) + DISTANCE * truth[:, None]
    right = rng.random(size) < check_share(skill, "skill")
    return features, CrowdLabels.from_dense(np.where(right, truth[:, None], 1 - truth[:, None])), truth
