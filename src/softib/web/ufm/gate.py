"""Access control of the REST interfaces that change something: their paths, accounts, and the size limit of a request.

UFM has three prefixes that differ in how a client identifies itself: ``/ufmRest`` by name and password, ``/ufmRestV2``
by a client certificate, ``/ufmRestV3`` by a token. A browser that has a name and a password sends them with the
requests of every site, so a request from another site's page must not change anything.
"""

from __future__ import annotations

import binascii
import json
import logging
from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import Any

from softib.foreign_text import shown
from softib.tenants.accounts import Account, Accounts
from softib.tenants.store import Unavailable

__all__ = ["CERTIFICATE", "MOST_OCTETS", "Gate"]

LOG = logging.getLogger("softib.tenants")
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PREFIXES = ("/ufmRestV3", "/ufmRestV2", "/ufmRest", "/tenants/v1")
PAGE = "/tenants/v1"
"""The prefix whose credentials are also accepted for the page."""
BY_NAME = ("/ufmRest", "/tenants/v1")
"""Prefix of the requests that accept a name and a password."""
TENANTS = {
    True: ("/tenants", "/partitions", "/tokens", "/openapi.json"),
    False: (
        "/resources",
        "/actions/remove_guids_from_pkey",
        "/app/ufm_version",
        "/app/tokens",
        "/app/jobs",
        "/jobs",
        "/healthcheck",
        "/openapi.json",
    ),
}
"""Paths that an account of a tenant may use, below ``/tenants/v1`` (True) and UFM's prefixes.
Neutron's paths are identified by their second part."""
READS = ("/isolation", "/tokens", "/app/tokens")
"""Paths whose POST changes no partition: accounts that may only read can also send it."""
MOST_OCTETS = 4 << 20
"""Maximum size of a request's body: 5,000 GUIDs are 100 KB."""
CERTIFICATE = "softib_client"
"""Key of ``scope["state"]``: the common name of the verified client certificate."""


class Gate:
    """An ASGI wrapper: requests below the prefixes go to ``ufm`` or ``tenants``, all others to
    ``outer``. With ``guards``, these others need an account that does not belong to a tenant;
    otherwise ``outer`` checks its token."""

    def __init__(self, ufm: App, tenants: App, outer: App, accounts: Accounts, guards: bool):
        self.ufm, self.tenants, self.outer, self.accounts, self.guards = ufm, tenants, outer, accounts, guards

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        prefix = next((p for p in PREFIXES if _below(scope.get("path", ""), p)), None)
        if scope["type"] != "http" or (prefix is None and not self.guards):
            await self.outer(scope, receive, send)
            return
        headers = {k.lower(): v.decode("latin-1") for k, v in scope["headers"]}
        account = self._remembered(prefix or PAGE, headers, scope)
        if account is None:
            try:
                account = await _in_thread(self._account, prefix or PAGE, headers, scope)
            except Unavailable as error:
                await _answer(scope, send, 503, str(error))
                return
        if prefix is None:
            await self._look(scope, receive, send, account)
            return
        path = scope["path"][len(prefix) :].rstrip("/") or "/"
        if account is None and (prefix, path) != ("/tenants/v1", "/openapi.json"):
            await _answer(
                scope, send, 401, "missing or wrong credentials: give name and password, token or client certificate"
            )
            return
        if scope["method"] not in ("GET", "HEAD") and _is_of_another_site(headers):
            await _answer(scope, send, 403, "the page of another site sent this; send it with a program")
            return
        reads = scope["method"] in ("GET", "HEAD") or path in READS
        if account is not None and not reads and not account.changes:
            await _answer(scope, send, 403, f"{account.name} may only read")
            return
        if account is not None and account.role == "tenant" and not _is_open_to_tenants(prefix, path):
            await _answer(scope, send, 403, f"{account.name} is an account of a tenant; this call is for operators")
            return
        body = await _body(headers, receive)
        if body is None:
            await _answer(
                scope, send, 413, f"the body is larger than {MOST_OCTETS >> 20} MB; send the GUIDs in several requests"
            )
            return
        if not _is_text(body):
            await _answer(
                scope, send, 400, "the body has half of a UTF-16 surrogate pair; send text that UTF-8 can hold"
            )
            return
        state = {**scope.get("state", {}), "account": account, "body": body, "prefix": prefix}
        inside = {**scope, "path": path, "raw_path": path.encode(), "root_path": "", "state": state}
        await (self.tenants if prefix == "/tenants/v1" else self.ufm)(inside, _replayed(body), send)

    async def _look(self, scope: Scope, receive: Receive, send: Send, account: Account | None) -> None:
        """Serve the page and its interface. They show the fabric of all tenants, so accounts of tenants are
        refused."""
        if account is None:
            await _answer(scope, send, 401, "missing or wrong credentials: give the name and password of an account")
        elif account.role == "tenant":
            await _answer(scope, send, 403, f"{account.name} is an account of a tenant; this page is for operators")
        else:
            await self.outer(scope, receive, send)

    def _remembered(self, prefix: str, headers: dict[bytes, str], scope: Scope) -> Account | None:
        """Return the account for a name and password that were verified before; this needs neither a thread nor the
        database."""
        kind, _, value = headers.get(b"authorization", "").partition(" ")
        if prefix not in BY_NAME or kind.lower() != "basic" or CERTIFICATE in scope.get("state", {}):
            return None
        pair = _pair(value.strip())
        return None if pair is None else self.accounts.remembered(*pair)

    def _account(self, prefix: str, headers: dict[bytes, str], scope: Scope) -> Account | None:
        kind, _, value = headers.get(b"authorization", "").partition(" ")
        kind, value = kind.lower(), value.strip()
        name = scope.get("state", {}).get(CERTIFICATE)
        account = self.accounts.by_certificate(name) if name else None
        if account is not None and prefix != "/ufmRestV3":
            return account
        if prefix != "/ufmRest" and kind in ("basic", "bearer") and value and prefix != "/ufmRestV2":
            # Clients send the token itself, or as the name in a Basic pair without a password.
            pair = _pair(value)
            for token in (value, pair[0] if pair and not pair[1] else ""):
                if token and (account := self.accounts.by_token(token)) is not None:
                    return account
        if prefix in BY_NAME and kind == "basic":
            pair = _pair(value)
            return None if pair is None else self.accounts.by_password(*pair)
        return None


