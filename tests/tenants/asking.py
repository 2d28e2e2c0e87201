"""Requests with a body to an ASGI application, without a socket."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any
from urllib.parse import unquote

ADMIN, PASSWORD = "admin", "a long password"


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


class Asking:
    """``ask("POST", "/ufmRest/…", {…})`` → (status, document), as ``authorization`` or the administrator."""

    def __init__(self, app: Any):
        self.app = app

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        authorization: str = "",
        state: dict | None = None,
        raw: list[bytes] | None = None,
        **headers: str,
    ) -> tuple[int, Any]:
        place, _, query = path.partition("?")
        pieces = raw if raw is not None else [b"" if body is None else json.dumps(body).encode()]
        sent_headers = {
            "host": "localhost",
            "content-type": "application/json",
            "authorization": authorization or basic(ADMIN, PASSWORD),
            **headers,
        }
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(place),
            "raw_path": place.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in sent_headers.items()],
            "server": ("localhost", 80),
            "client": ("127.0.0.1", 1),
            "state": dict(state or {}),
        }
        sent: list[dict[str, Any]] = []
        coming = list(pieces)

        async def receive() -> dict[str, Any]:
            if not coming:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": coming.pop(0), "more_body": bool(coming)}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        asyncio.run(self.app(scope, receive, send))
        body_sent = b"".join(m.get("body", b"") for m in sent[1:])
        kind = dict(sent[0]["headers"]).get(b"content-type", b"")
        return sent[0]["status"], json.loads(body_sent) if kind.startswith(b"application/json") else body_sent.decode()
