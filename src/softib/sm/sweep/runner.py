"""Runs sweeps phase by phase. The next phase begins when all requests of the current one are
answered or abandoned."""

from __future__ import annotations

from dataclasses import dataclass

from softib.mad.smp_requests import RequestQueue
from softib.mad.transactor import NEVER_PS, Transactor
from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.sm.database import Database
from softib.sm.ha.election import SmEvent, SmState, next_state
from softib.sm.ha.handover import Mastership
from softib.sm.sa.path_policy import unmatched
from softib.sm.sweep.phases import PHASES
from softib.sm.sweep.rediscovery import Resume
from softib.sm.sweep.report import PS_PER_S, SweepReport
from softib.sm.sweep.request_window import RequestWindow
from softib.sm.sweep.sweep import Sweep

__all__ = ["Phase", "SweepRunner"]


@dataclass
class Phase:
    """The current activity of the manager: a phase of a sweep, a task between sweeps, or none
    (``name`` is "")."""

    name: str = ""
    since_ps: int = 0

    def enter(self, name: str, now_ps: int) -> None:
        """Begin a task."""
        self.name, self.since_ps = name, now_ps

    def leave(self) -> None:
        """Record that nothing is running."""
        self.name = ""


class SweepRunner:
    """``sweep`` is the current or last sweep, and ``count`` the number of sweeps started. ``graph``
    and ``routing`` are those of the last sweep that computed routes. ``mastership`` holds the state
    of the election."""

    def __init__(self, transactor: Transactor, phase: Phase):
        self.transactor, self.phase = transactor, phase
        self.graph: SwitchGraph | None = None
        self.routing: Routing | None = None
        self.count = 0
        self.drained_ps = NEVER_PS
        """Time at which packets routed with old entries have drained, so that the next stage of
        forwarding tables may begin. NEVER_PS: no stage is waiting."""
        self._ended_well = False

    def connect(self, mastership: Mastership) -> None:
        """Create the parts of the manager that need ``mastership``, before the first sweep."""
        self.mastership, self.schedule = mastership, mastership.schedule
        self.sweep = self._new_sweep()
        self.requests = RequestWindow(self.transactor, self.sweep.queue)

    def _new_sweep(self, master: bool = False) -> Sweep:
        m = self.mastership
        sa, stores, schedule = m.has.sa_manager, m.has.stores, self.schedule
        subnet, resume = sa.subnet, None
        if master and subnet is not None and self._ended_well and not schedule.whole:
            resume = Resume(self.database, schedule.suspects)
        before = subnet.db if subnet is not None else None
        sweep = Sweep(
            config=m.config,
            stores=stores,
            groups=sa.groups,
            election=m.election,
            registered=sa.up_to_date(),
            lids=m.has.lids,
            master=master,
            resume=resume,
            before=before,
        )
        sweep.discovery.answering = frozenset(m.has.silent.answering)
        return sweep

    @property
    def database(self) -> Database:
        """The database of the current or last sweep."""
        return self.sweep.database

    @property
    def report(self) -> SweepReport:
        """Report of the current or last sweep."""
        return self.sweep.report

    @property
    def asking(self) -> bool:
        """Return whether the outstanding requests belong to a sweep."""
        return self.requests.queue is self.sweep.queue

    # -- phases --

    def begin(self, now_ps: int) -> None:
        """Begin a sweep."""
        mastership = self.mastership
        master = mastership.state == SmState.MASTER
        if self.count:
            mastership.state = next_state(mastership.state, SmEvent.TOPOLOGY_CHANGED)
        self.count += 1
        self.sweep = self._new_sweep(master)
        self._ended_well = False
        self.schedule.begun()
        self.requests.begin(self.sweep.queue)
        self._enter(now_ps, PHASES[0])

    def start_over(self, now_ps: int) -> None:
        """Discover the whole subnet, because an incremental discovery contradicted the last
        sweep."""
        self.transactor.abandon()
        self.schedule.whole = True
        self.begin(now_ps)

    def leave_silent(self) -> bool:
        """Return whether discovery waits only for overdue answers over links in INIT. It then
        continues without them, and :class:`SilentPorts` sends these requests again."""
        discovery, t = self.sweep.discovery, self.transactor
        if self.phase.name != PHASES[0] or not t.only_overdue or t.outstanding != discovery.unawaited:
            return False
        t.timeouts += t.outstanding
        t.abandon()
        discovery.leave_silent()
        return True

    def next_phase(self, now_ps: int) -> None:
        """Begin the next phase, because all requests of the current one are answered or
        abandoned."""
        phase, sweep, mastership = self.phase.name, self.sweep, self.mastership
        if phase == "tables" and self._drain(now_ps):
            return
        if phase == "tables" and sweep.more_tables():
            return
        self.report.phase_s[phase] = (now_ps - self.phase.since_ps) / PS_PER_S
        if (
            phase == "managers"
            and mastership.state == SmState.DISCOVERING
            and mastership.election.stands_back(sweep.local_guid)
        ):
            self.phase.leave()
            mastership.stand_back(now_ps)
        elif phase == "managers" and (sweep.discovery.distrusted or sweep.misled):
            self.start_over(now_ps)
        elif phase == "managers" and mastership.leaves_to_rival(now_ps, sweep.local_guid):
            self.give_up()
        elif phase == PHASES[-1] or (self.database.sm_port < 0 and phase != PHASES[0]):
            self._end(now_ps)
        else:
            self._enter(now_ps, next(p for p in PHASES[PHASES.index(phase) + 1 :] if not sweep.idle(p)))

    def _drain(self, now_ps: int) -> bool:
        """Return whether packets routed with old entries are still draining."""
        if not self.sweep.drains:
            self.drained_ps = NEVER_PS
            return False
        if self.drained_ps == NEVER_PS:
            self.drained_ps = now_ps + self.mastership.config.changes.drain_ps
        if now_ps < self.drained_ps:
            return True
        self.drained_ps = NEVER_PS
        return False

    def _enter(self, now_ps: int, phase: str) -> None:
        self.phase.enter(phase, now_ps)
        self.transactor.window = self.sweep.features.window(phase)
        self.sweep.enter(phase)
        self.graph, self.routing = self.sweep.graph or self.graph, self.sweep.routing or self.routing

    # -- end of a sweep --

    def give_up(self) -> None:
        """Abandon the sweep: the subnet cannot be managed, or belongs to another manager."""
        if self.phase.name == "tables":
            self.mastership.has.stores.lft.tables.clear()  # it is unknown which Sets took effect
        self.phase.leave()
        self.drained_ps = NEVER_PS
        self.schedule.sweep = False
        self.transactor.abandon()
        self.requests.queue = RequestQueue(self.database.routes)

    def _end(self, now_ps: int) -> None:
        self.phase.leave()
        sweep, report, mastership, schedule = self.sweep, self.report, self.mastership, self.schedule
        self.requests.count(report)
        sweep.finish(self.requests.queue.built)
        schedule.sweep |= sweep.answers.stale
        schedule.suspects |= sweep.answers.stale_switches | sweep.troubled
        if self.count > 1 and sweep.cut_off:
            mastership.event(now_ps, SmEvent.LOCAL_PORT_DOWN)
            return
        if self.database.sm_port < 0 or sweep.subnet is None:
            return
        self._ended_well = not report.duplicates
        has, config = mastership.has, mastership.config
        has.flapping.fell(sweep.fallen, config.flaps, now_ps)
        report.notes += has.flapping.lines(self.database)
        wrong = {guid for guid, _ in report.wrong_answers}
        has.sa_manager.sa.aliases.blocks(sweep.fresh_ends)
        schedule.swept(now_ps, config, bool(sweep.troubled), wrong)
        has.silent.note(self.database, [port for port, _ in report.silent_ports if port >= 0], now_ps)
        members = sweep.members()
        report.notes += unmatched(sweep.subnet, members)
        mastership.lead(now_ps, sweep.subnet, members, sweep.local_guid)
