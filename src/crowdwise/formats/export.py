"""`Export`: what was found in the export of a labelling tool."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.formats.answer_collector import MARKED
from crowdwise.labels.columns import Columns
from crowdwise.labels.errors import InputError, InputWarning, UnclearInputError, listing, quote
from crowdwise.labels.source_location import Place, format_count

if TYPE_CHECKING:
    from crowdwise.formats.answer_collector import AnswerCollector, QuestionAnswers
    from crowdwise.formats.export_files import ExportFiles
    from crowdwise.formats.export_format import Format
    from crowdwise.labels.crowd_labels import CrowdLabels

__all__ = ["Export", "Question", "make_export"]

HOW_TO_CHOOSE = "Say which with question= (on the command line --question)"


@dataclass(frozen=True)
class Question:
    """A question that an export holds answers to.

    Attributes
    ----------
    name
        As the tool has it.
    kind
        Kind of its answers: "labels", "values", "boxes", ….
    n_answers
        Answers by workers; neither gold nor predictions.
    details
        What a writer needs to know about it.
    """

    name: str
    kind: str
    n_answers: int
    details: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{quote(self.name)} ({self.kind}, {format_count(self.n_answers, 'answer')})"


@dataclass(frozen=True, eq=False, repr=False)
class Export:
    """What an export of a labelling tool holds. Made by `read_export`.

    Attributes
    ----------
    format
        Of which tool it is.
    files
        Where it was read from.
    questions
        Every question in it.
    question
        The chosen one; None where there are several and none was chosen.
    answers
        A row for each answer to that question (for each span or box of it): task, worker, what was answered in the
        columns of its kind, and time, duration (in seconds) and anchored (began from a model's prediction).
    gold, predictions
        The known answers to that question, and those of models (worker is the model's name), with their score.
    skipped, drafts
        Task and worker of answers that were skipped, or not submitted.
    task_attributes, worker_attributes
        What the file says of tasks and workers besides: fields of few, short values.
    items
        What tasks show, as text; empty for an export of very much of it.
    left_out
        Anything else that was not read, and how often it occurs.
    notes
        Sentences about the file as a whole.
    text
        Whether names were read from text, so that integers are to be recognised.
    """

    format: Format
    files: ExportFiles
    questions: tuple[Question, ...]
    question: Question | None
    answers: pa.Table
    gold: pa.Table
    predictions: pa.Table
    skipped: pa.Table
    drafts: pa.Table
    task_attributes: pa.Table
    worker_attributes: pa.Table
    items: pa.Table
    left_out: dict[str, int]
    notes: tuple[str, ...] = ()
    include_predictions: bool = False
    text: bool = False

    @property
    def origin(self) -> str:
        """What was read, for people."""
        return self.files.origin

    @property
    def n_anchored(self) -> int:
        """Answers that began from a prediction."""
        if self.question is None or not self.answers.num_rows:
            return 0
        return int(pc.sum(self.answers["anchored"]).as_py() or 0)

    def __repr__(self) -> str:
        asked = ", ".join(map(str, self.questions))
        return f"Export of {self.format.name}, {self.origin}: {asked}"

    @cached_property
    def labels(self) -> CrowdLabels:
        """The answers as labels, if they are classes."""
        from crowdwise.labels.read import read_labels

        return read_labels(self)

    def chosen_question(self) -> Question:
        """The question that was chosen; raises `UnclearInputError` where there are several."""
        if self.question is None:
            raise UnclearInputError(
                f"{self.origin} (an export of {self.format.name}) holds answers to {len(self.questions)} questions: "
                f"{'; '.join(map(str, self.questions))}. {HOW_TO_CHOOSE}.",
                [(str(each), _words_for(each, self.questions)) for each in self.questions],
            )
        return self.question

    def to_columns(self) -> Columns:
        """The answers to the chosen question as a table, with those of models where they were asked for."""
        asked = self.chosen_question()
        table = self.answers
        if asked.kind in MARKED and table["label"].null_count == table.num_rows:  # marks without labels
            table = table.drop_columns(["label"])
        if self.include_predictions and self.predictions.num_rows:
            names = [name for name in table.column_names if name in self.predictions.column_names]
            table = _concat(table, _tell_models_apart(self.predictions.select(names), table["worker"]))
        if not table.num_rows:
            raise InputError(
                f"{self.origin} (an export of {self.format.name}) holds no answer"
                f"{self._says_left_out(' to read: ')}. Export it with its annotations."
            )
        place = Place(self.origin, "answer", lambda row: row + 1)
        return Columns(list(table.column_names), table.column, place=place, text=self.text)

    def item_columns(self) -> Columns | None:
        """What tasks with answers show, as a table; None if the file does not say."""
        if not self.items.num_rows:
            return None
        names = pc.unique(self.answers["task"]).cast(pa.string())
        table = self.items.filter(pc.is_in(self.items["task"].cast(pa.string()), names))
        place = Place(self.origin)
        return Columns(table.column_names, table.column, place=place, text=self.text) if table.num_rows else None

    def gold_columns(self) -> Columns | None:
        """The known answers to tasks with answers by workers as a table, each once; None if there are none."""
        if not self.gold.num_rows or self.chosen_question().kind not in ("labels", "ordinal", "values"):
            return None
        asked = pc.is_in(self.gold["task"], pc.unique(self.answers["task"]).cast(self.gold.schema.field("task").type))
        table = self.gold.filter(asked)
        table = table.group_by(self.gold.column_names, use_threads=False).aggregate([])
        if not table.num_rows:
            return None
        return Columns(list(table.column_names), table.column, place=Place(f"gold of {self.origin}"), text=self.text)

    def _says_left_out(self, before: str) -> str:
        there = self.list_left_out()
        return before + "; ".join(there) if there else ""

    def list_left_out(self) -> list[str]:
        """What is in the file and is no answer, in a few words each."""
        found: list[tuple[int, str, str | None]] = [
            (self.skipped.num_rows, "skipped answer", None),
            (self.drafts.num_rows, "draft", None),
            (self.gold.num_rows, "gold answer", None),
        ]
        if not self.include_predictions:
            found.append((self.predictions.num_rows, "prediction of models", "predictions of models"))
        words = [format_count(number, noun, plural) for number, noun, plural in found if number]
        return words + [f"{number:,} × {what}" for what, number in self.left_out.items()]

    def warn_of_left_out(self) -> None:
        """Warn of what was left out, where nobody looks at the export itself."""
        for sentence in (*self.notes, self.describe_left_out()):
            if sentence:
                warnings.warn(sentence, InputWarning, stacklevel=3)

    def describe_left_out(self) -> str:
        """What was left out, as a sentence; "" if everything was read."""
        words = self.list_left_out()
        sentence = f"{self.origin} ({self.format.name}): {', '.join(words)} not counted as labels." if words else ""
        if self.n_anchored:
            began = format_count(self.n_anchored, "answer")
            sentence += f"{' ' if sentence else self.origin + ': '}{began} began from a model's prediction."
        return sentence


def make_export(
    form: Format,
    files: ExportFiles,
    found: AnswerCollector,
    *,
    question: str | None,
    kind: str | None,
    include_predictions: bool,
) -> Export:
    """Put together what a reader collected, for one question."""
    found.finish(files.origin)
    every = list(found.questions.values())
    if not every:
        there = [f"{number:,} × {what}" for what, number in found.left_out.items()]
        there += [format_count(len(found.skipped), "skipped answer")] if len(found.skipped) else []
        there += [format_count(len(found.drafts), "draft")] if len(found.drafts) else []
        raise InputError(
            f"{files.origin} (an export of {form.name}) holds no answer that can be read"
            f"{': ' if there else ''}{', '.join(there)}. Export it with its annotations."
        )
    chosen = _choose(every, question, kind, files.origin)
    empty = pa.table({"task": pa.array([], pa.string()), "worker": pa.array([], pa.string())})
    return Export(
        format=form,
        files=files,
        questions=tuple(map(_describe_question, every)),
        question=None if chosen is None else _describe_question(chosen),
        answers=empty if chosen is None else chosen.answers.to_table(),
        gold=empty if chosen is None else chosen.gold.to_table(),
        predictions=empty if chosen is None else chosen.predictions.to_table(),
        skipped=found.skipped.to_table(),
        drafts=found.drafts.to_table(),
        task_attributes=found.tasks.to_table(),
        worker_attributes=found.workers.to_table(),
        items=found.shown.to_table(),
        left_out=dict(found.left_out),
        notes=tuple(found.notes),
        include_predictions=include_predictions,
        text=found.text,
    )


def _describe_question(found: QuestionAnswers) -> Question:
    return Question(found.name, found.kind, found.n_answers, found.details)


def _choose(every: list[QuestionAnswers], name: str | None, kind: str | None, origin: str) -> QuestionAnswers | None:
    """The question that was named, or the only one; None where there are several."""
    fitting = [each for each in every if name is None or each.name == name]
    if not fitting:
        raise InputError(
            f"{origin} has no question {quote(name)}; it has {listing(dict.fromkeys(each.name for each in every))}. "
            f"{HOW_TO_CHOOSE}."
        )
    if len(fitting) > 1 and kind is not None:
        fitting = [each for each in fitting if each.kind == kind] or fitting
    if len(fitting) > 1 and name is not None:
        kinds = ", ".join(f"{each.kind} ({format_count(each.n_answers, 'answer')})" for each in fitting)
        raise InputError(
            f"{origin} asks {quote(name)} in more than one way: {kinds}. Say which with kind= (on the command line "
            "--kind)."
        )
    return fitting[0] if len(fitting) == 1 else None


def _words_for(question: Question, every: tuple[Question, ...]) -> tuple[str, ...]:
    """What to add to the command line to choose a question."""
    words = ("--question", question.name)
    return (*words, "--kind", question.kind) if sum(each.name == question.name for each in every) > 1 else words


def _tell_models_apart(predictions: pa.Table, workers: pa.ChunkedArray) -> pa.Table:
    """The predictions, with models that have the name of a worker called otherwise: they are not one."""
    models = predictions["worker"].cast(pa.string())
    shared = pc.is_in(models, pc.unique(workers.cast(pa.string())))
    named = pc.if_else(shared, pc.binary_join_element_wise(models, "(model)", " "), models)
    return predictions.set_column(predictions.column_names.index("worker"), "worker", named)


def _concat(first: pa.Table, second: pa.Table) -> pa.Table:
    """Rows of one table after those of another that lacks some columns; names of two types become text."""
    for name in second.column_names:
        place = first.column_names.index(name)
        if first.schema.field(name).type != second.schema.field(name).type and name in ("task", "worker"):
            first = first.set_column(place, name, first[name].cast(pa.string()))
            second = second.set_column(second.column_names.index(name), name, second[name].cast(pa.string()))
    return pa.concat_tables([first, second], promote_options="permissive")
