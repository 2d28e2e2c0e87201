"""What every handler works on: the endpoints by their IDs, the MADs that go out, and the timers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from softib.cm.endpoint import Endpoint, Event, QpType
from softib.cm.path import Path
from softib.cm.timers import TIMING, Timer, Timers, Timing
from softib.iba.mad_codec import Head

__all__ = ["Connections", "HeldDreq", "Message", "OutgoingMad", "Unread", "nothing_unread"]

Unread = Callable[[int], "Callable[[], bool] | None"]
"""Of a QPN: a function that tells whether the completions that its queues hold now are still there;
None when they hold none."""


def nothing_unread(qpn: int) -> Callable[[], bool] | None:
    """Where there is no data path."""
    return None


class OutgoingMad(NamedTuple):
    """A MAD that leaves ``port`` for ``dlid``. ``pkey`` 0: whichever stands first in the port's
    table."""

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
        """Of REQ and SIDR_REQ."""
        return int(self.fields["service_id"])


class HeldDreq(NamedTuple):
    """A DREQ that waits: ``unread`` tells whether the program still has completions to take, until
    ``until_ps``."""

    unread: Callable[[], bool]
    until_ps: int


@dataclass
class Connections:
    """``find_listener(port, service_id)`` finds the id that listens; ``new_child(listener)`` makes
    the id of a request; ``report(endpoint, event, status, fields)`` reports an event;
    ``node_guid(port)`` is a port's NodeGUID; ``unread(qpn)`` tells whether completions wait for the
    program of a queue pair."""

    find_listener: Callable[[int, int], Endpoint | None]
    new_child: Callable[[Endpoint], Endpoint]
    report: Callable[[Endpoint, Event, int, dict[str, Any]], None]
    node_guid: Callable[[int], int]
    timing: Timing = TIMING
    unread: Unread = nothing_unread
    outbox: deque[OutgoingMad] = field(default_factory=deque)
    timers: Timers = field(default_factory=Timers)
    by_id: dict[int, Endpoint] = field(default_factory=dict)
    """By the local comm ID."""
    by_peer: dict[tuple[int, int], Endpoint] = field(default_factory=dict)
    """By :attr:`Endpoint.peer_guid` and the peer's comm ID (of SIDR: its request ID)."""
    early: dict[Endpoint, Message] = field(default_factory=dict)
    """Requests that wait for a listener (:mod:`softib.cm.early_requests`)."""
    held_dreqs: dict[Endpoint, HeldDreq] = field(default_factory=dict)
    """DREQs that wait for the program (:mod:`softib.cm.release`)."""
    _last_id: int = 0

    def name(self, e: Endpoint) -> None:
        """Give ``e`` a local comm ID that no other has."""
        while True:
            self._last_id = self._last_id % 0xFFFFFFFF + 1
            if self._last_id not in self.by_id:
                break
        e.comm_id = self._last_id
        self.by_id[e.comm_id] = e

    def know_peer(self, e: Endpoint) -> None:
        """A repeated request finds ``e``."""
        self.by_peer[e.peer_guid, e.peer_comm_id] = e

    def forget(self, e: Endpoint) -> None:
        """From now on no message and no timer finds ``e``."""
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
        """Send ``mad``, and again until it is answered."""
        e.last_mad, e.retries_left = mad, self.timing.retries
        self.post(e, mad)
        self.timers.start(e, self.timing.response_ms)

    def post_pathless(self, port: int, dlid: int, mad: bytes) -> None:
        """To a sender that no connection leads to."""
        self.outbox.append(OutgoingMad(port, dlid, 0, 0, mad))


def answered(e: Endpoint) -> None:
    """The program has answered the request ``e``: it no longer counts for its listener's backlog."""
    if e.listener is not None:
        e.listener.waiting -= 1
        e.listener = None


def stray(m: Message) -> Endpoint:
    """An endpoint that stands for the sender of ``m``, which no connection and no listener knows."""
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
        )
    comm_id = req["request_id"] if "request_id" in req else req["local_comm_id"]
    return Endpoint(None, 0, 0, 0, QpType.UD, port=m.port, peer_comm_id=comm_id, peer_guid=-m.slid)
