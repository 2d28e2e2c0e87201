"""The target state of the subnet (tenants by name, partitions by P_Key), and drafts of changes. A :class:`Draft` has
the same queries as the state on which it is based. It records changes, which become part of that state when their rows
are in the database.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from softib.tenants.model import (
    DEFAULT_BASE,
    CableEnd,
    IsolatedPort,
    Member,
    Partition,
    Qos,
    Tenant,
    guid_text,
)

__all__ = ["Draft", "Rows", "State", "head_of", "isolated_of", "partition_of"]

Rows = dict[str, list[list[Any]]]
"""Table → [key, before, after] of each row that a change modifies; before or after is None if there is no such row."""


def head_of(partition: Partition) -> list[Any]:
    """Return a partition without its members, as a row of the database."""
    p = partition
    return [p.name, p.tenant, int(p.index0), int(p.ip_over_ib), p.everyone, p.qos.mtu, p.qos.sl, p.qos.rate]


def partition_of(pkey: int, head: list[Any], members: dict[int, Member]) -> Partition:
    """Return a partition from a row of the database and its members (reverses :func:`head_of`)."""
    name, tenant, index0, ip_over_ib, everyone, mtu, sl, rate = head
    return Partition(pkey, name, tenant, bool(index0), bool(ip_over_ib), everyone, Qos(mtu, sl, rate), members)


def isolated_row(port: IsolatedPort | None) -> list[Any] | None:
    """Return an isolated port as a row of the database, without its name."""
    return None if port is None else [port.at_s, [list(astuple(one)) for one in port.ends]]


def isolated_of(at_s: float, ends: list[list[Any]]) -> IsolatedPort:
    """Return an isolated port from a row of the database (reverses :func:`isolated_row`)."""
    return IsolatedPort(at_s, tuple(CableEnd(*one) for one in ends))


@dataclass
class State:
    """The target state. ``pkeys_of``: GUID → P_Keys of the partitions that name it. ``quarantine``: P_Key → clock time
    (s) before which it is not assigned again. ``isolated``: isolated ports by the name that the client used.
    """

    tenants: dict[str, Tenant] = field(default_factory=dict)
    partitions: dict[int, Partition] = field(default_factory=dict)
    quarantine: dict[int, float] = field(default_factory=dict)
    pkeys_of: dict[int, frozenset[int]] = field(default_factory=dict)
    owned: dict[str, int] = field(default_factory=dict)
    """Tenant → number of its partitions."""
    isolated: dict[str, IsolatedPort] = field(default_factory=dict)

    @classmethod
    def empty(cls) -> State:
        """Return the state in which every port is a full member of the default partition, which carries IPoIB. OpenSM
        without a partitions file has this state.
        """
        state = cls()
        state.partitions[DEFAULT_BASE] = Partition(DEFAULT_BASE, "management", everyone="full")
        state.owned[""] = 1
        return state

    def partition(self, pkey: int) -> Partition | None:
        """Return the partition of ``pkey``."""
        return self.partitions.get(pkey)

    def tenant(self, name: str) -> Tenant | None:
        """Return the tenant of that name."""
        return self.tenants.get(name)

    def quarantined_until(self, pkey: int) -> float:
        """Return the clock time before which ``pkey`` is not assigned; minus infinity if it is not in quarantine."""
        return self.quarantine.get(pkey, -math.inf)

    def isolated_port(self, name: str) -> IsolatedPort | None:
        """Return the isolated port of that name."""
        return self.isolated.get(name)

    def memberships(self, guid: int) -> frozenset[int]:
        """Return the P_Keys of the partitions that name ``guid``."""
        return self.pkeys_of.get(guid, frozenset())

    def partitions_of(self, tenant: str) -> int:
        """Return the number of partitions of ``tenant``."""
        return self.owned.get(tenant, 0)

    def wanted(self, guid: int, manager: int = 0) -> set[int]:
        """Return the P_Keys, with their membership bits, that the table of ``guid`` should contain.
        ``manager``: the port of the subnet manager, always a full member of the default
        partition."""
        pkeys = self.memberships(guid) | {DEFAULT_BASE}
        return {p.key_of(guid, manager) for k in pkeys if (p := self.partitions.get(k)) is not None} - {0}

    def take(self, draft: Draft) -> None:
        """Apply the changes of ``draft``, whose rows are in the database."""
        for pkey, partition in draft.partitions.items():
            old = self.partitions.get(pkey)
            for owner, count in ((old, -1), (partition, 1)):
                if owner is not None:
                    _put(self.owned, owner.tenant, self.owned.get(owner.tenant, 0) + count or None)
            _put(self.partitions, pkey, partition)
        for guid, pkeys in draft.pkeys_of.items():
            _put(self.pkeys_of, guid, pkeys or None)
        for name, tenant in draft.tenants.items():
            _put(self.tenants, name, tenant)
        for pkey, until_s in draft.quarantine.items():
            _put(self.quarantine, pkey, until_s)
        for name, port in draft.isolated.items():
            _put(self.isolated, name, port)


class Draft:
    """A change of ``base``, which is a :class:`State` or another draft. The value None represents a removal."""

    def __init__(self, base: State | Draft):
        self.base = base
        self.partitions: dict[int, Partition | None] = {}
        self.tenants: dict[str, Tenant | None] = {}
        self.quarantine: dict[int, float | None] = {}
        self.pkeys_of: dict[int, frozenset[int]] = {}
        self.isolated: dict[str, IsolatedPort | None] = {}

    def isolated_port(self, name: str) -> IsolatedPort | None:
        """Return the isolated port of that name."""
        if name in self.isolated:
            return self.isolated[name]
        return self.base.isolated_port(name)

    def partition(self, pkey: int) -> Partition | None:
        """Return the partition of ``pkey``."""
        return self.partitions[pkey] if pkey in self.partitions else self.base.partition(pkey)

    def tenant(self, name: str) -> Tenant | None:
        """Return the tenant of that name."""
        return self.tenants[name] if name in self.tenants else self.base.tenant(name)

    def quarantined_until(self, pkey: int) -> float:
        """Return the clock time before which ``pkey`` is not assigned."""
        if pkey in self.quarantine:
            until_s = self.quarantine[pkey]
            return -math.inf if until_s is None else until_s
        return self.base.quarantined_until(pkey)

    def memberships(self, guid: int) -> frozenset[int]:
        """Return the P_Keys of the partitions that name ``guid``."""
        return self.pkeys_of[guid] if guid in self.pkeys_of else self.base.memberships(guid)

    def names(self) -> set[str]:
        """Return the names of all tenants."""
        base = self.base.names() if isinstance(self.base, Draft) else set(self.base.tenants)
        return {name for name in base | self.tenants.keys() if self.tenant(name) is not None}

    def partitions_of(self, tenant: str) -> int:
        """Return the number of partitions of ``tenant``."""
        count = self.base.partitions_of(tenant)
        for pkey, partition in self.partitions.items():
            old = self.base.partition(pkey)
            count += (partition is not None and partition.tenant == tenant) - (old is not None and old.tenant == tenant)
        return count

    def put(self, partition: Partition) -> None:
        """Add a partition, or replace a changed one."""
        self._members(self.partition(partition.pkey), partition)
        self.partitions[partition.pkey] = partition

    def remove(self, pkey: int, until_s: float) -> None:
        """Remove a partition with its members. Its P_Key is in quarantine until the clock time ``until_s``."""
        self._members(self.partition(pkey), None)
        self.partitions[pkey] = None
        self.quarantine[pkey] = until_s

    def _members(self, old: Partition | None, new: Partition | None) -> None:
        before = old.members if old is not None else {}
        after = new.members if new is not None else {}
        pkey = (old or new).pkey  # type: ignore[union-attr]
        for guid in before.keys() ^ after.keys():
            self.pkeys_of[guid] = self.memberships(guid) ^ {pkey}

    def take(self, draft: Draft) -> None:
        """Add the changes of another draft, which is based on this one."""
        for table, theirs in zip(self._tables, draft._tables, strict=True):
            table.update(theirs)

    @property
    def _tables(self) -> tuple[dict[Any, Any], ...]:
        return self.partitions, self.tenants, self.quarantine, self.pkeys_of, self.isolated

    def rows(self) -> Rows:
        """Return the rows that the draft changes, with their previous contents."""
        partitions, members = list[list[Any]](), list[list[Any]]()
        for pkey, new in self.partitions.items():
            old = self.base.partition(pkey)
            heads = [old and head_of(old), new and head_of(new)]
            if heads[0] != heads[1]:
                partitions.append([pkey, *heads])
            members += _member_rows(pkey, old, new)
        tenants = [
            [name, *((t and asdict(t)) for t in (self.base.tenant(name), new))] for name, new in self.tenants.items()
        ]
        quarantine = [
            [pkey, None if math.isinf(t := self.base.quarantined_until(pkey)) else t, new]
            for pkey, new in self.quarantine.items()
        ]
        ports = [
            [name, isolated_row(self.base.isolated_port(name)), isolated_row(new)]
            for name, new in self.isolated.items()
        ]
        tables = {
            "tenant": [row for row in tenants if row[1] != row[2]],
            "partition": partitions,
            "member": members,
            "quarantine": quarantine,
            "isolated_port": [row for row in ports if row[1] != row[2]],
        }
        return {name: rows for name, rows in tables.items() if rows}

    def undo(self, rows: Rows, until_s: float, later: Sequence[tuple[int, Rows]] = ()) -> None:
        """Undo the change ``rows``: restore each row that was not changed later. ``later``: number and rows of the
        later revisions. If they gave a P_Key to another partition, this partition and its members stay unchanged.
        P_Keys of partitions that end thereby are in quarantine until ``until_s``.
        """
        for name, before, after in rows.get("tenant", []):
            if _tenant(after) == self.tenant(name):
                self.tenants[name] = _tenant(before)
        heads = {pkey: (before, after) for pkey, before, after in rows.get("partition", [])}
        lost = self._given_away({pkey: after for pkey, (_, after) in heads.items()}, later)
        for pkey, before, after in rows.get("quarantine", []):
            if pkey not in lost and self.quarantined_until(pkey) == (-math.inf if after is None else after):
                self.quarantine[pkey] = before
        members: dict[int, list[list[Any]]] = {pkey: [] for pkey in heads}
        for (pkey, guid), before, after in rows.get("member", []):
            members.setdefault(pkey, []).append([int(guid, 16), before, after])
        for pkey, changed in members.items():
            if pkey not in lost:
                self._undo_partition(pkey, heads.get(pkey), changed, until_s)

    def _given_away(self, left: dict[int, Any], later: Sequence[tuple[int, Rows]]) -> set[int]:
        """Return the P_Keys whose partition was deleted, created or given to another tenant in later revisions, unless
        it now has the same state as before those revisions. ``left``: the rows of partitions after the change that is
        undone.
        """
        left, given = dict(left), set[int]()
        for _, rows in later:
            for pkey, before, after in rows.get("partition", []):
                left.setdefault(pkey, before)
                if before is None or after is None or before[1] != after[1]:
                    given.add(pkey)
        heads = {pkey: head_of(now) if (now := self.partition(pkey)) else None for pkey in given}
        return {pkey for pkey in given if heads[pkey] != left[pkey]}

    def _undo_partition(
        self, pkey: int, heads: tuple[Any, Any] | None, changed: list[list[Any]], until_s: float
    ) -> None:
        now = self.partition(pkey)
        head, held = (head_of(now), dict(now.members)) if now else (None, {})
        for guid, before, after in changed:
            if _row(held.get(guid)) != after:
                continue
            if before is None:
                held.pop(guid, None)
            else:
                held[guid] = Member(bool(before[0]), before[1])
        if heads is not None and head == heads[1]:
            head = heads[0]
        if head is not None:
            self.put(partition_of(pkey, head, held))
        elif now is not None and held:  # the partition stays because later changes added members
            self.put(now.with_members(held))
        elif now is not None:
            self.remove(pkey, until_s)


def _put(table: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _row(member: Member | None) -> list[Any] | None:
    return None if member is None else [int(member.full), member.host]


def _tenant(row: dict[str, Any] | None) -> Tenant | None:
    if row is None:
        return None
    ports = row.get("ports")
    return Tenant(**{**row, "ports": None if ports is None else tuple(ports)})


def _member_rows(pkey: int, old: Partition | None, new: Partition | None) -> Iterable[list[Any]]:
    before, after = old.members if old else {}, new.members if new else {}
    for guid in sorted(before.keys() | after.keys()):
        rows = _row(before.get(guid)), _row(after.get(guid))
        if rows[0] != rows[1]:
            yield [[pkey, guid_text(guid)], *rows]
