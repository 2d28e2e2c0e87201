"""Numbers that the specification fixes. The comment or docstring of each group states the
section."""

from __future__ import annotations

from enum import IntEnum, IntFlag

# -- addresses (IBA 4.1.3) --
LID_NONE = 0
LID_UCAST_MAX = 0xBFFF
"""Highest unicast LID. There are 49,151 unicast LIDs, including those that LMC adds."""
LID_MCAST_MIN = 0xC000
LID_MCAST_MAX = 0xFFFE
LID_PERMISSIVE = 0xFFFF
LFT_NO_ROUTE = 255
LFT_BLOCK = 64
"""Number of LIDs in a LinearForwardingTable block (IBA 14.2.5.10)."""
PKEY_BLOCK = 32
MFT_BLOCK = 32
MFT_PORTS = 16
GUID_BLOCK = 8
DEFAULT_PKEY = 0xFFFF
"""P_Key of the default partition with full membership (bit 15)."""
DEFAULT_GID_PREFIX = 0xFE80000000000000
MAX_SWITCH_PORTS = 254
MAX_HOPS = 63
"""Largest number of hops of a directed route (IBA 14.2.1.2)."""
SMI_QP, GSI_QP = 0, 1
"""QPs of subnet management and of all other management classes (IBA 3.9.4, 10.2.5)."""
MAD_SIZE = 256


class NodeType(IntEnum):
    """NodeInfo.NodeType (IBA 14.2.5.3)."""

    CA = 1
    SWITCH = 2
    ROUTER = 3


class PortState(IntEnum):
    """PortInfo.PortState (IBA 14.2.5.6)."""

    NO_CHANGE = 0
    DOWN = 1
    INIT = 2
    ARMED = 3
    ACTIVE = 4


class PhysState(IntEnum):
    """PortInfo.PortPhysicalState (IBA 14.2.5.6)."""

    NO_CHANGE = 0
    SLEEP = 1
    POLLING = 2
    DISABLED = 3
    TRAINING = 4
    LINK_UP = 5
    LINK_ERROR_RECOVERY = 6
    PHY_TEST = 7


class MgmtClass(IntEnum):
    """MADHeader.MgmtClass (IBA 13.4.4)."""

    SUBN_LID = 0x01
    SUBN_DR = 0x81
    SUBN_ADM = 0x03
    PERF = 0x04
    BM = 0x05
    DEV_MGT = 0x06
    DEV_ADM = 0x10
    BIS = 0x12
    VENDOR_MLNX = 0x0A
    SHARP = 0x0B
    SM_REPLICA = 0x0D
    CONG_CTRL = 0x21


VENDOR2_CLASSES = range(0x30, 0x50)
"""Vendor classes whose MADs carry an OUI and RMPP (IBA 13.4.4, 16.5)."""


class Method(IntEnum):
    """MADHeader.Method (IBA 13.4.5)."""

    GET = 0x01
    SET = 0x02
    SEND = 0x03
    TRAP = 0x05
    REPORT = 0x06
    TRAP_REPRESS = 0x07
    GET_TABLE = 0x12
    GET_RESP = 0x81


RESPONSE_BIT = 0x80
"""Bit of MADHeader.Method that is set in responses (IBA 13.4.5), except in a TrapRepress."""


DR_DIRECTION = 0x8000
"""Bit of MADHeader.Status in directed-route SMPs. It is set on the return path (IBA 14.2.1.2)."""


class MadStatus(IntEnum):
    """MADHeader.Status, low bits (IBA 13.4.7)."""

    OK = 0x0000
    BUSY = 0x0001
    REDIRECT = 0x0002
    BAD_VERSION = 0x0004
    BAD_METHOD = 0x0008
    BAD_ATTRIBUTE = 0x000C
    BAD_FIELD = 0x001C


