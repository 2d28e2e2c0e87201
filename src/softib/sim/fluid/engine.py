"""The fluid layer: every message has its max-min fair rate, and rates change when messages begin and end. Messages that
send on one path at the same time are one flow.

It models links and VLs that flows share, the tables of the fabric, static rates, dependencies, and
the delay of a path without load. It does not model packets, credits and queues;
``Outcome.agreement`` states how much these matter (docs/simulate.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from softib.plural import counted, plural
from softib.sim.agreement import ALL, LIMIT, NONE, UNLIKE, Doubts, graded
from softib.sim.credits import ahead_ps
from softib.sim.fluid.flows import flows_and_links
from softib.sim.fluid.tables import doubt_of, queue_pairs, traffic_of, waits_of
from softib.sim.messages import Messages, Opcode
from softib.sim.outcome import Outcome, Sampler
from softib.sim.packet_sizes import packets_of
from softib.sim.paths import WHY, Laid, Plane

if TYPE_CHECKING:
    from softib.fabric.model import Fabric


__all__ = ["run"]

FEW_PACKETS = 20
"""Packets take turns, so a message that shares its bottleneck may end one packet earlier than in the fluid layer. For a
message with fewer packets than this number, that is more than 1/20 of its duration."""
EXACT = 200
"""Largest number of sending flows for which rates are computed whenever a message begins or ends. With more flows, a
single message changes little. Rates are then computed again only after a thousandth of the shortest message's time, so
a message's time has an error of about a thousandth."""
ANOTHER_RATE = {
    3: "waits at {} behind packets for a congested port: head-of-line blocking",
    2: "meets at {} inputs that bring unequal rates: switches serve input ports in turn, not flows",
    1: "waits at {} and at another full port: it gets less than messages that wait at one",
}
"""Text for each reason of :mod:`~softib.sim.fluid.validity_kernels`."""
STEP = 1 << 13
"""Number of ended messages between two calls of ``progress``."""
CHANGES = 1 << 19
"""Number of rate changes between two calls of ``progress``: about half a second."""
Progress = Callable[[int, int, int], None]
"""Called with the number of ended messages, the number of all messages, and the virtual time in ps."""


def run(
    fabric: Fabric | Plane,
    messages: Messages,
    *,
    path_sl: np.ndarray | None = None,
    judge: bool = True,
    progress: Progress | None = None,
    sample_ps: int = 0,
) -> Outcome:
    """Return the times of ``messages`` on ``fabric`` (or on a :class:`~softib.sim.paths.Plane` of
    it) with its present tables.

    ``sample_ps``: take samples of loads at this interval (0: none).

    ``path_sl`` uint8[ends, ends]: SLs of a manager's path records. ``judge=False`` omits the
    agreement. Raises :class:`InputError` for an impossible message, or if no link has a known
    speed.
    """
    plane = fabric if isinstance(fabric, Plane) else Plane(fabric, path_sl)
    messages.check(len(plane.ends))
    laid = plane.lay(messages)
    state = _State(plane, messages, laid)
    sampler = Sampler(sample_ps) if sample_ps else None
    state.run(progress, judge, sampler)
    outcome = _outcome(plane, messages, laid, state, judge)
    if sampler is not None:
        outcome.samples = sampler.finish(outcome.end_ps, state.sent_by_port(outcome.end_ps, len(plane.gbps)))
    return outcome


