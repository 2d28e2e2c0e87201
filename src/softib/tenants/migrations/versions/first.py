"""The first schema."""

from __future__ import annotations

from alembic import op

revision = "first"
down_revision = None

TABLES = """
CREATE TABLE tenant (name TEXT PRIMARY KEY, max_partitions INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE partition (
  pkey INTEGER PRIMARY KEY, name TEXT NOT NULL, tenant TEXT NOT NULL, index0 INTEGER NOT NULL,
  ip_over_ib INTEGER NOT NULL, everyone TEXT NOT NULL, mtu INTEGER NOT NULL, sl INTEGER NOT NULL, rate REAL NOT NULL
);
CREATE TABLE member (
  pkey INTEGER NOT NULL, guid TEXT NOT NULL, full INTEGER NOT NULL, host TEXT NOT NULL, PRIMARY KEY (pkey, guid)
) WITHOUT ROWID;
CREATE TABLE quarantine (pkey INTEGER PRIMARY KEY, until_s REAL NOT NULL);
CREATE TABLE revision (
  id INTEGER PRIMARY KEY AUTOINCREMENT, at_s REAL NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
  request_id TEXT UNIQUE, digest TEXT NOT NULL, state TEXT NOT NULL, detail TEXT NOT NULL, settled_s REAL,
  rows TEXT NOT NULL
);
CREATE TABLE account (
  name TEXT PRIMARY KEY, role TEXT NOT NULL, tenant TEXT NOT NULL, secret TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE token (digest TEXT PRIMARY KEY, name TEXT NOT NULL, created_s REAL NOT NULL) WITHOUT ROWID;
"""


def upgrade() -> None:
    """Create the tables."""
    for statement in filter(str.strip, TABLES.split(";")):
        op.execute(statement)
