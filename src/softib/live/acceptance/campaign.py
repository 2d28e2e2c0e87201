"""An acceptance run: it runs the batches of its plan one after another, and records the results in the journal. Hosts
that fail are left out of later batches.

Before the first batch, each host is checked alone: it must answer and have perftest. If this check fails, the host is
at fault.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from softib.live.acceptance.journal import Journal
from softib.live.acceptance.launchers import (
    ALLOCATION_ENDED,
    MISSING,
    NOT_REACHED,
    TIMED_OUT,
    HostPort,
    Launcher,
    Program,
)
from softib.live.acceptance.pair_runs import load_run, run_pairs, run_under_load
from softib.live.acceptance.perftest import Run, reason_of

__all__ = ["Batch", "Exchange", "exchange_ports", "run_campaign", "unfit_hosts"]


AT_ONCE = 32
"""Number of hosts that are checked at the same time."""
LIMIT_S = 20.0
"""Time limit for a host's answer in seconds: twice the time that ssh waits for a connection."""
LOOK_S = 0.02
ARE_THERE = 'for p; do command -v "$p" >/dev/null || { echo "$p: not found; install perftest" >&2; exit 127; }; done'


def unfit_hosts(launcher: Launcher, ports: Sequence[HostPort], programs: Sequence[str]) -> dict[str, str]:
    """Return the hosts of ``ports`` that cannot measure, each with the reason. This takes at most :data:`LIMIT_S` per
    :data:`AT_ONCE` hosts."""
    waiting = list({p.host: p for p in ports}.values())[::-1]
    begun: list[tuple[HostPort, Program, float]] = []
    unfit: dict[str, str] = {}
    try:
        while waiting or begun:
            while waiting and len(begun) < AT_ONCE:
                at = waiting.pop()
                command = launcher.command(at, ["sh", "-c", ARE_THERE, "sh", *programs], LIMIT_S)
                begun.append((at, Program(command), time.monotonic() + LIMIT_S))
            for one in [a for a in begun if a[1].code is not None or time.monotonic() > a[2]]:
                begun.remove(one)
                at, program, _ = one
                why = _why(launcher, at, program)
                program.end()
                if why:
                    unfit[at.host] = why
            time.sleep(LOOK_S)
    finally:
        for _, program, _ in begun:
            program.end()
    return unfit


def _why(launcher: Launcher, at: HostPort, program: Program) -> str:
    """Return the host's error as one line; "" if there is none."""
    code, text = program.code, reason_of(program.output)
    if code == 0:
        return ""
    if code is None or code in TIMED_OUT:
        return f"did not answer within {LIMIT_S:.0f} s"
    if code == NOT_REACHED.get(launcher.name):
        return text or f"{launcher.name} did not reach {at.host}"
    if code in MISSING:
        return text or "perftest is not installed; install it"
    return text or f"{launcher.name} ended with {code} and printed nothing"


SPAN = 2000
"""Number of TCP ports that are used in rotation, so that a closed port has time to become free (TIME_WAIT)."""


def exchange_ports(base: int, here: bool, skip: int = 0) -> Iterator[int]:
    """Yield TCP ports in rotation, beginning ``skip`` ports after ``base``. If the servers run ``here``, ports that are
    in use on this machine are left out."""
    span = min(SPAN, 65536 - base)
    first = skip % span
    while True:
        for port in (*range(base + first, base + span), *range(base, base + first)):
            if not here or _free(port):
                yield port


def _free(port: int) -> bool:
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
    return True


OVERHEAD_S = 30.0
"""Time limit of a program in seconds, in addition to :data:`SLOWEST` times its expected time."""
SLOWEST = 30.0
STRIKES = 3
"""Number of failures with different partners after which a host is left out, even if none was certainly its fault.
"""


@dataclass(frozen=True)
class Exchange:
    """A pair of ports to measure: the rows of both ports, the message size, the iterations, and the expected duration
    in seconds."""

    source: int
    target: int
    size: int
    iterations: int
    seconds: float


@dataclass(frozen=True)
class Batch:
    """Pairs that run at once: part ``part`` of round ``round`` of ``test``. ``load``: pairs that
    send in both directions at the same time and are not measured."""

    round: int
    test: str
    part: int
    latency: bool
    both: bool
    pairs: tuple[Exchange, ...]
    load: tuple[Exchange, ...] = ()

    @property
    def key(self) -> tuple[int, str, int]:
        """Return the batch's key in the journal."""
        return self.round, self.test, self.part


