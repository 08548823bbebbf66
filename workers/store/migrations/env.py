"""Alembic's way in: the connection and its transaction belong to whoever asked for the upgrade."""

from __future__ import annotations

from alembic import context

from workers.store.models import Base

connection = context.config.attributes["connection"]
context.configure(
    connection=connection, target_metadata=Base.metadata, render_as_batch=connection.dialect.name == "sqlite"
)
context.run_migrations()
