"""What an audit is given besides the labels, checked before any long work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from crowdwise.audit.colluders import trusted_among
from crowdwise.audit.drift import checked_times
from crowdwise.audit.findings import Screen
from crowdwise.labels.attributes import Attribute, read_attributes
from crowdwise.labels.errors import quoted
from crowdwise.labels.truth import Truth, read_truth, truth_codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdwise.labels.model import CrowdLabels

__all__ = ["Known", "known_of", "skipped_attributes"]


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


def skipped_attributes(known: Known) -> list[Screen]:
    """A screen for each attribute that makes no groups, which says why."""
    every = [("task", each) for each in known.of_tasks] + [("worker", each) for each in known.of_workers]
    return [
        Screen(f"{role} attribute {quoted(each.name)}", skipped=each.skipped) for role, each in every if each.skipped
    ]
