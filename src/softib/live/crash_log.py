"""Reports of bugs of softib in a running fabric: one line goes to stderr, the traceback goes to the log, and the fabric
keeps running."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

__all__ = ["CrashLog", "ReportBug", "raised", "say"]

ReportBug = Callable[[str], None]
"""A function that is called inside an ``except`` block, with a description of the failed operation."""
MOST_TRACEBACKS = 50
"""Maximum number of logged tracebacks, so that a bug triggered by every MAD does not fill the disk."""


def say(text: str) -> None:
    """Print one line on stderr, which is the log of a detached daemon. If the file system is full,
    the line is lost, but the fabric keeps running."""
    with contextlib.suppress(OSError):
        print(f"softib: {text}", file=sys.stderr, flush=True)


def raised(doing: str) -> None:
    """Raise the present exception again: the report of a bug if there is no log."""
    raise


class CrashLog:
    """A log of tracebacks in ``log``; ``count`` is their number, ``last`` the text of the latest one."""

    def __init__(self, log: Path):
        self.log, self.count, self.last = log, 0, ""

    def __call__(self, doing: str) -> None:
        self.count += 1
        error = sys.exc_info()[1]
        self.last = f"{type(error).__name__} while {doing}: {' '.join(str(error).split())[:200]}"
        if self.count > MOST_TRACEBACKS:
            return
        line = f"this is a bug in softib: {self.last}; please report; traceback in {self.log}"
        try:
            fd = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "w") as file:
                file.write(f"softib: {line}\n{traceback.format_exc()}")
            if _same_file(self.log):
                return  # stderr is the log file
        except OSError as problem:
            line += f" (which cannot be written: {problem.strerror})"
        say(line)


def _same_file(path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(sys.stderr.fileno()), path.stat())
    except (OSError, ValueError, AttributeError):
        return False
