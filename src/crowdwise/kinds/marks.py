"""Answers that are sets of marks: boxes, points and spans, several in one answer, or none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.kinds.answer_table import AnswerTable, TaskOptions, open_columns, open_table, open_task_table
from crowdwise.kinds.answers import TaskAnswers, as_numbers, code_column, names_or_numbers
from crowdwise.labels.columns import candidates
from crowdwise.labels.errors import InputError, quote
from crowdwise.labels.similar_names import warn_of_similar_names
from crowdwise.labels.source_location import format_count
from crowdwise.labels.table_output import native_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from crowdwise.labels.types import BoolArray, Duplicates, FloatArray, IntArray

__all__ = ["ONE_CLASS", "MarkOptions", "Marks", "open_marks", "open_true_marks", "read_marks"]

ONE_CLASS = "object"  # of marks without labels
M = TypeVar("M", bound="Marks")


class MarkOptions(TaskOptions, total=False):
    """Columns of a table of marks, where they are not the usual ones; `coordinates` names several."""

    label: str | None
    coordinates: Sequence[str] | None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Marks(TaskAnswers):
    """Base of kinds whose answers are sets of marks: one row for each answer of a worker to a task. Immutable.

    `from_codes` makes one from a row for each mark: places (n, D), NaN where the worker saw the task and marked
    nothing; and `label`, positions (n,) among `classes`, where marks have labels.

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
    def _code_said(cls, said: Any, *, label: Any = None, classes: Iterable[Any] | int | None = None) -> dict[str, Any]:
        places = as_numbers(said, "place")
        if places.ndim != 2 or places.shape[1] != len(cls.coordinates):
            raise InputError(f"place has the shape {places.shape}; it needs a column for {', '.join(cls.coordinates)}.")
        names = pa.array([ONE_CLASS]) if classes is None or label is None else names_or_numbers(classes, "label")
        codes = code_column(np.zeros(len(places), np.int32) if label is None else label, names, "label")
        if codes.size != len(places):
            raise InputError(f"place and label must have the same length; they have {len(places)} and {codes.size}.")
        cls._check_places(places, _complete(places), lambda rows: f"rows {rows[:5].tolist()}")
        return {"place": places, "label": codes, "classes": names}

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

    @classmethod
    def _from_columns(
        cls, columns: dict[str, Any], on_duplicate: Duplicates, place: Callable[[int], str] | None = None
    ) -> Self:
        """Rows of marks as answers, sorted by task; a mark given twice is refused or left out."""
        if on_duplicate not in ("error", "first", "last", "all"):
            raise InputError(f"on_duplicate is {quote(on_duplicate)}; it must be 'error', 'first', 'last' or 'all'.")
        marked = _complete(columns["place"])
        edge = columns["task"].astype(np.int64) * max(len(columns["workers"]), 1) + columns["worker"]
        _, first, inverse = np.unique(edge, return_index=True, return_inverse=True)
        rows = np.lexsort((np.arange(edge.size), first[inverse], columns["task"]))
        kept = np.ones(rows.size, np.bool_)
        if on_duplicate in ("error", "first", "last"):
            again = _repeated(
                inverse[rows], columns["place"][rows], columns["label"][rows], marked[rows], on_duplicate == "last"
            )
            if again.any() and on_duplicate == "error":
                shown = ", ".join((place or (lambda row: f"row {row}"))(int(row)) for row in np.sort(rows[again])[:5])
                raise InputError(
                    f"Some workers gave the same {cls.noun} twice on a task ({int(again.sum()):,} in all; {shown}). "
                    "Remove the second, or set on_duplicate (on the command line --on-duplicate): 'first', 'last', or "
                    "'all' to keep both."
                )
            kept = ~again
        answers = np.sort(first)
        answers = answers[np.argsort(columns["task"][answers], kind="stable")]
        order = np.empty(first.size, np.int64)
        order[inverse[answers]] = np.arange(answers.size)
        rows = rows[kept & marked[rows]]
        counts = np.bincount(order[inverse[rows]], minlength=answers.size)
        gathered = {
            "task": columns["task"][answers],
            "worker": columns["worker"][answers],
            "mark_ptr": np.append(0, np.cumsum(counts)),
            "place": columns["place"][rows],
            "label": columns["label"][rows].astype(np.int32),
        }
        return cls(**columns | gathered)

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
    source: Any, needs: str, forms: Sequence[tuple[str, ...]], options: MarkOptions
) -> tuple[AnswerTable, tuple[str, ...], FloatArray]:
    """Open a table of marks; say which of several sets of coordinate columns it has, and what is in them (rows, D)."""
    columns = open_columns(source, needs)
    form = next((each for each in forms if all(candidates(role, columns.names) for role in each)), forms[0])
    given: dict[str, str | None] = dict.fromkeys(form)
    coordinates = options.get("coordinates")
    if coordinates is not None:
        form = forms[0]
        if len(coordinates) != len(form):
            raise InputError(f"coordinates names {len(coordinates)} columns; there must be {len(form)}.")
        given = dict(zip(form, coordinates, strict=True))
    table = open_task_table(columns, needs, options, given, {"class": options.get("label")})
    return table, form, np.column_stack([table.read_numbers(role, may_be_empty=True) for role in form])


def read_marks(kind: type[M], table: AnswerTable, place: FloatArray, options: MarkOptions) -> M:
    """Marks of a kind from an opened table and the places (rows, D) of its rows, NaN where nothing was marked."""
    marked = _complete(place)
    kind._check_places(place, marked, lambda rows: table.place.name_rows(rows.tolist()))
    columns = table.encode_task_answers() | {"place": place}
    labels = _encode_labels(table, marked) or (pa.array([ONE_CLASS]), np.zeros(len(place), np.int32))
    warn_of_similar_names({"Classes": labels[0]})
    columns |= {"classes": labels[0], "label": labels[1]}
    return kind._from_columns(columns, options.get("on_duplicate", "error"), table.place)


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
