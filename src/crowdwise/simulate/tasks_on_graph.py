"""Tasks joined in a graph whose pairs tend to agree: a planted partition."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.simulate.checks import check_count, check_share
from crowdwise.simulate.setting import Setting, add_setting_parameters
from crowdwise.simulate.workers import draw_skilled_confusion

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray
    from crowdwise.simulate.simulation import Simulation

__all__ = ["tasks_on_graph"]


@add_setting_parameters(n_tasks=1000, n_workers=20, n_classes=3, labels_per_task=3)
def tasks_on_graph(
    setting: Setting, *, neighbours: int = 4, homophily: float = 0.8, skill: float = 0.6, concentration: float = 10.0
) -> Simulation:
    """Independent workers on tasks joined in pairs that tend to have the same truth (a planted partition).

    `extras` holds "pairs" (pairs, 2), positions of the tasks, which are also their names.

    Parameters
    ----------
    neighbours
        How many each task has, on average; a little fewer, since no pair is drawn twice.
    homophily
        Share of the pairs that are drawn within a class; the others are drawn from all tasks.
    skill, concentration
        As for `simulate_crowd`.
    """
    neighbours = check_count(neighbours, "neighbours")
    homophily = check_share(homophily, "homophily")
    codes, shares = setting.draw_truth()
    confusion = draw_skilled_confusion(
        setting.n_workers, setting.n_classes, setting.rng, skill=skill, concentration=concentration
    )
    crowd = setting.simulate_independent(codes, shares, confusion)
    return replace(crowd, extras={"pairs": _draw_pairs(codes, codes.size * neighbours // 2, homophily, setting.rng)})


def _draw_pairs(truth: IntArray, number: int, homophily: float, rng: np.random.Generator) -> IntArray:
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
