"""Events that occurred while the server was running. They are about ports that went down or came up, traps, sweeps,
managers, findings, nodes, and the source itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from softib.diags.finding import Finding, with_also
from softib.foreign_text import shown
from softib.iba.constants import PhysState
from softib.monitor.intervals import Interval, same_ports
from softib.web.remembered import Snapshot, cables_of

if TYPE_CHECKING:
    from softib.monitor.manager import ManagerWatch
from dataclasses import replace

from softib.web.remembered import Cable

__all__ = ["Event", "Events", "Kind", "one_a_cable", "says_down"]


MISSING, FELL = "missing-cable", "link-flaps"


def says_down(f: Finding) -> Cable | None:
    """Return the cable that is down according to ``f``, with the smaller end first; None if ``f`` is about
    something else."""
    ends = sorted((p.guid, p.portnum) for p in f.where if p.portnum is not None)
    if len(f.where) != 2 or len(ends) != 2:
        return None
    return (ends[0], ends[1]) if f.code == MISSING or (f.code == FELL and f.evidence.get("down")) else None


def one_a_cable(findings: Iterable[Finding], before: Iterable[Finding], seen: Snapshot) -> tuple[Finding, ...]:
    """Return ``findings``, but with only one finding for each cable that is down. The most severe come first. A finding
    of ``before`` is kept while its cable is down, unless another finding names both ends of this cable.

    A finding about a cable that was never read comes from the learned pattern of cables. It is kept while other devices
    are down, because they may hide the pattern.
    """
    here = cables_of(seen.fabric) - seen.down.keys()
    linked = {end for cable in here for end in cable}
    leads: dict[Cable, Finding] = {}
    rest: list[Finding] = []
    for f in sorted(findings, key=lambda f: -f.severity):
        cable = says_down(f)
        if cable is None:
            rest.append(f)
        elif f.code == FELL and cable in here:
            rest.append(_is_up(f))
        elif cable in leads:
            leads[cable] = with_also(leads[cable], f)
        else:
            leads[cable] = f
    named = [{(p.guid, p.portnum) for p in f.where} for f in rest if f.code not in (FELL, MISSING) or len(f.where) > 2]
    for f in before:
        cable = says_down(f)
        if cable is None or cable in leads or linked.intersection(cable):
            continue
        is_down = cable in seen.down or bool(seen.down or seen.removed or leads)
        if is_down and not any(locations.issuperset(cable) for locations in named):
            leads[cable] = f
    return tuple(sorted((*rest, *leads.values()), key=lambda f: -f.severity))


def _is_up(f: Finding) -> Finding:
    """Return a finding about a link failure, changed to say that the link came up again."""
    return replace(f, message=f.message.removesuffix(", and is down"), evidence={**f.evidence, "down": False})


T = TypeVar("T")
Kind = Literal["port", "node", "trap", "sweep", "manager", "finding", "source"]
KEPT = 2000
"""Maximum number of stored events of each kind."""
AT_ONCE = 200
"""Maximum number of events of a kind from one round; more are reported as one event."""
TRAPS = {
    64: "GID in service",
    65: "GID out of service",
    66: "multicast group created",
    67: "multicast group deleted",
    128: "a port changed its state",
    129: "LocalPhyErrors reached",
    130: "OverrunErrors reached",
    131: "flow-control watchdog expired",
    144: "capabilities or NodeDescription changed",
    145: "SystemImageGUID changed",
    256: "wrong M_Key",
    257: "wrong P_Key",
    258: "wrong Q_Key",
    259: "wrong P_Key at a switch",
}
"""IBA 14.2.5.1."""


@dataclass(frozen=True)
class Event:
    """An event. ``time_s``: clock time of the round in which it was detected. ``severity``: info, warning or error.
    ``node``, ``guid`` and ``portnum``: its location (None: no particular location).
    """

    time_s: float
    kind: Kind
    severity: str
    text: str
    node: str | None = None
    guid: str | None = None
    portnum: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return ``time`` and the other fields by name."""
        document = asdict(self)
        return {"time": document.pop("time_s"), **document}


