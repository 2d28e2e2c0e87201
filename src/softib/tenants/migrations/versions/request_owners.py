"""Adds to each request ID the account that sent the request. IDs from accounts that no longer exist get no owner."""

from __future__ import annotations

from alembic import op

revision = "request_owners"
down_revision = "first"

STATEMENTS = """
DROP TABLE IF EXISTS revision_owned;
CREATE TABLE revision_owned (
  id INTEGER PRIMARY KEY AUTOINCREMENT, at_s REAL NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
  request_id TEXT, owner TEXT, digest TEXT NOT NULL, state TEXT NOT NULL, detail TEXT NOT NULL, settled_s REAL,
  rows TEXT NOT NULL, UNIQUE (owner, request_id)
);
INSERT INTO revision_owned
  SELECT id, at_s, actor, action, request_id,
    (SELECT tenant || char(10) || name FROM account WHERE name = actor AND request_id IS NOT NULL),
    digest, state, detail, settled_s, rows
  FROM revision;
DROP TABLE revision;
ALTER TABLE revision_owned RENAME TO revision;
"""


def upgrade() -> None:
    """Create the table of revisions again, with owners (``writer.Request.owner``), because SQLite cannot drop a
    constraint."""
    for statement in filter(str.strip, STATEMENTS.split(";")):
        op.execute(statement)
