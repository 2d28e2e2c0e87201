"""Replication between subnet managers: vendor class 0x0d (IBA 13.4.4 leaves 0x09 to 0x0f to
vendors).

IBA 14.4 lets managers elect a master, but does not define how a standby gets the master's state.
**Class, attributes and layouts are softib's own**: no other manager supports them. Class version 1,
GMPs on QP 1, no RMPP. Bytes 24-31 are the SM_Key.

A standby reads its master's sequence number with Get(ReplicaState). The master then sends its
records with Set(ReplicaRecords): all of them once, later only changes. Each MAD has the next
sequence number, and the standby acknowledges it.
"""

from __future__ import annotations

from enum import IntEnum

from softib.iba.structure import Structure, field

__all__ = [
    "HEAD_AT",
    "RECORDS_AT",
    "RECORD_OCTETS",
    "REPLICA_CLASS_VERSION",
    "ReplicaFlag",
    "ReplicaHead",
    "ReplicaStatus",
]

REPLICA_CLASS_VERSION = 1
HEAD_AT, RECORDS_AT = 24, 56
RECORD_OCTETS = 256 - RECORDS_AT
"""Bytes of records in one MAD."""
STATE_ATTR, RECORDS_ATTR = 0x10, 0x11
"""Attribute IDs of ReplicaState and ReplicaRecords. Both begin with a :class:`ReplicaHead`; in the
second, records follow it."""


class ReplicaFlag(IntEnum):
    """``flags`` of ReplicaRecords."""

    FIRST = 1  # this MAD begins a full copy
    LAST = 2  # this MAD ends the full copy


class ReplicaStatus(IntEnum):
    """``state`` of an answer."""

    TAKEN = 0
    REFUSED = 1  # the receiver is not a standby, or waits for a full copy
    NO_MASTER = 2  # the request was for its state, but the receiver is no master


class ReplicaHead(Structure, size=32, section="softib's own"):
    """Bytes 24-55 of every MAD of the class."""

    sm_key = field(64, "SM_Key; a manager with another one gets no answer")
    guid = field(64, "PortGUID of the sending manager")
    copy = field(64, "number of the full copy that the records belong to, 0 = none")
    sequence = field(
        32, "of ReplicaRecords: its number since the full copy began; of ReplicaState: the next one expected"
    )
    octets = field(16, "octets of records")
    flags = field(8, "1 the full copy begins, 2 it ends")
    state = field(8, "of an answer: 0 accepted, 1 refused, 2 no master")