class Events:
    """Events of one :class:`~softib.web.served.Served`; written by its thread, read by any thread."""

    def __init__(self) -> None:
        self._kept: dict[str, deque[Event]] = {}
        self._down: set[tuple[int, int]] = set()
        self._now_down: set[tuple[int, int]] = set()
        self._last: Interval | None = None
        self._counts: dict[str, int] = {}
        self._masters: dict[int, str] = {}
        self.number = 0
        """Total number of events."""
        self.listener: Callable[[Event], None] | None = None
        """Called with each event that is kept."""

    def all(self) -> list[Event]:
        """Return all events, the newest first."""
        events = [event for kept in list(self._kept.values()) for event in list(kept)]
        return sorted(events, key=lambda e: -e.time_s)

    def _add(self, happened: Sequence[T], event: Callable[[T], Event]) -> None:
        """Add an ``event`` for each element of ``happened``, or only for the first ones if there are many."""
        for one in happened[:AT_ONCE]:
            entry = event(one)
            self._keep(entry)
        if len(happened) > AT_ONCE:
            rest = f"{len(happened) - AT_ONCE:,} more like the {AT_ONCE} before"
            self._keep(Event(entry.time_s, entry.kind, entry.severity, rest))
        self.number += len(happened)

    def _keep(self, event: Event) -> None:
        self._kept.setdefault(event.kind, deque(maxlen=KEPT)).append(event)
        if self.listener is not None:
            self.listener(event)

    def add(self, event: Event) -> None:
        """Add an event."""
        self._add([event], lambda one: one)

    def source(self, problem: str, at_s: float) -> None:
        """Record that the source no longer answers (``problem``: the reason), or answers again ("")."""
        text = shown(problem) if problem else "the source answers again"
        self.add(Event(at_s, "source", "error" if problem else "info", text))

    def ports(self, one: Interval, name: Callable[[int], str], at_s: float) -> None:
        """Record changes of ports since the previous interval: down, up, another rate, or a link
        that failed and came up again between two rounds."""
        before, self._last = self._last, one
        state = one.level.get("physical_state")
        if state is None:
            return
        stated = ~np.isnan(state)
        down = set(_keys(one, np.flatnonzero(stated & (state != float(PhysState.LINK_UP)))))
        came = self._recovered(one, stated & (state == float(PhysState.LINK_UP)))
        went = sorted(down - self._down)
        self._down = (self._down | down) - set(came)
        self._now_down = down
        self._add(went, lambda key: _port(at_s, key, name, "warning", "link went down"))
        self._add(came, lambda key: _port(at_s, key, name, "info", "link is up again"))
        if before is None:  # rounds begin with ports that are up, so even the first round shows ports that went down
            return
        moved = {*went, *came}
        rates = [
            (key, then, now)
            for (r, then, now) in _rates(before, one)
            if (key := _keys(one, np.array([r]))[0]) not in moved
        ]
        self._add(
            rates,
            lambda r: _port(
                at_s, r[0], name, "warning" if r[2] < r[1] else "info", f"rate {r[1]:g} Gb/s before, {r[2]:g} Gb/s now"
            ),
        )
        fell = one.increase.get("link_downed_counter", np.zeros(len(one.guid), np.uint64))
        rows = np.flatnonzero(fell)
        flaps = [(key, n) for key, n in zip(_keys(one, rows), fell[rows].tolist(), strict=True) if key not in moved]
        self._add(
            flaps,
            lambda f: _port(
                at_s,
                f[0],
                name,
                "warning",
                f"link went down and came up {'once' if f[1] == 1 else f'{f[1]} times'} since the round before",
            ),
        )

    def cables(self, before: Snapshot, now: Snapshot, name: Callable[[int], str], at_s: float) -> None:
        """Record changes of cables whose ports no round reads, so that only readings of the whole fabric show them:
        cables of a dead device, and cables that were down before the first round.
        """
        if before is now:
            return
        old = cables_of(before.fabric) - before.down.keys()
        here = cables_of(now.fabric) - now.down.keys()
        went = {end for cable in old - here for end in cable if end[0] not in now.removed} - self._down
        linked = {end for cable in here for end in cable}
        came = {end for end in linked if end in self._down and end not in self._now_down}
        cabled = {end for cable in cables_of(before.fabric) for end in cable}
        new = {end for cable in here - old for end in cable if end not in cabled and end[0] in _guids(before)}
        went -= linked
        self._down = (self._down | went) - came
        self._add(sorted(went), lambda key: _port(at_s, key, name, "warning", "link went down"))
        self._add(sorted(came), lambda key: _port(at_s, key, name, "info", "link is up again"))
        self._add(sorted(new - came), lambda key: _port(at_s, key, name, "info", "link is up"))

    def _recovered(self, one: Interval, up: np.ndarray) -> list[tuple[int, int]]:
        """Return ports that were down and are ``up`` (bool[n]), in the order of their GUIDs."""
        if not self._down or not len(one.guid):
            return []
        keys = sorted(self._down)
        guid, portnum = np.array([g for g, _ in keys], np.uint64), np.array([p for _, p in keys], np.int32)
        at, there = same_ports(guid, portnum, one.guid, one.portnum)
        return [keys[i] for i in np.flatnonzero(there & up[at]).tolist()]

    def manager(self, watch: ManagerWatch, at_s: float) -> None:
        """Record traps and sweeps of a running fabric, and its managers."""
        raised = {trap: n for trap, n in watch.reported.get("traps", {}).items() if trap.startswith("trap_")}
        for trap, n in raised.items():
            times_more = n - self._counts.get(trap, 0)
            if times_more > 0 and self._counts:
                number = trap.removeprefix("trap_")
                about = TRAPS.get(int(number), "") if number.isdecimal() else ""
                times = f", {times_more} times" if times_more > 1 else ""
                self.add(Event(at_s, "trap", "info", f"trap {number}{f' ({about})' if about else ''}{times}"))
        sm = watch.reported.get("sm", {})
        sweeps, report = sm.get("sweeps"), sm.get("report", {})
        if isinstance(sweeps, int):
            if self._counts and sweeps > self._counts.get("sweeps", sweeps):
                took = sum((report.get("phase_s") or {}).values())
                about = (
                    f": {took:.2f} s, {report.get('sent', 0):,} MADs, {report.get('sets', 0):,} Sets" if took else ""
                )
                self.add(Event(at_s, "sweep", "info", f"sweep {sweeps} of the subnet manager{about}"))
            raised["sweeps"] = sweeps
        if watch.reported:
            self._counts = {"": 0, **raised}
        self._managers(watch, at_s)

    def _managers(self, watch: ManagerWatch, at_s: float) -> None:
        now = {
            guid: f"{m.state}{'' if m.answers else ', does not answer'}{', stalled' if m.stalled else ''}"
            for guid, m in list(watch.managers.items())
        }
        if self._masters:
            for guid, state in now.items():
                was = self._masters.get(guid, "not there")
                severity = "info" if state in ("MASTER", "STANDBY") else "warning"
                if was != state:
                    text = f"subnet manager at port {guid:#018x}: {was} before, {state} now"
                    self.add(Event(at_s, "manager", severity, text))
        self._masters = now

    def findings(self, before: Iterable[Finding], now: Iterable[Finding], at_s: float) -> None:
        """Record findings that appeared, and findings that disappeared."""
        old, new = ({_about(f): f for f in some} for some in (before, now))
        came, went = ([f for key, f in some.items() if key not in rest] for some, rest in ((new, old), (old, new)))
        self._add(came, lambda f: _finding(at_s, f, f.severity.name.lower(), ""))
        self._add(went, lambda f: _finding(at_s, f, "info", "no longer: "))

    def nodes(self, before: Snapshot | None, now: Snapshot, at_s: float) -> None:
        """Record nodes that are missing in a reading, and nodes that are back or new."""
        if before is None or before is now:
            return
        before_guids, f = set(before.fabric.node_guid.tolist()), now.fabric
        rows = {g: i for i, g in enumerate(f.node_guid.tolist())}
        removed = [g for g in now.removed if g not in before.removed]
        back = [g for g in before.removed if g not in now.removed and g in rows]
        new = [g for g in rows if g not in before_guids] if len(rows) != len(before_guids) else []

        def event(severity: str, change: str) -> Callable[[int], Event]:
            def of(guid: int) -> Event:
                name = f.node_name(rows[guid]) if guid in rows else f"{guid:#018x}"
                return Event(at_s, "node", severity, f"{name} {change}", name, f"{guid:#018x}")

            return of

        self._add(removed, event("warning", "is gone"))
        self._add(back, event("info", "is there again"))
        self._add(new, event("info", "is new"))


