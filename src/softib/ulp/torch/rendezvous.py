"""Messages between two ranks. Each is an offer, a matching receive, one RDMA READ, and a confirmation.

    links.connect(); wire = Wire(links)
    a = wire.isend(peer, tag, tensor); b = wire.irecv(peer, tag, other)
    while not (a.done and b.done): wire.progress()

The sender offers (tag, address, rkey, bytes); the receiver matches offers of one peer and tag in
order, reads the data directly into its memory, and confirms it. Up to ``EAGER`` bytes are part
of the offer. This module has no tensors: memory is an address and a length.
Links (:class:`Links`) move the bytes: verbs, or a fake in a test.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from softib.errors import PeerError

__all__ = ["EAGER", "SLOT", "Links", "PeerLost", "Request", "Wire"]

OFFER, EAGER_OFFER, DONE = 1, 2, 3
HEAD = struct.Struct("<BxxxIQQQQ")
"""Header of a control message: kind, rkey, tag, number of the offer, address, length in bytes."""
SLOT = 4096
"""Largest control message in bytes."""
EAGER = SLOT - HEAD.size


class PeerLost(PeerError):
    """Raised if a rank is no longer reachable."""


@dataclass(eq=False)
class Request:
    """A send or receive in progress. ``what`` describes it in error messages."""

    peer: int
    tag: int
    address: int
    octets: int
    what: str
    done: bool = False
    error: Exception | None = None
    hold: Any = None
    """The memory registration, which must stay valid until the message is done."""


class Links(Protocol):
    """Interface of the reliable connections to all other ranks. :meth:`poll` returns completions."""

    rank: int
    size: int

    def send(self, peer: int, message: bytes) -> None:
        """Send a control message of up to ``SLOT`` bytes. Messages arrive in order."""

    def read(self, peer: int, number: int, hold: Any, address: int, octets: int, remote: int, rkey: int) -> None:
        """Post an RDMA READ into ``address``. When it has ended, :meth:`poll` returns ``("read", peer, number)``."""

    def register(self, address: int, octets: int) -> tuple[Any, int]:
        """Make memory readable and writable by the device; return (handle that keeps it registered,
        rkey)."""

    def probe(self, peer: int) -> None:
        """Check that ``peer`` is alive: if it does not answer, :meth:`poll` returns ``("lost",
        peer, why)``."""

    def poll(self) -> list[tuple[str, int, Any]]:
        """Return the events since the last call: ``("message", peer, bytes)``, ``("read", peer,
        number)``, ``("lost", peer, why)``."""

    def close(self) -> None:
        """Release everything."""


@dataclass(eq=False)
class Offer:
    """A message that a peer offers. ``data``: the message's content, if the offer includes it."""

    peer: int
    tag: int
    number: int
    address: int
    rkey: int
    octets: int
    data: bytes | None = None
    order: int = 0


