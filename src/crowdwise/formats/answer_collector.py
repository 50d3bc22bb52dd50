"""Where a reader puts what it finds in an export: answers by question, and what is no answer beside them."""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.formats.answer_columns import GrowingTable, as_array, as_text, first_rows
from crowdwise.labels.attributes import MOST_VALUES
from crowdwise.labels.errors import SHOWN, InputError, listing, quote
from crowdwise.labels.source_location import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["KIND_COLUMNS", "AnswerCollector", "QuestionAnswers"]

# What an answer of each kind is: the columns by which its reader (`crowdwise.kinds`) knows it, beside task and worker.
KIND_COLUMNS: dict[str, tuple[str, ...]] = {
    "labels": ("label",),
    "multi-label": ("labels",),
    "ordinal": ("rating",),
    "values": ("value",),
    "texts": ("text",),
    "comparisons": ("left", "right", "label"),
    "similarity": ("left", "right", "same"),
    "rankings": ("item", "rank"),
    "spans": ("start", "end", "label"),
    "boxes": ("x_min", "y_min", "x_max", "y_max", "label"),
    "points": ("x", "y", "label"),
    "masks": ("mask", "label"),
    "outlines": ("outline", "label"),
}
# Kinds whose answer may be several rows, or none where nothing is to be marked.
MARKED = ("spans", "boxes", "points", "outlines")
LONGEST_TEXT, MOST_TEXT = 4_000, 1 << 23  # characters of what a task shows, and of what all show, that are kept
LONGEST_ATTRIBUTE = 64  # characters: longer texts are what a task shows, and make no groups


class QuestionAnswers:
    """The answers to one question.

    Parameters
    ----------
    name, kind
        Of the question.
    details
        What a writer needs to know about it.
    """

    def __init__(self, name: str, kind: str, details: Mapping[str, Any]) -> None:
        self.name, self.kind, self.details = name, kind, dict(details)
        columns = KIND_COLUMNS[kind]
        self.answers = GrowingTable("task", "worker", *columns, "time", "duration", "anchored")
        self.gold = GrowingTable("task", *columns)
        self.predictions = GrowingTable("task", "worker", *columns, "score")
        self.n_answers = 0
        self.n_anchored = 0
        self._unmarked = array("q")  # where runs of rows of answers without a mark begin and end

    def add(
        self,
        task: Any,
        worker: Any,
        *rows: tuple[Any, ...],
        time: Any = None,
        duration: Any = None,
        anchored: bool = False,
    ) -> None:
        """Take one answer: a row for each span or box of it, a single row for most kinds.

        An answer without a row (a worker who saw no box) is kept as a row with nothing in its columns.
        """
        self.n_answers += 1
        self.n_anchored += anchored
        if not isinstance(time, str | int | float):
            time = None
        if type(duration) is not float:
            duration = _as_seconds(duration)
        for row in rows or (self._nothing(),):
            self.answers.add(task, worker, *row, time, duration, anchored)

    def add_gold(self, task: Any, *rows: tuple[Any, ...]) -> None:
        """Take the known answer to a task."""
        for row in rows or (self._nothing(),):
            self.gold.add(task, *row)

    def add_prediction(self, task: Any, model: Any, *rows: tuple[Any, ...], score: Any = None) -> None:
        """Take what a model predicted."""
        for row in rows or (self._nothing(),):
            self.predictions.add(task, model, *row, score)

    def note_unmarked(self) -> None:
        """Take note that the answer added last is of a worker who marked nothing in the task."""
        row = len(self.answers) - 1
        if self._unmarked and self._unmarked[-1] == row:
            self._unmarked[-1] += 1
        else:
            self._unmarked.extend((row, row + 1))

    def list_unmarked(self) -> Iterator[tuple[Any, Any]]:
        """Task and worker of the answers that were noted as without a mark."""
        if not self._unmarked:
            return
        table = self.answers.to_table().select(["task", "worker"])
        for begin, end in zip(self._unmarked[::2], self._unmarked[1::2], strict=True):
            rows = table.slice(begin, end - begin)
            yield from zip(*(column.to_pylist() for column in rows.columns), strict=True)

    def take_single(self, single: QuestionAnswers) -> None:
        """Take the answers to the same question that hold one label each: a list of one, or a number."""
        several = self.kind == "multi-label"
        self.n_answers += single.n_answers
        self.n_anchored += single.n_anchored
        for name in ("answers", "gold", "predictions"):
            target = getattr(self, name)
            for row in getattr(single, name).to_table().to_pylist():
                target.add(*([value] if several and column == "label" else value for column, value in row.items()))

    def are_numbers(self) -> bool:
        """Whether all labels are whole numbers."""
        return all(
            pa.types.is_integer(each.to_table()["label"].type)
            for each in (self.answers, self.gold, self.predictions)
            if len(each)
        )

    def _nothing(self) -> tuple[None, ...]:
        return (None,) * len(KIND_COLUMNS[self.kind])


