"""Requests that were handed to another program, until it answers or their time is over.

The stock preload library has no timeouts: a request that a program swallows (OpenSM does so with SMInfo while it starts, and
a killed one with everything) would hold its sender for ever. So it comes back with status 110, as a kernel would report
it. Programs under our own library have timeouts of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.live.ibsim.client import Client

__all__ = ["TIMEOUT_PS", "Forwarded", "Waiting"]

TIMEOUT_PS = 2 * 10**12
"""More than OpenSM lets a transaction take (200 ms, 3 retries), and what one repetition of libibmad's (1 s) takes."""
TID = slice(40, 48)
"""Of a datagram: octets 8 to 15 of the MAD."""


@dataclass
class Forwarded:
    """A request: its datagram (uint8[288], as it was received), who sent it, and which station has it."""

    frame: np.ndarray
    sender: Client
    target: int
    deadline_ps: int


class Waiting:
    """The requests of all clients, by TID (its upper 16 bits name the client)."""

    def __init__(self) -> None:
        self._by_tid: dict[bytes, Forwarded] = {}  # in the order of their deadlines: the timeout is one

    def keep(self, frame: np.ndarray, sender: Client, target: int, now_ps: int) -> None:
        """``frame`` of ``sender`` was handed to station ``target``."""
        tid = frame[TID].tobytes()
        self._by_tid.pop(tid, None)
        self._by_tid[tid] = Forwarded(frame.copy(), sender, target, now_ps + TIMEOUT_PS)

    def answered(self, frame: np.ndarray) -> None:
        """``frame`` is a response that reached its client."""
        self._by_tid.pop(frame[TID].tobytes(), None)

    def next_ps(self) -> int | None:
        """When the first request's time is over (None: none waits)."""
        first = next(iter(self._by_tid.values()), None)
        return None if first is None else first.deadline_ps

    def over(self, now_ps: int) -> list[Forwarded]:
        """Take those whose time is over."""
        taken = []
        for tid, waits in list(self._by_tid.items()):
            if waits.deadline_ps > now_ps:
                break
            taken.append(waits)
            del self._by_tid[tid]
        return taken

    def left(self, number: int) -> list[Forwarded]:
        """Station ``number`` is gone: its own requests are forgotten, those that it had are taken."""
        gone = {t: w for t, w in self._by_tid.items() if number in (w.target, w.sender.number)}
        for tid in gone:
            del self._by_tid[tid]
        return [w for w in gone.values() if w.sender.number != number]