class SmpAttr(IntEnum):
    """Attribute IDs of the subnet management class (IBA 14.2.5)."""

    NOTICE = 0x02
    NODE_DESC = 0x10
    NODE_INFO = 0x11
    SWITCH_INFO = 0x12
    GUID_INFO = 0x14
    PORT_INFO = 0x15
    PKEY_TABLE = 0x16
    SL2VL = 0x17
    VL_ARB = 0x18
    LFT = 0x19
    RFT = 0x1A
    MFT = 0x1B
    SM_INFO = 0x20
    PORT_INFO_EXT = 0x33
    MLNX_GENERAL_INFO = 0xFF17
    MLNX_AR_INFO = 0xFF20
    MLNX_AR_GROUP = 0xFF21
    MLNX_AR_LFT = 0xFF23
    MLNX_EXT_PORT_INFO = 0xFF90
    MLNX_VIRTUALIZATION_INFO = 0xFFB0
    MLNX_VPORT_INFO = 0xFFB1
    MLNX_VNODE_INFO = 0xFFB2
    MLNX_VPORT_STATE = 0xFFB3
    MLNX_VNODE_DESC = 0xFFB4
    MLNX_VPORT_GUID_INFO = 0xFFB5
    MLNX_VPORT_PKEY_TABLE = 0xFFB6
    MLNX_AR_GROUP_COPY = 0xFFBD
    MLNX_ROUTER_INFO = 0xFFD0
    MLNX_NEXT_HOPS = 0xFFD1
    MLNX_ADJACENT_SUBNETS = 0xFFD2


class CapMask(IntFlag):
    """PortInfo.CapabilityMask (IBA 14.2.5.6)."""

    IS_SM = 1 << 1
    NOTICE = 1 << 2
    TRAP = 1 << 3
    OPT_IPD = 1 << 4
    AUTO_MIGRATION = 1 << 5
    SL_MAPPING = 1 << 6
    MKEY_NVRAM = 1 << 7
    PKEY_NVRAM = 1 << 8
    LED_INFO = 1 << 9
    SM_DISABLED = 1 << 10
    SYS_IMAGE_GUID = 1 << 11
    PKEY_EXT_PORT_TRAP = 1 << 12
    EXTENDED_SPEEDS = 1 << 14
    CAP_MASK2 = 1 << 15
    COMM_MGMT = 1 << 16
    SNMP = 1 << 17
    REINIT = 1 << 18
    DEV_MGMT = 1 << 19
    VENDOR_CLASS = 1 << 20
    DR_NOTICE = 1 << 21
    CAP_MASK_NOTICE = 1 << 22
    BOOT_MGMT = 1 << 23
    LINK_ROUND_TRIP = 1 << 24
    CLIENT_REREGISTER = 1 << 25
    OTHER_LOCAL_CHANGES = 1 << 26
    LINK_SPEED_WIDTH_TABLE = 1 << 27
    VENDOR_SPECIFIC_MADS = 1 << 28
    MCAST_PKEY_TRAP_SUPPRESSION = 1 << 29
    MCAST_FDB_TOP = 1 << 30
    HIERARCHY_INFO = 1 << 31


SM_SUPPORTS_EXTENDED_SPEEDS = 1 << 31
"""Bit of the AttributeModifier of PortInfo: the requester supports the components for extended
speeds (IBA 14.2.5.6, SMSupportExtendedSpeeds)."""


class CapMask2(IntFlag):
    """PortInfo.CapabilityMask2 (IBA 14.2.5.6). From bit 10 on, numbers are those in Linux'
    ``include/rdma/ib_mad.h``."""

    SET_NODE_DESC = 1 << 0
    PORT_INFO_EXT = 1 << 1
    VIRTUALIZATION = 1 << 2
    SWITCH_PORT_STATE_TABLE = 1 << 3
    LINK_WIDTH_2X = 1 << 4
    LINK_SPEED_HDR = 1 << 5
    LINK_SPEED_NDR = 1 << 10
    EXTENDED_SPEEDS2 = 1 << 11
    LINK_SPEED_XDR = 1 << 12


# -- VLCap and OperationalVLs (PortInfo, IBA 14.2.5.6) --
CODE_OF_DATA_VLS = {1: 1, 2: 2, 4: 3, 8: 4, 15: 5}
