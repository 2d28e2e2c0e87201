"""The subnet manager. It receives MADs and returns MADs; it has no I/O and no clock.

    sm = SubnetManager(SmConfig(engine="ftree"))
    outbox, deadline_ps = sm.step(now_ps)
    while not sm.settled:
        outbox, deadline_ps = sm.step(now_ps, inbox)

A sweep is a list of phases. Each phase queues requests when it begins; the next phase begins when
all of them are answered or abandoned. The first sweep starts with the first ``step``, further ones
with :meth:`request_sweep`. Such a sweep reads everything again, keeps LIDs, and sends only
differences. A sweep that a trap or PortStateChange starts reads only the devices concerned and
their neighbours (:mod:`~softib.sm.sweep.rediscovery`). :mod:`~softib.sm.sweep.runner` runs sweeps,
and :mod:`~softib.sm.sweep.between_sweeps` does the work between them. As master, the manager is
also the subnet administrator (``sa_manager``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from softib.errors import SoftibError
from softib.mad.batch import MadBatch
from softib.mad.transactor import NEVER_PS, Transactor
from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.sm.aggregation.aggregation_mgr import AggregationManager, AggregationPhases
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.ha.election import Election, SmState, priority_changed
from softib.sm.ha.handover import Holdings, Mastership
from softib.sm.health.silent import SilentPorts
from softib.sm.managers.lid_mgr import Lids
from softib.sm.managers.partition_table import PartitionTable, change_members
from softib.sm.managers.partitions import Partition
from softib.sm.replication.records import Source
from softib.sm.replication.replication import Replication
from softib.sm.responder import Responder
from softib.sm.sa_manager import SaManager
from softib.sm.stores import Stores
from softib.sm.sweep.between_sweeps import BetweenSweeps
from softib.sm.sweep.phases import PHASES
from softib.sm.sweep.report import SweepReport
from softib.sm.sweep.runner import Phase, SweepRunner
from softib.sm.sweep.schedule import Schedule

__all__ = ["PHASES", "SubnetManager"]


class SubnetManager:
    """Discovers a subnet, assigns LIDs, routes, programs the switches, brings the links up, and
    administers the subnet.

    Public: ``database`` (from MADs); ``report`` (of the current or last sweep); ``state``;
    ``graph`` and ``routing`` (None before the first routing); ``phase`` (name, or "" between
    sweeps); ``sa_manager`` (subnet administration); ``election``; ``lids`` (PortGUID → first and
    last LID, also of ports that left); ``mkeys`` (the M_Keys of ports). To preset LIDs or M_Keys,
    fill ``lids`` or ``mkeys`` before the first step.
    """

    def __init__(self, config: SmConfig | None = None):
        config = config or SmConfig()
        self.transactor = Transactor(config.window, config.timeout_ps, config.retries)
        self.sa_manager = sa = SaManager(config)
        self.election = Election(config.priority, config.sm_key)
        self._now_ps = 0
        self._announces_priority = False
        """Whether this standby must still report its new priority to the master."""
        self._stores = Stores()
        self.lids: Lids = {}
        self.mkeys = self._stores.mkeys
        self.mkeys.configure(config.mkey, config.mkey_lookup)
        records = Source(sa.multicast, sa.services, sa.subscriptions, self.lids, self._stores, sa.sa.aliases)
        self.replication = Replication(records, sa.journal, config)
        self.silent = SilentPorts(config.window, config.timeout_ps, config.retries)
        self.schedule = Schedule()
        holdings = Holdings(sa, self.replication, self.silent, self._stores, self.lids)
        self._flapping = holdings.flapping
        self._phase = Phase()
        self._runner = SweepRunner(self.transactor, self._phase)
        self._mastership = Mastership(self.election, holdings, self.schedule, self._runner.give_up, config)
        self._runner.connect(self._mastership)
        self._responder = Responder(self._mastership, lambda: self.transactor.sent)
        self._between = BetweenSweeps(self._runner, self._responder)

    @property
    def config(self) -> SmConfig:
        """Settings of the manager (:meth:`reconfigure` changes them)."""
        return self._mastership.config

    @config.setter
    def config(self, config: SmConfig) -> None:
        self._mastership.config = config

    @property
    def state(self) -> SmState:
        """State of the election (IBA 14.4.1)."""
        return self._mastership.state

    @property
    def phase(self) -> str:
        """Name of the current phase of the sweep, or of the current task between sweeps; "" if
        there is none."""
        return self._phase.name

    @property
    def sweeps(self) -> int:
        """The number of sweeps started."""
        return self._runner.count

    @property
    def graph(self) -> SwitchGraph | None:
        """The graph that was routed last."""
        return self._runner.graph

    @property
    def routing(self) -> Routing | None:
        """The tables of the last sweep that computed routes."""
        return self._runner.routing

    @property
    def database(self) -> Database:
        """The database of the current or last sweep."""
        return self._runner.database

    @property
    def report(self) -> SweepReport:
        """Report of the current or last sweep."""
        return self._runner.report

    # -- the interface --

    def step(self, now_ps: int, inbox: MadBatch | None = None) -> tuple[MadBatch, int]:
        """Process the MADs that arrived. Return the MADs to send now, and the time at which
        ``step`` must be called again if no MAD arrives earlier.

        Raises :class:`~softib.errors.LimitError` if the subnet cannot be managed (too many LIDs,
        tables too short), and any exception of a routing engine. The sweep is then abandoned, and
        :meth:`request_sweep` starts a new one.
        """
        self._now_ps = now_ps
        inbox, replies = self._responder.take(now_ps, inbox, self.database)
        inbox, answering = self.silent.answers(now_ps, inbox)
        if answering and self.state == SmState.MASTER:
            self.schedule.suspect(answering)
        self.transactor.receive(now_ps, inbox)
        try:
            self._take()
            self._advance(now_ps)
        except SoftibError:
            self._runner.give_up()
            raise
        self._runner.requests.fill(self.config.chunk)
        outbox, deadline_ps = self.transactor.send(now_ps)
        if not self.settled and not self.transactor.busy:
            # Begin the next phase. Each phase begins in a separate step, so that its time is
            # measured separately.
            drained_ps = self._runner.drained_ps
            deadline_ps = now_ps if drained_ps == NEVER_PS else max(now_ps, drained_ps)
        elif not self.phase:
            deadline_ps = min(deadline_ps, self.schedule.due_ps(self.state, self.config, self.replication.due_ps))
            deadline_ps = min(deadline_ps, self._flapping.due_ps())
        deferred, sa_ps = self.sa_manager.send(now_ps)
        query, silent_ps = None, NEVER_PS
        if self.silent.ports and not self.phase and self.state == SmState.MASTER:
            query, silent_ps = self.silent.send(self.database, self.mkeys, now_ps)
        copies, copy_ps = self.replication.send(now_ps, self.state)
        trap = self._priority_trap() if self._announces_priority else None
        full = [b for b in (copies, *replies, deferred, outbox, query, trap) if b is not None and len(b)]
        return (MadBatch.concat(full) if full else outbox), min(deadline_ps, sa_ps, silent_ps, copy_ps)

    def postpone(self, by_ps: int) -> None:
        """Move all deadlines by ``by_ps``, because the caller did not read incoming MADs for that
        time, usually while :meth:`step` computed."""
        for part in (self.transactor, self.silent, self.sa_manager, self.replication):
            part.postpone(by_ps)

    def request_sweep(self) -> None:
        """Sweep the whole subnet again, after the current sweep if there is one. (Traps and
        PortStateChange start a sweep of only the devices concerned.)"""
        self.schedule.call()

    def reconfigure(self, config: SmConfig) -> None:
        """Continue with other settings, which a sweep applies to the subnet. The window, the
        timeouts and the keys of the MADs stay."""
        self._mastership.config = config
        self._between.repartitioned = set()  # the sweep programs these partitions too
        election = self._mastership.election
        self._announces_priority |= self.state == SmState.STANDBY and config.priority != election.priority
        election.priority, election.sm_key = (
            config.priority,
            config.sm_key,
        )  # the content of SMInfo, and the rules by which other managers are accepted
        self.sa_manager.reconfigure(config)
        self.request_sweep()

    def repartition(self, changed: list[Partition]) -> bool:
        """Replace the partitions with the same P_Keys; a partition without ports is removed. The
        tables of their ports are written before the next sweep. Returns False, and changes nothing,
        if :meth:`reconfigure` is needed: no sweep has programmed partitions yet, a QoS policy
        refers to partitions, or a partition has members that are not physical ports."""
        config, subnet, stores, vports = self.config, self.sa_manager.subnet, self._stores, self.database.vports
        if self.state != SmState.MASTER or subnet is None or config.partitions is None or not stores.pkeys:
            return False
        if config.qos_policy is not None:
            return False
        table = config.partitions
        if not isinstance(table, PartitionTable):
            table = PartitionTable(table)
        old = [table.of_pkey[p.pkey] for p in changed if p.pkey in table.of_pkey]
        named = {m for p in (*old, *changed) for m, _ in p.members}
        guids = {m for m in named if isinstance(m, int)}
        if len(guids) < len(named) or (len(vports) and guids & {*vports.guid.tolist(), *vports.owner.tolist()}):
            return False
        table.change(changed)
        if table is not config.partitions:
            self._mastership.config = config = replace(config, partitions=table)
        rows = change_members(self.sa_manager.sa.members, subnet, changed, config.allow_both_pkeys)
        self.sa_manager.repartition(config, old, changed, rows)
        self._between.repartitioned |= guids
        if self.phase in PHASES or self.sa_manager.needs_sweep:  # this sweep still uses the previous partitions
            self.request_sweep()
        return True

    def _priority_trap(self) -> MadBatch | None:
        db = self.database
        self._announces_priority = False
        return priority_changed(db.port_info[db.sm_port]) if self.state == SmState.STANDBY and db.sm_port >= 0 else None

    @property
    def aggregation(self) -> AggregationManager | None:
        """The manager that assigns trees to jobs; None if the configuration has no aggregation."""
        extension = self._runner.sweep.extension_of("sharp_trees")
        return extension.manager if isinstance(extension, AggregationPhases) else None

    @property
    def settled(self) -> bool:
        """Return whether no work is running or due. Then every port that can be ACTIVE is ACTIVE,
        or another manager is master."""
        return not self.phase and not self._between.wanted(self._now_ps) and not len(self.sa_manager.queue)

    @property
    def patient(self) -> bool:
        """Return whether there are retries left for a port whose device does not answer. Only a
        caller that needs one complete sweep waits for them."""
        return self.state == SmState.MASTER and self.silent.young

    @property
    def stale(self) -> bool:
        """Return whether a link changed while the current or last sweep read it. Another sweep then
        follows."""
        return self._runner.sweep.answers.stale

    @property
    def waiting(self) -> int:
        """Number of requests of this phase for which no MAD has been made yet (for progress
        displays)."""
        return len(self._runner.requests.queue)

    # -- next actions --

    def _advance(self, now_ps: int) -> None:
        runner, between = self._runner, self._between
        if self.phase == PHASES[0] and runner.sweep.discovery.distrusted:
            runner.start_over(now_ps)
        if len(runner.requests.queue) or (self.transactor.busy and not runner.leave_silent()):
            return
        if self.phase in PHASES:
            runner.next_phase(now_ps)
        elif self.phase:
            between.done(now_ps)
        elif (task := between.wanted(now_ps)) == PHASES[0]:
            runner.begin(now_ps)
        elif task := task or between.due(now_ps):
            between.run(now_ps, task)

    # -- answers --

    def _take(self) -> None:
        """Pass answers to the parts of the manager that requested them."""
        for answers in self._runner.requests.answers():
            if answers.data is None:
                self._lost(answers.attr, answers.tags, answers.refused)
            else:
                self._heard(answers.attr, answers.tags, answers.data)

    def _heard(self, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        if not self._runner.asking:
            self._between.heard(attr, tags, data)
            return
        sweep = self._runner.sweep
        sweep.answers.heard(self.phase, attr, tags, data)
        # Until a sweep has read the manager's own port, the GUID of the previous sweep is used.
        self.replication.local_guid = sweep.local_guid or self.replication.local_guid

    def _lost(self, attr: int, tags: np.ndarray, refused: bool) -> None:
        if not self._runner.asking:
            self._between.lost(tags)
        elif refused:
            self._runner.sweep.answers.refused(self.phase, attr, tags)
        else:
            self._runner.sweep.answers.lost(self.phase, attr, tags, "is not answered")
