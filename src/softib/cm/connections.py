"""The state that all handlers use: endpoints by their IDs, outgoing MADs, and timers. The time is
passed as an argument."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, auto
from typing import Any, NamedTuple

from softib.cm.endpoint import Endpoint, Event, Path, QpType
from softib.iba.mad_codec import Head

__all__ = [
    "MS_PS",
    "TIMING",
    "Connections",
    "HeldDreq",
    "Message",
    "OutgoingMad",
    "Timer",
    "Timers",
    "Timing",
    "Unread",
    "code_ms",
    "nothing_unread",
]


MS_PS = 1_000_000_000


def code_ms(code: int) -> int:
    """Return 4.096 us * 2^``code`` in ms, rounded as in Linux."""
    return 1 << max(code - 8, 0)


@dataclass(frozen=True)
class Timing:
    """Time limits and retries of communication management.

    * ``response``: time limit for an answer, 4.096 us * 2^n.
    * ``retries``: number of repetitions of a message (CMA_CM_RESPONSE_TIMEOUT and
      CMA_MAX_CM_RETRIES of Linux, drivers/infiniband/core/cma.c).
    * ``service_timeout``: the time that an MRA requests (CMA_CM_MRA_SETTING).
    * ``early_ms``: maximum time for which a request waits for a listener.
    * ``unread_ms``: maximum time for which a DREQ waits until the receiver's program has taken
      earlier completions.
    """

    response: int = 20
    retries: int = 15
    service_timeout: int = 24
    early_ms: int = 250
    unread_ms: int = 100

    @property
    def response_ms(self) -> int:
        """Return ``response`` in ms, as Linux rounds it."""
        return code_ms(self.response)

    def hold_ms(self, response: int) -> int:
        """Return the time for which a request is held whose sender waits ``response`` (a code) for
        an answer."""
        return min(self.early_ms, code_ms(response) // 2)


TIMING = Timing()


class Timer(IntEnum):
    """The two timers of an endpoint, which may both run."""

    RESPONSE = auto()  # for an answer, for TimeWait, or for a held request
    DREQ_CHECK = auto()  # for a DREQ that is held until the program has taken its completions


class Timers:
    """Running timers, ordered by their end. A timer that is restarted or stopped leaves an entry
    that is ignored later."""

    def __init__(self) -> None:
        self.now_ps = 0
        self._heap: list[tuple[int, int, Endpoint, Timer]] = []
        self._running: dict[tuple[Endpoint, Timer], int] = {}
        self._serial = 0

    def start(self, e: Endpoint, ms: int, timer: Timer = Timer.RESPONSE) -> None:
        """Start ``timer`` of ``e``, or restart it."""
        self._serial += 1
        self._running[e, timer] = self._serial
        heapq.heappush(self._heap, (self.now_ps + ms * MS_PS, self._serial, e, timer))

    def stop(self, e: Endpoint, timer: Timer = Timer.RESPONSE) -> None:
        """Stop the timer if it runs."""
        self._running.pop((e, timer), None)

    def deadline_ps(self) -> int | None:
        """Return the time at which the first timer ends; None if no timer runs."""
        while self._heap and self._running.get(self._heap[0][2:]) != self._heap[0][1]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self) -> tuple[Endpoint, Timer] | None:
        """Remove a timer that ended at ``now_ps`` or earlier, and return it; None if there is
        none."""
        due = self.deadline_ps()
        if due is None or due > self.now_ps:
            return None
        _, _, e, timer = heapq.heappop(self._heap)
        del self._running[e, timer]
        return e, timer


Unread = Callable[[int], "Callable[[], bool] | None"]
"""A function from a QPN to a second function, or to None if the QP's completion queues hold no
completions. The second function returns whether the completions that were there are still there."""


def nothing_unread(qpn: int) -> Callable[[], bool] | None:
    """Return None, because ports without a data path have no completions."""
    return None


class OutgoingMad(NamedTuple):
    """A MAD from ``port`` to ``dlid``. ``pkey`` 0 means the first P_Key in the port's table."""

    port: int
    dlid: int
    sl: int
    pkey: int
    mad: bytes


class Message(NamedTuple):
    """A MAD of communication management that reached ``port`` from ``slid``: its header and its
    fields by name."""

    port: int
    slid: int
    head: Head
    fields: dict[str, Any]

    @property
    def service_id(self) -> int:
        """Return the service ID of a REQ or SIDR_REQ."""
        return int(self.fields["service_id"])


