"""Whether labels that are numbers are values (ages, ratings from 0 to 100) rather than the codes of classes.

Taken for classes, values give wrong answers without an error: 24 and 25 would be as different as 24 and 90. The
numbers alone do not tell which they are, but how workers disagree does. Two coefficients of agreement (Krippendorff
2011) are compared: the nominal one counts only equal numbers as agreement, the other one measures distances between
ranks. The codes of classes are arbitrary, so that disagreements are no nearer within a task than between tasks, and
the two are alike. Of values, workers rarely give the very same, but they give near ones: the second is much larger.

| rule | why |
|---|---|
| at most `MOST_STEPS` numbers are classes | digits, and the steps of a rating scale, which classes describe well |
| fractions are values | nobody numbers classes 0.5, 0.75, … |
| fewer than `FEWEST_TASKS` tasks for each number are values | a class would be met about that often at least |
| nominal agreement of `EXACT` or more is of classes | where most answers agree, the commonest is a good answer anyway |
| rank agreement above `STEEPER` × nominal + `MARGIN` is of values | see above; classes in a meaningful order, such as \
breeds next to each other, come near it only where workers hardly agree |

The thresholds were chosen on simulated crowds (as in `tests/labels/test_numeric_values.py`) and on the labels of real
sets of both kinds, whose truths were not used. Of sets with more than ten numbers that are classes there was but one.
The rule errs towards asking: a needless question costs an option, a missed one a wrong result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.labels.errors import NumericLabelsError
from crowdwise.labels.source_location import format_count

if TYPE_CHECKING:
    from crowdwise.labels.crowd_labels import CrowdLabels
    from crowdwise.labels.types import BoolArray, FloatArray, IntArray

__all__ = ["explain_numeric_values", "refuse_numeric_values"]

MOST_STEPS = 10
FEWEST_TASKS = 5
EXACT, STEEPER, MARGIN = 0.5, 1.5, 0.05
MOSTLY = 0.95  # share of the labels that must be numbers; the rest may be "don't know"
NUMBER = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?\s*$"
VALUES = (
    "Values are aggregated by `crowdwise aggregate --kind values`, in Python by crowdwise.kinds.read_values; for all "
    "else put them (and their truth) into a few bands first, such as low, middle and high"
)


class Agreement(NamedTuple):
    """Krippendorff's alpha of the same labels, by equality and by distance between ranks."""

    nominal: float
    ranks: float


def refuse_numeric_values(labels: CrowdLabels) -> None:
    """Raise an error if the labels look like values, which names both ways on."""
    found = explain_numeric_values(labels)
    if found:
        raise NumericLabelsError(
            f"{found} If they are classes all the same, say so with kind='labels' in read_labels (on the command line "
            f"--kind labels). {VALUES}.",
            [("They are classes all the same:", ("--kind", "labels"))],
        )


def explain_numeric_values(labels: CrowdLabels) -> str:
    """Say in a sentence that the labels look like values, and why; "" if they do not."""
    numbers = _numbers(labels.classes)
    numeric = np.isfinite(numbers)
    if int(numeric.sum()) <= MOST_STEPS or labels.class_shares[numeric].sum() < MOSTLY:
        return ""
    used = numeric & (labels.class_shares > 0)
    size = int(used.sum())
    if size <= MOST_STEPS:
        return ""
    why = _explain_why_numeric(labels, numbers, used, size)
    if not why:
        return ""
    low, high = numbers[used].min(), numbers[used].max()
    return (
        f"{size:,} distinct numbers among {format_count(labels.n_labels, 'label')}: these look like values, not "
        f"classes (from {low:g} to {high:g}; {why})."
    )


def _explain_why_numeric(labels: CrowdLabels, numbers: FloatArray, used: BoolArray, size: int) -> str:
    """Why the numbers look like values, in words; "" if they do not."""
    if (numbers[used] % 1 != 0).any():
        return "some are fractions"
    answered = int((labels.labels_per_task > 0).sum())
    if answered < FEWEST_TASKS * size:
        return f"there are only {format_count(answered, 'task')}"
    kept = used[labels.label]
    rank = np.empty(used.size, np.int64)
    rank[np.argsort(numbers)] = np.arange(used.size)
    agreement = measure_agreement(labels.task[kept], rank[labels.label[kept]])
    if agreement is None or agreement.nominal >= EXACT:
        return ""
    near = agreement.ranks > STEEPER * agreement.nominal + MARGIN
    return "workers give near numbers much more often than equal ones" if near else ""


def measure_agreement(task: IntArray, label: IntArray) -> Agreement | None:
    """Nominal and rank agreement of labels that are whole numbers from 0; None if no two can be compared.

    >>> measure_agreement(np.array([0, 0, 1, 1]), np.array([3, 3, 5, 5]))
    Agreement(nominal=1.0, ranks=1.0)
    """
    often = np.bincount(task)[task] > 1
    task, label = np.unique(task[often], return_inverse=True)[1].astype(np.int64), label[often].astype(np.int64)
    n, size = task.size, np.bincount(task)
    if n == 0 or (label == label[0]).all():
        return None
    totals = np.bincount(label)
    cells, times = np.unique(task * totals.size + label, return_counts=True)
    same = (times * (times - 1) / (size[cells // totals.size] - 1)).sum() / n
    by_chance = (totals * (totals - 1.0)).sum() / (n * (n - 1.0))
    ranks = (np.cumsum(totals) - (totals - 1) / 2)[label] - n / 2
    sums, squares = np.bincount(task, ranks), np.bincount(task, ranks**2)
    within = (2 * (size * squares - sums**2) / (size - 1)).sum() / n
    between = 2 * (n * (ranks**2).sum() - ranks.sum() ** 2) / (n * (n - 1.0))
    return Agreement(float(1 - (1 - same) / (1 - by_chance)), float(1 - within / between))


def _numbers(classes: pa.Array) -> FloatArray:
    """The classes as numbers (K,), NaN where a name is none."""
    if pa.types.is_integer(classes.type):
        whole: FloatArray = classes.to_numpy(zero_copy_only=False).astype(np.float64)
        return whole
    numeric = pc.if_else(pc.match_substring_regex(classes, NUMBER), pc.utf8_trim_whitespace(classes), None)
    unsigned = pc.replace_substring_regex(numeric, r"^\+", "")
    result: FloatArray = unsigned.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return result
