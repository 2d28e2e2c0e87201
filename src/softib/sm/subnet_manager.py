"""The subnet manager: MADs in, MADs out, no I/O and no clock.

    sm = SubnetManager(SmConfig(engine="ftree"))
    outbox, deadline_ps = sm.step(now_ps)
    while not sm.settled:
        outbox, deadline_ps = sm.step(now_ps, inbox)

A sweep is a list of phases; each puts requests into the queue when it is entered, the next is entered when all are answered
or given up. The first starts with the first ``step``, another with :meth:`request_sweep`: it looks at everything anew,
keeps LIDs, and sends only what is not as wanted. One that a trap or PortStateChange calls for asks those that said so alone, and what hangs
on them (:mod:`~softib.sm.rediscovery`). Between sweeps the manager runs ``light_sweep``; as a master it is the subnet
administrator too (``sa_manager``).
"""

from __future__ import annotations

import numpy as np

from softib.errors import SoftibError
from softib.iba.constants import SmpAttr
from softib.mad.batch import MadBatch
from softib.mad.smp_requests import RequestQueue
from softib.mad.transactor import NEVER_PS, Transactor
from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.sm.aggregation_mgr import AggregationManager
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.election import Election, SmControl
from softib.sm.lid_mgr import Lids
from softib.sm.light_sweep import LightSweep
from softib.sm.mastership import SWEEPS_IN, Holdings, Mastership
from softib.sm.rediscovery import Resume
from softib.sm.replication.records import Source
from softib.sm.replication.replication import Replication
from softib.sm.report import PS_PER_S, SweepReport
from softib.sm.request_window import RequestWindow
from softib.sm.responder import Responder
from softib.sm.sa_manager import SaManager
from softib.sm.schedule import Schedule
from softib.sm.silent import SilentPorts
from softib.sm.state import SmEvent, SmState, next_state
from softib.sm.stores import Stores
from softib.sm.sweep import PHASES, Sweep

__all__ = ["PHASES", "SubnetManager"]


