"""The state of an administrator between questions: the subnet of the last sweep, partition
memberships, cached tables, and what each requester may see (IBA 15.4.1.2).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softib.iba.sa import InformInfoRecord, LinkRecord, PathRecord, SaAttr, ServiceRecord
from softib.sm.managers.partitions import FULL, Members
from softib.sm.notices import Subscriptions
from softib.sm.sa.alias_guids import AliasGuids
from softib.sm.sa.inventory import Need
from softib.sm.sa.mcmember_record import Multicast
from softib.sm.sa.one_path import OnePath
from softib.sm.sa.path_record import Paths
from softib.sm.sa.service_record import Services
from softib.sm.sa.subnet import Subnet

__all__ = ["SaState", "Views"]


LID_AT = slice(0, 2)
"""Records of a port begin with its LID, but for those below."""


class Views:
    """The records that a requester may see: those of ports with which it shares a partition.

    Two ports share one as they do for packets: a P_Key of both, one of them a full member (10.9.3).
    Records of a switch are those of its port 0, a LinkRecord needs both ends, a path both ends. A
    request with the SM_Key is trusted and sees everything. OpenSM has the same rule, but shows
    external ports of a switch without a P_Key table to every requester. ``open``: all ports share a
    partition, and none is limited.
    """

    def __init__(self, subnet: Subnet, members: Members):
        self.subnet, self.members = subnet, members
        self.open = self._all_share()
        self._of_kind: dict[bytes, np.ndarray] = {}

    def _all_share(self) -> bool:
        everybody = (self.members.state & FULL).all(axis=1) if self.members.state.size else np.ones(1, bool)
        return bool(everybody.any())

    def ends(self, end: int) -> np.ndarray:
        """bool[ends]: which the requester ``end`` sees; an unknown one (-1) nobody."""
        n = len(self.subnet)
        if end < 0:
            return np.zeros(n, bool)
        kind = self.members.state[:, end].tobytes()
        seen = self._of_kind.get(kind)
        if seen is None:
            everybody = np.arange(n)
            seen = self.members.common(np.full(n, end), everybody, np.full(n, -1))[0] >= 0
            self._of_kind[kind] = seen
        if not seen[end]:  # a port is in no partition with another limited member, and sees itself
            seen = seen.copy()
            seen[end] = True
        return seen

    def pairs(self, end: np.ndarray, other: np.ndarray) -> np.ndarray:
        """bool[n]: does each requester see the other end?"""
        known = (end >= 0) & (other >= 0)
        shared = self.members.common(np.maximum(end, 0), np.maximum(other, 0), np.full(len(end), -1))[0] >= 0
        return known & (shared | (end == other))

    def filtered(self, attr: int, records: np.ndarray, end: int) -> np.ndarray:
        """The records (uint8[n, size]) of an attribute that the requester ``end`` sees."""
        if not len(records) or (self.open and end >= 0):
            return records
        return records[self._visible(attr, records, end)]

    def _visible(self, attr: int, records: np.ndarray, end: int) -> np.ndarray:
        seen = np.append(self.ends(end), False)  # the last row: nobody's
        of_lid = lambda lid: seen[self.subnet.end_of_lid[lid]]
        if attr == SaAttr.LINK_RECORD:
            return np.asarray(of_lid(LinkRecord.from_lid.get(records)) & of_lid(LinkRecord.to_lid.get(records)))
        if attr in (SaAttr.PATH_RECORD, SaAttr.MULTI_PATH_RECORD):
            return np.asarray(of_lid(PathRecord.slid.get(records)) & of_lid(PathRecord.dlid.get(records)))
        if attr == SaAttr.INFORM_INFO_RECORD:
            return np.asarray(seen[self.subnet.ends_of_gid(InformInfoRecord.fields["subscriber_gid"].get(records))])
        if attr == SaAttr.SERVICE_RECORD:
            pkeys, which = np.unique(ServiceRecord.fields["service_pkey"].get(records) & 0x7FFF, return_inverse=True)
            has = [end >= 0 and (pkey == 0 or self.members.has(end, int(pkey))) for pkey in pkeys.tolist()]
            return np.array(has, bool)[which]
        lid = np.ascontiguousarray(records[:, LID_AT]).view(">u2")[:, 0].astype(np.int64)
        return np.asarray(of_lid(lid))


class SaState:
    """``subnet`` is that of :meth:`refresh`, None before the first one.

    ``sm_info`` (gives uint8[64]) and ``other_managers`` (port of the database → SMInfo) are what
    SMInfoRecord tells. ``tables`` are records by attribute that stay until the next sweep, ``read``
    what devices answered.
    """

    def __init__(self, sa_key: int, multicast: Multicast, subscriptions: Subscriptions, services: Services):
        self.sa_key = sa_key
        self.multicast, self.subscriptions, self.services = multicast, subscriptions, services
        self.aliases = AliasGuids()
        self.subnet: Subnet | None = None
        self.members = Members.everybody(0)
        self.paths: Paths | None = None
        self.one_path: OnePath | None = None
        self.views: Views | None = None
        self.sm_info: Callable[[], np.ndarray] = lambda: np.zeros(64, np.uint8)
        self.other_managers: dict[int, np.ndarray] = {}
        self.tables: dict[int, np.ndarray] = {}
        self.read: dict[Need, np.ndarray] = {}

    def close(self) -> None:
        """Nobody's administrator."""
        self.subnet = self.paths = self.one_path = self.views = None
        self.members = Members.everybody(0)

    def learn(self, need: Need, table: np.ndarray) -> None:
        """What devices answered, until the next sweep."""
        self.read[need] = table

    def refresh(self, subnet: Subnet, members: Members) -> None:
        """A sweep ended: from now on this is the subnet."""
        self.subnet, self.members = subnet, members
        self.paths = Paths(subnet, members)
        self.views = Views(subnet, members)
        self.one_path = OnePath(subnet, members, self.views.open)
        self.renamed()
        self.tables.clear()
        self.read.clear()

    def renamed(self) -> None:
        """Alias GUIDs are others than before."""
        self.administered.alias_guid, self.administered.alias_owner = self.aliases.columns()
        self.tables.pop(int(SaAttr.GUID_INFO_RECORD), None)

    @property
    def administered(self) -> Subnet:
        """``subnet``, where there is one."""
        assert self.subnet is not None
        return self.subnet
