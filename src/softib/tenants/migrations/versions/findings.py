"""Adds a table of findings, so that a restart of the service does not lose them."""

from __future__ import annotations

from alembic import op

revision = "findings"
down_revision = "tenant_ports"


def upgrade() -> None:
    """Create the table of :class:`softib.tenants.ledger.Ledger`."""
    op.execute(
        "CREATE TABLE finding (kind TEXT NOT NULL, place TEXT NOT NULL, text TEXT NOT NULL, begun_s REAL,"
        " ended_s REAL, details TEXT NOT NULL)"
    )
