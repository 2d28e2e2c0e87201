"""Mastership of a subnet: the state of this manager, Set(SMInfo) from other managers, and the data
that a handover transfers (IBA 14.4.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from softib.iba.smp import PortInfo, SMInfo
from softib.mad.transactor import NEVER_PS
from softib.sm.config import SmConfig
from softib.sm.ha.election import EVENT_OF, Election, SmControl, SmEvent, SmState, next_state
from softib.sm.health.isolation import BabblingPorts, FlappingPorts
from softib.sm.health.silent import SilentPorts
from softib.sm.managers.lid_mgr import Lids
from softib.sm.managers.partitions import Members
from softib.sm.replication.replication import Replication
from softib.sm.sa.subnet import Subnet
from softib.sm.sa_manager import SaManager
from softib.sm.stores import Stores
from softib.sm.sweep.schedule import Schedule

__all__ = ["SWEEPS_IN", "Holdings", "Mastership"]

SWEEPS_IN = (SmState.DISCOVERING, SmState.MASTER)


@dataclass
class Holdings:
    """The data that a master transfers to another manager."""

    sa_manager: SaManager
    replication: Replication
    silent: SilentPorts
    stores: Stores
    lids: Lids
    flapping: FlappingPorts = field(default_factory=FlappingPorts)

    def __post_init__(self) -> None:
        self.babbling = BabblingPorts(self.flapping)


@dataclass
class Mastership:
    """``heir``: port (row) of the next master; -1: none. ``waits``: number of consecutive sweeps in
    which a master with a lower rank got time to hand over. ``controls_due``: (port, modifier) of
    each Set(SMInfo) that must be sent. ``give_up`` is called to end the current sweep."""

    election: Election
    has: Holdings
    schedule: Schedule
    give_up: Callable[[], None]
    config: SmConfig
    """The manager's settings, extended by those of a previous master."""
    state: SmState = SmState.DISCOVERING
    heir: int = -1
    waits: int = 0
    controls_due: list[tuple[int, SmControl]] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        """Return whether a Set(SMInfo) must be sent."""
        has_copy = self.heir >= 0 and self.has.replication.ready(self.election.guid_of(self.heir))
        return bool(self.controls_due) or has_copy

    def next_control(self) -> tuple[int, SmControl]:
        """Return the next Set(SMInfo): (port, modifier)."""
        if not self.controls_due:
            self.controls_due.append((self.heir, SmControl.HANDOVER))
            self.heir = -1
        port, order = self.controls_due.pop(0)
        self.election.polled = port if order == SmControl.HANDOVER else self.election.polled
        return port, order

    def lead(self, now_ps: int, subnet: Subnet, members: Members, local_guid: int) -> None:
        """Handle the end of a sweep as master. If the sweep found a manager with a higher rank,
        that manager takes over when it has a full copy of the state."""
        self.state = next_state(self.state, SmEvent.DISCOVERY_COMPLETED)
        self.has.sa_manager.open(subnet, members)
        replication = self.has.replication
        replication.lead()
        replication.swept(subnet.end_guid, self.config.partitions)
        self.heir = heir = self.election.heir(local_guid)
        if heir >= 0:
            replication.offer(now_ps, self.election.guid_of(heir), int(subnet.db.port_lid[heir]))
        self.schedule.recheck(now_ps, heir < 0 and bool(self.election.higher(local_guid)))

    def leaves_to_rival(self, now_ps: int, local_guid: int) -> bool:
        """Handle other masters that a master's sweep found. Return whether the sweep ends now,
        before any Set is sent. The master with the lower rank hands over at once, without sending a
        copy as to a standby, because the two subnets may use the same LIDs. The other one waits
        until this has happened (IBA C14-60.2.1). If the lower one does not hand over, the higher
        one writes its tables nevertheless."""
        if self.state != SmState.MASTER:
            return False
        above, below = self.election.rivals(local_guid)
        self.waits = self.waits + 1 if below and not above else 0
        if above:
            self.controls_due.append((above[0], SmControl.HANDOVER))
        elif not 0 < self.waits <= self.config.polling_retries:
            self.waits = 0
            return False
        self.schedule.recheck(now_ps, True)
        return True

    def master_named(self, info: np.ndarray) -> None:
        """Handle the master that the PortInfo of the manager's own port states. A standby polls
        that master. If it is not this manager although this manager is master, there is another
        master, and a sweep will find it."""
        if self.state == SmState.STANDBY:
            self.has.replication.located(info)
        elif int(PortInfo.master_sm_lid.get(info)) != int(PortInfo.lid.get(info)):
            self.has.stores.clear()  # another master wrote the tables, and may have left before the sweep
            self.schedule.call()

    def stand_back(self, now_ps: int) -> None:
        """Become standby, because discovery found a master or a manager with a higher rank."""
        self.schedule.look_ps = now_ps + self.config.polling_timeout_ps
        self.state = next_state(self.state, SmEvent.MASTER_FOUND)
        self.has.sa_manager.close()
        self.has.replication.stand_by(now_ps)

    def control(self, now_ps: int, order: SmControl, info: np.ndarray) -> None:
        """Handle Set(SMInfo) of another manager. A Set from a manager with another SM_Key is ignored."""
        if int(SMInfo.sm_key.get(info)) != self.config.sm_key:
            return
        port = self.election.port_of(int(SMInfo.guid.get(info)))
        if order == SmControl.HANDOVER and self.state in (SmState.STANDBY, SmState.MASTER):
            self.controls_due += [(port, SmControl.ACKNOWLEDGE)] if port >= 0 else []
            self.has.stores.clear()  # the other manager may have written the tables
            self.schedule.call()
        if order == SmControl.ACKNOWLEDGE and port >= 0:
            self.election.polled = port
        self.event(now_ps, EVENT_OF[order])

    def event(self, now_ps: int, event: SmEvent) -> None:
        """Change the state by ``event``."""
        before, wanted, self.state = self.state, self.schedule.sweep, next_state(self.state, event)
        if before == self.state:
            return
        if before == SmState.MASTER:
            self._step_down(now_ps)
        self.schedule.sweep = wanted if event == SmEvent.LOCAL_PORT_DOWN else self.state in SWEEPS_IN
        if before == SmState.STANDBY and self.state in SWEEPS_IN:
            self._take_over()

    def _step_down(self, now_ps: int) -> None:
        has = self.has
        has.replication.step_down(now_ps, self.election.guid_of(self.election.polled))
        self.give_up()
        has.stores.clear()  # another master writes the tables after this
        has.sa_manager.close()
        has.silent.clear()
        has.flapping.clear()
        has.babbling.clear()
        self.schedule.whole, self.schedule.trouble_ps = True, NEVER_PS
        self.schedule.relook_ps.clear()
        self.election.failures = 0
        self.schedule.look_ps = now_ps + self.config.polling_timeout_ps
        self.heir = -1

    def _take_over(self) -> None:
        """Restore the state that was copied from the previous master. Without a copy, request all
        clients to subscribe and join again."""
        has = self.has
        has.sa_manager.close()
        has.replication.lead()
        copy = has.replication.copy_of(self.election.guid_of(self.election.polled))
        if copy is None:
            return
        has.lids.clear()
        has.lids.update(copy.lids)
        has.stores.lft.roots, has.stores.lft.locations = copy.roots, copy.absent
        if copy.sls is not None:
            has.stores.lft.sls.take_over(copy.sls)
        for which, store in enumerate(has.stores.copied):
            store.copied = copy.written.get(which, {})
        has.stores.mkeys.update(copy.mkeys)
        if self.config.partitions is None and copy.partitions is not None:
            self.config = replace(self.config, partitions=copy.partitions)
        has.sa_manager.restore(copy, self.config)
