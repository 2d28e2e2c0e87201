"""The tables of the fluid layer before the first event, and properties of adapters other than
rates: the order of a queue pair's messages, the message rate of an adapter, and the shares of a
link that VL arbitration tables give (IBA 7.6.9, 14.2.5.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from softib.iba.smp import PortInfo
from softib.ragged import inverted, spread
from softib.sim.messages import Messages, Opcode, Transport
from softib.sim.outcome import NEVER
from softib.sim.paths import Laid, Plane, packets_of, wire_octets
from softib.sim.timing import Timing

if TYPE_CHECKING:
    from softib.fabric.model import Fabric


__all__ = ["Weights", "doubt_of", "flows_and_links", "traffic_of", "waits_of", "weights_of"]


UNLIMITED = 255
"""HighLimit value: low priority sends only if high priority has nothing to send."""
LIMIT_OCTETS, LOW_PACKET = 4096, 4096
"""Bytes of one unit of HighLimit, and of the low-priority packet that may then be sent (one MTU).
"""


class Weights(NamedTuple):
    """VL arbitration of channels (port and VL)."""

    high: np.ndarray
    """Weight in the high-priority table, float64."""
    low: np.ndarray
    """Weight in the low-priority table, float64."""
    high_share: np.ndarray
    """Share of the high-priority table if both tables have data."""
    idle: np.ndarray
    """Whether no table serves the VL although some table serves others; its weight is then 1 of the lowest."""


class FluidColumns(NamedTuple):
    """Columns of a fluid run."""

    flows: Any
    """:data:`~softib.sim.maxmin_kernels.Flows`."""
    links: Any
    """:data:`~softib.sim.maxmin_kernels.Links`."""
    port: np.ndarray
    """By channel: 16 * port + VL, -1: none."""
    idle: np.ndarray
    """By channel: no arbitration table serves its VL."""


class LimitedPaths(NamedTuple):
    """Channels of the path of each message, including channels for limits, and the rate of each channel."""

    first: np.ndarray
    channel: np.ndarray
    port: np.ndarray
    gbps: np.ndarray


class LinkChains(NamedTuple):
    """Channels of one egress port as one link."""

    group: np.ndarray
    """By channel: its link."""
    link_next: np.ndarray
    """By channel: the next channel of its link, -1: none."""
    head: np.ndarray
    """By link: its first channel."""
    several: np.ndarray
    """By link: whether it has more than one channel."""


def weights_of(fabric: Fabric, port: np.ndarray, vl: np.ndarray) -> Weights:
    """Return the weights of channels (``port``, ``vl``) in both tables.

    The high-priority table sends HighLimit × 4 KiB before a packet of the low-priority table may be
    sent (0: one packet each). Tables without entries, as before the manager writes them, serve all
    VLs equally.
    """
    tables = fabric.vl_arb[port].reshape(len(port), 2, 64, -1).reshape(len(port), 2, 128)
    entries = tables.reshape(len(port), 2, 64, 2)  # low, high; VL and weight an entry
    wanted = (entries[..., 0] & 15) == vl[:, None, None]
    weight = (entries[..., 1] * wanted).sum(axis=2).astype(np.float64)
    written = entries[..., 1].any(axis=(1, 2))
    idle = written & (weight.sum(axis=1) == 0)
    low = np.where(written, np.where(idle, 1.0, weight[:, 0]), 1.0)
    high = np.where(written, weight[:, 1], 0.0)
    limit = PortInfo.vl_high_limit.get(fabric.port_info[port]).astype(np.float64)
    octets = np.where(limit == 0, LOW_PACKET, limit * LIMIT_OCTETS)
    share = np.where(limit == UNLIMITED, 1.0 - 1e-6, octets / (octets + LOW_PACKET))
    return Weights(high, low, share, idle)


def i8(rows: int, fill: int = 0) -> np.ndarray:
    """Return an int64 column."""
    return np.full(rows, fill, np.int64)


def i4(rows: int, fill: int = 0) -> np.ndarray:
    """Return an int32 column."""
    return np.full(rows, fill, np.int32)


def f8(rows: int) -> np.ndarray:
    """Return a float64 column of zeros."""
    return np.zeros(rows)


def flows_and_links(plane: Plane, m: Messages, laid: Laid) -> FluidColumns:
    """Return the columns of the messages ``m`` on the paths ``laid``."""
    from softib.sim.maxmin_kernels import Flows, Links

    n = len(m)
    first, channel, port, gbps = _with_limits(plane, m, laid)
    entries, channels = len(channel), len(port)
    owner = np.repeat(np.arange(n, dtype=np.int32), np.diff(first))
    flows = Flows(
        first=first,
        channel=channel,
        owner=owner,
        next=i4(entries),
        prev=i4(entries),
        rate=f8(n),
        fresh=f8(n),
        bottleneck=i4(n, -1),
        slot=i4(n),
        member=i8(n),
        frozen=i4(n),
    )
    chains, weights = _links(port), _weights(plane, port)
    links = Links(
        head=i4(channels, -1),
        flows=i4(channels),
        group=chains.group,
        link_next=chains.link_next,
        link_head=chains.head,
        gbps=gbps[chains.head],
        several=chains.several,
        high=weights.high,
        low=weights.low,
        high_share=weights.high_share[chains.head],
        marked=i8(channels),
        open=i4(channels),
        used=f8(channels),
        only=i4(channels),
        heap=i4(channels),
        level=f8(channels),
    )
    return FluidColumns(flows, links, port, weights.idle)


def traffic_of(plane: Plane, m: Messages, laid: Laid, timing: Timing) -> Any:
    """Return ``Traffic`` of :mod:`~softib.sim.fluid_kernels`."""
    from softib.sim.fluid_kernels import COMPUTES, Traffic

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
        last=i8(n),
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
    """Return ``Waits`` of :mod:`~softib.sim.fluid_kernels`."""
    from softib.sim.fluid_kernels import Waits

    first, to, completion = _dependents(m)
    return Waits(first=first, to=to, completion=completion)


def doubt_of(plane: Plane, m: Messages, laid: Laid, timing: Timing, port: np.ndarray) -> Any:
    """Return ``Doubt`` of :mod:`~softib.sim.validity_kernels`; ``port`` of each channel."""
    from softib.sim.validity_kernels import Doubt

    n, channels = len(m), len(port)
    egress = np.where(port < -1, -2 - port, port)  # credits limit the sending port
    inside = (egress >= 0) & (plane.table.switch[np.maximum(egress, 0) >> 4] >= 0)
    return Doubt(
        found=i8(4, -1),
        inside=inside.astype(np.uint8),
        stamp=i8(channels, -1),
        slowest=f8(channels),
        met=i8(channels, -1),
        visited=i8(channels, -1),
        brings=f8(channels),
        waits=i4(channels),
        tail_ps=i8(channels),
        tail_of=i8(channels, -1),
        shared=np.zeros(n, np.uint8),
        overlap_ps=i8(n),
        vague_ps=i8(n),
        ack_ps=_ack_ps(plane, m, laid),
        was=i8(n, -1),
        moved=i8(n),
        forth_ps=timing.forth_ps,
        nearest=i8(channels),
        furthest=i8(channels),
        spread_ps=i8(n),
        gap_wait_ps=i8(n),
        unlike=np.zeros(n, np.uint8),
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
    """Return for each message the previous one on its queue pair whose payload goes in the same
    direction to the same memory (int64; -1: none): these arrive in order (IBA chapter 9,
    ordering)."""
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
    """Return the adapter's minimum time in ps from the request of each message to the next one of
    its port (int64); 0 if the bytes of the message take longer, so that the link is the limit. A
    READ counts as short if only its request leaves at first (``asks``)."""
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


def _with_limits(plane: Plane, m: Messages, laid: Laid) -> LimitedPaths:
    """Return the paths with two kinds of extra channels. In front of a link limited by credits: one
    with the rate of one VL (``port`` is -2 - port). At the start: a separate one for each message
    with a static rate or without any link (to itself, or between ports 0; ``port`` is -1)."""
    rows = laid.port >> 4
    vl_gbps = plane.credits.gbps[rows]
    slow_vls = np.flatnonzero(np.isfinite(vl_gbps))
    lengths = np.diff(laid.first)
    alone = (lengths == 0) & (laid.why == 0)
    limit = np.where(m.rate_gbps > 0, m.rate_gbps, np.inf)
    if alone.any():
        fastest = float(plane.gbps.max(initial=1.0))
        port_rate = plane.gbps[plane.ends[m.src]]
        limit = np.where(alone, np.minimum(limit, np.where(port_rate > 0, port_rate, fastest)), limit)
    limited = np.flatnonzero(np.isfinite(limit) & (laid.why == 0))
    if not len(limited) and not len(slow_vls):
        return LimitedPaths(laid.first, laid.channel, laid.port, plane.link_gbps[rows])
    added_of = np.full(laid.channels, -1)
    added_of[slow_vls] = laid.channels + np.arange(len(slow_vls))
    entries = np.flatnonzero(added_of[laid.channel] >= 0)
    place = np.concatenate([laid.first[limited], entries])
    added = np.concatenate([laid.channels + len(slow_vls) + np.arange(len(limited)), added_of[laid.channel[entries]]])
    channel = np.insert(laid.channel, place, added)
    before = np.zeros(len(m) + 1, np.int64)
    before[1:] = np.cumsum(np.bincount(np.searchsorted(laid.first, entries, side="right") - 1, minlength=len(m)))
    before[1:] += np.cumsum(np.isin(np.arange(len(m)), limited))
    port = np.concatenate([laid.port, -2 - laid.port[slow_vls], np.full(len(limited), -1)])
    gbps = np.concatenate([plane.link_gbps[rows], vl_gbps[slow_vls], limit[limited]])
    return LimitedPaths(laid.first + before, channel.astype(np.int32), port, gbps)


def _links(port: np.ndarray) -> LinkChains:
    """Return the links of channels; the channels of one egress port form one link."""
    n = len(port)
    key = np.where(port >= 0, port >> 4, -1 - np.arange(n))
    order = np.argsort(key, kind="stable").astype(np.int32)
    sorted_key = key[order]
    begins = np.ones(n, bool)
    begins[1:] = sorted_key[1:] != sorted_key[:-1]
    group = np.empty(n, np.int32)
    group[order] = np.cumsum(begins) - 1
    link_next = np.full(n, -1, np.int32)
    link_next[order[:-1]] = np.where(begins[1:], -1, order[1:])
    head = order[begins]
    return LinkChains(group, link_next, head, (link_next[head] >= 0).astype(np.uint8))


def _weights(plane: Plane, port: np.ndarray) -> Weights:
    n = len(port)
    shared = np.unique(port[port >= 0] & 15)
    if len(shared) < 2:  # one VL: no arbitration
        return Weights(np.zeros(n), np.ones(n), np.zeros(n), np.zeros(n, bool))
    weights = weights_of(plane.fabric, np.maximum(port, 0) >> 4, np.maximum(port, 0) & 15)
    return weights._replace(idle=weights.idle & (port >= 0))


def _dependents(m: Messages) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the dependencies in reverse: ``(first, to, completion)``."""
    if not len(m.needs):
        return np.zeros(len(m) + 1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8)
    first, to, order = inverted(spread(np.diff(m.first))[0], m.needs, len(m))
    return first, to, (m.src[to] == m.src[m.needs[order]]).astype(np.uint8)