class SubnetManager:
    """Discovers a subnet, gives LIDs, routes, programs the switches, brings the links up, and administers it.

    Public: ``database`` (what MADs answered), ``report`` (of the current or last sweep), ``state``, ``graph`` and ``routing`` (None
    before the first routing), ``phase`` (name, or "" between sweeps), ``sa_manager`` (subnet administration), ``election``,
    ``lids`` (PortGUID → first and last LID, also of ports that left; fill it before the first step to give known ports theirs).
    """

    def __init__(self, config: SmConfig | None = None):
        config = config or SmConfig()
        self.transactor = Transactor(config.window, config.timeout_ps, config.retries)
        self.sa_manager = sa = SaManager(config)
        self.election = Election(config.priority, config.sm_key)
        self.graph: SwitchGraph | None = None
        self.routing: Routing | None = None
        self.sweeps = 0
        self.phase = ""
        self._phase_since = self._now_ps = 0
        self._ended_well = False
        self._check_master_lid = False
        self._stores = Stores()
        self.lids: Lids = {}
        records = Source(sa.multicast, sa.services, sa.subscriptions, self.lids, self._stores, config)
        self.replication = Replication(records, sa.journal)
        self.silent = SilentPorts(config.window, config.timeout_ps, config.retries)
        self.schedule = Schedule()
        holdings = Holdings(sa, self.replication, self.silent, self._stores, self.lids)
        self._flapping = holdings.flapping
        self._mastership = Mastership(self.election, holdings, self.schedule, self._give_up)
        self._responder = Responder(self._mastership, lambda: self.transactor.sent)
        self._light_sweep = LightSweep(self.election, sa.groups)
        self._sweep = self._new_sweep()
        self._requests = RequestWindow(self.transactor, self._sweep.queue)

    @property
    def config(self) -> SmConfig:
        """Its settings (:meth:`reconfigure` changes them)."""
        return self._mastership.config

    @config.setter
    def config(self, config: SmConfig) -> None:
        self._mastership.config = config

    @property
    def state(self) -> SmState:
        """Of the election (IBA 14.4.1)."""
        return self._mastership.state

    def _new_sweep(self, master: bool = False) -> Sweep:
        subnet = self.sa_manager.subnet
        known = self.sa_manager.known
        resume = None
        if master and subnet is not None and self._ended_well and not self.schedule.whole:
            resume = Resume(self.database, self.schedule.suspects)
        sweep = Sweep(
            self.config, self._stores, self.sa_manager.groups, self.election, known, self.lids, master, resume
        )
        sweep.before = subnet.db if subnet is not None else None
        sweep.discovery.answering = frozenset(self.silent.answering)
        return sweep

    @property
    def database(self) -> Database:
        """What the current or last sweep learned."""
        return self._sweep.database

    @property
    def report(self) -> SweepReport:
        """Of the current or last sweep."""
        return self._sweep.report

    # -- the surface --

    def step(self, now_ps: int, inbox: MadBatch | None = None) -> tuple[MadBatch, int]:
        """Take what arrived; return what shall leave now and the time of the next call if nothing arrives before.

        Raises :class:`~softib.errors.LimitError` when the subnet cannot be managed (too many LIDs, tables too short), and
        whatever a routing engine raises; the sweep is given up then, and :meth:`request_sweep` starts a new one.
        """
        self._now_ps = now_ps
        inbox, replies = self._responder.take(now_ps, inbox, self.database)
        inbox, found = self.silent.answers(now_ps, inbox)
        if found and self.state == SmState.MASTER:
            self.schedule.suspect(found)
        self.transactor.receive(now_ps, inbox)
        try:
            self._take()
            self._advance(now_ps)
        except SoftibError:
            self._give_up()
            raise
        self._requests.fill(self.config.chunk)
        outbox, deadline_ps = self.transactor.send(now_ps)
        if not self.settled and not self.transactor.busy:
            deadline_ps = now_ps  # the next phase: each starts in a step of its own, so that its time is its own
        elif not self.phase:
            deadline_ps = min(deadline_ps, self.schedule.due_ps(self.state, self.config, self.replication.due_ps))
            deadline_ps = min(deadline_ps, self._flapping.due_ps())
        more, sa_ps = self.sa_manager.send(now_ps)
        query, silent_ps = None, NEVER_PS
        if self.silent.ports and not self.phase and self.state == SmState.MASTER:
            query, silent_ps = self.silent.send(self.database, self.config.mkey, now_ps)
        copies, copy_ps = self.replication.send(now_ps, self.state)
        full = [b for b in (copies, *replies, more, outbox, query) if b is not None and len(b)]
        return (MadBatch.concat(full) if full else outbox), min(deadline_ps, sa_ps, silent_ps, copy_ps)

    def request_sweep(self) -> None:
        """Look at the whole subnet again, after the current sweep if there is one. (What traps and switches tell calls for a look at what
        they name.)"""
        self.schedule.call()

    def reconfigure(self, config: SmConfig) -> None:
        """Go on with other settings: a sweep brings the subnet to them. The window, timeouts and keys of the wire stay."""
        self._mastership.config = config
        self.sa_manager.reconfigure(config)
        self.request_sweep()

    @property
    def aggregation(self) -> AggregationManager | None:
        """Gives jobs trees; None where the configuration asks for none."""
        return self._sweep.features.aggregation

    @property
    def settled(self) -> bool:
        """True when nothing is under way or wanted at once: every port that can be is ACTIVE, or another manager is master."""
        return not self.phase and not self._wanted() and not len(self.sa_manager.queue)

    @property
    def patient(self) -> bool:
        """Does a port behind which nobody answered still have tries that any other request has? Nobody waits for them but a caller who asks
        this: one who wants the subnet once and complete."""
        return self.state == SmState.MASTER and self.silent.young

    @property
    def stale(self) -> bool:
        """Did a link change while the current or last sweep looked at it? Another sweep follows."""
        return self._sweep.stale

    @property
    def waiting(self) -> int:
        """Requests of this phase that are not built yet (for progress)."""
        return len(self._requests.queue)

    # -- what to do next --

    def _wanted(self) -> str:
        """The first phase of what shall be done at once, "" for nothing."""
        if self._mastership.ready:
            return "control"
        if self._check_master_lid and self.state == SmState.MASTER and not self.schedule.sweep:
            return "sync"
        if self.state == SmState.STANDBY and self._now_ps >= self.replication.due_ps and self.database.sm_port >= 0:
            return "sync"
        if self.state not in SWEEPS_IN:
            return ""
        if self.schedule.sweep:
            return PHASES[0]
        if self.state == SmState.MASTER and self.sa_manager.subnet is not None:
            if self._flapping.due_ps() <= self._now_ps:
                return "isolate"
            if self.sa_manager.sa.aliases.changed:
                return "aliases"
            return "groups" if self.sa_manager.groups.changed else "read" if self.sa_manager.waiting else ""
        return ""

    def _advance(self, now_ps: int) -> None:
        if self.phase == PHASES[0] and self._sweep.discovery.distrusted:
            self._start_over(now_ps)
        if len(self._requests.queue) or (self.transactor.busy and not self._leave_silent()):
            return
        if self.phase in PHASES:
            self._next_phase(now_ps)
        elif self.phase:
            self._light_sweep_done()
        elif self._wanted() == PHASES[0]:
            self._begin()
            self._enter(now_ps, PHASES[0])
        elif self._wanted():
            self._run(now_ps, self._wanted())
        elif self.state == SmState.MASTER and self.schedule.overdue(now_ps):
            return
        elif self.state == SmState.MASTER and self.schedule.relook(now_ps):
            self._run(now_ps, "again")
        elif self.schedule.look(now_ps, self.state, self.config):
            self._run(now_ps, "poll" if self.state == SmState.STANDBY else "light")

    def _leave_silent(self) -> bool:
        """Is all that the discovery still waits for behind links in INIT, and late? It goes on without; :class:`SilentPorts` asks again."""
        discovery, t = self._sweep.discovery, self.transactor
        if self.phase != PHASES[0] or not t.only_overdue or t.outstanding != discovery.unawaited:
            return False
        t.timeouts += t.outstanding
        t.abandon()
        discovery.leave_silent()
        return True

    def _next_phase(self, now_ps: int) -> None:
        if self.phase == "tables" and self._sweep.more_tables():
            return
        self.report.phase_s[self.phase] = (now_ps - self._phase_since) / PS_PER_S
        if (
            self.phase == "managers"
            and self.state == SmState.DISCOVERING
            and self.election.stands_back(self._sweep.local_guid)
        ):
            self.phase = ""
            self._mastership.stand_back(now_ps)
        elif self.phase == "managers" and self._sweep.discovery.distrusted:
            self._start_over(now_ps)
        elif self.phase == PHASES[-1] or (self.database.sm_port < 0 and self.phase != PHASES[0]):
            self._end(now_ps)
        else:
            self._enter(now_ps, PHASES[PHASES.index(self.phase) + 1])

    def _enter(self, now_ps: int, phase: str) -> None:
        self.phase, self._phase_since = phase, now_ps
        self.transactor.window = self._sweep.window(phase)
        self._sweep.enter(phase)
        self.graph, self.routing = self._sweep.graph or self.graph, self._sweep.routing or self.routing

    # -- sweeps --

    def _begin(self) -> None:
        master = self.state == SmState.MASTER
        if self.sweeps:
            self._mastership.state = next_state(self.state, SmEvent.TOPOLOGY_CHANGED)
        self.sweeps += 1
        self._sweep = self._new_sweep(master)
        self._ended_well = False
        self.schedule.begun()
        self._requests.begin(self._sweep.queue)

    def _start_over(self, now_ps: int) -> None:
        """What changed does not fit the last sweep's picture: look at the whole subnet."""
        self.transactor.abandon()
        self.schedule.whole = True
        self._begin()
        self._enter(now_ps, PHASES[0])

    def _give_up(self) -> None:
        if self.phase == "tables":
            self._stores.lft.tables.clear()  # nobody knows which Sets were done
        self.phase, self.schedule.sweep = "", False
        self.transactor.abandon()
        self._requests.queue = RequestQueue(self.database.routes)

    def _end(self, now_ps: int) -> None:
        self.phase = ""
        sweep, report = self._sweep, self.report
        self._requests.count(report)
        sweep.finish(self._requests.queue.built)
        self.schedule.sweep |= sweep.stale
        self.schedule.suspects |= sweep.stale_switches | sweep.troubled
        if self.sweeps > 1 and sweep.cut_off:
            self._mastership.event(self._now_ps, SmEvent.LOCAL_PORT_DOWN)
            return
        if self.database.sm_port < 0 or sweep.subnet is None:
            return
        self._ended_well = not report.duplicates
        self._flapping.fell(sweep.fallen, self.config.flaps, now_ps)
        report.notes += self._flapping.lines(self.database)
        wrong = {guid for guid, _ in report.wrong_answers}
        self.sa_manager.sa.aliases.blocks(sweep.fresh_ends)
        self.schedule.swept(now_ps, self.config, bool(sweep.troubled), wrong)
        self.silent.note(self.database, [port for port, _ in report.silent_ports if port >= 0], now_ps)
        self._mastership.lead(now_ps, sweep.subnet, sweep.members(), sweep.local_guid)

    # -- between sweeps --

    def _run(self, now_ps: int, task: str) -> None:
        self.phase, self._phase_since = task, now_ps
        self.transactor.window = self.config.window
        work, subnet = self._light_sweep, self.sa_manager.subnet
        self._requests.queue = queue = RequestQueue(self.database.routes, self.config.mkey)
        if task == "control":
            port, what = self._mastership.next_control()
            work.control(self.database, queue, port, what, self._responder.sm_info())
            return
        if task == "sync":
            self._check_master_lid = False
            if self.state == SmState.STANDBY:
                self.replication.asks(self._now_ps)
        if task == "isolate":
            self._flapping.queue(self.database, queue, now_ps)
            return
        if task == "again":
            work.light(self.database, queue, self.schedule.touched)
            return
        sa = self.sa_manager.sa
        work.begin(
            task, self.database, queue, subnet, self.sa_manager.waiting[0].need if task == "read" else None, sa.aliases
        )

    def _light_sweep_done(self) -> None:
        task, self.phase, work = self.phase, "", self._light_sweep
        if task == "read" and work.read is not None:
            self.sa_manager.was_read(self.sa_manager.waiting[0].need, work.read.table)
        if work.changed:
            work.changed = False
            (self.schedule.found_relooking if task == "again" else self.schedule.suspect)(work.suspects)
            work.suspects.clear()
        if task == "control" and work.accepted == SmControl.HANDOVER:
            self._mastership.event(self._now_ps, SmEvent.ACKNOWLEDGED)
        if task == "sync" and work.port_info is not None:
            self._mastership.master_named(work.port_info)
        self._check_master_lid = task == "light"
        if task == "poll" and self.election.failures >= self.config.polling_retries:
            self._mastership.event(self._now_ps, SmEvent.POLLING_TIMEOUT)

    # -- answers --

    def _take(self) -> None:
        """Hand over answers. Entering ``tables`` sent one attribute alone."""
        for answers in self._requests.answers(int(SmpAttr.LFT) if self.phase == "tables" else None):
            if answers.data is None:
                self._lost(answers.attr, answers.tags, answers.refused)
            else:
                self._heard(answers.attr, answers.tags, answers.data)

    def _heard(self, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        if self._requests.queue is self._sweep.queue:
            self._sweep.heard(self.phase, attr, tags, data)
            # While a sweep has not reached the own port yet its GUID is that of the sweep before.
            self.replication.local_guid = self._sweep.local_guid or self.replication.local_guid
        else:
            self._light_sweep.heard(self.phase, self.database, tags, data)

    def _lost(self, attr: int, tags: np.ndarray, refused: bool) -> None:
        if self._requests.queue is not self._sweep.queue:
            self._light_sweep.lost(self.phase, self.database, tags)
        elif refused:
            self._sweep.refused(self.phase, attr, tags)
        else:
            self._sweep.lost(self.phase, attr, tags, "is not answered")
