"""The database of the service: SQLite with a write-ahead log, one file in the service's directory.

A change is durable when :meth:`Store.commit` has returned: ``synchronous = FULL`` waits for the
disk at each commit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softib.errors import InputError, MissingLibrary, SoftibError, os_reason
from softib.extras import install_command
from softib.plural import counted
from softib.tenants.exclusive import lock
from softib.tenants.model import Member, Tenant, guid_text, parse_guid, parse_pkey
from softib.tenants.state import Rows, State, isolated_of, partition_of

__all__ = ["ADMIN_FILE", "FILE", "Revision", "Store", "Unavailable", "waits_for"]

FILE, ADMIN_FILE = "tenants.db", "admin-password"
HEADER_OCTETS = 100
"""Size of the header of an SQLite database (file format, 1.3). SQLite takes some shorter files as empty databases."""
VERSION = "SELECT version_num FROM alembic_version"
SAME_STATE = {"first", "request_owners", "intrusions", "isolated_ports", "tenant_ports", "findings"}
"""Versions of the schema whose tables of tenants and partitions this version can read, so that backups with these
schemas can be restored. The oldest do not store the ports of tenants."""
MOST = (1 << 63) - 1
"""The largest integer that SQLite stores."""
REPAIR = "stop the service and copy a backup over this file (tenants-*.db, made by POST /tenants/v1/backup)"
MOST_OF_CHANGE = 16 << 20
"""Space that a change needs in the database and its log: a request of 4 MB (the limit of the REST interface) is stored
as rows, and their previous and new contents are stored in the revision."""
BUSY_MS = 2000
"""Time to wait for a locked database."""


_WAITED = re.compile(r"(; waits for [\d,]+ ports?: [0-9a-f, …]+)+\Z")


def waits_for(guids: Collection[int]) -> str:
    """Return the detail text of a pending revision: the ports for which it waits. The text is removed when the revision
    gets another state."""
    shown = ", ".join(guid_text(g) for g in sorted(guids)[:4]) + (", …" if len(guids) > 4 else "")
    return f"waits for {counted(len(guids), 'port')}: {shown}"


class Unavailable(SoftibError):
    """The database cannot be read or written now; no change was made."""


@dataclass(frozen=True)
class Revision:
    """One change. ``state``: ``durable``, ``programmed``, ``pending`` (members do not answer), ``superseded``,
    ``rolled-back`` or ``refused``. ``settled_s``: time at which it got this state. ``detail``: text with the reason or
    the ports. ``owner``: the account that sent ``request_id``.
    """

    id: int
    at_s: float
    actor: str
    action: str
    request_id: str | None
    owner: str | None
    digest: str
    state: str
    detail: str
    settled_s: float | None
    rows: Rows


class Store:
    """The open database of ``folder``, which is created if it does not exist. Only one process may open it at a time.
    Raises :class:`InputError` if another process has it open, or if it cannot be read."""

    def __init__(self, folder: Path):
        self.folder, self.path = folder, folder / FILE
        self._writes, self._reads = threading.RLock(), threading.Lock()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = lock(folder / "lock", "these tenants", folder)
        except OSError as error:
            raise InputError(f"{folder}: cannot keep tenants there: {os_reason(error)}") from None
        try:
            self._refuse_lost()
            # before the first connection is opened, because its first statements would still use the old schema
            _migrate(self.path)
            self.db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self.db.create_function("without_waiting", 1, lambda text: _WAITED.sub("", text), deterministic=True)
            os.chmod(self.path, 0o600)
            for pragma in (f"busy_timeout = {BUSY_MS}", "journal_mode = WAL", "synchronous = FULL"):
                self.db.execute(f"PRAGMA {pragma}")
            self._reading = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            (problem,) = self.db.execute("PRAGMA quick_check(1)").fetchone()
            if problem != "ok":
                raise sqlite3.DatabaseError(" ".join(str(problem).split()))
            self.state()
            self.unprogrammed()
        except InputError:
            self._lock.close()
            raise
        except (sqlite3.Error, OSError, Unavailable) as error:
            self._lock.close()
            raise InputError(f"{self.path}: cannot be used as the tenants' database: {_advised(error)}") from None

    def _refuse_lost(self) -> None:
        """Raise :class:`InputError` if the file is missing or empty although the folder has been in use, because SQLite
        would create an empty database, and the service would then end all partitions of the subnet.
        """
        exists = self.path.exists()
        traces = (self.folder / ADMIN_FILE, *sorted(self.folder.glob("tenants-*.db")))
        trace = next((one.name for one in traces if one.exists()), None)
        if trace is not None and not (exists and self.path.stat().st_size >= HEADER_OCTETS):
            what = "has no content" if exists else "is missing"
            raise InputError(
                f"{self.path} {what}, but the folder has been in use ({trace}); {REPAIR}, or use a new folder"
            )

    def close(self) -> None:
        """Close the database, so that another process may open it."""
        for connection in (self._reading, self.db):
            connection.close()
        self._lock.close()

    # -- reading, from any thread --

    def read(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query over committed data."""
        try:
            with self._reads:
                return self._reading.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise Unavailable(f"{self.path}: cannot be read: {_advised(error)}") from None

    def state(self) -> State:
        """Return the state after the last commit."""
        try:
            state = _state(self.read)
            for name, at_s, ends in self.read("SELECT name, at_s, ends FROM isolated_port"):
                state.isolated[name] = isolated_of(at_s, json.loads(ends))
        except (ValueError, TypeError, InputError) as error:
            raise Unavailable(f"{error}; {REPAIR}") from None
        return state

    def state_of_backup(self, name: str) -> State:
        """Return the state in a copy that :meth:`backup` made in this folder. Raises
        :class:`InputError`."""
        path = self.folder / name
        if not re.fullmatch(r"tenants-\d{1,12}\.db", name) or not path.is_file():
            raise InputError(
                f"backup {name[:64]!r} does not exist; use the file name that an earlier POST backup returned"
            )
        try:
            copy = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
            try:
                read = lambda query: copy.execute(query).fetchall()
                if not {version for (version,) in read(VERSION)} <= SAME_STATE:
                    raise InputError("the backup is of another version of softib; restore it with that version")
                state = _state(read)
            finally:
                copy.close()
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise InputError(f"{path}: cannot be read: {error}") from None
        except InputError as error:
            raise InputError(f"{path}: cannot be restored: {error}") from None
        return state

    def revisions(self, most: int = 100, before: int | None = None) -> list[Revision]:
        """Return at most ``most`` revisions that are older than ``before``, the newest first."""
        query = "SELECT * FROM revision WHERE id < ? ORDER BY id DESC LIMIT ?"
        return [_revision(row) for row in self.read(query, (MOST if before is None else _fitting(before), most))]

    def revision(self, number: int) -> Revision | None:
        """Return a revision by its number."""
        return next(
            (_revision(row) for row in self.read("SELECT * FROM revision WHERE id = ?", (_fitting(number),))), None
        )

    def state_of(self, number: int) -> str | None:
        """Return the state of a revision. Its rows, which may be thousands, are not decoded."""
        return next(
            (str(row[0]) for row in self.read("SELECT state FROM revision WHERE id = ?", (_fitting(number),))), None
        )

    def of_request(self, owner: str, request_id: str) -> Revision | None:
        """Return the revision that this owner's request made. Must be called within a transaction."""
        query = "SELECT * FROM revision WHERE owner = ? AND request_id = ?"
        row = self.db.execute(query, (owner, request_id)).fetchone()
        return None if row is None else _revision(row)

    def has_request(self, owner: str, request_id: str) -> bool:
        """Return whether this owner has sent a request with this ID before."""
        query = "SELECT 1 FROM revision WHERE owner = ? AND request_id = ?"
        return bool(self.read(query, (owner, request_id)))

    def accounts_of(self, tenant: str) -> list[str]:
        """Return the names of a tenant's accounts."""
        return [name for (name,) in self.read("SELECT name FROM account WHERE tenant = ? ORDER BY name", (tenant,))]

    def after(self, number: int) -> list[tuple[int, Rows]]:
        """Return the numbers and rows of the revisions after this one, the oldest first. Must be called within a
        transaction.
        """
        query = "SELECT id, rows FROM revision WHERE id > ? ORDER BY id"
        return [(int(one), json.loads(rows)) for one, rows in self.db.execute(query, (number,))]

    def unprogrammed(self) -> list[Revision]:
        """Return the revisions that are durable or pending, the oldest first."""
        rows = self.read("SELECT * FROM revision WHERE state IN ('durable', 'pending') ORDER BY id")
        return [_revision(row) for row in rows]

    def of_action(self, action: str) -> list[Revision]:
        """Return all revisions of an action, the oldest first."""
        return [_revision(row) for row in self.read("SELECT * FROM revision WHERE action = ? ORDER BY id", (action,))]

    # -- writing --

    @contextmanager
    def transaction(self, waits: bool = True) -> Iterator[None]:
        """Run a block of writes as a transaction: at its end they are durable, or :class:`Unavailable` is raised and
        they have no effect. Without ``waits``, they may be lost in a power failure.
        """
        try:
            with self._writes:
                self.db.execute(f"PRAGMA synchronous = {'FULL' if waits else 'NORMAL'}")
                self.db.execute("BEGIN IMMEDIATE")
                try:
                    yield
                    self.db.execute("COMMIT")
                except BaseException:
                    if self.db.in_transaction:
                        self.db.execute("ROLLBACK")
                    raise
        except sqlite3.Error as error:
            what = _advised(error) if _is_damage(error) else f"{error}; no change was made, send the request again"
            raise Unavailable(f"{self.path}: {what}") from None

    def try_write(self) -> str:
        """Return the reason why the database cannot be written now, "" if a write of one page succeeds."""
        try:
            with self.transaction(waits=False):
                count = int(self.db.execute("PRAGMA user_version").fetchone()[0])
                self.db.execute(f"PRAGMA user_version = {(count + 1) % (1 << 30)}")
        except Unavailable as error:
            return str(error)
        return ""

    def scarce(self) -> str:
        """Return a message if the file system does not have enough space for the largest possible change, otherwise
        ""."""
        free = shutil.disk_usage(self.folder).free
        if free >= MOST_OF_CHANGE:
            return ""
        return f"{self.path}: only {free >> 10:,} KB are free, so large changes are refused; free space there"

    def write(self, rows: Rows) -> None:
        """Write the rows of a change. Must be called within a transaction."""
        for name, _, after in rows.get("tenant", []):
            self._row("tenant", "name = ?", [name], after and [name, after["limit"], json.dumps(after["ports"])])
        for pkey, _, after in rows.get("partition", []):
            self._row("partition", "pkey = ?", [pkey], after and [pkey, *after])
        for (pkey, guid), _, after in rows.get("member", []):
            self._row("member", "pkey = ? AND guid = ?", [pkey, guid], after and [pkey, guid, *after])
        for pkey, _, after in rows.get("quarantine", []):
            self._row("quarantine", "pkey = ?", [pkey], None if after is None else [pkey, after])
        for name, _, after in rows.get("isolated_port", []):
            self._row("isolated_port", "name = ?", [name], after and [name, after[0], json.dumps(after[1])])

    def _row(self, table: str, where: str, key: list[Any], after: list[Any] | None) -> None:
        if after:
            marks = ", ".join("?" * len(after))
            self.db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", after)
        else:
            self.db.execute(f"DELETE FROM {table} WHERE {where}", key)

    def enter(
        self,
        at_s: float,
        actor: str,
        action: str,
        request_id: str | None,
        owner: str | None,
        digest: str,
        rows: Rows,
        detail: str = "",
    ) -> int:
        """Add a revision and return its number. Must be called within a transaction."""
        values = (None, at_s, actor, action, request_id, owner, digest, "durable", detail, None, json.dumps(rows))
        done = self.db.execute("INSERT INTO revision VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        return int(done.lastrowid or 0)

    def mark(self, numbers: list[int], state: str, at_s: float, detail: str = "") -> None:
        """Set the state of revisions and append ``detail`` to their text, from which the ports for which they waited
        are removed. Must be called within a transaction.
        """
        self.db.executemany(
            "UPDATE revision SET state = ?, settled_s = ?, detail = without_waiting(detail) || ? WHERE id = ?",
            [(state, at_s, f"; {detail}" if detail else "", number) for number in numbers],
        )

    def backup(self, path: Path) -> None:
        """Copy the database to ``path`` while it is in use."""
        part = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            copy = sqlite3.connect(part)
            with copy:
                self.db.backup(copy)
            copy.close()
            part.replace(path)
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"{path}: the backup cannot be written: {error}") from None
        finally:
            part.unlink(missing_ok=True)


