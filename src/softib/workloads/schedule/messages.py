"""Placement of a :class:`~softib.workloads.schedule.schedule.Schedule` on hosts: each operation becomes messages and
computations of a :class:`~softib.workloads.pattern.JobMessages`. A send occupies the processor for the sender's
overhead. If the message is not larger than the eager limit, it then leaves, and the send ends. A larger message uses
rendezvous with READ, as in UCX and Open MPI. A small message (RTS) announces it. When the RTS has arrived and the
receive is posted, the receiver READs the data. It then sends another small message (FIN), which ends the send. A
receive ends when its data has arrived and the receiver's processor has spent its overhead. Ranks of one host share its
memory: the sender's processor writes such a message, and the receiver sees it after a latency.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.errors import InputError
from softib.plural import counted
from softib.sim.messages import MAX_MESSAGE, Opcode
from softib.workloads.pattern import JobMessages
from softib.workloads.schedule.order import posting_order
from softib.workloads.schedule.overheads import Overheads
from softib.workloads.schedule.schedule import PROCESSORS, Kind, Schedule, matched

__all__ = ["part_of", "place"]

RTS_OCTETS, FIN_OCTETS = 64, 16
"""Bytes of an RTS (it has addresses and a remote key), and of a FIN (it states that the data was read)."""


def place(s: Schedule, rows: np.ndarray, each: int) -> np.ndarray:
    """Return the host of each rank (int64[ranks], of ``rows``): ``each`` ranks per host,
    in order. Raises :class:`InputError` if the hosts cannot hold all ranks."""
    if s.ranks > len(rows) * each:
        hint = f"; use more on each with ranks-per-host={-(-s.ranks // len(rows))}" if len(rows) else ""
        raise InputError(
            f"{s.name} has {counted(s.ranks, 'rank')}; {counted(len(rows), 'host')} with {each} each take "
            f"{len(rows) * each:,}{hint}"
        )
    return np.asarray(rows[np.arange(s.ranks) // each], np.int64)


def part_of(
    s: Schedule, host: np.ndarray, cost: Overheads, rails: np.ndarray | None = None
) -> tuple[JobMessages, np.ndarray]:
    """Return the messages of ``s`` with rank r on ``host[r]``, and for each operation the row whose
    completion ends it (int64[n]). ``rails`` (int64[ranks, rails]): rows of the ports through which a rank may send, the
    nearest port first; default ``host``. Raises :class:`InputError` as :meth:`Schedule.check` and
    :func:`~softib.workloads.schedule.schedule.matched` do.
    """
    s.check()
    if (large := s.size > MAX_MESSAGE).any():
        raise InputError(
            f"{s.name}: {s.where(int(np.argmax(large)))}: more than 2 GiB, the largest message of a queue pair"
        )
    receive_of = matched(s)
    ports = host[:, None] if rails is None else rails
    sends = _sends_of(s, host, cost, ports.shape[1])
    row_of, rows = _placed_rows(sends, receive_of, len(s))
    message_row, rts_row, fin_row, rest_row, *stripe_rows = row_of
    c = _Columns.of(rows)
    c.src[: len(s)] = c.dst[: len(s)] = ports[s.rank, 0]
    c.delay[: len(s)] = _processor_ps(s, cost, receive_of, sends)
    _write_rest(c, s, cost, sends, ports, rest_row)
    _write_messages(c, s, cost, sends, ports, message_row)
    _write_local(c, s, cost, sends, ports, message_row)
    _write_handshakes(c, s, cost, sends, ports, ((rts_row, s.peer, RTS_OCTETS), (fin_row, s.rank, FIN_OCTETS)))
    _write_stripes(c, s, cost, sends, ports, stripe_rows)
    ended = np.arange(len(s))
    ended[sends.deferred] = fin_row[sends.deferred]
    if s.acknowledged:
        ended[sends.eager] = message_row[sends.eager]
    ended[sends.rest] = rest_row[sends.rest]
    qp = _queue_pairs(s, rows, row_of, sends.local, sends.deferred)
    owners, needed = _dependencies(s, receive_of, ended, row_of, sends.deferred)
    order = _order(s, row_of, qp, c.opcode, owners, needed)
    rates = _rates(s, cost, c, message_row)
    columns = [np.empty_like(column) for column in (c.src, c.dst, c.size, qp, c.opcode, c.delay)]
    for column, old in zip(columns, (c.src, c.dst, c.size, qp, c.opcode, c.delay), strict=True):
        column[order] = old
    src, dst, size, qp, opcode, delay = columns
    rate = None
    if rates is not None:
        rate = np.empty_like(rates)
        rate[order] = rates
    part = JobMessages(
        src, dst, size, qp, order[owners], order[needed], opcode=opcode, delay_ps=delay, rate_gbps=rate, name=s.name
    )
    return part, order[ended]


def _rates(s: Schedule, cost: Overheads, c: _Columns, message_row: np.ndarray) -> np.ndarray | None:
    """Return the static rate of each row (0: none); None if no row has one."""
    if s.rate_gbps is None and not cost.rate_gbps:
        return None
    rates = np.where(c.opcode == Opcode.COMPUTE, 0.0, cost.rate_gbps)
    if s.rate_gbps is not None:
        stated = np.flatnonzero((message_row >= 0) & (s.rate_gbps > 0))
        rates[message_row[stated]] = s.rate_gbps[stated]
    return rates


@dataclass(frozen=True)
class _Sends:
    """How the message of each operation is sent: masks bool[n], and ``piece`` int64[n] (bytes per rail). ``copied``:
    the sender copies the message into registered buffers. ``rest``: the sender is still copying after it has posted the
    first fragment."""

    every: np.ndarray
    local: np.ndarray
    deferred: np.ndarray
    eager: np.ndarray
    copied: np.ndarray
    rest: np.ndarray
    striped: np.ndarray
    piece: np.ndarray
    rails: int


def _sends_of(s: Schedule, host: np.ndarray, cost: Overheads, rails: int) -> _Sends:
    """Return masks of the sends: those to the same host, those with rendezvous (``deferred``), eager ones (``eager``),
    and those with rendezvous that use all ``rails``."""
    sends = s.kind == Kind.SEND
    local = sends & (host[s.rank] == host[np.where(sends, s.peer, s.rank)])
    blocking = np.zeros(len(s), bool) if s.blocking is None else s.blocking
    limit = np.where(blocking, max(cost.blocking_limit, cost.eager_limit), cost.eager_limit)
    deferred = sends & ~local & (s.size > limit)
    eager = sends & ~local & ~deferred
    copied = eager & (blocking | (s.size <= cost.zcopy_above))
    rest = copied & (s.size > cost.fragment) & cost.copies_rest
    striped = deferred & (s.size > cost.stripe_above) & (rails > 1)
    piece = np.where(striped, -(-s.size // rails), s.size)
    return _Sends(
        every=sends,
        local=local,
        deferred=deferred,
        eager=eager,
        copied=copied,
        rest=rest,
        striped=striped,
        piece=piece,
        rails=rails,
    )


def _placed_rows(sends: _Sends, receive_of: np.ndarray, n: int) -> tuple[list[np.ndarray], int]:
    """Return the rows of messages, RTS, FIN and further stripes (int64[n] each, -1 = none), and the
    total number of rows. Every operation has one computation. Sends also have a message (deferred
    sends one READ per rail). Deferred sends also have RTS and FIN.
    """
    stripes = [sends.striped] * (sends.rails - 1)
    row_of, rows = _rows_of([sends.every, sends.deferred, sends.deferred, sends.rest, *stripes], n)
    for row, mask in zip(row_of, [sends.deferred, None, sends.deferred, None, *stripes], strict=True):
        if mask is not None:  # the receiver posts these messages, in the order of its receives
            by_send = np.flatnonzero(mask)
            row[by_send[np.argsort(receive_of[by_send])]] = np.sort(row[by_send])
    return row_of, rows


@dataclass(frozen=True)
class _Columns:
    """Columns of the rows, int64[rows] each: ports, bytes, operation, delay in ps. Initially every row is a computation
    that takes no time."""

    src: np.ndarray
    dst: np.ndarray
    size: np.ndarray
    opcode: np.ndarray
    delay: np.ndarray

    @classmethod
    def of(cls, rows: int) -> _Columns:
        return cls(
            np.empty(rows, np.int64),
            np.empty(rows, np.int64),
            np.ones(rows, np.int64),
            np.full(rows, int(Opcode.COMPUTE), np.int64),
            np.zeros(rows, np.int64),
        )


def _write_messages(
    c: _Columns, s: Schedule, cost: Overheads, sends: _Sends, ports: np.ndarray, message_row: np.ndarray
) -> None:
    """Write the messages that carry data between hosts: SENDs of the sender, or READs of the receiver."""
    i = np.flatnonzero(sends.every & ~sends.local)
    at, deferred = message_row[i], sends.deferred[i]
    here, there = ports[s.rank[i], 0], ports[s.peer[i], 0]
    c.src[at], c.dst[at] = np.where(deferred, there, here), np.where(deferred, here, there)
    c.size[at] = np.maximum(sends.piece[i], 1)
    c.opcode[at] = np.where(deferred, Opcode.READ, Opcode.SEND)
    c.delay[at] = np.where(deferred, round(cost.rendezvous_wait_ns * 1000), _eager_latency_ps(s.size[i], cost))


def _eager_latency_ps(octets: np.ndarray, cost: Overheads) -> np.ndarray:
    """Return the latency of an eager message in addition to that of the adapter's profile (int64[n]). It occupies no
    processor."""
    ns = cost.latency_ns + (octets > cost.bounce_above) * cost.fetch_ns + (octets > cost.fragment) * cost.behind_ns
    return np.round(ns * 1000).astype(np.int64)


def _write_rest(
    c: _Columns, s: Schedule, cost: Overheads, sends: _Sends, ports: np.ndarray, rest_row: np.ndarray
) -> None:
    """Write the sender's copies of further fragments, while the first is in transit."""
    i = np.flatnonzero(sends.rest)
    at = rest_row[i]
    c.src[at] = c.dst[at] = ports[s.rank[i], 0]
    c.delay[at] = np.round((s.size[i] - cost.fragment) * cost.copy_ps).astype(np.int64)


