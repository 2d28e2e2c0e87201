"""The watchdog that ends the programs of ``softib run`` after their fabric has ended, because some programs (OpenSM)
would wait for the fabric forever. It also removes folders left by programs under the stock preload library.

Run as a program (``python -m``, which ``softib-wait`` becomes), it ends the processes with the given numbers.

The stock library makes ``sys-<pid>`` in the current directory of each program and removes it at
exit; a program that is killed leaves it. ``softib run`` records from time to time the directories
in which its programs are. At the end it removes the folders of programs that are dead.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from softib.live.instances import Instance
from softib.live.proc import descendants, has_ended, working_directory

__all__ = [
    "PASSED_ON",
    "StaleDirs",
    "adopt_orphans",
    "control_inode",
    "end",
    "end_with_parent",
    "living",
    "pass_on",
    "wait_with",
]


NAME = re.compile(r"sys-(\d+)")
LIBC = ctypes.CDLL(None)
"""The C library. It is opened here, because a forked child must not take the loader's lock."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PATIENCE_S = 0.3
"""Total time for which :meth:`StaleDirs.sweep` waits for processes that are ending."""
CLOCK_SLACK_S = 2.0
"""Tolerance for file times, which may be earlier than the clock by a tick of the kernel or the resolution of the file
system."""


def adopt_orphans() -> None:
    """Make orphaned descendants children of this process instead of init's, so that they remain its descendants."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent() -> None:
    """Have the kernel send SIGTERM to this process when the thread that started it ends for any reason. Call it in a
    new child; it also works after an exec."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
"""Signals that ``softib run`` passes on to its program."""


def pass_on(send: Callable[[int], None]) -> dict[int, Any]:
    """Call ``send`` with the number of each signal of :data:`PASSED_ON` that this process receives; ignored signals
    stay ignored (``nohup``). Return the previous handlers."""
    return {
        number: signal.signal(number, lambda number, _: send(number))
        for number in PASSED_ON
        if signal.getsignal(number) is not signal.SIG_IGN
    }


class StaleDirs:
    """Records the working directories of this process's descendants: call :meth:`look` while they
    run and :meth:`sweep` at the end."""

    def __init__(self) -> None:
        self.began = time.time() - CLOCK_SLACK_S
        self.folders = {os.getcwd()}
        self.patience = 0.0
        adopt_orphans()

    def look(self) -> None:
        """Record the current directories of all descendants."""
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
            return False  # a folder of another program with the same name
        return self._has_ended(pid)

    def _has_ended(self, pid: int) -> bool:
        """Return whether the process has ended (a zombie has not). A process that was just killed
        gets a short time to end, once."""
        while not has_ended(pid):
            if time.monotonic() > self.patience:
                return False
            time.sleep(0.02)
        return True


LOOK_S = 1.0
POLL_S = 0.05
GRACE_S = 5.0
"""Seconds in which a program may end by itself; after SIGTERM it has the same time again."""


def living(instance: Instance) -> Callable[[], bool]:
    """Return a function that returns True as long as the daemon that has ``instance`` now is alive. (A later daemon
    with the same name does not count.)"""

    first = control_inode(instance)
    return lambda: instance.held() and control_inode(instance) == first


def control_inode(instance: Instance) -> int | None:
    """Return the inode of the control socket, which differs between daemons; None without a socket."""
    with contextlib.suppress(OSError):
        return instance.control.stat().st_ino
    return None


def wait_with(
    child: subprocess.Popen[bytes],
    alive: Callable[[], bool],
    look: Callable[[], None] = lambda: None,
    every_s: float = LOOK_S,
) -> int:
    """Return the child's exit code. If the child and its descendants outlive ``alive``, they are
    terminated, with one line of output. ``look`` is called every ``every_s`` seconds."""
    look_at = time.monotonic() + every_s
    while True:
        if _ended_within(child, min(every_s, LOOK_S)):
            return child.wait()
        if time.monotonic() >= look_at:
            look_at = time.monotonic() + every_s
            look()
        if not alive():
            break
    end([child.pid], lambda: child.poll() is not None)
    return child.wait()


def _ended_within(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the child, without wake-ups in between if the kernel has pidfds (Linux 5.3)."""
    try:
        pidfd = os.pidfd_open(child.pid)
    except OSError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
        return child.returncode is not None
    try:
        waiting = select.poll()
        waiting.register(pidfd, select.POLLIN)
        return bool(waiting.poll(seconds * 1000))
    finally:
        os.close(pidfd)


def end(pids: Sequence[int], ended: Callable[[], bool]) -> None:
    """End ``pids`` and their descendants after their fabric has ended. Processes that have not ended within
    :data:`GRACE_S` get SIGTERM; those that still run after another :data:`GRACE_S` get SIGKILL."""

    def wait(seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not (done := ended()) and time.monotonic() < until:
            time.sleep(POLL_S)
        return done

    if wait(GRACE_S):
        return
    print("softib: the fabric has stopped, so its programs are terminated", file=sys.stderr)
    until = time.monotonic() + GRACE_S
    while not ended():
        how = signal.SIGTERM if time.monotonic() < until else signal.SIGKILL
        for pid in [*(below for top in pids for below in descendants(top)), *pids]:
            with contextlib.suppress(OSError):
                os.kill(pid, how)
        wait(LOOK_S)


def main(pids: Sequence[int]) -> int:
    """End ``pids``; return the exit code of the one that is a child of this process, otherwise 0."""

    def send(number: int) -> None:
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    pass_on(send)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in softib-wait: the program gets it from the terminal
    code, others = 0, set(pids)

    def ended() -> bool:
        nonlocal code
        for pid in list(others):
            try:
                waited, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                waited, status = (pid, 0) if has_ended(pid) else (0, 0)
            if waited:
                code = os.waitstatus_to_exitcode(status)
                others.discard(pid)
        return not others

    end(pids, ended)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]]))
