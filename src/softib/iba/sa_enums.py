"""Enumerations of subnet administration and of RMPP: attributes, methods, statuses, capabilities
(IBA 13.6.2, 15.2, 15.4)."""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = [
    "RMPP_HEADER",
    "SA_DATA",
    "SA_DATA_OCTETS",
    "JoinState",
    "RmppFlag",
    "RmppType",
    "SaAttr",
    "SaCapMask",
    "SaCapMask2",
    "SaMethod",
    "SaStatus",
    "Selector",
]

SA_DATA = 56
"""Offset of the record in an SA MAD (IBA 15.2.1.1)."""
SA_DATA_OCTETS = 200
RMPP_HEADER = 24
"""Offset of the RMPP header in a MAD (IBA 13.6.2)."""


class SaAttr(IntEnum):
    """Attribute IDs of the subnet administration class (IBA 15.2.5, table 188)."""

    CLASS_PORT_INFO = 0x01
    NOTICE = 0x02
    INFORM_INFO = 0x03
    NODE_RECORD = 0x11
    PORT_INFO_RECORD = 0x12
    SL2VL_RECORD = 0x13
    SWITCH_INFO_RECORD = 0x14
    LFT_RECORD = 0x15
    RFT_RECORD = 0x16
    MFT_RECORD = 0x17
    SM_INFO_RECORD = 0x18
    LINK_RECORD = 0x20
    GUID_INFO_RECORD = 0x30
    SERVICE_RECORD = 0x31
    PKEY_RECORD = 0x33
    PATH_RECORD = 0x35
    VL_ARB_RECORD = 0x36
    MC_MEMBER_RECORD = 0x38
    TRACE_RECORD = 0x39
    MULTI_PATH_RECORD = 0x3A
    SERVICE_ASSOCIATION_RECORD = 0x3B
    INFORM_INFO_RECORD = 0xF3


class SaMethod(IntEnum):
    """Methods of the class (IBA 15.2.2)."""

    GET = 0x01
    SET = 0x02
    REPORT = 0x06
    GET_TABLE = 0x12
    GET_TRACE_TABLE = 0x13
    GET_MULTI = 0x14
    DELETE = 0x15
    GET_RESP = 0x81
    REPORT_RESP = 0x86
    GET_TABLE_RESP = 0x92
    GET_MULTI_RESP = 0x94
    DELETE_RESP = 0x95


class SaStatus(IntEnum):
    """MADHeader.Status of subnet administration. The code is in bits 8-15 (IBA 15.2.2, table
    187)."""

    OK = 0x0000
    NO_RESOURCES = 0x0100
    REQ_INVALID = 0x0200
    NO_RECORDS = 0x0300
    TOO_MANY_RECORDS = 0x0400
    REQ_INVALID_GID = 0x0500
    REQ_INSUFFICIENT_COMPONENTS = 0x0600
    REQ_DENIED = 0x0700


class SaCapMask(IntFlag):
    """ClassPortInfo.CapabilityMask of SA (IBA 15.2.5.1). Bit 1 has the same meaning in every class
    (13.4.8.1)."""

    NOTICE = 1 << 1
    OPTIONAL_RECORDS = 1 << 8
    UD_MULTICAST = 1 << 9
    MULTI_PATH = 1 << 10
    REINIT = 1 << 11
    GID_SCOPED_MCAST_PARTITION = 1 << 12
    PORT_INFO_CAP_MASK_MATCH = 1 << 13


class SaCapMask2(IntFlag):
    """ClassPortInfo.CapabilityMask2 of SA, with bit numbers as in OpenSM's ``ib_types.h`` and
    Linux' ``ib_sa.h``."""

    QOS = 1 << 1
    REVERSE_PATH = 1 << 2
    MCAST_FDB_TOP = 1 << 3
    HIERARCHY_INFO = 1 << 4
    ALIAS_GUIDS = 1 << 5
    FULL_PORT_INFO = 1 << 6
    EXTENDED_SPEEDS = 1 << 7
    MULTICAST_SERVICE = 1 << 8
    PORT_INFO_CAP_MASK2_MATCH = 1 << 10
    SEND_ONLY_FULL_MEMBER = 1 << 12


class Selector(IntEnum):
    """Values of MTUSelector, RateSelector and PacketLifeTimeSelector (IBA 15.2.5.16)."""

    GREATER = 0
    LESS = 1
    EXACTLY = 2
    LARGEST = 3


class JoinState(IntFlag):
    """MCMemberRecord.JoinState (IBA 15.2.5.17). Bit 3 is from an annex to release 1.3
    (``SENDONLY_FULLMEMBER_JOIN`` in Linux)."""

    FULL = 1
    NON = 2
    SEND_ONLY = 4
    SEND_ONLY_FULL = 8


class RmppType(IntEnum):
    """RMPPType (IBA 13.6.2.1)."""

    NONE = 0
    DATA = 1
    ACK = 2
    STOP = 3
    ABORT = 4


class RmppFlag(IntFlag):
    """RMPPFlags (IBA 13.6.2.1)."""

    ACTIVE = 1
    FIRST = 2
    LAST = 4
