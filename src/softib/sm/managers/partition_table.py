"""Partitions that change between sweeps. The time for a change depends only on the partitions that
change."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from softib.iba.constants import PKEY_BLOCK, SmpAttr
from softib.mad.smp_requests import RequestQueue
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.managers.partitions import DEFAULT_BASE, FULL, LIMITED, Members, Partition
from softib.sm.managers.pkey_mgr import PkeyTables, arranged, enforcing, states
from softib.sm.sa.subnet import Subnet

__all__ = ["PartitionTable", "change_members", "queue_changed"]


class PartitionTable(Sequence[Partition]):
    """The partitions of a configuration: the default partition first; after a change, the others
    are in the order of the service's file (see :func:`_order`)."""

    def __init__(self, partitions: Iterable[Partition]):
        self.of_pkey = {p.pkey: p for p in partitions}
        self._in_order: tuple[Partition, ...] | None = tuple(self.of_pkey.values())
        self._everywhere = [p for p in self.of_pkey.values() if any(isinstance(m, str) for m, _ in p.members)]
        """Partitions that have a keyword among their members, so that any port may be a member. A
        change must not name them."""
        self._of_guid: dict[int, dict[int, list[int]]] = {}
        """PortGUID → P_Key → LIMITED and FULL bits of the port's entries, in the order of the
        entries."""
        for partition in self.of_pkey.values():
            self._enter(partition)

    def _enter(self, partition: Partition) -> None:
        for member, bits in partition.members:
            if isinstance(member, int):
                self._of_guid.setdefault(member, {}).setdefault(partition.pkey, []).append(bits)

    def change(self, changed: Iterable[Partition]) -> list[Partition]:
        """Replace the partitions with the same P_Keys; one without members is removed. Returns the previous ones."""
        before = []
        for partition in changed:
            old = self.of_pkey.pop(partition.pkey, None)
            if old is not None:
                before.append(old)
                for member, _ in old.members:
                    if isinstance(member, int):
                        self._of_guid[member].pop(old.pkey, None)
            if partition.members:
                self.of_pkey[partition.pkey] = partition
                self._enter(partition)
        self._in_order = None
        return before

    def memberships(self, db: Database, ends: np.ndarray, allow_both: bool) -> list[tuple[list[Partition], np.ndarray]]:
        """Return for each of the ports ``ends`` the partitions that may contain it, in their order,
        and its LIMITED and FULL bits in each (see :func:`~softib.sm.managers.pkey_mgr.states`)."""
        general = states(db, ends, self._everywhere, allow_both)
        out = []
        for column, guid in enumerate(db.port_guid[ends].tolist()):
            bits = {p.pkey: int(general[row, column]) for row, p in enumerate(self._everywhere)}
            for pkey, entries in self._of_guid.get(guid, {}).items():
                full = FULL if entries[-1] & FULL else LIMITED
                bits.setdefault(pkey, functools.reduce(operator.or_, entries) if allow_both else full)
            partitions = sorted((self.of_pkey[pkey] for pkey in bits), key=_order)
            out.append((partitions, np.array([bits[p.pkey] for p in partitions], np.uint8)))
        return out

    def __iter__(self) -> Iterator[Partition]:
        if self._in_order is None:
            self._in_order = tuple(sorted(self.of_pkey.values(), key=_order))
        return iter(self._in_order)

    def __len__(self) -> int:
        return len(self.of_pkey)

    def __getitem__(self, at: Any) -> Any:
        return tuple(self)[at]


def _order(partition: Partition) -> tuple[bool, bool, int]:
    """Return a sort key: the default partition, then by P_Key, then ``indx0`` partitions in descending order of
    P_Keys, because the last of them is at index 0. The service writes its file in this order, so a sweep after a
    reload of the file moves no P_Key."""
    pkey, index0 = partition.pkey, partition.index0
    return pkey != DEFAULT_BASE, index0, -pkey if index0 else pkey


def change_members(members: Members, subnet: Subnet, changed: list[Partition], allow_both: bool) -> np.ndarray:
    """Write the memberships of ``changed`` into ``members``. Other rows are unchanged. Returns the
    changed rows."""
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
    """Return ``column`` with ``by`` more rows. If the array that the previous call allocated has
    space for them, it is used."""
    n, room = len(column) + by, column.base
    if by and (room is None or len(room) < n):
        room = np.zeros((n + n // 4, *column.shape[1:]), column.dtype)
        room[: len(column)] = column
    return room[:n] if by and room is not None else column


def queue_changed(db: Database, config: SmConfig, tables: PkeyTables, queue: RequestQueue, guids: set[int]) -> set[int]:
    """Queue a Set for each changed block in the tables of ports with these ``guids``, and of the
    switch ports to which they are connected. Return the NodeGUIDs of ports whose tables are
    unknown; a sweep must read these."""
    assert isinstance(config.partitions, PartitionTable)
    ends = db.end_ports(np.array(sorted(guids), np.uint64))
    leaf = db.port_peer[ends]
    checks = leaf >= 0
    checks[checks] = db.is_switch[db.port_node[leaf[checks]]] & enforcing(db, leaf[checks], config)
    memberships = config.partitions.memberships(db, ends, config.allow_both_pkeys)
    ports, blocks, data, unknown = list[int](), list[int](), list[np.ndarray](), set[int]()
    for end, behind, checked, (partitions, state) in zip(
        ends.tolist(), leaf.tolist(), checks.tolist(), memberships, strict=True
    ):
        for port in (end, behind)[: 1 + checked]:
            place = db.location(port)
            held = tables.get(place)
            if held is None:
                unknown.add(place[0])
                continue
            table = arranged(partitions, held.ravel(), state)[0].reshape(-1, PKEY_BLOCK)
            changed = np.flatnonzero((table != held).any(axis=1)).tolist()
            ports += [port] * len(changed)
            blocks += changed
            data += [table[block] for block in changed]
            tables[place] = table
    if ports:
        octets = np.array(data).astype(">u2").view(np.uint8).reshape(-1, 64)
        tags = np.array(ports, np.int64)
        number = np.where(db.are_external(tags), db.port_num[tags], 0).astype(np.int64)
        queue.set(SmpAttr.PKEY_TABLE, db.port_route[tags], tags, np.array(blocks, np.int64) | number << 16, octets)
    return unknown