def _write_local(
    c: _Columns, s: Schedule, cost: Overheads, sends: _Sends, ports: np.ndarray, message_row: np.ndarray
) -> None:
    """Write the messages between ranks of one host: each is the time until the receiver sees the data that the sender's
    processor wrote."""
    i = np.flatnonzero(sends.local)
    at = message_row[i]
    c.src[at] = c.dst[at] = ports[s.rank[i], 0]
    c.delay[at] = round(cost.memory_ns * 1000)


def _write_handshakes(
    c: _Columns,
    s: Schedule,
    cost: Overheads,
    sends: _Sends,
    ports: np.ndarray,
    packets: tuple[tuple[np.ndarray, np.ndarray, int], ...],
) -> None:
    """Write RTS and FIN of deferred sends: ``packets`` are (rows, receiving rank, bytes)."""
    j = np.flatnonzero(sends.deferred)
    for rows, to, octets in packets:
        at = rows[j]
        c.src[at] = ports[np.where(to[j] == s.peer[j], s.rank[j], s.peer[j]), 0]
        c.dst[at], c.size[at] = ports[to[j], 0], octets
        c.opcode[at], c.delay[at] = Opcode.SEND, round(cost.latency_ns * 1000)


def _write_stripes(
    c: _Columns, s: Schedule, cost: Overheads, sends: _Sends, ports: np.ndarray, stripe_rows: list[np.ndarray]
) -> None:
    """Write the pieces of striped READs on all rails except the first."""
    t = np.flatnonzero(sends.striped)
    for k, stripe in enumerate(stripe_rows, 1):
        at, left = stripe[t], s.size[t] - k * sends.piece[t]
        c.src[at], c.dst[at] = ports[s.peer[t], k], ports[s.rank[t], k]
        c.size[at] = np.maximum(np.minimum(sends.piece[t], left), 1)
        c.opcode[at] = Opcode.READ
        c.delay[at] = round(cost.rendezvous_wait_ns * 1000)


