"""Which of several subnet managers is the master (IBA 14.4.1): priority, then the lower GUID.

A manager that discovers asks every port that says IsSM for its SMInfo. One that finds a master, or
a manager of higher rank, stands by and polls; a master that finds a higher one hands over; a
standby whose master is silent for some polls discovers anew. Transitions are the table in
``state``.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from softib.iba.constants import CapMask, SmpAttr
from softib.iba.smp import PortInfo, SMInfo
from softib.mad.smp_requests import RequestQueue
from softib.sm.database import Database
from softib.sm.state import SmEvent, SmState

__all__ = ["Election", "SmControl"]


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
    ``polled``: the port whose manager a standby watches, ``failures`` how many polls in a row
    showed that it is no master any more."""

    def __init__(self, priority: int, sm_key: int):
        self.priority, self.sm_key = priority, sm_key
        self.others: dict[int, np.ndarray] = {}
        self.polled = -1
        self.failures = 0

    # -- asking --

    def ask(self, db: Database, queue: RequestQueue) -> None:
        """Queue Get(SMInfo) for every other port that says IsSM. Tags are ports."""
        self.others.clear()
        says = (PortInfo.cap_mask.get(db.port_info) & CapMask.IS_SM) > 0
        says &= db.has_port_info & (db.port_route >= 0)
        if db.sm_port >= 0:
            says[db.sm_port] = False
        ports = np.flatnonzero(says)
        queue.get(SmpAttr.SM_INFO, db.port_route[ports], ports)

    def ask_one(self, db: Database, queue: RequestQueue) -> None:
        """Queue the poll of a standby; it counts as failed until it is answered by a master."""
        self.failures += 1
        queue.get(SmpAttr.SM_INFO, db.port_route[[self.polled]], np.array([self.polled]))

    def control(self, db: Database, queue: RequestQueue, port: int, what: SmControl, sm_info: np.ndarray) -> None:
        """Queue Set(SMInfo) to the manager at ``port``."""
        queue.set(SmpAttr.SM_INFO, db.port_route[[port]], np.array([port]), int(what), sm_info.reshape(1, 64))

    def heard(self, tags: np.ndarray, data: np.ndarray) -> None:
        """Answers to Get(SMInfo). A manager with another SM_Key takes no part in the election."""
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
        """Ports of active managers that outrank this one, the highest first."""
        mine = (self.priority, -local_guid)
        able = [p for p, i in self.others.items() if int(SMInfo.sm_state.get(i)) in CAN_MASTER]
        above = [p for p in able if self._rank(self.others[p]) > mine]
        return sorted(above, key=lambda p: self._rank(self.others[p]), reverse=True)

    def masters(self) -> list[int]:
        """Ports of managers that say they are masters, the highest first."""
        found = [p for p, i in self.others.items() if int(SMInfo.sm_state.get(i)) == SmState.MASTER]
        return sorted(found, key=lambda p: self._rank(self.others[p]), reverse=True)

    def rivals(self, local_guid: int) -> tuple[list[int], list[int]]:
        """As a master: ports of other masters above this one and below it, the highest first."""
        mine, masters = (self.priority, -local_guid), self.masters()
        above = [p for p in masters if self._rank(self.others[p]) > mine]
        return above, masters[len(above) :]

    def stands_back(self, local_guid: int) -> bool:
        """While discovering: is there a master, or a manager of higher rank? ``polled`` is its port
        then."""
        betters = [*self.masters(), *self.higher(local_guid)]
        self.polled, self.failures = (betters[0] if betters else -1), 0
        return bool(betters)

    def heir(self, local_guid: int) -> int:
        """As a master: the port whose manager it must hand over to, -1 = none."""
        ready = (SmState.STANDBY, SmState.MASTER)
        above = [p for p in self.higher(local_guid) if int(SMInfo.sm_state.get(self.others[p])) in ready]
        return above[0] if above else -1

    def guid_of(self, port: int) -> int:
        """GUID of the manager at this port, 0 where none answered."""
        info = self.others.get(port)
        return 0 if info is None else int(SMInfo.guid.get(info))

    def port_of(self, guid: int) -> int:
        """Port of the manager with this GUID, -1 where it never answered."""
        return next((p for p, i in self.others.items() if int(SMInfo.guid.get(i)) == guid), -1)
