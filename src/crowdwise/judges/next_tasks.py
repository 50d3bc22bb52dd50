"""Which tasks people should label next, and how many are needed for an interval of a given width.

Tasks that nobody labelled are cut into strata by how unsure the panel is of them. Every stratum gets labels in
proportion to its tasks times the spread of what people may say there (Neyman 1934), mixed with an equal share for every
task so that no weight is large. Within a stratum tasks are drawn at random: each keeps a weight, one over its chance to
be drawn, and estimates with these weights stay unbiased whatever the panel believes. A column `weight` in the table of
people's labels carries them.

For an interval of the prediction-powered mean of half-width h, n = (z s / h)² labels are needed, s the spread of what
the panel's prediction leaves unexplained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.fitting.parameter_checks import check_count
from crowdwise.fitting.underflow import ignore_underflow
from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["NextTasks", "choose_next_tasks", "count_labels_needed"]

STRATA = 5
EQUAL = 0.5  # share of the labels that is spread over all tasks alike
NORMAL = 1.645  # for 90 %


@dataclass(frozen=True, eq=False)
class NextTasks:
    """Tasks to be labelled: their positions, the weight of each, and its stratum (0 is where the panel is surest)."""

    task: IntArray
    weight: FloatArray
    stratum: IntArray


@ignore_underflow
def choose_next_tasks(
    posterior: FloatArray, n: int = 40, *, labelled: IntArray | None = None, random_state: int = 0
) -> NextTasks:
    """Draw tasks for people to label, more of those that the panel is unsure of.

    Parameters
    ----------
    posterior : (N, K)
        What the panel says.
    n
        How many; all that are left, if fewer are.
    labelled
        Positions of tasks that have labels of people.

    Examples
    --------
    >>> sure, unsure = np.tile([0.95, 0.05], (80, 1)), np.tile([0.55, 0.45], (20, 1))
    >>> found = choose_next_tasks(np.concatenate([sure, unsure]), 20)
    >>> int((found.task >= 80).sum()), round(float(found.weight.sum()))
    (6, 100)
    """
    check_count("n", n, high=10**9)
    free = np.ones(len(posterior), np.bool_)
    if labelled is not None:
        free[labelled] = False
    left = np.flatnonzero(free)
    if not left.size:
        raise InputError("People labelled every task: there is nothing left to choose.")
    n = min(n, left.size)
    doubt = np.sqrt(np.maximum(1 - (posterior[left] ** 2).sum(axis=1), 0))  # spread of the one-hot answer
    order = np.argsort(doubt, kind="stable")
    parts = [part for part in np.array_split(order, min(STRATA, n)) if part.size]
    sizes = np.array([part.size for part in parts])
    spread = np.array([doubt[part].mean() for part in parts])
    wanted = EQUAL * sizes / sizes.sum() + (1 - EQUAL) * sizes * (spread + 1e-9) / (sizes * (spread + 1e-9)).sum()
    number = _round_to_total(wanted * n, sizes, n)
    rng = np.random.default_rng(random_state)
    drawn = [rng.choice(part, size, replace=False) for part, size in zip(parts, number, strict=True)]
    stratum = np.repeat(np.arange(len(parts)), number)
    weight = np.repeat(sizes / np.maximum(number, 1), number)
    return NextTasks(left[np.concatenate(drawn)], weight, stratum)


def _round_to_total(wanted: FloatArray, most: IntArray, total: int) -> IntArray:
    """Whole numbers near the wanted ones that sum to the total: at least one, at most so many."""
    number = np.clip(np.floor(wanted).astype(np.int64), 1, most)
    while number.sum() != total:
        short = number.sum() < total
        gap = (
            np.where(number < most, wanted - number, -np.inf)
            if short
            else np.where(number > 1, number - wanted, -np.inf)
        )
        number[int(np.argmax(gap))] += 1 if short else -1
    return number


def count_labels_needed(spread: float, width: float) -> int:
    """Tasks that people must label for a 90 % interval of this whole width.

    >>> count_labels_needed(0.3, 0.05)
    390
    """
    if not (math.isfinite(width) and width > 0):
        raise InputError(f"width is {width}; it must be above 0.")
    return math.ceil((2 * NORMAL * spread / width) ** 2)
