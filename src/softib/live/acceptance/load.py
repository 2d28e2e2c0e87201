"""Latency beside bandwidth: pairs that send both ways as fast as they can, while others measure."""

from __future__ import annotations

import time
from collections.abc import Sequence

from softib.live.acceptance.launchers import HostPort, Launcher
from softib.live.acceptance.pair_runs import LOOK_S, REACHED_S, RETRY_S, Outcome, PairPrograms, run_pairs
from softib.live.acceptance.perftest import Run

__all__ = ["load_run", "run_under_load"]

LOAD_SIZE = 1 << 16
"""Octets of a message of the load."""
LOAD_DEPTH = 4
"""Messages that a program of the load has posted: 256 KiB are more than an XDR link holds in 2 us,
and leave little to wait for where links serve whole messages (``--pace``)."""
ENDLESS = 20_000_000
"""Iterations where perftest permits no duration (``-e``): 1.3 TB each way."""
SETTLE_S = 1.0
"""Seconds from the start of the last client of the load until it sends: perftest does not say when
it begins."""

Pairs = Sequence[tuple[HostPort, HostPort]]


def load_run(launcher: Launcher, program: str, port: int, limit_s: float) -> Run:
    """The program of one pair of the load, which sends for at least ``limit_s`` seconds where
    nobody ends it. On a running fabric, whose programs share this machine's processors, they sleep
    until a completion comes (perftest has that for SEND alone, and without -D), so that they leave
    the processors to those who measure."""
    depth = ("-t", str(LOAD_DEPTH))
    if launcher.name == "local":
        return Run("send", False, True, LOAD_SIZE, ENDLESS, port, (*depth, "-r", str(16 * LOAD_DEPTH), "-e", "-N"))
    return Run(program, False, True, LOAD_SIZE, 0, port, (*depth, "-D", f"{limit_s:.0f}"))


def run_under_load(
    launcher: Launcher, pairs: Pairs, runs: Sequence[Run], loads: Pairs, load_runs: Sequence[Run], limit_s: float
) -> tuple[list[Outcome], int]:
    """What became of each of ``pairs``, which run while ``loads`` send, and how many of these still
    sent at the end.

    A pair of the load that fails leaves the others alone; where none is left, the pairs have a
    reason and no value.
    """
    started: list[PairPrograms] = []
    try:
        for pair, run in zip(loads, load_runs, strict=True):
            started.append(PairPrograms(launcher, pair, run, 2 * limit_s + REACHED_S))
        _until_they_send(started)
        if not any(p.outcome is None for p in started):
            reason = next((p.outcome.reason for p in started if p.outcome), "all their hosts have failed")
            return [Outcome(None, -1, f"no pair loads the fabric: {reason}") for _ in pairs], 0
        outcomes = run_pairs(launcher, pairs, runs, limit_s)
        now = time.monotonic()
        for one in started:
            one.look(now, now)
        return outcomes, sum(p.outcome is None for p in started)
    finally:
        for one in started:
            one.end()


def _until_they_send(started: Sequence[PairPrograms]) -> None:
    """Wait until every pair has both its programs since :data:`SETTLE_S`, or has failed."""
    began = time.monotonic()
    for one in started:
        one.next_s = began + RETRY_S
    since: dict[int, float] = {}
    while time.monotonic() - began < 2 * REACHED_S:
        now = time.monotonic()
        waiting = False
        for i, one in enumerate(started):
            one.look(now, began)
            if one.client is None:
                since.pop(i, None)
            sends = one.client is not None and now - since.setdefault(i, now) > SETTLE_S
            waiting |= one.outcome is None and not sends
        if not waiting:
            return
        time.sleep(LOOK_S)
