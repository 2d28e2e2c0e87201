"""Recorded programs: which form a file has, and its schedule."""

from __future__ import annotations

from pathlib import Path

from softib.errors import InputError
from softib.workloads.goal import read_goal
from softib.workloads.schedule import Schedule

__all__ = ["read_trace"]

DUMPI = b"\xff\xaa\xddDUMPI"
REFUSED = (
    (DUMPI, "a DUMPI trace"),
    (b"# htor's PMPI Tracer", "a trace of liballprof"),
    (b"# collprof", "a trace of liballprof"),
)
"""Beginnings of forms that are not read."""
MOST_BYTES = 1 << 32


def read_trace(path: Path) -> Schedule:
    """The schedule of the file ``path``. Raises :class:`InputError` for a file that cannot be read, one line with what would be right."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: {path.stat().st_size:,} bytes; a trace has at most {MOST_BYTES:,}")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from None
    for begin, what in REFUSED:
        if data.startswith(begin):
            raise InputError(f"{path} is {what}, which is not read; convert it to GOAL (schedgen does)")
    return read_goal(path, data)
