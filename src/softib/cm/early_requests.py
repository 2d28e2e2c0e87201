"""Requests for a service that nobody serves yet: they wait a moment for a listener before they are refused.

Linux refuses at once (``cm_match_req`` of drivers/infiniband/core/cm.c: REJ 8, "invalid service ID"). But its requests come
milliseconds after a program begins to connect: the neighbour's address, the path and the QP each take a round trip or a
command of the device. Here all that takes microseconds, and programs that lean on it, unknowingly, meet a race that no
hardware shows: perftest's client asks for its second connection while its server still turns from the first to the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from softib.cm.core import Core
from softib.cm.endpoint import Endpoint, State

__all__ = ["EarlyRequests"]

MOST = 1024
"""Requests that wait, of all ports: as many as the longest backlog. Those beyond are refused at once, as by Linux."""


class Request(NamedTuple):
    """Of the service that it is for, what takes it as if it arrived now, and what refuses it."""

    service_id: int
    take: Callable[[], None]
    refuse: Callable[[], None]


class EarlyRequests(Core):
    """The part of :class:`~softib.cm.protocol.Protocol` that has requests wait for listeners."""

    def _hold(self, e: Endpoint, ms: int, request: Request) -> bool:
        """``e`` stands for whoever asks. False: it must be refused now.

        No longer than half the time that who asks gives for an answer (REQ.RemoteCMResponseTimeout, IBA 12.7.11): then
        no MRA is owed, and nothing is sent twice.
        """
        if len(self.early) >= MOST or ms < 1:
            return False
        e.state, e.told = State.HELD, False
        self.by_peer[e.peer_guid, e.peer_comm_id] = e
        self.early[e] = request
        self._wait(e, ms)
        return True

    def listening(self, listener: Endpoint) -> None:
        """``listener`` takes requests from now on: those that waited for it come first, in their order."""
        for e, request in list(self.early.items()):
            if self.listener(e.port, request.service_id) is listener:
                self._forget(e)
                request.take()

    def _refuse_late(self, e: Endpoint) -> None:
        """Nobody came."""
        request = self.early[e]
        self._forget(e)
        request.refuse()
