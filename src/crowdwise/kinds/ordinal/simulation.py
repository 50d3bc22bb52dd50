"""A simulated crowd that answers with grades."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from scipy.special import expit, ndtri

from crowdwise.kinds.ordinal.answers import Grades
from crowdwise.kinds.simulated_crowd import CrowdSizes, SimulatedCrowd, add_crowd_parameters

if TYPE_CHECKING:
    from crowdwise.kinds.simulator_parameters import SignedRange

__all__ = ["simulate_grades"]


@add_crowd_parameters("scores", n_tasks=100, n_workers=20, answers_per_task=5)
def simulate_grades(
    sizes: CrowdSizes, *, n_classes: int = 5, slope: SignedRange = (1.0, 6.0), bias: float = 0.3
) -> SimulatedCrowd[Grades]:
    """Scores drawn from the normal distribution, cut into classes that are equally common, and what workers say.

    Parameters
    ----------
    slope
        Smallest and largest slope of a worker; drawn evenly between.
    bias
        Standard deviation by which each worker shifts all cuts; single ones are shifted by a third of it.
    scores
        True scores of the tasks (N,), where they are not to be drawn.

    Returns
    -------
    SimulatedCrowd
        truth : table of task and grade
        grade : (N,)
            The same, as an array.
        score : (N,)
            Standard normal score of each task; its grade is the number of cuts below it.
        slope : (M,)
            How sharply a worker tells scores apart.
        threshold : (M, K-1)
            Scores at which a worker is as likely to give a higher grade as a lower one.
    """
    generator, n_tasks, n_workers = sizes.generator, sizes.n_tasks, sizes.n_workers
    score, cut = generator.normal(size=n_tasks), ndtri(np.arange(1, n_classes) / n_classes)
    score = sizes.truth_or(score)
    slopes = generator.uniform(*slope, n_workers)
    shift = bias * generator.normal(size=(n_workers, 1)) + bias / 3 * generator.normal(size=(n_workers, n_classes - 1))
    threshold = np.sort(cut + shift, axis=1)
    task, worker = sizes.assign()
    above = expit(slopes[worker][:, None] * (score[task][:, None] - threshold[worker]))
    said = (generator.random(task.size)[:, None] < above).sum(axis=1)
    grade = (score[:, None] > cut).sum(axis=1)
    answers = Grades.from_codes(task, worker, said, tasks=n_tasks, workers=n_workers, classes=n_classes)
    return SimulatedCrowd(
        answers,
        pa.table({"task": np.arange(n_tasks), "grade": grade}),
        drawn={"grade": grade, "score": score, "slope": slopes, "threshold": threshold},
    )
