"""The static layer for messages: each takes as long as the fullest channel of its path needs for
all that is put on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.plural import counted, plural
from softib.ragged import inverted, spread
from softib.sim.agreement import ALL, NONE, compared
from softib.sim.messages import Messages
from softib.sim.outcome import NEVER, Outcome
from softib.sim.paths import WHY, Laid, Plane, packets_of, wire_octets

if TYPE_CHECKING:
    from softib.fabric.model import Fabric
    from softib.sim.timing import Timing


__all__ = ["run"]

MOST_JUDGED = 1_000_000
"""Messages up to which the fluid layer judges an answer."""


def run(fabric: Fabric | Plane, messages: Messages, *, path_sl: np.ndarray | None = None) -> Outcome:
    """Times from bottleneck loads, without a clock.

    Messages that wait for none are the first **step**, those that wait for messages of step k at
    most are step k + 1. All of a step are there at once: a message ends when the busiest link of
    its path has sent the bytes of all messages of its step, its own queue pair's others among
    them. What other steps put on that link before it begins goes first, and a processor does one
    computation at a time. ``valid`` where all messages of each step begin at one time, and none
    stands behind another step's. ``path_sl`` as in :func:`softib.sim.fluid.run`. Raises
    :class:`InputError` where a message cannot be.
    """
    plane = fabric if isinstance(fabric, Plane) else Plane(fabric, path_sl)
    messages.check(len(plane.ends))
    laid = plane.lay(messages)
    step, endless = _steps(messages)
    able = (laid.why == 0) & ~endless
    took = _times(plane, messages, laid, step, able)
    timing = plane.timing(messages, laid)
    began, arrived, completed = _clock(plane, messages, laid, able, took, timing)
    notes = [
        f"{counted(int((laid.why == w).sum()), 'message')} "
        f"{plural(int((laid.why == w).sum()), 'has', 'have')} no path: {WHY[w]}"
        for w in np.unique(laid.why).tolist()
        if w
    ]
    if endless.any():
        notes.append(f"{counted(int(endless.sum()), 'message')} never began: what they wait for never happened")
    outcome = Outcome(
        "static",
        began,
        arrived,
        completed,
        int(np.maximum(arrived, completed).max(initial=0)),
        plane.count(messages, laid, arrived >= 0),
        notes=tuple(notes),
        work={"flows": int(able.sum()), "steps": int(step.max(initial=-1)) + 1},
    )
    _judge(plane, messages, outcome)
    return outcome


def _judge(plane: Plane, m: Messages, outcome: Outcome) -> None:
    """Grade ``outcome`` by the fluid layer's rules: what that one would give too, and stands for."""
    from softib.sim import fluid

    if len(m) > MOST_JUDGED:
        outcome.agreement, outcome.why_not = NONE, (f"more than {MOST_JUDGED:,} messages are not judged",)
        return
    by_flows = fluid.run(plane, m)
    outcome.agreement = compared(by_flows.agreement, by_flows, outcome)
    if outcome.agreement != ALL:
        apart = outcome.end_ps / max(by_flows.end_ps, 1) - 1
        outcome.why_not = by_flows.why_not or (f"rates that change lead to other latencies (end {apart:+.1%})",)


def _steps(m: Messages) -> tuple[np.ndarray, np.ndarray]:
    """``(step, endless)`` of each message; ``endless``: it waits for itself in a circle."""
    from softib.sim.static_kernels import step_of

    n = len(m)
    step, left = np.zeros(n, np.int64), np.diff(m.first)
    first, waits, _ = inverted(spread(left)[0], m.needs, n)
    step_of(first, waits, left, step, np.empty(n, np.int64))
    return step, left > 0


def _times(plane: Plane, m: Messages, laid: Laid, step: np.ndarray, able: np.ndarray) -> np.ndarray:
    """ps from the begin of each message to its last byte's departure (float64)."""
    from softib.sim.static_kernels import busiest_share

    octets = _octets(m, laid, able)
    link, gbps = plane.links_of(laid.port)
    limit = np.where(m.rate_gbps > 0, m.rate_gbps, np.inf)
    alone = np.diff(laid.first) == 0
    limit = np.where(alone, np.minimum(limit, max(float(plane.gbps.max(initial=0.0)), 1.0)), limit)
    took = octets * 8000.0 / limit
    order = np.argsort(step, kind="stable")
    bounds = np.searchsorted(step[order], np.arange(int(step.max(initial=0)) + 2))
    busiest_share(
        laid.first,
        laid.channel,
        link,
        order,
        bounds,
        octets,
        8000.0 / np.maximum(gbps, 1e-12),
        np.zeros(len(gbps)),
        took,
    )
    return took


def _clock(
    plane: Plane, m: Messages, laid: Laid, able: np.ndarray, took: np.ndarray, timing: Timing
) -> tuple[np.ndarray, ...]:
    """When messages and computations begin, arrive and complete: a link carries no more than its
    rate, whatever begins when, and a processor computes one thing at a time."""
    from softib.sim.loggops_kernels import Queue
    from softib.sim.static_kernels import Delays, Shared, Waits, follow

    n = len(m)
    sends = np.where(able, np.ceil(took - 1e-6), NEVER).astype(np.int64)
    began, arrived, completed = (np.full(n, NEVER, np.int64) for _ in range(3))
    first, to, _ = inverted(spread(np.diff(m.first))[0], m.needs, n)
    waits = Waits(first, to, np.diff(m.first), np.zeros(n, np.int64))
    processor = np.full(n, -1, np.int64)
    rows = np.flatnonzero(m.computes)
    processor[rows] = np.unique(m.qp[rows], return_inverse=True)[1]
    link, gbps = plane.links_of(laid.port)
    ps_byte = 8000.0 / np.maximum(gbps, 1e-12)
    shared = Shared(
        laid.first,
        laid.channel,
        link,
        _octets(m, laid, able),
        packets_of(m, laid.mtu) == 1,
        ps_byte,
        *np.zeros((2, len(gbps))),
        processor,
        np.zeros(len(rows), np.int64),
    )
    delays = Delays(m.start_ps, m.wait_ps, timing.request_ps, sends, timing.forth_ps, timing.answer_ps)
    queue = Queue(np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.zeros(1, np.int64))
    follow(queue, waits, m.src, delays, shared, began, arrived, completed)
    return began, arrived, completed


def _octets(m: Messages, laid: Laid, able: np.ndarray) -> np.ndarray:
    """What each message puts on every link of its path (float64); 0 where it cannot be."""
    return np.where(able, wire_octets(m, packets_of(m, laid.mtu)), 0.0)
