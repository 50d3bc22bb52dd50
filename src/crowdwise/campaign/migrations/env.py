"""What Alembic runs: the migrations, on the connection that `migrate` opened."""

from __future__ import annotations

from alembic import context

from crowdwise.campaign.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
