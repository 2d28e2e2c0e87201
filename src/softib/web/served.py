"""The fabric that the browser shows: one thread reads it repeatedly, and records its changes, its problems, and the
activity of its ports. Requests use the data of the last round."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from softib.analysis.pipeline import checked
from softib.diags.observations import Observations
from softib.errors import InputError, SoftibError
from softib.fabric.formats.base import ReadResult
from softib.fabric.model import Fabric
from softib.fabric.subnets import mark_internal
from softib.iba.constants import PhysState
from softib.live.clock import SteadyClock
from softib.monitor.intervals import Interval
from softib.web.collector import Collector, cables_mark, tables_mark
from softib.web.earlier import Earlier, counter_findings
from softib.web.events import Events, says_down
from softib.web.jobs_on_map import JobsOnMap
from softib.web.map_layout import map_of
from softib.web.now import Now
from softib.web.past import Past
from softib.web.past_server import PastServer
from softib.web.ports_seen import PortsSeen
from softib.web.rates import Recent, Sample, sample_of
from softib.web.remembered import Remembered

__all__ = ["Served"]

KEEP, KEEP_OCTETS = 300, 200 << 20
"""Maximum number of stored samples: ten minutes at the default interval of two seconds. On large fabrics fewer are
stored, to limit memory."""
REREAD_S = 60.0
RECHECK_S = 60.0
"""Time in seconds after which the cables and tables are checked again, even if there was no change."""
JUDGE_S = 10.0
"""The minimum time between two runs of the rules over counters."""


@dataclass
class Served:
    """Either ``read`` (for a source that does not change) or ``collector`` (for a source that changes) is given. Only
    one thread may call :meth:`refresh`; any thread may call the other methods.

    ``name`` is for display; ``explain`` returns the path of packets, and the reason; ``jobs``: a file of jobs;
    ``past``: the history of earlier days; ``report`` makes the page of ``softib report --html`` (None: there is none);
    ``labs`` makes the page of a laboratory (None: the list of all) from its number and the fields of its form;
    ``stated`` reads the data of ports from a file. ``steps`` wraps each phase of the first reading,
    which takes a while on a large fabric.
    """

    name: str
    read: Callable[[], ReadResult] | None = None
    collector: Collector | None = None
    explain: Callable[[Fabric, str, str], dict[str, object]] | None = None
    every_s: float = 2.0
    jobs: str | None = None
    past: Past | PastServer | None = None
    report: Callable[[], str] | None = None
    labs: Callable[[int | None, Mapping[str, str]], str] | None = None
    stated: Callable[[ReadResult], PortsSeen] | None = None
    keep: int = KEEP
    clock: Callable[[], float] = field(default_factory=lambda: SteadyClock().seconds)
    steps: Callable[[str], AbstractContextManager[None]] = lambda phase: nullcontext()
    recent: Recent = field(init=False)
    events: Events = field(default_factory=Events, init=False)
    _earlier: Earlier = field(init=False)
    _now: Now | None = field(default=None, init=False)
    _remembered: Remembered = field(default_factory=Remembered, init=False)
    _marks: tuple[bytes, bytes] = field(default=(b"", b""), init=False)
    _checked_s: float = field(default=float("-inf"), init=False)
    _judged_s: float = field(default=float("-inf"), init=False)
    _over: Observations | None = field(default=None, init=False)
    _jobs_of: tuple[int, float] = field(default=(-1, -1.0), init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _rounds: threading.Condition = field(default_factory=threading.Condition, init=False)
    _begun: int = field(default=0, init=False)
    _read: int = field(default=0, init=False)
    _wanted: int = field(default=0, init=False)
    """Numbers of rounds of :meth:`run`: begun, read, and the number for which :meth:`reread` waits."""

    def __post_init__(self) -> None:
        self.recent = Recent(self.keep)
        self._earlier = Earlier(self)

    @property
    def now(self) -> Now:
        """The present state; the first reading is made here if there is none."""
        if self._now is None:
            self.refresh()
        assert self._now is not None
        return self._now

    @property
    def knows_paths(self) -> bool:
        """Return whether :attr:`explain` can answer. softib routes the fabric of a file if necessary; a running fabric
        needs forwarding tables in its switches.
        """
        return self.explain is not None and (self.collector is None or "lfts" in self.now.fabric.source.records)

    def fabric(self) -> Fabric | None:
        """Return the fabric as last read; None before the first reading."""
        return None if self._now is None else self._now.fabric

    @property
    def age_s(self) -> float:
        """Return the seconds since the last round."""
        return max(0.0, self.clock() - self.now.time_s)

    @property
    def stale(self) -> bool:
        """Return whether a changing source is read less often than intended."""
        return self.collector is not None and (bool(self.now.problem) or self.age_s > max(10.0, 3 * self.every_s))

    def sample(self, at_s: float | None) -> Sample | None:
        """Return the activity of ports at the stored time nearest to ``at_s``; None: the last sample."""
        one = self.recent.at(at_s)
        if self.past is None or (at_s is None and one is not None):
            return one
        began = self.recent.times()[0] if self.recent.samples else float("inf")
        if at_s is not None and at_s >= began:
            return one
        try:
            times = self.past.times()
        except SoftibError:
            if at_s is not None:
                raise
            times = []
        return self.past.at(times[-1] if at_s is None else at_s) if times else one

    def then(self, at_s: float | None) -> Now:
        """Return the state at a stored time; None: now. Raises :class:`SoftibError` if the history
        does not answer."""
        return self._earlier.at(at_s)

    def result(self) -> ReadResult:
        """Return a copy of the last reading, which can be brought up and routed."""
        now = self.now
        return replace(self._result, fabric=now.fabric.copy())

    def refresh(self, whole: bool = False) -> Now:
        """Read a changing source for one round, or another source completely; with ``whole``, also read the cables and
        tables. The first call raises the errors of the reader. Later calls keep the previous state after an error and
        report the reason.
        """
        before = self._now
        try:
            if self.collector is None:
                assert self.read is not None
                if self._now is None:
                    self._take(self.read(), self.clock())
            else:
                self._round(self.collector, whole)
            self._with_jobs()
        except SoftibError as error:
            if self._now is None:
                raise
            self._now = replace(self._now, problem=str(error))
        assert self._now is not None
        if before is not None:
            self._now = self._standing(before, self._now)
        self._happened(before, self._now)
        self._earlier.remember(self._now)
        return self._now

    @staticmethod
    def _standing(before: Now, now: Now) -> Now:
        """Return ``now`` with the findings of ``before`` that are still valid. If the findings are the same as before,
        use the same objects.
        """
        if now.seen is before.seen and (now.rules, now.checks) == (before.rules, before.checks):
            now = replace(now, standing=before.standing)
            now.__dict__["findings"] = before.findings  # the same objects until a change
            return now
        now = replace(now, standing=tuple(f for f in before.findings if says_down(f) is not None))
        standing = (before.findings, before.seen.down, before.seen.removed)
        if standing != (now.findings, now.seen.down, now.seen.removed) and now.version == before.version:
            now = replace(now, version=now.version + 1)
        return now

    def _happened(self, before: Now | None, now: Now) -> None:
        """Record the events between two refreshes."""
        if before is None or self.collector is None:
            return
        at = self.clock()
        if before.problem != now.problem:
            self.events.source(now.problem, at)
        self.events.nodes(before.seen, now.seen, at)
        self.events.cables(before.seen, now.seen, self._name, at)
        self.events.findings(before.findings, now.findings, at)

    def _step(self, phase: str) -> AbstractContextManager[None]:
        return self.steps(phase) if self._now is None else nullcontext()

    def _round(self, collector: Collector, whole: bool) -> None:
        with self._step("ports and counters"):
            one = collector.step()
        assert collector.watch is not None and collector.watch.round is not None
        at, reading = self.clock(), collector.watch.round.reading
        if reread := self._now is None or whole or collector.due():
            with self._step("cables and tables"):
                result = collector.read()
            self._take(result, at)
        assert self._now is not None
        if one is not None:
            sample = sample_of(one)
            ports = len(sample.guid)
            if self.recent.samples.maxlen != (keep := max(10, min(self.keep, KEEP_OCTETS // max(1, 18 * ports)))):
                self.recent, old = Recent(keep), self.recent
                self.recent.samples.extend(old.samples)
            self.recent.add(replace(sample, time_s=at))
            self._down(one, at)
            self.events.ports(one, self._name, at)
        self.events.manager(collector.watch.manager, at)
        if (reread or at - self._judged_s > JUDGE_S) and (seen := collector.observations) is not None:
            self._judged_s, self._over = at, seen
        stated = PortsSeen(collector.watch.ports, reading, self._over)
        self._now = replace(
            self._now,
            time_s=at,
            reading=reading,
            problem="",
            seen=self._remembered.now or self._now.seen,
            stated=lambda: stated,
        )
        if self._judged_s == at and self._over is not None:
            rules = tuple(counter_findings(self._now.fabric, self._over, self._now.jobs))
            if rules != self._now.rules:
                self._now = replace(self._now, rules=rules, version=self._now.version + 1)

    def _name(self, guid: int) -> str:
        """Return the name of a node on the map, by NodeGUID."""
        assert self._now is not None
        row = np.flatnonzero(self._now.seen.fabric.node_guid == np.uint64(guid))
        return self._now.names[int(row[0])] if len(row) else f"{guid:#018x}"

    def _down(self, one: Interval, at_s: float) -> None:
        """Record ports whose links are down according to the round."""
        state = one.level.get("physical_state")
        if state is None:
            return
        rows = np.flatnonzero(~np.isnan(state) & (state != float(PhysState.LINK_UP)))
        self._remembered.links_down({(int(one.guid[r]), int(one.portnum[r])) for r in rows.tolist()}, at_s)

    def _take(self, result: ReadResult, at: float) -> None:
        fabric, last = result.fabric, self._now
        marks = cables_mark(fabric), tables_mark(fabric)
        if last is None and isinstance(self.past, Past) and self.collector is not None:
            kept = self.past.maps.at(at)
            if kept is not None and np.isin(kept.seen.fabric.node_guid, fabric.node_guid).any():
                self._remembered.begin(kept.seen)
        redraw = self._remembered.take(fabric, at)
        seen = self._remembered.now
        assert seen is not None
        version, drawn = (0, 0) if last is None else (last.version, last.drawn)
        drawn_map = map_of(seen.fabric) if last is None or redraw else last.map
        changed = last is None or marks != self._marks
        self._marks = marks
        stated = self._stated_of(result)
        now = Now(fabric, seen, drawn_map, version + changed, drawn + (last is None or redraw), at, stated=stated)
        if last is not None:
            jobs = last.jobs if last.jobs is None or not redraw else last.jobs.on(seen.fabric, drawn_map)
            now = replace(
                now, checks=last.checks, rules=last.rules, reading=last.reading, jobs=jobs, stated=last.stated
            )
        if changed or at - self._checked_s > RECHECK_S:
            self._checked_s = at
            copy = replace(result, fabric=fabric.copy())  # the check brings up the copy if the fabric is not up
            if self.collector is not None and (watch := self.collector.watch) is not None:
                of = copy.fabric.source
                sms = mark_internal(of.sms, copy.fabric, watch.manager.reported)
                copy.fabric.source = replace(of, sms=sms)  # as in `softib check` of the same fabric
            with self._step("checks"):
                checks = tuple(checked(self.name, copy).findings)
            if checks != now.checks:
                now = replace(now, checks=checks, version=now.version + 1)
        self._now, self._result = now, result

    def _stated_of(self, result: ReadResult) -> Callable[[], PortsSeen | None]:
        """Return a function that reads the data of ports in a file. The file is read only once."""
        stated = self.stated
        if stated is None:
            return lambda: None
        return cache(lambda: stated(result))

    def _with_jobs(self) -> None:
        """Find the links of the jobs again if the fabric or the file changed. A file that cannot be
        read is a problem of this round; the previous jobs stay."""
        if self.jobs is None or self._now is None:
            return
        when = JobsOnMap.stamp(self.jobs)
        if self._now.jobs is not None and self._jobs_of == (self._now.drawn, when):
            return
        jobs = JobsOnMap.of(self.jobs, self.result(), self._now.seen.fabric, self._now.map)
        self._jobs_of = self._now.drawn, when
        self._now = replace(self._now, jobs=jobs, version=self._now.version + 1)

    def run(self) -> None:
        """Refresh every ``every_s`` seconds until :meth:`stop`, and reconnect to a lost source."""
        while (self.collector is not None or self.jobs is not None) and not self._stop.is_set():
            began = time.monotonic()
            if self._rest(self.every_s):
                break
            with self._rounds:
                self._begun += 1
                wanted = self._wanted == self._begun
            with contextlib.suppress(InputError):
                self.refresh(wanted)
            with self._rounds:
                self._read = self._begun
                self._rounds.notify_all()
            # If a round takes long, the next one does not start immediately after it.
            self._rest(min(60.0, max(0.0, (time.monotonic() - began - self.every_s) * 0.5)))

    def _rest(self, seconds: float) -> bool:
        """Wait, unless a reading is requested. Return whether :meth:`run` ends."""
        with self._rounds:
            self._rounds.wait_for(lambda: self._stop.is_set() or self._wanted > self._begun, seconds)
        return self._stop.is_set()

    def reread(self) -> None:
        """Wait for a whole reading that begins after this call, so that the next request sees the
        client's last change. Without :meth:`run`, or if no reading ends within a minute, the state stays as it is."""
        with self._rounds:
            if self.collector is None or self._stop.is_set():
                return
            number = self._wanted = self._begun + 1
            self._rounds.notify_all()
            self._rounds.wait_for(lambda: self._stop.is_set() or self._read >= number, REREAD_S)

    def stop(self) -> None:
        """End :meth:`run`."""
        with self._rounds:
            self._stop.set()
            self._rounds.notify_all()

    def close(self) -> None:
        """Close the source."""
        if self.collector is not None:
            self.collector.close()
