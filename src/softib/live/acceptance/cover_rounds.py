"""A round of a cover run on hosts: all flows send at once, and the counters of the fabric are read
meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from softib.live.acceptance.launchers import Launcher
from softib.live.acceptance.pair_runs import ENDLESS, REACHED_S, RETRY_S, PairPrograms, Pairs
from softib.live.acceptance.perftest import Run

__all__ = ["cover_round"]

DEPTH = 16
"""Messages that each sender has posted."""
STARTS_S = 90.0
"""Seconds from the start of the programs until counters are watched, whether all send or not."""
LOOK_S = 0.5
"""Seconds between two looks at programs and counters until then."""

T = TypeVar("T")


def cover_round(
    launcher: Launcher,
    pairs: Pairs,
    *,
    program: str,
    size: int,
    seconds: float,
    tcp: Iterator[int],
    extra: Sequence[str],
    read: Callable[[], T],
    all_send: Callable[[T, T], bool],
) -> tuple[list[T], list[str]]:
    """Return (readings over ``seconds``, about one a second, two at least; the error of each pair, "" without one).

    Each pair sends messages of ``size`` bytes one way until the last reading is there. The first one
    is taken when ``all_send`` accepts the two readings before it, since a started program does not
    report when it sends. ``extra``: further arguments of perftest.
    """
    limit_s = seconds + STARTS_S + 2 * REACHED_S
    started: list[PairPrograms] = []
    try:
        for pair in pairs:
            run = _run(launcher, program, size, next(tcp), limit_s, extra)
            started.append(PairPrograms(launcher, pair, run, limit_s + REACHED_S))
        readings = [_first_reading(started, read, all_send)]
        began = time.monotonic()
        parts = max(1, int(seconds))
        for part in range(1, parts + 1):
            time.sleep(max(0.0, began + seconds * part / parts - time.monotonic()))
            if part < parts:
                readings.append(read())
        now = time.monotonic()
        for one in started:
            one.look(now, now)
        failed = [
            "" if p.outcome is None else p.outcome.reason or "ended before the counters were read" for p in started
        ]
        return [*readings, read()], failed
    finally:
        for one in started:
            one.end()


def _first_reading(started: Sequence[PairPrograms], read: Callable[[], T], all_send: Callable[[T, T], bool]) -> T:
    began = time.monotonic()
    for one in started:
        one.next_s = began + RETRY_S
    before = read()
    while True:
        time.sleep(LOOK_S)
        moment = time.monotonic()
        for one in started:
            one.look(moment, began)
        now = read()
        if all_send(before, now) or moment > began + STARTS_S:
            return now
        before = now


def _run(launcher: Launcher, program: str, size: int, port: int, limit_s: float, extra: Sequence[str]) -> Run:
    """Return a program that sends until it is ended: on a running fabric one that sleeps between
    completions, as all programs share this machine's processors."""
    depth = ("-t", str(DEPTH))
    if launcher.name == "local":
        return Run("send", False, False, size, ENDLESS, port, (*depth, "-r", str(16 * DEPTH), "-e", "-N", *extra))
    return Run(program, False, False, size, 0, port, (*depth, "-D", f"{limit_s:.0f}", *extra))
