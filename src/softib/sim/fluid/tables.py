"""The fluid layer's message tables before the first event, and two properties of adapters: the order of a queue pair's
messages, and the message rate."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.ragged import inverted, spread
from softib.sim.messages import Messages, Opcode, Transport
from softib.sim.outcome import NEVER
from softib.sim.packet_sizes import packets_of, wire_octets
from softib.sim.paths import Laid, Plane
from softib.sim.timing import Timing

__all__ = ["doubt_of", "queue_pairs", "traffic_of", "waits_of"]


def i8(rows: int, fill: int = 0) -> np.ndarray:
    """Return an int64 column."""
    return np.full(rows, fill, np.int64)


def i4(rows: int, fill: int = 0) -> np.ndarray:
    """Return an int32 column."""
    return np.full(rows, fill, np.int32)


def traffic_of(plane: Plane, m: Messages, laid: Laid, timing: Timing, flow: np.ndarray) -> Any:
    """Return ``Traffic`` of :mod:`~softib.sim.fluid.engine_kernels`."""
    from softib.sim.fluid.engine_kernels import COMPUTES, Traffic

    n = len(m)
    octets = wire_octets(m, packets_of(m, laid.mtu))
    kind = np.where(m.computes, COMPUTES, m.opcode == Opcode.READ).astype(np.int32)
    line = np.unique(m.qp, return_inverse=True)[1] if m.computes.any() else i8(n)
    awaited = np.diff(m.first) + (laid.why != 0) * (1 << 40)
    qp_next, before = queue_pairs(m)
    awaited[before >= 0] += 1
    asks, behind = asks_first(m, qp_next, timing.request_ps), same_direction(m)
    return Traffic(
        left=octets,
        up_to=np.zeros(n),
        entered=i8(n),
        later=i8(n, -1),
        sooner=i8(n, -1),
        flow=flow,
        state=i4(n),
        start=m.start_ps.copy(),
        delay=m.wait_ps,
        request=timing.request_ps - asks,
        forth=timing.forth_ps,
        answer=timing.answer_ps,
        began=i8(n, NEVER),
        ended=i8(n, NEVER),
        arrived=i8(n, NEVER),
        completed=i8(n, NEVER),
        awaited=awaited,
        ready=i8(n),
        free=i8(n),
        qp_next=qp_next,
        kind=kind,
        queue=i4(n),
        position=i4(n, -1),
        key=i8(n),
        line=line,
        busy=i8(int(line.max(initial=0)) + 1),
        behind=behind,
        memory_ps=timing.memory_ps,
        behind_ps=np.where(timing.ramped[behind], 0, timing.behind_ps),
        lag_ps=i8(n),
        completes_behind=np.where(m.transport == Transport.RC, before, -1),
        gap_ps=message_gaps(plane, m, octets, asks),
        lead_ps=timing.lead_ps,
        source=m.src.astype(np.int64),
        gate_ps=i8(len(plane.ends)),
        asks_ps=asks,
        parked=i8(n, -1),
        qp=m.qp.astype(np.int64),
        last_qp=i8(len(plane.ends), -1),
    )


def waits_of(m: Messages) -> Any:
    """Return ``Waits`` of :mod:`~softib.sim.fluid.engine_kernels`."""
    from softib.sim.fluid.engine_kernels import Waits

    first, to, completion = _dependents(m)
    return Waits(first=first, to=to, completion=completion)


def doubt_of(plane: Plane, m: Messages, laid: Laid, port: np.ndarray, flows: int) -> Any:
    """Return ``Doubt`` of :mod:`~softib.sim.fluid.validity_kernels`; ``port``: that of each channel."""
    from softib.sim.fluid.validity_kernels import Doubt

    n, channels = len(m), len(port)
    egress = np.where(port < -1, -2 - port, port)  # the limit of credits applies to the sending port
    inside = (egress >= 0) & (plane.table.switch[np.maximum(egress, 0) >> 4] >= 0)
    return Doubt(
        found=i8(4, -1),
        inside=inside.astype(np.uint8),
        stamp=i8(channels, -1),
        slowest=np.zeros(channels),
        met=i8(channels, -1),
        visited=i8(channels, -1),
        brings=np.zeros(channels),
        waits=i4(channels),
        tail_ps=i8(channels),
        tail_of=i8(channels, -1),
        shared=np.zeros(n, np.uint8),
        overlap_ps=i8(n),
        vague_ps=i8(n),
        ack_ps=_ack_ps(plane, m, laid),
        was=i8(n, -1),
        moved=i8(n),
        nearest=i8(channels),
        furthest=i8(channels),
        spread_ps=i8(n),
        gap_wait_ps=i8(n),
        unlike=np.zeros(n, np.uint8),
        bottleneck=i8(flows, -1),
        least_ps=i8(flows),
        most_ps=i8(flows),
        shared_at=i8(flows, -1),
        moved_by=i8(flows),
        moved_at=i8(flows, -1),
        spread=i8(flows),
        spread_at=i8(flows, -1),
        unlike_at=np.full((flows, 4), -1, np.int64),
    )


def queue_pairs(m: Messages) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(next, before)``: for each message, the next and the previous message of its queue
    pair (int64; -1: none). Computations have none."""
    after, before = np.full(len(m), -1, np.int64), np.full(len(m), -1, np.int64)
    order = np.argsort(m.qp, kind="stable")
    same = (m.qp[order][1:] == m.qp[order][:-1]) & ~m.computes[order][1:]
    after[order[:-1][same]], before[order[1:][same]] = order[1:][same], order[:-1][same]
    return after, before


