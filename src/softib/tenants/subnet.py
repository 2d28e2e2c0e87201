"""A view of the subnet, read with MADs: its ports, and their P_Key tables as last read. Only one thread may use it,
except where stated otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from softib.errors import PeerError
from softib.iba.constants import PKEY_BLOCK, NodeType, SmpAttr
from softib.iba.smp import PortInfo, SwitchInfo
from softib.iba.vendor.vports import VPortInfo
from softib.live.subnet_reader import SubnetReader
from softib.live.umad_client.wire import NO_ANSWER, live_manager, smp_get, transact
from softib.live.vport_reading import read_vports, vport_pkey_tables
from softib.monitor.opening import Opened
from softib.sm.config import SmConfig
from softib.sm.ha.election import SmState
from softib.sm.sa.inventory import pkey_blocks
from softib.tenants.model import DEFAULT_BASE, FULL_BIT, Member, Partition

__all__ = ["Held", "Port", "SubnetView", "partitions_of"]


@dataclass(frozen=True, slots=True)
class Port:
    """An end port that answered discovery: a host port, a port of a ``router``, or port 0 of a ``switch``. Port 0 has
    its own P_Key table (IBA 14.2.5.3, PartitionCap). ``row``: its row in the reader's database. ``leaf``: the row of
    the switch port in front of it if that port enforces partitions, else -1. ``entries``: number of P_Keys for which
    both ports' P_Key tables have room. ``lid``, ``mtu`` (code): from its PortInfo. ``vport``: row of a virtual port
    on it, -1 for the port itself. ``shared``: the port has virtual ports, whose P_Keys are also in the switch port's
    table."""

    guid: int
    name: str
    node: str
    row: int
    leaf: int
    leaf_name: str
    entries: int
    lid: int
    mtu: int
    vport: int = -1
    shared: bool = False
    switch: bool = False
    router: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """The P_Keys of a port, as last read. ``port``: those in its own table, in order. ``leaf``: the P_Keys of the
    switch port in front of it; None if that switch port does not enforce partitions. ``shared``: ``leaf`` also has the
    P_Keys of the port's virtual ports."""

    port: tuple[int, ...]
    leaf: frozenset[int] | None
    shared: bool = False

    def differs(self, wanted: set[int]) -> tuple[set[int], set[int]]:
        """Return the P_Keys of ``wanted`` that at least one of the two tables lacks, and the P_Keys that at least one
        has in addition."""
        missing, extra = wanted - set(self.port), set(self.port) - wanted
        if self.leaf is not None:
            missing |= wanted - self.leaf
            extra |= set() if self.shared else self.leaf - wanted
        return missing, extra


