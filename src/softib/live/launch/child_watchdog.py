"""Programs whose fabric died: the stock preload library waits for ever for a dead daemon, so they
are ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from softib.live.instances import Instance
from softib.live.proc import descendants

__all__ = ["living", "wait_with"]

LOOK_S = 1.0
GRACE_S = 5.0
"""How long a program has to notice by itself, and to end after SIGTERM."""


def living(instance: Instance) -> Callable[[], bool]:
    """A function that is true as long as the daemon that has ``instance`` now lives (not another
    one of the name)."""

    def mark() -> int | None:
        with contextlib.suppress(OSError):
            return instance.control.stat().st_ino
        return None

    first = mark()
    return lambda: instance.held() and mark() == first


def wait_with(
    child: subprocess.Popen[bytes],
    alive: Callable[[], bool],
    look: Callable[[], None] = lambda: None,
    every_s: float = LOOK_S,
) -> int:
    """The child's exit code. It and what it started are terminated where they outlive ``alive``,
    with one line. ``look`` is called every ``every_s`` seconds."""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(every_s)
        look()
        if not alive():
            break
    with contextlib.suppress(subprocess.TimeoutExpired):
        return child.wait(GRACE_S)
    print("softib: the fabric is gone; its programs are ended", file=sys.stderr)
    until = time.monotonic() + GRACE_S
    while child.poll() is None:
        how = signal.SIGTERM if time.monotonic() < until else signal.SIGKILL
        for pid in [*descendants(child.pid), child.pid]:
            with contextlib.suppress(OSError):
                os.kill(pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(LOOK_S)
    return child.returncode
