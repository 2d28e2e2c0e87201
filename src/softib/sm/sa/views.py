"""The records that a requester may see (IBA 15.4.1.2): those of ports with which it shares a partition.

Two ports share one as they do for packets: a P_Key of both, one of them a full member (10.9.3).
Records of a switch are those of its port 0, a LinkRecord needs both ends, a path both ends. A
request with the SM_Key is trusted and sees everything. OpenSM has the same rule, but shows external
ports of a switch without a P_Key table to every requester.
"""

from __future__ import annotations

import numpy as np

from softib.iba.sa import InformInfoRecord, LinkRecord, PathRecord, SaAttr, ServiceRecord
from softib.sm.managers.partitions import FULL, Members
from softib.sm.sa.subnet import Subnet

__all__ = ["Views"]


LID_AT = slice(0, 2)
"""Records of a port begin with its LID, but for those below."""


class Views:
    """Of one subnet and its partitions. ``open``: all ports share a partition, and none is limited."""

    def __init__(self, subnet: Subnet, members: Members):
        self.subnet, self.members = subnet, members
        full = (members.state & FULL).all(axis=1) if members.state.size else np.ones(1, bool)
        self.open = bool(full.any())
        self._of_kind: dict[bytes, np.ndarray] = {}

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
