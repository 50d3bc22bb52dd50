"""Rows with a task, a worker and an answer, of tables in a container of their own: a data set's folder, a workbook."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from crowdwise.formats.answer_collector import KIND_COLUMNS
from crowdwise.labels.columns import ROLES, candidates
from crowdwise.labels.errors import InputError, listing, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from crowdwise.formats.answer_collector import AnswerCollector

__all__ = ["add_answer", "add_rows", "are_long", "choose_column", "list_answer_columns"]


COLUMN_OF = {"grade": "rating"}  # what else a kind's own column may be called


def are_long(names: list[str]) -> bool:
    """Whether columns say that every row is an answer: by a kind's own columns, or by task, worker and label."""
    return _kind_of(names) is not None or all(candidates(role, names) for role in ROLES)


def _kind_of(names: list[str]) -> str | None:
    """The kind whose own columns are there, the one with most of them."""
    there = {COLUMN_OF.get(name, name) for name in names}
    fitting = [
        kind
        for kind, columns in KIND_COLUMNS.items()
        if kind != "labels" and {"task", "worker", *columns} - {"label"} <= there and there & {*columns} - {"label"}
    ]
    return max(fitting, key=lambda kind: len(KIND_COLUMNS[kind]), default=None)


def list_answer_columns(names: list[str], origin: str) -> list[str]:
    """The columns of a table with a row for each answer that are read."""
    kind = _kind_of(names)
    if kind is None:
        return [choose_column(role, names, origin) for role in ROLES]
    read = {"task", "worker", *KIND_COLUMNS[kind]}
    return [name for name in names if COLUMN_OF.get(name, name) in read]


def choose_column(role: str, names: list[str], origin: str) -> str:
    """The one column of a role; several are refused."""
    found = candidates(role, names)
    if len(found) != 1:
        what = f"more than one column that may be the {role}" if found else f"no {role} column"
        raise InputError(f"{origin} has {what}; its columns are {listing(names)}. Call one of them {role!r}.")
    return found[0]


def add_rows(
    rows: Iterable[tuple[Mapping[str, Any], str]], names: list[str], question: str, found: AnswerCollector, origin: str
) -> None:
    """Give every row to the collector; each comes with where it stands."""
    kind = _kind_of(names)
    if kind is not None:
        called = {COLUMN_OF.get(name, name): name for name in names}
        columns = [called.get(column) for column in KIND_COLUMNS[kind]]
        for row, where in rows:
            task, worker = _name(row, "task", where), _name(row, "worker", where)
            found.question(question, kind).add(task, worker, tuple(column and row[column] for column in columns))
        return
    task_column, worker_column, label_column = (choose_column(role, names, origin) for role in ROLES)
    for row, where in rows:
        task, worker = _name(row, task_column, where), _name(row, worker_column, where)
        add_answer(row[label_column], task, worker, question, found, f"{where}: {quote(label_column)}")


def _name(row: Mapping[str, Any], column: str, where: str) -> Any:
    value = row.get(column)
    if not isinstance(value, str | int) or value == "":
        raise InputError(
            f"{where}: {quote(column)} is {quote(value)}, so that nobody knows whose answer it is, or to what."
        )
    return value


def add_answer(said: Any, task: Any, worker: Any, question: str, found: AnswerCollector, where: str) -> None:
    """Give one answer to the collector: a class, a number, or a list of classes; an empty one is skipped."""
    if said is None or said == "" or (isinstance(said, float) and math.isnan(said)):
        found.skipped.add(task, worker)
    elif isinstance(said, str | bool | int):
        found.question(question, "labels").add(task, worker, (said,))
    elif isinstance(said, float):
        found.question(question, "values").add(task, worker, (said,))
    elif isinstance(said, list) and all(isinstance(each, str | int) for each in said):
        found.question(question, "multi-label").add(task, worker, (said,))
    else:
        raise InputError(f"{where} is {quote(said)}; it must be a class, a number or a list of classes.")
