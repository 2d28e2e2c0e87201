"""Isolation of the cables that findings name: show what softib would do on a live subnet, or do it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from softib.analysis.isolation import Choice
from softib.api.arguments import Suggests
from softib.api.fabric import Fabric, as_fabric, result_of
from softib.api.monitor.diagnosing import diagnose
from softib.api.progress import Steps, unwatched
from softib.errors import InputError, PeerError, UnknownName
from softib.monitor.isolation.records import Isolated
from softib.plural import counted
from softib.result import Result

if TYPE_CHECKING:
    from softib.monitor.isolation.means import Means
    from softib.monitor.isolation.records import Records
    from softib.monitor.opening import Opened

__all__ = ["Isolation", "IsolationLedger", "isolate", "isolations", "release_isolated"]

PATIENCE_S = 30.0
"""Seconds that the manager gets to route around a disabled port."""


@dataclass(frozen=True)
class Isolation(Suggests, Result):
    """Cables that were isolated and released, or would be."""

    document = "isolate"

    source: str
    acted: bool
    """True if ports were disabled or enabled; False if the changes are only shown (shadow mode)."""
    budget: int
    standing: int
    """Number of cables that are isolated now."""
    choices: list[Choice]
    """The decision for each cable that a finding proposes to isolate."""
    released: list[Isolated]
    """Cables that were or will be enabled again, with the reason."""
    proof: str
    """What was proved about the fabric without the chosen cables; empty if no cable was chosen."""

    @property
    def good(self) -> bool:
        """Return whether no finding proposes to isolate a cable."""
        return not self.choices

    def lines(self) -> list[str]:
        """Return the proposals as text."""
        verbs = ("isolated", "released") if self.acted else ("would isolate", "would release")
        out = [f"{verbs[1]} {r.cable}: {r.why}" for r in self.released]
        for c in self.choices:
            if c.isolate:
                out.append(f"{verbs[0]}: {c.message}")
                out += [f"  {node} keeps {left} cables to other switches" for node, left in c.cables_left.items()]
                out += [] if self.acted else [f"  the same: {one}" for one in c.commands]
            else:
                out.append(f"not isolated, because {c.why}: {c.message}")
        if self.proof:
            out.append(f"proven: {self.proof}")
        out.append(f"{counted(self.standing, 'cable')} isolated; budget {self.budget}")
        return out


@dataclass(frozen=True)
class IsolationLedger(Result):
    """All isolations on a subnet, the newest first."""

    document = "isolate-ledger"

    isolations: list[Isolated]

    def lines(self) -> list[str]:
        """Return text, one line each."""
        from datetime import datetime

        at = lambda seconds: datetime.fromtimestamp(seconds).isoformat(" ", "seconds")
        return [
            f"{r.cable}: {r.code}, isolated {at(r.begun)} at {r.port}, "
            + (f"trial due {at(r.due)}" if r.ended is None else f"released {at(r.ended)}: {r.why}")
            for r in self.isolations
        ]


def isolate(
    observed: Any,
    source: Any = None,
    *,
    act: bool = False,
    budget: int | None = None,
    hold: float = 3600.0,
    mkey: int = 0,
    ufm: tuple[str, str | os.PathLike[str]] | None = None,
    thresholds: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    steps: Steps = unwatched,
) -> Isolation:
    """Isolate the cables that :func:`diagnose` of ``observed`` (see :func:`observe`) proposes to
    isolate, or only show them (``act`` false). ``source``: a running fabric's name or
    ``umad:DEVICE``. Without ``act`` it may also be a file, or None for the observed ports.

    Limits: only cables between switches; at most ``budget`` at once (None: max(10, 0.5 % of the
    cables)); never the last path between two hosts; at least half of each switch's cables stay. One
    port of an isolated cable is disabled. The cable is enabled for a trial after ``hold`` seconds
    (twice as long each further time within a month), when the exporter's ledger records its repair,
    or when the fabric needs it. ``mkey``: the M_Key of the subnet's manager, if ports are
    protected. ``ufm``: UFM's address, and a file whose first line is a token or ``NAME:PASSWORD``.
    Ports are then disabled and enabled through UFM's list of unhealthy ports.

    Raises :class:`InputError` if ``act`` has no live source, :class:`PeerError` if the source does not
    answer.
    """
    from softib.analysis.isolation import budget_of, choose, proven, without_cables
    from softib.diags.cable_rules.thresholds import load_thresholds
    from softib.fabric.formats.base import ReadResult
    from softib.monitor.isolation.ports import lost_pairs
    from softib.monitor.opening import is_live

    name = getattr(source, "name", source)
    live = isinstance(name, str) and is_live(name)
    if act and not live:
        raise InputError("act needs a running fabric or umad:DEVICE, whose ports it disables; use it as source")
    if budget is not None and budget < 0:
        raise InputError(f"budget={budget} is negative; use 0 or more")
    if ufm is not None and not live:
        raise InputError("ufm needs a running fabric or umad:DEVICE to check its list of ports; use it as source")
    with _opened(name if live else None, mkey) as (opened, records):
        means = _means(opened, ufm)
        released = [] if records is None else _releases(opened, records, means, act)
        fabric = _fabric(source, opened)
        findings = diagnose(observed, fabric, thresholds=thresholds, severity="warning", steps=steps)
        result = ReadResult(findings._report.fabric, [], "observed") if fabric is None else result_of(fabric)
        standing = [] if records is None else [r for r in records.standing if r.ends not in [x.ends for x in released]]
        away = [r.ends for r in standing]
        limits = load_thresholds(thresholds)
        most = budget_of(
            result.fabric.sizes.cables + len(away), limits["isolations_at_least"], limits["isolations_share"]
        )
        most = most if budget is None else min(budget, most)
        choices = choose(result.fabric, findings, most, away)
        if records is not None:
            choices = [_fresh(c, records, observed) for c in choices]
        less = ReadResult(without_cables(result.fabric, away), [], result.format, result.extra)
        choices, proof = proven(less, choices, steps)
        if act and opened is not None and records is not None:
            lost = lost_pairs(result) if _any(choices) else 0
            assert means is not None
            choices = [_act(c, opened, records, means, hold, lost) if c.isolate else c for c in choices]
        count = 0 if records is None else len(records.standing)
    return Isolation(str(name or "observed"), act, most, count, choices, released, proof if _any(choices) else "")


def isolations(source: Any) -> IsolationLedger:
    """Return all isolations on ``source`` (a running fabric or ``umad:DEVICE``), the newest
    first."""
    from softib.monitor.isolation.records import Records
    from softib.monitor.opening import memory_of

    return IsolationLedger(Records(memory_of(str(getattr(source, "name", source)))).every[::-1])


def release_isolated(
    source: Any, *names: str, mkey: int = 0, ufm: tuple[str, str | os.PathLike[str]] | None = None
) -> IsolationLedger:
    """Enable isolated cables again: those with an end in ``names`` (``leaf-1[3]``), or all.
    ``mkey``, ``ufm``: as for :func:`isolate`. Raises :class:`UnknownName` for a port that is not isolated,
    :class:`PeerError` if a switch refuses."""
    name = str(getattr(source, "name", source))
    with _opened(name, mkey) as (opened, records):
        means = _means(opened, ufm)
        assert means is not None and records is not None
        ends = {end for r in records.standing for end in r.cable.split(" ↔ ")}
        for one in names:
            if one not in ends:
                raise UnknownName("isolated port", one, sorted(ends))
        chosen = [r for r in records.standing if not names or set(names) & set(r.cable.split(" ↔ "))]
        return IsolationLedger([_release(means, records, r, "released manually") for r in chosen])


@contextmanager
def _opened(name: str | None, mkey: int) -> Iterator[tuple[Opened | None, Records | None]]:
    from softib.monitor.isolation.records import Records
    from softib.monitor.opening import open_source
    from softib.monitor.seen_ports import locked

    if name is None:
        yield None, None
        return
    opened = open_source(name, mkey)
    try:
        with locked(
            None if opened.memory is None else opened.memory.with_name("isolating")
        ):  # locked, because two processes together could exceed the budget
            yield opened, Records(opened.memory) if opened.memory is not None else None
    finally:
        opened.close()


def _means(opened: Opened | None, ufm: tuple[str, str | os.PathLike[str]] | None) -> Means | None:
    from softib.monitor.isolation.means import Mads, UfmList

    if opened is None:
        return None
    return Mads(opened.wire) if ufm is None else UfmList.from_file(opened.wire, ufm[0], os.fspath(ufm[1]))


def _any(choices: list[Choice]) -> bool:
    return any(c.isolate for c in choices)


def _fabric(source: Any, opened: Opened | None) -> Fabric | None:
    """Return the fabric; a live one is read with MADs."""
    from softib.live.subnet_reader import read_wire

    if opened is not None:
        return Fabric(read_wire(opened.wire, opened.name), opened.name)
    return None if source is None else as_fabric(source)


def _fresh(choice: Choice, records: Records, observed: Any) -> Choice:
    """Return the choice. If its evidence is older than the last release of the cable, the choice becomes to leave the
    cable in use."""
    seen = getattr(observed, "observations", observed)
    begun_s = float(seen.begin_ns[seen.end_ns > seen.begin_ns].min(initial=2**63 - 1)) / 1e9
    if choice.isolate and begun_s < records.released_s(choice.ends):
        why = "the counters are from before it was released; read later ones"
        return replace(choice, isolate=False, why=why, cables_left={}, commands=[])
    return choice


def _releases(opened: Opened | None, records: Records, means: Means | None, act: bool) -> list[Isolated]:
    """Return the isolations that end because the cable was repaired, is needed, is due for a trial, or was enabled
    by another party."""
    from softib.iba.constants import PhysState
    from softib.live.subnet_reader import read_wire
    from softib.monitor.isolation.ports import joins_parts, link_states
    from softib.monitor.ledger import faults_of

    if opened is None or means is None or not records.standing or opened.memory is None:
        return []
    now = time.time()
    states = link_states(opened.wire, [r.end for r in records.standing])
    faults = faults_of(opened.memory)
    fabric = read_wire(opened.wire, opened.name).fabric
    out = []
    for r in records.standing:
        repaired = max((f.repaired_s for f in faults if set(f.names) & set(r.cable.split(" ↔ "))), default=0.0)
        if r.end in states and states[r.end][1] != PhysState.DISABLED:
            why = "its port was enabled by another program"
        elif repaired > r.begun:
            why = "it was repaired"
        elif joins_parts(fabric, [r.ends]):
            why = "no other path is left between its ends"
        elif now >= r.due:
            why = "a trial: a cable without a link has no counters as evidence"
        else:
            continue
        with suppress(PeerError):  # a switch that does not answer keeps its port disabled
            out.append(_release(means, records, r, why) if act else replace(r, ended=now, why=why))
    return out


def _release(means: Means, records: Records, r: Isolated, why: str) -> Isolated:
    failed = means.enable(r.end)
    if failed:
        raise PeerError(f"{r.port}: {failed}; it stays isolated")
    return records.release(r, time.time(), why)


def _act(choice: Choice, opened: Opened, records: Records, means: Means, hold: float, lost: int) -> Choice:
    """Disable the cable, and enable it again if the manager does not route around it."""
    from softib.monitor.isolation.ports import rerouted

    now = time.time()
    seconds = hold * 2 ** records.times(choice.ends, now)
    names = dict(zip(choice.ends, choice.cable.split(" ↔ "), strict=True))
    end, why = means.disable(choice.ends)
    if end is None:
        return replace(choice, isolate=False, why=why)
    one = Isolated(
        cable=choice.cable,
        port=names[end],
        code=choice.code,
        message=choice.message,
        begun=now,
        due=now + seconds,
        ended=None,
        why="",
        ends=(choice.ends[0], choice.ends[1]),
        end=end,
    )
    try:
        records.add(one)
        why = rerouted(opened.wire, opened.name, end, lost, PATIENCE_S)
    except BaseException:
        means.enable(end)
        raise
    if not why:
        return choice
    _release(means, records, one, f"undone: {why}")
    return replace(choice, isolate=False, why=f"undone after {PATIENCE_S:g} s: {why}")
