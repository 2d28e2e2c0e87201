"""A :class:`~softib.workloads.schedule.Schedule` on hosts: each operation as messages and computations of a :class:`~softib.workloads.patterns.Part`.

A send takes the processor for the sender's overhead. A message of at most the eager limit leaves then, and the send has ended. A larger one is announced by a small message
(RTS); when that is there and the receive is posted, the receiver READs the data and says so by another small message (FIN), which ends the send: rendezvous by READ, as UCX and
Open MPI do. A receive ends when its data is there and the processor has had the receiver's overhead. Ranks of one host share its memory: such a message takes
a latency and its copy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.errors import InputError
from softib.sim.messages import Opcode
from softib.workloads.patterns import Part
from softib.workloads.schedule import Kind, Schedule, matched
from softib.workloads.schedule_order import posting_order

__all__ = ["Overheads", "part_of", "place"]

RTS_OCTETS, FIN_OCTETS = 64, 16
"""An announcement (addresses, a remote key), and the word that the data was read."""


@dataclass(frozen=True)
class Overheads:
    """What a library's messages cost beside the adapter. ``send_ns`` and ``receive_ns`` of the processor for each message; ``eager_limit``: largest message
    that is sent without asking, and what each of its octets costs in copies (``copy_ps``) at either end; ``memory_ns`` and ``memory_ps``: latency, and
    time of an octet, between ranks of one host."""

    name: str = "verbs"
    send_ns: float = 0.0
    receive_ns: float = 0.0
    eager_limit: int = 1 << 40
    copy_ps: float = 0.0
    memory_ns: float = 300.0
    memory_ps: float = 100.0


def place(s: Schedule, rows: np.ndarray, each: int) -> np.ndarray:
    """Host of each rank (int64[ranks], of ``rows``): ``each`` on one, in order. Raises :class:`InputError` where there are more ranks than that."""
    if s.ranks > len(rows) * each:
        more = f"; give more on each with ranks-per-host={-(-s.ranks // len(rows))}" if len(rows) else ""
        raise InputError(
            f"{s.name} has {s.ranks:,} ranks; {len(rows):,} hosts with {each} each take {len(rows) * each:,}{more}"
        )
    return np.asarray(rows[np.arange(s.ranks) // each], np.int64)


def part_of(s: Schedule, host: np.ndarray, cost: Overheads) -> tuple[Part, np.ndarray]:
    """The messages of ``s`` with rank r on ``host[r]``, and for each operation the row whose completion ends it (int64[n]).

    Raises :class:`InputError` as :meth:`Schedule.check` and :func:`~softib.workloads.schedule.matched` do.
    """
    s.check()
    receive_of = matched(s)
    n = len(s)
    sends, receives = s.kind == Kind.SEND, s.kind == Kind.RECV
    local = sends & (host[s.rank] == host[np.where(sends, s.peer, s.rank)])
    deferred = sends & ~local & (s.size > cost.eager_limit)
    eager = sends & ~local & ~deferred
    # Rows: every operation has one computation; sends then have their message (deferred ones a READ), deferred ones RTS and FIN.
    op = np.arange(n)
    message_row, rts_row, fin_row = (np.full(n, -1, np.int64) for _ in range(3))
    rows = n
    message_row[sends] = rows + np.arange(int(sends.sum()))
    rows += int(sends.sum())
    rts_row[deferred] = rows + np.arange(int(deferred.sum()))
    rows += int(deferred.sum())
    fin_row[deferred] = rows + np.arange(int(deferred.sum()))
    rows += int(deferred.sum())
    copies = np.round(s.size * cost.copy_ps).astype(np.int64)
    src, dst, size = np.empty(rows, np.int64), np.empty(rows, np.int64), np.ones(rows, np.int64)
    opcode, delay = np.full(rows, int(Opcode.COMPUTE), np.int64), np.zeros(rows, np.int64)
    src[:n] = dst[:n] = host[s.rank]
    delay[:n] = np.where(s.kind == Kind.COMPUTE, s.compute_ps, 0)
    delay[:n] += np.where(sends, round(cost.send_ns * 1000) + np.where(eager, copies, 0), 0)
    sent_eagerly = np.zeros(n, bool)
    sent_eagerly[receive_of[eager]] = True
    delay[:n] += np.where(receives, round(cost.receive_ns * 1000) + np.where(sent_eagerly, copies, 0), 0)
    # Messages
    i = np.flatnonzero(sends)
    at = message_row[i]
    here, there = host[s.rank[i]], host[s.peer[i]]
    src[at], dst[at] = np.where(deferred[i], there, here), np.where(deferred[i], here, there)
    size[at] = np.maximum(s.size[i], 1)
    opcode[at] = np.where(deferred[i], Opcode.READ, Opcode.SEND)
    on_host = at[local[i]]
    src[on_host] = dst[on_host] = here[local[i]]
    opcode[on_host], size[on_host] = Opcode.COMPUTE, 1
    delay[on_host] = np.round(cost.memory_ns * 1000 + s.size[i][local[i]] * cost.memory_ps).astype(np.int64)
    j = np.flatnonzero(deferred)
    src[rts_row[j]], dst[rts_row[j]], size[rts_row[j]] = host[s.rank[j]], host[s.peer[j]], RTS_OCTETS
    src[fin_row[j]], dst[fin_row[j]], size[fin_row[j]] = host[s.peer[j]], host[s.rank[j]], FIN_OCTETS
    opcode[rts_row[j]] = opcode[fin_row[j]] = Opcode.SEND
    ended = op.copy()
    ended[deferred] = fin_row[deferred]
    if s.acknowledged:
        ended[eager] = message_row[eager]
    # Queue pairs: one for each pair of ranks and direction of posting; processors; a memory line for each rank.
    qp = np.empty(rows, np.int64)
    qp[:n] = s.rank.astype(np.int64) * 256 + s.processor
    pair = s.rank[i].astype(np.int64) * s.ranks + s.peer[i]
    back = s.peer[i].astype(np.int64) * s.ranks + s.rank[i]
    base = s.ranks * 256
    qp[at] = base + np.where(local[i], s.rank[i], s.ranks + 2 * np.where(deferred[i], back, pair) + deferred[i])
    qp[rts_row[j]] = base + s.ranks + 2 * (s.rank[j].astype(np.int64) * s.ranks + s.peer[j])
    qp[fin_row[j]] = base + s.ranks + 2 * (s.peer[j].astype(np.int64) * s.ranks + s.rank[j])
    if s.acknowledged:  # recorded: each tag is a queue pair
        qp[at] += (s.tag[i] + 1) * (base + 2 * s.ranks * (s.ranks + 1))
    qp = np.unique(qp, return_inverse=True)[1]
    owners, needed = _dependencies(s, receive_of, ended, (message_row, rts_row, fin_row), deferred)
    operation = np.concatenate([op, i, j, j])
    place, circle = posting_order(qp, opcode == Opcode.COMPUTE, owners, needed)
    if circle >= 0:
        raise InputError(
            f"{s.name}: {s.where(int(operation[circle]))}: it waits for ever: for itself, by way of other ranks"
        )
    columns = [np.empty_like(c) for c in (src, dst, size, qp, opcode, delay)]
    for column, old in zip(columns, (src, dst, size, qp, opcode, delay), strict=True):
        column[place] = old
    src, dst, size, qp, opcode, delay = columns
    return Part(src, dst, size, qp, place[owners], place[needed], opcode=opcode, delay_ps=delay, name=s.name), place[
        ended
    ]


def _dependencies(
    s: Schedule,
    receive_of: np.ndarray,
    ended: np.ndarray,
    row_of: tuple[np.ndarray, np.ndarray, np.ndarray],
    deferred: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(rows that wait, rows that they wait for)."""
    message_row, rts_row, fin_row = row_of
    owner, need = s.on_ends()
    waits, needs = [owner], [ended[need]]
    eager = np.flatnonzero((s.kind == Kind.SEND) & ~deferred)
    waits += [message_row[eager], receive_of[eager]]
    needs += [eager, message_row[eager]]
    j = np.flatnonzero(deferred)
    waits += [rts_row[j], message_row[j], receive_of[j], fin_row[j]]
    needs += [j, rts_row[j], message_row[j], message_row[j]]
    # The READ begins when the receive is posted: when what that one requires has ended.
    read_of = np.full(len(s), -1, np.int64)
    read_of[receive_of[j]] = message_row[j]
    posts = read_of[owner] >= 0
    waits.append(read_of[owner[posts]])
    needs.append(ended[need[posts]])
    return np.concatenate(waits), np.concatenate(needs)
