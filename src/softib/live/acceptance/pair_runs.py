"""Runs pairs of perftest programs at the same time, servers first and then clients, and returns the outcome of each
pair. Other pairs may load the fabric meanwhile."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from softib.errors import PeerError
from softib.live.acceptance.launchers import MISSING, NOT_REACHED, TIMED_OUT, HostPort, Launcher, Program
from softib.live.acceptance.perftest import Run, arguments, parse, reason_of

__all__ = [
    "ENDLESS",
    "LOOK_S",
    "REACHED_S",
    "RETRY_S",
    "Outcome",
    "PairPrograms",
    "Pairs",
    "load_run",
    "run_pairs",
    "run_under_load",
]

LOOK_S = 0.02
RETRY_S = 0.3
REACHED_S = 30.0
"""Seconds for which a client tries to reach its server: the longest time that a launcher may take
to start the server."""
HOST_FAULTS = (
    "no ib device",
    "no such device",
    "not found",
    "no such file",
    "failed to get ib device",
    "unable to find the infiniband/roce device",
)
"""Messages of programs and launchers which mean that the host is at fault, not the pair."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a pair. ``value`` is the measurement; None if the pair failed for ``reason``. In that case ``end``
    is 0 if the source is at fault, 1 if the target is, and -1 if this is unknown."""

    value: float | None
    end: int = -1
    reason: str = ""


class PairPrograms:
    """The two programs of a pair. If the server does not listen yet, the client is started again."""

    def __init__(self, launcher: Launcher, pair: tuple[HostPort, HostPort], run: Run, limit_s: float):
        self.launcher, self.pair, self.run, self.limit_s = launcher, pair, run, limit_s
        self.outcome: Outcome | None = None
        self.client: Program | None = None
        self.next_s = 0.0
        self.server = self._start(1, None)

    def _start(self, end: int, server: str | None) -> Program:
        launcher, at = self.launcher, self.pair[end]
        program = arguments(self.run, launcher.device(at), at.portnum, server)
        return Program(launcher.command(at, program, self.limit_s))

    def look(self, now: float, began: float) -> None:
        """Start programs that are due, and check programs that have ended."""
        if self.outcome is not None:
            return
        if self.client is None:
            if self.server.code not in (None, 0):
                self.outcome = self._failed(self.server, 1)
            elif now >= self.next_s:
                self.client = self._start(0, self.launcher.address(self.pair[1]))
            return
        code = self.client.code
        if code is None:
            if now - began > self.limit_s + REACHED_S:
                self.outcome = Outcome(None, -1, f"not finished after {self.limit_s:.0f} s")
        elif code == 0:
            self._read()
        elif (
            code not in (NOT_REACHED.get(self.launcher.name), *MISSING)
            and _not_listening(self.client.output)
            and now - began < REACHED_S
            and self.server.code is None
        ):
            self.client.end()
            self.client, self.next_s = None, now + RETRY_S
        else:
            self.outcome = self._client_failed()

    def _read(self) -> None:
        assert self.client is not None
        try:
            self.outcome = Outcome(parse(self.client.output, self.run.latency))
        except PeerError as error:
            self.outcome = Outcome(None, -1, str(error))

    def _client_failed(self) -> Outcome:
        assert self.client is not None
        if self.server.code not in (None, 0):  # the server failed first
            return self._failed(self.server, 1)
        return self._failed(self.client, 0)

    def _failed(self, program: Program, end: int) -> Outcome:
        """Return which end was at fault, judged by exit code and output."""
        code, text = program.code, reason_of(program.output)
        if code == NOT_REACHED.get(self.launcher.name):
            return Outcome(None, end, text or f"{self.launcher.name} did not reach it")
        if code in MISSING:
            return Outcome(None, end, text or f"{self.run.name} is not installed; install perftest")
        if code in TIMED_OUT:
            return Outcome(None, -1, f"not finished after {self.limit_s:.0f} s")
        reason = text or f"{self.run.name} ended with {code} and printed nothing"
        return Outcome(None, end if any(f in reason.lower() for f in HOST_FAULTS) else -1, reason)

    def end(self) -> None:
        """End both programs of the pair."""
        for program in (self.client, self.server):
            if program is not None:
                program.end()


def _not_listening(output: str) -> bool:
    return any(
        x in output for x in ("Couldn't connect to", "Unable to init the socket connection", "Connection refused")
    )


def run_pairs(
    launcher: Launcher, pairs: Sequence[tuple[HostPort, HostPort]], runs: Sequence[Run], limit_s: float
) -> list[Outcome]:
    """Run all ``pairs`` (source, target) at the same time, each with its ``Run``; return the
    outcomes in the same order.

    ``limit_s``: seconds that one program may take. A pair that fails does not affect the others; no
    program is running when this returns.
    """
    started: list[PairPrograms] = []
    try:
        for pair, run in zip(pairs, runs, strict=True):
            started.append(PairPrograms(launcher, pair, run, limit_s))
        began = time.monotonic()
        grace = began + RETRY_S  # so that most servers listen before the clients start
        for one in started:
            one.next_s = grace
        while any(p.outcome is None for p in started):
            now = time.monotonic()
            for one in started:
                one.look(now, began)
            time.sleep(LOOK_S)
        return [p.outcome or Outcome(None) for p in started]
    finally:
        for one in started:
            one.end()


LOAD_SIZE = 1 << 16
"""Bytes of a message of the load."""
LOAD_DEPTH = 4
"""Number of messages that a program of the load keeps posted. Their 256 KiB are more than an XDR link carries in 2 us,
but delay other messages only a little if links carry whole messages (``--pace``)."""
ENDLESS = 20_000_000
"""Number of iterations (1.3 TB in each direction) where perftest does not accept a duration (with ``-e``)."""
SETTLE_S = 1.0
"""Seconds from the start of the last client of the load until it counts as sending: perftest does
not report when it begins."""

Pairs = Sequence[tuple[HostPort, HostPort]]


def load_run(launcher: Launcher, program: str, port: int, limit_s: float) -> Run:
    """Return the program of one pair of the load, which sends for at least ``limit_s`` seconds
    unless it is ended. On a running fabric, programs share the processors of this machine. There,
    the load sleeps until a completion arrives (perftest supports that only for SEND, and without
    -D), so that the processors are free for the measured programs."""
    depth = ("-t", str(LOAD_DEPTH))
    if launcher.name == "local":
        return Run("send", False, True, LOAD_SIZE, ENDLESS, port, (*depth, "-r", str(16 * LOAD_DEPTH), "-e", "-N"))
    return Run(program, False, True, LOAD_SIZE, 0, port, (*depth, "-D", f"{limit_s:.0f}"))


def run_under_load(
    launcher: Launcher, pairs: Pairs, runs: Sequence[Run], loads: Pairs, load_runs: Sequence[Run], limit_s: float
) -> tuple[list[Outcome], int]:
    """Run ``pairs`` while ``loads`` send. Return the outcome of each pair, and the number of loads that were still
    sending at the end.

    A load pair that fails does not affect the others; if all load pairs have failed, the measured pairs get a reason
    and no value.
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
    """Wait until every pair has failed, or its programs have run for :data:`SETTLE_S`."""
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