class _State:
    """The tables of one run."""

    def __init__(self, plane: Plane, m: Messages, laid: Laid):
        from softib.sim.fluid.engine_kernels import CLOCK, Clock
        from softib.sim.fluid.maxmin_kernels import SIZE, Round

        self.plane_gbps = plane.gbps
        timing = plane.timing(m, laid)
        self.flows, self.links, self.flow, self.port, self.idle = flows_and_links(plane, m, laid)
        flows = len(self.flows.rate)
        i4 = lambda rows: np.zeros(rows, np.int32)
        self.round = Round(sending=i4(flows), members=i4(flows), channels=i4(len(self.port)), size=SIZE.zeros(1))
        self.traffic, self.waits = traffic_of(plane, m, laid, timing, self.flow), waits_of(m)
        self.clock = Clock(clock=CLOCK.zeros(1))
        self.clock.clock.stop = self.clock.clock.due = 1 << 62
        self.clock.clock.exact = EXACT
        self.octets, self.ramp_ps = self.traffic.left, timing.ramp_ps
        self.ahead_ps = ahead_ps(plane, laid, self.octets)
        self.doubt = doubt_of(plane, m, laid, self.port, flows)

    def sent_by_port(self, now_ps: int, ports: int) -> np.ndarray:
        """Return the bytes that each port's flows have sent since time 0 (float64[ports])."""
        from softib.sim.fluid.engine_kernels import ENDED, SENDS

        t, flows = self.traffic, self.flows
        served = flows.served + flows.rate * (now_ps - flows.last) / 8000.0
        left = np.maximum(t.up_to - served[t.flow], 0.0)
        sent = np.where(t.state == SENDS, self.octets - left, np.where(t.state == ENDED, self.octets, 0.0))
        of_flow = np.bincount(t.flow, sent, minlength=len(served))
        on = self.port[flows.channel]
        return np.bincount(on[on >= 0] >> 4, of_flow[flows.owner[on >= 0]], minlength=ports)

    def run(self, progress: Progress | None, judge: bool, sampler: Sampler | None = None) -> None:
        """Run until no event is left."""
        from softib.sim.fluid.engine_kernels import QUEUED_STATE, advance, load_events
        from softib.sim.fluid.flow_kernels import FOREVER

        t, clock = self.traffic, self.clock.clock
        clock.judging, clock.pause = judge, FOREVER
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
            if progress:
                clock.pause = int(clock.changes) + CHANGES
            status = advance(self.flows, self.links, self.round, t, self.waits, self.clock, self.doubt, until)
            if status == 2 and sampler is not None:
                sampler.take(self.sent_by_port(sampler.next_ps, len(self.plane_gbps)))
            if progress:
                progress(int(clock.finished), n, int(clock.now))
            if status == 1:
                return


def _outcome(plane: Plane, m: Messages, laid: Laid, s: _State, judge: bool = True) -> Outcome:
    from softib.sim.validity import mixed_adapters, slow_ports

    t, clock = s.traffic, s.clock.clock
    arrived = t.arrived >= 0
    ends = np.maximum(t.arrived, t.completed)
    outcome = Outcome(
        "fluid",
        t.began,
        t.arrived,
        t.completed,
        int(ends.max(initial=0)),
        plane.count(m, laid, arrived),
        notes=tuple(_notes(plane, m, laid, s)),
        work={"flows": int(arrived.sum()), "events": int(clock.events), "rate changes": int(clock.changes)},
    )
    if judge:
        unknown = (*slow_ports(plane.fabric, "fluid"), *mixed_adapters(plane.fabric, plane.ends, m, "fluid"))
        off, lines = _doubts(plane, m, laid, s)
        doubts = Doubts(off, off - _sooner(s), m.first, m.needs, queue_pairs(m)[1])
        outcome.agreement = NONE if unknown else graded(t.began, t.arrived, doubts)
        if outcome.agreement != ALL:
            outcome.why_not = (*lines, *unknown) or ("possible errors of single messages add up",)
    return outcome


def _doubts(plane: Plane, m: Messages, laid: Laid, s: _State) -> tuple[np.ndarray, list[str]]:
    """Return the possible error of each message's latency in ps (float64), and a line for each
    cause."""
    t, doubt = s.traffic, s.doubt
    took, shared, packets = np.maximum(t.arrived - t.began, 1), doubt.shared > 0, packets_of(m, laid.mtu)
    few = shared & (packets < FEW_PACKETS)
    gbps = np.maximum(plane.gbps[plane.ends[m.src]], 1e-9)
    one_packet = np.maximum(t.ended - t.began, 0) / np.where(m.opcode == Opcode.READ, 1, packets)
    causes = (
        (np.maximum(doubt.overlap_ps, 0), "reach a link while the message before is still on its path there"),
        (
            np.where(shared, doubt.spread_ps, 0),
            "share a link with others whose paths have other delays, and are short compared with the difference",
        ),
        (
            np.where(shared, s.ramp_ps, 0),
            "share a link while their adapters fetch from memory more slowly than it sends",
        ),
        (doubt.gap_wait_ps, "wait for their adapter's message rate together with other queue pairs"),
        (
            doubt.moved * plane.profile.vl_blocks * 64 * 8000 / gbps,
            "may have many bytes in buffers when the sender's side becomes the limit",
        ),
        (
            np.where(few, one_packet + laid.mtu * 8000 / gbps, 0),
            f"of fewer than {FEW_PACKETS} packets share a link: packets go in turn",
        ),
        (_credits_ps(plane, m, laid, s), "cross a cable longer than its credits reach, some of which may be in use"),
    )
    off, lines = UNLIKE[doubt.unlike] * took, _unlike(plane, s)
    for ps, cause in causes:
        off = off + ps
        if n := int(((ps > LIMIT * took) & (t.arrived >= 0)).sum()):
            lines.append(f"{counted(n, 'message')} {cause}")
    return off, lines