def _as_seconds(given: Any) -> float | None:
    """A number, also as text; None for anything else: a duration that cannot be read spoils no answer."""
    try:
        return float(given) if isinstance(given, str | int | float) and not isinstance(given, bool) else None
    except (ValueError, OverflowError):
        return None


class AnswerCollector:
    """Takes what a reader finds.

    Attributes
    ----------
    skipped, drafts
        Tasks and workers of answers that are none.
    left_out
        Anything else that is in the file and was not read, and how often.
    outside
        Where boxes stand of which more than half lies outside of the image.
    notes
        Sentences to be said about the file as a whole.
    """

    def __init__(self) -> None:
        self.questions: dict[tuple[str, str], QuestionAnswers] = {}
        self.skipped = GrowingTable("task", "worker")
        self.drafts = GrowingTable("task", "worker")
        self._unmarked = GrowingTable("task", "worker")
        self._once = GrowingTable("task", "record")
        self.left_out: Counter[str] = Counter()
        self.outside: list[str] = []
        self.notes: list[str] = []
        self.tasks, self.workers, self.shown = _Attributes("task"), _Attributes("worker"), _ShownTexts()
        self.text = False  # names were read from text, so that integers are to be recognised

    def add_task(self, name: Any, record: int) -> None:
        """Take note of a task that stands once in the file, with the number of its record."""
        self._once.add(name, record)

    def add_unmarked(self, task: Any, worker: Any, answered: QuestionAnswers | None = None) -> None:
        """Take an answer without a span, box or outline; it counts where these are asked for.

        If it answers another question, in the row that was `answered` last, nothing is held twice.
        """
        if answered is None:
            self._unmarked.add(task, worker)
        else:
            answered.note_unmarked()

    def question(self, name: str, kind: str, **details: Any) -> QuestionAnswers:
        """The answers to a question, begun where it was not met before."""
        found = self.questions.get((name, kind))
        if found is None:
            if not _is_unicode(name):
                raise InputError(f"The name of a question is not Unicode: {quote(name)}. Rename it, and export again.")
            found = self.questions[name, kind] = QuestionAnswers(name, kind, details)
        return found

    def finish(self, origin: str) -> None:
        """Put together what only the whole file tells, and refuse a task that stands in it twice.

        Where some answers to a question hold several choices, the others are lists of one; where some are fractions,
        whole numbers are values as well. Answers in which nothing was marked count for the questions about spans, boxes
        and outlines.
        """
        self._refuse_repeated_tasks(origin)
        self._count_unmarked()
        if self.outside:
            where = "; ".join(self.outside[:SHOWN]) + ("; …" if len(self.outside) > SHOWN else "")
            self.notes.append(
                f"{format_count(len(self.outside), 'box lies', 'boxes lie')} outside of the image, with more than half "
                f"of the area ({where}). Nothing is cut off: are boxes and images measured in one unit?"
            )
        for name, kind in list(self.questions):
            single = self.questions.get((name, "labels"))
            if single is not None and (kind == "multi-label" or (kind == "values" and single.are_numbers())):
                self.questions[name, kind].take_single(self.questions.pop((name, "labels")))

    def _count_unmarked(self) -> None:
        marked = [each for each in self.questions.values() if each.kind in MARKED]
        if not marked:
            return
        rows = self._unmarked.to_table()
        alone = zip(rows["task"].to_pylist(), rows["worker"].to_pylist(), strict=True)
        for task, worker in chain(alone, *(each.list_unmarked() for each in self.questions.values())):
            for each in marked:
                each.add(task, worker)

    def _refuse_repeated_tasks(self, origin: str) -> None:
        met, self._once = self._once.to_table(), GrowingTable("task", "record")
        first = first_rows(met["task"])
        if len(first) == met.num_rows:
            return
        again = np.delete(np.arange(met.num_rows), first)
        repeated = pc.unique(met["task"].take(pa.array(again))).to_pylist()
        records = met.filter(pc.equal(met["task"], repeated[0]))["record"].to_pylist()
        raise InputError(
            f"{origin} holds task {listing(repeated)} more than once (records {listing(records)}). Give one export of "
            "one project."
        )


