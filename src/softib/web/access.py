"""Controls read access. On loopback every user of this machine has access; on other addresses only clients with the
token. The threat model is in docs/security.md.

A page of another site can send requests to loopback, and can read the answers if it maps a name to 127.0.0.1. Therefore
the Host header must be a name for which the server was started.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from base64 import b64encode
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs

__all__ = ["Access", "is_loopback", "new_token", "policy_of"]

Scope = dict[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]

COOKIE = "softib_token"
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'self'; "
        b"base-uri 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
"""Headers of every answer. They forbid external resources, and frames of other sites, and keep the token out of the
Referer that other sites receive. An answer may have a different policy.
"""


def new_token() -> str:
    """Return 256 random bits as text."""
    return secrets.token_urlsafe(32)


def is_loopback(host: str) -> bool:
    """Return whether ``host`` (an address, or ``localhost``) is reachable only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def policy_of(page: str) -> str:
    """Return the Content-Security-Policy of a softib page with embedded scripts, which permits only these scripts,
    by their hashes (CSP level 2, hash sources)."""
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = " ".join(f"'sha256-{b64encode(sha256(s.encode()).digest()).decode()}'" for s in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src 'self' data:; frame-src "
        f"'self'; frame-ancestors 'self'; base-uri 'none'"
    )


class Access:
    """An ASGI wrapper that refuses methods that change something, foreign Host headers, and, with
    ``token``, clients without it.

    The token arrives as ``Authorization: Bearer TOKEN``, or once as ``?token=TOKEN``, and is then kept in a cookie
    (HttpOnly, SameSite=Strict). ``hosts`` are the accepted names (without port); an empty list accepts all names, for a
    server with a token.
    """

    def __init__(self, app: App, token: str | None, hosts: frozenset[str]):
        self.app, self.token, self.hosts = app, token, hosts

    async def __call__(
        self, scope: Scope, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {k.lower(): v.decode("latin-1") for k, v in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _answer(send, *refusal)
            return
        cookie = self._cookie(scope)
        head = scope["method"] == "HEAD"
        if head:  # for health checks; the routes support only GET (RFC 9110 9.3.2)
            scope = {**scope, "method": "GET"}

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = message.get("headers", [])
                names = {name for name, _ in given}
                added = [(name, value) for name, value in HEADERS if name not in names]
                message = {**message, "headers": [*given, *added, *cookie]}
            elif head:
                message = {**message, "body": b""}
            await send(message)

        await self.app(scope, receive, with_headers)

    def _refusal(self, scope: Scope, headers: dict[bytes, str]) -> tuple[int, str] | None:
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "this server is read-only"
        if self.hosts and _name(headers.get(b"host", "")) not in self.hosts:
            return 421, f"not served under this name; use {' or '.join(sorted(self.hosts))}"
        if self.token is not None and not any(
            hmac.compare_digest(t.encode(), self.token.encode()) for t in _tokens(scope, headers)
        ):
            return 401, "a token is missing or wrong: Authorization: Bearer TOKEN, or ?token=TOKEN once in a browser"
        return None

    def _cookie(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        if self.token is None or b"token=" not in scope["query_string"]:
            return []
        return [(b"set-cookie", f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/".encode())]


def _tokens(scope: Scope, headers: dict[bytes, str]) -> list[str]:
    kind, _, bearer = headers.get(b"authorization", "").partition(" ")
    tokens = [bearer] if kind.lower() == "bearer" else []
    for one in headers.get(b"cookie", "").split(";"):  # RFC 6265 5.4; a part that is not a pair is skipped
        name, mark, value = one.strip().partition("=")
        tokens += [value.strip('"')] if mark and name == COOKIE else []
    return tokens + parse_qs(scope["query_string"].decode("latin-1")).get("token", [])


def _name(host: str) -> str:
    """Return a Host header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


async def _answer(send: Callable[[Any], Awaitable[None]], status: int, text: str) -> None:
    body = f"{text}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()), *HEADERS]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
