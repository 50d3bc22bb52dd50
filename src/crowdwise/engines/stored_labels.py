"""`CrowdLabels` that stay on the disk: estimators take them as any others, and passes run part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.sorting import group_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from crowdwise.engines.label_store import LabelStore
    from crowdwise.engines.protocol import Prepared
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["StoredLabels"]


class StoredLabels(CrowdLabels):
    """Labels in the parts of a store, and the passes that run over them.

    What methods by EM need is at hand without reading labels: sizes, names, and counts by worker, class and task.
    Whoever asks for the labels themselves (`task`, `worker`, `label`) has them all read into memory.

    Parameters
    ----------
    store
        Where the labels are.
    make_passes
        Passes over a store, on the engine that made it.
    """

    in_memory = False

    def __init__(self, store: LabelStore, make_passes: Callable[[LabelStore], Prepared]) -> None:
        held = {"store": store, "passes": make_passes(store), "workers": store.workers, "classes": store.classes}
        for name, value in {**held, "kind": "pyarrow"}.items():
            object.__setattr__(self, name, value)

    store: LabelStore
    passes: Prepared

    def __getattr__(self, name: str) -> Any:
        if name == "tasks":
            return self.store.tasks
        if name not in ("task", "worker", "label", "task_ptr"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        every = list(self.iterate_parts())
        columns = {
            "task": np.concatenate([each.task + np.int32(rows.start) for rows, each in every]),
            "worker": np.concatenate([each.worker for _, each in every]),
            "label": np.concatenate([each.label for _, each in every]),
        }
        columns["task_ptr"] = group_offsets(columns["task"], self.n_tasks)
        for column, values in columns.items():
            object.__setattr__(self, column, values)
        return columns[name]

    @classmethod
    def _sorted(cls, *given: Any) -> CrowdLabels:
        return CrowdLabels._sorted(*given)  # some of the labels are labels in memory

    @property
    def n_tasks(self) -> int:
        """Number of tasks; all have labels."""
        return self.store.n_tasks

    @property
    def n_labels(self) -> int:
        """Number of answers."""
        return self.store.n_labels

    @property
    def labels_per_task(self) -> IntArray:
        """Number of answers of each task."""
        return self.store.labels_per_task

    @property
    def labels_per_worker(self) -> IntArray:
        """Number of answers of each worker."""
        counts: IntArray = self.store.answers.sum(axis=1)
        return counts

    @property
    def class_shares(self) -> FloatArray:
        """Share of all answers that each class has."""
        shares: FloatArray = self.store.answers.sum(axis=0) / max(self.n_labels, 1)
        return shares

    def iterate_parts(self) -> Iterator[tuple[slice, CrowdLabels]]:
        """Each part of the tasks, with their labels in memory."""
        for part in self.store.parts:
            labels = self.store.read_labels(part)
            labels.__dict__["class_shares"] = self.class_shares  # what a task without a vote goes by
            yield self.store.rows_of(part), labels

    def empty_rows(self, n_states: int) -> FloatArray:
        """Rows (N, S) to fill, on the disk."""
        return self.store.allocate(n_states)

    def count_answers(self) -> FloatArray:
        """Number of labels of each worker, by label given (M, K)."""
        return self.store.answers.astype(np.float64)

    @property
    def folder(self) -> Path:
        """The folder of the store."""
        return self.store.folder
