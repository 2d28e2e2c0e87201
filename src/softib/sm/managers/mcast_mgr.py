"""Multicast: groups, their MLIDs, and one spanning tree per MLID in the forwarding tables of
switches (IBA 14.4.3, 14.2.5.12).

The trees of :mod:`softib.routing.multicast.multicast_trees` close no credit loop, neither with each
other nor with unicast packets. Send-only members are connected to the tree, but receive no packets.

When all MLIDs that the switches support are in use, groups of one partition use a common MLID, and
a tree with all their members. (An HCA delivers by MGID, so several groups may use one MLID.) A port
that is a member of only one of these groups also receives packets of the others; its HCA drops
them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from softib.iba.constants import LID_MCAST_MAX, LID_MCAST_MIN, MFT_BLOCK, MFT_PORTS, SmpAttr
from softib.iba.sa import JoinState
from softib.iba.smp import SwitchInfo
from softib.mad.smp_requests import RequestQueue
from softib.routing.multicast.multicast_kernels import mark_tree
from softib.routing.multicast.multicast_trees import MulticastTrees
from softib.sm.journal import Journal, Kind, record_key
from softib.sm.sa.subnet import Subnet

__all__ = ["Group", "McastManager", "Member"]

POSITIONS = 16
RECEIVES = JoinState.FULL | JoinState.NON


@dataclass
class Member:
    """Bits of :class:`~softib.iba.sa.JoinState`, and whether another port requested the membership
    (proxy join)."""

    join_state: int
    proxy: bool = False


@dataclass
class Group:
    """One multicast group. ``mgid`` is its 16 bytes. ``kept``: it exists even if it has no members
    (a group of a partition).

    ``members`` are keyed by PortGUID.
    """

    mgid: bytes
    mlid: int
    qkey: int = 0
    mtu: int = 4
    rate: int = 3
    packet_life_time: int = 18
    pkey: int = 0xFFFF
    sl: int = 0
    tclass: int = 0
    flow_label: int = 0
    hop_limit: int = 0
    kept: bool = False
    members: dict[int, Member] = field(default_factory=dict)

    @property
    def scope(self) -> int:
        """Scope of the MGID."""
        return self.mgid[1] & 15


class McastManager:
    """All groups by MGID. MLIDs in ``changed`` must still be programmed. ``journal`` records
    changes of groups and members."""

    def __init__(self, journal: Journal | None = None) -> None:
        self.journal = journal or Journal()
        self.groups: dict[bytes, Group] = {}
        self.changed: set[int] = set()
        self._of_mlid: dict[int, list[Group]] = {}
        self._alike: dict[tuple[int, ...], set[int]] = {}
        """Properties that groups with a common MLID must share → the MLIDs whose first group has
        these properties."""
        self._free_from = LID_MCAST_MIN
        """All MLIDs below this one are in use."""
        self._written: dict[int, np.ndarray] = {}  # by NodeGUID: uint16[MLIDs, 16] as Set
        self._trees: tuple[Subnet, MulticastTrees] | None = None

    # -- groups --

    def clear(self) -> None:
        """Remove every group. The tables of switches are then unknown, since another manager may
        write them."""
        self.groups.clear()
        self.changed.clear()
        self._of_mlid.clear()
        self._alike.clear()
        self._free_from = LID_MCAST_MIN
        self._written.clear()

    def add(self, mgid: bytes, limit: int, **values: int | bool) -> Group | None:
        """Return a new group with the lowest free MLID. If ``limit`` MLIDs are in use, it gets the
        MLID of another group. Return None if no group is compatible."""
        group = Group(mgid, 0, **values)  # type: ignore[arg-type]
        while self._free_from in self._of_mlid:
            self._free_from += 1
        within = self._free_from <= min(LID_MCAST_MIN + limit - 1, LID_MCAST_MAX)
        mlid = self._free_from if within else self._shared(group)
        if mlid is None:
            return None
        group.mlid = mlid
        self.enter(group)
        return group

    def _shared(self, group: Group) -> int | None:
        """Of the MLIDs whose groups have the partition, SL and levels of ``group``, return the one
        with the fewest groups, or of several, the lowest. Members of either group can then receive
        the packets of the other. Groups of partitions do not share MLIDs."""
        used = ((self._of_mlid[mlid], mlid) for mlid in self._alike.get(_class_of(group), ()))
        alike = [(len(groups), mlid) for groups, mlid in used if not any(g.kept for g in groups)]
        return min(alike)[1] if alike else None

    def enter(self, group: Group) -> None:
        """Add a group that already has an MLID."""
        groups = self._of_mlid.setdefault(group.mlid, [])
        groups.append(group)
        self._alike.setdefault(_class_of(groups[0]), set()).add(group.mlid)
        self.groups[group.mgid] = group
        self.journal.note(record_key(Kind.GROUP, group.mgid))
        self.note_members(group)

    def change(self, group: Group, **values: int) -> None:
        """Change attributes of a group. It keeps its MLID and members. If other groups have the
        same MLID, it gets a new one, because their attributes must be equal."""
        limit = LID_MCAST_MAX - LID_MCAST_MIN + 1
        alone = len(self._of_mlid[group.mlid]) == 1
        self.remove(group)
        changed = replace(group, **values)  # type: ignore[arg-type]
        if not alone and (other := self.add(group.mgid, limit, **values)) is not None:
            changed.mlid = other.mlid
            self.remove(other)
        self.enter(changed)
        if changed.members:
            self.changed.add(changed.mlid)

    def note_members(self, group: Group, guids: Iterable[int] | None = None) -> None:
        """Record changed memberships (None: of the whole group)."""
        for guid in group.members if guids is None else guids:
            self.journal.note(record_key(Kind.MEMBER, group.mgid, guid))

    def remove(self, group: Group) -> None:
        """Remove the group; its MLID becomes free if it was not shared."""
        del self.groups[group.mgid]
        self.note_members(group)
        self.journal.note(record_key(Kind.GROUP, group.mgid))
        groups = self._of_mlid[group.mlid]
        self._alike[_class_of(groups[0])].discard(group.mlid)
        groups.remove(group)
        if groups:
            self._alike.setdefault(_class_of(groups[0]), set()).add(group.mlid)
        else:
            del self._of_mlid[group.mlid]
            self._free_from = min(self._free_from, group.mlid)
        if group.members or self._is_written(group.mlid):
            self.changed.add(group.mlid)

    def _is_written(self, mlid: int) -> bool:
        """Return whether any switch forwards packets to the MLID. Most groups of partitions never
        have a member, and each Set copies the whole table of every switch up to the MLID."""
        row = mlid - LID_MCAST_MIN
        return any(len(table) > row and table[row].any() for table in self._written.values())

    def remove_ports(self, guids: set[int]) -> list[Group]:
        """Remove ports that left the subnet from all groups. Returns the groups that this ended."""
        ended = []
        for group in list(self.groups.values()):
            left = guids & group.members.keys()
            for guid in left:
                del group.members[guid]
            if left:
                self.note_members(group, left)
                self.changed.add(group.mlid)
                if not has_full(group):
                    self.remove(group)
                    ended.append(group)
        return ended

    def forget_switch(self, guid: int) -> None:
        """Record that a switch was reset, so that its tables are unknown."""
        self._written.pop(guid, None)

    def was_read(self, guid: int, table: np.ndarray) -> None:
        """Record the contents read from a switch (uint16[MLIDs, 16])."""
        self._written[guid] = table

    # -- tables --

    def limit(self, subnet: Subnet) -> int:
        """Return the number of MLIDs that fit into every switch that can forward multicast packets."""
        caps = SwitchInfo.mcast_fdb_cap.get(subnet.db.switch_info[subnet.graph.switch_node])
        return int(caps[caps > 0].min(initial=LID_MCAST_MAX - LID_MCAST_MIN + 1))

    @property
    def highest(self) -> int:
        """The highest MLID of a group that has members; 0: there is none."""
        return max((mlid for mlid, groups in self._of_mlid.items() if any(g.members for g in groups)), default=0)

    @property
    def note(self) -> str:
        """Note on a fault of the latest trees; "" if there is none."""
        return self._trees[1].note if self._trees is not None else ""

    def trees(self, subnet: Subnet) -> MulticastTrees:
        """Return the trees of ``subnet`` over the switches that forward multicast packets
        (MulticastFDBCap is not 0)."""
        sls = tuple(sorted({g.sl for g in self.groups.values()}))
        if self._trees is None or self._trees[0] is not subnet or self._trees[1].sls != sls:
            able = SwitchInfo.mcast_fdb_cap.get(subnet.db.switch_info[subnet.graph.switch_node]) > 0
            self._trees = subnet, MulticastTrees(subnet.graph, subnet.routing, able, sls)
        return self._trees[1]

    def masks(self, subnet: Subnet, groups: Sequence[Group]) -> np.ndarray:
        """Return uint16[switches of the graph, 16]: the ports that forward ``groups``, which share
        an MLID; bit p of index k = port 16k + p."""
        graph = subnet.graph
        trees = self.trees(subnet)
        out = np.zeros((graph.n_switches, POSITIONS), np.uint16)
        state: defaultdict[int, int] = defaultdict(int)
        for group in groups:
            for guid, member in group.members.items():
                state[guid] |= member.join_state
        guids = np.array(sorted(state), np.uint64)
        ends = subnet.ends_of_guid(guids)
        row = subnet.graph_end[ends]
        there = (ends >= 0) & (row >= 0)
        there[there] &= trees.able[graph.end_switch[row[there]]]
        row, guids = row[there], guids[there]
        if not len(row):
            return out
        at, port = graph.end_switch[row], graph.end_port[row].astype(np.int64)
        members = np.unique(at).astype(np.int32)
        parent = trees.parents(members, groups[0].mlid)
        mark_tree(parent, trees.source_of, graph.out_port, graph.peer_port, members, out, np.zeros(len(out), bool))
        receives = np.array([bool(state[g] & RECEIVES) for g in guids.tolist()])
        np.bitwise_or.at(out, (at[receives], port[receives] >> 4), (1 << (port[receives] & 15)).astype(np.uint16))
        return out

    def queue_blocks(self, subnet: Subnet, queue: RequestQueue, everything: bool) -> None:
        """Queue a Set for each block that a switch does not have yet, for the MLIDs in ``changed``
        or for all."""
        mlids = sorted(
            {g.mlid for g in self.groups.values() if g.members} | self.changed if everything else self.changed
        )
        self.changed.clear()
        graph = subnet.graph
        if not mlids or not graph.n_switches:
            return
        rows = -(-(mlids[-1] - LID_MCAST_MIN + 1) // MFT_BLOCK) * MFT_BLOCK
        guids = graph.switch_guid.tolist()
        trusted = np.array([g in self._written for g in guids])
        written = self._tables(guids, rows)
        wanted = written.copy()
        for mlid in mlids:
            groups = self._of_mlid.get(mlid, [])
            wanted[:, mlid - LID_MCAST_MIN] = self.masks(subnet, groups) if groups else 0
        blocks = wanted.shape[1] // MFT_BLOCK
        shape = (graph.n_switches, blocks, MFT_BLOCK, POSITIONS)
        # A switch whose tables are unknown has those of another manager, so every block that
        # contains an MLID in use is written.
        differ = (wanted != written).reshape(shape).any(axis=2) | ~trusted[:, None, None]
        switch, block, position = np.nonzero(differ)
        positions = -(-(graph.switch_nports[switch].astype(np.int64) + 1) // MFT_PORTS)
        keep = position < positions
        switch, block, position = switch[keep], block[keep], position[keep]
        data = wanted.reshape(shape)[switch, block, :, position].astype(">u2")
        nodes = graph.switch_node[switch]
        queue.set(
            SmpAttr.MFT,
            subnet.db.port_route[subnet.db.node_base[nodes]],
            nodes.astype(np.int64),
            (position << 28 | block).astype(np.uint32),
            np.ascontiguousarray(data).view(np.uint8).reshape(-1, 64),
        )
        for i, guid in enumerate(graph.switch_guid.tolist()):
            self._written[guid] = wanted[i]

    def _tables(self, guids: list[int], rows: int) -> np.ndarray:
        tables = [self._written.get(g) for g in guids]
        rows = max([rows, *(len(k) for k in tables if k is not None)])
        out = np.zeros((len(guids), rows, POSITIONS), np.uint16)
        for i, table in enumerate(tables):
            if table is not None:
                out[i, : len(table)] = table
        return out

    def table_of(self, guid: int) -> np.ndarray:
        """Return uint16[MLIDs, 16]: the contents written to a switch."""
        return self._written.get(guid, np.zeros((0, POSITIONS), np.uint16))


def _class_of(group: Group) -> tuple[int, ...]:
    return group.pkey, group.sl, group.mtu, group.rate, group.packet_life_time, group.scope


def has_full(group: Group) -> bool:
    """Return whether the group can exist: it has a full member, or is kept."""
    full = JoinState.FULL | JoinState.SEND_ONLY_FULL
    return group.kept or any(m.join_state & full for m in group.members.values())
