"""Transfer of records: the MADs (with the layout in :mod:`softib.iba.vendor.replication`), the
master that sends them, and the standby's copy.

A standby gets a full copy on request, then changes. Each MAD takes effect once and in order, even
if MADs are lost or duplicated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from softib.iba.constants import GSI_QP, RESPONSE_BIT, Method, MgmtClass
from softib.iba.smp import METHOD_AT, MadHeader
from softib.iba.vendor.replication import (
    HEAD_AT,
    RECORD_OCTETS,
    RECORDS_AT,
    RECORDS_ATTR,
    REPLICA_CLASS_VERSION,
    ReplicaFlag,
    ReplicaHead,
    ReplicaStatus,
)
from softib.mad.batch import MadBatch
from softib.sm.replication.records import Copied, copied

__all__ = ["Record", "Replica", "Sender", "head_of", "packed", "reply", "request", "unpacked"]

Record = tuple[bytes, bytes | None]
"""Key and value of a record; None if it was deleted."""
DELETED = 255


def packed(records: Iterable[Record]) -> Iterator[bytes]:
    """Pack as many records as fit into a MAD. A record is: length of key, length of value (255:
    deleted), key, value."""
    part = bytearray()
    for key, value in records:
        body = value or b""
        if len(part) + 2 + len(key) + len(body) > RECORD_OCTETS:
            yield bytes(part)
            part.clear()
        part += bytes((len(key), DELETED if value is None else len(body))) + key + body
    if part:
        yield bytes(part)


def unpacked(octets: bytes) -> Iterator[Record]:
    """Return the records of a MAD; a truncated one is ignored."""
    at = 0
    while at + 2 <= len(octets):
        n, m = octets[at], octets[at + 1]
        removed = m == DELETED
        end = at + 2 + n + (0 if removed else m)
        if end > len(octets) or not n:
            return
        yield octets[at + 2 : at + 2 + n], None if removed else octets[at + 2 + n : end]
        at = end


def request(method: Method, attr: int, lid: int, head: np.ndarray, records: bytes = b"") -> MadBatch:
    """Return one request to the manager at ``lid``. ``head``: ReplicaHead (uint8[32])."""
    batch = MadBatch.zeros(1)
    mad = batch.mad[0]
    mad[: MadHeader.size] = MadHeader.pack(
        base_version=1,
        mgmt_class=int(MgmtClass.SM_REPLICA),
        class_version=REPLICA_CLASS_VERSION,
        method=int(method),
        attr_id=attr,
    )
    mad[HEAD_AT:RECORDS_AT] = head
    mad[RECORDS_AT : RECORDS_AT + len(records)] = np.frombuffer(records, np.uint8)
    batch.dlid[:], batch.slid[:] = lid, 0
    batch.dqp[:] = batch.sqp[:] = GSI_QP
    return batch


def head_of(mad: np.ndarray) -> dict[str, int]:
    """Return fields of the ReplicaHead of a MAD (uint8[256])."""
    return {name: int(value) for name, value in ReplicaHead.unpack(mad[HEAD_AT:RECORDS_AT]).items()}


def reply(query: MadBatch, head: np.ndarray) -> MadBatch:
    """Return the answer to a batch of one."""
    out = query.copy()
    out.mad[0, METHOD_AT] = int(Method.GET_RESP) | RESPONSE_BIT
    out.mad[0, HEAD_AT:RECORDS_AT], out.mad[0, RECORDS_AT:] = head, 0
    out.dlid, out.slid, out.dqp, out.sqp = query.slid.copy(), query.dlid.copy(), query.sqp.copy(), query.dqp.copy()
    return out


@dataclass
class _Standby:
    lid: int
    copy: int
    sequence: int = 0
    outstanding: int = 0


class Sender:
    """Sends a master's records. ``local_guid`` and ``sm_key`` are in every MAD. ``standbys`` are
    keyed by PortGUID. ``without`` are the PortGUIDs of managers that did not accept a copy, and
    have not requested one since."""

    def __init__(self, sm_key: int):
        self.sm_key = sm_key
        self.standbys: dict[int, _Standby] = {}
        self.without: set[int] = set()

    def begin(self, local_guid: int, guid: int, lid: int, copy: int, records: Iterable[Record]) -> list[MadBatch]:
        """Start a full copy for the standby ``guid`` at ``lid``; ``copy`` is larger than all earlier numbers."""
        self.standbys[guid] = one = _Standby(lid, copy)
        self.without.discard(guid)
        parts = list(packed(records)) or [b""]
        last = len(parts) - 1
        flags = [ReplicaFlag.FIRST * (i == 0) | ReplicaFlag.LAST * (i == last) for i in range(len(parts))]
        return [self._one(local_guid, one, octets, f) for octets, f in zip(parts, flags, strict=True)]

    def changed(self, local_guid: int, records: list[Record]) -> list[tuple[int, MadBatch]]:
        """Return (standby's PortGUID, MAD) for each standby and each MAD needed for the records."""
        parts = list(packed(records))
        return [(g, self._one(local_guid, one, octets, 0)) for g, one in self.standbys.items() for octets in parts]

    def in_step(self, guid: int, copy: int, sequence: int) -> bool:
        """Return whether this standby has received all MADs that were sent, or will have when those
        in flight arrive."""
        one = self.standbys.get(guid)
        return one is not None and (one.outstanding > 0 or (one.copy, one.sequence) == (copy, sequence))

    def over(self, guid: int, copy: int, status: int) -> None:
        """Record the answer ``status`` to a MAD of ``copy``, or -1 if there was no answer. The
        standby then gets no MADs until it requests a copy."""
        one = self.standbys.get(guid)
        if one is None or one.copy != copy:
            return
        one.outstanding -= 1
        if status != ReplicaStatus.TAKEN:
            del self.standbys[guid]
            self.without.add(guid)

    def forget(self) -> None:
        """Remove all standbys."""
        self.standbys.clear()
        self.without.clear()

    def ready(self, guid: int) -> bool:
        """Return whether this standby has acknowledged all MADs, or the GUID is not that of a
        standby."""
        one = self.standbys.get(guid)
        return one is None or not one.outstanding

    def _one(self, local_guid: int, one: _Standby, octets: bytes, flags: int) -> MadBatch:
        head = ReplicaHead.pack(
            sm_key=self.sm_key, guid=local_guid, copy=one.copy, sequence=one.sequence, octets=len(octets), flags=flags
        )
        one.sequence += 1
        one.outstanding += 1
        return request(Method.SET, RECORDS_ATTR, one.lid, head, octets)


AHEAD = 4096
"""Maximum number of MADs that are stored while a previous one is missing."""


class Replica:
    """A standby's copy. ``guid``: the manager to which the records belong. ``copy``: that manager's
    number of the full copy. ``sequence``: number of the next MAD of this copy.

    The previous copy is kept while a new full copy arrives. ``complete``: there is a full copy.
    """

    def __init__(self) -> None:
        self.guid = self.copy = self.sequence = 0
        self.complete = False
        self._of = 0  # manager of the complete records
        self._records: dict[bytes, tuple[bytes, int]] = {}
        self._incoming: dict[bytes, tuple[bytes, int]] = {}
        self._waiting: dict[int, tuple[int, bytes, int]] = {}

    def keep(self, guid: int, records: dict[bytes, tuple[bytes, int]]) -> None:
        """Keep the records that this manager had as master, in case its heir ``guid`` stops before
        it has sent a copy of them."""
        self.__init__()  # type: ignore[misc]
        self._records, self._of, self.complete = records, guid, True

    def take(self, head: dict[str, int], octets: bytes, now_ps: int) -> ReplicaStatus:
        """Store the records of one MAD. Return the status for the answer."""
        source = head["guid"], head["copy"]
        if source != (self.guid, self.copy):
            if source[0] == self.guid and source[1] < self.copy:
                return ReplicaStatus.REFUSED  # a delayed MAD of an older copy
            self.guid, self.copy = source
            self.sequence = 0
            self._incoming, self._waiting = {}, {}
        number = head["sequence"]
        if number < self.sequence:
            return ReplicaStatus.TAKEN  # a repetition
        if number != self.sequence and len(self._waiting) >= AHEAD:
            return ReplicaStatus.REFUSED
        self._waiting[number] = head["flags"], octets, now_ps
        while self.sequence in self._waiting:
            self._apply(*self._waiting.pop(self.sequence))
            self.sequence += 1
        return ReplicaStatus.TAKEN

    def _apply(self, flags: int, octets: bytes, came_ps: int) -> None:
        for key, value in unpacked(octets):
            self._incoming.pop(key, None)
            if value is not None:
                self._incoming[key] = value, came_ps
        if flags & ReplicaFlag.LAST:
            self._records, self._of, self.complete = self._incoming, self.guid, True

    def of(self, guid: int) -> Copied | None:
        """Return the records of this manager, None without a full copy of them."""
        return copied(self._records) if self.complete and self._of == guid else None

    @property
    def in_step(self) -> bool:
        """Return whether the copy that is being received is complete."""
        return self.complete and self._records is self._incoming
