"""`LabelSets`: answers that are sets of classes, such as the tags of a picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.answer_table import open_task_table
from crowdwise.kinds.answers import TaskAnswers, names_or_numbers
from crowdwise.kinds.multi_label.set_cells import read_sets, write_sets
from crowdwise.kinds.reader_decorator import reader_of
from crowdwise.labels.errors import InputError
from crowdwise.labels.vocabulary import as_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Unpack

    import pyarrow as pa

    from crowdwise.kinds.answer_table import TaskOptions
    from crowdwise.labels.types import BoolArray

__all__ = ["LabelSets", "read_label_sets"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LabelSets(TaskAnswers, kind="multi-label", noun="set", said=("member",)):
    """Sets of classes that workers gave to tasks: one row for each answer, sorted by task. Immutable.

    Make one with `read_label_sets` or `LabelSets.from_codes`, from a matrix (n, K) that says which `classes` are in.

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

    member: BoolArray
    classes: pa.Array

    @classmethod
    def _code_said(cls, said: Any, *, classes: Iterable[Any] | int) -> dict[str, Any]:
        held, names = np.asarray(said), names_or_numbers(classes, "class")
        if held.dtype != np.bool_ or held.ndim != 2 or held.shape[1] != len(names):
            raise InputError(
                f"member has type {held.dtype} and shape {held.shape}; it must be a matrix of truth values with a "
                f"column for each of the {len(names)} classes."
            )
        return {"member": held, "classes": names}

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.classes)

    def _said_columns(self) -> dict[str, Any]:
        return {"labels": write_sets(self.member, self.classes)}


@reader_of(LabelSets)
def read_label_sets(
    source: Any, *, labels: str | None = None, classes: Sequence[Any] | None = None, **options: Unpack[TaskOptions]
) -> LabelSets:
    """Read sets of classes from a file or a table.

    A row is an answer: a set is a list, text with | or ; between the names, or a JSON list. An empty set (none of the
    classes) is an answer, and an empty cell is one. Where no cell holds more than one class, the rows of one worker
    about one task are one set.

    Parameters
    ----------
    labels
        Column name, where it is not the usual one.
    classes
        All classes, where some may be named by nobody.
    task, worker, on_duplicate
        As for `read_labels`.
    """
    needs = (
        "Sets of labels need the columns task, worker and labels (names with | or ; between them, or lists), and a row "
        "for each answer."
    )
    table = open_task_table(source, needs, options, {"labels": labels})
    sets = read_sets(table, "labels", None if classes is None else as_vocabulary(classes, "class"))
    made = LabelSets(**table.encode_task_answers(), member=sets.member, classes=sets.classes)
    on_duplicate = options.get("on_duplicate", "error")
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
