"""MADs of replication: made from records, and taken apart (:mod:`softib.iba.vendor.replication` has the
layout)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from softib.iba.constants import GSI_QP, RESPONSE_BIT, Method, MgmtClass
from softib.iba.smp import METHOD_AT, MadHeader
from softib.iba.vendor.replication import HEAD_AT, RECORD_OCTETS, RECORDS_AT, REPLICA_CLASS_VERSION, ReplicaHead
from softib.mad.batch import MadBatch

__all__ = ["Record", "head_of", "packed", "reply", "request", "unpacked"]

Record = tuple[bytes, bytes | None]
"""Key and value of a record; None: it was deleted."""
DELETED = 255


def packed(records: Iterable[Record]) -> Iterator[bytes]:
    """Records one after the other, as many as fit into a MAD; a record is length of key, length of
    value (255: deleted), key, value."""
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
    """The records of a MAD; one that is cut off is left out."""
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
    """One request to the manager at ``lid``. ``head``: ReplicaHead (uint8[32])."""
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
    """Fields of the ReplicaHead of a MAD (uint8[256])."""
    return {name: int(value) for name, value in ReplicaHead.unpack(mad[HEAD_AT:RECORDS_AT]).items()}


def reply(query: MadBatch, head: np.ndarray) -> MadBatch:
    """The answer to a batch of one."""
    out = query.copy()
    out.mad[0, METHOD_AT] = int(Method.GET_RESP) | RESPONSE_BIT
    out.mad[0, HEAD_AT:RECORDS_AT], out.mad[0, RECORDS_AT:] = head, 0
    out.dlid, out.slid, out.dqp, out.sqp = query.slid.copy(), query.dlid.copy(), query.sqp.copy(), query.dqp.copy()
    return out
