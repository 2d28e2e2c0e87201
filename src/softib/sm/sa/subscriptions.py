"""Subscriptions (InformInfo), and the reports to subscribers (IBA 13.4.11, 14.2.5.1, 15.4.2).

A client subscribes with Set(InformInfo). The manager sends a Report(Notice) to every client with a
matching subscription, for each trap that it receives, and for traps 64 to 67, which it raises
itself. A report that is not acknowledged is sent again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.iba.constants import GSI_QP, LID_UCAST_MAX, MgmtClass
from softib.iba.notice import Notice, TrapGid
from softib.iba.sa import SA_DATA, InformInfo, InformInfoRecord, SaAttr, SaHeader, SaMethod, SaNotice, SaStatus
from softib.mad.batch import MadBatch
from softib.sm.journal import Journal, Kind, record_key
from softib.sm.sa.message import Answer, Request
from softib.sm.sa.subnet import Subnet

__all__ = ["Subscriptions", "gid_notice", "inform_table", "report", "subscribe"]

ALL, ALL_TYPES = 0xFFFF, 0xFFFFFF
CLASS_MANAGER = 4
SUBNET_MANAGEMENT = 3
GID_TRAPS = range(64, 68)


@dataclass(frozen=True)
class Subscription:
    """The destination of reports (LID, QP), and the events that are reported (InformInfo,
    uint8[36]). ``gid`` is that of the subscriber."""

    gid: tuple[int, int]
    lid: int
    qp: int
    inform: bytes

    @property
    def key(self) -> bytes:
        """Key of the subscription in the journal."""
        where = self.lid.to_bytes(2, "big"), self.qp.to_bytes(4, "big")
        return record_key(Kind.SUBSCRIPTION, *self.gid, *where, self.inform)


class Subscriptions:
    """All subscriptions, each once, in the order of arrival."""

    def __init__(self, journal: Journal | None = None) -> None:
        self.journal = journal or Journal()
        self._all: dict[Subscription, None] = {}

    @property
    def all(self) -> list[Subscription]:
        """Return all subscriptions in the order of arrival."""
        return list(self._all)

    def clear(self) -> None:
        """Remove all subscriptions."""
        self._all.clear()

    def add(self, new: Subscription) -> None:
        """Add a subscription; a repeated one counts once."""
        if new not in self._all:
            self._all[new] = None
            self.journal.note(new.key)

    def has(self, one: Subscription) -> bool:
        """Return whether the subscription exists."""
        return one in self._all

    def remove(self, old: Subscription) -> bool:
        """Remove a subscription. Return False if there was no such subscription."""
        if old not in self._all:
            return False
        del self._all[old]
        self.journal.note(old.key)
        return True

    def remove_ports(self, guids: set[int]) -> None:
        """Remove subscribers that left the subnet."""
        for left in [s for s in self.all if s.gid[1] in guids]:
            self.remove(left)

    def wanted_by(self, notice: np.ndarray, issuer: tuple[int, int]) -> list[Subscription]:
        """Return the subscribers whose subscription matches a Notice (uint8[64]) of this issuer."""
        n = {f.name: int(f.get(notice)) for f in Notice.named() if f.count == 1}
        gid = issuer
        if n["is_generic"] and n["trap_number"] in GID_TRAPS:
            about = TrapGid.gid.get(Notice.data_details.get(notice))
            gid = int(about[0]), int(about[1])
        return [s for s in self.all if _matches(s, n, gid)]


def _matches(s: Subscription, n: dict[str, int], gid: tuple[int, int]) -> bool:
    w = InformInfo.unpack(s.inform)
    if (
        w["is_generic"] != n["is_generic"]
        or w["type"] not in (ALL, n["type"])
        or w["trap_number"] not in (ALL, n["trap_number"])
    ):
        return False
    if w["producer_type"] not in (ALL_TYPES, n["producer_type"]):
        return False
    if any(w["gid"]):
        return tuple(w["gid"]) == gid
    begin, end = w["lid_range_begin"], w["lid_range_end"]
    return begin in (0, ALL) or begin <= n["issuer_lid"] <= max(begin, end)


def gid_notice(trap: int, gid: tuple[int, int], lid: int) -> np.ndarray:
    """Return a notice (uint8[64]) of trap 64 (GID in service), 65 (GID out of service), 66 (group
    created) or 67 (group deleted). ``lid`` is the manager's LID."""
    details = TrapGid.pack(gid=np.array(gid, np.uint64))
    return Notice.pack(
        is_generic=1,
        type=SUBNET_MANAGEMENT,
        producer_type=CLASS_MANAGER,
        trap_number=trap,
        issuer_lid=lid,
        data_details=details,
    )


