"""Ports are assigned to tenants. Existing tenants may use any port that belongs to no other tenant, as before."""

from __future__ import annotations

from alembic import op

revision = "tenant_ports"
down_revision = "isolated_ports"


def upgrade() -> None:
    """Add the column: JSON, a list of PortGUIDs, or null for any port."""
    op.execute("ALTER TABLE tenant ADD COLUMN ports TEXT NOT NULL DEFAULT 'null'")
