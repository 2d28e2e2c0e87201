"""Subscriptions (InformInfo) and the reports that subscribers get (IBA 13.4.11, 14.2.5.1, 15.4.2).

Subscriptions come as Set(InformInfo); every trap that reaches the manager, and the traps 64 to 67
that it raises itself, go out as Report(Notice) to every client with a matching subscription. A
report without an acknowledgement is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.iba.constants import GSI_QP, MgmtClass
from softib.iba.notice import Notice, TrapGid
from softib.iba.sa import SA_DATA, InformInfo, SaAttr, SaHeader, SaMethod, SaNotice
from softib.mad.batch import MadBatch
from softib.sm.journal import Journal, Kind, record_key

__all__ = ["Subscriptions", "gid_notice", "report"]

ALL, ALL_TYPES = 0xFFFF, 0xFFFFFF
CLASS_MANAGER = 4
SUBNET_MANAGEMENT = 3
GID_TRAPS = range(64, 68)


@dataclass(frozen=True)
class Subscription:
    """Where reports go (LID, QP) and of what (InformInfo, uint8[36]). ``gid`` is the subscriber's."""

    gid: tuple[int, int]
    lid: int
    qp: int
    inform: bytes

    @property
    def key(self) -> bytes:
        """Its name in the journal."""
        where = self.lid.to_bytes(2, "big"), self.qp.to_bytes(4, "big")
        return record_key(Kind.SUBSCRIPTION, *self.gid, *where, self.inform)


class Subscriptions:
    """Every subscription once, in the order in which they came."""

    def __init__(self, journal: Journal | None = None) -> None:
        self.journal = journal or Journal()
        self._all: dict[Subscription, None] = {}

    @property
    def all(self) -> list[Subscription]:
        """In the order in which they came."""
        return list(self._all)

    def clear(self) -> None:
        """Forget them all."""
        self._all.clear()

    def add(self, new: Subscription) -> None:
        """Subscribing twice is subscribing once."""
        if new not in self._all:
            self._all[new] = None
            self.journal.note(new.key)

    def has(self, one: Subscription) -> bool:
        """Is it there?"""
        return one in self._all

    def remove(self, old: Subscription) -> bool:
        """False where there was none."""
        if old not in self._all:
            return False
        del self._all[old]
        self.journal.note(old.key)
        return True

    def remove_ports(self, guids: set[int]) -> None:
        """Subscribers that left the subnet."""
        for left in [s for s in self.all if s.gid[1] in guids]:
            self.remove(left)

    def wanted_by(self, notice: np.ndarray, issuer: tuple[int, int]) -> list[Subscription]:
        """Whose subscription matches a Notice (uint8[64]) of this issuer."""
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
    """uint8[64]: 64 GID in service, 65 out of service, 66 group created, 67 deleted; ``lid`` is the
    manager's."""
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
    """Report MADs of one notice, a row for each of ``to``."""
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
