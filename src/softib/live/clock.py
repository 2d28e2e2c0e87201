"""The clock of everything that runs: monotonic, in picoseconds."""

from __future__ import annotations

import time

__all__ = ["clock_ps"]


def clock_ps() -> int:
    """The monotonic wall clock in picoseconds."""
    return time.monotonic_ns() * 1000
