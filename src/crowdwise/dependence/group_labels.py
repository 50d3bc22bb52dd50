"""Labels by group of workers: each group that answered a task has one latent class there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.dependence.groups import cluster_workers, find_groups
from crowdwise.fitting.content_order import order_by_content
from crowdwise.fitting.parameter_checks import check_count, check_random_state
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.vocabulary import as_vocabulary, positions

if TYPE_CHECKING:
    from crowdwise.labels.types import IntArray

__all__ = ["GroupedLabels", "resolve_groups", "split_by_group"]

LEVEL = 0.05  # at which groups are found


@dataclass(frozen=True)
class GroupedLabels:
    """The labels of workers who are alone, those of groups, and where the latter belong.

    Attributes
    ----------
    alone : CrowdLabels
        Labels of the workers who are in no group, of all tasks and workers.
    joint : CrowdLabels
        Labels of the others; its tasks are blocks: pairs of a group and a task that it answered, sorted by group.
    task : (P,)
        Task of each block.
    ptr : (J + 1,)
        Blocks of each group.
    """

    alone: CrowdLabels
    joint: CrowdLabels
    task: IntArray
    ptr: IntArray

    def labels_of_group(self, group: int, members: IntArray) -> CrowdLabels:
        """What the members of a group (in order) said, by themselves: its tasks are the blocks of the group."""
        start, end = self.ptr[group], self.ptr[group + 1]
        own = (self.joint.task >= start) & (self.joint.task < end)
        return CrowdLabels.from_codes(
            self.joint.task[own] - start,
            np.searchsorted(members, self.joint.worker[own]),
            self.joint.label[own],
            tasks=int(end - start),
            workers=members.size,
            classes=self.joint.classes,
            on_duplicate="all",
        )


def split_by_group(labels: CrowdLabels, groups: IntArray) -> GroupedLabels:
    """Labels (N tasks, M workers) apart by group (M,), -1 for alone."""
    n_tasks, group = max(labels.n_tasks, 1), groups[labels.worker].astype(np.int64)
    together = group >= 0
    found, block = np.unique(group[together] * n_tasks + labels.task[together], return_inverse=True)
    joint = CrowdLabels.from_codes(
        block,
        labels.worker[together],
        labels.label[together],
        tasks=found.size,
        workers=labels.n_workers,
        classes=labels.classes,
        on_duplicate="all",
    )
    ptr = np.searchsorted(found // n_tasks, np.arange(groups.max(initial=-1) + 2))
    return GroupedLabels(labels.keep(~together), joint, found % n_tasks, ptr)


def resolve_groups(given: Any, labels: CrowdLabels, random_state: int) -> IntArray:
    """Group (M,) of each worker, counted from 0, and -1 for those who are alone.

    Parameters
    ----------
    given
        "found", a number of groups, a mapping from worker to group, or a group for each worker.
    """
    check_random_state(random_state)
    if isinstance(given, str):
        if given != "found":
            raise InputError(
                f"groups is {quote(given)}; it must be 'found', a number of groups, or a mapping from worker to group."
            )
        order = order_by_content(labels)
        dependence = find_groups(order.arrange(labels), level=LEVEL, random_state=random_state)
        alone: IntArray = np.full(labels.n_workers, -1)
        return alone if dependence is None else order.restore_workers(dependence.groups, alone)
    if isinstance(given, Integral):
        check_count("groups", given)
        order = order_by_content(labels)
        groups = cluster_workers(order.arrange(labels), int(given), random_state=random_state)
        return order.restore_workers(groups, np.full(labels.n_workers, -1))
    if isinstance(given, Mapping):
        places = positions(as_vocabulary(list(given), "worker"), labels.workers)
        strange = [name for name, place in zip(given, places, strict=True) if place < 0]
        if strange:
            raise InputError(f"groups names workers that the labels do not have: {listing(strange)}.")
        names: list[Any] = [None] * labels.n_workers
        for place, name in zip(places, given.values(), strict=True):
            names[place] = name
    else:
        names = list(np.asarray(given, object).ravel())
        if len(names) != labels.n_workers:
            raise InputError(
                f"groups has {len(names)} entries; it must have one for each of the {labels.n_workers} workers, None "
                "or -1 for those who are in no group."
            )
    return _number_groups(names)


def _number_groups(names: list[Any]) -> IntArray:
    """Groups of at least two workers, in order of appearance; None and -1 are nobody's group."""
    members: dict[Any, list[int]] = {}
    for place, name in enumerate(names):
        if name is not None and name != -1:
            members.setdefault(name, []).append(place)
    groups = np.full(len(names), -1)
    for number, places in enumerate(several for several in members.values() if len(several) > 1):
        groups[places] = number
    return groups