def _is_of_another_site(headers: dict[bytes, str]) -> bool:
    """Return whether the request comes from another site according to the browser (Fetch Metadata;
    Origin, RFC 6454 7.3). Programs send neither header."""
    origin, host = headers.get(b"origin"), headers.get(b"host", "")
    return headers.get(b"sec-fetch-site", "none") not in ("none", "same-origin") or (
        origin is not None and origin.partition("://")[2] != host
    )


def _below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix + "/")


def _is_open_to_tenants(prefix: str, path: str) -> bool:
    if prefix != "/tenants/v1" and path.split("/")[2:3] in (["Network"], ["Port"]):
        return True
    return any(_below(path, one) for one in TENANTS[prefix == "/tenants/v1"])


def _pair(value: str) -> tuple[str, str] | None:
    """Name and password of HTTP's Basic scheme."""
    try:
        name, colon, password = b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (name, password) if colon else None


async def _body(headers: dict[bytes, str], receive: Receive) -> bytes | None:
    """Return the whole body; None if it is too large, in which case the rest is not read."""
    stated = headers.get(b"content-length", "0")
    if not stated.isdigit() or len(stated) > 12 or int(stated) > MOST_OCTETS:
        return None
    parts, size, unfinished = list[bytes](), 0, True
    while unfinished:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        parts.append(message.get("body", b""))
        size, unfinished = size + len(parts[-1]), bool(message.get("more_body"))
        if size > MOST_OCTETS:
            return None
    return b"".join(parts)


def _is_text(body: bytes) -> bool:
    """Return whether UTF-8 can encode the text of a JSON body. JSON can escape half of a surrogate pair (U+D800),
    which neither the database nor an answer can store. Other flaws are handled by the application."""
    if b"\\ud" not in body.lower():
        return True
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    except (ValueError, RecursionError):
        return True
    return True


def _replayed(body: bytes) -> Receive:
    sent = False

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _in_thread(function: Callable[..., Any], *values: Any) -> Any:
    from starlette.concurrency import run_in_threadpool

    return await run_in_threadpool(function, *values)


async def _answer(scope: Scope, send: Send, status: int, text: str) -> None:
    LOG.warning("%s %s: %d: %s", scope["method"], shown(scope["path"]), status, text)
    body = json.dumps({"error": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b'Basic realm="softib"'))
    if status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
