"""Virtual ports (:mod:`softib.iba.vendor.vports`): a sweep discovers them, assigns LIDs and P_Keys,
and brings them up. IBA does not define virtual ports; the stages are those of NVIDIA's
``osm_virt_mgr.h``.

Discovery reads VirtualizationInfo of each adapter port that has the bit in CapabilityMask2,
VPortState in blocks, and then VPortInfo and VNodeInfo of the virtual ports in use. When links are
ACTIVE, P_Key tables and LIDs are written, and then the states Armed and Active. An incremental
sweep reads the virtual ports of suspect nodes, and of ports that came up again.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from softib.iba.constants import CapMask2, NodeType, PortState, SmpAttr
from softib.iba.smp import PortInfo
from softib.iba.vendor.vports import (
    VPORT_PKEYS,
    VPORT_STATES,
    VirtualizationInfo,
    VPortInfo,
    VPortState,
    vport_modifier,
)
from softib.mad.smp_requests import RequestQueue
from softib.ragged import spread
from softib.sm.database import Database
from softib.sm.managers.pkey_mgr import arranged, states
from softib.sm.sweep.phases import SweepExtension

if TYPE_CHECKING:
    from softib.sm.sweep.sweep import Sweep

__all__ = ["VPORT_ATTRIBUTES", "VPortManager", "changed_nodes", "look_for_changes"]

HEAD, INFO, VNODE, STATE, PKEYS = (
    int(SmpAttr.MLNX_VIRTUALIZATION_INFO),
    int(SmpAttr.MLNX_VPORT_INFO),
    int(SmpAttr.MLNX_VNODE_INFO),
    int(SmpAttr.MLNX_VPORT_STATE),
    int(SmpAttr.MLNX_VPORT_PKEY_TABLE),
)
VPORT_ATTRIBUTES = (HEAD, INFO, VNODE, STATE, PKEYS)
BLOCKS = 1 << 16
"""Tags of blocks are (port or row) * BLOCKS + block."""
MOST = 1024
"""Maximum number of virtual ports of one port that are managed. (VPortIndexTop may be up to
65,535.)"""
MOST_PKEY_BLOCKS = 64


def may_have(db: Database) -> np.ndarray:
    """Return ports (rows) of adapters that report virtual ports."""
    says = (PortInfo.cap_mask2.get(db.port_info) & CapMask2.VIRTUALIZATION) > 0
    says &= db.node_type[db.port_node] == NodeType.CA
    if not says.any():
        return np.zeros(0, np.int64)
    ends = db.end_ports()
    return ends[says[ends]]


def look_for_changes(db: Database, queue: RequestQueue) -> None:
    """Queue a Get(VirtualizationInfo) for each port that has virtual ports, to read
    VPortStateChange between sweeps, because a trap may be lost. Tags are ~port; these are lower
    than all other tags."""
    guids = np.array(sorted(db.vports.heads), np.uint64)
    ports = may_have(db)
    ports = ports[np.isin(db.port_guid[ports], guids)]
    queue.get(HEAD, db.port_route[ports], ~ports)


def changed_nodes(db: Database, tags: np.ndarray, data: np.ndarray) -> set[int]:
    """Return the NodeGUIDs of adapters whose answers to :func:`look_for_changes` report changed
    states of virtual ports."""
    changed = ~tags[VirtualizationInfo.vport_state_change.get(data) > 0]
    return set(db.node_guid[db.port_node[changed]].tolist())


class VPortManager(SweepExtension):
    """One sweep's work on ``db.vports``."""

    def __init__(self, sweep: Sweep):
        super().__init__(sweep)
        self.table, self.suspects = sweep.database.vports, sweep.suspects
        self.registered = np.zeros(0, np.uint64) if sweep.registered is None else sweep.registered
        """GUIDs of virtual ports whose clients have registered."""
        self._queried = np.zeros(0, np.int64)
        self._states: dict[int, np.ndarray] = {}
        self._tops: dict[int, int] = {}
        self._silent: set[int] = set()
        self._pkeys: dict[int, np.ndarray] = {}
        self.enter = {
            "vports": self._ask,
            "vport_clear": self._clear,
            "vport_states": self._ask_states,
            "vport_infos": self._ask_infos,
            "vport_pkeys": self._ask_pkeys,
            "vport_setup": self._set_up,
            "vport_arm": lambda: self._raise(PortState.INIT, PortState.ARMED),
            "vport_activate": lambda: self._raise(PortState.ARMED, PortState.ACTIVE),
        }

    @property
    def idle(self) -> bool:
        """Return whether no port reports virtual ports or reported any before."""
        return not len(self.table) and not self.table.heads and not self._possible

    @functools.cached_property
    def _possible(self) -> bool:
        """Return whether any port reports virtual ports. This is first called when discovery is
        complete."""
        return len(may_have(self.db)) > 0

    # -- discovery --

    def _ask(self) -> None:
        db, table = self.db, self.table
        ports = may_have(db)
        here = set(db.port_guid[ports].tolist())
        before = table.heads.keys() | set(table.owner.tolist())
        table.forget(before - here)
        if self.suspects is not None:
            suspect = np.isin(db.node_guid[db.port_node[ports]], np.array(sorted(self.suspects), np.uint64))
            fresh = db.port_state()[ports] != PortState.ACTIVE
            held = np.isin(db.port_guid[ports], np.array(sorted(table.heads), np.uint64))
            down = np.isin(db.port_guid[ports], np.unique(table.owner[table.state != PortState.ACTIVE]))
            ports = ports[suspect | fresh | ~held | down]
        table.forget(set(db.port_guid[ports].tolist()))
        self._queried = ports
        self.queue.get(HEAD, db.port_route[ports], ports)

    def _answered(self) -> np.ndarray:
        guids = np.array(sorted(self.table.heads), np.uint64)
        return self._queried[np.isin(self.db.port_guid[self._queried], guids)]

    def _clear(self) -> None:
        """Clear VPortStateChange before the states are read, so that a later change sets the bit
        and raises a trap again."""
        db = self.db
        ports = [p for p in self._answered().tolist() if VirtualizationInfo.vport_state_change.get(self._head(p))]
        at = np.array(ports, np.int64)
        data = np.array([self._head(p) for p in ports], np.uint8).reshape(-1, 64)
        self.queue.set(HEAD, db.port_route[at], at, 0, data)

    def _head(self, port: int) -> np.ndarray:
        return self.table.heads[int(self.db.port_guid[port])]

    def _top(self, port: int) -> int:
        if port not in self._tops:
            self._tops[port] = self._believed_top(port)
        return self._tops[port]

    def _believed_top(self, port: int) -> int:
        head = self._head(port)
        top, cap = int(VirtualizationInfo.vport_index_top.get(head)), int(VirtualizationInfo.vport_cap.get(head))
        if top > cap or top >= MOST:
            self.report.notes.append(
                f"{self.db.port_name(port)}: VPortIndexTop {top}, VPortCap {cap}: virtual ports above "
                f"{min(cap, MOST - 1)} are not managed"
            )
        return min(top, cap, MOST - 1)

    def _ask_states(self) -> None:
        rows = [(p, b) for p in self._answered().tolist() for b in range(self._top(p) // VPORT_STATES + 1)]
        port, block = np.array(rows, np.int64).reshape(-1, 2).T
        self.queue.get(STATE, self.db.port_route[port], port * BLOCKS + block, block)

    def _ask_infos(self) -> None:
        db, table = self.db, self.table
        in_use = []
        for tag, image in sorted(self._states.items()):
            on, first = tag // BLOCKS, tag % BLOCKS * VPORT_STATES
            up = np.flatnonzero(VPortState.vport_state.get(image) >= PortState.INIT) + first
            in_use += [(on, int(i)) for i in up if i <= self._top(on)]
        port, index = np.array(in_use, np.int64).reshape(-1, 2).T
        rows = table.add(db.port_guid[port], index)
        for attr in (INFO, VNODE):
            self.queue.get(attr, db.port_route[port], rows, index)

    def discovered(self) -> None:
        """Remove virtual ports that did not answer, or have impossible GUIDs."""
        table, db = self.table, self.db
        if not len(table):
            return
        good = ~np.isin(np.arange(len(table)), np.array(sorted(self._silent), np.int64))
        guid = table.guid
        others = db.port_guid[db.end_ports()]
        first = np.zeros(len(table), bool)
        first[np.unique(guid, return_index=True)[1]] = True
        bad = good & (table.index > 0) & ((guid == 0) | np.isin(guid, others) | ~first)
        for row in np.flatnonzero(bad).tolist()[:20]:
            self.report.notes.append(
                f"virtual port {int(table.index[row])} of port {int(table.owner[row]):#018x} has GUID "
                f"{int(guid[row]):#018x}, which is 0 or owned by another port; skipped"
            )
        table.keep(good & ~bad)
        self._silent.clear()

    def lids_given(self) -> None:
        """Assign LIDs to virtual ports, after physical ports have got theirs."""
        self.discovered()
        lids = self.sweep.lids
        if short := self.table.assign(self.db, {} if lids is None else lids):
            self.report.notes.append(f"{short} virtual ports require LIDs, but none are left")

    # -- configuration --

    def _rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows whose physical port is ACTIVE, and these ports."""
        ports = self.table.ports(self.db)
        rows = np.flatnonzero(ports >= 0)
        rows = rows[self.db.port_state()[ports[rows]] == PortState.ACTIVE]
        return rows, ports[rows]

    def _ask_pkeys(self) -> None:
        if self.config.partitions is None:
            return
        rows, ports = self._rows()
        blocks = np.minimum(self.table.pkey_blocks[rows], MOST_PKEY_BLOCKS)
        of_row, block = spread(blocks)
        row, port = rows[of_row], ports[of_row]
        index = self.table.index[row].astype(np.int64)
        self.queue.get(PKEYS, self.db.port_route[port], row * BLOCKS + block, vport_modifier(index, block))

    def _set_up(self) -> None:
        table = self.table
        rows, ports = self._rows()
        self._set_pkeys()
        new = ~np.isin(table.guid[rows], self.registered) & (table.index[rows] > 0) & (not self.config.no_clients_rereg)
        wanted = self._image(rows, 0)
        VPortInfo.client_reregister.set(wanted, new)
        change = new | (VPortInfo.vport_lid.get(table.info[rows]) != table.lid[rows])
        self._set(rows[change], ports[change], wanted[change])

    def _set_pkeys(self) -> None:
        db, table, partitions = self.db, self.table, list(self.config.partitions or ())
        tables: dict[int, dict[int, np.ndarray]] = {}
        for tag, block in sorted(self._pkeys.items()):
            tables.setdefault(tag // BLOCKS, {})[tag % BLOCKS] = block
        ports = table.ports(db)
        rows = [row for row in sorted(tables) if len(tables[row]) == max(tables[row]) + 1]  # no block was lost
        at = np.array(rows, np.int64)
        state = states(db, ports[at], partitions, self.config.allow_both_pkeys, table.guid[at])
        sets: list[tuple[int, int, int, np.ndarray]] = []
        for i, r in enumerate(rows):
            held = np.concatenate([tables[r][b] for b in sorted(tables[r])])
            wanted, left_out = arranged(partitions, held, state[:, i])
            if left_out:
                self.report.notes.append(
                    f"virtual port {int(table.index[r])} of {db.port_name(int(ports[r]))} has no room for "
                    f"{left_out} of its P_Keys"
                )
            for b in np.flatnonzero((wanted != held).reshape(-1, VPORT_PKEYS).any(axis=1)).tolist():
                sets.append((int(ports[r]), r, b, wanted[b * VPORT_PKEYS : (b + 1) * VPORT_PKEYS]))
        port, row, block = np.array([s[:3] for s in sets], np.int64).reshape(-1, 3).T
        data = np.array([s[3] for s in sets], ">u2").reshape(-1, VPORT_PKEYS)
        index = table.index[row].astype(np.int64)
        self.queue.set(
            PKEYS,
            db.port_route[port],
            row * BLOCKS + block,
            vport_modifier(index, block),
            data.view(np.uint8).reshape(-1, 64),
        )

    def _image(self, rows: np.ndarray, state: int) -> np.ndarray:
        """Return VPortInfo for a Set of ``rows``; state 0 means no change."""
        image = self.table.info[rows].copy()
        VPortInfo.vport_lid.set(image, self.table.lid[rows])
        VPortInfo.vport_state.set(image, state)
        VPortInfo.client_reregister.set(image, 0)
        return image

    def _set(self, rows: np.ndarray, ports: np.ndarray, image: np.ndarray) -> None:
        self.queue.set(INFO, self.db.port_route[ports], rows, self.table.index[rows].astype(np.uint32), image)

    def _raise(self, now: PortState, wanted: PortState) -> None:
        rows, ports = self._rows()
        ready = self.table.state[rows] == now
        self._set(rows[ready], ports[ready], self._image(rows[ready], wanted))

    # -- answers --

    def heard(self, phase: str, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        """Handle answers (uint8[n, 64])."""
        if attr == HEAD:
            self.table.heads.update(zip(self.db.port_guid[tags].tolist(), data.copy(), strict=True))
        elif attr == STATE:
            self._states.update(zip(tags.tolist(), data.copy(), strict=True))
        elif attr == INFO:
            self.table.info[tags] = data
        elif attr == VNODE:
            self.table.vnode[tags] = data
        elif phase == "vport_pkeys":
            self._pkeys.update(
                zip(tags.tolist(), np.ascontiguousarray(data).view(">u2").astype(np.uint16), strict=True)
            )

    def lost(self, phase: str, attr: int, tags: np.ndarray, why: str) -> None:
        """Handle requests without a good answer: the next sweep reads these ports again."""
        if attr in (INFO, VNODE) and phase == "vport_infos":
            self._silent.update(tags.tolist())
        rows = tags // BLOCKS if attr in (STATE, PKEYS) else tags
        db = self.db
        ports = rows if attr in (HEAD, STATE) else self.table.ports(db)[rows]
        ports = np.unique(ports[ports >= 0])
        nodes = np.unique(db.port_node[ports])
        self.report.mute_nodes.extend((n, SmpAttr(attr).name, why) for n in nodes.tolist())
