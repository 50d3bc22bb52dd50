"""The answers of a campaign as tables: those that count, every revision, and as labels or answers of a kind."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlalchemy as sa

from crowdwise.campaign import tables as db

if TYPE_CHECKING:
    from crowdwise.campaign.project import Question
    from crowdwise.campaign.store import Store

__all__ = ["answer_columns", "counted_answers", "every_answer"]


def counted_answers(store: Store) -> pa.Table:
    """Answers that count, one for each task and worker: task, worker, answer (JSON), time, seconds, gold.

    An answer counts if it is the last revision and holds a slot: what was taken back, and what an excluded worker
    answered, does not.
    """
    last, later, slots = db.answers.alias("last"), db.answers.alias("later"), db.slots
    columns = (
        last.c.id,
        db.tasks.c.name,
        db.workers.c.name,
        last.c.answer,
        last.c.created,
        last.c.seconds,
        db.tasks.c.gold,
    )
    newer = sa.exists().where(
        later.c.task_id == last.c.task_id, later.c.worker_id == last.c.worker_id, later.c.revision > last.c.revision
    )
    holds = sa.and_(
        slots.c.task_id == last.c.task_id, slots.c.worker_id == last.c.worker_id, slots.c.state == db.ANSWERED
    )
    line = (
        sa.select(*columns)
        .join(slots, holds)
        .join(db.tasks, db.tasks.c.id == last.c.task_id)
        .join(db.workers, db.workers.c.id == last.c.worker_id)
        .where(last.c.kind == "answer", ~newer)
        .order_by(last.c.id)
    )
    return _read(store, line, ("number", "task", "worker", "answer", "time", "seconds", "gold"))


def every_answer(store: Store) -> pa.Table:
    """Everything that was ever sent: answers, skips with their reason, undos."""
    given = db.answers
    line = (
        sa.select(given.c.id, db.tasks.c.name, db.workers.c.name, given.c.revision, given.c.kind, given.c.answer,
                  given.c.reason, given.c.created, given.c.seconds)
        .join(db.tasks, db.tasks.c.id == given.c.task_id)
        .join(db.workers, db.workers.c.id == given.c.worker_id)
        .order_by(given.c.id)
    )  # fmt: skip
    names = ("number", "task", "worker", "revision", "event", "answer", "reason", "time", "seconds")
    return _read(store, line, names)


def _read(store: Store, line: Any, names: tuple[str, ...]) -> pa.Table:
    kinds = {"number": pa.int64(), "time": pa.float64(), "seconds": pa.float64(), "revision": pa.int64()}
    with store.read() as connection:
        rows = connection.execute(line).all()
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table({name: pa.array(list(column), kinds.get(name, pa.string()))
                     for name, column in zip(names, columns, strict=True)})  # fmt: skip


def answer_columns(table: pa.Table, question: Question, contents: dict[str, dict[str, str]] | None = None) -> pa.Table:
    """The answers in the columns that the rest of crowdwise reads: label, value, labels, or left, right and outcome."""
    given = [json.loads(each) for each in table["answer"].to_pylist()]
    columns = {"task": table["task"], "worker": table["worker"]}
    if question.kind == "classes":
        columns["label"] = pa.array(given, pa.string())
    elif question.kind == "values":
        columns["value"] = pa.array(given, pa.float64())
    elif question.kind == "multi-label":
        columns["labels"] = pa.array([json.dumps(each, ensure_ascii=False) for each in given], pa.string())
    else:
        shown = [(contents or {}).get(task, {}) for task in table["task"].to_pylist()]
        for side in ("left", "right"):
            columns[side] = pa.array([each.get(side, "") for each in shown], pa.string())
        columns["outcome"] = pa.array(given, pa.string())
    return pa.table({**columns, "time": table["time"], "seconds": table["seconds"]})
