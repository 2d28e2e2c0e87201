"""The subnet administrator: it takes SA requests and returns answers (IBA 15.4). It has no I/O and
no clock. A malformed request gets a status, and never causes an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from softib.iba.constants import MadStatus
from softib.iba.sa import (
    SA_DATA,
    InformInfoRecord,
    LinkRecord,
    PathRecord,
    SaAttr,
    SaHeader,
    SaMethod,
    SaStatus,
    ServiceRecord,
)
from softib.iba.smp import METHOD_AT, VERSION_AT
from softib.mad.batch import MadBatch
from softib.sm.managers.partitions import FULL, Members
from softib.sm.sa.alias_guids import AliasGuids
from softib.sm.sa.fair_queue import FairQueue
from softib.sm.sa.inventory import Need
from softib.sm.sa.mcmember_record import Multicast
from softib.sm.sa.message import RESPONSE, Answer, Request, fill, fill_table, reply_to
from softib.sm.sa.methods import DGID_AT, MULTICAST_PREFIX, answer_of
from softib.sm.sa.one_path import OnePath
from softib.sm.sa.path_record import BIT, Paths
from softib.sm.sa.service_record import Services
from softib.sm.sa.subnet import Subnet
from softib.sm.sa.subscriptions import Subscriptions

__all__ = ["Administrator", "Deferred", "Views"]


LID_AT = slice(0, 2)
"""The LID is the first field of all records of ports except these."""


class Views:
    """The records that a requester may see (IBA 15.4.1.2): those of ports with which it has a
    partition in common.

    The rule is that for packets: both ports have a P_Key of the partition, and at least one of them
    is a full member (10.9.3). Records of a switch are visible if those of its port 0 are. A
    LinkRecord or a path is visible if both ends are. A request with the SM_Key is trusted: its
    sender sees all records. OpenSM has the same rule, but shows records of external switch ports
    without a P_Key table to every requester. ``open``: all ports are full members of a common
    partition, so every requester sees all records.
    """

    def __init__(self, subnet: Subnet, members: Members):
        self.subnet, self.members = subnet, members
        self._for_all = np.zeros(0, bool)
        self.open = not members.state.size
        self._of_kind: dict[bytes, np.ndarray] = {}
        self.repartition(np.arange(len(members.pkey)))

    def repartition(self, rows: np.ndarray) -> None:
        """Update the memberships in ``rows``, which have changed."""
        if self.members.state.size:
            self._for_all = np.resize(self._for_all, len(self.members.pkey))
            self._for_all[rows] = (self.members.state[rows] & FULL).all(axis=1)
            self.open = bool(self._for_all.any())
        self._of_kind.clear()

    def ends(self, end: int) -> np.ndarray:
        """Return bool[ends]: the ends visible to the requester ``end``; an unknown requester (-1) sees none."""
        n = len(self.subnet)
        if end < 0:
            return np.zeros(n, bool)
        kind = self.members.state[:, end].tobytes()
        seen = self._of_kind.get(kind)
        if seen is None:
            seen = self.members.common(np.full(n, end), np.arange(n), np.full(n, -1))[0] >= 0
            self._of_kind[kind] = seen
        if not seen[end]:  # a limited member that has no partition in common with itself can see itself
            seen = seen.copy()
            seen[end] = True
        return seen

    def pairs(self, end: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return bool[n]: whether each requester sees the other end."""
        both = (end >= 0) & (other >= 0)
        shared = self.members.common(np.maximum(end, 0), np.maximum(other, 0), np.full(len(end), -1))[0] >= 0
        return both & (shared | (end == other))

    def filtered(self, attr: int, records: np.ndarray, end: int) -> np.ndarray:
        """Return the records (uint8[n, size]) of an attribute that the requester ``end`` may see."""
        if not len(records) or (self.open and end >= 0):
            return records
        return records[self._visible(attr, records, end)]

    def _visible(self, attr: int, records: np.ndarray, end: int) -> np.ndarray:
        seen = np.append(self.ends(end), False)  # the last row stands for unassigned LIDs
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


H = SaHeader
A, M, E = SaAttr, SaMethod, SaStatus
SA_CLASS_VERSION = 2
STATUS = H.status.byte


class Deferred(NamedTuple):
    """A query (a batch with one row), and the tables of devices that must be read before it can be
    answered."""

    need: Need
    request: MadBatch


