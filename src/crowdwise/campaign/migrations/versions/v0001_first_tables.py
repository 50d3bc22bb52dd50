"""The first tables.

They are written out here: later changes of `tables.py` must not change what this migration made.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table("settings", sa.Column("name", sa.String(64), primary_key=True), sa.Column("value", sa.Text))
    op.create_table(
        "tasks",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("gold", sa.Text),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("finished", sa.Float),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("link", sa.Integer, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
    )
    op.create_table(
        "slots",
        sa.Column("task_id", sa.Integer, sa.ForeignKey("tasks.id"), primary_key=True, autoincrement=False),
        sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("worker_id", sa.Integer, sa.ForeignKey("workers.id")),
        sa.Column("state", sa.SmallInteger, nullable=False),
        sa.Column("expires", sa.Float),
        sa.UniqueConstraint("task_id", "worker_id", name="one_slot_for_a_worker"),
        sa.CheckConstraint("state BETWEEN 0 AND 3", name="slot_state"),
    )
    op.create_index("slots_of_worker", "slots", ["worker_id", "state"])
    free, leased = sa.text("state = 0"), sa.text("state = 1")
    op.create_index("slots_free", "slots", ["task_id"], sqlite_where=free, postgresql_where=free)
    op.create_index("slots_leased", "slots", ["expires"], sqlite_where=leased, postgresql_where=leased)
    op.create_table(
        "answers",
        sa.Column("id", number, primary_key=True),
        sa.Column("task_id", sa.Integer, sa.ForeignKey("tasks.id"), nullable=False),
        sa.Column("worker_id", sa.Integer, sa.ForeignKey("workers.id"), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("answer", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("client_key", sa.String(64), nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("seconds", sa.Float),
        sa.UniqueConstraint("worker_id", "client_key", name="one_answer_for_a_key"),
        sa.UniqueConstraint("task_id", "worker_id", "revision", name="one_answer_for_a_revision"),
    )
    op.create_table(
        "actions",
        sa.Column("id", number, primary_key=True),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("manager", sa.String(64), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
    op.create_table(
        "sessions", sa.Column("digest", sa.String(64), primary_key=True), sa.Column("expires", sa.Float, nullable=False)
    )
    op.create_table(
        "deliveries",
        sa.Column("id", number, primary_key=True),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due", sa.Float, nullable=False),
        sa.Column("done", sa.Float),
    )


def downgrade() -> None:
    """Remove every table."""
    for name in ("deliveries", "sessions", "actions", "answers", "slots", "workers", "tasks", "settings"):
        op.drop_table(name)
