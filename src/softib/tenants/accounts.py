"""Access to the service: accounts, each with a role, and their passwords, tokens and client certificates.

Only digests are stored: scrypt of passwords, SHA-256 of tokens, which are random.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from softib.errors import InputError
from softib.tenants.changes import NotThere, Refused
from softib.tenants.store import Store

__all__ = ["ROLES", "Account", "Accounts", "Role"]

Role = Literal["admin", "operator", "viewer", "tenant"]
ROLES = get_args(Role)
"""``admin``: may also change accounts; ``operator``: may change all partitions; ``viewer``: may
only read; ``tenant``: may change only the partitions of its tenant."""
TENANT = "SELECT 1 FROM tenant WHERE name = ?"
ACCOUNT = "SELECT name, role, tenant, secret FROM account"
COST = {"n": 1 << 14, "r": 8, "p": 1}


@dataclass(frozen=True)
class Account:
    """An account. ``tenant``: the tenant to which an account of role ``tenant`` belongs. ``secret``: digest of the
    password that the client signed in with.
    """

    name: str
    role: str
    tenant: str = ""
    secret: str = field(default="", repr=False, compare=False)

    @property
    def changes(self) -> bool:
        """Return whether the account may change partitions."""
        return self.role != "viewer"


class Accounts:
    """The accounts in the database ``store``. Any thread may use them."""

    def __init__(self, store: Store):
        self.store = store
        self._lock, self._checking = threading.Lock(), threading.Lock()
        self._right: dict[bytes, Account] = {}
        """Digest of name and password → account, kept until accounts change because scrypt takes 50 ms."""
        self._key = secrets.token_bytes(16)

    def all(self) -> list[Account]:
        """Return all accounts, sorted by name."""
        return [Account(*row) for row in self.store.read("SELECT name, role, tenant FROM account ORDER BY name")]

    def put(self, account: Account, password: str) -> None:
        """Add an account, or change it. If its password, role or tenant changes, its tokens become invalid. Raises
        :class:`InputError`.
        """
        if account.role not in ROLES:
            raise InputError(f"role {account.role[:24]!r} does not exist; use {', '.join(ROLES)}")
        if (account.role == "tenant") != bool(account.tenant):
            raise InputError("an account of role tenant needs a tenant, and accounts of other roles must not have one")
        name = account.name
        if len(password) < 8 or ":" in name or not name.isprintable() or not name.strip() or len(name) > 64:
            raise InputError(
                "an account needs a printable name of at most 64 characters without ':' and a password of 8 or more"
            )
        if self.by_password(name, password) == account:
            return
        salt = secrets.token_bytes(16)
        secret = f"{b64encode(salt).decode()}${b64encode(_scrypt(password, salt)).decode()}"
        with self._lock, self.store.transaction():
            if account.tenant and not self.store.db.execute(TENANT, (account.tenant,)).fetchall():
                raise NotThere(f"tenant {account.tenant[:64]!r} does not exist; create it first")
            before = self.store.db.execute("SELECT tenant FROM account WHERE name = ?", (name,)).fetchone()
            if before is not None and before[0] != account.tenant:
                self._leave(name)
            self.store.db.execute("DELETE FROM token WHERE name = ?", (name,))
            self.store.db.execute(
                "INSERT OR REPLACE INTO account VALUES (?, ?, ?, ?)",
                (account.name, account.role, account.tenant, secret),
            )
            self._right.clear()

    def remove(self, name: str) -> None:
        """Remove an account and its tokens. In the log of changes, ``:former`` is appended to the name of the account,
        because a new account may get the same name. Raises :class:`NotThere`.
        """
        with self._lock, self.store.transaction():
            if not self.store.db.execute("DELETE FROM account WHERE name = ?", (name,)).rowcount:
                raise NotThere(f"account {name[:64]!r} does not exist")
            self.store.db.execute("DELETE FROM token WHERE name = ?", (name,))
            self._leave(name)
            self._right.clear()

    def _leave(self, name: str) -> None:
        """Rename the owner of the account's changes and request IDs, so that a later account with this name does not
        own them. No account can have the new name, because names contain no colon.
        """
        former = f"{name}:former"
        self.store.db.execute("UPDATE revision SET owner = NULL, actor = ? WHERE actor = ?", (former, name))

    def by_password(self, name: str, password: str) -> Account | None:
        """Return the account if the password is right, otherwise None."""
        with self._checking:  # one at a time, so that simultaneous clients of an account need only one scrypt
            if (account := self.remembered(name, password)) is not None:
                return account
            row = self._find(f"{ACCOUNT} WHERE name = ?", name)
            salt, _, digest = (row[3] if row else "AAAA$AAAA").partition("$")
            got = _scrypt(password, b64decode(salt))
            if row is None or not hmac.compare_digest(got, b64decode(digest)):
                return None
            account = Account(*row)
            with self._lock:
                if row == self._find(f"{ACCOUNT} WHERE name = ?", name):
                    self._right[self._digest(name, password)] = account
            return account

    def remembered(self, name: str, password: str) -> Account | None:
        """Return the account if this password was verified before, otherwise None. Takes microseconds."""
        return self._right.get(self._digest(name, password))

    def _digest(self, name: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{name}:{password}".encode(), "sha256")

    def new_token(self, account: Account) -> str:
        """Create a token of ``account``; only its digest is stored. Raises :class:`Refused` if the account was changed
        after it signed in."""
        token = secrets.token_hex(32)
        with self._lock, self.store.transaction():
            now = self.store.db.execute(f"{ACCOUNT} WHERE name = ?", (account.name,)).fetchone()
            if now is None or now != (account.name, account.role, account.tenant, account.secret):
                raise Refused(f"account {account.name} has changed; sign in again")
            values = _digest(token), account.name, time.time()
            self.store.db.execute("INSERT INTO token VALUES (?, ?, ?)", values)
        return token

    def by_token(self, token: str) -> Account | None:
        """Return the account of a token."""
        row = self._find(f"{ACCOUNT} WHERE name = (SELECT name FROM token WHERE digest = ?)", _digest(token))
        return None if row is None else Account(*row)

    def by_certificate(self, common_name: str) -> Account | None:
        """Return the account named by the common name of a verified client certificate."""
        row = self._find(f"{ACCOUNT} WHERE name = ?", common_name)
        return None if row is None else Account(*row)

    def _find(self, query: str, value: str) -> tuple[Any, ...] | None:
        return next(iter(self.store.read(query, (value,))), None)


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, **COST)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