def report(notice: np.ndarray, issuer: tuple[int, int], to: list[Subscription]) -> MadBatch:
    """Return the Report MADs of one notice, one row for each of ``to``."""
    batch = MadBatch.zeros(len(to))
    batch.dlid[:] = [s.lid for s in to]
    batch.slid[:] = 0
    batch.dqp[:], batch.sqp[:] = [s.qp for s in to], GSI_QP
    batch.mad[:, :SA_DATA] = SaHeader.pack(
        base_version=1,
        mgmt_class=int(MgmtClass.SUBN_ADM),
        class_version=2,
        method=int(SaMethod.REPORT),
        attr_id=int(SaAttr.NOTICE),
        attr_offset=SaNotice.size // 8,
    )
    batch.mad[:, SA_DATA : SA_DATA + SaNotice.size] = SaNotice.pack(
        notice=notice, issuer_gid=np.array(issuer, np.uint64)
    )
    return batch


SECURITY_TRAPS = range(256, 260)
ALL_LIDS, MULTICAST = 0xFFFF, 0xFF
INFORM_AT = InformInfoRecord.fields["gid"].byte


def subscribe(subnet: Subnet, subscriptions: Subscriptions, r: Request, sees: np.ndarray | None = None) -> Answer:
    """Handle Set(InformInfo): the requester subscribes or unsubscribes. Reports go to the QP from which it came.

    Only trusted requesters can subscribe to security traps, because these contain keys (IBA
    14.2.5.1). ``sees`` bool[ends]: the ends that the requester may see (None: all). As in OpenSM, a
    subscription is rejected if its GID or range of LIDs includes a port that the requester may not
    see.
    """
    inform = r.data[: InformInfo.size].copy()
    wants, qpn = int(InformInfo.subscribe.get(inform)), int(InformInfo.qpn.get(inform))
    if r.end < 0 or wants > 1:
        return Answer(SaStatus.REQ_INVALID)
    if not r.trusted and not _may_hear(subnet, inform, r.end, sees):
        return Answer(SaStatus.REQ_INVALID)
    if (
        int(InformInfo.is_generic.get(inform))
        and int(InformInfo.trap_number.get(inform)) in SECURITY_TRAPS
        and not r.trusted
    ):
        return Answer(SaStatus.REQ_DENIED)
    qp = r.qp if wants or not qpn else qpn
    key = inform.copy()
    InformInfo.subscribe.set(key, 1)
    InformInfo.qpn.set(key, qp)
    gid = (subnet.config.subnet_prefix, int(subnet.end_guid[r.end]))
    one = Subscription(gid, r.lid, qp, key.tobytes())
    if wants:
        subscriptions.add(one)
    elif not subscriptions.remove(one):
        return Answer(SaStatus.REQ_INVALID)
    return Answer(records=np.concatenate([inform, np.zeros(4, np.uint8)])[None])


def _may_hear(subnet: Subnet, inform: np.ndarray, end: int, sees: np.ndarray | None) -> bool:
    """Return whether the requester may see the issuer that the subscription names, or every port in
    its range of LIDs. LID 0xffff means all ports; only notices of those that the requester may see
    are then reported."""
    gid = np.asarray(InformInfo.gid.get(inform), np.uint64)
    if gid.any():
        if int(gid[0]) >> 56 == MULTICAST:
            return True  # the GID of a multicast group, of traps 66 and 67
        issuers = subnet.ends_of_gid(gid[None])
        return sees is None or bool(sees[issuers[issuers >= 0]].all())  # a GID that no port has yet is accepted
    begin, last = int(InformInfo.lid_range_begin.get(inform)), int(InformInfo.lid_range_end.get(inform))
    if begin in (0, ALL_LIDS):
        return True
    if max(begin, last) > LID_UCAST_MAX:
        return False
    issuers = np.unique(subnet.end_of_lid[begin : max(begin, last) + 1])
    issuers = issuers[issuers >= 0]
    return sees is None or bool(sees[issuers].all())


def inform_table(subscriptions: Subscriptions) -> np.ndarray:
    """Return the subscriptions (uint8[subscriptions, 64]). ``enum`` numbers the subscriptions of
    one subscriber from 0."""
    out = InformInfoRecord.zeros(len(subscriptions.all))
    seen: dict[tuple[int, int], int] = {}
    for row, s in zip(out, subscriptions.all, strict=True):
        InformInfoRecord.subscriber_gid.set(row, np.array(s.gid, np.uint64))
        InformInfoRecord.enum.set(row, seen.get(s.gid, 0))
        seen[s.gid] = seen.get(s.gid, 0) + 1
        row[INFORM_AT : INFORM_AT + InformInfo.size] = np.frombuffer(s.inform, np.uint8)
    return out
