"""Who sits on a port of a running fabric and takes MADs, and which of them a MAD is for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from softib.iba.constants import RESPONSE_BIT, Method
from softib.iba.smp import METHOD_AT, TID_AT
from softib.mad.batch import MadBatch

__all__ = ["Station", "Stations", "is_response"]


class Station(Protocol):
    """Somebody who sits on a port: a program behind a socket, or a subnet manager in this process.

    One whose program has no timeouts says so with ``waits_forever = True``: then the router gives
    its requests back.
    """

    number: int
    port: int
    issm: bool
    classes: np.ndarray

    def takes(self, mad: np.ndarray) -> bool:
        """May this MAD (uint8[256]) be handed over?"""

    def deliver(self, batch: MadBatch) -> None:
        """Here are MADs as they arrive, and own requests that come back with status TIMEOUT. Copy
        what is to be kept."""


class Stations(dict[int, Station]):
    """The stations of a fabric by their number."""

    def at(self, port: int) -> Iterable[Station]:
        """Those on ``port``."""
        return (s for s in self.values() if s.port == port)

    def has_manager(self, port: int) -> bool:
        """Does a subnet manager sit on ``port``?"""
        return any(s.issm for s in self.at(port))

    def target(self, mad: np.ndarray, port: int, sender: Station | None = None) -> Station | None:
        """Who on ``port`` takes this MAD: a response (and the TrapRepress of a trap) goes to the
        client of its TID, a request to the manager there, or else to another program that speaks
        the class; None where nobody may get it.

        A program that is no manager never gets its own request: by the TID it would take it for the
        answer.
        """
        if is_response(mad):
            requester = self.get(int(mad[TID_AT]) << 8 | int(mad[TID_AT + 1]))
            return requester if requester is not None and requester.port == port and requester.takes(mad) else None
        takers = [s for s in self.at(port) if (s.issm or s is not sender) and s.takes(mad)]
        takers.sort(key=lambda s: not s.issm)
        return takers[0] if takers else None


def is_response(mad: np.ndarray) -> bool:
    """Does this MAD (uint8[256]) end a request or a trap? A TrapRepress does (IBA 13.4.5)."""
    return bool(mad[METHOD_AT] & RESPONSE_BIT) or mad[METHOD_AT] == Method.TRAP_REPRESS
