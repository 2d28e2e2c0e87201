"""Metrics about the findings of the rules over the last twenty minutes, each with its start and its number of
recurrences. Findings that a down device or cable explains are left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from softib.diags.cable_rules.judge import judge
from softib.diags.finding import Finding, Severity
from softib.diags.observations import ForwardingTables, Observations, ObservedPorts
from softib.monitor.exporter.labels import escaped, hca_name
from softib.monitor.exporter.names import FINDINGS, Metric
from softib.monitor.judged_window import JUDGED_S, JudgedWindow
from softib.monitor.latest_tables import JobsCrossing
from softib.monitor.ledger import Ledger, ledger_of
from softib.monitor.reading import Reading
from softib.monitor.seen_ports import SeenPort, SeenPorts, names_cable

__all__ = ["StandingFindings"]

SHARE = 0.1
"""Largest share of the time that is spent on applying the rules."""
DOWN_S = 60.0
"""Time for which a link must be down to explain other findings about its cable."""
SETTLES_S = 120.0
"""Time after a repair during which new counts are attributed to the old fault or to the repair itself."""
WAIT = "port_xmit_wait"
Tables = Callable[[ObservedPorts], ForwardingTables | None]
Row = tuple[str, tuple[str, ...], list[str]]


class StandingFindings:
    """Current findings of an exporter. ``memory``: file of its observations (None: none);
    ``tables`` reads the forwarding tables, which the rules need only if data waits at ports."""

    def __init__(
        self,
        memory: Path | None,
        keep_s: float,
        notice: Callable[[str], None],
        tables: Tables = lambda ports: None,
    ):
        self.ledger = Ledger(None if memory is None else ledger_of(memory), keep_s, notice)
        self.judged_s = 0.0
        """Time at which the rules were last applied, in seconds since 1970; 0: not yet."""
        self._window = JudgedWindow()
        self._tables = tables
        self.jobs: JobsCrossing | None = None
        """Jobs whose traffic uses each cable, if a file of jobs was given."""
        self._began_s = time.time()
        self._due_s = float("-inf")

    def step(self, reading: Reading, ports: ObservedPorts, seen: SeenPorts) -> bytes:
        """Add one round, apply the rules if they are due, and return the text of all current findings."""
        self._window.add(reading, ports)
        began = time.monotonic()
        if began >= self._due_s:
            now_s = time.time()
            self.ledger.refresh()
            rows = [
                self._row(f, seen) for f in self._found(seen) if _of_shard(f, seen) and not self._over(f, seen, now_s)
            ]
            # After a restart, findings recorded earlier stay current until this exporter has observed for a whole
            # window (JUDGED_S).
            holds_s = JUDGED_S if now_s - self._began_s < JUDGED_S else 0.0
            self.ledger.step(rows, now_s, holds_s)
            self.judged_s = now_s
            self._due_s = time.monotonic() + (time.monotonic() - began) / SHARE
        return self._text(time.time(), seen)

    def _found(self, seen_ports: SeenPorts) -> list[Finding]:
        seen = self._window.observations
        if seen is None:
            return []
        if self.jobs is not None:
            self.jobs.follow(seen.ports)
        if (
            seen_ports.shard is not None
        ):  # the cause of waiting may be in another shard, so a single shard does not examine waiting ports
            seen = replace(seen, increase=_without_waits(seen.increase), known=_without_waits(seen.known))
        return judge(seen, self._tables(seen.ports) if _waits(seen) else None, None, self.jobs)

    def _over(self, f: Finding, seen: SeenPorts, now_s: float) -> bool:
        """Return whether the finding is hidden: it has no location, all its locations are down, its other end does not
        answer, or it was repaired after its counts."""
        if not f.where and f.severity < Severity.WARNING:
            return True
        fault = self.ledger.faults.get(_key(f))
        if fault is not None and f.evidence.get("last_ns", 2**63) / 1e9 < fault.repaired_s + SETTLES_S:
            return True
        if len(f.evidence.get("falls", ())) == 1 and any(p.guid not in seen.up for p in f.where):
            return True  # the other end does not answer, which explains failures of the link
        return bool(f.where) and all(_down(seen, p.guid, p.portnum, now_s) for p in f.where)

    def _row(self, f: Finding, seen: SeenPorts) -> Row:
        first = f.where[0] if f.where else None
        names = tuple(dict.fromkeys(str(p) for p in f.where[:2]))
        labels = [f.code, f.severity.name.lower(), "", "", "", "", "", ""]
        if first is not None:
            one = seen.ports.get((first.guid, first.portnum or 0))
            other = None if one is None or one.peer is None else seen.ports.get(one.peer)
            labels[2:5] = [
                _guid(seen, one, first.guid),
                "" if first.portnum is None else str(first.portnum),
                first.node,
            ]
            if other is not None:
                labels[5:8] = [other.port_guid, hca_name(other.node), str(other.key[1])]
        fault = self.ledger.faults.get(_key(f))
        for old in fault.series if fault is not None and fault.standing is not None else ():
            if old[0] == f.code and [old[2], old[3]] == [labels[5], labels[7]]:
                labels[2:8] = old[2:8]  # keep the end that named the cable first, so that its alert continues
        return _key(f), names, [*labels, ",".join(f.evidence.get("jobs", ()))]

    def _text(self, now_s: float, seen: SeenPorts) -> bytes:
        finding, first, episodes = ([_head(m)] for m in FINDINGS)
        for fault in self.ledger.faults.values():
            standing = fault.standing
            if standing is None or self._explained(fault.key, seen, now_s):
                continue
            for labels in fault.series:
                finding.append(_line(FINDINGS[0], labels, 1))
                short = [labels[0], *labels[2:5]]
                first.append(_line(FINDINGS[1], short, round(standing.first_s, 3)))
                episodes.append(_line(FINDINGS[2], short, fault.times(now_s)))
        return "".join((*finding, *first, *episodes)).encode()

    def _explained(self, key: str, seen: SeenPorts, now_s: float) -> bool:
        locations = list(_locations(key))
        return bool(locations) and all(_down(seen, guid, portnum, now_s) for guid, portnum in locations)


def _of_shard(f: Finding, seen: SeenPorts) -> bool:
    """Return whether the finding belongs to this shard. A finding about a cable belongs to the shard of the end after
    which the cable is named, so that only one of the two shards that read the ends reports it. Any other finding
    belongs to the shard of its first device."""
    if seen.shard is None:
        return True
    guid = min((p.guid for p in f.where), default=None)
    if len(f.where) in (1, 2) and f.where[0].portnum is not None:
        port = seen.ports.get((f.where[0].guid, f.where[0].portnum))
        other = None if port is None or port.peer is None else seen.ports.get(port.peer)
        if port is not None and other is not None:
            guid = port.key[0] if names_cable(port, other) else other.key[0]
    return seen.shard.number == 1 if guid is None else bool(seen.shard.holds(np.array([guid], np.uint64))[0])


def _without_waits(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: column for name, column in columns.items() if name != WAIT}


def _waits(seen: Observations) -> bool:
    return WAIT in seen.increase and bool(seen.increase[WAIT].any())


def _key(f: Finding) -> str:
    """Return the key of a finding: its cable (regardless of the order of the ends) or its device; if it has more
    locations, its code and the first location."""
    locations = sorted({(p.guid, -1 if p.portnum is None else p.portnum) for p in f.where})
    if not 1 <= len(locations) <= 2:
        locations = locations[:1]
    text = " ".join(f"{guid:#x}:{portnum}" for guid, portnum in locations)
    return text if 1 <= len(f.where) <= 2 else f"{f.code} {text}"


def _locations(key: str) -> Iterator[tuple[int, int | None]]:
    """Yield the locations of a key for one cable or device."""
    for word in key.split(" "):
        guid, mark, portnum = word.partition(":")
        if not mark or not guid.startswith("0x"):
            return
        yield int(guid, 16), None if portnum == "-1" else int(portnum)


def _down(seen: SeenPorts, guid: int, portnum: int | None, now_s: float) -> bool:
    """Return whether the device, or the port's link, has been down for long enough."""
    if portnum is None:
        return guid not in seen.up
    port = seen.ports.get((guid, portnum))
    if port is None:
        return False
    return guid not in seen.up or (port.down_since is not None and now_s - port.down_since >= DOWN_S)


def _guid(seen: SeenPorts, port: SeenPort | None, guid: int) -> str:
    if port is not None:
        return port.port_guid
    return next((p.port_guid for p in seen.ports.values() if p.key[0] == guid), f"{guid:#018x}")


def _head(metric: Metric) -> str:
    return f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"


def _line(metric: Metric, values: list[str], value: float) -> str:
    labels = ",".join(f'{name}="{escaped(v)}"' for name, v in zip(metric.labels, values, strict=True))
    return f"{metric.name}{{{labels}}} {value}\n"
