"""Takes SA requests, gives answers (IBA 15.4). No I/O, no clock; fuzzed requests get a status, never an exception.

Kinds of records that are plain tables stand in ``_KINDS``; those with methods of their own in ``_METHODS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softib.iba.constants import MadStatus
from softib.iba.sa import (
    SA_DATA,
    GUIDInfoRecord,
    InformInfoRecord,
    LFTRecord,
    LinkRecord,
    MFTRecord,
    NodeRecord,
    PathRecord,
    PortInfoRecord,
    SaAttr,
    SaHeader,
    SaMethod,
    SaStatus,
    SMInfoRecord,
    SwitchInfoRecord,
)
from softib.iba.structure import Structure
from softib.mad.batch import MadBatch
from softib.sm.inventory import READ_FROM_DEVICES, Need
from softib.sm.notices import Subscriptions
from softib.sm.sa import guid_info, inform_info, lft, link, mft, node, port_info, sminfo, switch_info
from softib.sm.sa.class_port_info import class_port_info
from softib.sm.sa.fair_queue import FairQueue
from softib.sm.sa.match import matching, selected_components
from softib.sm.sa.mcmember import Multicast
from softib.sm.sa.members import Members
from softib.sm.sa.message import RESPONSE, fill, fill_table, reply_to
from softib.sm.sa.multipath import multi_path
from softib.sm.sa.one_path import OnePath
from softib.sm.sa.path import ANY, BIT, NUMB_PATH_DEFAULT, Paths, path_to_group
from softib.sm.sa.request import Answer, Request
from softib.sm.sa.service import Services
from softib.sm.sa.subnet import Subnet
from softib.sm.sa.view import Views

__all__ = ["Administrator"]

H = SaHeader
A, M, E = SaAttr, SaMethod, SaStatus
SA_CLASS_VERSION = 2
MULTICAST_PREFIX = 0xFF
STATUS = H.status.byte
LID_BIT = 1
"""LID is the first component of every record that is read from devices."""


@dataclass(frozen=True)
class _Kind:
    """A kind of record that is a table: how it is made, whether it stays the same until the next sweep, and what only
    the trusted read (``denied``: all of it; ``hidden``: these fields)."""

    record: type[Structure]
    table: Callable[[Administrator, Request], np.ndarray]
    lasting: bool = True
    denied: bool = False
    hidden: tuple[str, ...] = ()


class Administrator:
    """Answers for the subnet that :meth:`refresh` got last; before the first one requests get BUSY.

    ``sm_info`` (gives uint8[64]) and ``other_managers`` (port of the database → SMInfo) are what SMInfoRecord tells.
    """

    def __init__(self, sa_key: int, multicast: Multicast, subscriptions: Subscriptions, services: Services):
        self.sa_key = sa_key
        self.multicast, self.subscriptions, self.services = multicast, subscriptions, services
        self.subnet: Subnet | None = None
        self.members = Members.everybody(0)
        self.paths: Paths | None = None
        self.one_path: OnePath | None = None
        self.views: Views | None = None
        self.sm_info: Callable[[], np.ndarray] = lambda: np.zeros(64, np.uint8)
        self.other_managers: dict[int, np.ndarray] = {}
        self.queue = FairQueue()
        self.deferred: list[tuple[Need, MadBatch]] = []
        """Questions of the last batch that need tables of devices."""
        self._tables: dict[int, np.ndarray] = {}
        self._read: dict[Need, np.ndarray] = {}

    def close(self) -> None:
        """Nobody's administrator."""
        self.subnet = self.paths = self.one_path = self.views = None
        self.members = Members.everybody(0)

    def learn(self, need: Need, table: np.ndarray) -> None:
        """What devices answered, until the next sweep."""
        self._read[need] = table

    def refresh(self, subnet: Subnet, members: Members) -> None:
        """A sweep ended: from now on this is the subnet."""
        self.subnet, self.members = subnet, members
        self.paths = Paths(subnet, members)
        self.views = Views(subnet, members)
        self.one_path = OnePath(subnet, members, self.views.open)
        self._tables.clear()
        self._read.clear()

    # -- batches --

    def answer(self, requests: MadBatch, now_ps: int) -> MadBatch:
        """Answers to requests of the class (IBA 15.4.1), in their order. A wrong SM_Key is met with silence."""
        if len(requests) == 1 and self.one_path and (reply := self.one_path.reply(requests, self.sa_key)) is not None:
            return reply
        key = H.sm_key.get(requests.mad)
        known = (key == 0) | (key == np.uint64(self.sa_key))
        if not known.all():
            requests = requests[known]
        if not len(requests):
            return MadBatch.zeros(0)
        if self.subnet is None:
            return self.busy(requests)
        reply = reply_to(requests)
        todo = np.ones(len(requests), bool)
        todo[self._path_gets(requests, reply.mad)] = False
        payload: dict[int, bytes] = {}
        answered = np.ones(len(requests), bool)
        for i in np.flatnonzero(todo).tolist():
            answer = self._one(requests, i, now_ps)
            if answer.wait is not None:
                self.deferred.append((answer.wait, requests[i : i + 1]))
                answered[i] = False
                continue
            long = self._write(answer, int(requests.mad[i, 3]), reply.mad[i])
            if long is not None:
                payload[i] = long
        reply.payload = payload or None
        return reply if answered.all() else reply[answered]

    def busy(self, requests: MadBatch) -> MadBatch:
        """The answers to requests that found no room: ask again (IBA 13.4.7)."""
        reply = reply_to(requests)
        H.status.set(reply.mad, int(MadStatus.BUSY))
        return reply

    def _path_gets(self, requests: MadBatch, out: np.ndarray) -> np.ndarray:
        """Answer every Get(PathRecord) that names both ends, all at once; returns their rows."""
        assert self.paths is not None
        mad = requests.mad
        is_get = (
            (mad[:, 3] == M.GET) & (mad[:, 16] == 0) & (mad[:, 17] == A.PATH_RECORD) & (mad[:, 2] == SA_CLASS_VERSION)
        )
        if not is_get.any():
            return np.zeros(0, np.int64)
        rows = np.flatnonzero(is_get)
        mask = H.comp_mask.get(mad[rows])
        both = ((mask & (BIT["sgid"] | BIT["slid"])) > 0) & ((mask & (BIT["dgid"] | BIT["dlid"])) > 0)
        both &= ~(((mask & BIT["dgid"]) > 0) & (mad[rows, SA_DATA + 8] == MULTICAST_PREFIX))
        rows, mask = rows[both], mask[both]
        if not len(rows):
            return rows
        q = np.ascontiguousarray(mad[rows, SA_DATA : SA_DATA + 64])
        source, target, status = self.paths.ends(q, mask)
        status[~self._sees(requests, rows, source, target) & (status == 0)] = E.NO_RECORDS
        good = np.flatnonzero(status == 0)
        records, found = self.paths.gets(q[good], mask[good], source[good], target[good])
        status[good[~found]] = E.NO_RECORDS
        out[rows, STATUS], out[rows, STATUS + 1] = status >> 8, status & 255
        done = rows[good[found]]
        out[done, SA_DATA : SA_DATA + 64] = records[found]
        out[done, H.attr_offset.byte + 1] = PathRecord.size // 8
        return rows

    def _sees(self, requests: MadBatch, rows: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """bool[n]: may the requester of each row see the path between these ends?"""
        assert self.views is not None
        end = _of(self).end_of_lid[requests.slid[rows]].astype(np.int64)
        if self.views.open:
            return end >= 0
        trusted = (H.sm_key.get(requests.mad[rows]) == np.uint64(self.sa_key)) & (self.sa_key != 0)
        return np.asarray(trusted | (self.views.pairs(end, source) & self.views.pairs(end, target)))

    def _one(self, requests: MadBatch, row: int, now_ps: int) -> Answer:
        mad = requests.mad[row]
        method, attr = int(mad[3]), int(H.attr_id.get(mad))
        if int(mad[2]) != SA_CLASS_VERSION or int(mad[0]) != 1:
            return Answer(MadStatus.BAD_VERSION)
        if method not in RESPONSE:
            return Answer(MadStatus.BAD_METHOD)
        data = mad[SA_DATA:]
        if requests.payload and row in requests.payload:
            data = np.frombuffer(requests.payload[row], np.uint8)[SA_DATA:]
        lid = int(requests.slid[row])
        request = Request(
            method, attr, int(H.attr_mod.get(mad)), int(H.comp_mask.get(mad)), data,
            self.sa_key != 0 and int(H.sm_key.get(mad)) == self.sa_key, lid, int(requests.sqp[row]),
            int(_of(self).end_of_lid[lid]), now_ps,
        )  # fmt: skip
        return self._seen(self._answer(request), request)

    def _seen(self, answer: Answer, r: Request) -> Answer:
        """The part of an answer that the requester may see. Groups have a rule of their own, and what it did itself is its own."""
        if answer.records is None or r.trusted or self.views is None or r.method not in ASKING or r.attr in SEEN_BY_ALL:
            return answer
        if r.attr == A.PATH_RECORD and r.data[8] == MULTICAST_PREFIX and np.uint64(r.comp_mask) & BIT["dgid"]:
            return answer
        return Answer(records=self.views.filtered(r.attr, answer.records, r.end))

    def _write(self, answer: Answer, method: int, out: np.ndarray) -> bytes | None:
        """Put an answer into its MAD; returns the whole message where it is longer."""
        if answer.status or answer.records is None:
            fill(out, answer.status)
        elif method in (M.GET, M.SET, M.DELETE):
            self._single(answer.records, out)
        else:
            self.queue.learned(int(H.attr_id.get(out)), len(answer.records))
            return fill_table(out, answer.records)
        return None

    def _single(self, records: np.ndarray, out: np.ndarray) -> None:
        if len(records) == 1:
            fill(out, 0, records[0])
        else:
            fill(out, E.TOO_MANY_RECORDS if len(records) else E.NO_RECORDS)

    # -- one request --

    def _answer(self, r: Request) -> Answer:
        if r.attr in READ_FROM_DEVICES:
            return self._from_devices(r)
        methods = _METHODS.get(r.attr)
        if methods is not None:
            function = methods.get(r.method)
            return function(self, r) if function else Answer(MadStatus.BAD_ATTRIBUTE)
        kind = _KINDS.get(r.attr)
        if kind is None or r.method not in (M.GET, M.GET_TABLE):
            return Answer(MadStatus.BAD_ATTRIBUTE)
        return self._from_table(kind, r)

    def _from_table(self, kind: _Kind, r: Request) -> Answer:
        if kind.denied and not r.trusted:
            return Answer(E.REQ_INVALID)
        if kind.lasting:
            if r.attr not in self._tables:
                self._tables[r.attr] = kind.table(self, r)
            table = self._tables[r.attr]
        else:
            table = kind.table(self, r)
        query = r.data[: kind.record.size]
        pre, skip = None, frozenset[str]()
        if kind.record is PortInfoRecord:
            pre, skip = port_info.bits_match(table, r.comp_mask, query, r.modifier)
        some = table if pre is None else table[pre]
        rows = matching(kind.record, some, r.comp_mask, query, skip)
        records = some[rows]
        if not r.trusted:
            for name in kind.hidden:
                kind.record.fields[name].set(records, 0)
        return Answer(records=records)

    def _from_devices(self, r: Request) -> Answer:
        if r.method not in (M.GET, M.GET_TABLE):
            return Answer(MadStatus.BAD_ATTRIBUTE)
        if r.attr == A.PKEY_RECORD and not r.trusted:
            return Answer(
                E.REQ_INVALID
            )  # OpenSM's answer; those of a shared partition could be answered (IBA 15.4.1.2)
        record = READ_FROM_DEVICES[r.attr].record
        lid = int(record.fields["lid"].get(r.data)) if r.comp_mask & LID_BIT else 0
        table = self._read.get(Need(r.attr, lid), self._read.get(Need(r.attr)))
        if table is None:
            return Answer(wait=Need(r.attr, lid))
        query = r.data[: record.size]
        if (
            r.attr == A.PKEY_RECORD
        ):  # the request has the most significant byte first, the answer the least: see the inventory
            query = query.copy()
            query[2:4] = query[3:1:-1].copy()
        rows = matching(record, table, r.comp_mask, query)
        ports = PORT_COMPONENTS & set(selected_components(record, r.comp_mask))
        if ports:  # a CA port is the LID's own: which number is asked matters for switches only (OpenSM's rule, too)
            others = matching(record, table, r.comp_mask, query, frozenset(ports))
            end = _of(self).end_of_lid[record.fields["lid"].get(table[others])]
            db = _of(self).db
            rows = np.union1d(rows, others[~db.is_switch[_of(self).end_node[end]]])
        return Answer(records=table[rows])

    def _class_port_info(self, r: Request) -> Answer:
        return Answer(records=class_port_info()[None])

    def _multi_path(self, r: Request) -> Answer:
        assert self.paths is not None
        return multi_path(_of(self), self.paths, r)

    def _path(self, r: Request) -> Answer:
        assert self.paths is not None
        if np.uint64(r.comp_mask) & BIT["dgid"] and r.data[8] == MULTICAST_PREFIX:
            return self._path_to_group(r)
        q, mask = r.data[None, :64], np.array([r.comp_mask], np.uint64)
        source, target, status = self.paths.ends(q, mask)
        if status[0]:
            nobody = r.method == M.GET_TABLE and status[0] != E.REQ_INVALID
            return Answer(records=PathRecord.zeros(0)) if nobody else Answer(int(status[0]))
        most = NUMB_PATH_DEFAULT if r.method == M.GET_TABLE else 1
        if r.method == M.GET_TABLE and mask[0] & BIT["numb_path"]:
            most = int(PathRecord.numb_path.get(q[0])) or most
        if r.method == M.GET and ANY in (source[0], target[0]) and len(self.subnet or ()) > 1:
            return Answer(E.REQ_INSUFFICIENT_COMPONENTS)
        records = self.paths.table(q, mask, int(source[0]), int(target[0]), most)
        return Answer(E.NO_RESOURCES) if records is None else Answer(records=records)

    def _path_to_group(self, r: Request) -> Answer:
        """A path to a multicast GID: the group's MLID and levels."""
        assert self.paths is not None
        group = self.multicast.groups.groups.get(r.data[8:24].tobytes())
        if group is None or not (r.trusted or (r.end >= 0 and self.members.has(r.end, group.pkey & 0x7FFF))):
            return Answer(records=PathRecord.zeros(0))
        mask = np.array([r.comp_mask], np.uint64) & ~(BIT["dgid"] | BIT["dlid"])
        source, _, status = self.paths.ends(r.data[None, :64], mask)
        if status[0] or source[0] == ANY:
            return Answer(int(status[0]) or E.REQ_INSUFFICIENT_COMPONENTS)
        return Answer(records=path_to_group(_of(self), group, int(source[0]))[None])

    def _sm_info(self) -> np.ndarray:
        assert self.subnet is not None
        return sminfo.table(self.subnet, self.sm_info(), self.other_managers)


ASKING = (M.GET, M.GET_TABLE, M.GET_MULTI)
SEEN_BY_ALL = (A.CLASS_PORT_INFO, A.MC_MEMBER_RECORD)
PORT_COMPONENTS = frozenset(("portnum", "in_port", "out_port"))

_KINDS: dict[int, _Kind] = {
    A.NODE_RECORD: _Kind(NodeRecord, lambda a, r: node.table(_of(a))),
    A.PORT_INFO_RECORD: _Kind(PortInfoRecord, lambda a, r: port_info.table(_of(a)), hidden=("mkey",)),
    A.SWITCH_INFO_RECORD: _Kind(SwitchInfoRecord, lambda a, r: switch_info.table(_of(a))),
    A.LFT_RECORD: _Kind(LFTRecord, lambda a, r: lft.table(_of(a))),
    A.SM_INFO_RECORD: _Kind(SMInfoRecord, lambda a, r: a._sm_info(), lasting=False),
    A.LINK_RECORD: _Kind(LinkRecord, lambda a, r: link.table(_of(a))),
    A.GUID_INFO_RECORD: _Kind(GUIDInfoRecord, lambda a, r: guid_info.table(_of(a))),
    A.MFT_RECORD: _Kind(MFTRecord, lambda a, r: mft.table(_of(a), a.multicast.groups), lasting=False),
    A.INFORM_INFO_RECORD: _Kind(InformInfoRecord, lambda a, r: inform_info.table(a.subscriptions), lasting=False),
}
"""Kinds of records that are tables, by attribute."""

_METHODS: dict[int, dict[int, Callable[[Administrator, Request], Answer]]] = {
    A.CLASS_PORT_INFO: {M.GET: Administrator._class_port_info},
    A.PATH_RECORD: {M.GET: Administrator._path, M.GET_TABLE: Administrator._path},
    A.MULTI_PATH_RECORD: {M.GET_MULTI: Administrator._multi_path},
    A.INFORM_INFO: {M.SET: lambda a, r: inform_info.subscribe(_of(a), a.subscriptions, r)},
    A.MC_MEMBER_RECORD: {
        M.SET: lambda a, r: a.multicast.join(_of(a), a.members, r),
        M.DELETE: lambda a, r: a.multicast.leave(_of(a), a.members, r),
        M.GET: lambda a, r: a.multicast.list(_of(a), a.members, r),
        M.GET_TABLE: lambda a, r: a.multicast.list(_of(a), a.members, r),
    },
    A.SERVICE_RECORD: {
        M.SET: lambda a, r: a.services.register(_of(a), a.members, r),
        M.DELETE: lambda a, r: a.services.delete(r),
        M.GET: lambda a, r: a.services.list(r),
        M.GET_TABLE: lambda a, r: a.services.list(r),
    },
}
"""Attributes with rules of their own: method → what answers."""


def _of(administrator: Administrator) -> Subnet:
    assert administrator.subnet is not None
    return administrator.subnet
