"""Answers that are sets of marks: boxes, points and spans, several in one answer, or none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.kinds.answer_table import AnswerTable, open_columns, open_table
from crowdwise.kinds.answers import TaskAnswers, as_numbers, code_column, names_or_numbers
from crowdwise.labels.columns import candidates
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.source_location import format_count
from crowdwise.labels.table_output import native_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from crowdwise.labels.types import BoolArray, Duplicates, FloatArray, IntArray, TableKind

__all__ = ["ONE_CLASS", "Marks", "open_marks", "open_true_marks", "read_marks"]

ONE_CLASS = "object"  # of marks without labels


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Marks(TaskAnswers):
    """Base of kinds whose answers are sets of marks: one row for each answer of a worker to a task. Immutable.

    Attributes
    ----------
    mark_ptr : (n_answers + 1,)
        Answer i's marks are the rows `mark_ptr[i]:mark_ptr[i + 1]` of `place` and `label`.
    place : (n_marks, D)
        Where the marks are.
    label : (n_marks,)
        Positions in `classes`.
    classes : pyarrow array
        Names of the labels; one class, "object", where marks have none.
    """

    said: ClassVar[tuple[str, ...]] = ()
    coordinates: ClassVar[tuple[str, ...]]
    whole_numbers: ClassVar[bool] = False

    mark_ptr: IntArray
    place: FloatArray
    label: IntArray
    classes: pa.Array

    @classmethod
    def from_codes(
        cls,
        task: Any,
        worker: Any,
        place: Any,
        *,
        tasks: Iterable[Any] | int,
        workers: Iterable[Any] | int,
        label: Any = None,
        classes: Iterable[Any] | int | None = None,
        on_duplicate: Duplicates = "error",
        table_kind: TableKind = "pyarrow",
    ) -> Self:
        """Marks from positions of tasks and workers (a number n stands for the names 0 … n-1), a row for each mark.

        Parameters
        ----------
        place
            (n, D). A row of NaN says that the worker saw the task and marked nothing.
        label, classes
            Positions of labels and their names, where marks have labels.
        """
        places = as_numbers(place, "place")
        if places.ndim != 2 or places.shape[1] != len(cls.coordinates):
            raise InputError(f"place has the shape {places.shape}; it needs a column for {', '.join(cls.coordinates)}.")
        names = {"task": names_or_numbers(tasks, "task"), "worker": names_or_numbers(workers, "worker")}
        kinds = pa.array([ONE_CLASS]) if classes is None or label is None else names_or_numbers(classes, "label")
        codes = {
            "task": code_column(task, names["task"], "task"),
            "worker": code_column(worker, names["worker"], "worker"),
            "label": code_column(np.zeros(len(places), np.int32) if label is None else label, kinds, "label"),
        }
        if {each.size for each in codes.values()} != {len(places)}:
            raise InputError("task, worker, place and label must have the same length.")
        cls._check_places(places, _complete(places), lambda rows: f"rows {rows[:5].tolist()}")
        made: Self = _gather(
            cls,
            codes,
            places,
            on_duplicate,
            None,
            tasks=names["task"],
            workers=names["worker"],
            classes=kinds,
            table_kind=table_kind,
        )
        return made

    @property
    def n_marks(self) -> int:
        """Number of marks."""
        return len(self.place)

    @property
    def labelled(self) -> bool:
        """Whether marks have labels."""
        return bool(self.classes.to_pylist() != [ONE_CLASS])

    @cached_property
    def answer(self) -> IntArray:
        """The answer that each mark is in (n_marks,)."""
        found: IntArray = np.repeat(np.arange(self.n_answers), np.diff(self.mark_ptr))
        return found

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}: {format_count(self.n_marks, self.noun, self.kind)} in "
            f"{format_count(self.n_answers, 'answer')} by {format_count(self.n_workers, 'worker')} on "
            f"{format_count(self.n_tasks, 'task')}"
        )

    def to_table(self) -> Any:
        """Give a row for each mark, and one without coordinates for an answer without marks."""
        counts = np.diff(self.mark_ptr)
        answer = np.repeat(np.arange(self.n_answers), np.maximum(counts, 1))
        empty = counts[answer] == 0
        source = np.zeros(answer.size, np.int64)
        source[~empty] = np.arange(self.n_marks)
        columns: dict[str, Any] = {
            "task": self.tasks.take(pa.array(self.task[answer])),
            "worker": self.workers.take(pa.array(self.worker[answer])),
        }
        kind = np.int64 if self.whole_numbers else np.float64
        for name, values in zip(self.coordinates, self.place.T, strict=True):
            shown = values[source] if self.n_marks else np.zeros(answer.size)
            columns[name] = pa.array(shown.astype(kind), mask=empty)
        if self.labelled:
            codes = self.label[source] if self.n_marks else np.zeros(answer.size, np.int64)
            columns["label"] = self.classes.take(pa.array(codes, mask=empty))
        return native_table(columns, self.table_kind)

    @classmethod
    def _check_places(cls, place: FloatArray, marked: BoolArray, show: Callable[[IntArray], str]) -> None:
        """Refuse marks that cannot be; `show` names rows."""
        wrong = np.flatnonzero(~marked & ~np.isnan(place).all(axis=1))
        if wrong.size:
            raise InputError(
                f"Some {cls.noun} coordinates are missing or not finite ({show(wrong)}). Give all of "
                f"{', '.join(cls.coordinates)}, or none of them for a worker who marked nothing."
            )

    def equality_columns(self) -> tuple[IntArray, IntArray]:
        """The task, and a number for each different set of marks; those of empty answers differ from each other."""
        said: dict[bytes, int] = {}
        codes = []
        for answer in range(self.n_answers):
            marks = slice(self.mark_ptr[answer], self.mark_ptr[answer + 1])
            drawn = self.place[marks].tobytes() + self.label[marks].tobytes()
            codes.append(said.setdefault(drawn or str(answer).encode(), len(said)))
        return self.task, np.array(codes, np.int64)

    def _take(self, rows: IntArray) -> Self:
        counts = np.diff(self.mark_ptr)[rows]
        ends = np.cumsum(counts)
        first = np.repeat(self.mark_ptr[:-1][rows] - (ends - counts), counts)
        marks = first + np.arange(int(ends[-1]) if ends.size else 0)
        return replace(
            self,
            task=self.task[rows],
            worker=self.worker[rows],
            mark_ptr=np.append(0, ends),
            place=self.place[marks],
            label=self.label[marks],
        )


def open_marks(
    source: Any, needs: str, forms: Sequence[tuple[str, ...]], coordinates: Sequence[str] | None, **named: str | None
) -> tuple[AnswerTable, tuple[str, ...]]:
    """Open a table of marks; also say which of several sets of coordinate columns it has."""
    columns = open_columns(source, needs)
    form = next((each for each in forms if all(candidates(role, columns.names) for role in each)), forms[0])
    given: dict[str, str | None] = {"task": named["task"], "worker": named["worker"]}
    if coordinates is not None:
        form = forms[0]
        if len(coordinates) != len(form):
            raise InputError(f"coordinates names {len(coordinates)} columns; there must be {len(form)}.")
        given |= dict(zip(form, coordinates, strict=True))
    else:
        given |= dict.fromkeys(form)
    return open_table(columns, needs, given, {"class": named["label"]}), form


def read_marks(cls: type[Any], table: AnswerTable, place: FloatArray, on_duplicate: Duplicates) -> Any:
    """Marks of a kind from an opened table and the places (rows, D) of its rows, NaN where nothing was marked."""
    marked = _complete(place)
    cls._check_places(place, marked, lambda rows: table.place.name_rows(rows.tolist()))
    tasks, workers = table.encode("task"), table.encode("worker")
    codes = {"task": tasks.codes.astype(np.int32), "worker": workers.codes.astype(np.int32)}
    classes = pa.array([ONE_CLASS])
    codes["label"] = np.zeros(len(place), np.int32)
    labels = _encode_labels(table, marked)
    if labels is not None:
        classes, codes["label"] = labels
    return _gather(
        cls,
        codes,
        place,
        on_duplicate,
        table.place,
        tasks=tasks.names,
        workers=workers.names,
        classes=classes,
        table_kind=table.table_kind,
    )


def _gather(
    cls: type[Any],
    codes: dict[str, IntArray],
    place: FloatArray,
    on_duplicate: Duplicates,
    where: Callable[[int], str] | None,
    **names: Any,
) -> Any:
    """Rows of marks as answers, sorted by task; a mark given twice is refused or left out."""
    if on_duplicate not in ("error", "first", "last", "all"):
        raise InputError(f"on_duplicate is {quote(on_duplicate)}; it must be 'error', 'first', 'last' or 'all'.")
    marked = _complete(place)
    edge = codes["task"].astype(np.int64) * max(len(names["workers"]), 1) + codes["worker"]
    _, first, inverse = np.unique(edge, return_index=True, return_inverse=True)
    rows = np.lexsort((np.arange(edge.size), first[inverse], codes["task"]))
    kept = np.ones(rows.size, np.bool_)
    if on_duplicate in ("error", "first", "last"):
        again = _repeated(inverse[rows], place[rows], codes["label"][rows], marked[rows], on_duplicate == "last")
        if again.any() and on_duplicate == "error":
            shown = ", ".join((where or (lambda row: f"row {row}"))(int(row)) for row in np.sort(rows[again])[:5])
            raise InputError(
                f"Some workers gave the same {cls.noun} twice on a task ({int(again.sum()):,} in all; {shown}). Remove "
                "the second, or set on_duplicate (on the command line --on-duplicate): 'first', 'last', or 'all' to "
                "keep both."
            )
        kept = ~again
    answers = np.sort(first)
    answers = answers[np.argsort(codes["task"][answers], kind="stable")]
    order = np.empty(first.size, np.int64)
    order[inverse[answers]] = np.arange(answers.size)
    rows = rows[kept & marked[rows]]
    counts = np.bincount(order[inverse[rows]], minlength=answers.size)
    return cls(
        task=codes["task"][answers],
        worker=codes["worker"][answers],
        mark_ptr=np.append(0, np.cumsum(counts)),
        place=place[rows],
        label=codes["label"][rows].astype(np.int32),
        **names,
    )


def _complete(place: FloatArray) -> BoolArray:
    """Which rows are marks: those without NaN or infinities (n,)."""
    return np.asarray(np.isfinite(place).all(axis=1), np.bool_)


def _repeated(edge: IntArray, place: FloatArray, label: IntArray, marked: BoolArray, earlier: bool) -> BoolArray:
    """Marks of one answer at the same place with the same label as one before (or after) them."""
    keys = np.column_stack([edge, label, place])
    sign = -1 if earlier else 1
    order = np.lexsort((sign * np.arange(edge.size), *keys.T))
    same = (keys[order][1:] == keys[order][:-1]).all(axis=1) & marked[order][1:]
    found: BoolArray = np.zeros(edge.size, np.bool_)
    found[order[1:][same]] = True
    return found


def open_true_marks(
    source: Any, cls: type[Marks]
) -> tuple[pa.Array, IntArray, FloatArray, tuple[pa.Array, IntArray] | None]:
    """Known marks of a table: names of tasks, the task of each row, its place, and labels if there are any."""
    needs = f"Known {cls.kind} need the columns task, {', '.join(cls.coordinates)}, and a row for each {cls.noun}."
    table = open_table(source, needs, {"task": None, **dict.fromkeys(cls.coordinates)}, {"class": None})
    tasks = table.encode("task")
    place = np.column_stack([table.read_numbers(name, may_be_empty=True) for name in cls.coordinates])
    marked = _complete(place)
    cls._check_places(place, marked, lambda rows: table.place.name_rows(rows.tolist()))
    labels = _encode_labels(table, marked)
    return tasks.names, tasks.codes.astype(np.int64), place, labels


def _encode_labels(table: AnswerTable, marked: BoolArray) -> tuple[pa.Array, IntArray] | None:
    if "class" not in table or not marked.any():
        return None
    column = table.columns["class"].combine_chunks()
    # The label of a row without a mark is not asked for.
    filled = pc.if_else(pa.array(marked), column, column[int(np.argmax(marked))])
    encoded = replace(table, columns=table.columns | {"class": pa.chunked_array([filled])}).encode("class")
    # By name, so that nothing depends on the order of rows.
    order = pc.sort_indices(encoded.names).to_numpy().astype(np.int64)
    return encoded.names.take(pa.array(order)), np.argsort(order)[encoded.codes].astype(np.int32)