def _state(read: Callable[[str], list[tuple[Any, ...]]]) -> State:
    state = State.empty()
    for name, limit, *others in read("SELECT * FROM tenant"):
        ports = json.loads(others[0]) if others else None
        assigned = None if ports is None else tuple(guid_text(parse_guid(guid)) for guid in ports)
        state.tenants[name] = Tenant(name, limit, assigned)
    members: dict[int, dict[int, Member]] = {}
    pkeys: dict[int, set[int]] = {}
    for pkey, text, full, host in read("SELECT pkey, guid, full, host FROM member"):
        guid = int(text, 16)
        members.setdefault(pkey, {})[guid] = Member(bool(full), host)
        pkeys.setdefault(guid, set()).add(pkey)
    for pkey, *head in read("SELECT * FROM partition"):
        parse_pkey(f"{pkey:#x}")
        state.partitions[pkey] = partition_of(pkey, head, members.get(pkey, {}))
    state.owned = dict(Counter(p.tenant for p in state.partitions.values()))
    state.pkeys_of = {guid: frozenset(keys) for guid, keys in pkeys.items()}
    state.quarantine = dict(read("SELECT pkey, until_s FROM quarantine"))
    return state


def _fitting(number: int) -> int:
    """Return the number, or the nearest number that SQLite can store, because a client may send any number."""
    return max(-MOST, min(number, MOST))


