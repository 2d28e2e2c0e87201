"""Label and taint for a Kubernetes node, set through the API (core/v1 Node, JSON merge patch, RFC 7386)."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from softib.errors import InputError, PeerError
from softib.foreign_text import shown
from softib.input_files import read_text

__all__ = ["KEY", "Api", "mark_node"]

KEY = "softib.io/node-check"
"""Label and key of the taint."""
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LIMIT_S = 10.0
MOST = 16 << 20
TRIES = 4
"""Number of attempts to patch a node that another client changes at the same time (409)."""


class Api:
    """``url``: the API server; if empty, the server of the pod in which this process runs, with the pod's service
    account. ``token``: the path of a file. Raises :class:`InputError` if ``url`` is empty and the process runs in no
    pod."""

    def __init__(self, url: str = "", token: str | os.PathLike[str] = ""):
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not url and not host:
            raise InputError(
                "this is not a Kubernetes pod; set the address of the API server with --api, for example that of "
                "kubectl proxy"
            )
        self.url = (url or f"https://{f'[{host}]' if ':' in host else host}:{port}").rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise InputError(f"{shown(self.url)}: use an address that begins with http:// or https://")
        secret = Path(token) if token else ACCOUNT / "token"
        self.token = read_text(secret, "token", 1 << 16).strip() if token or (not url and secret.exists()) else ""
        authority = ACCOUNT / "ca.crt"
        self.context = None
        if self.url.startswith("https://"):
            self.context = ssl.create_default_context(cafile=str(authority) if not url and authority.exists() else None)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer. Raises :class:`Conflict` for 409, :class:`PeerError` for any other
        error."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        request.add_header("Accept", "application/json")
        if data is not None:
            request.add_header("Content-Type", "application/merge-patch+json")
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S, context=self.context) as answer:
                value = json.loads(answer.read(MOST))
        except urllib.error.HTTPError as error:
            if error.code == 409:
                raise Conflict(path) from None
            raise PeerError(f"{self.url}{path}: {method}: {error.code} {shown(str(error.reason))}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise PeerError(f"{self.url}{path}: {method}: {shown(str(reason))}") from None
        if not isinstance(value, dict):
            raise PeerError(f"{self.url}{path}: {method}: the answer is not a JSON object")
        return value


class Conflict(PeerError):
    """Raised if another client changed the object since it was read."""


def mark_node(api: Api, node: str, failed: bool, reason: str) -> bool:
    """Label ``node`` as ``failed`` or ``passed``, and set or remove softib's taint (NoSchedule); other
    taints are kept. Returns whether anything changed. Raises :class:`PeerError`."""
    path = f"/api/v1/nodes/{node}"
    for _ in range(TRIES):
        now = api.call("GET", path)
        metadata, spec = now.get("metadata") or {}, now.get("spec") or {}
        before = spec.get("taints") or []
        others = [t for t in before if t.get("key") != KEY]
        mine = [t for t in before if t.get("key") == KEY]
        if failed:
            mine = mine or [{"key": KEY, "value": "failed", "effect": "NoSchedule"}]
        taints = others + (mine if failed else [])
        value = "failed" if failed else "passed"
        if (metadata.get("labels") or {}).get(KEY) == value and taints == before:
            return False
        patch = {
            "metadata": {
                "resourceVersion": metadata.get("resourceVersion"),
                "labels": {KEY: value},
                "annotations": {f"{KEY}-reason": reason[:500] if failed else None},
            },
            "spec": {"taints": taints or None},
        }
        try:
            api.call("PATCH", path, patch)
        except Conflict:
            continue
        return True
    raise PeerError(
        f"{api.url}{path}: the node was not updated, because other clients changed it during each of {TRIES} tries; "
        f"run the command again"
    )