def run_campaign(
    batches: Sequence[Batch],
    ports: Sequence[HostPort],
    launcher: Launcher,
    journal: Journal,
    program: str,
    base_port: int,
    progress: Callable[[int, int, float], None],
    extra: tuple[str, ...] = (),
) -> None:
    """Run the batches that are not in the journal yet. ``progress`` is called with the number of
    batches that are done, the number of all batches, and the seconds that the remaining ones are expected to take.
    ``extra``: further arguments of perftest."""
    done = {(e["round"], e["test"], *pair[:2]) for e in journal.entries for pair in e["values"]}
    # Servers of a run that died may still listen on hosts, so a resumed run uses ports after theirs.
    tcp = exchange_ports(base_port, launcher.name == "local", len(journal.entries) * len(ports) // 2)
    out = _unfit(batches, done, ports, launcher, program)
    strikes: dict[int, set[int]] = {}
    ended = ""
    began, ran = time.monotonic(), 0
    for i, batch in enumerate(batches):
        left = _left(batch, done)
        entry: dict[str, Any] = {
            "round": batch.round,
            "test": batch.test,
            "part": batch.part,
            "values": [],
            "failures": [],
        }
        alive = []
        for p in left:
            if ended:
                entry["failures"].append([p.source, p.target, -1, ended])
                continue
            lost = next((e for e in (0, 1) if ports[(p.source, p.target)[e]].host in out), -1)
            if lost < 0:
                alive.append(p)
            else:
                host = ports[(p.source, p.target)[lost]].host
                entry["failures"].append([p.source, p.target, lost, out[host]])
        if alive:
            load = [p for p in batch.load if not any(ports[row].host in out for row in (p.source, p.target))]
            _run(batch, alive, load, ports, launcher, (program, *extra), tcp, entry)
            ended = _allocation_ended(entry) if launcher.name == "srun" else ""
            if not ended:
                _leave_out(entry, ports, out, strikes)
            ran += 1
        if left:
            journal.add(entry)
        progress(i + 1, len(batches), (time.monotonic() - began) / max(ran, 1) * (len(batches) - i - 1))


def _allocation_ended(entry: dict[str, Any]) -> str:
    """Return srun's message if the allocation has ended, otherwise "". An ended allocation is no host's fault, and no
    further program is started."""
    reasons = (reason for *_, reason in entry["failures"])
    return next((r for r in reasons if any(x in r.lower() for x in ALLOCATION_ENDED)), "")


def _left(batch: Batch, done: Container[tuple[int, str, int, int]]) -> list[Exchange]:
    return [p for p in batch.pairs if (batch.round, batch.test, p.source, p.target) not in done]


def _unfit(
    batches: Sequence[Batch],
    done: Container[tuple[int, str, int, int]],
    ports: Sequence[HostPort],
    launcher: Launcher,
    program: str,
) -> dict[str, str]:
    """Return the hosts that still have measurements to do, but do not answer or lack perftest. On a running fabric
    nothing is checked: all nodes are this machine, so the first pairs reveal a missing program."""
    rows = {row for b in batches for p in _left(b, done) for row in (p.source, p.target)}
    if launcher.name == "local" or not rows:
        return {}
    names = sorted({Run(program, b.latency, b.both, 1, 1, 0).name for b in batches if _left(b, done)})
    return unfit_hosts(launcher, [ports[row] for row in sorted(rows)], names)


def _run(
    batch: Batch,
    pairs: Sequence[Exchange],
    load: Sequence[Exchange],
    ports: Sequence[HostPort],
    launcher: Launcher,
    program_and_extra: tuple[str, ...],
    tcp: Any,
    entry: dict[str, Any],
) -> None:
    program, *extra = program_and_extra
    runs = [Run(program, batch.latency, batch.both, p.size, p.iterations, next(tcp), tuple(extra)) for p in pairs]
    limit_s = OVERHEAD_S + SLOWEST * max(p.seconds for p in pairs)
    ends = lambda some: [(ports[p.source], ports[p.target]) for p in some]
    if batch.load:
        loads = [load_run(launcher, program, next(tcp), limit_s) for _ in load]
        outcomes, sent = run_under_load(launcher, ends(pairs), runs, ends(load), loads, limit_s)
        entry["loads"] = [sent, len(batch.load)]
    else:
        outcomes = run_pairs(launcher, ends(pairs), runs, limit_s)
    for p, o in zip(pairs, outcomes, strict=True):
        if o.value is not None:
            entry["values"].append([p.source, p.target, o.value])
        else:
            entry["failures"].append([p.source, p.target, o.end, o.reason])


def _leave_out(
    entry: dict[str, Any], ports: Sequence[HostPort], out: dict[str, str], strikes: dict[int, set[int]]
) -> None:
    """Leave out hosts that were at fault for their failure, and hosts that failed with several partners and never
    succeeded."""
    for source, target, _ in entry["values"]:
        strikes.pop(source, None)
        strikes.pop(target, None)
    for i, (source, target, end, reason) in enumerate(entry["failures"]):
        if end >= 0:
            out.setdefault(ports[(source, target)[end]].host, reason)
            continue
        for k, (me, other) in enumerate(((source, target), (target, source))):
            strikes.setdefault(me, set()).add(other)
            if len(strikes[me]) >= STRIKES and ports[me].host not in out:
                out[ports[me].host] = f"failed with {STRIKES} hosts in turn: {reason}"
                entry["failures"][i] = [source, target, k, out[ports[me].host]]
