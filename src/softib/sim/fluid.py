"""The fluid layer: every message is a flow at its max-min fair rate; rates change when flows begin
and end.

What it knows: links and VLs that flows share, by the tables of the fabric, static rates,
dependencies, and the delay of a path without load. What it does not: packets, credits, queues;
``Outcome.valid`` says where these would matter (docs/simulate.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from softib.plural import counted, plural
from softib.sim.fluid_tables import doubt_of, flows_and_links, traffic_of, waits_of
from softib.sim.messages import Messages
from softib.sim.outcome import Outcome, Sampler
from softib.sim.paths import WHY, Laid, Plane, packets_of

if TYPE_CHECKING:
    from softib.fabric.model import Fabric


__all__ = ["run"]

FEW_PACKETS = 20
"""A message of fewer packets that shares its bottleneck ends when its last packet's turn comes: up
to 1/20 earlier than the fluid says."""
MEETING = 0.05
"""Share of a message's latency (or size) up to which what the model leaves out may be: the tail of
the message before on a link, other delays of paths, octets in buffers."""
STEP = 1 << 13
"""Messages between two calls of ``progress``."""
Progress = Callable[[int, int, int], None]
"""Called with messages that ended, all messages, and the virtual time in ps."""


def run(
    fabric: Fabric | Plane,
    messages: Messages,
    *,
    path_sl: np.ndarray | None = None,
    judge: bool = True,
    progress: Progress | None = None,
    sample_ps: int = 0,
) -> Outcome:
    """Times of ``messages`` on ``fabric`` (or a :class:`~softib.sim.paths.Plane` of it) as its
    tables stand.

    ``sample_ps``: take samples of loads at this interval (0: none).

    ``path_sl`` uint8[ends, ends]: SLs of a manager's path records. ``judge=False`` leaves the
    question of validity out (``valid`` is then True). Raises :class:`InputError` where a message
    cannot be, or no link has a known speed.
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
        from softib.sim.fluid_kernels import CLOCK, Clock
        from softib.sim.maxmin_kernels import SIZE, Round

        n, self.plane_gbps = len(m), plane.gbps
        timing = plane.timing(m, laid)
        self.flows, self.links, self.port, self.idle = flows_and_links(plane, m, laid)
        i4 = lambda rows: np.zeros(rows, np.int32)
        self.round = Round(sending=i4(n), members=i4(n), channels=i4(len(self.port)), size=SIZE.zeros(1))
        self.traffic, self.waits = traffic_of(plane, m, laid, timing), waits_of(m)
        self.clock = Clock(clock=CLOCK.zeros(1))
        self.clock.clock.stop = 1 << 62
        self.octets, self.ramp_ps = self.traffic.left.copy(), timing.ramp_ps
        self.doubt = doubt_of(plane, m, laid, timing, self.port)

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


def _outcome(plane: Plane, m: Messages, laid: Laid, s: _State) -> Outcome:
    t, clock = s.traffic, s.clock.clock
    arrived = t.arrived >= 0
    ends = np.maximum(t.arrived, t.completed)
    return Outcome(
        "fluid",
        t.began,
        t.arrived,
        t.completed,
        int(ends.max(initial=0)),
        plane.count(m, laid, arrived),
        valid=not (why := _why_not(plane, m, laid, s)),
        why_not=why,
        notes=tuple(_notes(plane, m, laid, s)),
        work={"flows": int(arrived.sum()), "events": int(clock.events), "rate changes": int(clock.changes)},
    )


def _why_not(plane: Plane, m: Messages, laid: Laid, s: _State) -> tuple[str, ...]:
    from softib.sim.validity import mixed_adapters, slow_ports
    from softib.sim.validity_kernels import BLOCKED

    found = s.doubt.found
    lines = []
    if found[0] >= 0:
        port = int(s.port[found[2]])
        place = "its sender" if port == -1 else plane.fabric.port_name((port if port >= 0 else -2 - port) >> 4)
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
        (
            (doubt.shared > 0) & (doubt.spread_ps > took),
            "share a link with others whose paths take longer or less long, and are short for that",
        ),
        (
            (doubt.shared > 0) & (s.ramp_ps > took),
            "share a link while their adapters fetch from memory more slowly than it sends",
        ),
        (doubt.gap_wait_ps > took, "wait for their adapter's message rate, beside those of other queue pairs"),
        (buffers > MEETING * m.size, "may have much in buffers when their sender's side becomes the limit"),
    ):
        if (wrong & (t.arrived >= 0)).any():
            lines.append(f"{counted(int((wrong & (t.arrived >= 0)).sum()), 'message')} {what}")
    few = (s.doubt.shared > 0) & (packets_of(m, laid.mtu) < FEW_PACKETS)
    if few.any():
        lines.append(
            f"{counted(int(few.sum()), 'message')} of fewer than {FEW_PACKETS} packets share a link: packets go in turn"
        )
    return (*lines, *slow_ports(plane.fabric, "fluid"), *mixed_adapters(plane.fabric, plane.ends, m, "fluid"))


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
        notes.append(f"{counted(int(waiting.sum()), 'message')} never began: what they wait for never happened")
    if s.idle.any():
        c = int(s.port[np.argmax(s.idle)])
        notes.append(
            f"no VL arbitration table of {plane.fabric.port_name(c >> 4)} serves VL {c & 15}, which traffic uses"
        )
    return notes
