"""The static layer for messages: each takes as long as the fullest channel of its path needs for all that is put on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.ragged import inverted, spread
from softib.sim.messages import Messages
from softib.sim.outcome import NEVER, Outcome
from softib.sim.paths import WHY, Laid, Plane, packets_of, wire_octets

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["run"]


def run(fabric: Fabric | Plane, messages: Messages, *, path_sl: np.ndarray | None = None) -> Outcome:
    """Times from bottleneck loads, without a clock.

    Messages that wait for none are the first **step**, those that wait for messages of step k at most are step k + 1. All of a step are
    there at once: a message ends when the busiest link of its path has sent the octets of all messages of its step, its own queue pair's
    others among them. ``valid`` where all messages of each step begin at one time. ``path_sl`` as in :func:`softib.sim.fluid.run`. Raises
    :class:`InputError` where a message cannot be.
    """
    plane = fabric if isinstance(fabric, Plane) else Plane(fabric, path_sl)
    messages.check(len(plane.ends))
    laid = plane.lay(messages)
    step, endless = _steps(messages)
    able = (laid.why == 0) & ~endless
    took = _times(plane, messages, laid, step, able)
    began, arrived, completed = _clock(plane, messages, laid, step, able, took)
    together = _together(step, began)
    why = (
        ()
        if together
        else ("messages of one step begin at several times: the static layer adds them up as if at once",)
    )
    notes = [f"{int((laid.why == w).sum())} messages have no path: {WHY[w]}" for w in np.unique(laid.why).tolist() if w]
    if endless.any():
        notes.append(f"{int(endless.sum())} messages never began: what they wait for never happened")
    return Outcome(
        "static", began, arrived, completed, int(np.maximum(arrived, completed).max(initial=0)),
        plane.count(messages, laid, arrived >= 0), valid=together, why_not=why, notes=tuple(notes),
        work={"flows": int(able.sum()), "steps": int(step.max(initial=-1)) + 1},
    )  # fmt: skip


def _steps(m: Messages) -> tuple[np.ndarray, np.ndarray]:
    """``(step, endless)`` of each message; ``endless``: it waits for itself in a circle."""
    from softib.sim.static_kernels import step_of

    n = len(m)
    step, left = np.zeros(n, np.int64), np.diff(m.first)
    first, waits, _ = inverted(spread(left)[0], m.needs, n)
    step_of(first, waits, left, step, np.empty(n, np.int64))
    return step, left > 0


def _times(plane: Plane, m: Messages, laid: Laid, step: np.ndarray, able: np.ndarray) -> np.ndarray:
    """ps from the begin of each message to its last octet's departure (float64)."""
    from softib.sim.static_kernels import busiest_share

    octets = np.where(able, wire_octets(m, packets_of(m, laid.mtu)), 0.0)
    link_of, link = np.unique(laid.port >> 4, return_inverse=True)  # VLs of one port share its rate
    gbps = plane.carried_gbps[link_of]
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
    plane: Plane, m: Messages, laid: Laid, step: np.ndarray, able: np.ndarray, took: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """When messages begin, arrive and complete, step after step."""
    from softib.sim.static_kernels import Delays, follow_steps

    n, timing = len(m), plane.timing(m, laid)
    sends = np.where(able, np.ceil(took - 1e-6), NEVER).astype(np.int64)
    began, arrived, completed = (np.full(n, NEVER, np.int64) for _ in range(3))
    order = np.argsort(step, kind="stable")
    delays = Delays(m.start_ps, m.wait_ps, timing.request_ps, sends, timing.forth_ps, timing.answer_ps)
    follow_steps(order, m.first, m.needs, m.src, delays, began, arrived, completed)
    return began, arrived, completed


def _together(step: np.ndarray, began: np.ndarray) -> bool:
    """Do the messages of each step that begin at all begin at one time?"""
    rows = np.flatnonzero(began >= 0)
    order = rows[np.lexsort((began[rows], step[rows]))]
    same = step[order][1:] == step[order][:-1]
    return not (same & (began[order][1:] != began[order][:-1])).any()
