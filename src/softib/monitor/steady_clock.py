"""A clock of rounds that never goes back, whatever somebody sets the machine's to."""

from __future__ import annotations

import time

__all__ = ["SteadyClock"]


class SteadyClock:
    """Nanoseconds since 1970: the wall clock when it was made, and what the monotonic clock counted
    since. A clock that is set later shows in the next one that is made."""

    def __init__(self) -> None:
        self._wall, self._since = time.time_ns(), time.monotonic_ns()

    def __call__(self) -> int:
        return self._wall + time.monotonic_ns() - self._since

    def seconds(self) -> float:
        """The same in seconds."""
        return self() / 1e9
