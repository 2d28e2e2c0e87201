"""One message of a run, packet by packet and hop by hop: when each packet reached a port, why it
waited, and when it left (``--trace``).

All times come from the engine's log (:mod:`~softib.sim.packet.log`). The time of a packet begins when the adapter has
its request. It is divided, without gaps, into the waits at each port, the delays of cables and switches, the transfer
of its bytes on the last wire, and the transfer into memory. The parts add up to the time when the packet is in
memory; nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from softib.errors import InputError
from softib.sim.packet import constants

if TYPE_CHECKING:
    from softib.sim.packet.log import PacketLog

__all__ = ["KINDS", "REASONS", "Flight", "Hop", "Timeline", "ports_of_message", "timeline"]

KINDS = {
    constants.DATA: "data",
    constants.ACK: "ACK",
    constants.NAK: "NAK",
    constants.CNP: "CNP",
    constants.READ_REQUEST: "request",
    constants.READ_RESPONSE: "response",
}
REASONS = ("own", "queue", "other_vl", "credits", "held", "incoming")
"""Reasons why a packet waits at a port, in this order: earlier packets of its queue pair; other packets of its VL;
packets of other VLs (arbitration); the link is idle for lack of credits; the link is idle for another reason (static
rate, congestion control, an earlier message not posted yet); the packet's bytes have not arrived (fetching from memory,
or a slower previous link)."""
MOST_PACKETS = 4000
NEVER_PS = 1 << 62
BEHIND = 3


@dataclass(frozen=True)
class Hop:
    """A packet at a port that sends it. Times: ``arrived_ps`` (from then on it could be sent), ``decided_ps`` (the port
    selected it), ``sent_ps`` (its first byte left), ``left_ps`` (its last byte left). ``waits_ps``: waiting time for
    each of :data:`REASONS`; their sum is ``sent_ps - arrived_ps``. ``behind``: the messages whose packets the port sent
    first, each with the time that this took."""

    port: int
    vl: int
    arrived_ps: int
    decided_ps: int
    sent_ps: int
    left_ps: int
    waits_ps: dict[str, int]
    behind: tuple[tuple[int, int], ...] = ()


@dataclass
class Flight:
    """A packet from its sender to its destination, or to the place where it was lost. Times, -1 if it did not happen:
    ``received_ps`` (its last byte arrived), ``freed_ps`` (it left the receive buffer), ``written_ps`` (it is in memory;
    an acknowledgement: it is processed), ``lost_ps`` (it was lost, at port ``lost_at``)."""

    kind: str
    psn: int
    octets: int
    backward: bool
    hops: list[Hop] = field(default_factory=list)
    received_ps: int = -1
    freed_ps: int = -1
    written_ps: int = -1
    lost_ps: int = -1
    lost_at: int = -1

    def parts(self, log: PacketLog) -> dict[str, int]:
        """Return the parts in ps between the first ``arrived_ps`` and ``written_ps``, each computed
        independently: waits by reason, ``cables`` (the fabric's lengths), ``switches`` (from the end of
        the header on the cable until it is queued), ``wire`` (its bytes on the last link), ``buffer``,
        ``memory``. Empty for a packet that was lost."""
        if self.written_ps < 0:
            return {}
        parts = {name: sum(h.waits_ps.get(name, 0) for h in self.hops) for name in REASONS}
        p = log.net_port
        parts["cables"] = sum(int(p["delay_ps"][h.port]) for h in self.hops)
        parts["switches"] = sum(b.arrived_ps - a.sent_ps - int(p["delay_ps"][a.port]) for a, b in pairwise(self.hops))
        into = int(p["peer"][self.hops[-1].port])
        if p["kind"][into] != constants.END_PORT:
            parts["switches"] += int(p["latency_ps"][into])
        parts["wire"] = self.hops[-1].left_ps - self.hops[-1].sent_ps
        parts["buffer"] = self.freed_ps - self.received_ps
        parts["memory"] = self.written_ps - self.freed_ps
        return parts


@dataclass(frozen=True)
class Timeline:
    """A message: ``posted_ps`` (by the program), ``ready_ps`` (the adapter has it), ``arrived_ps``,
    ``completed_ps``, and its packets by the time of their first hop. ``last``: the row of the packet
    with which it arrived (-1: none). ``left_out``: number of packets in the middle that are omitted."""

    message: int
    posted_ps: int
    ready_ps: int
    arrived_ps: int
    completed_ps: int
    flights: tuple[Flight, ...]
    last: int
    left_out: int = 0


def ports_of_message(log: PacketLog, message: int) -> set[int]:
    """Return the ports that sent packets of the message's queue pair."""
    q = int(log.message["qp"][message])
    rows = (log.kind == constants.LOG_SENT) & (log.stream >> 1 == q)
    return set(log.port[rows].tolist())


