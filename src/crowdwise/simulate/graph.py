"""Tasks joined in a graph whose pairs tend to agree: a planted partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.old_names import accept_seed
from crowdwise.simulate.assignment import assign
from crowdwise.simulate.checks import as_generator, checked_count, checked_share
from crowdwise.simulate.draws import draw_labels, draw_truth
from crowdwise.simulate.simulation import Simulation
from crowdwise.simulate.workers import skilled

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray
    from crowdwise.simulate.checks import Seed

__all__ = ["joined_tasks"]


@accept_seed
def joined_tasks(
    n_tasks: int = 1000,
    n_workers: int = 20,
    n_classes: int = 3,
    labels_per_task: int | None = 3,
    *,
    neighbours: int = 4,
    homophily: float = 0.8,
    skill: float = 0.6,
    concentration: float = 10.0,
    prior: Any = None,
    truth: Any = None,
    random_state: Seed = 0,
) -> Simulation:
    """Independent workers on tasks joined in pairs that tend to have the same truth (a planted partition).

    `extras` holds "pairs" (pairs, 2), positions of the tasks, which are also their names.

    Parameters
    ----------
    neighbours
        How many each task has, on average; a little fewer, since no pair is drawn twice.
    homophily
        Share of the pairs that are drawn within a class; the others are drawn from all tasks.
    n_tasks, n_workers, n_classes, labels_per_task, skill, concentration, prior, truth, random_state
        As for `simulate_crowd`.
    """
    rng = as_generator(random_state)
    n_workers, neighbours = checked_count(n_workers, "n_workers"), checked_count(neighbours, "neighbours")
    homophily = checked_share(homophily, "homophily")
    codes, shares = draw_truth(n_tasks, n_classes, rng, prior=prior, truth=truth)
    confusion = skilled(n_workers, n_classes, rng, skill=skill, concentration=concentration)
    assignment = assign(codes.size, n_workers, labels_per_task, rng)
    label = draw_labels(assignment, codes, confusion, rng)
    pairs = _pairs(codes, codes.size * neighbours // 2, homophily, rng)
    return Simulation.assembled(assignment, label, codes, confusion, shares, extras={"pairs": pairs})


def _pairs(truth: IntArray, number: int, homophily: float, rng: np.random.Generator) -> IntArray:
    """Different pairs of different tasks, lower position first."""
    by_class = np.argsort(truth, kind="stable")
    size = np.bincount(truth)
    begin = np.cumsum(size) - size
    first = rng.integers(0, truth.size, number)
    kind = truth[first]
    within = by_class[begin[kind] + (rng.random(number) * size[kind]).astype(np.int64)]
    second = np.where(rng.random(number) < homophily, within, rng.integers(0, truth.size, number))
    pairs = np.sort(np.stack([first, second], axis=1), axis=1)
    return np.unique(pairs[first != second], axis=0)
