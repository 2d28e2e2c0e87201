"""Does every host answer, and is perftest there? Asked of each by itself before pairs are formed,
so that what fails here is the host's."""

from __future__ import annotations

import time
from collections.abc import Sequence

from softib.live.acceptance.launchers import NOT_REACHED, HostPort, Launcher
from softib.live.acceptance.perftest import reason_of
from softib.live.acceptance.program import MISSING, TIMED_OUT, Program

__all__ = ["unfit_hosts"]

AT_ONCE = 32
"""Hosts that are tried at a time."""
LIMIT_S = 20.0
"""Seconds that a host has to answer: twice what ssh waits for a connection."""
LOOK_S = 0.02
ARE_THERE = 'for p; do command -v "$p" >/dev/null || { echo "$p: not found; install perftest" >&2; exit 127; }; done'


def unfit_hosts(launcher: Launcher, ports: Sequence[HostPort], programs: Sequence[str]) -> dict[str, str]:
    """host → why it cannot measure, of the hosts of ``ports``. Takes no longer than :data:`LIMIT_S`
    for each :data:`AT_ONCE` of them."""
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
    """What is wrong with the host, in one line; "" where nothing is."""
    code, text = program.code, reason_of(program.output)
    if code == 0:
        return ""
    if code is None or code in TIMED_OUT:
        return f"did not answer within {LIMIT_S:.0f} s"
    if code == NOT_REACHED.get(launcher.name):
        return text or f"{launcher.name} did not reach {at.host}"
    if code in MISSING:
        return text or "perftest is not there; install it"
    return text or f"{launcher.name} ended with {code} and no word"
