"""Partitions: their members, the P_Key table that every port should have, and the switch ports that
enforce partitions (IBA 10.9, 14.2.5.7).

A P_Key keeps its index in the table of an end port; the default partition, or the last ``indx0``
partition of the port, is at index 0. A switch port towards a CA has the CA's P_Keys. It checks them in both
directions, in one, or in none (``part_enforce``), as far as the switch supports this.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import PKEY_BLOCK, NodeType, SmpAttr
from softib.iba.smp import SwitchInfo
from softib.mad.smp_requests import RequestQueue
from softib.plural import counted
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.managers.partitions import DEFAULT_BASE, FULL, LIMITED, Members, Partition
from softib.sm.sa.inventory import pkey_blocks
from softib.sm.sa.subnet import Subnet

__all__ = ["PkeyManager", "PkeyTables", "arranged", "enforcing", "members_of", "states"]

FULL_BIT = 0x8000
PkeyTables = dict[tuple[int, int], np.ndarray]
"""(NodeGUID, portnum) → uint16[blocks, 32]."""


def states(
    db: Database,
    ports: np.ndarray,
    partitions: list[Partition],
    allow_both: bool = False,
    guid: np.ndarray | None = None,
) -> np.ndarray:
    """Return uint8[partitions, ports]: LIMITED and FULL bits of end ports, or of the virtual ports
    on them that have these ``guid``. If a port has several entries, the last is used. With
    ``allow_both``, all of them are used (OpenSM's allow_both_pkeys); otherwise, a port with both
    kinds of entries is a full member."""
    kind = db.node_type[db.port_node[ports]]
    port_guid = db.port_guid[ports]
    guid = port_guid if guid is None else guid
    who = {
        "ALL": np.ones(len(ports), bool),
        "ALL_CAS": kind == NodeType.CA,
        "ALL_SWITCHES": kind == NodeType.SWITCH,
        "ALL_ROUTERS": kind == NodeType.ROUTER,
        "SELF": (ports == db.sm_port) & (guid == port_guid),
    }
    out = np.zeros((len(partitions), len(ports)), np.uint8)
    order = np.argsort(guid, kind="stable")
    ranked = guid[order]
    for row, partition in enumerate(partitions):
        for member, bits in partition.members:
            which: np.ndarray | slice
            if isinstance(member, str):
                which = who[member]
            else:
                value = np.uint64(member)
                which = order[np.searchsorted(ranked, value) : np.searchsorted(ranked, value, side="right")]
            out[row, which] = (
                np.uint8(bits) | out[row, which] if allow_both else np.uint8(FULL if bits & FULL else LIMITED)
            )
    return out


def members_of(subnet: Subnet, partitions: list[Partition], allow_both: bool = False) -> Members:
    """Return the memberships of the subnet's end ports. The default partition is preferred, then
    the smaller P_Key: the order of the file decides only index 0."""
    partitions = sorted(partitions, key=lambda p: (p.pkey != DEFAULT_BASE, p.pkey))
    pkeys = np.array([p.pkey for p in partitions], np.uint16)
    sl = np.array([p.sl for p in partitions], np.uint8)
    return Members(pkeys, states(subnet.db, subnet.end_port, partitions, allow_both, subnet.end_guid), sl)


def _directions(config: SmConfig) -> tuple[bool, bool]:
    return config.part_enforce in ("both", "in"), config.part_enforce in ("both", "out")


def enforcing(db: Database, ports: np.ndarray, config: SmConfig) -> np.ndarray:
    """Return bool[n]: whether each of these switch ports checks P_Keys of the CA that is connected
    to it."""
    inbound, outbound = _directions(config)
    info = db.switch_info[db.port_node[ports]]
    can = np.full(len(ports), inbound or outbound)
    if inbound:
        can &= SwitchInfo.inbound_enforcement_cap.get(info) > 0
    if outbound:
        can &= SwitchInfo.outbound_enforcement_cap.get(info) > 0
    return can & (SwitchInfo.partition_enforcement_cap.get(info) > 0)


class PkeyManager:
    """The manager's work in one sweep: :meth:`ask` for the tables, :meth:`heard`, then
    :meth:`queue_tables`.

    ``tables``: (NodeGUID, portnum) → the P_Key table of a port, as last read or written. It is kept
    between sweeps; ports in it are not read again.
    """

    def __init__(self, db: Database, config: SmConfig, tables: PkeyTables | None = None):
        self.db, self.partitions, self.allow_both = db, list(config.partitions or ()), config.allow_both_pkeys
        self.inbound, self.outbound = _directions(config)
        ends = db.end_ports()
        leaf = np.flatnonzero(db.external & (db.port_peer >= 0))
        leaf = leaf[~db.is_switch[db.port_node[db.port_peer[leaf]]]]
        can = enforcing(db, leaf, config)
        self.leaf, self._others = leaf[can], leaf[~can]
        """Switch ports that check P_Keys of the CA that is connected to them."""
        self.ports = np.concatenate([ends, self.leaf])
        self.blocks = pkey_blocks(db, self.ports)
        self._first = np.cumsum(self.blocks) - self.blocks
        self._held = np.zeros((int(self.blocks.sum()), PKEY_BLOCK), np.uint16)
        self.tables: PkeyTables = {} if tables is None else tables
        self.notes: list[str] = []
        self.refused = np.zeros(0, np.int64)

    def enforcing(self) -> list[tuple[np.ndarray, bool, bool]]:
        """Return the switch ports towards CAs, and whether they check incoming and outgoing packets."""
        return [(self.leaf, self.inbound, self.outbound), (self._others, False, False)]

    def _rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (port, block, modifier) of each block."""
        port = np.repeat(self.ports, self.blocks)
        block = np.arange(len(port)) - np.repeat(self._first, self.blocks)
        number = np.where(self.db.external[port], self.db.port_num[port], 0).astype(np.int64)
        return port, block, block | number << 16

    def ask(self, queue: RequestQueue) -> None:
        """Queue a Get for every unknown block."""
        port, _, modifier = self._rows()
        unknown = np.ones(len(port), bool)
        for i, place in enumerate(self.db.locations(self.ports) if self.tables else ()):
            held = self.tables.get(place)
            rows = slice(int(self._first[i]), int(self._first[i] + self.blocks[i]))
            if held is not None and len(held) == self.blocks[i]:
                self._held[rows], unknown[rows] = held, False
        tags = np.flatnonzero(unknown)
        queue.get(SmpAttr.PKEY_TABLE, self.db.port_route[port[tags]], tags, modifier[tags])

    def heard(self, tags: np.ndarray, data: np.ndarray) -> None:
        """Store the blocks (uint8[n, 64]) that were read."""
        self._held[tags] = np.ascontiguousarray(data).view(">u2")

    def queue_tables(self, queue: RequestQueue) -> None:
        """Queue a Set for each block that differs from its target."""
        db = self.db
        state = states(db, self.ports[: len(self.ports) - len(self.leaf)], self.partitions, self.allow_both)
        place = {int(p): i for i, p in enumerate(self.ports[: state.shape[1]].tolist())}
        behind = self._with_vports(state, place)
        wanted = self._held.copy()
        arrangements: dict[bytes, np.ndarray] = {}
        for i, port in enumerate(self.ports.tolist()):
            column = place[port] if i < state.shape[1] else place.get(int(db.port_peer[port]))
            if column is None:
                continue
            rows = slice(int(self._first[i]), int(self._first[i] + self.blocks[i]))
            held = self._held[rows].ravel()
            membership = state[:, column] if i < state.shape[1] else behind[:, column]
            key = held.tobytes() + membership.tobytes()
            if key not in arrangements:  # most ports have equal tables
                arrangements[key] = self._arranged(held, membership, port)
            wanted[rows] = arrangements[key].reshape(-1, PKEY_BLOCK)
        for i, where in enumerate(self.db.locations(self.ports)):
            self.tables[where] = wanted[int(self._first[i]) : int(self._first[i] + self.blocks[i])]
        changed = np.flatnonzero((wanted != self._held).any(axis=1))
        port, _, modifier = self._rows()
        data = np.ascontiguousarray(wanted[changed].astype(">u2")).view(np.uint8).reshape(-1, 64)
        queue.set(
            SmpAttr.PKEY_TABLE, db.port_route[port[changed]], port[changed].astype(np.int64), modifier[changed], data
        )

    def _with_vports(self, state: np.ndarray, place: dict[int, int]) -> np.ndarray:
        """Return ``state`` with the memberships of virtual ports added to those of their physical
        port, because the switch port must accept packets of all of them."""
        vports = self.db.vports
        ports = vports.ports(self.db)
        rows = np.flatnonzero(ports >= 0)
        if not len(rows):
            return state
        out = state.copy()
        theirs = states(self.db, ports[rows], self.partitions, self.allow_both, vports.guid[rows])
        columns = np.array([place[int(p)] for p in ports[rows]], np.int64)
        np.bitwise_or.at(out.T, columns, theirs.T)
        return out if self.allow_both else np.where(out & FULL, FULL, out).astype(np.uint8)

    def _arranged(self, held: np.ndarray, state: np.ndarray, port: int) -> np.ndarray:
        table, left_out = arranged(self.partitions, held, state)
        if left_out:
            self.notes.append(
                f"{self.db.port_name(port)} has a P_Key table of {counted(len(held), 'entry')} but is a member of "
                f"{len(held) + left_out} partitions; the last ones are left out"
            )
        return table


def arranged(partitions: list[Partition], held: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the table of one port (uint16[entries]), and the number of P_Keys for which it has no
    space. Existing keys keep their index; new keys use the first free entries. As in OpenSM 3.3.23,
    the last ``indx0`` partition in the order of ``partitions`` is at index 0."""
    entries, rows = list[int](), np.flatnonzero(state).tolist()
    for row in rows:
        base, bits = partitions[row].pkey, int(state[row])
        entries += [base | FULL_BIT] if bits & FULL else []
        entries += [base] if bits & LIMITED else []
    first = next((partitions[row].pkey for row in reversed(rows) if partitions[row].index0), 0x7FFF)
    entries.sort(key=lambda k: (k & 0x7FFF) != first)
    left_out = max(0, len(entries) - len(held))
    entries = entries[: len(held)]
    table = np.zeros(len(held), np.uint16)
    left = entries[1:]
    if entries:
        table[0] = entries[0]
    for i in (np.flatnonzero(held[1:]) + 1).tolist():
        # A changed membership in the same partition is another entry at the same index.
        value = int(held[i])
        same = value if value in left else next((k for k in left if k & 0x7FFF == value & 0x7FFF), None)
        if same is not None:
            table[i] = same
            left.remove(same)
    free = np.flatnonzero(table[1:] == 0)[: len(left)] + 1
    table[free] = left[: len(free)]
    return table, left_out
