"""Truths of tasks in a table, lined up with the tasks of a model: for every kind that answers tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kinds.answer_table import open_table
from crowdwise.labels.errors import InputError, listing

if TYPE_CHECKING:
    import pyarrow as pa

    from crowdwise.kinds.answer_table import AnswerTable
    from crowdwise.labels.types import IntArray

__all__ = ["open_truth", "place_truths", "refuse_contradictions"]


def open_truth(source: Any, role: str, needs: str) -> AnswerTable:
    """Open a table of a task and what is true of it; a mapping from task to truth is one too."""
    if isinstance(source, Mapping) and not {"task", role} <= set(source):
        source = {"task": list(source), role: list(source.values())}
    return open_table(source, needs, {"task": None, role: None})


def place_truths(table: AnswerTable, tasks: pa.Array) -> tuple[IntArray, pa.Array]:
    """Position among `tasks` of each row of a table of truths (-1 for other tasks), and the names of its rows."""
    encoded, there = table.find_names("task", tasks, "task")
    return there, encoded.names.take(encoded.codes)


def refuse_contradictions(again: Any, names: pa.Array, noun: str) -> None:
    """Refuse rows of a truth that say something else than another row of their task."""
    if np.any(again):
        shown = listing(dict.fromkeys(names.filter(again).to_pylist()))
        raise InputError(f"The truth contradicts itself about task {shown}. Keep one {noun} for each task.")
