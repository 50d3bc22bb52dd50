"""What an audit is given, checked before any long work: labels that are classes, and what is known besides them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.audit.colluders import trusted_among
from crowdwise.audit.drift import checked_times
from crowdwise.labels.attributes import Attribute, read_attributes
from crowdwise.labels.errors import InputError
from crowdwise.labels.truth import Truth, read_truth, truth_codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.model import CrowdLabels

__all__ = ["Known", "known_of", "refuse_numbers"]

MOST_STEPS = 10  # numbers that may be the steps of a scale, or codes of classes, however few the tasks
FEWEST_TASKS = 5  # for each further number, by which it may still be the code of a class


class Known(NamedTuple):
    """What is known besides the labels, read once."""

    truth: Truth | None
    of_tasks: tuple[Attribute, ...]
    of_workers: tuple[Attribute, ...]


def known_of(
    labels: CrowdLabels,
    truth: Any,
    task_attributes: Any,
    worker_attributes: Any,
    time: Any,
    trusted: Sequence[Any] | None,
) -> Known:
    """Read what is known besides the labels, and refuse what is not about them."""
    given = None if truth is None else read_truth(truth)
    if given is not None:
        truth_codes(given, labels)
    if time is not None:
        checked_times(time, labels)
    trusted_among(labels, trusted)
    return Known(
        given,
        read_attributes(task_attributes, labels.tasks, "task"),
        read_attributes(worker_attributes, labels.workers, "worker"),
    )


def refuse_numbers(labels: CrowdLabels) -> None:
    """Refuse labels that are measurements: numbers, of which there are nearly as many as tasks."""
    size = labels.n_classes
    if size <= MOST_STEPS or size * FEWEST_TASKS <= labels.n_tasks:
        return
    try:
        numbers = pc.cast(labels.classes, pa.float64())
    except pa.ArrowException:
        return
    ends = pc.min_max(numbers).as_py()
    raise InputError(
        f"These labels are numbers, not classes: {size:,} of them, from {ends['min']:g} to {ends['max']:g}, for "
        f"{labels.n_tasks:,} tasks. The audit asks who says the same class, and near is not the same. Put the numbers "
        "(and their truth) into a few bands first, such as low, middle and high; if they are codes of classes, put a "
        "letter before each."
    )