class Administrator:
    """Answers requests about the subnet that the last :meth:`refresh` set (``subnet``). Before the
    first refresh, requests get BUSY.

    ``sm_info`` (a function that returns uint8[64]) and ``other_managers`` (port of the database →
    SMInfo) are the content of SMInfoRecords. ``tables`` are records by attribute that stay valid
    until the next sweep; ``read`` are those that were read from devices.
    """

    def __init__(self, sa_key: int, multicast: Multicast, subscriptions: Subscriptions, services: Services):
        self.sa_key = sa_key
        self.multicast: Multicast = multicast
        self.subscriptions: Subscriptions = subscriptions
        self.services: Services = services
        self.aliases: AliasGuids = AliasGuids()
        self.queue = FairQueue()
        self.deferred: list[Deferred] = []
        """Queries of the last batch that wait for tables of devices."""
        self.subnet: Subnet | None = None
        self.members: Members = Members.of_default(0)
        self.paths: Paths | None = None
        self.one_path: OnePath | None = None
        self.views: Views | None = None
        self.sm_info: Callable[[], np.ndarray] = lambda: np.zeros(64, np.uint8)
        self.other_managers: dict[int, np.ndarray] = {}
        self.tables: dict[int, np.ndarray] = {}
        self.read: dict[Need, np.ndarray] = {}

    # -- the subnet --

    def close(self) -> None:
        """Stop the service, because this manager is no longer the master."""
        self.subnet = self.paths = self.one_path = self.views = None
        self.members = Members.of_default(0)

    def refresh(self, subnet: Subnet, members: Members) -> None:
        """Use ``subnet`` for all later requests. Called after a sweep."""
        self.subnet, self.members = subnet, members
        self.paths = Paths(subnet, members)
        self.views = Views(subnet, members)
        self.one_path = OnePath(subnet, members, self.views.open)
        self.renamed()
        self.tables.clear()
        self.read.clear()

    def repartition(self, rows: np.ndarray) -> None:
        """Update the memberships in ``rows``, which have changed. Other stored answers stay
        valid."""
        assert self.views is not None and self.one_path is not None
        self.views.repartition(rows)
        self.one_path.use(self.members, self.views.open)
        self.read.clear()

    def renamed(self) -> None:
        """Discard stored answers that depend on alias GUIDs, because these have changed."""
        self.administered.alias_guid, self.administered.alias_owner = self.aliases.columns()
        self.tables.pop(int(SaAttr.GUID_INFO_RECORD), None)

    @property
    def administered(self) -> Subnet:
        """Return ``subnet``, which must exist."""
        assert self.subnet is not None
        return self.subnet

    # -- batches --

    def answer(self, requests: MadBatch, now_ps: int) -> MadBatch:
        """Answer SA requests (IBA 15.4.1) in their order. A request with a wrong SM_Key is not
        answered."""
        if len(requests) == 1 and self.one_path and (reply := self.one_path.reply(requests, self.sa_key)) is not None:
            return reply
        key = H.sm_key.get(requests.mad)
        fits = (key == 0) | (key == np.uint64(self.sa_key))
        if not fits.all():
            requests = requests[fits]
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
                self.deferred.append(Deferred(answer.wait, requests[i : i + 1]))
                answered[i] = False
                continue
            long = self._write(answer, int(requests.mad[i, METHOD_AT]), reply.mad[i])
            if long is not None:
                payload[i] = long
        reply.payload = payload or None
        return reply if answered.all() else reply[answered]

    def busy(self, requests: MadBatch) -> MadBatch:
        """Return answers with status BUSY ("try again", IBA 13.4.7) to requests for which the queue
        has no space."""
        reply = reply_to(requests)
        H.status.set(reply.mad, int(MadStatus.BUSY))
        return reply

    def _path_gets(self, requests: MadBatch, out: np.ndarray) -> np.ndarray:
        """Answer all Get(PathRecord) that name both ends at once. Return their rows."""
        assert self.paths is not None
        mad = requests.mad
        is_get = (
            (mad[:, METHOD_AT] == M.GET)
            & (H.attr_id.get(mad) == A.PATH_RECORD)
            & (mad[:, VERSION_AT] == SA_CLASS_VERSION)
        )
        if not is_get.any():
            return np.zeros(0, np.int64)
        rows = np.flatnonzero(is_get)
        mask = H.comp_mask.get(mad[rows])
        both = ((mask & (BIT["sgid"] | BIT["slid"])) > 0) & ((mask & (BIT["dgid"] | BIT["dlid"])) > 0)
        both &= ~(((mask & BIT["dgid"]) > 0) & (mad[rows, SA_DATA + DGID_AT] == MULTICAST_PREFIX))
        rows, mask = rows[both], mask[both]
        if not len(rows):
            return rows
        q = np.ascontiguousarray(mad[rows, SA_DATA : SA_DATA + 64])
        source, target, status = self.paths.ends(q, mask)
        status[~self._sees(requests, rows, source, target) & (status == 0)] = E.NO_RECORDS
        good = np.flatnonzero(status == 0)
        records, there = self.paths.gets(q[good], mask[good], source[good], target[good])
        status[good[~there]] = E.NO_RECORDS
        out[rows, STATUS], out[rows, STATUS + 1] = status >> 8, status & 255
        done = rows[good[there]]
        out[done, SA_DATA : SA_DATA + 64] = records[there]
        out[done, H.attr_offset.byte + 1] = PathRecord.size // 8
        return rows

    def _sees(self, requests: MadBatch, rows: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return bool[n]: whether the requester of each row may see the path between these ends."""
        assert self.views is not None
        end = self.administered.end_of_lid[requests.slid[rows]].astype(np.int64)
        if self.views.open:
            return end >= 0
        trusted = (H.sm_key.get(requests.mad[rows]) == np.uint64(self.sa_key)) & (self.sa_key != 0)
        return np.asarray(trusted | (self.views.pairs(end, source) & self.views.pairs(end, target)))

    def _one(self, requests: MadBatch, row: int, now_ps: int) -> Answer:
        mad = requests.mad[row]
        method, attr = int(mad[METHOD_AT]), int(H.attr_id.get(mad))
        if int(mad[VERSION_AT]) != SA_CLASS_VERSION or int(mad[0]) != 1:
            return Answer(MadStatus.BAD_VERSION)
        if method not in RESPONSE:
            return Answer(MadStatus.BAD_METHOD)
        data = mad[SA_DATA:]
        if requests.payload and row in requests.payload:
            data = np.frombuffer(requests.payload[row], np.uint8)[SA_DATA:]
        lid = int(requests.slid[row])
        request = Request(
            method=method,
            attr=attr,
            modifier=int(H.attr_mod.get(mad)),
            comp_mask=int(H.comp_mask.get(mad)),
            data=data,
            trusted=self.sa_key != 0 and int(H.sm_key.get(mad)) == self.sa_key,
            lid=lid,
            qp=int(requests.sqp[row]),
            end=int(self.administered.end_of_lid[lid]),
            now_ps=now_ps,
        )
        return self._seen(answer_of(self, request), request)

    def _seen(self, answer: Answer, r: Request) -> Answer:
        """Return the part of an answer that the requester may see. Multicast groups have a separate
        rule, and a requester always sees the result of its own changes."""
        if answer.records is None or r.trusted or self.views is None or r.method not in ASKING or r.attr in SEEN_BY_ALL:
            return answer
        if r.attr == A.PATH_RECORD and r.data[DGID_AT] == MULTICAST_PREFIX and np.uint64(r.comp_mask) & BIT["dgid"]:
            return answer
        return Answer(records=self.views.filtered(r.attr, answer.records, r.end))

    def _write(self, answer: Answer, method: int, out: np.ndarray) -> bytes | None:
        """Write an answer into its MAD; return the whole message if it is longer than a MAD."""
        if answer.status or answer.records is None:
            fill(out, answer.status)
        elif method not in (M.GET, M.SET, M.DELETE):
            self.queue.learned(int(H.attr_id.get(out)), len(answer.records))
            return fill_table(out, answer.records)
        elif len(answer.records) == 1:
            fill(out, 0, answer.records[0])
        else:
            fill(out, E.TOO_MANY_RECORDS if len(answer.records) else E.NO_RECORDS)
        return None


ASKING = (M.GET, M.GET_TABLE, M.GET_MULTI)
SEEN_BY_ALL = (A.CLASS_PORT_INFO, A.MC_MEMBER_RECORD)