class HeldDreq(NamedTuple):
    """A DREQ that waits. ``unread`` returns whether the program still has completions to take; at
    ``until_ps`` the DREQ stops waiting."""

    unread: Callable[[], bool]
    until_ps: int


@dataclass
class Connections:
    """``find_listener(port, service_id)`` returns the listening id. ``new_child(listener)`` creates
    the id of a request. ``report(endpoint, event, status, fields)`` reports an event.
    ``node_guid(port)`` returns a port's NodeGUID. ``unread(qpn)``: see :data:`Unread`."""

    find_listener: Callable[[int, int], Endpoint | None]
    new_child: Callable[[Endpoint], Endpoint]
    report: Callable[[Endpoint, Event, int, dict[str, Any]], None]
    node_guid: Callable[[int], int]
    timing: Timing = TIMING
    unread: Unread = nothing_unread
    outbox: deque[OutgoingMad] = field(default_factory=deque)
    timers: Timers = field(default_factory=Timers)
    by_id: dict[int, Endpoint] = field(default_factory=dict)
    """Endpoints by local comm ID."""
    by_peer: dict[tuple[int, int], Endpoint] = field(default_factory=dict)
    """Endpoints by :attr:`Endpoint.peer_guid` and the peer's comm ID (for SIDR: its request ID)."""
    early: dict[Endpoint, Message] = field(default_factory=dict)
    """Requests that wait for a listener (:mod:`softib.cm.connect`)."""
    held_dreqs: dict[Endpoint, HeldDreq] = field(default_factory=dict)
    """DREQs that wait for the program (:mod:`softib.cm.release`)."""
    _last_id: int = 0

    def name(self, e: Endpoint) -> None:
        """Assign a unique local comm ID to ``e``."""
        while True:
            self._last_id = self._last_id % 0xFFFFFFFF + 1
            if self._last_id not in self.by_id:
                break
        e.comm_id = self._last_id
        self.by_id[e.comm_id] = e

    def know_peer(self, e: Endpoint) -> None:
        """Register ``e``, so that a repeated request finds it."""
        self.by_peer[e.peer_guid, e.peer_comm_id] = e

    def forget(self, e: Endpoint) -> None:
        """Remove ``e`` from all tables and timers."""
        answered(e)
        for timer in Timer:
            self.timers.stop(e, timer)
        self.early.pop(e, None)
        self.held_dreqs.pop(e, None)
        if self.by_id.get(e.comm_id) is e:
            del self.by_id[e.comm_id]
        key = (e.peer_guid, e.peer_comm_id)
        if self.by_peer.get(key) is e:
            del self.by_peer[key]

    def post(self, e: Endpoint, mad: bytes) -> None:
        """Send ``mad`` once, along the path of ``e``."""
        assert e.path is not None
        self.outbox.append(OutgoingMad(e.port, e.path.dlid, e.path.sl, e.path.pkey, mad))

    def post_until_answered(self, e: Endpoint, mad: bytes) -> None:
        """Send ``mad``, and repeat it until the peer answers or no retries are left."""
        e.last_mad, e.retries_left = mad, self.timing.retries
        self.post(e, mad)
        self.timers.start(e, self.timing.response_ms)

    def post_pathless(self, port: int, dlid: int, mad: bytes) -> None:
        """Send a message to a sender with which there is no connection."""
        self.outbox.append(OutgoingMad(port, dlid, 0, 0, mad))


def answered(e: Endpoint) -> None:
    """Record that the program has answered the request of ``e``, so that it no longer counts in its
    listener's backlog."""
    if e.listener is not None:
        e.listener.waiting -= 1
        e.listener = None


def stray(m: Message) -> Endpoint:
    """Return an endpoint that represents the sender of ``m``, without a connection or listener."""
    req = m.fields
    if "primary_local_lid" in req:
        return Endpoint(
            None,
            0,
            0,
            0,
            QpType.RC,
            port=m.port,
            path=Path.back(req),
            peer_comm_id=req["local_comm_id"],
            peer_guid=req["local_ca_guid"],
            peer_tid=m.head.tid,
        )
    comm_id = req["request_id"] if "request_id" in req else req["local_comm_id"]
    return Endpoint(None, 0, 0, 0, QpType.UD, port=m.port, peer_comm_id=comm_id, peer_guid=-m.slid, peer_tid=m.head.tid)