def _guids(one: Snapshot) -> set[int]:
    return set(one.fabric.node_guid.tolist())


def _keys(one: Interval, rows: np.ndarray) -> list[tuple[int, int]]:
    """Return NodeGUID and portnum of ``rows``."""
    return list(zip(one.guid[rows].tolist(), one.portnum[rows].tolist(), strict=True))


def _rates(before: Interval, one: Interval) -> list[tuple[int, float, float]]:
    """Return (row, previous rate, present rate) of ports whose rate changed; both rates are known and above 0."""
    name = "rate_gbps"
    if name not in before.level or name not in one.level or not len(before.guid):
        return []
    at, there = same_ports(one.guid, one.portnum, before.guid, before.portnum)
    then, now = before.level[name][at], one.level[name]
    rows = np.flatnonzero(there & (then > 0) & (now > 0) & (then != now)).tolist()
    return [(r, float(then[r]), float(now[r])) for r in rows]


def _port(at_s: float, key: tuple[int, int], name: Callable[[int], str], severity: str, text: str) -> Event:
    guid, portnum = key
    return Event(at_s, "port", severity, f"{name(guid)}[{portnum}]: {text}", name(guid), f"{guid:#018x}", portnum)


def _about(f: Finding) -> tuple[str, frozenset[tuple[int, int | None]]]:
    """Return an identifier of a finding: its code and its ends, regardless of their order. For a finding about many
    ports it is only the code, because the ports change. All findings that a cable is down have the same identifier."""
    if (cable := says_down(f)) is not None:
        return "down", frozenset(cable)
    ends = frozenset((place.guid, place.portnum) for place in f.where)
    return f.code, ends if len(ends) <= 2 else frozenset()


def _finding(at_s: float, f: Finding, severity: str, before: str) -> Event:
    where = f.where[0] if f.where else None
    place = (None, None, None) if where is None else (where.node, f"{where.guid:#018x}", where.portnum)
    return Event(at_s, "finding", severity, f"{before}{f.message}", *place)
