"""A master's side of replication: a full copy to each standby that asks, then what changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from softib.iba.constants import Method
from softib.iba.vendor.replication import RECORDS_ATTR, ReplicaFlag, ReplicaHead, ReplicaStatus
from softib.mad.batch import MadBatch
from softib.sm.replication.messages import Record, packed, request

__all__ = ["Sender"]


@dataclass
class _Standby:
    lid: int
    copy: int
    sequence: int = 0
    outstanding: int = 0


class Sender:
    """``local_guid`` and ``sm_key`` stand in every MAD. Standbys are by PortGUID."""

    def __init__(self, sm_key: int):
        self.sm_key = sm_key
        self.standbys: dict[int, _Standby] = {}

    def begin(self, local_guid: int, guid: int, lid: int, copy: int, records: Iterable[Record]) -> list[MadBatch]:
        """A full copy for the standby ``guid`` at ``lid``; ``copy`` is larger than the number of
        any before."""
        self.standbys[guid] = one = _Standby(lid, copy)
        parts = list(packed(records)) or [b""]
        last = len(parts) - 1
        flags = [ReplicaFlag.FIRST * (i == 0) | ReplicaFlag.LAST * (i == last) for i in range(len(parts))]
        return [self._one(local_guid, one, octets, f) for octets, f in zip(parts, flags, strict=True)]

    def changed(self, local_guid: int, records: list[Record]) -> list[tuple[int, MadBatch]]:
        """(standby's PortGUID, MAD) for each standby and as many MADs as the records need."""
        parts = list(packed(records))
        return [(g, self._one(local_guid, one, octets, 0)) for g, one in self.standbys.items() for octets in parts]

    def in_step(self, guid: int, copy: int, sequence: int) -> bool:
        """Does this standby have, or is on its way to it, all that was sent?"""
        one = self.standbys.get(guid)
        return one is not None and (one.outstanding > 0 or (one.copy, one.sequence) == (copy, sequence))

    def over(self, guid: int, copy: int, status: int) -> None:
        """A MAD of ``copy`` was answered with ``status``, or (-1) by nobody: such a standby gets no
        more until it asks."""
        one = self.standbys.get(guid)
        if one is None or one.copy != copy:
            return
        one.outstanding -= 1
        if status != ReplicaStatus.TAKEN:
            del self.standbys[guid]

    def ready(self, guid: int) -> bool:
        """Has this standby acknowledged everything, or is it none?"""
        one = self.standbys.get(guid)
        return one is None or not one.outstanding

    def _one(self, local_guid: int, one: _Standby, octets: bytes, flags: int) -> MadBatch:
        head = ReplicaHead.pack(
            sm_key=self.sm_key, guid=local_guid, copy=one.copy, sequence=one.sequence, octets=len(octets), flags=flags
        )
        one.sequence += 1
        one.outstanding += 1
        return request(Method.SET, RECORDS_ATTR, one.lid, head, octets)
