"""The fluid layer: every message is a flow at its max-min fair rate; rates change when flows begin and end.

What it knows: links and VLs that flows share, by the tables of the fabric, static rates, dependencies, and the delay of a path without
load. What it does not: packets, credits, queues; ``Outcome.valid`` says where these would matter (docs/simulate.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from softib.ragged import inverted, spread
from softib.sim.fluid_order import asks_first, message_gaps, queue_pairs, same_direction
from softib.sim.messages import Messages, Opcode, Transport
from softib.sim.outcome import NEVER, Outcome
from softib.sim.paths import WHY, Laid, Plane, packets_of, wire_octets
from softib.sim.samples import Sampler

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["run"]

FEW_PACKETS = 20
"""A message of fewer packets that shares its bottleneck ends when its last packet's turn comes: up to 1/20 earlier than the fluid says."""
MEETING = 0.05
"""Share of a message's latency (or size) up to which what the model leaves out may be: the tail of the message before on a link, other
delays of paths, octets in buffers."""
STEP = 1 << 13
"""Messages between two calls of ``progress``."""
Progress = Callable[[int, int, int], None]
"""Called with messages that ended, all messages, and the virtual time in ps."""


def run(
    fabric: Fabric | Plane, messages: Messages, *, path_sl: np.ndarray | None = None, judge: bool = True,
    progress: Progress | None = None, sample_ps: int = 0,
) -> Outcome:  # fmt: skip
    """Times of ``messages`` on ``fabric`` (or a :class:`~softib.sim.paths.Plane` of it) as its tables stand.

    ``sample_ps``: take samples of loads at this interval (0: none).

    ``path_sl`` uint8[ends, ends]: SLs of a manager's path records. ``judge=False`` leaves the question of validity out (``valid`` is
    then True). Raises :class:`InputError` where a message cannot be, or no link has a known speed.
    """
    plane = fabric if isinstance(fabric, Plane) else Plane(fabric, path_sl)
    messages.check(len(plane.ends))
    laid = plane.lay(messages)
    state = _State(plane, messages, laid)
    sampler = Sampler(sample_ps) if sample_ps else None
    state.run(progress, judge, sampler)
    outcome = _outcome(plane, messages, laid, state)
    if sampler is not None:
        outcome.samples = sampler.finish(outcome.end_ps, state.sent_by_port(outcome.end_ps, len(plane.gbps)))
    return outcome


