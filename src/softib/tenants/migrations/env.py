"""Alembic's entry point: run the migrations on the connection opened by the caller."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
