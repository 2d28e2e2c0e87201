"""A round of a cover run on hosts: all flows send at once while the counters of the fabric are read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from softib.live.acceptance.launchers import Launcher
from softib.live.acceptance.pair_runs import ENDLESS, REACHED_S, RETRY_S, PairPrograms, Pairs
from softib.live.acceptance.perftest import Run

__all__ = ["CoverReadings", "cover_round"]

DEPTH, MOST_DEPTH = 16, 512
"""Number of messages that each sender keeps posted, and the maximum of this number on a running fabric."""
QUEUE_S = 0.25
"""Amount of messages that a sender on a running fabric posts in advance, in seconds of sending. This is longer than a
sender waits for a processor. It is short compared with a round, because with adaptive routing flows that share links
take turns in periods of this length."""
STARTS_S = 90.0
"""Time limit in seconds for all programs to send; the readings begin after it, even if some programs do not send."""
LOOK_S = 0.5
"""Seconds between two checks whether all programs send."""

T = TypeVar("T")


class CoverReadings(NamedTuple, Generic[T]):
    """Readings of the fabric's counters, taken while all flows send."""

    readings: list[T]
    """About one reading per second, but at least two."""
    failures: list[str]
    """The error of each pair; empty if it had none."""


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
    gbps: float,
) -> CoverReadings[T]:
    """Return the readings over ``seconds`` (about one per second, at least two), and the error of
    each pair.

    Each pair sends messages of ``size`` bytes one way until the last reading has been taken. The first
    reading is taken when ``all_send`` accepts the two readings before it, because a program does
    not report when it starts to send. ``extra``: further arguments of perftest. ``gbps``: expected
    rate of a sender.
    """
    limit_s = seconds + STARTS_S + 2 * REACHED_S
    started: list[PairPrograms] = []
    try:
        for pair in pairs:
            run = _run(launcher, program, size, next(tcp), limit_s, extra, gbps)
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
        return CoverReadings([*readings, read()], failed)
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


def _run(
    launcher: Launcher, program: str, size: int, port: int, limit_s: float, extra: Sequence[str], gbps: float
) -> Run:
    """Return a program that sends until it is ended. On a running fabric it sleeps between
    completions, because all programs share this machine's processors.

    perftest asks for one completion every ``-Q`` messages. The default is the whole queue, which is
    then empty each time that the next messages are posted.
    """
    if launcher.name != "local":
        return Run(program, False, False, size, 0, port, ("-t", str(DEPTH), "-Q", "1", "-D", f"{limit_s:.0f}", *extra))
    depth = min(MOST_DEPTH, max(DEPTH, int(QUEUE_S * gbps * 1e9 / 8 / size)))
    queues = ("-t", str(depth), "-Q", str(depth // DEPTH), "-r", str(2 * depth), "-e", "-N")
    return Run("send", False, False, size, ENDLESS, port, (*queues, *extra))