def _order(
    s: Schedule, row_of: list[np.ndarray], qp: np.ndarray, opcode: np.ndarray, owners: np.ndarray, needed: np.ndarray
) -> np.ndarray:
    """Return a position for each row such that, on every queue pair, no message comes after a message that waits for
    it. Raises :class:`InputError` with the operation if there is no such order."""
    order, circle = posting_order(qp, opcode == Opcode.COMPUTE, owners, needed)
    if circle >= 0:
        operation = np.arange(len(qp))
        for row in row_of:
            there = np.flatnonzero(row >= 0)
            operation[row[there]] = there
        raise InputError(
            f"{s.name}: {s.where(int(operation[circle]))}: the operation waits for itself, through other ranks, so it "
            f"never ends"
        )
    return order


def _rows_of(masks: list[np.ndarray], n: int) -> tuple[list[np.ndarray], int]:
    """Number additional rows, which follow the first ``n``, for each mask in turn. Return these numbers (-1 where the
    mask is not set) and the total number of rows."""
    out = []
    for mask in masks:
        row = np.full(len(mask), -1, np.int64)
        row[mask] = n + np.arange(int(mask.sum()))
        n += int(mask.sum())
        out.append(row)
    return out, n


def _processor_ps(s: Schedule, cost: Overheads, receive_of: np.ndarray, sends: _Sends) -> np.ndarray:
    """Return the time of each operation on its rank's processor, in ps."""
    first = np.minimum(s.size, cost.fragment) * cost.copy_ps
    sent = np.where(sends.copied, first, 0)
    sent = np.where(sends.local, s.size * cost.memory_ps, sent)
    eager, deferred = sends.eager, sends.deferred
    came, fetched = np.zeros(len(s), bool), np.zeros(len(s), bool)
    came[receive_of[eager]], fetched[receive_of[deferred]] = True, True
    got = (
        np.where(came, first + np.maximum(s.size - cost.fragment, 0) * cost.rest_ps, 0)
        + fetched * cost.rendezvous_ns * 1000
    )
    ps = np.where(s.kind == Kind.COMPUTE, s.compute_ps, 0).astype(float)
    ps += np.where(s.kind == Kind.SEND, cost.send_ns * 1000 + sent, 0)
    ps += np.where(s.kind == Kind.RECV, cost.receive_ns * 1000 + got, 0)
    return np.round(ps).astype(np.int64)