class _ShownTexts:
    """What tasks show, as text; none at all where that is too much to hold."""

    def __init__(self) -> None:
        self.texts: GrowingTable | None = GrowingTable("task", "text")
        self.known: set[Any] = set()
        self.size = 0

    def add(self, task: Any, fields: Mapping[str, Any]) -> None:
        """Take what a task shows: its field `text`, or the longest text of its fields."""
        if self.texts is None or task in self.known:
            return
        texts = [value for value in fields.values() if isinstance(value, str)]
        given = fields.get("text")
        shown = given if isinstance(given, str) else max(texts, key=len, default="")
        if shown:
            self.known.add(task)
            self.texts.add(task, as_text(shown[:LONGEST_TEXT]))
            self.size += min(len(shown), LONGEST_TEXT)
            if self.size > MOST_TEXT:
                self.texts, self.known = None, set()

    def to_table(self) -> pa.Table:
        """A row for each task."""
        return (self.texts or GrowingTable("task", "text")).to_table()


class _Attributes:
    """What is known of tasks or workers besides the answers: fields of few, short values.

    A field is kept as codes of its values, so that a million tasks take a few megabytes.
    """

    def __init__(self, role: str) -> None:
        self.role = role
        self.names = GrowingTable(role)
        self.codes: dict[str, array[int]] = {}
        self.values: dict[str, dict[Any, int]] = {}  # and which are too many: those without codes
        self.last: Any = None

    def add(self, name: Any, facts: Mapping[str, Any]) -> None:
        """Take the fields of a task or worker; long texts, lists and fields of many values are left aside."""
        if name == self.last or not facts:
            return
        self.last, row = name, len(self.names)
        self.names.add(name)
        for field, value in facts.items():
            known = self.values.setdefault(field, {})
            if len(known) > MOST_VALUES or not _makes_groups(value):
                continue
            code = known.setdefault(value, len(known))
            if len(known) > MOST_VALUES:
                self.codes.pop(field, None)
                continue
            codes = self.codes.setdefault(field, array("b"))
            codes.extend([-1] * (row - len(codes)))
            codes.append(code)

    def to_table(self) -> pa.Table:
        """A row for each task or worker, a column for each field; neither those of one value nor of one value each."""
        names = self.names.to_table()[self.role]
        table = pa.table({self.role: names})
        for field, codes in self.codes.items():
            codes.extend([-1] * (len(names) - len(codes)))
            known = np.frombuffer(codes, np.int8)
            if field != self.role and _is_unicode(field) and 1 < len(self.values[field]) < (known >= 0).sum():
                values = as_array(tuple(self.values[field]))
                table = table.append_column(field, values.take(pa.array(known, mask=known < 0)))
        first = first_rows(names)
        return table if len(first) == len(names) else table.take(pa.array(first))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold
        return False
    return True


def _makes_groups(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= LONGEST_ATTRIBUTE
    return isinstance(value, bool | int | float)
