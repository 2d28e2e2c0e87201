"""Nothing that a command started for itself outlives it, whatever signal ends it. Oracles: /proc, and the folder for temporary files."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

MARK = "SOFTIB_TEST_INTERRUPTED"
TREE = "topology: {kind: fat-tree, radix: 8, levels: 2}\n"
VERBS = {
    "compile": ("compile",),
    "report": ("report", "tree.yaml", "--html", "r.html"),
    "check": ("check", "tree.yaml"),
    "route": ("route", "tree.yaml"),
    "simulate": ("simulate", "tree.yaml", "all-to-all:1MB", "--layer", "packet"),
    "compare": ("compare", "tree.yaml", "permutation:1MB"),
    "up": ("up", "tree.yaml", "--name", "interrupted"),
    "serve": ("serve", "tree.yaml", "--port", "0"),
}
ENDS = {"TERM": signal.SIGTERM, "HUP": signal.SIGHUP, "INT": signal.SIGINT, "KILL": signal.SIGKILL}


def marked(value: str) -> list[int]:
    """Processes that inherited the mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={value}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def interrupt(folder: Path, args: tuple[str, ...], number: int, after_s: float) -> None:
    """Run a command, end it after a time, and look for what does not end with it."""
    (folder / "tree.yaml").write_text(TREE)
    (folder / "tmp").mkdir()
    value = str(folder)
    env = {**os.environ, MARK: value, "TMPDIR": str(folder / "tmp"), "XDG_RUNTIME_DIR": value, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "softib", *args],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        time.sleep(after_s)
        process.send_signal(number)
        out = process.communicate(timeout=60)[0]
        deadline = time.monotonic() + 60
        while marked(value) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not marked(value), out
        assert "Traceback" not in out and "bug in softib" not in out, out
        if number != signal.SIGKILL:
            assert not list((folder / "tmp").iterdir()), out
    finally:
        for pid in marked(value):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("end", ("TERM", "KILL"))
def test_an_interrupted_compile_leaves_no_fabric(tmp_path, end):
    interrupt(tmp_path, VERBS["compile"], ENDS[end], 3.0)


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_nothing_is_left_of_ten_interrupted_runs(tmp_path, verb):
    rng = random.Random(verb)
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        interrupt(folder, VERBS[verb], ENDS[rng.choice(list(ENDS))], rng.uniform(0.1, 6.0))


def test_a_compile_takes_the_folder_of_a_killed_one_away(tmp_path, monkeypatch):
    from softib.api import machine

    monkeypatch.setattr(machine.tempfile, "gettempdir", lambda: str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    for number in (ended.pid, os.getpid()):
        (tmp_path / f"softib-compile-{number}-x").mkdir()
    machine._remove_stale_folders()
    assert [p.name for p in tmp_path.iterdir()] == [f"softib-compile-{os.getpid()}-x"]
