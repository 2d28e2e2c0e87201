"""``softib serve --tenants`` as a child, and a client of its REST."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any


class Served:
    """The server of ``source``; its tenants are in ``folder``. ``ask`` gives (status, document)."""

    def __init__(self, words: list[str], env: dict[str, str], folder: Path):
        self.folder, self._words, self._env = folder, words, env
        self.start()

    def start(self) -> None:
        """Another process goes on with the folder, after ``stop``."""
        words, env = self._words, self._env
        self.child = subprocess.Popen(words, env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        lines: list[str] = []
        while not lines or " at http" not in lines[-1]:
            lines.append(self.child.stderr.readline())  # type: ignore[union-attr]
            assert lines[-1], f"the server has ended: {lines}"
        self.url = lines[-1].rpartition(" at ")[2].strip().rstrip("/")
        self.password = (self.folder / "admin-password").read_text().strip()

    def ask(
        self, method: str, path: str, body: Any = None, user: str = "", timeout: float = 40, **headers: str
    ) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        pair = user or f"admin:{self.password}"
        request = urllib.request.Request(self.url + path, data, method=method)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            request.add_header(name.replace("_", "-"), value)
        request.add_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def programmed(self, limit_s: float = 30) -> dict[str, Any]:
        """The newest revision, when it is more than durable."""
        status, newest = self.ask("GET", "/tenants/v1/revisions?limit=1")
        assert status == 200, newest
        return self.revision(newest[0]["id"], limit_s)

    def revision(self, number: int, limit_s: float = 20) -> dict[str, Any]:
        status, revision = self.ask("GET", f"/tenants/v1/revisions/{number}?wait_s={limit_s}")
        assert status == 200, revision
        return revision

    def until(self, path: str, what, limit_s: float = 40) -> Any:
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            status, found = self.ask("GET", path)
            if status == 200 and what(found):
                return found
            time.sleep(0.1)
        raise AssertionError(f"{path}: {found}")

    def stop(self) -> None:
        self.child.terminate()
        assert self.child.wait(20) == 0
        self.child.stderr.close()  # type: ignore[union-attr]


def smpquery(fabric, node: str, *words: str) -> str:
    return subprocess.run(
        fabric.on(node, "smpquery", *words), env=fabric.env, capture_output=True, text=True, check=True
    ).stdout


def table(fabric, node: str) -> list[str]:
    """The entries of its port's P_Key table, as it reads them itself."""
    return [k for k in re.findall(r"0x[0-9a-f]{4}\b", smpquery(fabric, node, "-D", "pkeys", "0", "1")) if k != "0x0000"]
