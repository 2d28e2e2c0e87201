"""The records that are replicated. Each is a key and a value, both bytes; :mod:`softib.sm.journal`
makes the keys.

A master collects records from its parts (:class:`Source`). A standby keeps the bytes that it
received; when it takes over, :func:`restore` turns them into groups, services and subscriptions.
All integers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from softib.iba.constants import GUID_BLOCK, LID_MCAST_MAX, LID_MCAST_MIN, LID_UCAST_MAX
from softib.iba.sa import ServiceRecord
from softib.sm.journal import Kind, record_key
from softib.sm.managers.lid_mgr import Lids
from softib.sm.managers.mcast_mgr import Group, Member
from softib.sm.managers.partitions import Partition
from softib.sm.managers.ucast_cache import EndLocations
from softib.sm.replication.long_records import (
    SlPieces,
    absent,
    partition_pieces,
    read_absent,
    read_partitions,
    read_sls,
)
from softib.sm.sa.alias_guids import AliasGuids
from softib.sm.sa.mcmember_record import Multicast
from softib.sm.sa.service_record import HEAD, NEVER_PS, PS_PER_S, Services
from softib.sm.sa.subscriptions import Subscription, Subscriptions
from softib.sm.sa_manager import SaRecords
from softib.sm.stores import Stores
from softib.sm.tables.sl_history import GivenSls

__all__ = ["Copied", "Source", "copied"]

GROUP = struct.Struct(">HIBBBHBBIB")
MEMBER = struct.Struct(">BB")
SERVICE_TAIL = struct.Struct(">IH")
LID = struct.Struct(">HHB")
WRITTEN = struct.Struct(">QH")
DIGEST = 8
MADE = struct.Struct(">I")
SUBSCRIPTION_HEAD = struct.Struct(">QQHI")
FOR_EVER = 0xFFFFFFFF
INFORM = 36


@dataclass
class Source:
    """The parts of a master from which its records are collected."""

    multicast: Multicast
    services: Services
    subscriptions: Subscriptions
    lids: Lids
    stores: Stores
    aliases: AliasGuids = field(default_factory=AliasGuids)
    partitions: Sequence[Partition] | None = None
    here: set[int] = field(default_factory=set)
    """PortGUIDs in the subnet."""
    now_ps: int = 0
    sl_pieces: SlPieces = field(default_factory=SlPieces)

    def all(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield every existing record."""
        for group in self.multicast.groups.groups.values():
            yield record_key(Kind.GROUP, group.mgid), _group(group)
            for guid, member in group.members.items():
                yield record_key(Kind.MEMBER, group.mgid, guid), MEMBER.pack(member.join_state, member.proxy)
        for name in self.services.records:
            yield record_key(Kind.SERVICE, name), self._service(name)
        for s in self.subscriptions.all:
            yield s.key, b""
        for guid, table in self.aliases.tables.items():
            for block in range(len(table) // GUID_BLOCK):
                if (entries := self.aliases.block(guid, block)) is not None:
                    yield record_key(Kind.ALIAS, guid, bytes((block,))), entries
        yield record_key(Kind.MADE), MADE.pack(self.multicast.made & 0xFFFFFFFF)
        yield from self.of_sweep().items()

    def of_sweep(self) -> dict[bytes, bytes]:
        """Return the records that change only with a sweep or with other settings."""
        here = self.here
        out = {record_key(Kind.LID, g): LID.pack(a, b, g in here) for g, (a, b) in self.lids.items()}
        # virtual ports without a LID
        out |= {record_key(Kind.LID, g): LID.pack(0, 0, True) for g in here - self.lids.keys()}
        out |= {record_key(Kind.MKEY, g): k.to_bytes(8, "big") for g, k in self.stores.mkeys.held.items() if k}
        out |= {record_key(Kind.ROOT, g): b"" for g in self.stores.lft.roots}
        if self.partitions is not None:
            out |= _numbered(Kind.PARTITIONS, partition_pieces(self.partitions))
        out |= _numbered(Kind.SLS, self.sl_pieces.of(self.stores.lft.sls))
        out |= {record_key(Kind.ABSENT, g): where for g, where in absent(self.stores.lft.locations, here)}
        for which, store in enumerate(self.stores.copied):
            head = bytes((which,))
            out |= {record_key(Kind.WRITTEN, head, WRITTEN.pack(*p)): d for p, d in store.digests().items()}
        return out

    def value(self, key: bytes) -> bytes | None:
        """Return the record with this key of the journal, None if it no longer exists."""
        kind, name = key[0], key[1:]
        if kind == Kind.GROUP:
            group = self.multicast.groups.groups.get(name)
            return None if group is None else _group(group)
        if kind == Kind.MEMBER:
            group = self.multicast.groups.groups.get(name[:16])
            member = None if group is None else group.members.get(int.from_bytes(name[16:], "big"))
            return None if member is None else MEMBER.pack(member.join_state, member.proxy)
        if kind == Kind.SERVICE:
            return self._service(name) if name in self.services.records else None
        if kind == Kind.SUBSCRIPTION:
            return b"" if self.subscriptions.has(_subscription(name)) else None
        if kind == Kind.ALIAS:
            return self.aliases.block(int.from_bytes(name[:8], "big"), name[8])
        if kind == Kind.MADE:
            return MADE.pack(self.multicast.made & 0xFFFFFFFF)
        return None

    def _service(self, name: bytes) -> bytes:
        record, ends_ps, lid = self.services.records[name]
        left = FOR_EVER if ends_ps == NEVER_PS else max(0, -(-(ends_ps - self.now_ps) // PS_PER_S))
        return record[HEAD:].tobytes() + SERVICE_TAIL.pack(left, lid)


@dataclass
class Copied(SaRecords):
    """Copied records, in the form that the manager uses. ``partitions`` is None if the master had
    no partitions file."""

    lids: Lids = field(default_factory=dict)
    roots: tuple[int, ...] = ()
    mkeys: dict[int, int] = field(default_factory=dict)
    partitions: Sequence[Partition] | None = None
    sls: GivenSls | None = None
    """SLs of paths; None if they are unknown."""
    absent: EndLocations = field(default_factory=EndLocations.none)
    """Locations of absent hosts."""
    written: dict[int, dict[tuple[int, int], bytes]] = field(default_factory=dict)
    """Number of the store (:attr:`softib.sm.stores.Stores.copied`) → (NodeGUID, attribute) → digest
    of the data written."""


def copied(records: dict[bytes, tuple[bytes, int]]) -> Copied:
    """Return ``records``: key → (value, time of arrival in ps). Damaged records are left out."""
    out, pieces, sls = Copied(), {}, {}
    away: list[tuple[int, bytes]] = []
    by_mgid: dict[bytes, Group] = {}
    for key, (value, came_ps) in records.items():
        kind, name = key[0], key[1:]
        if kind == Kind.GROUP and len(name) == 16 and len(value) == GROUP.size:
            group = Group(name, *GROUP.unpack(value))
            if LID_MCAST_MIN <= group.mlid <= LID_MCAST_MAX:
                by_mgid[name] = group
        elif kind == Kind.SERVICE and len(name) == HEAD and len(value) == ServiceRecord.size - HEAD + SERVICE_TAIL.size:
            left, lid = SERVICE_TAIL.unpack_from(value, ServiceRecord.size - HEAD)
            record = np.frombuffer(name + value[: ServiceRecord.size - HEAD], np.uint8).copy()
            out.services[name] = record, NEVER_PS if left == FOR_EVER else came_ps + left * PS_PER_S, lid
        elif kind == Kind.SUBSCRIPTION and len(name) == SUBSCRIPTION_HEAD.size + INFORM:
            out.subscriptions.append(_subscription(name))
        elif kind == Kind.LID and len(name) == 8 and len(value) == LID.size:
            _read_lid(int.from_bytes(name, "big"), value, out)
        elif kind == Kind.ROOT and len(name) == 8:
            out.roots += (int.from_bytes(name, "big"),)
        elif kind == Kind.MKEY and len(name) == len(value) == 8:
            out.mkeys[int.from_bytes(name, "big")] = int.from_bytes(value, "big")
        elif kind == Kind.ALIAS and len(name) == 9 and len(value) == 8 * GUID_BLOCK:
            out.aliases[int.from_bytes(name[:8], "big"), name[8]] = np.frombuffer(value, ">u8").astype(np.uint64)
        elif kind == Kind.MADE and len(value) == MADE.size:
            out.made = MADE.unpack(value)[0]
        elif kind == Kind.PARTITIONS and len(name) == 4:
            pieces[int.from_bytes(name, "big")] = value
        elif kind == Kind.SLS and len(name) == 4:
            sls[int.from_bytes(name, "big")] = value
        elif kind == Kind.ABSENT and len(name) == 8:
            away.append((int.from_bytes(name, "big"), value))
        elif kind == Kind.WRITTEN and len(name) == 1 + WRITTEN.size and len(value) == DIGEST:
            guid, attr = WRITTEN.unpack_from(name, 1)
            out.written.setdefault(name[0], {})[guid, attr] = value
    for key, (value, _) in records.items():
        if key[0] == Kind.MEMBER and key[1:17] in by_mgid and len(key) == 25 and len(value) == MEMBER.size:
            state, proxy = MEMBER.unpack(value)
            by_mgid[key[1:17]].members[int.from_bytes(key[17:], "big")] = Member(state, bool(proxy))
    out.groups = list(by_mgid.values())
    out.partitions = read_partitions([pieces[i] for i in sorted(pieces)])
    out.sls, out.absent = read_sls([sls[i] for i in sorted(sls)]), read_absent(away)
    return out


def _numbered(kind: Kind, pieces: list[bytes]) -> dict[bytes, bytes]:
    return {record_key(kind, i.to_bytes(4, "big")): piece for i, piece in enumerate(pieces)}


def _group(g: Group) -> bytes:
    return GROUP.pack(
        g.mlid, g.qkey, g.mtu, g.rate, g.packet_life_time, g.pkey, g.sl, g.tclass, g.flow_label, g.hop_limit
    )


def _read_lid(guid: int, value: bytes, out: Copied) -> None:
    first, last, here = LID.unpack(value)
    if 0 < first <= last <= LID_UCAST_MAX:
        out.lids[guid] = first, last
    if here and (guid in out.lids or not first):
        out.here.append(guid)


def _subscription(name: bytes) -> Subscription:
    prefix, guid, lid, qp = SUBSCRIPTION_HEAD.unpack_from(name)
    return Subscription((prefix, guid), lid, qp, name[SUBSCRIPTION_HEAD.size :])
