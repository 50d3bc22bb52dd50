"""Groups of workers, and differences between rates of groups with their bootstrap intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdwise.audit.leave_out_consensus import solve_rates
from crowdwise.audit.resampling import bootstrap_interval
from crowdwise.kernels import outer_sums
from crowdwise.labels.errors import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdwise.audit.leave_out_consensus import CrowdReference
    from crowdwise.labels.attributes import Attribute
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "EVERYONE",
    "ONESELF",
    "Group",
    "GroupEffect",
    "SignedLabels",
    "estimate_effect",
    "make_worker_groups",
    "runs_of_same_attribute",
]

BUSIEST = 20  # workers who are groups of their own where no attribute of workers is given
FEWEST_WORKERS = 5  # in a group, for a bootstrap of workers
EVERYONE = ""  # the attribute of all workers together
ONESELF = "worker"  # the attribute of workers who are groups of their own


class Group(NamedTuple):
    """Workers who share a value of an attribute, and those whom they are held against."""

    attribute: str
    value: Any
    mine: BoolArray
    others: BoolArray

    def __str__(self) -> str:
        if self.attribute == EVERYONE:
            return "The crowd as a whole"
        if self.attribute == ONESELF:
            return f"Worker {quote(self.value)}"
        return f"Workers with {self.attribute} = {quote(self.value)}"


class SignedLabels(NamedTuple):
    """Labels whose rates count with a sign."""

    sign: float
    edges: BoolArray


class GroupEffect(NamedTuple):
    """What a group of workers does, everywhere or to a group of tasks: a difference of rates and its interval.

    `each` holds the plain rates: of the group and the others; or of the group there and elsewhere, then of the others.
    """

    size: float
    low: float
    high: float
    each: tuple[float, ...]
    group: Group | None = None
    where: tuple[str, Any] | None = None

    @property
    def group_gap_between_task_groups(self) -> float:
        """The group's own difference between the groups of tasks."""
        return self.each[0] - self.each[1]

    @property
    def others_gap_between_task_groups(self) -> float:
        """The others' difference between the groups of tasks."""
        return self.each[2] - self.each[3]


def make_worker_groups(
    labels: CrowdLabels, reference: CrowdReference, attributes: tuple[Attribute, ...]
) -> Iterator[Group]:
    """Workers by each attribute, each of the busiest by themself where there is none, and all together with a truth."""
    active = labels.labels_per_worker > 0
    if (reference.truth >= 0).any():
        yield Group(EVERYONE, "everyone", active, np.zeros_like(active))
    for attribute in attributes:
        known = active & (attribute.code >= 0)
        for value, name in enumerate(attribute.values):
            mine = known & (attribute.code == value)
            if mine.any() and (known & ~mine).any():
                yield Group(attribute.name, name, mine, known & ~mine)
    if not attributes:
        busiest = np.argsort(-labels.labels_per_worker, kind="stable")[:BUSIEST]
        for worker in busiest[active[busiest]]:
            mine = np.arange(labels.n_workers) == worker
            yield Group(ONESELF, labels.workers[int(worker)].as_py(), mine, active & ~mine)


def runs_of_same_attribute(groups: list[Group]) -> Iterator[tuple[int, int]]:
    """Runs of groups that one finding is about: those of one attribute; each worker who is one by themself."""
    first = 0
    for last in range(1, len(groups) + 1):
        if (
            last == len(groups)
            or groups[last].attribute != groups[first].attribute
            or groups[first].attribute == ONESELF
        ):
            yield first, last
            first = last


def estimate_effect(
    units: tuple[tuple[IntArray, int], tuple[IntArray, int]],
    q: FloatArray,
    y: FloatArray,
    said: FloatArray,
    sides: list[SignedLabels],
    cell: tuple[int, int],
    random_state: int,
) -> GroupEffect:
    """Σ sign × rate[cell] of the sides, with its bootstrap interval over tasks and workers, and the plain rates."""
    k, label = cell
    each = tuple(float(solve_rates(q[e].T @ q[e], q[e].T @ said[e])[k, label]) for _, e in sides)
    few = min(np.unique(units[1][0][edges]).size for _, edges in sides) < FEWEST_WORKERS
    intervals = []
    effect = 0.0
    for unit, count in units[:1] if few else units:
        parts = [
            (sign, outer_sums(q[e], q[e], unit[e], count), outer_sums(q[e], y[e][:, [label]], unit[e], count))
            for sign, e in sides
        ]

        def statistic(weights: FloatArray, parts: Any = parts) -> FloatArray:
            total: FloatArray = sum(
                sign * solve_rates(np.tensordot(weights, gram, 1), np.tensordot(weights, cross, 1))[:, k, 0]
                for sign, gram, cross in parts
            )
            return total

        effect = float(statistic(np.ones((1, count)))[0])
        intervals.append(bootstrap_interval(statistic, count, random_state=random_state))
    low, high = max(intervals, key=lambda interval: interval[1] - interval[0])
    return GroupEffect(effect, low, high, each)
