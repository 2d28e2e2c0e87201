"""Adds a table of refused packets, so that a restart of the service does not lose them."""

from __future__ import annotations

from alembic import op

revision = "intrusions"
down_revision = "request_owners"


def upgrade() -> None:
    """Create the table of :class:`softib.tenants.intrusions.Intrusion`."""
    op.execute(
        "CREATE TABLE intrusion (trap INTEGER NOT NULL, lid INTEGER NOT NULL, target INTEGER NOT NULL,"
        " key INTEGER NOT NULL, reporter INTEGER NOT NULL, begun_s REAL NOT NULL, last_s REAL NOT NULL,"
        " count INTEGER NOT NULL, sender TEXT NOT NULL, text TEXT NOT NULL,"
        " UNIQUE (trap, lid, target, key, reporter, begun_s))"
    )
