"""The tables of a campaign's database.

`answers` is append-only: an answer, a skip or an undo is a row of its own, and the last revision of a task and worker
is what holds. `slots` are the places for answers: a task has as many rows as it may have answers, so that no number
of servers can take more of them than there are.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

__all__ = ["ANSWERED", "CLOSED", "FREE", "LEASED", "actions", "answers", "deliveries", "metadata", "sessions",
           "settings", "slots", "tasks", "workers"]  # fmt: skip

FREE, LEASED, ANSWERED, CLOSED = range(4)  # states of a slot

metadata = MetaData()
NUMBER = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts only INTEGER keys by itself

settings = Table("settings", metadata, Column("name", String(64), primary_key=True), Column("value", Text))

tasks = Table(
    "tasks",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("content", Text, nullable=False),
    Column("gold", Text),
    Column("state", String(16), nullable=False, default="open"),
    Column("reason", Text, nullable=False, default=""),
    Column("finished", Float),
)

workers = Table(
    "workers",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("state", String(16), nullable=False, default="active"),
    Column("reason", Text, nullable=False, default=""),
    Column("details", Text, nullable=False, default="{}"),
    Column("link", Integer, nullable=False, default=0),
    Column("created", Float, nullable=False),
)

slots = Table(
    "slots",
    metadata,
    Column("task_id", Integer, ForeignKey("tasks.id"), primary_key=True, autoincrement=False),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("worker_id", Integer, ForeignKey("workers.id")),
    Column("state", SmallInteger, nullable=False, default=FREE),
    Column("expires", Float),
    UniqueConstraint("task_id", "worker_id", name="one_slot_for_a_worker"),
    CheckConstraint("state BETWEEN 0 AND 3", name="slot_state"),
    Index("slots_of_worker", "worker_id", "state"),
    # One for each state that is looked for: an index by state would tempt PostgreSQL to find a task's slots by it.
    Index("slots_free", "task_id", sqlite_where=text("state = 0"), postgresql_where=text("state = 0")),
    Index("slots_leased", "expires", sqlite_where=text("state = 1"), postgresql_where=text("state = 1")),
)

answers = Table(
    "answers",
    metadata,
    Column("id", NUMBER, primary_key=True),
    Column("task_id", Integer, ForeignKey("tasks.id"), nullable=False),
    Column("worker_id", Integer, ForeignKey("workers.id"), nullable=False),
    Column("revision", Integer, nullable=False),
    Column("kind", String(8), nullable=False),
    Column("answer", Text),
    Column("reason", Text),
    Column("client_key", String(64), nullable=False),
    Column("created", Float, nullable=False),
    Column("seconds", Float),
    UniqueConstraint("worker_id", "client_key", name="one_answer_for_a_key"),
    UniqueConstraint("task_id", "worker_id", "revision", name="one_answer_for_a_revision"),
)

actions = Table(
    "actions",
    metadata,
    Column("id", NUMBER, primary_key=True),
    Column("created", Float, nullable=False),
    Column("manager", String(64), nullable=False),
    Column("action", String(64), nullable=False),
    Column("subject", Text, nullable=False, default=""),
    Column("reason", Text, nullable=False, default=""),
)

sessions = Table(
    "sessions",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("expires", Float, nullable=False),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", NUMBER, primary_key=True),
    Column("address", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("attempts", Integer, nullable=False, default=0),
    Column("due", Float, nullable=False),
    Column("done", Float),
)