def _revision(row: tuple[Any, ...]) -> Revision:
    try:
        values = (*row[:-1], json.loads(row[-1]))
    except (ValueError, TypeError) as error:
        raise Unavailable(f"revision {row[0]} of the database cannot be read: {error}; {REPAIR}") from None
    return Revision(*values)


def _is_damage(error: Exception) -> bool:
    """Return whether ``error`` shows that the database file is damaged, so that waiting or repeating the request does
    not help.
    """
    damage = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    plain = type(error) is sqlite3.DatabaseError
    return plain or (getattr(error, "sqlite_errorcode", 0) & 0xFF) in damage


def _advised(error: Exception) -> str:
    """Return the text of an SQLite error. If the file is damaged, add instructions for its repair."""
    return f"{error}; {REPAIR}" if _is_damage(error) else str(error)


def _migrate(path: Path) -> None:
    """Migrate the schema to the newest version."""
    try:
        from alembic import command
        from alembic.config import Config
        from alembic.util.exc import CommandError
        from sqlalchemy import create_engine
        from sqlalchemy.exc import DBAPIError
    except ImportError as error:
        raise MissingLibrary(f"tenants need {error.name}; run {install_command('tenants')}") from None
    config = Config()
    config.set_main_option("script_location", "softib.tenants:migrations")
    engine = create_engine(f"sqlite:///{path}")
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except CommandError as error:
        raise InputError(f"{path}: {error}; the database is of a newer softib") from None
    except DBAPIError as error:
        raise error.orig if isinstance(error.orig, sqlite3.Error) else error from None
    finally:
        engine.dispose()
