"""Clocks of running programs: a monotonic clock in picoseconds, and a clock with the time of day that never goes
backwards."""

from __future__ import annotations

import time

__all__ = ["SteadyClock", "clock_ps"]


class SteadyClock:
    """A clock that returns nanoseconds since 1970: the wall clock at the creation of the object, plus the monotonic
    time since then. A change of the system clock affects only objects created later."""

    def __init__(self) -> None:
        self._wall, self._since = time.time_ns(), time.monotonic_ns()

    def __call__(self) -> int:
        return self._wall + time.monotonic_ns() - self._since

    def seconds(self) -> float:
        """Return the seconds since 1970."""
        return self() / 1e9


def clock_ps() -> int:
    """Return the monotonic clock in picoseconds."""
    return time.monotonic_ns() * 1000
