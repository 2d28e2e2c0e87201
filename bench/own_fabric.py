"""A running fabric that ends with the program that wanted it, also when that is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["own_fabric"]

PR_SET_PDEATHSIG = 1
"""prctl(2)."""


def _ends_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _stop(signum: int, frame: object) -> None:
    sys.exit(128 + signum)


@contextmanager
def own_fabric(text: str, *options: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """(its folder, the environment of programs on it) of ``softib up`` with the fabric file ``text``. SIGTERM and SIGHUP unwind as Ctrl-C does; after SIGKILL the kernel
    ends the fabric."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    with tempfile.TemporaryDirectory(prefix="softib-bench-") as name:
        folder, env = Path(name), {**os.environ, "XDG_RUNTIME_DIR": name}
        (folder / "f.yaml").write_text(text)
        command = [sys.executable, "-m", "softib", "up", "f.yaml", *options]
        log = folder / "up.log"
        with log.open("w") as said:
            daemon = subprocess.Popen(command, cwd=name, env=env, stderr=said, preexec_fn=_ends_with_parent)
        try:
            while "ready in" not in log.read_text():
                if daemon.poll() is not None:
                    raise SystemExit(f"softib up ended with {daemon.returncode}: {log.read_text()}")
                time.sleep(0.05)
            yield folder, env
        finally:
            daemon.terminate()
            try:
                daemon.wait(timeout=30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
