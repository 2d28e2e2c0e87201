"""The state at an earlier time: map, findings and jobs. While the server runs, it stores each change. For times before
its start, findings are computed from the history on request.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from softib.analysis.jobs.files import ScheduledJob, read_jobs
from softib.analysis.pipeline import checked
from softib.diags.finding import Finding
from softib.errors import SoftibError
from softib.fabric.formats.base import ReadResult
from softib.web.jobs_on_map import JobsOnMap
from softib.web.map_layout import Map
from softib.web.past import PastMap
from softib.web.ports_seen import PortsSeen
from softib.web.remembered import Snapshot, cables_of

if TYPE_CHECKING:
    from softib.web.now import Now
    from softib.web.served import Served
from softib.analysis.observed_fabric import with_bisection
from softib.diags.cable_rules.judge import judge
from softib.diags.observations import Observations, tables_of
from softib.fabric.model import Fabric

__all__ = ["Earlier", "counter_findings"]


def counter_findings(fabric: Fabric, seen: Observations, jobs: JobsOnMap | None) -> list[Finding]:
    """Return the findings of the rules over ``seen``, which follow waiting ports through the tables of ``fabric``,
    with the jobs that cross each finding."""
    tables = tables_of(fabric, seen.ports) if "lfts" in fabric.source.records else None
    return with_bisection(fabric, judge(seen, tables, None, None if jobs is None else jobs.links.crossing))


MOST_CHANGES, PORTS = 300, 2_000_000
"""Maximum number of stored changes, and maximum total number of ports in them (a map takes about 200 bytes per port).
At least eight changes are stored even on large fabrics.
"""
JUDGED = 16
"""Number of earlier times whose findings are kept in memory."""


@dataclass(frozen=True)
class _Change:
    """A state that is valid from ``time_s`` until the next change."""

    time_s: float
    seen: Snapshot
    map: Map
    drawn: int
    checks: tuple[Finding, ...]
    rules: tuple[Finding, ...]
    standing: tuple[Finding, ...]
    jobs: JobsOnMap | None

    def same(self, now: Now) -> bool:
        """Return whether the present state is the same as at this change."""
        kept = (self.seen.down, self.seen.removed, self.drawn, self.checks, self.rules, self.standing)
        then = (now.seen.down, now.seen.removed, now.drawn, now.checks, now.rules, now.standing)
        return self.jobs is now.jobs and kept == then


class Earlier:
    """The earlier states of one :class:`~softib.web.served.Served`. Only the thread that refreshes it calls
    :meth:`remember`; any thread may call :meth:`at`.
    """

    def __init__(self, served: Served):
        self.served = served
        self._changes: deque[_Change] = deque(maxlen=MOST_CHANGES)
        self._lock = threading.Lock()
        self._judged: OrderedDict[tuple[float, int], Now] = OrderedDict()
        self._links: OrderedDict[tuple[tuple[ScheduledJob, ...], int], JobsOnMap] = OrderedDict()

    def remember(self, now: Now) -> None:
        """Store ``now`` if it differs from the last stored state."""
        if self._changes and self._changes[-1].same(now):
            return
        most = max(8, min(MOST_CHANGES, PORTS // max(1, now.seen.fabric.sizes.ports)))
        if self._changes.maxlen != most:
            self._changes = deque(self._changes, maxlen=most)
        self._changes.append(
            _Change(now.time_s, now.seen, now.map, now.drawn, now.checks, now.rules, now.standing, now.jobs)
        )

    def at(self, at_s: float | None) -> Now:
        """Return the state at a clock time; None: now. Raises :class:`SoftibError` if the history cannot be read."""
        served, now = self.served, self.served.now
        began = served.recent.times()[0] if served.recent.samples else now.time_s
        if at_s is None or (served.past is None and served.collector is None):
            return now
        if served.past is not None and at_s < began:
            kept = served.past.maps.at(at_s)
            if kept is not None:
                with self._lock:  # evaluate each time only once
                    return self._before(at_s, kept, now)
        changes = list(self._changes)
        one = next((c for c in reversed(changes) if c.time_s <= at_s), changes[0] if changes else None)
        if one is None or one is changes[-1]:
            return now
        return replace(
            now,
            seen=one.seen,
            map=one.map,
            drawn=one.drawn,
            time_s=at_s,
            checks=one.checks,
            rules=one.rules,
            standing=one.standing,
            jobs=one.jobs,
            reading=None,
            stated=lambda: None,
        )

    def _before(self, at_s: float, then: PastMap, now: Now) -> Now:
        """Return the state according to the history, with the cables checked and the counters evaluated."""
        stamp = -1.0 if self.served.jobs is None else JobsOnMap.stamp(self.served.jobs)
        key = at_s, hash((now.drawn, stamp))
        if key not in self._judged:
            jobs, problem = self._jobs(at_s, then, now)
            past = self.served.past
            assert past is not None
            # Tables are not stored; the present tables are used if the cables were the same as now.
            same = cables_of(then.fabric) == cables_of(now.fabric)
            seen = past.observations(at_s)
            rules = () if seen is None else tuple(counter_findings(now.fabric if same else then.fabric, seen, jobs))
            copy = ReadResult(then.fabric.copy(), [], "history")
            checks = tuple(checked(self.served.name, copy).findings)
            self._judged[key] = replace(
                now,
                fabric=then.fabric,
                seen=then.seen,
                map=then.map,
                drawn=then.drawn,
                time_s=at_s,
                checks=checks,
                rules=rules,
                standing=(),
                jobs=jobs,
                problem=problem or now.problem,
                reading=None,
                stated=lambda: None if seen is None else PortsSeen(seen.ports, None, seen),
            )
        self._judged.move_to_end(key)
        while len(self._judged) > JUDGED:
            self._judged.popitem(last=False)
        return self._judged[key]

    def _jobs(self, at_s: float, then: PastMap, now: Now) -> tuple[JobsOnMap | None, str]:
        """Return the jobs of the file that ran at that time, on links according to the present tables, and the
        reason if these are unknown."""
        if self.served.jobs is None or now.jobs is None:
            return None, ""
        try:
            stated = tuple(read_jobs(self.served.jobs, at_s))
        except SoftibError as error:
            return None, str(error)
        key = stated, now.drawn
        if key not in self._links:
            self._links[key] = JobsOnMap.placed(stated, self.served.result(), now.seen.fabric, now.map)
            while len(self._links) > JUDGED:
                self._links.popitem(last=False)
        return self._links[key].on(then.seen.fabric, then.map), ""
