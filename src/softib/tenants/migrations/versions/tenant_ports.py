"""Adds the assignment of ports to tenants. Existing tenants may still use any port that belongs to no other tenant."""

from __future__ import annotations

from alembic import op

revision = "tenant_ports"
down_revision = "isolated_ports"


def upgrade() -> None:
    """Add the column ``ports``: a list of PortGUIDs as JSON, or null for any port."""
    op.execute("ALTER TABLE tenant ADD COLUMN ports TEXT NOT NULL DEFAULT 'null'")
