"""Requests that were handed to another program, until it answers or their time is over.

The stock preload library has no timeouts: a request that a program swallows (OpenSM does so with
SMInfo while it starts, and a killed one with everything) would hold its sender for ever. So it
comes back with status 110, as a kernel would report it. Programs under our own library have
timeouts of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.iba.smp import TID_AT
from softib.mad.batch import MadBatch

__all__ = ["TIMEOUT_PS", "Forwarded", "ForwardedRequests"]

TIMEOUT_PS = 2 * 10**12
"""More than OpenSM lets a transaction take (200 ms, 3 retries), and what one repetition of
libibmad's (1 s) takes."""


@dataclass
class Forwarded:
    """A request as it was received (one row), the station that sent it, and the number of the one
    that has it."""

    request: MadBatch
    sender: Any
    target: int
    deadline_ps: int


class ForwardedRequests:
    """The requests of all stations, by TID (its upper 16 bits name the station)."""

    def __init__(self) -> None:
        self._by_tid: dict[bytes, Forwarded] = {}  # in the order of their deadlines: the timeout is one

    def keep(self, request: MadBatch, sender: Any, target: int, now_ps: int) -> None:
        """``request`` (one row) of ``sender`` was handed to station ``target``."""
        tid = _tid(request.mad[0])
        self._by_tid.pop(tid, None)
        self._by_tid[tid] = Forwarded(request.copy(), sender, target, now_ps + TIMEOUT_PS)

    def answered(self, mad: np.ndarray) -> None:
        """``mad`` (uint8[256]) is a response that reached its station."""
        self._by_tid.pop(_tid(mad), None)

    def next_ps(self) -> int | None:
        """When the first request's time is over (None: none waits)."""
        first = next(iter(self._by_tid.values()), None)
        return None if first is None else first.deadline_ps

    def take_expired(self, now_ps: int) -> list[Forwarded]:
        """Take those whose time is over."""
        taken = []
        for tid, forwarded in list(self._by_tid.items()):
            if forwarded.deadline_ps > now_ps:
                break
            taken.append(forwarded)
            del self._by_tid[tid]
        return taken

    def take_of(self, number: int) -> list[Forwarded]:
        """Station ``number`` left: its requests are forgotten, those that it had are taken."""
        ended = {tid: f for tid, f in self._by_tid.items() if number in (f.target, f.sender.number)}
        for tid in ended:
            del self._by_tid[tid]
        return [f for f in ended.values() if f.sender.number != number]


def _tid(mad: np.ndarray) -> bytes:
    return mad[TID_AT : TID_AT + 8].tobytes()