def _queue_pairs(
    s: Schedule, rows: int, row_of: list[np.ndarray], local: np.ndarray, deferred: np.ndarray
) -> np.ndarray:
    """Return the queue pair of each row. There is one for each pair of ranks, rail and direction of posting. RTS and
    FIN have separate queue pairs, because they wait for no other message. A computation has its processor. Each message
    within a host has a separate one, because it is only a delay."""
    message_row, rts_row, fin_row, rest_row, *stripe_rows = row_of
    n, wide = len(s), 2 * (len(stripe_rows) + 2)
    qp = np.empty(rows, np.int64)
    qp[:n] = s.processor_rows()
    i, j, rest = np.flatnonzero(message_row >= 0), np.flatnonzero(deferred), np.flatnonzero(rest_row >= 0)
    qp[rest_row[rest]] = qp[rest]
    pair = s.rank.astype(np.int64) * s.ranks + s.peer
    back = s.peer.astype(np.int64) * s.ranks + s.rank
    base = s.ranks * PROCESSORS
    first = base + n
    wire = first + wide * np.where(deferred, back, pair) + deferred
    qp[message_row[i]] = np.where(local[i], base + i, wire[i])
    if s.acknowledged:  # in recorded programs, each tag is a queue pair
        qp[message_row[i]] += (s.tag[i] + 1) * (first + wide * (s.ranks * s.ranks + 1))
    qp[rts_row[j]], qp[fin_row[j]] = first + wide * (pair[j] + 1) - 2, first + wide * (back[j] + 1) - 1
    for k, stripe in enumerate(stripe_rows, 1):
        t = np.flatnonzero(stripe >= 0)
        qp[stripe[t]] = first + wide * back[t] + 2 * k + 1
    return np.unique(qp, return_inverse=True)[1]


def _dependencies(
    s: Schedule, receive_of: np.ndarray, ended: np.ndarray, row_of: list[np.ndarray], deferred: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that wait, and the rows that they wait for."""
    message_row, rts_row, fin_row, rest_row, *stripe_rows = row_of
    owner, need = s.on_ends()
    waits, needs = [owner], [ended[need]]
    eager = np.flatnonzero((s.kind == Kind.SEND) & ~deferred)
    rest = np.flatnonzero(rest_row >= 0)
    waits += [message_row[eager], receive_of[eager], rest_row[rest]]
    needs += [eager, message_row[eager], rest]
    j = np.flatnonzero(deferred)
    waits.append(rts_row[j])
    needs.append(j)
    # A READ begins when the RTS has arrived and the receive is posted, that is, when the dependencies
    # of the receive have ended.
    for reads in (message_row, *stripe_rows):
        j = np.flatnonzero(deferred & (reads >= 0))
        waits += [reads[j], receive_of[j], fin_row[j]]
        needs += [rts_row[j], reads[j], reads[j]]
        read_of = np.full(len(s), -1, np.int64)
        read_of[receive_of[j]] = reads[j]
        posts = read_of[owner] >= 0
        waits.append(read_of[owner[posts]])
        needs.append(ended[need[posts]])
    return np.concatenate(waits), np.concatenate(needs)