def _credits_ps(plane: Plane, m: Messages, laid: Laid, s: _State) -> np.ndarray:
    """Return the time that each message may lose because other messages have used its initial credits (float64). A
    message that shares its path or waits for its queue pair may lose the whole advantage of these credits; for any
    other message, the value is that of :func:`~softib.sim.credits.ahead_ps`."""
    if not s.ahead_ps.any():
        return s.ahead_ps.astype(np.float64)
    c, entry = plane.credits, laid.port[laid.channel] >> 4
    early = np.where(np.isfinite(c.gbps[entry]), c.back_ps[entry] - c.fit[entry] * 8000 / plane.gbps[entry], 0.0)
    most = np.zeros(len(m))
    np.maximum.at(most, np.repeat(np.arange(len(m)), np.diff(laid.first)), early)
    before = queue_pairs(m)[1]
    behind = (before >= 0) & (s.traffic.began < s.traffic.arrived[before])
    return np.where((s.doubt.shared > 0) | behind, most, s.ahead_ps)


def _sooner(s: _State) -> np.ndarray:
    """Return, for each message, the possible error that is not a delay (float64). A port that serves inputs unevenly
    still sends the same amount, so its last message arrives at the same time. With several such ports, one may delay
    another."""
    from softib.sim.fluid.validity_kernels import UNEVEN

    t, at = s.traffic, np.maximum(s.doubt.was, 0)
    if not s.doubt.unlike.any():
        return np.zeros(len(at))
    last = np.zeros(len(s.port))
    np.maximum.at(last, at, t.arrived)
    share = UNLIKE[UNEVEN] * np.maximum(t.arrived - t.began, 1)
    uneven = (s.doubt.unlike == UNEVEN) & (s.doubt.was >= 0)
    if ((s.doubt.unlike > 0) & ~uneven).any() or len(np.unique(at[uneven])) > 1:
        return np.zeros(len(share))
    return np.where(uneven, np.maximum(share - (last[at] - t.arrived), 0.0), 0.0)


def _unlike(plane: Plane, s: _State) -> list[str]:
    """Return a line for each cause of possibly wrong rates, with the first such message."""
    first = s.doubt.found
    if first[0] < 0:
        return []
    port = int(s.port[first[2]])
    place = "its sender" if port == -1 else plane.fabric.port_name((port if port >= 0 else -2 - port) >> 4)
    n, text = int((s.doubt.unlike > 0).sum()), ANOTHER_RATE[int(first[3])].format(place)
    return [f"message {first[1]} {text} (at {first[0] / 1e6:.3f} us); {counted(n, 'message')} in all"]


def _notes(plane: Plane, m: Messages, laid: Laid, s: _State) -> list[str]:
    notes = []
    for why in np.unique(laid.why[laid.why != 0])[::-1].tolist():
        rows = np.flatnonzero(laid.why == why)
        a, b = (plane.fabric.port_name(int(plane.ends[side[rows[0]]])) for side in (m.src, m.dst))
        notes.append(
            f"{counted(len(rows), 'message')} {plural(len(rows), 'has', 'have')} no path, such as {a} "
            f"to {b}: {WHY[why]}"
        )
    waiting = (s.traffic.began < 0) & (laid.why == 0)
    if waiting.any():
        notes.append(
            f"{counted(int(waiting.sum()), 'message')} never began: the messages that they wait for never arrived"
        )
    if s.idle.any():
        c = int(s.port[np.argmax(s.idle)])
        notes.append(
            f"no VL arbitration table of {plane.fabric.port_name(c >> 4)} serves VL {c & 15}, which traffic uses"
        )
    return notes
