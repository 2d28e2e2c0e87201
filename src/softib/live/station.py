"""Stations: the programs and managers that receive MADs on the ports of a running fabric; and the pending requests
between them.

The stock preload library has no timeouts. If a program drops a request (OpenSM drops SMInfo while it starts, and a
killed program drops everything), the sender would wait forever. So such a request is returned with status 110, as a
kernel would report it. Programs under softib's library have timeouts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from softib.iba.constants import RESPONSE_BIT, Method
from softib.iba.smp import METHOD_AT, TID_AT
from softib.mad.batch import MadBatch

__all__ = ["TIMEOUT_PS", "Forwarded", "ForwardedRequests", "Station", "Stations", "is_response"]


TIMEOUT_PS = 2 * 10**12
"""Time after which a forwarded request comes back unanswered. It is longer than OpenSM's transactions (200 ms, 3
retries), and allows one repetition of libibmad (1 s)."""


@dataclass
class Forwarded:
    """A request as it was received (one row), the station that sent it, and the number of the
    station that has it now."""

    request: MadBatch
    sender: Any
    target: int
    deadline_ps: int


class ForwardedRequests:
    """Requests that stations have sent to other stations, by TID, whose upper 16 bits are the number of the sender."""

    def __init__(self) -> None:
        self._by_tid: dict[bytes, Forwarded] = {}  # in the order of their deadlines, since all have the same timeout

    def keep(self, request: MadBatch, sender: Any, target: int, now_ps: int) -> None:
        """Record that ``request`` (one row) of ``sender`` was passed to station ``target``."""
        tid = _tid(request.mad[0])
        self._by_tid.pop(tid, None)
        self._by_tid[tid] = Forwarded(request.copy(), sender, target, now_ps + TIMEOUT_PS)

    def answered(self, mad: np.ndarray) -> None:
        """Record that ``mad`` (uint8[256]), a response, reached its station."""
        self._by_tid.pop(_tid(mad), None)

    def next_ps(self) -> int | None:
        """Return when the first request expires (None: none waits)."""
        first = next(iter(self._by_tid.values()), None)
        return None if first is None else first.deadline_ps

    def take_expired(self, now_ps: int) -> list[Forwarded]:
        """Remove and return the requests that have timed out."""
        taken = []
        for tid, forwarded in list(self._by_tid.items()):
            if forwarded.deadline_ps > now_ps:
                break
            taken.append(forwarded)
            del self._by_tid[tid]
        return taken

    def take_of(self, number: int) -> list[Forwarded]:
        """Handle the end of station ``number``: forget the requests that it sent, and return those that it has not
        answered."""
        ended = {tid: f for tid, f in self._by_tid.items() if number in (f.target, f.sender.number)}
        for tid in ended:
            del self._by_tid[tid]
        return [f for f in ended.values() if f.sender.number != number]


def _tid(mad: np.ndarray) -> bytes:
    return mad[TID_AT : TID_AT + 8].tobytes()


class Station(Protocol):
    """A receiver of MADs on a port: a program behind a socket, or a subnet manager in this process.

    A station whose program has no timeouts sets ``waits_forever = True``; the router then returns
    its unanswered requests.
    """

    number: int
    port: int
    issm: bool
    classes: np.ndarray

    def takes(self, mad: np.ndarray) -> bool:
        """Return whether the station accepts this MAD (uint8[256])."""

    def deliver(self, batch: MadBatch) -> None:
        """Deliver MADs, and requests of the station that come back with status TIMEOUT. A station must copy the data
        that it keeps."""


class Stations(dict[int, Station]):
    """The stations of a fabric by their number."""

    def at(self, port: int) -> Iterable[Station]:
        """Return the stations on ``port``."""
        return (s for s in self.values() if s.port == port)

    def has_manager(self, port: int) -> bool:
        """Return whether ``port`` has a subnet manager."""
        return any(s.issm for s in self.at(port))

    def target(self, mad: np.ndarray, port: int, sender: Station | None = None) -> Station | None:
        """Return the station on ``port`` that receives this MAD; None if there is none. A response (also a TrapRepress)
        goes to the client whose number is in its TID. A request goes to the manager on the port, or else to another
        program that uses the class.

        A program that is not a manager never receives its own request: it would mistake the request for the answer,
        which has the same TID.
        """
        if is_response(mad):
            requester = self.get(int(mad[TID_AT]) << 8 | int(mad[TID_AT + 1]))
            return requester if requester is not None and requester.port == port and requester.takes(mad) else None
        takers = [s for s in self.at(port) if (s.issm or s is not sender) and s.takes(mad)]
        takers.sort(key=lambda s: not s.issm)
        return takers[0] if takers else None


def is_response(mad: np.ndarray) -> bool:
    """Return whether this MAD (uint8[256]) ends a request or a trap. A TrapRepress ends its trap (IBA 13.4.5)."""
    return bool(mad[METHOD_AT] & RESPONSE_BIT) or mad[METHOD_AT] == Method.TRAP_REPRESS
