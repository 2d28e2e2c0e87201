"""GET requests to an ASGI application, without a socket."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import unquote


class Client:
    """``Client(app).get("/api/v1/nodes?limit=1")`` → (status, document)."""

    def __init__(self, app: Any):
        self.app = app

    def get(self, path: str) -> tuple[int, Any]:
        place, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": unquote(place),
            "raw_path": place.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"localhost")],
            "server": ("localhost", 80),
            "client": ("127.0.0.1", 1),
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        asyncio.run(self.app(scope, receive, send))
        return sent[0]["status"], json.loads(b"".join(m.get("body", b"") for m in sent[1:]))
