"""Programs under the stock preload library: ended when their fabric has died, as they would wait for it without
end, and the folders that they leave.

The library makes ``sys-<pid>`` in the current directory of each program and removes it at exit; a
program that is killed leaves it. ``softib run`` checks from time to time in which directories its programs are, and
removes the folders of the dead at the end.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from softib.live.instances import Instance
from softib.live.proc import descendants, has_ended, working_directory

__all__ = ["StaleDirs", "living", "wait_with"]


NAME = re.compile(r"sys-(\d+)")
PR_SET_CHILD_SUBREAPER = 36
PATIENCE_S = 0.3
"""How long :meth:`StaleDirs.sweep` waits in all for processes that are ending."""
CLOCK_SLACK_S = 2.0
"""File times lag the clock by a tick of the kernel or the unit of the file system."""


class StaleDirs:
    """Remembers the working directories of the descendants of this process. :meth:`look` while they run,
    :meth:`sweep` at the end."""

    def __init__(self) -> None:
        self.began = time.time() - CLOCK_SLACK_S
        self.folders = {os.getcwd()}
        self.patience = 0.0
        # Orphans become children of this process instead of init's, so that they remain its descendants.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def look(self) -> None:
        """Remember the current directories of all descendants."""
        for pid in (os.getpid(), *descendants(os.getpid())):
            folder = working_directory(pid)
            if folder is not None:
                self.folders.add(folder)

    def sweep(self) -> None:
        """Remove the folders of processes that have ended."""
        self.patience = time.monotonic() + PATIENCE_S
        for folder in self.folders:
            try:
                entries = list(os.scandir(folder))
            except OSError:
                continue
            for entry in entries:
                hit = NAME.fullmatch(entry.name)
                if hit and self._is_left(entry, int(hit[1])):
                    shutil.rmtree(entry.path, ignore_errors=True)

    def _is_left(self, entry: os.DirEntry[str], pid: int) -> bool:
        try:
            info = entry.stat(follow_symlinks=False)
        except OSError:
            return False
        if not entry.is_dir(follow_symlinks=False) or info.st_uid != os.getuid() or info.st_mtime < self.began:
            return False
        if not set(os.listdir(entry.path)) <= {"sys", "dev", "class", "issm", "umad"}:
            return False  # another program's folder of the same name
        return self._has_ended(pid)

    def _has_ended(self, pid: int) -> bool:
        """Return whether the process has ended (a zombie has not). One just killed gets a moment, once."""
        while not has_ended(pid):
            if time.monotonic() > self.patience:
                return False
            time.sleep(0.02)
        return True


LOOK_S = 1.0
GRACE_S = 5.0
"""Time for a program to end by itself, and then after SIGTERM."""


def living(instance: Instance) -> Callable[[], bool]:
    """Return a function that is true as long as the daemon that has ``instance`` now runs (not
    another one of the name)."""

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
    """Return the child's exit code. The child and its descendants are terminated if they outlive
    ``alive``, with one line. ``look`` is called every ``every_s`` seconds."""
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
