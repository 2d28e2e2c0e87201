"""The schedule of a manager: requested sweeps, light sweeps, polls, and devices that must be read
again.

A port sends no trap until SubnetTimeOut after the previous one (IBA 14.2.5.1, o14-2). If its link
changes within this time, the manager hears of it late. So after an incremental sweep,
PortStateChange of its switches is read several times, until they can send a trap again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from softib.mad.transactor import NEVER_PS
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.ha.election import SmState
from softib.sm.sa.subnet import Subnet

__all__ = ["Schedule"]

RECHECK_PS = 2 * 10**12
"""Time until a master checks again whether a manager with a higher rank, which was still
discovering, can take over."""
REREAD_PARTS = (8, 4, 2, 1, 0.8)
"""Switches of an incremental sweep are read again after an eighth, a quarter and a half of
SubnetTimeOut, and so on, and once at its end."""
SUBNET_TIMEOUT_UNIT_PS = 4_096_000
TROUBLE_PS, MOST_TROUBLES = 10**12, 6
"""Devices that did not answer all requests are read again after 2 s, 4 s, … 64 s."""


@dataclass
class Schedule:
    """``sweep``: a sweep must begin at once, either of the ``whole`` subnet or only of the
    ``suspects`` (NodeGUIDs). ``look_ps``: time of a master's next light sweep, or of a standby's
    next poll. The ``touched`` switches (NodeGUIDs) are read again at the times ``relook_ps``."""

    sweep: bool = True
    whole: bool = True
    suspects: set[int] = field(default_factory=set)
    look_ps: int = 0
    recheck_ps: int = NEVER_PS
    trouble_ps: int = NEVER_PS
    touched: set[int] = field(default_factory=set)
    relook_ps: list[int] = field(default_factory=list)
    _queried: set[int] = field(default_factory=set)
    _by_itself: bool = False
    _was_whole: bool = True
    _troubles: int = 0

    def call(self) -> None:
        """Request a sweep of the whole subnet."""
        self.sweep = self.whole = True

    def suspect(self, nodes: set[int]) -> None:
        """Request a sweep of these nodes (NodeGUIDs)."""
        self.sweep = True
        self.suspects |= nodes

    def suspect_lids(self, lids: tuple[int, ...], db: Database, subnet: Subnet | None) -> None:
        """Record that devices with these LIDs reported a change. ``db`` is the current sweep's
        database, ``subnet`` that of the last sweep."""
        self.sweep = True
        for lid in lids:
            ports = np.flatnonzero((db.port_lid == lid) & (lid > 0))
            if len(ports):
                self.suspects.add(int(db.node_guid[db.port_node[ports[0]]]))
            elif subnet is not None and (end := int(subnet.end_of_lid[lid])) >= 0:
                self.suspects.add(int(subnet.db.node_guid[subnet.end_node[end]]))
            else:
                self.whole = True

    def begun(self) -> None:
        """Record that the requested sweep has begun."""
        self._queried, self._was_whole = self.suspects, self.whole
        self.sweep, self.whole, self.suspects = False, False, set()

    def found_relooking(self, nodes: set[int]) -> None:
        """Record that :attr:`touched` switches have changed again. The following sweep does not
        restart the series, because a switch that always reports changes would then keep the manager
        busy."""
        self.suspect(nodes)
        self._by_itself = True

    def relook(self, now_ps: int) -> bool:
        """Return whether the :attr:`touched` switches must be read now."""
        due = bool(self.relook_ps) and now_ps >= self.relook_ps[0]
        while self.relook_ps and now_ps >= self.relook_ps[0]:
            self.relook_ps.pop(0)
        return due

    def swept(self, now_ps: int, config: SmConfig, troubled: bool, wrong: set[int]) -> None:
        """Record the end of a master's sweep. ``troubled``: some devices did not answer all
        requests. ``wrong``: NodeGUIDs of devices with impossible answers."""
        if (
            self._was_whole
        ):  # traps that are repeated start sweeps of some devices, which must not delay the light sweep of all others
            self.look_ps = now_ps + config.sweep_interval_ps
        if self._queried - wrong and not self._by_itself:
            whole_ps = SUBNET_TIMEOUT_UNIT_PS << config.subnet_timeout
            self.touched, self.relook_ps = (
                self._queried - wrong,
                [now_ps + int(whole_ps / part) for part in REREAD_PARTS],
            )
        self._by_itself = False
        self._troubles = min(self._troubles + 1, MOST_TROUBLES) if troubled else 0
        self.trouble_ps = now_ps + (TROUBLE_PS << self._troubles) if troubled else NEVER_PS

    def recheck(self, now_ps: int, higher: bool) -> None:
        """Schedule another check. A manager with a higher rank that is still discovering will soon
        become standby, and no message reports this."""
        self.recheck_ps = now_ps + RECHECK_PS if higher else NEVER_PS

    def due_ps(self, state: SmState, config: SmConfig, replication_ps: int) -> int:
        """Return the time at which the switches (or the master, for a standby) are read next."""
        if state == SmState.STANDBY:
            return min(self.look_ps, replication_ps)
        if state != SmState.MASTER:
            return NEVER_PS
        look_ps = self.look_ps if config.sweep_interval_ps else NEVER_PS
        return min(look_ps, self.recheck_ps, self.trouble_ps, *self.relook_ps[:1])

    def look(self, now_ps: int, state: SmState, config: SmConfig) -> bool:
        """Return whether a light sweep or a poll is due. If so, schedule the next one after the
        interval."""
        polls = state == SmState.STANDBY
        if now_ps < self.look_ps or not (polls or (state == SmState.MASTER and config.sweep_interval_ps)):
            return False
        self.look_ps = now_ps + (config.polling_timeout_ps if polls else config.sweep_interval_ps)
        return True

    def overdue(self, now_ps: int) -> bool:
        """Return whether a periodic sweep is due. If so, it is requested."""
        if now_ps >= self.recheck_ps:
            self.recheck_ps, self.sweep = NEVER_PS, True
        elif now_ps >= self.trouble_ps:
            self.trouble_ps, self.sweep = NEVER_PS, True
        else:
            return False
        return True