class _State:
    """The tables of one run."""

    def __init__(self, plane: Plane, m: Messages, laid: Laid):
        from softib.sim.fluid_kernels import CLOCK, COMPUTES, Clock, Traffic, Waits
        from softib.sim.maxmin_kernels import SIZE, Flows, Links, Round
        from softib.sim.validity_kernels import Doubt

        n, self.plane_gbps = len(m), plane.gbps
        first, channel, port, gbps = _with_limits(plane, m, laid)
        entries, channels = len(channel), len(port)
        i8 = lambda size, fill=0: np.full(size, fill, np.int64)
        i4 = lambda size, fill=0: np.full(size, fill, np.int32)
        f8 = lambda size: np.zeros(size)
        owner = np.repeat(np.arange(n, dtype=np.int32), np.diff(first))
        self.flows = Flows(
            first, channel, owner, i4(entries), i4(entries), f8(n), f8(n), i4(n, -1), i4(n), i8(n), i4(n)
        )
        group, link_next, link_head, several = _links(port)
        self.idle: np.ndarray
        high, low, share, self.idle = _weights(plane, port)
        self.port = port
        self.links = Links(
            i4(channels, -1), i4(channels), group, link_next, link_head, gbps[link_head], several, high, low,
            share[link_head], i8(channels), i4(channels), f8(channels), i4(channels), i4(channels), f8(channels),
        )  # fmt: skip
        self.round = Round(i4(n), i4(n), i4(channels), SIZE.zeros(1))
        octets = wire_octets(m, packets_of(m, laid.mtu))
        kind = np.where(m.computes, COMPUTES, m.opcode == Opcode.READ).astype(np.int32)
        line = np.unique(m.qp, return_inverse=True)[1] if m.computes.any() else i8(n)
        timing = plane.timing(m, laid)
        awaited = np.diff(m.first) + (laid.why != 0) * (1 << 40)
        qp_next, before = queue_pairs(m)
        awaited[before >= 0] += 1
        asks, behind = asks_first(m, qp_next, timing.request_ps), same_direction(m)
        self.traffic = Traffic(
            octets, i8(n), i4(n), m.start_ps.copy(), m.wait_ps, timing.request_ps - asks, timing.forth_ps, timing.answer_ps, i8(n, NEVER), i8(n, NEVER), i8(n, NEVER), i8(n, NEVER),
            awaited, i8(n), i8(n), qp_next, kind, i4(n), i4(n, -1), i8(n), line, i8(int(line.max(initial=0)) + 1), behind, timing.memory_ps, np.where(timing.ramped[behind], 0, timing.behind_ps), i8(n),
            np.where(m.transport == Transport.RC, before, -1), message_gaps(plane, m, octets, asks), timing.lead_ps, m.src.astype(np.int64), i8(len(plane.ends)), asks, i8(n, -1), m.qp.astype(np.int64), i8(len(plane.ends), -1),
        )  # fmt: skip
        self.waits = Waits(*_dependents(m))
        self.clock = Clock(CLOCK.zeros(1))
        self.clock.clock.stop = 1 << 62
        self.octets, self.ramp_ps = octets.copy(), timing.ramp_ps
        inside = (port >= 0) & (plane.table.switch[np.maximum(port, 0) >> 4] >= 0)
        by_channel = (i8(channels, -1), f8(channels), i8(channels, -1), i8(channels, -1), f8(channels), i4(channels), i8(channels),
                      i8(channels, -1))  # fmt: skip
        self.doubt = Doubt(
            i8(4, -1), inside.astype(np.uint8), *by_channel, np.zeros(n, np.uint8), i8(n), i8(n), _ack_ps(plane, m, laid), i8(n, -1), i8(n),
            timing.forth_ps, i8(channels), i8(channels), i8(n), i8(n),
        )  # fmt: skip

    def sent_by_port(self, now_ps: int, ports: int) -> np.ndarray:
        """Octets that each port's flows have sent since time 0 (float64[ports])."""
        from softib.sim.fluid_kernels import ENDED, SENDS

        t = self.traffic
        left = np.maximum(t.left - self.flows.rate * (now_ps - t.last) / 8000.0, 0.0)
        sent = np.where(t.state == SENDS, self.octets - left, np.where(t.state == ENDED, self.octets, 0.0))
        on = self.port[self.flows.channel]
        return np.bincount(on[on >= 0] >> 4, sent[self.flows.owner[on >= 0]], minlength=ports)

    def run(self, progress: Progress | None, judge: bool, sampler: Sampler | None = None) -> None:
        """Until nothing more happens."""
        from softib.sim.fluid_kernels import QUEUED_STATE, advance, load_events

        t, clock = self.traffic, self.clock.clock
        clock.judging = judge
        ready = np.flatnonzero(t.awaited == 0)
        t.state[ready] = QUEUED_STATE
        begin = np.maximum(t.start[ready], t.delay[ready]) + t.request[ready]
        order = np.lexsort((ready, begin))
        clock.queued = load_events(t, ready[order], begin[order])
        n = len(t.left)
        step = STEP if progress else n + 1
        while True:
            if sampler is not None:
                clock.stop = sampler.next_ps
            until = int(clock.finished) + step
            status = advance(self.flows, self.links, self.round, t, self.waits, self.clock, self.doubt, until)
            if status == 2 and sampler is not None:
                sampler.take(self.sent_by_port(sampler.next_ps, len(self.plane_gbps)))
            if progress:
                progress(int(clock.finished), n, int(clock.now))
            if status == 1:
                return


def _ack_ps(plane: Plane, m: Messages, laid: Laid) -> np.ndarray:
    """What an acknowledgement may wait behind data packets: half a packet at every second hop (int64)."""
    gbps = plane.gbps[plane.ends[m.src]]
    packet = np.divide(laid.mtu * 8e3, gbps, out=np.zeros(len(m)), where=gbps > 0)
    return (0.25 * np.diff(laid.first) * packet * (m.transport == Transport.RC)).astype(np.int64)


def _with_limits(plane: Plane, m: Messages, laid: Laid) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """``(first, channel, port, gbps)``: paths and, before them, a channel of its own for each message with a static rate or without any
    link (to itself, or between ports 0): ``port`` is -1 for these."""
    gbps = plane.carried_gbps[laid.port >> 4]
    lengths = np.diff(laid.first)
    alone = (lengths == 0) & (laid.why == 0)
    limit = np.where(m.rate_gbps > 0, m.rate_gbps, np.inf)
    if alone.any():
        fastest = float(plane.gbps.max(initial=1.0))
        port_rate = plane.gbps[plane.ends[m.src]]
        limit = np.where(alone, np.minimum(limit, np.where(port_rate > 0, port_rate, fastest)), limit)
    limited = np.isfinite(limit) & (laid.why == 0)
    if not limited.any():
        return laid.first, laid.channel, laid.port, gbps
    rows = np.flatnonzero(limited)
    channel = np.insert(laid.channel, laid.first[rows], laid.channels + np.arange(len(rows)))
    first = laid.first + np.concatenate([[0], np.cumsum(limited)])
    port = np.concatenate([laid.port, np.full(len(rows), -1)])
    return first, channel.astype(np.int32), port, np.concatenate([gbps, limit[rows]])


