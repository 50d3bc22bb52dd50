"""Labels as scikit-learn's `y`: one entry for each row of the features, to be split with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, listing
from crowdwise.labels.vocabulary import as_vocabulary, positions

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LabelRows", "as_rows"]


@dataclass(frozen=True, eq=False, repr=False)
class LabelRows:
    """Labels whose task t is row t of some features. `rows[chosen]` belongs to `X[chosen]`; names of tasks are gone.

    Make one with `CrowdLabels.as_rows`.

    Attributes
    ----------
    labels : CrowdLabels
        The labels, with tasks called 0, 1, 2, … as the rows are. All workers and classes stay when rows are chosen.
    """

    labels: CrowdLabels

    @property
    def shape(self) -> tuple[int]:
        """The number of rows: scikit-learn chooses from what has a shape all at once."""
        return (self.labels.n_tasks,)

    def __len__(self) -> int:
        return self.labels.n_tasks

    def __repr__(self) -> str:
        return f"LabelRows: {len(self):,} rows with {self.labels.n_labels:,} labels"

    def __getitem__(self, chosen: Any) -> LabelRows:
        """The rows at these positions, in this order and as often as they are named; a slice or a mask will do."""
        key = chosen[0] if isinstance(chosen, tuple) and chosen[1:] == (...,) else chosen  # scikit-learn's y[rows, ...]
        labels, rows = self.labels, np.atleast_1d(np.arange(len(self))[key])
        counts = labels.labels_per_task[rows]
        first = np.cumsum(counts) - counts
        edge = np.arange(counts.sum()) + np.repeat(labels.task_ptr[rows] - first, counts)
        return LabelRows(
            CrowdLabels.from_codes(
                np.repeat(np.arange(rows.size), counts),
                labels.worker[edge],
                labels.label[edge],
                tasks=rows.size,
                workers=labels.workers,
                classes=labels.classes,
                on_duplicate="all",
                kind=labels.kind,
            )
        )


def as_rows(labels: CrowdLabels, tasks: Iterable[Any]) -> LabelRows:
    """`CrowdLabels.as_rows`."""
    if isinstance(tasks, str | set | frozenset):
        raise InputError(
            "tasks has no order of rows. Give a list: the name of each row of the features, in their order."
        )
    names = as_vocabulary(tasks, "task")
    row = positions(labels.tasks, names)
    strangers = [labels.tasks[int(task)].as_py() for task in np.flatnonzero(row < 0)]
    if strangers:
        raise InputError(
            f"{len(strangers):,} of {labels.n_tasks:,} tasks are not among the rows: {listing(strangers)}. Name all of "
            "them in tasks, or keep only the labels of tasks that have a row (select)."
        )
    return LabelRows(
        CrowdLabels.from_codes(
            row[labels.task],
            labels.worker,
            labels.label,
            tasks=len(names),
            workers=labels.workers,
            classes=labels.classes,
            on_duplicate="all",
            kind=labels.kind,
        )
    )