class SubnetView:
    """``open_wire`` opens the connection to the subnet, and opens it again after each failure. ``leaf_room``: the
    number of P_Keys that the manager can program into a switch port's table with this number of entries. ``ports`` and
    ``tables`` are replaced as a whole, so other threads may read them."""

    def __init__(self, open_wire: Callable[[], Opened], leaf_room: Callable[[int], int] = lambda entries: entries):
        self._open, self._leaf_room = open_wire, leaf_room
        self._opened: Opened | None = None
        self._reader: SubnetReader | None = None
        self.ports: dict[int, Port] = {}
        self.tables: dict[int, Held] = {}
        """PortGUID → tables of the port as last read, only for ports that answered the last request for them."""
        self.last: dict[int, Held] = {}
        """PortGUID → tables of the port as last read, also for ports that no longer answer, because they may still have
        these P_Keys.
        """
        self._holders: dict[int, set[int]] = {}
        """P_Key → the ports with this key in ``last``."""
        self.manager = 0
        """PortGUID of the master subnet manager; 0: not on a host."""
        self.passive = ""
        """State of that manager (IBA 14.4.1) if it answered the last check and is not the master, otherwise ""."""
        self.managers: set[int] = set()
        """PortGUIDs of the masters since the last comparison of tables with the database."""
        self.here = 0
        """PortGUID of the port from which the service sends its requests."""
        self.names: dict[str, list[int]] = {}
        """Name of a host → PortGUIDs."""
        self.unchecked: frozenset[int] = frozenset()
        """PortGUIDs of hosts whose switch port could check P_Keys but does not
        (PartitionEnforcementInbound, IBA 14.2.5.6)."""

    @property
    def is_open(self) -> bool:
        """Return whether tables can be read."""
        return self._reader is not None

    def room(self, guid: int) -> int:
        """Return the number of P_Keys for which all tables of ``guid`` have room; 0 if the port was never discovered.
        Any thread may call this.
        """
        port = self.ports.get(guid)
        return 0 if port is None else port.entries

    def discover(self) -> None:
        """Discover the whole subnet. Raises :class:`PeerError` if no device answers."""
        if self._opened is None:
            self._opened = self._open()
        try:
            reader = SubnetReader(self._opened.wire, SmConfig(), lambda phase, nodes, mads: None)
            reader.nodes()
            read_vports(reader)
        except PeerError:
            self.close()
            raise
        if reader.subnet.db.sm_port < 0:
            raise PeerError(f"no device answers: {NO_ANSWER}")
        self._reader = reader
        self.ports = {p.guid: p for p in self._found(reader)}
        names: dict[str, list[int]] = {}
        for port in self.ports.values():
            if port.vport >= 0 or port.switch or port.router:
                continue
            names.setdefault(port.node.split(" ")[0], []).append(port.guid)
            if port.node != port.node.split(" ")[0]:
                names.setdefault(port.node, []).append(port.guid)
        self.names = names
        db = reader.subnet.db
        checks = PortInfo.partition_enforcement_inbound.get(db.port_info) > 0
        self.unchecked = frozenset(p.guid for p in self.ports.values() if p.leaf >= 0 and not checks[p.leaf])
        self.here = int(db.port_guid[db.sm_port])
        self._master_of(db.port_info[db.sm_port])
        self.tables = {g: held for g, held in self.tables.items() if g in self.ports}

    def look_for_master(self) -> bool:
        """Read from this host's port which port is that of the master subnet manager. Return whether that manager
        confirms that it is the master."""
        self.passive = ""
        if self._opened is None:
            return False
        try:
            info = transact(self._opened.wire, smp_get(SmpAttr.PORT_INFO))
            if info is not None:
                self._master_of(info)
            answer = live_manager(self._opened.wire)
            self.passive = answer.state.name if answer is not None and answer.state != SmState.MASTER else ""
            return answer is not None and not self.passive
        except PeerError:
            self.close()
            raise

    def _master_of(self, port_info: np.ndarray) -> None:
        master = int(PortInfo.master_sm_lid.get(port_info))
        self.manager = next((p.guid for p in self.ports.values() if p.lid == master), 0)
        self.managers.add(self.manager)

    def _found(self, reader: SubnetReader) -> Iterable[Port]:
        db = reader.subnet.db
        rows = db.end_ports()
        switch = db.is_switch[db.port_node[rows]]
        peer = db.port_peer[rows]
        blocks = pkey_blocks(db, rows)
        behind = np.where(peer >= 0, peer, 0)
        enforced = np.where((peer >= 0) & db.is_switch[db.port_node[behind]], pkey_blocks(db, behind), 0)
        caps = SwitchInfo.partition_enforcement_cap.get(db.switch_info[db.port_node[behind]])
        info = db.port_info[rows]
        lids, port0 = PortInfo.lid.get(info), switch & (db.port_num[rows] == 0)
        # OpenSM does not set NeighborMTU of port 0.
        mtus = np.where(port0, PortInfo.mtu_cap.get(info), PortInfo.neighbor_mtu.get(info))
        owners = set(db.vports.owner[db.vports.index > 0].tolist())
        physical: dict[int, Port] = {}
        for i, row in enumerate(rows.tolist()):
            leaf = int(peer[i]) if enforced[i] else -1
            entries = int(blocks[i]) * PKEY_BLOCK
            entries = min(entries, self._leaf_room(int(caps[i]))) if enforced[i] else entries
            guid = int(db.port_guid[row])
            physical[guid] = port = Port(
                guid=guid,
                name=db.port_name(row),
                node=db.name(int(db.port_node[row])),
                row=row,
                leaf=leaf,
                leaf_name=db.port_name(leaf) if leaf >= 0 else "",
                entries=entries,
                lid=int(lids[i]),
                mtu=int(mtus[i]),
                shared=guid in owners,
                switch=bool(switch[i]),
                router=bool(db.node_type[db.port_node[row]] == NodeType.ROUTER),
            )
            yield port
        vports = db.vports
        for r in np.flatnonzero(vports.index > 0).tolist():
            if (owner := physical.get(int(vports.owner[r]))) is not None:
                yield replace(
                    owner,
                    guid=int(vports.guid[r]),
                    name=f"{owner.name} virtual port {int(vports.index[r])}",
                    entries=min(owner.entries, int(vports.pkey_blocks[r]) * PKEY_BLOCK),
                    lid=int(VPortInfo.vport_lid.get(vports.info[r])),
                    vport=r,
                )

    def read(self, guids: Iterable[int]) -> dict[int, Held]:
        """Read the tables of these ports; the old tables of ports that do not answer are dropped. Raises
        :class:`PeerError` if the connection to the subnet is lost."""
        ports = [self.ports[g] for g in guids if g in self.ports]
        if not ports:
            return {}
        if self._reader is None:
            raise PeerError("the connection to the subnet was lost; discovery starts again")
        rows = {r for p in ports for r in (p.row if p.vport < 0 else -1, p.leaf) if r >= 0}
        virtual = [p.vport for p in ports if p.vport >= 0]
        try:
            read = self._reader.pkey_tables(np.array(sorted(rows), np.int64))
            of_vport = vport_pkey_tables(self._reader, np.array(virtual, np.int64)) if virtual else {}
        except PeerError:
            self.close()
            raise
        held: dict[int, Held] = {}
        for port in ports:
            entries = read.get(port.row) if port.vport < 0 else of_vport.get(port.vport)
            leaf = read.get(port.leaf)
            if entries is not None and (port.leaf < 0 or leaf is not None):
                keys = tuple(entries[entries > 0].tolist())
                held[port.guid] = Held(keys, None if leaf is None else frozenset(leaf[leaf > 0].tolist()), port.shared)
        silent = {p.guid for p in ports} - held.keys()
        self.tables = {g: h for g, h in self.tables.items() if g not in silent} | held
        self._remember(held)
        return held

    def _remember(self, tables: Mapping[int, Held]) -> None:
        for guid, held in tables.items():
            old = self.last.get(guid)
            self.last[guid] = held
            if old is not None and old.port == held.port:
                continue
            before, after = ({k & DEFAULT_BASE for k in h.port} if h else set() for h in (old, held))
            for pkey in before - after:
                self._holders[pkey].discard(guid)
            for pkey in after - before:
                self._holders.setdefault(pkey, set()).add(guid)

    def holders(self, pkey: int) -> tuple[int, ...]:
        """Return the ports whose tables contained ``pkey`` when they were last read. Any thread may call this."""
        return tuple(self._holders.get(pkey, ()))

    def held_keys(self) -> set[int]:
        """Return all P_Keys in the tables as last read. Any thread may call this."""
        return {pkey for pkey, ports in list(self._holders.items()) if ports}

    def sibling(self) -> SubnetView:
        """Return another view of the same subnet, with a separate connection."""
        return SubnetView(self._open, self._leaf_room)

    def take(self, other: SubnetView, whole: bool, newer: set[int]) -> None:
        """Take over the connection and the ports of ``other``. If it read the ``whole`` subnet, also take over its
        tables, except for ports that this view read later (``newer``).
        """
        self.close()
        self._opened, self._reader = other._opened, other._reader
        tables = {g: h for g, h in self.tables.items() if not whole or g in newer}
        tables |= {g: h for g, h in other.tables.items() if g not in newer}
        self.ports, self.names, self.manager, self.here = other.ports, other.names, other.manager, other.here
        self.unchecked, self.managers = other.unchecked, self.managers | other.managers
        self.tables = {g: h for g, h in tables.items() if g in self.ports}
        self._remember({g: h for g, h in other.tables.items() if g not in newer})

    def close(self) -> None:
        """Close the connection to the subnet; the next discovery opens it again."""
        if self._opened is not None:
            self._opened.close()
        self._opened = self._reader = None


def partitions_of(tables: Mapping[int, Held], manager: int) -> list[Partition]:
    """Return the partitions in the ports' tables. The default partition has the membership that most ports (except the
    ``manager``'s port) have in it; the members of any other partition are the ports whose tables contain its P_Key.
    """
    members: dict[int, dict[int, Member]] = {}
    first: dict[int, bool] = {}
    for guid, held in sorted(tables.items()):
        for index, key in enumerate(held.port):
            base = key & DEFAULT_BASE
            members.setdefault(base, {})[guid] = Member(bool(key & FULL_BIT))
            first[base] = first.get(base, True) and index == 0
    default = members.pop(DEFAULT_BASE, {})
    default.pop(manager, None)
    full = 2 * sum(m.full for m in default.values()) >= len(default)
    named = {g: m for g, m in default.items() if m.full != full}
    out = [Partition(DEFAULT_BASE, "management", everyone="full" if full else "limited", members=named)]
    return out + [Partition(k, f"api_pkey_{k:#x}", index0=first[k], members=m) for k, m in sorted(members.items())]
