"""What threads of recorded programs posted, joined: which message each request is, to whom, and which receive completes with it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from softib.sim.recorded_events import Event, RecordedThread

__all__ = ["ANSWERED", "Message", "Posts"]


WRITE, WRITE_IMM, SEND, SEND_IMM, READ, COMPARE_SWAP, FETCH_ADD, SEND_INV, ATOMIC_WRITE = 0, 1, 2, 3, 4, 5, 6, 9, 15
"""``enum ibv_wr_opcode`` of libibverbs' verbs.h; others move no data."""
RECEIVED_BY = (SEND, SEND_IMM, SEND_INV, WRITE_IMM)
ANSWERED = (READ, COMPARE_SWAP, FETCH_ADD)
PLAIN = (WRITE, ATOMIC_WRITE)
MOVES = frozenset((*RECEIVED_BY, *ANSWERED, *PLAIN))
DATAGRAMS = 4
"""``IBV_QPT_UD``."""
NO_QP = (-1, 0, 0)
NOBODY: tuple[list[int], list[tuple[int, int, int]]] = ([], [])
GRH_OCTETS = 40
"""Before the data of a datagram's receive (IBA 11.4.1.1)."""


@dataclass(slots=True)
class Message:
    """A posted request that moves data from rank ``source`` (of a READ: asks rank ``target``); ``row``, ``arrives`` and ``answer`` are rows of its operations once they are
    made: the send, the receive at the target, and the receive of what a READ or an atomic brings."""

    ns: int
    source: int
    target: int
    opcode: int
    octets: int
    tag: int
    row: int = -1
    arrives: int = -1
    answer: int = -1


class Posts:
    """All requests of ``threads`` (``ranks``: rank of each process).

    ``every``: messages in the order in which they were posted. ``of_thread``: by process and thread, its requests in order, None for those that move nothing
    between ranks; ``queues``: the same by rank, QPN, and how many QPs had the number before. ``written``: by rank, WRITEs without immediate data to it.
    """

    def __init__(self, threads: list[RecordedThread], ranks: dict[int, int]):
        self.unknown = self.local = 0
        self.every: list[Message] = []
        self.of_thread: dict[tuple[int, int], list[Message | None]] = {(t.pid, t.tid): [] for t in threads}
        self.queues: dict[tuple[int, int, int], list[Message | None]] = {}
        self.written: dict[int, list[Message]] = {}
        self._makers: dict[int, tuple[list[int], list[tuple[int, int, int]]]] = {}
        self._arrivals: dict[tuple[int, int, int], list[Message]] = {}
        self._taken: dict[tuple[int, int, int], int] = {}
        self._tags: dict[tuple[int, ...], int] = {}
        self._queue_pairs(threads, ranks)
        posted = [self.of_thread[t.pid, t.tid] for t in threads]
        for ns, k, _, qpn, peer, octets, opcode in self._rows(threads):
            t = threads[k]
            m = self._message(ns, (ranks[t.pid], qpn, peer, k), octets, opcode)
            posted[k].append(m)
            self.queues.setdefault((ranks[t.pid], qpn, self.maker(qpn, ns)[2]), []).append(m)

    @staticmethod
    def _rows(threads: list[RecordedThread]) -> list[tuple[int, ...]]:
        """(ns, thread, event, QPN, peer, octets, opcode) of all requests by time."""
        rows: list[tuple[int, ...]] = []
        for k, t in enumerate(threads):
            at = np.flatnonzero(t.type == Event.POST)
            columns = (t.ns[at], np.full(len(at), k), at, t.qpn[at], t.peer[at], t.octets[at], t.opcode[at])
            rows += zip(*(c.tolist() for c in columns), strict=True)
        return sorted(rows)

    def _queue_pairs(self, threads: list[RecordedThread], ranks: dict[int, int]) -> None:
        found = sorted(
            (int(t.ns[i]), int(t.qpn[i]), ranks[t.pid], int(t.opcode[i]))
            for t in threads for i in np.flatnonzero(t.type == Event.QP)
        )  # fmt: skip
        for ns, qpn, rank, kind in found:
            times, makers = self._makers.setdefault(qpn, ([], []))
            times.append(ns)
            makers.append((rank, kind, len(makers)))

    def maker(self, qpn: int, ns: int) -> tuple[int, int, int]:
        """(rank, type, how many had the number before) of the QP with ``qpn`` at ``ns``; rank -1: none. Numbers are given again."""
        times, makers = self._makers.get(qpn, NOBODY)
        k = bisect_right(times, ns) - 1
        return makers[k] if k >= 0 else NO_QP

    def _message(self, ns: int, ends: tuple[int, int, int, int], octets: int, opcode: int) -> Message | None:
        rank, qpn, peer, thread = ends
        target, kind, age = self.maker(peer, ns)
        moves = opcode in MOVES
        if not moves or target in (-1, rank):
            self.unknown += moves and target < 0
            self.local += moves and target == rank
            return None
        tag = self._tags.setdefault((thread, qpn, self.maker(qpn, ns)[2], peer, age), len(self._tags))
        m = Message(ns, rank, target, opcode, octets, tag)
        self.every.append(m)
        if opcode in RECEIVED_BY:
            self._arrivals.setdefault((peer, age, qpn if kind == DATAGRAMS else 0), []).append(m)
        if opcode in PLAIN:
            self.written.setdefault(target, []).append(m)
        return m

    def received(self, ns: int, qpn: int, peer: int, octets: int) -> Message | None:
        """The message that a receive of ``qpn`` completed with. Datagrams may have been dropped before it: those of other lengths are passed over."""
        _, kind, age = self.maker(qpn, ns)
        datagram = kind == DATAGRAMS
        key = (qpn, age, peer if datagram else 0)
        came, at = self._arrivals.get(key, []), self._taken.get(key, 0)
        while datagram and at < len(came) and came[at].octets + GRH_OCTETS != octets:
            at += 1
        self._taken[key] = at + 1
        return came[at] if at < len(came) else None
