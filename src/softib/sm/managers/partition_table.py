"""Partitions that change between sweeps: the work of a change is proportional to the partitions it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from softib.iba.constants import PKEY_BLOCK, SmpAttr
from softib.mad.smp_requests import RequestQueue
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.managers.partitions import DEFAULT_BASE, Members, Partition
from softib.sm.managers.pkey_mgr import PkeyTables, arranged, enforcing, states
from softib.sm.sa.subnet import Subnet

__all__ = ["PartitionTable", "change_members", "queue_changed"]


class PartitionTable(Sequence[Partition]):
    """The partitions of a configuration: the default one first, then by P_Key once they have changed."""

    def __init__(self, partitions: Iterable[Partition]):
        self.of_pkey = {p.pkey: p for p in partitions}
        self._in_order: tuple[Partition, ...] | None = tuple(self.of_pkey.values())
        self._everywhere = [p for p in self.of_pkey.values() if any(isinstance(m, str) for m, _ in p.members)]
        """Partitions with a keyword among their members: they may contain any port. A change cannot name them."""
        self._of_guid: dict[int, set[int]] = {}
        for partition in self.of_pkey.values():
            self._enter(partition)

    def _enter(self, partition: Partition) -> None:
        for member, _ in partition.members:
            if isinstance(member, int):
                self._of_guid.setdefault(member, set()).add(partition.pkey)

    def change(self, changed: Iterable[Partition]) -> list[Partition]:
        """Replace the partitions with the same P_Keys; one without members ends. Returns the previous ones."""
        before = []
        for partition in changed:
            old = self.of_pkey.pop(partition.pkey, None)
            if old is not None:
                before.append(old)
                for member, _ in old.members:
                    if isinstance(member, int):
                        self._of_guid[member].discard(old.pkey)
            if partition.members:
                self.of_pkey[partition.pkey] = partition
                self._enter(partition)
        self._in_order = None
        return before

    def of_guids(self, guids: Iterable[int]) -> list[Partition]:
        """The partitions that may contain one of these PortGUIDs, in their order."""
        pkeys = set().union(*(self._of_guid.get(g, ()) for g in guids)) | {p.pkey for p in self._everywhere}
        return sorted((self.of_pkey[k] for k in pkeys), key=_order)

    def __iter__(self) -> Iterator[Partition]:
        if self._in_order is None:
            self._in_order = tuple(sorted(self.of_pkey.values(), key=_order))
        return iter(self._in_order)

    def __len__(self) -> int:
        return len(self.of_pkey)

    def __getitem__(self, at: Any) -> Any:
        return tuple(self)[at]


def _order(partition: Partition) -> tuple[bool, int]:
    return partition.pkey != DEFAULT_BASE, partition.pkey


def change_members(members: Members, subnet: Subnet, changed: list[Partition], allow_both: bool) -> np.ndarray:
    """Enter the memberships of ``changed`` in ``members``, whose other rows stay. Returns the changed rows."""
    pkeys = np.array([p.pkey for p in changed], np.int64)
    row_of = np.full(DEFAULT_BASE + 1, -1, np.int64)
    row_of[members.pkey] = np.arange(len(members.pkey))
    new = pkeys[row_of[pkeys] < 0]
    row_of[new] = np.arange(len(new)) + len(members.pkey)
    members.pkey, members.sl = (_longer(column, len(new)) for column in (members.pkey, members.sl))
    members.state = _longer(members.state, len(new))
    rows = row_of[pkeys]
    members.pkey[rows], members.sl[rows] = pkeys, [p.sl for p in changed]
    members.state[rows] = states(subnet.db, subnet.end_port, changed, allow_both, subnet.end_guid)
    return rows


def _longer(column: np.ndarray, by: int) -> np.ndarray:
    """``column`` with ``by`` more rows, within the array that the last call allocated while that has room."""
    n, room = len(column) + by, column.base
    if by and (room is None or len(room) < n):
        room = np.zeros((n + n // 4, *column.shape[1:]), column.dtype)
        room[: len(column)] = column
    return room[:n] if by and room is not None else column


def queue_changed(db: Database, config: SmConfig, tables: PkeyTables, queue: RequestQueue, guids: set[int]) -> set[int]:
    """Queue a Set for each block that changes in the tables of the ports with these ``guids`` and of the switch ports
    in front of them. Returns the NodeGUIDs of ports with unknown tables: a sweep must read them."""
    assert isinstance(config.partitions, PartitionTable)
    wanted_guids = np.array(sorted(guids), np.uint64)
    ends = db.end_ports()
    ends = ends[np.isin(db.port_guid[ends], wanted_guids)]
    concerned = config.partitions.of_guids(guids)
    state = states(db, ends, concerned, config.allow_both_pkeys)
    leaf = db.port_peer[ends]
    checks = leaf >= 0
    checks[checks] = db.is_switch[db.port_node[leaf[checks]]] & enforcing(db, leaf[checks], config)
    ports, numbers, data, unknown = list[int](), list[int](), list[np.ndarray](), set[int]()
    for column, end in enumerate(ends.tolist()):
        for port in (end, int(leaf[column]))[: 1 + int(checks[column])]:
            held = tables.get(db.location(port))
            if held is None:
                unknown.add(int(db.node_guid[db.port_node[port]]))
                continue
            table = arranged(concerned, held.ravel(), state[:, column])[0].reshape(-1, PKEY_BLOCK)
            blocks = np.flatnonzero((table != held).any(axis=1)).tolist()
            number = int(db.port_num[port]) if db.external[port] else 0
            ports += [port] * len(blocks)
            numbers += [block | number << 16 for block in blocks]
            data += [table[block] for block in blocks]
            tables[db.location(port)] = table
    if ports:
        octets = np.array(data).astype(">u2").view(np.uint8).reshape(-1, 64)
        tags = np.array(ports, np.int64)
        queue.set(SmpAttr.PKEY_TABLE, db.port_route[tags], tags, np.array(numbers, np.int64), octets)
    return unknown
