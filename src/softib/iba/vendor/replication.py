"""Replication between subnet managers, in vendor class 0x0d (IBA 13.4.4 reserves 0x09 to 0x0f for
vendors).

IBA 14.4 defines how managers elect a master, but not how a standby gets the master's state. **The
class, attributes and layouts are defined by softib**: no other manager supports them. The class
version is 1. MADs are GMPs on QP 1, without RMPP. Bytes 24-31 are the SM_Key.

A standby reads the sequence number of its master with Get(ReplicaState). The master then sends its
records with Set(ReplicaRecords): first a copy of all records, later only changes. Each of these
MADs has the next sequence number, and the standby acknowledges it.
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
"""Number of bytes for records in one MAD."""
STATE_ATTR, RECORDS_ATTR = 0x10, 0x11
"""Attribute IDs of ReplicaState and ReplicaRecords. Both begin with a :class:`ReplicaHead`. In
ReplicaRecords, the records follow it."""


class ReplicaFlag(IntEnum):
    """Values of ``flags`` in ReplicaRecords."""

    FIRST = 1  # this MAD begins a full copy
    LAST = 2  # this MAD ends the full copy


class ReplicaStatus(IntEnum):
    """Values of ``state`` in an answer."""

    TAKEN = 0
    REFUSED = 1  # the receiver is not a standby, or needs a full copy first
    NO_MASTER = 2  # the state was requested from a manager that is not the master


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
