"""`CrowdLabels`, the one data model: who said what about which task, as sorted edges."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, get_args

import numpy as np
import pyarrow as pa

from crowdwise.labels.errors import InputError, is_one_of, listing, quote
from crowdwise.labels.held_out_split import HeldOutSplit
from crowdwise.labels.integer_codes import (
    as_mask,
    check_codes,
    duplicate_message,
    map_to_selected_names,
    smallest_int,
)
from crowdwise.labels.sorting import find_repeated_edges, group_by, group_offsets, sort_by_task
from crowdwise.labels.types import TableKind
from crowdwise.labels.vocabulary import as_vocabulary, positions, union

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from crowdwise.labels.describe import Description
    from crowdwise.labels.sklearn_rows import LabelRows
    from crowdwise.labels.types import BoolArray, Duplicates, FloatArray, IntArray, LabelKind

__all__ = ["CrowdLabels", "WorkerOrder"]

MOST_NAMES = (1 << 31) - 1  # positions are numbers of 32 bits

A = TypeVar("A", bound=np.ndarray[Any, Any])


class WorkerOrder(NamedTuple):
    """The worker-major order: worker w's edges are `edge[ptr[w]:ptr[w + 1]]`, by task."""

    edge: IntArray
    ptr: IntArray


@dataclass(frozen=True, eq=False, repr=False)
class CrowdLabels(HeldOutSplit):
    """Labels by many workers on many tasks: one edge for each answer, sorted by task. Immutable.

    Make one with `read_labels`, `CrowdLabels.from_arrays`, `from_dense` or `from_codes`.

    Attributes
    ----------
    task, worker : int32 arrays (n_labels,)
        Positions in `tasks` and `workers`, sorted by task.
    label : integer array (n_labels,)
        Positions in `classes`, in the smallest integer type that fits.
    task_ptr : int64 array (n_tasks + 1,)
        Task t's edges are `task_ptr[t]:task_ptr[t + 1]`.
    tasks, workers, classes : pyarrow arrays
        The user's own names. A task or worker without labels may exist, and so may a class never used.
    kind
        The kind of table the labels came in, and so the kind that results go out in.

    Examples
    --------
    >>> labels = CrowdLabels.from_arrays(
    ...     task=["a", "a", "b", "b"], worker=["ann", "bob", "ann", "bob"], label=["cat", "dog", "cat", "cat"]
    ... )
    >>> labels
    CrowdLabels: 4 labels by 2 workers on 2 tasks, 2 classes ('cat', 'dog')
    >>> labels.vote_counts().tolist()
    [[1, 1], [2, 0]]
    """

    task: IntArray
    worker: IntArray
    label: IntArray
    task_ptr: IntArray
    tasks: pa.Array
    workers: pa.Array
    classes: pa.Array
    kind: TableKind = field(default="pyarrow")
    in_memory: ClassVar[bool] = True

    # ---- making one -------------------------------------------------------------------------------------

    @classmethod
    def from_codes(
        cls,
        task: Any,
        worker: Any,
        label: Any,
        *,
        tasks: Iterable[Any] | int,
        workers: Iterable[Any] | int,
        classes: Iterable[Any] | int,
        on_duplicate: Duplicates = "error",
        kind: TableKind = "pyarrow",
        place: Callable[[int], str] | None = None,
    ) -> CrowdLabels:
        """Labels from positions in three vocabularies (a number n stands for the names 0 … n-1).

        Parameters
        ----------
        place
            Says in an error where a row came from (file and line); the row number otherwise.
        """
        vocabularies = [
            _count_names(names, what) if isinstance(names, int | np.integer) else as_vocabulary(names, what)
            for names, what in ((tasks, "task"), (workers, "worker"), (classes, "class"))
        ]
        columns = [
            check_codes(codes, len(names), what)
            for codes, names, what in zip((task, worker, label), vocabularies, ("task", "worker", "label"), strict=True)
        ]
        if len({column.size for column in columns}) > 1:
            sizes = ", ".join(str(column.size) for column in columns)
            raise InputError(f"task, worker and label must have the same length; they have {sizes}.")
        task, worker, label = columns
        return cls._sorted(task, worker, label, *_three(vocabularies), on_duplicate, kind, place)

    @classmethod
    def from_arrays(
        cls,
        task: Any,
        worker: Any,
        label: Any,
        *,
        classes: Iterable[Any] | None = None,
        on_duplicate: Duplicates = "error",
        kind: LabelKind | None = None,
    ) -> CrowdLabels:
        """Labels from three arrays of names, one entry for each answer.

        Parameters
        ----------
        task, worker, label
            Names, as lists, NumPy or Arrow arrays.
        classes
            All classes in their order; by default the sorted labels that occur.
        on_duplicate
            What to do with a second answer of one worker to one task: "error", keep the "first" or the
            "last", or keep "all" (each counts as one answer).
        kind
            "labels" if many different numbers are classes all the same; see `read_labels`.
        """
        from crowdwise.labels.read import Options, labels_from_table
        from crowdwise.labels.similar_names import warn_of_twins

        table = {"task": task, "worker": worker, "label": label}
        labels = labels_from_table(table, Options(classes=classes, on_duplicate=on_duplicate, kind=kind))
        warn_of_twins(labels, declared=classes is not None)
        return labels

    @classmethod
    def from_dense(
        cls,
        matrix: Any,
        *,
        missing: Any = None,
        tasks: Iterable[Any] | None = None,
        workers: Iterable[Any] | None = None,
        classes: Iterable[Any] | None = None,
        kind: LabelKind | None = None,
    ) -> CrowdLabels:
        """Labels from a matrix with a row for each task and a column for each worker.

        Parameters
        ----------
        missing
            The marker of "no answer". By default NaN and None, and -1 in a matrix of whole numbers, integers or
            floats; give NaN if -1 is a class. What a NumPy array masks is never an answer.
        kind
            "labels" if many different numbers are classes all the same; see `read_labels`.
        """
        from crowdwise.labels.read import Options
        from crowdwise.labels.similar_names import warn_of_twins
        from crowdwise.labels.wide_tables import labels_from_matrix

        told = Options(kind=kind).kind == "labels"
        labels = labels_from_matrix(
            matrix, missing=missing, tasks=tasks, workers=workers, classes=classes, as_classes=told
        )
        warn_of_twins(labels, declared=classes is not None)
        return labels

    @classmethod
    def _sorted(
        cls,
        task: IntArray,
        worker: IntArray,
        label: IntArray,
        tasks: pa.Array,
        workers: pa.Array,
        classes: pa.Array,
        on_duplicate: Duplicates,
        kind: TableKind,
        place: Callable[[int], str] | None,
    ) -> CrowdLabels:
        if not is_one_of(on_duplicate, ("error", "first", "last", "all")):
            raise InputError(f"on_duplicate is {quote(on_duplicate)}; it must be 'error', 'first', 'last' or 'all'.")
        given = task
        label = label.astype(smallest_int(len(classes)), copy=False)
        task, worker, label, offsets = sort_by_task(task, worker, label, len(tasks))
        if on_duplicate != "all":
            later, earlier = find_repeated_edges(offsets, worker, len(workers))
            if later.size:
                if on_duplicate == "error":
                    raise InputError(
                        duplicate_message(
                            tasks.take(pa.array(task[later[:5]])).to_pylist(),
                            workers.take(pa.array(worker[later[:5]])).to_pylist(),
                            group_by(given, offsets)[later],
                            place,
                        )
                    )
                keep = np.ones(task.size, np.bool_)
                keep[later if on_duplicate == "first" else earlier] = False
                task, worker, label = task[keep], worker[keep], label[keep]
                offsets = group_offsets(task, len(tasks))
        # Views, so that locking them leaves an array of the caller's as it was.
        task, worker, label, offsets = (column.view() for column in (task, worker, label, offsets))
        for column in (task, worker, label, offsets):
            column.flags.writeable = False
        return cls(task, worker, label, offsets, tasks, workers, classes, kind)

    # ---- sizes and views --------------------------------------------------------------------------------

    @property
    def n_tasks(self) -> int:
        """Number of tasks, labelled or not."""
        return len(self.tasks)

    @property
    def n_workers(self) -> int:
        """Number of workers, with labels or without."""
        return len(self.workers)

    @property
    def n_classes(self) -> int:
        """Number of classes, used or not."""
        return len(self.classes)

    @property
    def n_labels(self) -> int:
        """Number of answers (edges)."""
        return int(self.task.size)

    def __len__(self) -> int:
        return self.n_labels

    def __repr__(self) -> str:
        def count(number: int, noun: str) -> str:
            plural = "es" if noun.endswith("s") else "s"
            return f"{number:,} {noun}{'' if number == 1 else plural}"

        return (
            f"CrowdLabels: {count(self.n_labels, 'label')} by {count(self.n_workers, 'worker')} on "
            f"{count(self.n_tasks, 'task')}, {count(self.n_classes, 'class')} "
            f"({listing(self.classes.to_pylist())})"
        )

    @cached_property
    def by_worker(self) -> WorkerOrder:
        """The worker-major order of the edges, made on first use."""
        ptr = group_offsets(self.worker, self.n_workers)
        return WorkerOrder(_lock(group_by(self.worker, ptr)), _lock(ptr))

    @cached_property
    def labels_per_task(self) -> IntArray:
        """Number of answers of each task."""
        return _lock(np.diff(self.task_ptr))

    @cached_property
    def labels_per_worker(self) -> IntArray:
        """Number of answers of each worker."""
        return _lock(np.diff(group_offsets(self.worker, self.n_workers)))

    @cached_property
    def class_shares(self) -> FloatArray:
        """Share of all answers that each class has."""
        return _lock(np.diff(group_offsets(self.label, self.n_classes)) / max(self.n_labels, 1))

    def count_answers(self) -> FloatArray:
        """Number of labels of each worker, by label given (M, K)."""
        cells = self.worker.astype(np.int64) * self.n_classes + self.label
        counts = np.bincount(cells, minlength=self.n_workers * self.n_classes)
        return counts.reshape(self.n_workers, self.n_classes).astype(np.float64)

    def iterate_parts(self) -> Iterator[tuple[slice, CrowdLabels]]:
        """Parts of the tasks with their labels in memory: here all at once; several where labels are on the disk."""
        yield slice(0, self.n_tasks), self

    def empty_rows(self, n_states: int) -> FloatArray:
        """Rows (N, S) to fill, in memory or where the labels are."""
        return np.empty((self.n_tasks, n_states))

    def vote_counts(self) -> IntArray:
        """Answers for each class, tasks × classes."""
        cells = self.task.astype(np.int64) * self.n_classes + self.label
        counts = np.bincount(cells, minlength=self.n_tasks * self.n_classes)
        return counts.reshape(self.n_tasks, self.n_classes)

    def describe(self) -> Description:
        """Sizes, labels per task and worker, agreement, class shares, and what looks wrong."""
        from crowdwise.labels.describe import describe

        return describe(self)

    def to_table(self) -> Any:
        """Give the edges as a table (task, worker, label) of the kind that came in."""
        from crowdwise.labels.table_output import native_table

        columns = {
            "task": self.tasks.take(pa.array(self.task)),
            "worker": self.workers.take(pa.array(self.worker)),
            "label": self.classes.take(pa.array(self.label)),
        }
        return native_table(columns, self.kind)

    # ---- parts and sums ---------------------------------------------------------------------------------

    def select(self, *, tasks: Sequence[Any] | None = None, workers: Sequence[Any] | None = None) -> CrowdLabels:
        """Keep the labels of the named tasks and workers only, in the order of the names given.

        Named tasks and workers are kept even if no label is left to them; the classes stay.
        """
        edges = np.ones(self.n_labels, np.bool_)
        task_map, new_tasks = map_to_selected_names(tasks, self.tasks, "task")
        worker_map, new_workers = map_to_selected_names(workers, self.workers, "worker")
        task, worker = task_map[self.task], worker_map[self.worker]
        edges = (task >= 0) & (worker >= 0)
        return self._sorted(
            task[edges], worker[edges], self.label[edges], new_tasks, new_workers, self.classes,
            "all", self.kind, None,
        )  # fmt: skip

    def keep(self, edges: BoolArray) -> CrowdLabels:
        """Keep the labels where `edges` is true, with all names kept."""
        edges = as_mask(edges, self.n_labels, "labels")
        return self._sorted(
            self.task[edges], self.worker[edges], self.label[edges], self.tasks, self.workers, self.classes,
            "all", self.kind, None,
        )  # fmt: skip

    def keep_tasks(self, tasks: BoolArray) -> CrowdLabels:
        """Keep the tasks where `tasks` is true, with their labels; all workers and classes stay."""
        tasks = as_mask(tasks, self.n_tasks, "tasks")
        edges = tasks[self.task]
        number = np.cumsum(tasks) - 1
        return self._sorted(
            number[self.task[edges]].astype(self.task.dtype), self.worker[edges], self.label[edges],
            self.tasks.filter(pa.array(tasks)), self.workers, self.classes, "all", self.kind, None,
        )  # fmt: skip

    def as_rows(self, tasks: Iterable[Any]) -> LabelRows:
        """Labels as scikit-learn's `y`, which `GridSearchCV` and the like split together with the features.

        Parameters
        ----------
        tasks
            Names of the rows of the features, in their order: `range(len(X))` where tasks are called by row number.
            Rows without labels are allowed.
        """
        from crowdwise.labels.sklearn_rows import as_rows

        return as_rows(self, tasks)

    @classmethod
    def concat(cls, parts: Iterable[CrowdLabels], *, on_duplicate: Duplicates = "error") -> CrowdLabels:
        """Put several sets of labels together; vocabularies are joined by name, in order of appearance."""
        every = list(parts) if np.iterable(parts) else [parts]
        if not every:
            raise InputError("concat was given nothing. Give it at least one CrowdLabels.")
        if strange := [part for part in every if not isinstance(part, CrowdLabels)]:
            raise InputError(f"concat was given {listing(strange)}. Give it a list of CrowdLabels.")
        vocabularies = [union(getattr(part, name) for part in every) for name in ("tasks", "workers", "classes")]
        columns = [
            np.concatenate(
                [positions(getattr(part, names), vocabulary)[getattr(part, codes)].astype(np.int32) for part in every]
            )
            for names, codes, vocabulary in zip(
                ("tasks", "workers", "classes"), ("task", "worker", "label"), vocabularies, strict=True
            )
        ]
        task, worker, label = columns
        return cls._sorted(task, worker, label, *_three(vocabularies), on_duplicate, every[0].kind, None)

    def with_kind(self, kind: TableKind) -> CrowdLabels:
        """Keep the labels, with results going out as another kind of table."""
        if not is_one_of(kind, get_args(TableKind)):
            raise InputError(f"kind is {quote(kind)}; it must be one of {', '.join(map(repr, get_args(TableKind)))}.")
        return CrowdLabels(
            self.task, self.worker, self.label, self.task_ptr, self.tasks, self.workers, self.classes, kind
        )


def _count_names(number: Any, what: str) -> pa.Array:
    """The names 0 … n-1."""
    if isinstance(number, bool) or not 0 <= number <= MOST_NAMES:
        called = {"class": "classes"}.get(what, f"{what}s")
        raise InputError(f"{called} is {quote(number)}; it must be names, or their number, at most {MOST_NAMES:,}.")
    return pa.array(np.arange(number))


def _three(vocabularies: list[pa.Array]) -> tuple[pa.Array, pa.Array, pa.Array]:
    tasks, workers, classes = vocabularies
    return tasks, workers, classes


def _lock(array: A) -> A:
    array.flags.writeable = False
    return array
