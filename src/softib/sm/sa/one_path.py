"""Answer a single Get(PathRecord), which a host sends for a connection. The result is the same as
that of :mod:`softib.sm.sa.path_record`, but is computed without columns.

An operation on a column of one element takes as long as one on hundreds; this would be three
quarters of the time of a single query. So plain queries are computed here with single numbers.
:mod:`softib.sm.sa.path_record` has the rules, and answers all other queries, including all with
errors.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from softib.iba.constants import MgmtClass
from softib.iba.sa import SA_DATA, PathRecord, SaAttr, SaHeader, SaMethod, mask_of
from softib.iba.smp import ATTR_AT
from softib.mad.batch import MadBatch
from softib.sm.kernels import walk
from softib.sm.managers.partitions import BASE, FULL, FULL_BIT, Members
from softib.sm.sa.message import short_reply
from softib.sm.sa.path_record import hops_table
from softib.sm.sa.subnet import LINK_LOCAL, RATE_OF_RANK, Subnet

__all__ = ["OnePath"]

_BIT = {n: mask_of(PathRecord, n) for n in ("dgid", "sgid", "dlid", "slid", "numb_path", "pkey", "reversible")}
DGID, SGID, DLID, SLID, PKEY = (_BIT[n] for n in ("dgid", "sgid", "dlid", "slid", "pkey"))
PLAIN = sum(_BIT.values())
"""Components of a plain query. NumbPath has no meaning in a Get, and all paths of this SA are
reversible."""
PATH_GET = bytes((1, int(MgmtClass.SUBN_ADM), 2, int(SaMethod.GET)))
"""BaseVersion, MgmtClass, ClassVersion, method."""
PATH_ATTRIBUTE = int(SaAttr.PATH_RECORD).to_bytes(2, "big")
SM_KEY, COMP_MASK = SaHeader.sm_key.byte, SaHeader.comp_mask.byte
_QUERY = struct.Struct(">8xQQQQHH6xH12x")
_RECORD = struct.Struct(">8xQQQQHH5xBHxBBBB7x")
REVERSIBLE, EXACTLY = 0x80, 0x80
MULTICAST_PREFIX = 0xFF


class OnePath:
    """Answers queries for one subnet and its partitions, from views of the same arrays that the
    columns use."""

    def __init__(self, subnet: Subnet, members: Members, open_view: bool = True):
        """``open_view``: all requesters may see every path. Otherwise only paths whose source or
        destination is the requester are answered here."""
        self.subnet = subnet
        self.use(members, open_view)
        self.prefix = subnet.config.subnet_prefix
        self.life = subnet.config.subnet_timeout

    def use(self, members: Members, open_view: bool) -> None:
        """Use ``members`` and ``open_view`` for later queries, after memberships changed."""
        self.open_view, self._members = open_view, members
        self.__dict__.pop("_partitions", None)

    @cached_property
    def _partitions(self) -> tuple[Any, list[int], list[int]]:
        """State, P_Keys and SLs of the memberships. They are listed at the first query after a
        change, because thousands of partitions may change many times a second."""
        members = self._members
        return _view(members.state), members.pkey.tolist(), members.sl.tolist()

    @cached_property
    def _end_of_guid(self) -> dict[int, int]:
        """End by GUID. A GUID that two ends have is left out, and its queries are answered with
        columns."""
        guid = self.subnet.end_guid
        _, first, count = np.unique(guid, return_index=True, return_counts=True)
        once = first[(count == 1) & (guid[first] != 0)]
        return dict(zip(guid[once].tolist(), once.tolist(), strict=True))

    @cached_property
    def _ends(self) -> tuple[Any, ...]:
        s = self.subnet
        return tuple(map(_view, (s.end_of_lid, s.end_lid, s.end_lmc, s.end_guid, s.end_port)))

    @cached_property
    def _walk_args(self) -> tuple[Any, ...]:
        """Arguments for :func:`~softib.sm.kernels.walk` for one path. They have the same types as
        those for columns, so that the kernel is not compiled again."""
        source, target = np.zeros(1, self.subnet.end_port.dtype), np.zeros(1, self.subnet.end_port.dtype)
        hops, mtu, rank = np.zeros(1, np.int16), np.zeros(1, np.uint8), np.zeros(1, np.uint8)
        return hops_table(self.subnet), source, target, np.zeros(1, np.int64), hops, mtu, rank

    @cached_property
    def _path_sl(self) -> Callable[[int, int], int] | None:
        """Return the engine's SL of a path between two ends; None if it leaves SLs to the partitions."""
        s = self.subnet
        if s.routing.path_sl is None:
            return None
        sls, row, end = _view(s.routing.path_sl), _view(s.path_sl_row), _view(s.graph_end)
        return lambda source, target: int(sls[row[source], end[target]])

    def reply(self, request: MadBatch, sa_key: int) -> MadBatch | None:
        """Return the answer to one MAD; None: use the columns."""
        mad = request.mad[0].tobytes()
        if mad[: len(PATH_GET)] != PATH_GET or mad[ATTR_AT : ATTR_AT + 2] != PATH_ATTRIBUTE:
            return None
        if int.from_bytes(mad[SM_KEY : SM_KEY + 8], "big") not in (0, sa_key):
            return None
        mask = int.from_bytes(mad[COMP_MASK : COMP_MASK + 8], "big")
        asks = int(self._ends[0][int(request.slid[0])])
        if asks < 0:
            return None
        record = self.get(mad[SA_DATA : SA_DATA + 64], mask, asks)
        return None if record is None else short_reply(request, mad, record)

    def get(self, question: bytes, mask: int, asks: int = -1) -> bytes | None:
        """Return the PathRecord (64 bytes) for a query and its component mask, from the requesting
        end ``asks``. None: the query must be answered with columns."""
        if mask & ~PLAIN or self.subnet.config.qos_policy is not None:
            return None
        dprefix, dguid, sprefix, sguid, dlid, slid, pkey = _QUERY.unpack(question)
        source = self._end(mask, SGID, sprefix, sguid, SLID, slid)
        target = self._end(mask, DGID, dprefix, dguid, DLID, dlid)
        if source < 0 or target < 0 or not (self.open_view or asks in (source, target)):
            return None
        _, end_lid, end_lmc, end_guid, end_port = self._ends
        if (not mask & SLID and end_lmc[source]) or (not mask & DLID and end_lmc[target]):
            return None
        slid = slid if mask & SLID else end_lid[source]
        dlid = dlid if mask & DLID else end_lid[target]
        shared = self._partition(source, target, pkey & BASE if mask & PKEY else -1)
        walked = self._walk(end_port[source], end_port[target], dlid)
        if shared is None or walked is None:
            return None
        sl = shared[1] if self._path_sl is None else self._path_sl(source, target)
        life = 0 if source == target else self.life
        return _RECORD.pack(
            self.prefix,
            end_guid[target],
            self.prefix,
            end_guid[source],
            dlid,
            slid,
            REVERSIBLE,
            shared[0],
            sl & 15,
            EXACTLY | walked[0],
            EXACTLY | int(RATE_OF_RANK[walked[1]]),
            EXACTLY | life,
        )

    def _end(self, mask: int, gid_bit: int, prefix: int, guid: int, lid_bit: int, lid: int) -> int:
        """Return the end that GID and LID name, -1 if they do not name the same one."""
        end = -1
        if mask & gid_bit:
            end = self._end_of_guid.get(guid, -1) if prefix in (self.prefix, LINK_LOCAL) else -1
            if end < 0:
                return -1
        if mask & lid_bit:
            owner: int = self._ends[0][lid]
            end = owner if not mask & gid_bit or owner == end else -1
        return end

    def _partition(self, source: int, target: int, wanted: int) -> tuple[int, int] | None:
        """Return P_Key and SL of the first partition that has both ends, at least one of them as a
        full member (IBA 10.9.3)."""
        state, pkeys, sls = self._partitions
        for row, base in enumerate(pkeys):
            of, at = state[row, source], state[row, target]
            if of and at and (of | at) & FULL and wanted in (-1, base):
                return base | (FULL_BIT if of & FULL else 0), sls[row]
        return None

    def _walk(self, p: int, d: int, dlid: int) -> tuple[int, int] | None:
        """Return the smallest MTU and rate on the path; None if there is no path."""
        table, source, target, lid, hops, mtu, rank = self._walk_args
        source[0], target[0], lid[0] = p, d, dlid
        walk(table, source, target, lid, hops, mtu, rank)
        return None if hops[0] < 0 else (int(mtu[0]), int(rank[0]))


def _view(array: np.ndarray) -> memoryview:
    """Return the elements as Python integers, which is five times as fast as NumPy's."""
    return np.ascontiguousarray(array).data
