"""`LabelSets`: answers that are sets of classes, such as the tags of a picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.kinds.answer_table import open_table
from crowdwise.kinds.answers import TaskAnswers, code_task_answers, names_or_numbers
from crowdwise.kinds.multi_label.set_cells import read_sets, write_sets
from crowdwise.labels.errors import InputError
from crowdwise.labels.vocabulary import as_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from crowdwise.labels.types import BoolArray, Duplicates, TableKind

__all__ = ["LabelSets", "read_label_sets"]

NEEDS = (
    "Sets of labels need the columns task, worker and labels (names with | or ; between them, or lists), and a row for "
    "each answer."
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LabelSets(TaskAnswers):
    """Sets of classes that workers gave to tasks: one row for each answer, sorted by task. Immutable.

    Make one with `read_label_sets` or `LabelSets.from_codes`.

    Attributes
    ----------
    member : (n_answers, K)
        Whether each class is in the set; a set may be empty.
    classes : pyarrow array
        Names of the classes; one that nobody names may exist.

    Examples
    --------
    >>> read_label_sets({"task": ["a", "a", "b"], "worker": ["ann", "bob", "ann"], "labels": ["cat|dog", "dog", ""]})
    LabelSets: 3 sets by 2 workers on 2 tasks
    """

    kind: ClassVar[str] = "multi-label"
    noun: ClassVar[str] = "set"
    said: ClassVar[tuple[str, ...]] = ("member",)

    member: BoolArray
    classes: pa.Array

    @classmethod
    def from_codes(
        cls,
        task: Any,
        worker: Any,
        member: Any,
        *,
        tasks: Iterable[Any] | int,
        workers: Iterable[Any] | int,
        classes: Iterable[Any] | int,
        on_duplicate: Duplicates = "error",
        table_kind: TableKind = "pyarrow",
    ) -> LabelSets:
        """Sets from positions of tasks and workers (a number n stands for the names 0 … n-1) and a matrix (n, K)."""
        held, names = np.asarray(member), names_or_numbers(classes, "class")
        if held.dtype != np.bool_ or held.ndim != 2 or held.shape[1] != len(names):
            raise InputError(
                f"member has type {held.dtype} and shape {held.shape}; it must be a matrix of truth values with a "
                f"column for each of the {len(names)} classes."
            )
        columns = code_task_answers(task, worker, len(held), said="member", tasks=tasks, workers=workers)
        return cls(**columns, member=held, classes=names, table_kind=table_kind)._sorted(on_duplicate)

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.classes)

    def _said_columns(self) -> dict[str, Any]:
        return {"labels": write_sets(self.member, self.classes)}


def read_label_sets(
    source: Any,
    *,
    task: str | None = None,
    worker: str | None = None,
    labels: str | None = None,
    classes: Sequence[Any] | None = None,
    on_duplicate: Duplicates = "error",
) -> LabelSets:
    """Read sets of classes from a file or a table.

    A row is an answer: a set is a list, text with | or ; between the names, or a JSON list. An empty set (none of the
    classes) is an answer, and an empty cell is one. Where no cell holds more than one class, the rows of one worker
    about one task are one set.

    Parameters
    ----------
    source
        A path or a table, as for `read_labels`, or `LabelSets`, which come back as they are.
    task, worker, labels
        Column names, where they are not the usual ones.
    classes
        All classes, where some may be named by nobody.
    on_duplicate
        What to do with a second set of one worker for one task: "error", keep the "first" or the "last", or keep "all".
    """
    if isinstance(source, LabelSets):
        return source
    table = open_table(source, NEEDS, {"task": task, "worker": worker, "labels": labels})
    sets = read_sets(table, "labels", None if classes is None else as_vocabulary(classes, "class"))
    made = LabelSets(**table.encode_task_answers(), member=sets.member, classes=sets.classes)
    if sets.single and on_duplicate == "error":
        return _join_rows(made._sorted("all"))
    return made._sorted(on_duplicate, table.place)


def _join_rows(answers: LabelSets) -> LabelSets:
    """The same, with all rows of a worker about a task as one set."""
    keys = answers.task.astype(np.int64) * answers.n_workers + answers.worker
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if first.size == keys.size:
        return answers
    rank = np.argsort(np.argsort(first))[inverse]  # answers keep the order of their first rows
    member = np.zeros((first.size, answers.n_classes), np.bool_)
    np.logical_or.at(member, rank, answers.member)
    joined = answers._take(np.sort(first))
    return replace(joined, member=member)
