"""The consensus as a writer of a format takes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from crowdwise.labels.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from crowdwise.formats.export import Question
    from crowdwise.labels.types import FloatArray

__all__ = ["AGENT", "MARKS", "ConsensusAnswer", "ConsensusAnswers", "ConsensusMark", "SoftLabels", "least_confidence"]

AGENT = "crowdwise"  # as whom the tools are told that the consensus was found
ANSWERED = ("label", "value", "labels", "text")  # the column of the consensus that holds the answer
# Kinds whose consensus is several marks a task: the columns that say where a mark is.
MARKS = {"spans": ("start", "end"), "boxes": ("x_min", "y_min", "x_max", "y_max"), "points": ("x", "y")}


class ConsensusAnswer(NamedTuple):
    """The consensus of one task, and how probable it is (None where the method does not say)."""

    answer: Any
    confidence: float | None


class ConsensusMark(NamedTuple):
    """A span, box or point of the consensus: its place (see `MARKS`), its label, and how probable it is."""

    place: tuple[Any, ...]
    label: str
    confidence: float


def least_confidence(marks: Sequence[ConsensusMark]) -> float | None:
    """How probable the least sure mark of a task is; None where nothing is marked."""
    return min((mark.confidence for mark in marks), default=None)


class SoftLabels(NamedTuple):
    """Probabilities (N, K) of the classes, in the order of the table's tasks."""

    classes: tuple[Any, ...]
    probabilities: FloatArray


@dataclass(frozen=True)
class ConsensusAnswers:
    """The consensus of every task.

    Attributes
    ----------
    question
        That it answers.
    table
        As `consensus()` gives it: task, label (or value) and confidence; of masks also their regions.
    soft
        Of labels: the probability of each class.
    tasks
        Every task that was answered, also those in which the consensus marks nothing.
    """

    question: Question
    table: pa.Table
    soft: SoftLabels | None = None
    tasks: tuple[Any, ...] = ()

    @cached_property
    def by_task(self) -> dict[str, ConsensusAnswer]:
        """The consensus of each task, by the task's name as text."""
        names = self.table.column_names
        answered = next((name for name in ANSWERED if name in names), None)
        if answered is None or "task" not in names:
            raise InputError(f"The consensus of {self.question.kind} is not written back yet. Leave --write-back out.")
        said = self.table[answered].to_pylist()
        if answered == "labels":
            said = list(map(_split_set, said))
        sure = self.table["confidence"].to_pylist() if "confidence" in names else [None] * len(said)
        tasks = map(str, self.table["task"].to_pylist())
        return {task: ConsensusAnswer(*each) for task, each in zip(tasks, zip(said, sure, strict=True), strict=True)}

    @cached_property
    def marks_by_task(self) -> dict[str, list[ConsensusMark]]:
        """The marks of each task that was answered, by the task's name as text."""
        marks: dict[str, list[ConsensusMark]] = {str(task): [] for task in self.tasks}
        place = MARKS[self.question.kind]
        for row in self.table.to_pylist():
            mark = ConsensusMark(tuple(row[name] for name in place), str(row["label"]), row["confidence"])
            marks[str(row["task"])].append(mark)
        return marks


def _split_set(cell: str) -> list[str]:
    """The classes of a set as a consensus of several labels writes it: a JSON list, or names with | between them."""
    if cell.startswith("["):
        return list(json.loads(cell))
    return cell.split("|") if cell else []
