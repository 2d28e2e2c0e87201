"""Posted requests of all threads of recorded programs: the message and the destination of each, and the receive that
completes with the message."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from softib.sim.recorded_events import Event, RecordedThread

__all__ = ["ANSWERED", "Message", "Posts", "by_time"]


WRITE, WRITE_IMM, SEND, SEND_IMM, READ, COMPARE_SWAP, FETCH_ADD, SEND_INV, ATOMIC_WRITE = 0, 1, 2, 3, 4, 5, 6, 9, 15
"""``enum ibv_wr_opcode`` in libibverbs' verbs.h; other opcodes move no data."""
RECEIVED_BY = (SEND, SEND_IMM, SEND_INV, WRITE_IMM)
ANSWERED = (READ, COMPARE_SWAP, FETCH_ADD)
PLAIN = (WRITE, ATOMIC_WRITE)
MOVES = frozenset((*RECEIVED_BY, *ANSWERED, *PLAIN))
DATAGRAMS = 4
"""``IBV_QPT_UD``."""
NO_QP = (-1, 0, 0)
NO_ONE: tuple[list[int], list[tuple[int, int, int]]] = ([], [])
GRH_OCTETS = 40
"""Bytes of the GRH area before the payload in a datagram's receive buffer (IBA 11.4.1.1)."""


@dataclass(slots=True)
class Message:
    """A posted request that moves data. ``row``, ``arrives`` and ``answer`` are the rows of its operations when these
    exist: the send of rank ``source``, the receive at rank ``target``, and, for a READ or an atomic, the receive of the
    response."""

    ns: int
    source: int
    target: int
    opcode: int
    octets: int
    tag: int
    row: int = -1
    arrives: int = -1
    answer: int = -1


def by_time(
    threads: list[RecordedThread], columns: tuple[str, ...], only: Event | None = None
) -> Iterator[tuple[int, ...]]:
    """Return (thread, ``columns``) of all events of ``threads`` (or only of type ``only``) by time.
    Simultaneous events are ordered by thread, and those of a thread keep their order."""
    at = [np.arange(len(t.ns)) if only is None else np.flatnonzero(t.type == only) for t in threads]
    ns = np.concatenate([t.ns[i] for t, i in zip(threads, at, strict=True)])
    order = np.argsort(ns, kind="stable")
    which = np.repeat(np.arange(len(threads)), [len(i) for i in at])[order]
    whole = (np.concatenate([getattr(t, name)[i] for t, i in zip(threads, at, strict=True)])[order] for name in columns)
    return zip(which.tolist(), *(column.tolist() for column in whole), strict=True)


class Posts:
    """All requests of ``threads`` (``ranks``: rank of each process).

    ``every``: messages in the order in which they were posted. :meth:`next` returns all requests in that order, None
    for those that move no data between ranks. ``queues``: (rank, QPN, number of earlier QPs with this QPN) → the
    requests of that QP, in the same order. ``written``: rank → WRITEs without immediate data to it.
    """

    def __init__(self, threads: list[RecordedThread], ranks: dict[int, int]):
        self.unknown = self.local = 0
        self.every: list[Message] = []
        self.queues: dict[tuple[int, int, int], list[Message | None]] = {}
        self.written: dict[int, list[Message]] = {}
        self._makers: dict[int, tuple[list[int], list[tuple[int, int, int]]]] = {}
        self._arrivals: dict[tuple[int, int, int], list[Message]] = {}
        self._taken: dict[tuple[int, int, int], int] = {}
        self._tags: dict[tuple[int, ...], int] = {}
        self._queue_pairs(threads, ranks)
        posted: list[Message | None] = []
        for k, ns, qpn, peer, octets, opcode in by_time(threads, ("ns", "qpn", "peer", "octets", "opcode"), Event.POST):
            rank = ranks[threads[k].pid]
            posted.append(self._message(ns, (rank, qpn, peer, k), octets, opcode))
            self.queues.setdefault((rank, qpn, self.maker(qpn, ns)[2]), []).append(posted[-1])
        self._posted = iter(posted)

    def next(self) -> Message | None:
        """Return the next request by time."""
        return next(self._posted)

    def _queue_pairs(self, threads: list[RecordedThread], ranks: dict[int, int]) -> None:
        queue_pairs = sorted(
            (int(t.ns[i]), int(t.qpn[i]), ranks[t.pid], int(t.opcode[i]))
            for t in threads
            for i in np.flatnonzero(t.type == Event.QP)
        )
        for ns, qpn, rank, kind in queue_pairs:
            times, makers = self._makers.setdefault(qpn, ([], []))
            times.append(ns)
            makers.append((rank, kind, len(makers)))

    def maker(self, qpn: int, ns: int) -> tuple[int, int, int]:
        """Return (rank, type, number of earlier QPs with this QPN) of the QP that had number ``qpn`` at time ``ns``;
        rank -1 if there was none. QPNs are reused."""
        times, makers = self._makers.get(qpn, NO_ONE)
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
        """Return the message with which the next receive of ``qpn`` completed; must be called in time order. Datagrams
        of another length are skipped, because they may have been dropped."""
        _, kind, age = self.maker(qpn, ns)
        datagram = kind == DATAGRAMS
        key = (qpn, age, peer if datagram else 0)
        came, at = self._arrivals.get(key, []), self._taken.get(key, 0)
        while datagram and at < len(came) and came[at].octets + GRH_OCTETS != octets:
            at += 1
        self._taken[key] = at + 1
        return came[at] if at < len(came) else None