def timeline(log: PacketLog, message: int) -> Timeline:
    """Return the timeline of a message whose queue pair and ports were watched. Raises
    :class:`InputError` if they were not."""
    m = log.message[message]
    q = int(m["qp"])
    rows = np.flatnonzero((log.stream >> 1 == q) & (log.kind != constants.LOG_STARVED))
    rows = rows[log.message_of(rows) == message]
    begun = rows[(log.kind[rows] == constants.LOG_SENT) & np.isin(log.port[rows], (log.qp["src"][q], log.qp["dst"][q]))]
    if not len(begun) and m["arrived"] >= 0:
        raise InputError(f"message {message} was not watched in this run")
    by_port = _Sends(log)
    shown, left_out = begun, 0
    if len(begun) > MOST_PACKETS:
        shown, left_out = (
            np.concatenate([begun[: MOST_PACKETS // 2], begun[-MOST_PACKETS // 2 :]]),
            len(begun) - MOST_PACKETS,
        )
    flights = [_follow(log, by_port, rows, int(row), int(m["posted"]) - 1) for row in shown]
    arrived = int(m["arrived"])
    last = next(
        (i for i, f in enumerate(flights) if f.written_ps == arrived and f.kind in ("data", "request", "response")), -1
    )
    return Timeline(
        message,
        int(m["began"]),
        int(m["posted"]) - 1,
        arrived,
        int(m["completed"]),
        tuple(flights),
        last,
        left_out,
    )


class _Sends:
    """The packets that each watched port sent, by time, and the times at which the port lacked credits."""

    def __init__(self, log: PacketLog):
        self.log = log
        self.sent = dict(_by_port(log, constants.LOG_SENT))
        self.starved = dict(_by_port(log, constants.LOG_STARVED))

    def waits(self, port: int, row: int, begin: int) -> tuple[dict[str, int], tuple[tuple[int, int], ...]]:
        """Return why packet ``row`` waited at ``port`` from ``begin`` until it was sent: ``Hop.waits_ps`` and
        ``Hop.behind``."""
        log = self.log
        decided, vl, q = int(log.now[row]), int(log.vl[row]), int(log.stream[row]) >> 1
        waits = dict.fromkeys(REASONS, 0)
        waits["incoming"] = int(log.start[row]) - max(decided, begin)
        if decided <= begin:
            return waits, ()
        sent = self.sent[port]
        ahead = sent[(log.end[sent] > begin) & (log.now[sent] < decided)]
        ahead = ahead[ahead != row]
        a, b = np.maximum(log.now[ahead], begin), np.minimum(log.end[ahead], decided)
        took = np.maximum(b - a, 0)
        same_qp = log.stream[ahead] >> 1 == q
        same = log.vl[ahead] == vl
        for name, which in (("own", same_qp), ("queue", ~same_qp & same), ("other_vl", ~same_qp & ~same)):
            waits[name] = int(took[which].sum())
        self._idle(port, vl, zip(a.tolist(), b.tolist(), strict=True), begin, decided, waits)
        return waits, self._behind(ahead[~same_qp], took[~same_qp])

    def _idle(
        self, port: int, vl: int, busy: Iterable[tuple[int, int]], begin: int, end: int, waits: dict[str, int]
    ) -> None:
        rows = self.starved.get(port, np.zeros(0, np.int64))
        lacks = self.log.now[rows[self.log.vl[rows] == vl]]
        sent = self.sent[port]
        before = int(np.searchsorted(self.log.now[sent], begin)) - 1
        since = (
            int(self.log.now[sent[before]]) if before >= 0 else -1
        )  # from a check after this packet on, the port lacks credits
        at = begin
        for a, b in [*busy, (end, end)]:
            if a > at:
                some = np.searchsorted(lacks, since) < np.searchsorted(lacks, a)
                waits["credits" if some else "held"] += a - at
            at, since = max(at, b), max(since, a)

    def _behind(self, rows: np.ndarray, took: np.ndarray) -> tuple[tuple[int, int], ...]:
        if not len(rows):
            return ()
        whose, which = np.unique(self.log.message_of(rows), return_inverse=True)
        size = np.bincount(which, took).astype(np.int64)
        top = np.argsort(-size, kind="stable")[:BEHIND]
        return tuple((int(whose[k]), int(size[k])) for k in top)


def _by_port(log: PacketLog, kind: int) -> Iterable[tuple[int, np.ndarray]]:
    rows = np.flatnonzero(log.kind == kind)
    rows = rows[np.lexsort((log.now[rows], log.port[rows]))]
    ports, first = np.unique(log.port[rows], return_index=True)
    return zip(ports.tolist(), np.split(rows, first[1:]) if len(rows) else [], strict=True)


def _follow(log: PacketLog, sends: _Sends, rows: np.ndarray, row: int, ready: int) -> Flight:
    """Return the flight of the packet that begins with ``row``."""
    kind = int(log.what[row])
    backward = bool(log.stream[row] & 1) ^ (kind == constants.CNP)
    flight = Flight(KINDS.get(kind, str(kind)), int(log.psn[row]), int(log.octets[row]), backward)
    same = rows[(log.stream[rows] == log.stream[row]) & (log.psn[rows] == log.psn[row]) & (log.what[rows] == kind)]
    target = int(log.qp["src" if backward else "dst"][int(log.stream[row]) >> 1])
    begin = ready if not backward and ready >= 0 else int(log.now[row])
    while True:
        port = int(log.port[row])
        waits, behind = sends.waits(port, row, begin)
        flight.hops.append(
            Hop(
                port,
                int(log.vl[row]),
                begin,
                max(int(log.now[row]), begin),
                int(log.start[row]),
                int(log.end[row]),
                waits,
                behind,
            )
        )
        into = int(log.net_port["peer"][port])
        here = same[log.came_in[same] == into]
        repeated = same[
            (log.kind[same] == constants.LOG_SENT) & (log.port[same] == port) & (log.start[same] > log.start[row])
        ]
        passed = here[(log.kind[here] == constants.LOG_SENT) & (into != target)]
        on = _came(log, passed, log.entered[passed], into, (row, repeated, log.start))
        if on >= 0:
            row, begin = on, int(log.entered[on])
            continue
        whole = here[log.kind[here] == constants.LOG_RECEIVED]
        repeated_ps = int(log.start[repeated].min(initial=NEVER_PS)) + int(log.net_port["delay_ps"][port])
        _end(
            log,
            flight,
            _came(log, whole, log.now[whole], into, (row, repeated, log.end)),
            here[log.now[here] < repeated_ps],
        )
        return flight


def _came(
    log: PacketLog, rows: np.ndarray, when: np.ndarray, into: int, sent: tuple[int, np.ndarray, np.ndarray]
) -> int:
    """Return the row in which a sent packet arrived at port ``into``; -1: none. ``rows`` are the packets that arrived
    there, at the times ``when``. ``sent``: the row in which the packet was sent, the rows in which it was sent again,
    and the times of these. A packet arrives after the delays of cable and switch. If the switch had a different latency
    at that time, the arrival is matched if it is too early for a packet that was sent again."""
    row, repeated, times = sent
    delay = int(log.net_port["delay_ps"][log.port[row]])
    latency = int(log.net_port["latency_ps"][into]) if log.net_port["kind"][into] != constants.END_PORT else 0
    at = int(times[row]) + delay
    came = rows[when == at + latency]
    if not len(came):
        came = rows[(when >= at) & (when < int(times[repeated].min(initial=NEVER_PS)) + delay)]
    return int(came[0]) if len(came) else -1


def _end(log: PacketLog, flight: Flight, whole: int, rows: np.ndarray) -> None:
    """Record what happened to a packet after its last hop. If it was received, this is in row ``whole`` (-1: it was not
    received). If it was lost, the row is one of ``rows``, before the packet was sent again."""
    lost = rows[(log.kind[rows] == constants.LOG_LOST) & (log.now[rows] >= flight.hops[-1].sent_ps)]
    if whole >= 0:
        flight.received_ps, flight.freed_ps, flight.written_ps = (int(c[whole]) for c in (log.now, log.start, log.end))
    elif len(lost):
        flight.lost_ps, flight.lost_at = int(log.now[lost[0]]), int(log.port[lost[0]])
