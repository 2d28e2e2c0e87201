"""Completions that a program has not taken yet, as the daemon finds them in the file ``verbs``.

On hardware the end of a connection is slower than the data before it: a DREQ passes two kernels,
tens of microseconds at least behind the last packet, whose completion is in the queue by then. A
program that polls its completion queue, finds nothing, and then waits for events can depend on
that. Here the DREQ of a sender that ends at once overtakes a receiver that waits for a busy
processor.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from softib.live.verbs.shared_heap import HEADER, SharedHeap, constant, types

__all__ = ["UnreadCompletions"]

PLACE = (1 << 48) - 1
"""Of an entry in the table of numbers: where its object lies."""


class UnreadCompletions:
    """An :data:`~softib.cm.connections.Unread` for the queue pairs of a running fabric. What
    programs have scribbled there is not believed: at worst an answer is wrong."""

    def __init__(self, memory: SharedHeap):
        self.memory = memory

    def __call__(self, qpn: int) -> Callable[[], bool] | None:
        ends = [(at, int(cq["producer"])) for at, cq in self._queues(qpn) if cq["producer"] != cq["consumer"]]
        if not ends:
            return None

        def still() -> bool:
            now = dict(self._queues(qpn))
            return any(at in now and 0 < (end - int(now[at]["consumer"])) & 0xFFFFFFFF < 1 << 31 for at, end in ends)

        return still

    def _queues(self, qpn: int) -> list[tuple[int, np.void]]:
        """Those of sends and of receives, once where they are one."""
        if qpn >= min(int(self.memory.head["number_high"][0]), len(self.memory.numbers)):
            return []  # never given out, and reading the sparse table would take memory
        qp = self._object(int(self.memory.numbers[qpn]) & PLACE, "softib_qp")
        if qp is None or qp["is"] != HEADER.macro("SOFTIB_IS_QP") or qp["qpn"] != qpn:
            return []
        srq = self._object(int(qp["srq"]), "softib_srq")
        receives = int(srq["cq"]) if srq is not None and srq["cq"] else int(qp["recv_cq"])
        queues = ((at, self._object(at, "softib_cq")) for at in dict.fromkeys((receives, int(qp["send_cq"]))))
        return [(at, cq) for at, cq in queues if cq is not None]

    def _object(self, at: int, kind: str) -> np.void | None:
        dtype = types()[kind]
        if not constant("HEAP") <= at <= constant("SIZE") - dtype.itemsize:
            return None
        octets = os.pread(self.memory.fd, dtype.itemsize, at)
        return np.frombuffer(octets, dtype)[0] if len(octets) == dtype.itemsize else None
