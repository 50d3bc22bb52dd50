"""`Grades`: answers that are classes with an order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.kinds.answer_table import open_task_table
from crowdwise.kinds.answers import TaskAnswers, code_column, names_or_numbers
from crowdwise.kinds.reader_decorator import reader_of
from crowdwise.labels.crowd_labels import CrowdLabels
from crowdwise.labels.errors import InputError, listing, quote
from crowdwise.labels.similar_names import warn_of_similar_names
from crowdwise.labels.vocabulary import as_text, as_vocabulary, positions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Unpack

    from crowdwise.kinds.answer_table import AnswerTable, TaskOptions
    from crowdwise.labels.types import FloatArray, IntArray

__all__ = ["Grades", "encode_grades", "order_grades", "read_grades"]

NEEDS = "Grades need the columns task, worker and grade, and a row for each answer."
MOST_CLASSES = 100


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Grades(TaskAnswers, kind="ordinal", noun="grade", said=("grade",)):
    """Grades that workers gave to tasks: one row for each answer, sorted by task. Immutable.

    Make one with `read_grades` or `Grades.from_codes`, from positions (n,) among `classes`.

    Attributes
    ----------
    grade : (n_answers,)
        Positions in `classes`.
    classes : pyarrow array
        Names of the classes, the lowest first; one that nobody names may exist.

    Examples
    --------
    >>> read_grades({"task": ["a", "a", "b"], "worker": ["ann", "bob", "ann"], "grade": [3, 5, 1]})
    Grades: 3 grades by 2 workers on 2 tasks
    """

    grade: IntArray
    classes: pa.Array

    @classmethod
    def _code_said(cls, said: Any, *, classes: Iterable[Any] | int) -> dict[str, Any]:
        names = names_or_numbers(classes, "class")
        grade = code_column(said, names, "grade")
        check_classes(names)
        return {"grade": grade, "classes": names}

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.classes)

    def to_labels(self, threshold: int | None = None) -> CrowdLabels:
        """The same as labels without an order; with a threshold, whether each grade is at least that class."""
        label = self.grade if threshold is None else (self.grade >= threshold).astype(np.int64)
        return CrowdLabels.from_codes(
            self.task, self.worker, label, tasks=self.tasks, workers=self.workers,
            classes=self.classes if threshold is None else [0, 1], on_duplicate="all",
        )  # fmt: skip

    def _said_columns(self) -> dict[str, Any]:
        return {"grade": self.classes.take(pa.array(self.grade))}


def check_classes(classes: pa.Array) -> None:
    """Refuse scales of one grade, and those that are numbers rather than grades."""
    if len(classes) < 2:
        raise InputError("All grades are the same class: there is nothing to choose from. Name the scale as classes.")
    if len(classes) > MOST_CLASSES:
        raise InputError(
            f"There are {len(classes):,} different grades, more than {MOST_CLASSES}. Read them as values, or bin them."
        )


def grade_numbers(classes: pa.Array) -> FloatArray:
    """What the classes count in an average: their names if those are numbers, 0 … K-1 if not."""
    if pa.types.is_integer(classes.type) or pa.types.is_floating(classes.type):
        return np.asarray(classes.to_numpy(zero_copy_only=False), np.float64)
    try:
        found = np.array([float(name) for name in classes.to_pylist()])
    except ValueError:
        return np.arange(len(classes), dtype=np.float64)
    return found if np.isfinite(found).all() and (np.diff(found) > 0).all() else np.arange(len(classes), dtype=float)


def order_classes(names: pa.Array) -> pa.Array:
    """The names in the order of their numbers; names that are no numbers have no order that could be guessed."""
    try:
        numbers = np.array([float(name) for name in names.to_pylist()])
    except ValueError:
        shown = listing(names.slice(0, 5).to_pylist())
        raise InputError(
            f"Grades that are words ({shown}) need their order. Give it as classes, the lowest first "
            "(on the command line --classes)."
        ) from None
    order = np.argsort(numbers, kind="stable")
    # A comparison with what is not a number is false.
    if not np.isfinite(numbers).all() or not (np.diff(numbers[order]) > 0).all():
        again = np.append(np.diff(numbers[order]) == 0, False)
        wrong = ~np.isfinite(numbers[order]) | again | np.roll(again, 1)
        shown = listing(names.take(pa.array(order[wrong][:5])).to_pylist())
        raise InputError(
            f"Some grades are the same number written in several ways, or no finite number ({shown}). Write each grade "
            "in one way, or give all of them in order as classes (on the command line --classes)."
        )
    return names.take(pa.array(order))


def encode_grades(table: AnswerTable, classes: pa.Array | None) -> tuple[IntArray, pa.Array]:
    """Positions of the grades of a table among classes, given or found; a grade that is none of them is refused."""
    encoded = table.encode("grade")
    if classes is None:
        classes = encoded.names if encoded.ordered else order_classes(encoded.names)
    there = positions(encoded.names, classes)
    if (there < 0).any() and pa.types.is_string(classes.type) != pa.types.is_string(encoded.names.type):
        text = positions(encoded.names.cast(pa.string()), classes.cast(pa.string()))
        there = np.where(there < 0, text, there)
    if (there < 0).any():
        strange = [name for name, place in zip(encoded.names.to_pylist(), there, strict=True) if place < 0]
        raise InputError(
            f"Column {quote(table.names['grade'])} holds {listing(strange[:5])}, which is none of the classes "
            f"{listing(classes.to_pylist())}. Name all classes, or remove those rows."
        )
    return there[encoded.codes].astype(np.int32), classes


def order_grades(grades: Any, classes: pa.Array) -> IntArray:
    """Positions of grades, given by name, among the classes; a grade that is none of them is refused."""
    given = as_text(pa.array(grades if isinstance(grades, list) else np.asarray(grades)))
    there = positions(given, as_text(classes))
    if (there < 0).any():
        strange = list(dict.fromkeys(given.take(pa.array(np.flatnonzero(there < 0))).to_pylist()))
        raise InputError(f"There is no class {listing(strange[:5])}. There are {listing(classes.to_pylist())}.")
    return there


@reader_of(Grades)
def read_grades(
    source: Any, *, grade: str | None = None, classes: Sequence[Any] | None = None, **options: Unpack[TaskOptions]
) -> Grades:
    """Read grades from a file or a table with a row for each answer.

    Parameters
    ----------
    grade
        Column name, where it is not the usual one.
    classes
        All grades, the lowest first. Grades that are numbers have their own order.
    task, worker, on_duplicate
        As for `read_labels`.
    """
    table = open_task_table(source, NEEDS, options, {"grade": grade})
    tasks = table.encode_task_answers()
    codes, names = encode_grades(table, None if classes is None else as_vocabulary(classes, "class"))
    check_classes(names)
    if classes is None:
        warn_of_similar_names({"Classes": names})
    columns = tasks | {"grade": codes, "classes": names}
    return Grades._from_columns(columns, options.get("on_duplicate", "error"), table.place)
