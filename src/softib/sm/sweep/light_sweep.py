"""What a manager does between sweeps: short lists of requests (IBA 14.4).

``groups``: program groups that changed; ``read``: tables that an SA question waits for; ``light``:
ask every switch whether a port changed; ``again``: ask some; ``aliases``: write alias GUIDs;
``poll``: a standby asks its master; ``sync``: it asks its own port who that is; ``control``:
Set(SMInfo) to another manager.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from softib.iba.constants import SmpAttr
from softib.iba.smp import SMInfo, SwitchInfo
from softib.mad.smp_requests import RequestQueue
from softib.sm.database import Database
from softib.sm.ha.election import Election, SmControl
from softib.sm.managers.mcast_mgr import McastManager
from softib.sm.managers.switch_info import queue_tops
from softib.sm.sa.alias_guids import AliasGuids, queue_aliases
from softib.sm.sa.inventory import Inventory, Need
from softib.sm.sa.subnet import Subnet

__all__ = ["LightSweep"]

LOOKS = ("light", "again")


@dataclass
class LightSweep:
    """One task at a time, on the database of the last sweep. After it, ``changed`` says that a
    sweep is called for, ``suspects`` which nodes (NodeGUIDs) it shall ask, ``read`` what was read
    for whom, and ``accepted`` what another manager accepted."""

    election: Election
    groups: McastManager
    use_mfttop: Callable[[], bool]
    changed: bool = False
    suspects: set[int] = field(default_factory=set)
    accepted: SmControl | None = None
    read: Inventory | None = None
    port_info: np.ndarray | None = None
    """Of the own port, after ``sync``."""
    _control: SmControl | None = field(default=None)

    def begin(
        self,
        task: str,
        db: Database,
        queue: RequestQueue,
        subnet: Subnet | None,
        need: Need | None,
        aliases: AliasGuids | None = None,
    ) -> None:
        """Queue what ``task`` sends (``control`` has a call of its own). ``subnet``: what the
        master's last sweep left; ``need``: for ``read``."""
        if task == "groups" and subnet is not None:
            self.groups.queue_blocks(subnet, queue, everything=False)
            queue_tops(subnet, queue, self.groups.highest, self.use_mfttop())
        elif task == "read" and subnet is not None and need is not None:
            self.read = Inventory(subnet, need)
            self.read.ask(queue)
        elif task == "aliases" and subnet is not None:
            queue_aliases(subnet, aliases.take() if aliases is not None else [], queue)
        elif task == "sync":
            self.local_port(db, queue)
        elif task == "poll":
            self.election.ask_one(db, queue)
        else:
            self.light(db, queue)

    def light(self, db: Database, queue: RequestQueue, guids: set[int] | None = None) -> None:
        """Ask every switch, or those with NodeGUIDs ``guids``, for SwitchInfo."""
        nodes = db.switches
        if guids is not None:
            nodes = nodes[np.isin(db.node_guid[nodes], np.array(sorted(guids), np.uint64))]
        queue.get(SmpAttr.SWITCH_INFO, db.port_route[db.node_base[nodes]], nodes)

    def local_port(self, db: Database, queue: RequestQueue) -> None:
        """Ask the manager's own port for PortInfo: it names the master's LID."""
        port = db.sm_port
        queue.get(SmpAttr.PORT_INFO, db.port_route[[port]], np.array([port]), db.port_modifier(np.array([port])))

    def control(self, db: Database, queue: RequestQueue, port: int, what: SmControl, sm_info: np.ndarray) -> None:
        """Set(SMInfo)."""
        self._control, self.accepted = what, None
        self.election.control(db, queue, port, what, sm_info)

    def heard(self, phase: str, db: Database, tags: np.ndarray, data: np.ndarray) -> None:
        """Answers to requests of ``phase``."""
        if phase in LOOKS:
            self._suspect(db, tags[self._differs(db, tags, data)])
        elif phase == "poll":
            self.election.heard(tags, data)
        elif phase == "control":
            self.accepted = self._control
            self.election.heard(tags, data) if SMInfo.guid.get(data).all() else None
        elif phase == "sync":
            self.port_info = data[0].copy()
        elif phase == "read" and self.read is not None:
            self.read.heard(tags, data)

    def lost(self, phase: str, db: Database, tags: np.ndarray) -> None:
        """No answer, or a bad one."""
        if phase in LOOKS:
            self._suspect(db, tags)
        elif phase == "aliases":
            self._suspect(db, np.unique(db.port_node[tags]))
        elif phase == "groups":
            tags = np.unique(tags)
            for node in tags.tolist():
                self.groups.forget_switch(int(db.node_guid[node]))
            self._suspect(db, tags)

    def _differs(self, db: Database, nodes: np.ndarray, data: np.ndarray) -> np.ndarray:
        """bool[n]: switches with PortStateChange, and those whose LinearFDBTop is not what was set:
        they were reset."""
        top = SwitchInfo.linear_fdb_top
        return (SwitchInfo.port_state_change.get(data) > 0) | (top.get(data) != top.get(db.switch_info[nodes]))

    def _suspect(self, db: Database, nodes: np.ndarray) -> None:
        self.suspects.update(db.node_guid[nodes].tolist())
        self.changed |= len(nodes) > 0
