"""How often each judge says what most people say, and how well people do that themselves.

The reference of a task is the class that most people gave, where it is one class. A judge's accuracy is the share of
such tasks on which the judge gives that class; its interval is Wilson's. Where people did not see all tasks with equal
chances, tasks count by their weights, and the interval by the number of equally weighted tasks that say as much,
(Σ w)² / Σ w² (Kish).

The ceiling is how people score by the same measure: each person's label against the class that most of the others gave.
A judge cannot be expected to agree with people better than people do; it can, where the people are noisy and the judge
follows their majority.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaincinv, stdtrit

from crowdwise.judges.vote_table import class_values
from crowdwise.metrics.calibration import wilson_interval
from crowdwise.metrics.krippendorff import krippendorff_alpha

if TYPE_CHECKING:
    from crowdwise.judges.vote_table import PanelVotes
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = [
    "Estimate",
    "HumanAgreement",
    "estimate_difference",
    "estimate_share",
    "lower_bound_of_share",
    "measure_human_agreement",
]

LEVEL = 0.9  # of all intervals


@dataclass(frozen=True)
class Estimate:
    """A number with a 90 % interval, and what it was counted on."""

    value: float
    low: float
    high: float
    n: int = 0

    def __str__(self) -> str:
        """The number and its interval, in percent."""
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"


NOTHING = Estimate(float("nan"), float("nan"), float("nan"))


def estimate_share(
    right: BoolArray, weight: FloatArray | None = None, level: float = LEVEL, *, worth: float = 1.0
) -> Estimate:
    """Share of what is right, with Wilson's interval; tasks count by their weights, each for `worth` of a task.

    >>> print(estimate_share(np.arange(100) < 80))
    80.0% (72.7% to 85.7%)
    """
    if not right.size:
        return NOTHING
    weight = np.ones(right.size) if weight is None else weight
    share = np.array([np.average(right, weights=weight)])
    low, high = wilson_interval(share, [worth * effective_number(weight)], level)
    return Estimate(float(share[0]), float(low[0]), float(high[0]), right.size)


def effective_number(weight: FloatArray) -> float:
    """Tasks of equal weight that say as much as these."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def lower_bound_of_share(
    right: BoolArray, weight: FloatArray | None = None, level: float = 0.95, *, worth: float = 1.0
) -> float:
    """Exact lower bound of a share (Clopper and Pearson 1934): it lies above the true share in at most 5 % of samples.

    >>> round(lower_bound_of_share(np.arange(100) < 95), 3)
    0.898
    """
    if not right.size:
        return float("nan")
    weight = np.ones(right.size) if weight is None else weight
    n = worth * effective_number(weight)
    k = float(np.average(right, weights=weight)) * n
    return float(betaincinv(k, n - k + 1, 1 - level)) if k > 1e-9 else 0.0


def estimate_difference(one: FloatArray, other: FloatArray, weight: FloatArray | None = None) -> Estimate:
    """Mean of one - other over the same tasks, with an interval from the paired differences."""
    if one.size < 2:
        return NOTHING
    weight = np.ones(one.size) if weight is None else weight
    gap = np.asarray(one, np.float64) - other
    mean = float(np.average(gap, weights=weight))
    n = effective_number(weight)
    spread = float(np.sqrt(np.average((gap - mean) ** 2, weights=weight) / max(n - 1, 1)))
    half = float(stdtrit(max(n - 1, 1), (1 + LEVEL) / 2)) * spread
    return Estimate(mean, mean - half, mean + half, one.size)


@dataclass(frozen=True, eq=False)
class HumanAgreement:
    """How people agree with each other.

    Attributes
    ----------
    ceiling
        Accuracy of a person's label against the class that most of the others gave.
    alpha
        Krippendorff's α: of numbers by their differences, of names by equality; NaN where no task has two people.
    n_people, n_tasks, n_labels
        People, tasks with a label, labels.
    n_undecided
        Tasks on which people tie; they have no reference.
    people, accuracy, labels
        Names, accuracy against the others, and labels that could be compared, of each person.
    """

    ceiling: Estimate
    alpha: float
    n_people: int
    n_tasks: int
    n_labels: int
    n_undecided: int
    people: tuple[str, ...]
    accuracy: FloatArray
    labels: IntArray


def measure_human_agreement(panel: PanelVotes) -> HumanAgreement | None:
    """How people agree with each other; None where there are none."""
    if panel.humans is None:
        return None
    humans, counts = panel.humans, panel.count_human_labels()
    right, told = _compare_with_others(humans, counts)
    person = humans.worker[told].astype(np.int64)
    n = np.bincount(person, minlength=humans.n_workers)
    with np.errstate(invalid="ignore"):
        accuracy = np.bincount(person, right[told].astype(np.float64), humans.n_workers) / np.where(n > 0, n, np.nan)
    several = counts.sum(axis=1) > 1
    values = class_values(panel.classes)
    alpha = float("nan")
    if several.any() and (counts[several].sum(axis=0) > 0).sum() > 1:
        alpha = (
            krippendorff_alpha(counts[several])
            if values is None
            else krippendorff_alpha(counts[several], level="interval", values=values)
        )
    labelled = counts.sum(axis=1) > 0
    return HumanAgreement(
        _clustered_share(right[told], humans.task[told]),
        alpha,
        int((np.bincount(humans.worker, minlength=humans.n_workers) > 0).sum()),
        int(labelled.sum()),
        humans.n_labels,
        int((labelled & (panel.find_reference() < 0)).sum()),
        tuple(str(name) for name in humans.workers.to_pylist()),
        accuracy,
        n,
    )


def _compare_with_others(humans: CrowdLabels, counts: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Whether each label is what most others gave, and whether most others gave one class."""
    others = counts[humans.task].copy()
    others[np.arange(humans.n_labels), humans.label] -= 1
    most = others.max(axis=1)
    told = ((others == most[:, None]).sum(axis=1) == 1) & (most > 0)
    return others.argmax(axis=1) == humans.label, told


def _clustered_share(right: BoolArray, task: IntArray) -> Estimate:
    """A share of labels, those of one task together, with an interval by the tasks."""
    if not right.size:
        return NOTHING
    names, place = np.unique(task, return_inverse=True)
    n = np.bincount(place).astype(np.float64)
    share = float(right.mean())
    if names.size < 2:
        return Estimate(share, 0.0, 1.0, right.size)
    residual = np.bincount(place, right - share)
    spread = float(np.sqrt(names.size / (names.size - 1) * (residual**2).sum()) / n.sum())
    half = float(stdtrit(names.size - 1, (1 + LEVEL) / 2)) * spread
    return Estimate(share, max(share - half, 0.0), min(share + half, 1.0), right.size)