def same_direction(m: Messages) -> np.ndarray:
    """Return, for each message, the previous message of its queue pair whose payload goes to the same memory in the
    same direction (int64; -1: none). Such messages arrive in order (IBA chapter 9, ordering)."""
    before = np.full(len(m), -1, np.int64)
    rows = np.flatnonzero((m.opcode != Opcode.ATOMIC) & ~m.computes)
    direction = 2 * m.qp[rows].astype(np.int64) + (m.opcode[rows] == Opcode.READ)
    by = np.argsort(direction, kind="stable")
    order = rows[by]
    alike = (direction[by][1:] == direction[by][:-1]) & (m.dst[order][1:] == m.dst[order][:-1])
    before[order[1:][alike]] = order[:-1][alike]
    return before


def asks_first(m: Messages, after: np.ndarray, request_ps: np.ndarray) -> np.ndarray:
    """Return the time in ps from the request of a READ until its data begins to leave, if the next
    message of the queue pair is not a READ and follows the request (int64); 0 for all other
    messages."""
    read = m.opcode == Opcode.READ
    return np.where(read & (after >= 0) & ~read[after], request_ps, 0)


def message_gaps(plane: Plane, m: Messages, octets: np.ndarray, asks: np.ndarray) -> np.ndarray:
    """Return the minimum time in ps that the adapter needs between the request of each message and the next request of
    its port (int64). It is 0 if the message's bytes take longer, so that the link is the limit. A READ of which only
    the request leaves at first (``asks``) counts as short."""
    gap = round(plane.profile.message_gap_ns * 1000)
    gbps = plane.gbps[plane.ends[m.src]]
    wire_ps = np.divide(octets * 8000.0, gbps, out=np.zeros(len(m)), where=gbps > 0)
    limited = ((wire_ps < gap) | (asks > 0)) & (plane.fabric.port_num[plane.ends[m.src]] > 0) & ~m.computes
    return np.where(limited, gap, 0)


def _ack_ps(plane: Plane, m: Messages, laid: Laid) -> np.ndarray:
    """Return the expected wait of an acknowledgement behind data packets: half a packet at
    every second hop (int64)."""
    gbps = plane.gbps[plane.ends[m.src]]
    packet = np.divide(laid.mtu * 8e3, gbps, out=np.zeros(len(m)), where=gbps > 0)
    return (0.25 * np.diff(laid.first) * packet * (m.transport == Transport.RC)).astype(np.int64)


def _dependents(m: Messages) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the dependencies in reverse: ``(first, to, completion)``."""
    if not len(m.needs):
        return np.zeros(len(m) + 1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8)
    first, to, order = inverted(spread(np.diff(m.first))[0], m.needs, len(m))
    return first, to, (m.src[to] == m.src[m.needs[order]]).astype(np.uint8)
