"""What of this machine can run what, and kernels compiled beforehand."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from softib.errors import PeerError

if TYPE_CHECKING:
    from softib.live.launch.doctor import Check

__all__ = ["compile_kernels", "doctor"]

TREE = """\
name: compile-tree
topology: {kind: fat-tree, levels: 2, radix: 8, hosts: 32}
sm: {engine: ftree}
"""
RING = """\
name: compile-ring
topology: {kind: ring, switches: 6}
sm: {engine: minhop}
"""
NAME = "softib-compile"
JOBS: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("up", "tree.yaml", "--detach", "--name", NAME), ("down", NAME)),
    (
        ("report", "tree.yaml", "--html", "report.html"),
        ("check", "tree.yaml"),
        ("report", "ring.yaml", "--engine", "minhop"),
        ("route", "ring.yaml", "--engine", "updn"),
        ("route", "tree.yaml", "--engine", "dnup"),
        ("simulate", "tree.yaml", "permutation:64KB"),
        ("simulate", "tree.yaml", "all-to-all:64KB,barrier=yes"),
        ("simulate", "tree.yaml", "shift:64KB", "--layer", "static"),
        ("simulate", "tree.yaml", "shift:64KB", "--layer", "packet"),
    ),
)
"""Commands of which each row runs in its order, beside the others. Exit 1 (findings in the ring) is right."""


def doctor() -> list[Check]:
    """What of this machine can run what: ``name``, ``state`` (``ok``, ``absent``: one thing less, ``missing``: softib needs it),
    ``what`` it is for, and what would ``mend`` it. Looks, changes nothing, needs no root."""
    from softib.live.launch.doctor import checks

    return list(checks())


def compile_kernels(progress: Callable[[str], None] = lambda text: None) -> tuple[int, Path]:
    """Compile what every fabric needs, for this machine's kind of processor and these versions of Python, NumPy and Numba; how many
    kernels are kept now, and where.

    pip runs nothing when it installs a wheel, and machine code holds for one kind of processor, so no wheel can bring it: this
    runs the main commands on small fabrics, in processes of their own. Raises :class:`PeerError` with what one said that failed.
    """
    from softib.jit import cache_dir

    with tempfile.TemporaryDirectory(prefix="softib-compile-") as name:
        folder = Path(name)
        (folder / "tree.yaml").write_text(TREE)
        (folder / "ring.yaml").write_text(RING)
        _run(folder, progress)
    kept = list(cache_dir().glob("*")) if cache_dir().is_dir() else []
    return sum(path.suffix in (".code", ".numba") for path in kept), cache_dir()


def _run(folder: Path, progress: Callable[[str], None]) -> None:
    """Every row of :data:`JOBS`, at once where there are processors for it."""
    began = time.monotonic()
    env = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "TMPDIR": str(folder)}
    rows = [list(row) for row in JOBS]
    running: dict[int, tuple[str, subprocess.Popen[str]]] = {}
    most = max(1, min(len(rows), len(os.sched_getaffinity(0))))
    try:
        while running or any(rows):
            for i, row in enumerate(rows):
                if row and i not in running and len(running) < most:
                    args = row.pop(0)
                    running[i] = " ".join(args), _start(args, folder, env)
            time.sleep(0.1)
            progress(f"compiling kernels, once: {time.monotonic() - began:.0f} s")
            for i, (name, process) in list(running.items()):
                if process.poll() is not None:
                    del running[i]
                    _finish(name, process)
    except BaseException:
        for _, process in running.values():
            process.terminate()
            process.communicate()
        _start(("down", NAME), folder, env).communicate()  # the fabric may run, and its folder goes
        raise
    finally:
        progress("")


def _start(args: tuple[str, ...], folder: Path, env: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "softib", *args],
        cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _finish(verb: str, process: subprocess.Popen[str]) -> None:
    _, text = process.communicate()
    if process.returncode not in (0, 1):
        lines = text.strip().splitlines() or [f"exit {process.returncode}"]
        raise PeerError(f"softib {verb}: {lines[-1]}")
