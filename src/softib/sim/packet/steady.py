"""Steady states of a run: stretches that repeat one period exactly, so that they do not have to be simulated.

While long messages are sent, the state of queues, credits, windows and pending events repeats, later in time and some
packets further on. :class:`SteadyStates` compares the tables of two moments a period apart. If each value is unchanged,
differs by what one period adds, or is a counter, the following periods are the same too, and the run jumps over them.
The result equals that of the full run, bit for bit. A jump ends before a message ends, before a timeout or any other
event that does not repeat, and before the end that the caller sets. A run that draws random numbers, loses packets, or
whose links and tables change has no jumps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softib.plural import counted
from softib.sim.packet import constants
from softib.sim.packet.kernels.hca.messages import RC
from softib.sim.packet.moments import moment, tables_repeat
from softib.sim.packet.phases import message_periods
from softib.sim.packet.pools import grow
from softib.sim.packet.repetition import Repetition

__all__ = ["SteadyStates"]

FIRST_WAIT, LONGEST_WAIT = 1 << 19, 1 << 26
"""Number of events before the first attempt, and the maximum number between two attempts. Each failed attempt doubles
the number."""
POLLED, PERIODS = 400, 24
"""To find the period, one queue pair is checked after every POLLED events; a period has at most PERIODS
acknowledgements of this queue pair."""
LEAST_GAIN = 64
"""An attempt is made only if the shortest remaining message lasts at least this number of periods."""


@dataclass
class SteadyStates:
    """Finds and skips steady states of a run. ``loop`` is the kernel that handles events. ``jumps``: number of skipped
    stretches; ``skipped_ps``: their total time; ``skipped_hops``: the packet hops in them."""

    net: Any
    loop: Callable[..., Any]
    allowed: bool = True
    jumps: int = 0
    skipped_ps: int = 0
    skipped_hops: int = 0
    wait: int = field(default_factory=lambda: FIRST_WAIT)
    next_attempt: int = 0

    def __post_init__(self) -> None:
        opt = self.net.opt
        odd = ("random", "fifo", "lossy", "multicast", "aggregates")
        odd_run = any(bool(opt[name]) for name in odd) or bool(self.net.management.on) or len(self.net.watch_port) > 0
        self.allowed = self.allowed and not odd_run

    def notes(self) -> tuple[str, ...]:
        """Return a line about the skipped stretches; nothing if there were none."""
        if not self.jumps:
            return ()
        return (
            f"steady states of {self.skipped_ps / 1e9:,.3f} ms in {counted(self.jumps, 'stretch', 'stretches')} were "
            f"skipped: {self.skipped_hops:,} packet hops, which repeat exactly",
        )

    def after(self, state: Any, until: int) -> tuple[int, Any]:
        """If the last attempt is long enough ago, try a jump that ends before ``until``. Return the loop's status and
        the state."""
        if not self.allowed or state.reg.events < self.next_attempt:
            return constants.MORE, state
        before = self.jumps
        status, state = self._attempt(state, until)
        self.wait = FIRST_WAIT // 4 if self.jumps > before else min(2 * self.wait, LONGEST_WAIT)
        self.next_attempt = int(state.reg.events) + self.wait
        return status, state

    def _run(self, state: Any, until: int, most: int) -> tuple[int, Any]:
        while True:
            status = int(self.loop(self.net, state, until, most))
            if status != constants.GROW:
                return status, state
            state = grow(state)

    def _attempt(self, state: Any, until: int) -> tuple[int, Any]:
        q = self._measured(state)
        status, periods = int(constants.MORE), message_periods(state) if q < 0 else []
        if q >= 0:
            status, state, periods = self._periods(state, q, until)
        if status != constants.MORE or not periods:
            return status, state
        at = int(state.reg.now)
        status, state = self._run(state, at, 1 << 40)
        if status != constants.TIME_OVER:
            return status, state
        first = moment(state, at, q < 0)
        for period in periods:
            if at + period >= until:
                break
            status, state = self._run(state, at + period, 1 << 40)
            if status != constants.TIME_OVER:
                return status, state
            if q >= 0 and (int(state.reg.left), int(state.reg.last)) != first.ended:
                break
            if not tables_repeat(first, state, period):
                continue
            plan = Repetition.of(self.net, state, first, moment(state, at + period, q < 0), until)
            if plan is not None:
                self.jumps += 1
                self.skipped_ps += plan.times * period
                self.skipped_hops += plan.times * plan.hops
                plan.move(state)
                break
        return constants.MORE, state

    def _measured(self, state: Any) -> int:
        """Return the queue pair whose current message has the most packets left; -1 if the message of any sending queue
        pair ends soon."""
        q, rc = state.qp, state.rc
        inside = q["current_message"] < q["last_message"]
        m = state.order[np.where(inside, q["current_message"], 0)] if len(state.order) else np.zeros(len(q), np.int64)
        moves = (
            inside & (q["service"] == RC) & (state.message["posted"][m] > 0) & (rc["acked"] > state.message["psn"][m])
        )
        left = np.where(moves, state.message["psn"][m] + state.message["packets"][m] - q["next_psn"], 0)
        # the request of a READ was sent: its responses move
        reads = (rc["response_ring"] > 0) & (rc["response"] < q["last_message"])
        r = state.order[np.where(reads, rc["response"], 0)] if len(state.order) else m
        left = np.where(reads, state.message["psn"][r] + state.message["packets"][r] - rc["response_psn"], left)
        busy = left > 0
        if not busy.any() or left[busy].min() < LEAST_GAIN * max(int(self.net.opt.ack_every), 1):
            return -1
        return int(np.argmax(left))

    def _periods(self, state: Any, q: int, until: int) -> tuple[int, Any, list[int]]:
        """Continue the run and watch the acknowledgements of queue pair ``q``. Return the loop's status, the state, and
        possible periods in ps."""
        seen: list[tuple[int, int]] = []
        whole = max(int(self.net.opt.ack_every), 1) * (256 if self.net.opt.ar else 1)
        end = int(state.reg.events) + FIRST_WAIT // 2
        while len(seen) <= PERIODS and state.reg.events < end:
            status, state = self._run(state, until, POLLED)
            if status != constants.MORE:
                return status, state, []
            now = int(state.rc["acked"][q]), int(state.rc["progress"][q])
            if not seen or now[0] != seen[-1][0]:
                seen.append(now)
        packets, at = seen[0] if seen else (0, 0)
        periods = [t - at for p, t in seen[1:] if (p - packets) % whole == 0]
        if not periods and len(seen) > 1:  # responses count one by one: use the mean of all
            packets, at = seen[-1][0] - packets, seen[-1][1] - at
            periods = [n * at * whole // packets for n in range(1, PERIODS) if n * at * whole % packets == 0]
        return constants.MORE, state, periods
