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

from dataclasses import replace

import numpy as np

from softib.errors import SoftibError
from softib.iba.constants import RESPONSE_BIT, MgmtClass, SmpAttr
from softib.iba.smp import PortInfo, SMInfo
from softib.mad.batch import MadBatch, SendStatus
from softib.mad.smp_requests import RequestQueue
from softib.mad.transactor import NEVER_PS, Completed, Transactor
from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.sm import unsolicited
from softib.sm.answers import by_attribute
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.election import EVENT_OF, Election, SmControl
from softib.sm.lid_mgr import Lids
from softib.sm.light_sweep import LightSweep
from softib.sm.rediscovery import Resume
from softib.sm.replication.records import Source
from softib.sm.replication.replication import Replication
from softib.sm.report import PS_PER_S, SweepReport
from softib.sm.sa_manager import SaManager
from softib.sm.silent import SilentPorts
from softib.sm.state import SmEvent, SmState, next_state
from softib.sm.stores import Stores
from softib.sm.sweep import PHASES, Sweep

__all__ = ["PHASES", "SubnetManager"]

RECHECK_PS = 2 * 10**12
"""When a master looks again whether a higher manager that discovered is ready to take over."""
TROUBLE_PS, MOST_TROUBLES = 10**12, 6
"""When devices that did not answer everything are asked again: after 2 s, 4 s … 64 s."""
SWEEPS_IN = (SmState.DISCOVERING, SmState.MASTER)