@dataclass(eq=False)
class Wire:
    """Matches sends with receives over ``links``. Not thread-safe."""

    links: Links
    _sent: dict[int, Request] = field(default_factory=dict)
    _reading: dict[int, tuple[Request, Offer]] = field(default_factory=dict)
    _wanted: dict[tuple[int, int], deque[Request]] = field(default_factory=lambda: defaultdict(deque))
    _anybody: dict[int, deque[Request]] = field(default_factory=lambda: defaultdict(deque))
    _offers: dict[tuple[int, int], deque[Offer]] = field(default_factory=lambda: defaultdict(deque))
    _lost: dict[int, Exception] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _arrivals: Any = field(default_factory=itertools.count)

    @property
    def busy(self) -> bool:
        """Return whether any request is outstanding."""
        return bool(self._sent or self._reading or any(self._wanted.values()) or any(self._anybody.values()))

    def isend(self, peer: int, tag: int, address: int, octets: int) -> Request:
        """Offer ``octets`` at ``address`` to ``peer``; the memory must not change until the request is done."""
        request = Request(peer, tag, address, octets, f"send of {octets} bytes to rank {peer}")
        if peer in self._lost:
            return self._fail(request, self._lost[peer])
        if octets <= EAGER:
            data = ctypes.string_at(address, octets)
            self.links.send(peer, HEAD.pack(EAGER_OFFER, 0, tag, 0, 0, octets) + data)
            request.done = True
            return request
        number = next(self._numbers)
        request.hold, rkey = self.links.register(address, octets)
        self._sent[number] = request
        self.links.send(peer, HEAD.pack(OFFER, rkey, tag, number, address, octets))
        return request

    def irecv(self, peer: int | None, tag: int, address: int, octets: int) -> Request:
        """Receive ``octets`` from ``peer`` (None: from the first peer that offers; ``request.peer`` is then this peer)
        at ``address``."""
        who = "any rank" if peer is None else f"rank {peer}"
        request = Request(-1 if peer is None else peer, tag, address, octets, f"receive of {octets} bytes from {who}")
        offer = self._first_offer(peer, tag)
        if offer is not None:
            self._take(request, offer)
        elif peer is None:
            self._anybody[tag].append(request)
        elif peer in self._lost:
            self._fail(request, self._lost[peer])
        else:
            self._wanted[peer, tag].append(request)
        return request

    def progress(self) -> int:
        """Handle all events; return their number."""
        events = self.links.poll()
        handlers: dict[str, Callable[[int, Any], None]] = {
            "message": self._message,
            "read": self._read,
            "lost": self._lose,
        }
        for kind, peer, detail in events:
            handlers[kind](peer, detail)
        return len(events)

    def probe(self) -> None:
        """Probe the peers for which this rank has only outstanding receives. A connection without outstanding requests
        never detects a dead peer, because only the requester does (IBA 9.7.6.1.3)."""
        awaited = {r.peer for r in self._sent.values()} | {peer for (peer, _), queue in self._wanted.items() if queue}
        if any(self._anybody.values()):
            awaited |= set(range(self.links.size)) - {self.links.rank}
        for peer in sorted(awaited - self._lost.keys()):
            self.links.probe(peer)

    # -- arrivals --

    def _message(self, peer: int, message: bytes) -> None:
        kind, rkey, tag, number, address, octets = HEAD.unpack_from(message)
        if kind == DONE:
            request = self._sent.pop(number)
            request.hold, request.done = None, True
            return
        data = message[HEAD.size : HEAD.size + octets] if kind == EAGER_OFFER else None
        offer = Offer(peer, tag, number, address, rkey, octets, data, next(self._arrivals))
        for waiting in (self._wanted.get((peer, tag)), self._anybody.get(tag)):
            if waiting:
                self._take(waiting.popleft(), offer)
                return
        self._offers[peer, tag].append(offer)

    def _first_offer(self, peer: int | None, tag: int) -> Offer | None:
        if peer is not None:
            queue = self._offers.get((peer, tag))
            return queue.popleft() if queue else None
        ready = [q for (_, t), q in self._offers.items() if t == tag and q]
        return min(ready, key=lambda q: q[0].order).popleft() if ready else None

    def _take(self, request: Request, offer: Offer) -> None:
        request.peer = offer.peer
        if offer.octets != request.octets:
            why = f"rank {offer.peer} sends {offer.octets} bytes where {request.octets} are received (tag {offer.tag})"
            self._fail(request, PeerLost(why))
            if offer.data is None:
                self._say_done(offer)
        elif offer.data is not None:
            ctypes.memmove(request.address, offer.data, offer.octets)
            request.done = True
        else:
            number = next(self._numbers)
            request.hold, _ = self.links.register(request.address, request.octets)
            self._reading[number] = (request, offer)
            self.links.read(
                offer.peer, number, request.hold, request.address, request.octets, offer.address, offer.rkey
            )

    def _read(self, peer: int, number: int) -> None:
        request, offer = self._reading.pop(number)
        self._say_done(offer)
        request.hold, request.done = None, True

    def _say_done(self, offer: Offer) -> None:
        self.links.send(offer.peer, HEAD.pack(DONE, 0, offer.tag, offer.number, 0, 0))

    # -- errors --

    def _lose(self, peer: int, why: str) -> None:
        error = self._lost.setdefault(peer, PeerLost(f"rank {peer} is lost: {why}"))
        requests = {n: r for n, r in self._sent.items() if r.peer == peer}
        requests |= {n: r for n, (r, _) in self._reading.items() if r.peer == peer}
        for number, request in requests.items():
            self._sent.pop(number, None)
            self._reading.pop(number, None)
            self._fail(request, error)
        for queue in self._wanted.values():
            for request in [r for r in queue if r.peer == peer]:
                queue.remove(request)
                self._fail(request, error)

    @staticmethod
    def _fail(request: Request, error: Exception) -> Request:
        request.error, request.done, request.hold = error, True, None
        return request
