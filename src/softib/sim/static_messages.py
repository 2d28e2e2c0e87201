"""The static layer for messages: each message takes the time that the busiest channel of its path needs for all traffic
on that channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.plural import counted, plural
from softib.ragged import inverted, spread
from softib.sim.agreement import ALL, NONE, compared
from softib.sim.messages import Messages
from softib.sim.outcome import NEVER, Outcome
from softib.sim.packet_sizes import packets_of, wire_octets
from softib.sim.paths import WHY, Laid, Plane

if TYPE_CHECKING:
    from softib.fabric.model import Fabric
    from softib.sim.timing import Timing


__all__ = ["run"]

MOST_JUDGED = 1_000_000
"""Results of up to this number of messages are checked with the fluid layer."""


def run(fabric: Fabric | Plane, messages: Messages, *, path_sl: np.ndarray | None = None) -> Outcome:
    """Return times that follow from the load of each message's bottleneck.
    Messages without dependencies are the first **step**, those that wait for messages of at most step
    k are step k + 1. All messages of a step are active at once: a message ends when the busiest link
    of its path has sent the bytes of all messages of its step, including those of its own queue
    pair. Messages that other steps put on that link earlier go first, and a processor runs one
    computation at a time. The result is ``valid`` if all messages of a step begin at the same time, and no message
        waits for a message of another step. ``path_sl`` as in :func:`softib.sim.fluid.run`. Raises :class:`InputError`
        for an impossible message.
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
        notes.append(
            f"{counted(int(endless.sum()), 'message')} never began: the messages that they wait for never arrived"
        )
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
    """Set ``outcome.agreement`` with the fluid layer. A result agrees with the packet layer if the fluid layer's result
    agrees with both."""
    from softib.sim import fluid

    if len(m) > MOST_JUDGED:
        outcome.agreement, outcome.why_not = NONE, (f"more than {MOST_JUDGED:,} messages are not judged",)
        return
    by_flows = fluid.run(plane, m)
    outcome.agreement = compared(by_flows.agreement, by_flows, outcome)
    if outcome.agreement != ALL:
        apart = outcome.end_ps / max(by_flows.end_ps, 1) - 1
        outcome.why_not = by_flows.why_not or (f"latencies differ with changing rates (end {apart:+.1%})",)


def _steps(m: Messages) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(step, endless)`` of each message; ``endless``: it waits for a cycle of messages, and never begins."""
    from softib.sim.static_kernels import step_of

    n = len(m)
    step, left = np.zeros(n, np.int64), np.diff(m.first)
    first, waits, _ = inverted(spread(left)[0], m.needs, n)
    step_of(first, waits, left, step, np.empty(n, np.int64))
    return step, left > 0


def _times(plane: Plane, m: Messages, laid: Laid, step: np.ndarray, able: np.ndarray) -> np.ndarray:
    """Return the time in ps from the start of each message to the departure of its last byte (float64)."""
    from softib.sim.static_kernels import busiest_share

    octets = _octets(m, laid, able)
    link, gbps = plane.links_of(laid.port)
    limit = np.where(m.rate_gbps > 0, m.rate_gbps, np.inf)
    alone = np.diff(laid.first) == 0
    limit = np.where(alone, np.minimum(limit, max(float(plane.gbps.max(initial=0.0)), 1.0)), limit)
    took = _one_by_one(m, step, octets * 8000.0 / limit)
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


def _one_by_one(m: Messages, step: np.ndarray, took: np.ndarray) -> np.ndarray:
    """Return ``took`` (time in ps at each message's own rate), where the messages that a queue pair sends in one step
    take the sum of their times: a static rate limits the queue pair."""
    rows = np.flatnonzero(took > 0)
    if not len(rows):
        return took
    key = np.stack([step[rows], m.qp[rows]], axis=1)
    queue = np.unique(key, axis=0, return_inverse=True)[1].ravel()
    took = took.copy()
    took[rows] = np.bincount(queue, took[rows])[queue]
    return took


def _clock(
    plane: Plane, m: Messages, laid: Laid, able: np.ndarray, took: np.ndarray, timing: Timing
) -> tuple[np.ndarray, ...]:
    """Compute when messages and computations begin, arrive and complete: a link never carries more
    than its rate, and a processor runs one computation at a time."""
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
        first=laid.first,
        channel=laid.channel,
        link=link,
        octets=_octets(m, laid, able),
        single=packets_of(m, laid.mtu) == 1,
        ps_byte=ps_byte,
        link_free=np.zeros(len(gbps)),
        short_free=np.zeros(len(gbps)),
        processor=processor,
        processor_free=np.zeros(len(rows), np.int64),
    )
    delays = Delays(m.start_ps, m.wait_ps, timing.request_ps, sends, timing.forth_ps, timing.answer_ps)
    queue = Queue(np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.zeros(1, np.int64))
    follow(queue, waits, m.src, delays, shared, began, arrived, completed)
    return began, arrived, completed


def _octets(m: Messages, laid: Laid, able: np.ndarray) -> np.ndarray:
    """Return the number of bytes that each message sends over every link of its path (float64); 0 if it has no path."""
    return np.where(able, wire_octets(m, packets_of(m, laid.mtu)), 0.0)