class SubnetManager:
    """Discovers a subnet, gives LIDs, routes, programs the switches, brings the links up, and administers it.

    Public: ``database`` (what MADs answered), ``report`` (of the current or last sweep), ``state``, ``graph`` and ``routing`` (None
    before the first routing), ``phase`` (name, or "" between sweeps), ``sa_manager`` (subnet administration), ``election``,
    ``lids`` (PortGUID → first and last LID, also of ports that left; fill it before the first step to give known ports theirs).
    """

    def __init__(self, config: SmConfig | None = None):
        self.config = config or SmConfig()
        self.state = SmState.DISCOVERING
        self.transactor = Transactor(self.config.window, self.config.timeout_ps, self.config.retries)
        self.sa_manager = SaManager(self.config)
        self.election = Election(self.config.priority, self.config.sm_key)
        self.graph: SwitchGraph | None = None
        self.routing: Routing | None = None
        self.sweeps = 0
        self.phase = ""
        self._phase_since = self._look_ps = self._now_ps = 0
        self._recheck_ps = NEVER_PS
        self._sweep_wanted = self._whole = True
        self._suspects: set[int] = set()
        """NodeGUIDs of those that the next sweep shall ask, where it need not look at the ``_whole`` subnet."""
        self._ended_well = False
        self._heir, self._local_guid, self._check_master_lid = -1, 0, False
        self._controls_due: list[tuple[int, SmControl]] = []
        self._stores = Stores()
        self.lids: Lids = {}
        sa = self.sa_manager
        records = Source(sa.multicast, sa.services, sa.subscriptions, self.lids, self._stores, self.config)
        self.replication = Replication(records, sa.journal)
        self.silent = SilentPorts(self.config.window, self.config.timeout_ps, self.config.retries)
        self._trouble_ps, self._troubles = NEVER_PS, 0
        self._light_sweep = LightSweep(self.election, self.sa_manager.groups)
        self._sweep = self._new_sweep()
        self._queue = self._sweep.queue
        self._before = (0, 0, 0)

    def _new_sweep(self, master: bool = False) -> Sweep:
        subnet = self.sa_manager.subnet
        known = self.sa_manager.known
        resume = None
        if master and subnet is not None and self._ended_well and not self._whole:
            resume = Resume(self.database, self._suspects)
        return Sweep(self.config, self._stores, self.sa_manager.groups, self.election, known, self.lids, master, resume)

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
        replies: MadBatch | None = None
        ours: MadBatch | None = None
        if inbox is not None and len(inbox):
            of_class = inbox.mad[:, 1] == MgmtClass.SM_REPLICA
            if of_class.any():
                ours = self.replication.receive(now_ps, inbox[of_class], self.state)
                inbox = inbox[~of_class]
        if inbox is not None and len(inbox):
            # A request of ours that the wire hands back (umad's ETIMEDOUT) is no question; its retry stands anyway.
            is_request = (inbox.mad[:, 3] < RESPONSE_BIT) & (inbox.status == SendStatus.OK)
            if is_request.any():
                alone = bool(is_request.all())
                replies = self._answer_requests(now_ps, inbox if alone else inbox[is_request])
                inbox = None if alone else inbox[~is_request]
        if inbox is not None and len(inbox):
            acknowledged = inbox.mad[:, 1] == MgmtClass.SUBN_ADM
            if acknowledged.any():
                self.sa_manager.acknowledged(now_ps, inbox[acknowledged])
                inbox = inbox[~acknowledged]
        inbox, found = self.silent.answers(now_ps, inbox)
        if found and self.state == SmState.MASTER:
            self._sweep_wanted = True
            self._suspects |= found
        self.transactor.receive(now_ps, inbox)
        try:
            for done in self.transactor.completed():
                self._take(done)
            self._advance(now_ps)
        except SoftibError:
            self._give_up()
            raise
        self._fill()
        outbox, deadline_ps = self.transactor.send(now_ps)
        if not self.settled and not self.transactor.busy:
            deadline_ps = now_ps  # the next phase: each starts in a step of its own, so that its time is its own
        elif not self.phase:
            deadline_ps = min(deadline_ps, self._due_ps())
        more, sa_ps = self.sa_manager.send(now_ps)
        query, silent_ps = None, NEVER_PS
        if self.silent.ports and not self.phase and self.state == SmState.MASTER:
            query, silent_ps = self.silent.send(self.database, self.config.mkey, now_ps)
        copies, copy_ps = self.replication.send(now_ps, self.state)
        full = [b for b in (copies, ours, replies, more, outbox, query) if b is not None and len(b)]
        return (MadBatch.concat(full) if full else outbox), min(deadline_ps, sa_ps, silent_ps, copy_ps)

    def request_sweep(self) -> None:
        """Look at the whole subnet again, after the current sweep if there is one. (What traps and switches tell calls for a look at what
        they name.)"""
        self._sweep_wanted = self._whole = True

    def reconfigure(self, config: SmConfig) -> None:
        """Go on with other settings: a sweep brings the subnet to them. The window, timeouts and keys of the wire stay."""
        self.config = self.replication.source.config = config
        self.sa_manager.reconfigure(config)
        self.request_sweep()

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
        return len(self._queue)

    # -- what to do next --

    def _wanted(self) -> str:
        """The first phase of what shall be done at once, "" for nothing."""
        if self._controls_due or (self._heir >= 0 and self.replication.ready(self.election.guid_of(self._heir))):
            return "control"
        if self._check_master_lid and self.state == SmState.MASTER and not self._sweep_wanted:
            return "sync"
        if self.state == SmState.STANDBY and self._now_ps >= self.replication.due_ps and self.database.sm_port >= 0:
            return "sync"
        if self.state not in SWEEPS_IN:
            return ""
        if self._sweep_wanted:
            return PHASES[0]
        if self.state == SmState.MASTER and self.sa_manager.subnet is not None:
            return "groups" if self.sa_manager.groups.changed else "read" if self.sa_manager.waiting else ""
        return ""

    def _due_ps(self) -> int:
        """When the switches, or the master, shall be asked again."""
        if self.state == SmState.STANDBY:
            return min(self._look_ps, self.replication.due_ps)
        if self.state != SmState.MASTER:
            return NEVER_PS
        return min(self._look_ps if self.config.sweep_interval_ps else NEVER_PS, self._recheck_ps, self._trouble_ps)

    def _advance(self, now_ps: int) -> None:
        if self.phase == PHASES[0] and self._sweep.discovery.distrusted:
            self._start_over(now_ps)
        if len(self._queue) or (self.transactor.busy and not self._leave_silent()):
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
        elif now_ps >= self._recheck_ps and self.state == SmState.MASTER:
            self._recheck_ps, self._sweep_wanted = NEVER_PS, True
        elif now_ps >= self._trouble_ps and self.state == SmState.MASTER:
            self._trouble_ps, self._sweep_wanted = NEVER_PS, True
        elif now_ps >= (self._look_ps if self.state == SmState.STANDBY else self._due_ps()):
            standby = self.state == SmState.STANDBY
            self._look_ps = now_ps + (self.config.polling_timeout_ps if standby else self.config.sweep_interval_ps)
            self._run(now_ps, "poll" if standby else "light")

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
            self.phase, self._look_ps = "", now_ps + self.config.polling_timeout_ps
            self.state = next_state(self.state, SmEvent.MASTER_FOUND)
            self.sa_manager.close()
            self.replication.stand_by(now_ps)
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
        self._sweep_wanted = False
        master = self.state == SmState.MASTER
        if self.sweeps:
            self.state = next_state(self.state, SmEvent.TOPOLOGY_CHANGED)
        self.sweeps += 1
        self._sweep = self._new_sweep(master)
        self._whole, self._ended_well, self._suspects = False, False, set()
        self._queue = self._sweep.queue
        self._before = (self.transactor.retried, self.transactor.timeouts, self.transactor.strays)

    def _start_over(self, now_ps: int) -> None:
        """What changed does not fit the last sweep's picture: look at the whole subnet."""
        self.transactor.abandon()
        self._whole = True
        self._begin()
        self._enter(now_ps, PHASES[0])

    def _give_up(self) -> None:
        if self.phase == "tables":
            self._stores.lft.tables.clear()  # nobody knows which Sets were done
        self.phase, self._sweep_wanted = "", False
        self.transactor.abandon()
        self._queue = RequestQueue(self.database.routes)

    def _end(self, now_ps: int) -> None:
        self.phase = ""
        sweep, report = self._sweep, self.report
        t, (retried, timeouts, strays) = self.transactor, self._before
        report.retries, report.timeouts, report.strays = t.retried - retried, t.timeouts - timeouts, t.strays - strays
        sweep.finish(self._queue.built)
        self._sweep_wanted |= sweep.stale
        self._suspects |= sweep.stale_switches | sweep.troubled
        if self.sweeps > 1 and sweep.cut_off:
            self._event(SmEvent.LOCAL_PORT_DOWN)
            return
        if self.database.sm_port < 0 or sweep.subnet is None:
            return
        self._ended_well = not report.duplicates
        self.state = next_state(self.state, SmEvent.DISCOVERY_COMPLETED)
        self._look_ps = now_ps + self.config.sweep_interval_ps
        self.silent.note(self.database, [port for port, _ in report.silent_ports if port >= 0], now_ps)
        self._troubles = min(self._troubles + 1, MOST_TROUBLES) if sweep.troubled else 0
        self._trouble_ps = now_ps + (TROUBLE_PS << self._troubles) if self._troubles else NEVER_PS
        self.sa_manager.open(sweep.subnet, sweep.members())
        self.replication.lead()
        self.replication.swept(sweep.subnet.end_guid)
        self._heir = heir = self.election.heir(sweep.local_guid)
        if heir >= 0:  # it takes over when it has a copy of everything
            self.replication.offer(now_ps, self.election.guid_of(heir), int(self.database.port_lid[heir]))
        # A higher manager that still discovers will stand by in a moment; nothing tells when.
        self._recheck_ps = now_ps + RECHECK_PS if heir < 0 and self.election.higher(sweep.local_guid) else NEVER_PS

    # -- between sweeps --

    def _run(self, now_ps: int, task: str) -> None:
        self.phase, self._phase_since = task, now_ps
        self.transactor.window = self.config.window
        db, work, sa_manager = self.database, self._light_sweep, self.sa_manager
        self._queue = queue = RequestQueue(db.routes, self.config.mkey)
        if task == "control":
            if not self._controls_due:
                self._controls_due.append((self._heir, SmControl.HANDOVER))
                self._heir = -1
            port, what = self._controls_due.pop(0)
            self.election.polled = port if what == SmControl.HANDOVER else self.election.polled
            work.control(db, queue, port, what, self._sm_info())
        elif task == "groups" and sa_manager.subnet is not None:
            work.program(sa_manager.subnet, queue)
        elif task == "read" and sa_manager.subnet is not None:
            work.reading(sa_manager.subnet, queue, sa_manager.waiting[0].need)
        elif task == "sync":
            self._check_master_lid = False
            if self.state == SmState.STANDBY:
                self.replication.asks(self._now_ps)
            work.local_port(db, queue)
        elif task == "poll":
            work.poll(db, queue)
        else:
            work.light(db, queue)

    def _light_sweep_done(self) -> None:
        task, self.phase, work = self.phase, "", self._light_sweep
        if task == "read" and work.read is not None:
            self.sa_manager.was_read(self.sa_manager.waiting[0].need, work.read.table)
        if work.changed:
            self._sweep_wanted, work.changed = True, False
            self._suspects |= work.suspects
            work.suspects.clear()
        if task == "control" and work.accepted == SmControl.HANDOVER:
            self._event(SmEvent.ACKNOWLEDGED)
        if task == "sync" and work.port_info is not None:
            self._take_port_info(work.port_info)
        self._check_master_lid = task == "light"
        if task == "poll" and self.election.failures >= self.config.polling_retries:
            self._event(SmEvent.POLLING_TIMEOUT)

    def _take_port_info(self, info: np.ndarray) -> None:
        """The own port names the master: a standby asks that one, and a master that is not named has a rival, which a sweep finds."""
        if self.state == SmState.STANDBY:
            self.replication.located(info)
        elif int(PortInfo.master_sm_lid.get(info)) != int(PortInfo.lid.get(info)):
            self.request_sweep()

    def _fill(self) -> None:
        """Hand requests to the transactor as long as they could leave at once (a MAD is built when it leaves)."""
        most = min(self.transactor.room, self.config.chunk)
        while most > 0 and len(self._queue):
            batch, tags = self._queue.take(most)
            self.transactor.submit(batch, tags)
            most -= len(batch)

    # -- answers --

    def _take(self, done: Completed) -> None:
        """Hand over answers by attribute. Entering ``tables`` sent one attribute alone."""
        only = int(SmpAttr.LFT) if self.phase == "tables" else None
        for answers in by_attribute(done, only):
            if answers.data is None:
                self._lost(answers.attr, answers.tags, answers.refused)
            else:
                self._heard(answers.attr, answers.tags, answers.data)

    def _heard(self, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        if self._queue is self._sweep.queue:
            self._sweep.heard(self.phase, attr, tags, data)
            # While a sweep has not reached the own port yet its GUID is that of the sweep before.
            self._local_guid = self.replication.local_guid = self._sweep.local_guid or self._local_guid
        else:
            self._light_sweep.heard(self.phase, self.database, tags, data)

    def _lost(self, attr: int, tags: np.ndarray, refused: bool) -> None:
        if self._queue is not self._sweep.queue:
            self._light_sweep.lost(self.phase, self.database, tags)
        elif refused:
            self._sweep.refused(self.phase, attr, tags)
        else:
            self._sweep.lost(self.phase, attr, tags, "is not answered")

    # -- what others ask --

    def _answer_requests(self, now_ps: int, requests: MadBatch) -> MadBatch:
        """Answers to requests and traps. Only a master is the subnet administrator."""
        to_sa = requests.mad[:, 1] == MgmtClass.SUBN_ADM
        if to_sa.all() and self.state == SmState.MASTER:
            self.sa_manager.sm_info(self._sm_info, self.election.others)
            return self.sa_manager.answer(requests, now_ps)
        answered = unsolicited.answer(requests[~to_sa], self._sm_info(), self.config.mkey, self._local_guid != 0)
        if answered.suspects and self.state in SWEEPS_IN:
            self._sweep_wanted = True
            self._suspect(answered.suspects)
        for modifier, info in answered.controls:
            if int(SMInfo.sm_key.get(info)) == self.config.sm_key:
                self._control(SmControl(modifier), info)
        if self.state == SmState.MASTER:
            for notice in answered.notices:
                self.sa_manager.forward(notice)
            if to_sa.any():
                self.sa_manager.sm_info(self._sm_info, self.election.others)
                return MadBatch.concat([answered.replies, self.sa_manager.answer(requests[to_sa], now_ps)])
        return answered.replies

    def _suspect(self, lids: tuple[int, ...]) -> None:
        """Devices with these LIDs said that something changed."""
        db, subnet = self.database, self.sa_manager.subnet
        for lid in lids:
            ports = np.flatnonzero((db.port_lid == lid) & (lid > 0))
            if len(ports):
                self._suspects.add(int(db.node_guid[db.port_node[ports[0]]]))
            elif subnet is not None and (end := int(subnet.end_of_lid[lid])) >= 0:
                self._suspects.add(int(subnet.db.node_guid[subnet.end_node[end]]))
            else:
                self._whole = True

    def _control(self, what: SmControl, info: np.ndarray) -> None:
        """Set(SMInfo) of another manager (IBA 14.4.1)."""
        port = self.election.port_of(int(SMInfo.guid.get(info)))
        if what == SmControl.HANDOVER and self.state in (SmState.STANDBY, SmState.MASTER):
            self._controls_due += [(port, SmControl.ACKNOWLEDGE)] if port >= 0 else []
            self._stores.clear()  # it wrote them meanwhile
            self._sweep_wanted = self._whole = True
        if what == SmControl.ACKNOWLEDGE and port >= 0:
            self.election.polled = port
        self._event(EVENT_OF[what])

    def _event(self, event: SmEvent) -> None:
        before, wanted, self.state = self.state, self._sweep_wanted, next_state(self.state, event)
        if before == self.state:
            return
        if before == SmState.MASTER:
            self.replication.step_down(self._now_ps, self.election.guid_of(self.election.polled))
            self._give_up()
            self._stores.clear()  # another master writes them from now on
            self.sa_manager.close()
            self.silent.clear()
            self._whole, self._trouble_ps = True, NEVER_PS
            self.election.failures = 0
            self._look_ps = self._now_ps + self.config.polling_timeout_ps
            self._heir = -1
        self._sweep_wanted = wanted if event == SmEvent.LOCAL_PORT_DOWN else self.state in SWEEPS_IN
        if before == SmState.STANDBY and self.state in SWEEPS_IN:
            self._take_over()

    def _take_over(self) -> None:
        """What the master before knew holds on, where it was copied; else everybody subscribes and joins anew."""
        self.sa_manager.close()
        self.replication.lead()
        copy = self.replication.copy_of(self.election.guid_of(self.election.polled))
        if copy is None:
            return
        self.lids.clear()
        self.lids.update(copy.lids)
        self._stores.lft.roots = copy.roots
        if self.config.partitions is None and copy.partitions is not None:
            self.config = self.replication.source.config = replace(self.config, partitions=copy.partitions)
        self.sa_manager.restore(copy, self.config)

    def _sm_info(self) -> np.ndarray:
        """SMInfo (IBA 14.2.5.13). All managers get to see the SM_Key: OpenSM ignores one that does not show it, and asks without its own."""
        return SMInfo.pack(guid=self._local_guid, sm_key=self.config.sm_key, priority=self.config.priority, sm_state=int(self.state),
                           act_count=self.transactor.sent & 0xFFFFFFFF)  # fmt: skip
