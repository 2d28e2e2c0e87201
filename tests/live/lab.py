"""What tests of this package share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.node_finder import default_port
from softib.live.instances import running
from softib.mad.batch import MadBatch
from tests.live.serving import PRELOAD

FABRIC = "name: {name}\ngeneration: HDR\ntopology: {{kind: fat-tree, radix: 4, levels: 2}}\n"

stock_preload = pytest.mark.skipif(not PRELOAD.is_file(), reason="libumad2sim.so (ibsim-utils) is absent")


class Softib:
    """The command line with a runtime directory of its own."""

    def __init__(self, folder: Path):
        self.folder = folder
        source = str(Path(__file__).resolve().parents[2] / "src")
        (folder / "run").mkdir(mode=0o700)
        self.env = {**os.environ, "XDG_RUNTIME_DIR": str(folder / "run"), "PYTHONPATH": source}
        for name in ("one", "two"):
            (folder / f"{name}.yaml").write_text(FABRIC.format(name=name))
        self.started: list[subprocess.Popen] = []

    def words(self, *args: str) -> list[str]:
        return [sys.executable, "-m", "softib.cli.main", *args]

    def __call__(self, *args: str, code: int = 0) -> str:
        done = subprocess.run(
            self.words(*args), env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == code, (args, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        if code == 2:
            assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        return done.stdout + done.stderr

    def status(self, *name: str) -> list[dict]:
        done = subprocess.run(
            self.words("status", *name, "--json"), env=self.env, capture_output=True, text=True, timeout=240
        )
        return json.loads(done.stdout)["fabrics"]

    def start(self, *args: str) -> subprocess.Popen:
        """In the foreground, until it says that it is ready."""
        one = subprocess.Popen(
            self.words("up", *args), env=self.env, cwd=self.folder, stderr=subprocess.PIPE, text=True
        )
        self.started.append(one)
        until_ready(one)
        return one


def until_ready(up: subprocess.Popen[str]) -> None:
    """Read what ``softib up`` says until it is ready; where it takes more than some seconds, it reports its progress before that."""
    lines = [""]
    while "ready in" not in lines[-1]:
        lines.append(up.stderr.readline())
        assert lines[-1], "".join(lines)


@contextmanager
def softib_in(folder: Path) -> Iterator[Softib]:
    """The command line in ``folder``, until its fabrics are stopped."""
    s = Softib(folder)
    yield s
    for p in s.started:
        p.terminate()  # `softib run` passes it on: a program that it started would outlive a SIGKILL
    for p in s.started:
        try:
            p.wait(20)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
    with patch.dict(os.environ, s.env):
        left = running()
    for one in s.status() if left else ():  # a command for nothing would be a sixth of a second of each test
        os.kill(one["pid"], signal.SIGKILL)


@pytest.fixture
def softib(tmp_path):
    with softib_in(tmp_path) as s:
        yield s


@pytest.fixture(scope="module")
def running_one(tmp_path_factory) -> Iterator[Softib]:
    """Fabric ``one``, which the tests of a file share that leave it as it was: each start is a second of the processor."""
    with softib_in(tmp_path_factory.mktemp("one")) as s:
        s.start("one.yaml", "--name", "one")
        yield s


def said(command: Softib, *words: str, code: int | None = 0) -> dict:
    """The JSON on stdout."""
    done = subprocess.run(
        command.words(*words, "--json"),
        env=command.env,
        cwd=command.folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert code is None or done.returncode == code, (words, done.returncode, done.stdout[-500:], done.stderr)
    return json.loads(done.stdout)


class Plane:
    """A wire to a fabric's agents. ``silent``: answers of this node never arrive."""

    def __init__(self, fabric, silent: int = -1):
        self.fabric, self.plane, self.port = fabric, AgentPlane(fabric), default_port(fabric)
        self.silent, self.methods = silent, set()

    def exchange(self, outbox: MadBatch | None = None) -> MadBatch | None:
        if outbox is None or not len(outbox):
            return None
        self.methods |= set(outbox.mad[:, 3].tolist())
        inbox = self.plane.send(outbox, self.port, 0)
        if self.silent >= 0:
            ends = [self._end(mad) for mad in inbox.mad]
            inbox = inbox[np.array([e != self.silent for e in ends], bool)]
        return inbox if len(inbox) else None

    def _end(self, mad: np.ndarray) -> int:
        """Node at the end of a directed route."""
        f = self.fabric
        node = int(f.port_node[self.port])
        for i in range(1, int(mad[7]) + 1):
            node = int(f.port_node[f.port_peer[f.port(node, int(mad[128 + i]))]])
        return node

    def wait(self, timeout_s: float) -> bool:
        return False
