"""Time in communication management: how long answers may take, and the timers of endpoints. Time is
an argument."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import IntEnum, auto

from softib.cm.endpoint import Endpoint

__all__ = ["MS_PS", "TIMING", "Timer", "Timers", "Timing", "code_ms"]

MS_PS = 1_000_000_000


def code_ms(code: int) -> int:
    """4.096 us * 2^``code``, as Linux rounds it."""
    return 1 << max(code - 8, 0)


@dataclass(frozen=True)
class Timing:
    """``response``: how long an answer may take, 4.096 us * 2^n; ``retries``: how often a message
    is sent again (CMA_CM_RESPONSE_TIMEOUT and CMA_MAX_CM_RETRIES of Linux,
    drivers/infiniband/core/cma.c); ``service_timeout``: what an MRA asks for (CMA_CM_MRA_SETTING);
    ``early_ms``: how long a request waits for a listener at most; ``unread_ms``: how long a DREQ
    waits at most until its receiver's program has taken the completions that were there before it.
    """

    response: int = 20
    retries: int = 15
    service_timeout: int = 24
    early_ms: int = 250
    unread_ms: int = 100

    @property
    def response_ms(self) -> int:
        """``response`` as Linux counts it, in ms."""
        return code_ms(self.response)

    def hold_ms(self, response: int) -> int:
        """How long to hold a request whose sender waits ``response`` (a code) for an answer."""
        return min(self.early_ms, code_ms(response) // 2)


TIMING = Timing()


class Timer(IntEnum):
    """The two timers that an endpoint may have at once."""

    RESPONSE = auto()  # of an answer, of TimeWait, of a held request
    DREQ_CHECK = auto()  # of a DREQ that is held back until the program has taken its completions


class Timers:
    """Running timers, the first that ends in front. A timer that is started again or stopped leaves
    a dead entry."""

    def __init__(self) -> None:
        self.now_ps = 0
        self._heap: list[tuple[int, int, Endpoint, Timer]] = []
        self._running: dict[tuple[Endpoint, Timer], int] = {}
        self._serial = 0

    def start(self, e: Endpoint, ms: int, timer: Timer = Timer.RESPONSE) -> None:
        """(Re)start ``timer`` of ``e``."""
        self._serial += 1
        self._running[e, timer] = self._serial
        heapq.heappush(self._heap, (self.now_ps + ms * MS_PS, self._serial, e, timer))

    def stop(self, e: Endpoint, timer: Timer = Timer.RESPONSE) -> None:
        """Nothing happens where it does not run."""
        self._running.pop((e, timer), None)

    def deadline_ps(self) -> int | None:
        """When the first timer ends."""
        while self._heap and self._running.get(self._heap[0][2:]) != self._heap[0][1]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self) -> tuple[Endpoint, Timer] | None:
        """A timer whose end is not later than ``now_ps``."""
        due = self.deadline_ps()
        if due is None or due > self.now_ps:
            return None
        _, _, e, timer = heapq.heappop(self._heap)
        del self._running[e, timer]
        return e, timer