def _links(port: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """``(group, link_next, link_head, several)`` of channels: those of one egress port are one link."""
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
    return group, link_next, head, (link_next[head] >= 0).astype(np.uint8)


def _weights(plane: Plane, port: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    from softib.sim.vl_weights import weights_of

    n = len(port)
    shared = np.unique(port[port >= 0] & 15)
    if len(shared) < 2:  # one VL: no arbitration
        return np.zeros(n), np.ones(n), np.zeros(n), np.zeros(n, bool)
    high, low, share, idle = weights_of(plane.fabric, np.maximum(port, 0) >> 4, np.maximum(port, 0) & 15)
    return high, low, share, idle & (port >= 0)


def _dependents(m: Messages) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The dependencies the other way round: ``(first, to, completion)``."""
    if not len(m.needs):
        return np.zeros(len(m) + 1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8)
    first, to, order = inverted(spread(np.diff(m.first))[0], m.needs, len(m))
    return first, to, (m.src[to] == m.src[m.needs[order]]).astype(np.uint8)


def _outcome(plane: Plane, m: Messages, laid: Laid, s: _State) -> Outcome:
    t, clock = s.traffic, s.clock.clock
    arrived = t.arrived >= 0
    ends = np.maximum(t.arrived, t.completed)
    return Outcome(
        "fluid", t.began, t.arrived, t.completed, int(ends.max(initial=0)), plane.count(m, laid, arrived),
        valid=not (why := _why_not(plane, m, laid, s)), why_not=why, notes=tuple(_notes(plane, m, laid, s)),
        work={"flows": int(arrived.sum()), "events": int(clock.events), "rate changes": int(clock.changes)},
    )  # fmt: skip


def _why_not(plane: Plane, m: Messages, laid: Laid, s: _State) -> tuple[str, ...]:
    from softib.sim.packet.validity import mixed_adapters, slow_ports
    from softib.sim.validity_kernels import BLOCKED

    found = s.doubt.found
    lines = []
    if found[0] >= 0:
        place = plane.fabric.port_name(int(s.port[found[2]]) >> 4) if s.port[found[2]] >= 0 else "its sender"
        if found[3] == BLOCKED:
            what = "waits at {} behind packets for a congested port: head-of-line blocking"
        else:
            what = "meets at {} inputs that bring unequal rates: switches serve input ports in turn, not flows"
        lines.append(f"message {found[1]} {what.format(place)} (at {found[0] / 1e6:.3f} us)")
    t, doubt = s.traffic, s.doubt
    took = MEETING * np.maximum(t.arrived - t.began, 1)
    buffers = doubt.moved * plane.profile.vl_blocks * 64
    for wrong, what in (
        (doubt.overlap_ps > took, "come to a link while the message before is still on its path there"),
        ((doubt.shared > 0) & (doubt.spread_ps > took), "share a link with others whose paths take longer or less long, and are short for that"),
        ((doubt.shared > 0) & (s.ramp_ps > took), "share a link while their adapters fetch from memory more slowly than it sends"),
        (doubt.gap_wait_ps > took, "wait for their adapter's message rate, beside those of other queue pairs"),
        (buffers > MEETING * m.size, "may have much in buffers when their sender's side becomes the limit"),
    ):  # fmt: skip
        if (wrong & (t.arrived >= 0)).any():
            lines.append(f"{int((wrong & (t.arrived >= 0)).sum())} messages {what}")
    few = (s.doubt.shared > 0) & (packets_of(m, laid.mtu) < FEW_PACKETS)
    if few.any():
        lines.append(f"{int(few.sum())} messages of fewer than {FEW_PACKETS} packets share a link: packets go in turn")
    return (*lines, *slow_ports(plane.fabric, "fluid"), *mixed_adapters(plane.fabric, plane.ends, m, "fluid"))


def _notes(plane: Plane, m: Messages, laid: Laid, s: _State) -> list[str]:
    notes = []
    for why in np.unique(laid.why[laid.why != 0])[::-1].tolist():
        rows = np.flatnonzero(laid.why == why)
        a, b = (plane.fabric.port_name(int(plane.ends[side[rows[0]]])) for side in (m.src, m.dst))
        notes.append(f"{len(rows)} messages have no path, such as {a} to {b}: {WHY[why]}")
    waiting = (s.traffic.began < 0) & (laid.why == 0)
    if waiting.any():
        notes.append(f"{int(waiting.sum())} messages never began: what they wait for never happened")
    if s.idle.any():
        c = int(s.port[np.argmax(s.idle)])
        notes.append(
            f"no VL arbitration table of {plane.fabric.port_name(c >> 4)} serves VL {c & 15}, which traffic uses"
        )
    return notes
