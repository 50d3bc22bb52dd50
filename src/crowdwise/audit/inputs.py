"""What an audit is given besides the labels, checked before any long work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from crowdwise.audit.colluders import mark_trusted
from crowdwise.audit.drift import check_times
from crowdwise.audit.finding_types import Screen
from crowdwise.labels.attributes import Attribute, read_attributes
from crowdwise.labels.errors import listing, quote
from crowdwise.labels.source_location import format_count
from crowdwise.labels.truth import Truth, read_truth, truth_codes
from crowdwise.labels.vocabulary import positions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.crowd_labels import CrowdLabels

__all__ = ["KnownInputs", "read_known_inputs", "screens_of_skipped_inputs"]


class KnownInputs(NamedTuple):
    """What is known besides the labels, read once."""

    truth: Truth | None
    of_tasks: tuple[Attribute, ...]
    of_workers: tuple[Attribute, ...]
    left_out: str = ""


def read_known_inputs(
    labels: CrowdLabels,
    truth: Any,
    task_attributes: Any,
    worker_attributes: Any,
    time: Any,
    trusted: Sequence[Any] | None,
) -> KnownInputs:
    """Read what is known besides the labels, and refuse what is not about them."""
    given, left_out = (None, "") if truth is None else usable_truth(read_truth(truth), labels)
    if time is not None:
        check_times(time, labels)
    mark_trusted(labels, trusted)
    return KnownInputs(
        given,
        read_attributes(task_attributes, labels.tasks, "task"),
        read_attributes(worker_attributes, labels.workers, "worker"),
        left_out,
    )


def usable_truth(truth: Truth, labels: CrowdLabels) -> tuple[Truth, str]:
    """The truths of classes that somebody said, and a sentence about the others, of which no label can speak."""
    said = positions(truth.labels, labels.classes) >= 0
    unsaid = ~said & (positions(truth.tasks, labels.tasks) >= 0)
    if said.any() and unsaid.any():
        names = truth.labels.filter(pa.array(unsaid)).unique().to_pylist()
        truth = Truth(truth.tasks.filter(pa.array(~unsaid)), truth.labels.filter(pa.array(~unsaid)))
        left_out = (
            f"{format_count(int(unsaid.sum()), 'truth')} left out: of a class that nobody said, {listing(names)}."
        )
    else:
        left_out = ""
    truth_codes(truth, labels)  # refuses what is not about the labels
    return truth, left_out


def screens_of_skipped_inputs(known: KnownInputs) -> list[Screen]:
    """A screen for each attribute that makes no groups, and one for truths that cannot be used, which say why."""
    left_out = [Screen("truth", skipped=known.left_out)] if known.left_out else []
    every = [("task", each) for each in known.of_tasks] + [("worker", each) for each in known.of_workers]
    return left_out + [
        Screen(f"{role} attribute {quote(each.name)}", skipped=each.skipped) for role, each in every if each.skipped
    ]
