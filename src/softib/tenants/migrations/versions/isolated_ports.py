"""Ports that the service took out of use can be released after its restart."""

from __future__ import annotations

from alembic import op

revision = "isolated_ports"
down_revision = "intrusions"


def upgrade() -> None:
    """Create the table of :class:`softib.tenants.model.IsolatedPort`."""
    op.execute(
        "CREATE TABLE isolated_port (name TEXT PRIMARY KEY, at_s REAL NOT NULL, ends TEXT NOT NULL) WITHOUT ROWID"
    )
