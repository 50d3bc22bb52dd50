"""Where a reader puts what it finds in an export: answers by question, and what is no answer beside them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from crowdwise.formats.answer_columns import GrowingTable
from crowdwise.labels.attributes import MOST_VALUES
from crowdwise.labels.errors import InputError, listing

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

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
}
MARKED = (
    "spans",
    "boxes",
    "points",
    "masks",
)  # kinds whose answer may be several rows, or none where nothing is to be marked
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

    def take_single(self, single: QuestionAnswers) -> None:
        """Take the answers to the same question that hold one label each."""
        self.n_answers += single.n_answers
        self.n_anchored += single.n_anchored
        for name in ("answers", "gold", "predictions"):
            target = getattr(self, name)
            for row in getattr(single, name).to_table().to_pylist():
                target.add(*([value] if column == "label" else value for column, value in row.items()))

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
    unmarked
        Tasks and workers of answers without a span, box or mask; they count where the file has questions about these.
    left_out
        Anything else that is in the file and was not read, and how often.
    notes
        Sentences to be said about the file as a whole.
    """

    def __init__(self) -> None:
        self.questions: dict[tuple[str, str], QuestionAnswers] = {}
        self.skipped = GrowingTable("task", "worker")
        self.drafts = GrowingTable("task", "worker")
        self.unmarked = GrowingTable("task", "worker")
        self._once = GrowingTable("task", "record")
        self.left_out: Counter[str] = Counter()
        self.notes: list[str] = []
        self.tasks, self.workers = _Attributes("task"), _Attributes("worker")
        self.text = False  # names were read from text, so that integers are to be recognised

    def add_task(self, name: Any, record: int) -> None:
        """Take note of a task that stands once in the file, with the number of its record."""
        self._once.add(name, record)

    def question(self, name: str, kind: str, **details: Any) -> QuestionAnswers:
        """The answers to a question, begun where it was not met before."""
        found = self.questions.get((name, kind))
        if found is None:
            found = self.questions[name, kind] = QuestionAnswers(name, kind, details)
        return found

    def finish(self, origin: str) -> None:
        """Put together what only the whole file tells, and refuse a task that stands in it twice.

        Where some answers to a question hold several choices, the others are lists of one. Answers in which nothing was
        marked count for the questions about spans, boxes and masks.
        """
        for name, kind in list(self.questions):
            if kind == "multi-label" and (name, "labels") in self.questions:
                self.questions[name, kind].take_single(self.questions.pop((name, "labels")))
        self._refuse_repeated_tasks(origin)
        marked = [each for each in self.questions.values() if each.kind in MARKED]
        if marked and len(self.unmarked):
            rows = self.unmarked.to_table()
            for task, worker in zip(rows["task"].to_pylist(), rows["worker"].to_pylist(), strict=True):
                for each in marked:
                    each.add(task, worker)

    def _refuse_repeated_tasks(self, origin: str) -> None:
        met = self._once.to_table()
        counts = pc.value_counts(met["task"].combine_chunks()) if met.num_rows else None
        if counts is None or len(counts) == met.num_rows:
            return
        repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values").to_pylist()
        records = met.filter(pc.equal(met["task"], repeated[0]))["record"].to_pylist()
        raise InputError(
            f"{origin} holds task {listing(repeated)} more than once (records {listing(records)}). Give one export of "
            "one project."
        )


class _Attributes:
    """What is known of tasks or workers besides the answers: fields of few, short values."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.names: dict[Any, int] = {}
        self.fields: dict[str, dict[int, Any]] = {}
        self.values: dict[str, set[Any]] = {}

    def add(self, name: Any, facts: Mapping[str, Any]) -> None:
        """Take the fields of a task or worker; long texts, lists and fields of many values are left aside."""
        for field, value in facts.items():
            known = self.values.setdefault(field, set())
            if len(known) > MOST_VALUES:
                continue
            if isinstance(value, str):
                if not value or len(value) > LONGEST_ATTRIBUTE:
                    continue
            elif not isinstance(value, bool | int | float):
                continue
            known.add(value)
            if len(known) > MOST_VALUES:
                self.fields.pop(field, None)
            else:
                place = self.names.setdefault(name, len(self.names))
                self.fields.setdefault(field, {})[place] = value

    def to_table(self) -> pa.Table:
        """A row for each task or worker, a column for each field; neither those of one value nor of one value each."""
        several = {field for field, values in self.fields.items() if 1 < len(self.values[field]) < len(values)}
        names = [field for field in self.fields if field != self.role and field in several]
        table = GrowingTable(self.role, *names)
        for name, place in self.names.items():
            table.add(name, *(self.fields[field].get(place) for field in names))
        return table.to_table()
