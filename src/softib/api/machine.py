"""Capabilities of this machine, and compilation of kernels in advance."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from softib.api.running.serving import READY, READY_FD
from softib.errors import PeerError
from softib.jit import ALWAYS_COMPILE
from softib.live.launch.child_watchdog import end_with_parent
from softib.scratch import scratch_folder

if TYPE_CHECKING:
    from softib.live.launch.doctor import Check

__all__ = ["CompiledKernels", "compile_kernels", "doctor"]

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
    (("up", "tree.yaml", "--name", NAME), ("down", NAME)),
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
"""Commands to run. The commands of a row run in order, and rows run in parallel; ``up`` keeps running during the
next command. Exit code 1 (findings in the ring) is expected."""


def doctor() -> list[Check]:
    """Check what this machine can run. Each result has a ``name``, a ``state``, its purpose (``what``), and how to fix
    it (``mend``). The state is ``ok``, ``absent`` (a feature does not work without it) or ``missing`` (softib does not
    work without it). It makes no changes and does not need root."""
    from softib.live.launch.doctor import checks

    return list(checks())


class CompiledKernels(NamedTuple):
    """The compiled kernels of this machine."""

    kernels: int
    """Number of kernels in the folder."""
    folder: Path


def compile_kernels(progress: Callable[[str], None] = lambda text: None) -> CompiledKernels:
    """Compile the kernels that every fabric needs, for this machine's processor type and these
    versions of Python, NumPy and Numba; return the number of kernels and their folder. A wheel cannot contain them,
    because machine code depends on the processor, and pip runs nothing at installation. The function runs the main
    commands on small fabrics in separate processes. Raises :class:`PeerError` with the message of a failed command.
    """
    from softib.jit import cache_dir

    with scratch_folder("compile") as folder:
        (folder / "tree.yaml").write_text(TREE)
        (folder / "ring.yaml").write_text(RING)
        _run(folder, progress)
    kept = list(cache_dir().glob("*")) if cache_dir().is_dir() else []
    return CompiledKernels(sum(path.suffix in (".code", ".numba") for path in kept), cache_dir())


def _run(folder: Path, progress: Callable[[str], None]) -> None:
    """Run every row of :data:`JOBS`, in parallel if there are enough processors. Child processes
    end with this process."""
    began = time.monotonic()
    env = {**os.environ, ALWAYS_COMPILE: "always", "XDG_RUNTIME_DIR": str(folder), "TMPDIR": str(folder)}
    rows = [list(row) for row in JOBS]
    running: dict[int, _Job] = {}
    fabrics: list[_Job] = []
    most = max(1, min(len(rows), len(os.sched_getaffinity(0))))
    try:
        while running or any(rows):
            for i, row in enumerate(rows):
                if row and i not in running and len(running) < most:
                    running[i] = _Job(row.pop(0), folder, env)
            time.sleep(0.1)
            progress(f"compiling kernels, stored for later runs: {time.monotonic() - began:.0f} s")
            for i, job in list(running.items()):
                if job.is_ready():
                    fabrics.append(running.pop(i))
                elif job.process.poll() is not None:
                    running.pop(i).finish()
        for fabric in fabrics:  # ``softib down`` has ended its fabric
            fabric.finish()
    except BaseException:
        for job in (*running.values(), *fabrics):
            job.process.terminate()
            job.process.wait()
        raise
    finally:
        progress("")


class _Job:
    """A command of :data:`JOBS` in a process that ends with this one."""

    def __init__(self, args: tuple[str, ...], folder: Path, env: dict[str, str]):
        self.verb, self.output = " ".join(args), folder / f"{'-'.join(args).replace('/', '_')}.log"
        read, write = os.pipe()
        os.set_blocking(read, False)
        self._ready = read
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "softib", *args],
                cwd=folder,
                env={**env, READY_FD: str(write)},
                stdout=output,
                stderr=output,
                pass_fds=(write,),
                preexec_fn=end_with_parent,
            )
        os.close(write)

    def is_ready(self) -> bool:
        """Return whether the fabric that the command runs is ready."""
        try:
            return READY in os.read(self._ready, 1 << 16)
        except BlockingIOError:
            return False

    def finish(self) -> None:
        """Raise :class:`PeerError` with the last line of a command that failed."""
        code = self.process.wait()
        os.close(self._ready)
        if code not in (0, 1):
            lines = self.output.read_text(errors="replace").strip().splitlines() or [f"exit {code}"]
            raise PeerError(f"softib {self.verb}: {lines[-1]}")
