"""What all parts of communication management stand on: names of connections, messages that go out, and timers."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from softib.cm.endpoint import Endpoint, Event, State
from softib.cm.fields import Timing

__all__ = ["Core", "OutgoingMad", "Unread", "nothing_unread"]

MS_PS = 1_000_000_000
TIMING = Timing()
Unread = Callable[[int], "Callable[[], bool] | None"]
"""Of a QPN: what says whether the completions that its queues hold now are still there; None when they hold none."""


def nothing_unread(qpn: int) -> Callable[[], bool] | None:
    """Where there is no data path."""
    return None


class OutgoingMad(NamedTuple):
    """A MAD that leaves ``port`` for ``dlid``. ``pkey`` 0: whichever stands first in the port's table."""

    port: int
    dlid: int
    sl: int
    pkey: int
    mad: bytes


class Core:
    """``listener(port, service_id)`` finds who listens; ``child(listener)`` makes the id of a request;
    ``tell(endpoint, event, status, fields)`` reports; ``guid(port)`` is a port's NodeGUID; ``unread(qpn)`` says whether
    completions wait for the program of a queue pair."""

    def __init__(
        self,
        listener: Callable[[int, int], Endpoint | None],
        child: Callable[[Endpoint], Endpoint],
        tell: Callable[[Endpoint, Event, int, dict[str, Any]], None],
        guid: Callable[[int], int],
        timing: Timing = TIMING,
        unread: Unread = nothing_unread,
    ):
        self.listener, self.child, self.tell, self.guid, self.timing = listener, child, tell, guid, timing
        self.unread = unread
        self.outbox: deque[OutgoingMad] = deque()
        self.now_ps = 0
        self.by_id: dict[int, Endpoint] = {}
        """By our comm ID."""
        self.by_peer: dict[tuple[int, int], Endpoint] = {}
        """By NodeGUID and comm ID of who asked (of SIDR: the negative LID and the request's ID)."""
        self.early: dict[Endpoint, Any] = {}
        """Requests that wait for a listener (:mod:`softib.cm.early_requests`)."""
        self.releases: dict[Endpoint, Any] = {}
        """DREQs that wait for the program (:mod:`softib.cm.release`), by the connection's id."""
        self._timers: list[tuple[int, int, Endpoint]] = []
        self._serial = 0
        self._last_id = 0

    def deadline_ps(self) -> int | None:
        """When the first timer runs off."""
        while self._timers and self._timers[0][2].timer != self._timers[0][1]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _name(self, e: Endpoint) -> None:
        """Our comm ID."""
        while True:
            self._last_id = self._last_id % 0xFFFFFFFF + 1
            if self._last_id not in self.by_id:
                break
        e.comm_id = self._last_id
        self.by_id[e.comm_id] = e

    def _answered(self, e: Endpoint) -> None:
        if e.listener is not None and e.state in (State.REQ_RCVD, State.SIDR_REQ_RCVD):
            e.listener.waiting -= 1
            e.listener = None

    def _forget(self, e: Endpoint) -> None:
        """No message is for it any more."""
        self._answered(e)
        self._stop(e)
        e.state = State.IDLE
        self.early.pop(e, None)
        self.releases.pop(e, None)
        if self.by_id.get(e.comm_id) is e:
            del self.by_id[e.comm_id]
        key = (e.peer_guid, e.peer_comm_id)
        if self.by_peer.get(key) is e:
            del self.by_peer[key]

    def answer_stray(self, port: int, slid: int, mad: bytes) -> None:
        """To somebody whom nobody here knows."""
        self.outbox.append(OutgoingMad(port, slid, 0, 0, mad))

    def _post(self, e: Endpoint, mad: bytes) -> None:
        assert e.path is not None
        self.outbox.append(OutgoingMad(e.port, e.path.dlid, e.path.sl, e.path.pkey, mad))

    def _ask(self, e: Endpoint, mad: bytes) -> None:
        """Send, and again until it is answered."""
        e.reply, e.tries = mad, self.timing.retries
        self._post(e, mad)
        self._wait(e, self.timing.response_ms)

    def _wait(self, e: Endpoint, ms: int) -> None:
        self._serial += 1
        e.timer = self._serial
        heapq.heappush(self._timers, (self.now_ps + ms * MS_PS, e.timer, e))

    def _stop(self, e: Endpoint) -> None:
        e.timer = 0
