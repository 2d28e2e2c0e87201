"""Election of the master among several subnet managers (IBA 14.4.1). The state machine is a table;
managers are ranked by priority, then by the lower GUID.

A manager in state discovering reads SMInfo from every port with IsSM. If it finds a master, or a
manager with a higher rank, it becomes standby and polls that manager. A master that finds a manager
with a higher rank hands over to it. A standby whose master misses several polls discovers again.
Events come from this module, from Set(SMInfo) of other managers (:mod:`softib.sm.responder`), and
from sweeps.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from softib.iba.constants import CapMask, Method, MgmtClass, SmpAttr
from softib.iba.notice import Notice, TrapCapMaskChange
from softib.iba.smp import DATA_AT, MadHeader, PortInfo, SMInfo
from softib.mad.batch import MadBatch
from softib.mad.smp_requests import RequestQueue
from softib.sm.database import Database

__all__ = ["TRANSITIONS", "Election", "SmControl", "SmEvent", "SmState", "next_state", "priority_changed"]


class SmState(IntEnum):
    """SMInfo.SMState (IBA 14.2.5.13)."""

    NOT_ACTIVE = 0
    DISCOVERING = 1
    STANDBY = 2
    MASTER = 3


class SmEvent(IntEnum):
    """Events of a subnet manager."""

    DISCOVERY_COMPLETED = 0  # the sweep ended and found no higher-ranking manager
    MASTER_FOUND = 1  # a master, or a manager of higher rank, answered SMInfo
    POLLING_TIMEOUT = 2  # a standby's master stopped answering
    HANDOVER = 3  # SMInfo Set: the master hands over
    ACKNOWLEDGED = 4  # SMInfo Set: the other manager accepted the handover
    DISABLE = 5  # SMInfo Set: a master orders a manager to stop
    STANDBY_SIGNAL = 6  # SMInfo Set: a master orders a manager to continue
    DISCOVER = 7  # SMInfo Set: discover again
    TOPOLOGY_CHANGED = 8  # a trap, or a requested sweep
    LOCAL_PORT_DOWN = 9  # a sweep found the manager disconnected; it discovers again, as OpenSM does


S, E = SmState, SmEvent
TRANSITIONS: dict[tuple[SmState, SmEvent], SmState] = {
    (S.DISCOVERING, E.DISCOVERY_COMPLETED): S.MASTER,
    (S.DISCOVERING, E.MASTER_FOUND): S.STANDBY,
    (S.STANDBY, E.POLLING_TIMEOUT): S.DISCOVERING,
    (S.STANDBY, E.DISCOVER): S.DISCOVERING,
    (S.STANDBY, E.HANDOVER): S.MASTER,
    (S.STANDBY, E.DISABLE): S.NOT_ACTIVE,
    (S.NOT_ACTIVE, E.STANDBY_SIGNAL): S.STANDBY,
    (S.MASTER, E.ACKNOWLEDGED): S.STANDBY,
    (S.MASTER, E.HANDOVER): S.MASTER,
    (S.MASTER, E.TOPOLOGY_CHANGED): S.MASTER,
    (S.MASTER, E.LOCAL_PORT_DOWN): S.DISCOVERING,
}
"""New state by (state, event). Other pairs have no effect."""


def next_state(state: SmState, event: SmEvent) -> SmState:
    """Return the state after ``event``."""
    return TRANSITIONS.get((state, event), state)


class SmControl(IntEnum):
    """AttributeModifier of Set(SMInfo) (IBA 14.4.1, table)."""

    HANDOVER = 1
    ACKNOWLEDGE = 2
    DISABLE = 3
    STANDBY = 4
    DISCOVER = 5


EVENT_OF = {
    SmControl.HANDOVER: SmEvent.HANDOVER,
    SmControl.ACKNOWLEDGE: SmEvent.ACKNOWLEDGED,
    SmControl.DISABLE: SmEvent.DISABLE,
    SmControl.STANDBY: SmEvent.STANDBY_SIGNAL,
    SmControl.DISCOVER: SmEvent.DISCOVER,
}
CAN_MASTER = (SmState.DISCOVERING, SmState.STANDBY, SmState.MASTER)


class Election:
    """``others``: SMInfo (uint8[64]) of every other manager that answered, by port of the database.
    ``polled``: the port of the master that a standby polls. ``failures``: number of consecutive
    polls that were not answered, or were answered by a manager that is no longer master."""

    def __init__(self, priority: int, sm_key: int):
        self.priority, self.sm_key = priority, sm_key
        self.others: dict[int, np.ndarray] = {}
        self.polled = -1
        self.failures = 0

    # -- asking --

    def ask(self, db: Database, queue: RequestQueue) -> None:
        """Queue Get(SMInfo) for every other port with IsSM. Tags are ports."""
        self.others.clear()
        says = (PortInfo.cap_mask.get(db.port_info) & CapMask.IS_SM) > 0
        says &= db.has_port_info & (db.port_route >= 0)
        if db.sm_port >= 0:
            says[db.sm_port] = False
        ports = np.flatnonzero(says)
        queue.get(SmpAttr.SM_INFO, db.port_route[ports], ports)

    def ask_one(self, db: Database, queue: RequestQueue) -> None:
        """Queue the poll of a standby. It counts as failed until a master answers."""
        self.failures += 1
        queue.get(SmpAttr.SM_INFO, db.port_route[[self.polled]], np.array([self.polled]))

    def control(self, db: Database, queue: RequestQueue, port: int, order: SmControl, sm_info: np.ndarray) -> None:
        """Queue Set(SMInfo) to the manager at ``port``."""
        queue.set(SmpAttr.SM_INFO, db.port_route[[port]], np.array([port]), int(order), sm_info.reshape(1, 64))

    def heard(self, tags: np.ndarray, data: np.ndarray) -> None:
        """Handle answers to Get(SMInfo). A manager with another SM_Key takes no part in the election."""
        for port, info in zip(tags.tolist(), data, strict=True):
            if int(SMInfo.sm_key.get(info)) != self.sm_key:
                continue
            self.others[port] = info.copy()
            if port == self.polled and int(SMInfo.sm_state.get(info)) == SmState.MASTER:
                self.failures = 0

    # -- judging --

    def _rank(self, info: np.ndarray) -> tuple[int, int]:
        return int(SMInfo.priority.get(info)), -int(SMInfo.guid.get(info))

    def higher(self, local_guid: int) -> list[int]:
        """Return ports of active managers that outrank this one, the highest first."""
        rank = (self.priority, -local_guid)
        able = [p for p, i in self.others.items() if int(SMInfo.sm_state.get(i)) in CAN_MASTER]
        above = [p for p in able if self._rank(self.others[p]) > rank]
        return sorted(above, key=lambda p: self._rank(self.others[p]), reverse=True)

    def masters(self) -> list[int]:
        """Return ports of managers that claim to be master, the highest first."""
        ports = [p for p, i in self.others.items() if int(SMInfo.sm_state.get(i)) == SmState.MASTER]
        return sorted(ports, key=lambda p: self._rank(self.others[p]), reverse=True)

    def rivals(self, local_guid: int) -> tuple[list[int], list[int]]:
        """For a master: return the ports of other masters, those with a higher rank and those with
        a lower rank. The highest come first."""
        rank, masters = (self.priority, -local_guid), self.masters()
        above = [p for p in masters if self._rank(self.others[p]) > rank]
        return above, masters[len(above) :]

    def stands_back(self, local_guid: int) -> bool:
        """For a discovering manager: return whether there is a master or a manager with a higher
        rank. ``polled`` is then its port."""
        betters = [*self.masters(), *self.higher(local_guid)]
        self.polled, self.failures = (betters[0] if betters else -1), 0
        return bool(betters)

    def heir(self, local_guid: int) -> int:
        """For a master: return the port of the manager to which it should hand over; -1 = none."""
        ready = (SmState.STANDBY, SmState.MASTER)
        above = [p for p in self.higher(local_guid) if int(SMInfo.sm_state.get(self.others[p])) in ready]
        return above[0] if above else -1

    def guid_of(self, port: int) -> int:
        """Return GUID of the manager at this port, 0 if none answered."""
        info = self.others.get(port)
        return 0 if info is None else int(SMInfo.guid.get(info))

    def port_of(self, guid: int) -> int:
        """Return the port of the manager with this GUID, -1 if it never answered."""
        return next((p for p, i in self.others.items() if int(SMInfo.guid.get(i)) == guid), -1)


LOCAL_CHANGE, INFORMATIONAL, CA = 144, 4, 1


SM_PRIORITY = 1 << 3


def priority_changed(port_info: np.ndarray) -> MadBatch | None:
    """Return the trap with which a standby reports its new priority to its master, as OpenSM does:
    trap 144, ChangeFlags bit 3 (IBA 14.2.5.1). Return None if its PortInfo (uint8[64]) states no
    master yet.

    The trap is needed because it starts a sweep, and a master reads the SMInfo of other managers
    only in sweeps.
    """
    lid, master_lid = int(PortInfo.lid.get(port_info)), int(PortInfo.master_sm_lid.get(port_info))
    if not lid or not master_lid:
        return None
    batch = MadBatch.zeros(1)
    batch.mad[0, : MadHeader.size] = MadHeader.pack(
        base_version=1,
        mgmt_class=int(MgmtClass.SUBN_LID),
        class_version=1,
        method=int(Method.TRAP),
        attr_id=int(SmpAttr.NOTICE),
        tid=LOCAL_CHANGE,
    )
    details = TrapCapMaskChange.pack(
        lid=lid,
        other_local_changes=1,
        cap_mask=PortInfo.cap_mask.get(port_info),
        change_flags=SM_PRIORITY,
        cap_mask2=PortInfo.cap_mask2.get(port_info),
    )
    notice = Notice.pack(is_generic=1, type=INFORMATIONAL, producer_type=CA, trap_number=LOCAL_CHANGE, issuer_lid=lid)
    notice[Notice.data_details.byte : Notice.data_details.byte + len(details)] = details
    batch.mad[0, DATA_AT : DATA_AT + len(notice)] = notice
    batch.dlid[0], batch.slid[0] = master_lid, lid
    return batch
