"""Adds a table of isolated ports, so that they can be put back into use after a restart of the service."""

from __future__ import annotations

from alembic import op

revision = "isolated_ports"
down_revision = "intrusions"


def upgrade() -> None:
    """Create the table of :class:`softib.tenants.model.IsolatedPort`."""
    op.execute(
        "CREATE TABLE isolated_port (name TEXT PRIMARY KEY, at_s REAL NOT NULL, ends TEXT NOT NULL) WITHOUT ROWID"
    )
