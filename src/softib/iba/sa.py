"""Subnet administration: its MAD header, its records, and which bit of a component mask means what (IBA 15.2).

``COMPONENTS[Record][bit]`` is the name of the field that component-mask bit ``bit`` selects, None where the component is
reserved. The numbers are those that clients use (rdma-core ``ib_sa.h``/OpenSM's ``ib_types.h``, which follow the order of
components in the tables of IBA 15.2.5): a component that was split later kept its old bit.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

from softib.iba import smp
from softib.iba.perf import ClassPortInfo
from softib.iba.structure import Field, Structure, array, field, reserved, text

__all__ = [
    "COMPONENTS",
    "RECORDS",
    "RMPP_HEADER",
    "SA_DATA",
    "SA_DATA_OCTETS",
    "ClassPortInfo",
    "GUIDInfoRecord",
    "InformInfo",
    "InformInfoRecord",
    "JoinState",
    "LFTRecord",
    "LinkRecord",
    "MCMemberRecord",
    "MFTRecord",
    "MultiPathRecord",
    "NodeRecord",
    "PKeyTableRecord",
    "PathRecord",
    "PortInfoRecord",
    "RmppFlag",
    "RmppHeader",
    "RmppType",
    "SL2VLRecord",
    "SMInfoRecord",
    "SaAttr",
    "SaCapMask",
    "SaCapMask2",
    "SaHeader",
    "SaMethod",
    "SaNotice",
    "SaStatus",
    "Selector",
    "ServiceRecord",
    "SwitchInfoRecord",
    "VLArbRecord",
    "mask_of",
]  # fmt: skip

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
    """MADHeader.Status of the class: the code stands in bits 8-15 (IBA 15.2.2, table 187)."""

    OK = 0x0000
    NO_RESOURCES = 0x0100
    REQ_INVALID = 0x0200
    NO_RECORDS = 0x0300
    TOO_MANY_RECORDS = 0x0400
    REQ_INVALID_GID = 0x0500
    REQ_INSUFFICIENT_COMPONENTS = 0x0600
    REQ_DENIED = 0x0700


class SaCapMask(IntFlag):
    """ClassPortInfo.CapabilityMask of SA (IBA 15.2.5.1); bit 1: of every class (13.4.8.1)."""

    NOTICE = 1 << 1
    OPTIONAL_RECORDS = 1 << 8
    UD_MULTICAST = 1 << 9
    MULTI_PATH = 1 << 10
    REINIT = 1 << 11
    GID_SCOPED_MCAST_PARTITION = 1 << 12
    PORT_INFO_CAP_MASK_MATCH = 1 << 13


class SaCapMask2(IntFlag):
    """ClassPortInfo.CapabilityMask2 of SA (bits as OpenSM's ``ib_types.h`` and Linux' ``ib_sa.h`` number them)."""

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
    """MTUSelector, RateSelector, PacketLifeTimeSelector (IBA 15.2.5.16)."""

    GREATER = 0
    LESS = 1
    EXACTLY = 2
    LARGEST = 3


class JoinState(IntFlag):
    """MCMemberRecord.JoinState (IBA 15.2.5.17; bit 3: annex to 1.3, Linux ``SENDONLY_FULLMEMBER_JOIN``)."""

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


class RmppHeader(Structure, size=12, section="13.6.2.1"):
    """The reliable multi-packet header, octets 24-35 of a MAD of a class that has it."""

    version = field(8, "1")
    type = field(8, "RmppType")
    resp_time = field(5, "RRespTime 4.096 us * 2^n; 31: none given")
    flags = field(3, "RmppFlag")
    status = field(8, "why it stopped or was aborted")
    segment = field(32, "DATA: SegmentNumber; ACK: the last one received in order")
    length = field(32, "DATA: PayloadLength; ACK: NewWindowLast")


class SaHeader(Structure, size=56, section="15.2.1.1"):
    """The head of an SA MAD."""

    base_version = field(8, "1")
    mgmt_class = field(8, "3")
    class_version = field(8, "2")
    method = field(8, "SaMethod")
    status = field(16, "SaStatus")
    _reserved0 = reserved(16)
    tid = field(64, "TransactionID")
    attr_id = field(16, "SaAttr")
    _reserved1 = reserved(16)
    attr_mod = field(32, "0")
    rmpp_version = field(8, "1")
    rmpp_type = field(8, "RmppType")
    rmpp_resp_time = field(5, "RRespTime")
    rmpp_flags = field(3, "RmppFlag")
    rmpp_status = field(8, "RMPPStatus")
    segment = field(32, "SegmentNumber")
    length = field(32, "PayloadLength")
    sm_key = field(64, "SM_Key: who knows it is trusted")
    attr_offset = field(16, "from one record of a table to the next, in 8 octets")
    _reserved2 = reserved(16)
    comp_mask = field(64, "which components of the record the answer must have")


def _copies(of: type[Structure], octets: int | None = None) -> dict[str, Field]:
    """The fields of ``of`` (up to ``octets``) for the body of a record that contains them."""
    last = 8 * (octets or of.size)
    copies: dict[str, Field] = {}
    for name, f in of.fields.items():
        if f.offset + f.width <= last:
            copies[name if not name.startswith("_") else f"_in{name}"] = Field(f.bits, f.doc, f.count, f.is_text)
    return copies


class NodeRecord(Structure, size=112, attr=0x11, section="15.2.5.2"):
    """NodeInfo and NodeDescription of an end port (108 octets, padded)."""

    lid = field(16, "LID of the end port")
    _reserved0 = reserved(16)
    vars().update(_copies(smp.NodeInfo, 40))
    node_description = text(64, "NodeDescription")


class PortInfoRecord(Structure, size=72, attr=0x12, section="15.2.5.3"):
    """PortInfo of a port."""

    endport_lid = field(16, "LID of the end port (of port 0 for all ports of a switch)")
    portnum = field(8, "port")
    options = field(8, "bit 7: a question for the full PortInfo")
    vars().update(_copies(smp.PortInfo))


class SL2VLRecord(Structure, size=16, attr=0x13, section="15.2.5.4"):
    """SLtoVLMappingTable of a pair of ports."""

    lid = field(16, "LID of the end port")
    in_port = field(8, "input port (0 for a CA)")
    out_port = field(8, "output port (0 for a CA)")
    _reserved0 = reserved(32)
    vl = array(16, 4, "VL of SL 0, 1, … 15")


class SwitchInfoRecord(Structure, size=24, attr=0x14, section="15.2.5.5"):
    """SwitchInfo of a switch."""

    lid = field(16, "LID of its port 0")
    _reserved0 = reserved(16)
    vars().update(_copies(smp.SwitchInfo, 20))


class LFTRecord(Structure, size=72, attr=0x15, section="15.2.5.6"):
    """A block of a linear forwarding table."""

    lid = field(16, "LID of the switch")
    block = field(16, "LIDs 64*block … 64*block+63")
    _reserved0 = reserved(32)
    port = array(64, 8, "egress port, 255 = none")


class MFTRecord(Structure, size=72, attr=0x17, section="15.2.5.8"):
    """A block of a multicast forwarding table."""

    lid = field(16, "LID of the switch")
    position = field(4, "ports 16*position … 16*position+15")
    _reserved0 = reserved(3)
    block = field(9, "MLIDs 0xC000 + 32*block …")
    _reserved1 = reserved(32)
    port_mask = array(32, 16, "ports of each MLID")


class SMInfoRecord(Structure, size=32, attr=0x18, section="15.2.5.10"):
    """SMInfo of a subnet manager."""

    lid = field(16, "LID of its port")
    _reserved0 = reserved(16)
    vars().update(_copies(smp.SMInfo, 21))


class LinkRecord(Structure, size=8, attr=0x20, section="15.2.5.13"):
    """A link, once in each direction."""

    from_lid = field(16, "LID of the end port at this end")
    from_port = field(8, "port at this end")
    to_port = field(8, "port at the other end")
    to_lid = field(16, "LID of the end port at the other end")


class GUIDInfoRecord(Structure, size=72, attr=0x30, section="15.2.5.18"):
    """A block of the GUID table of an end port."""

    lid = field(16, "LID of the end port")
    block = field(8, "GUIDs 8*block … 8*block+7")
    _reserved0 = reserved(8)
    _reserved1 = reserved(32)
    guid0 = field(64, "entry 0; of block 0: the PortGUID")
    guid1 = field(64, "entry 1")
    guid2 = field(64, "entry 2")
    guid3 = field(64, "entry 3")
    guid4 = field(64, "entry 4")
    guid5 = field(64, "entry 5")
    guid6 = field(64, "entry 6")
    guid7 = field(64, "entry 7")


class ServiceRecord(Structure, size=176, attr=0x31, section="15.2.5.14"):
    """A service that somebody offers."""

    service_id = field(64, "ServiceID")
    service_gid = array(2, 64, "GID that offers it")
    service_pkey = field(16, "P_Key to reach it")
    _reserved0 = reserved(16)
    service_lease = field(32, "seconds; 0xffffffff for ever")
    service_key = array(2, 64, "who knows it may delete the record")
    service_name = text(64, "UTF-8")
    data8 = array(16, 8, "of the service")
    data16 = array(8, 16, "of the service")
    data32 = array(4, 32, "of the service")
    data64 = array(2, 64, "of the service")


class PKeyTableRecord(Structure, size=72, attr=0x33, section="15.2.5.11"):
    """A block of a P_Key table."""

    lid = field(16, "LID of the end port")
    block = field(16, "entries 32*block …")
    portnum = field(8, "port of a switch")
    _reserved0 = reserved(24)
    pkey = array(32, 16, "P_Keys")


class PathRecord(Structure, size=64, attr=0x35, section="15.2.5.16"):
    """A path from one end port to another."""

    service_id = field(64, "ServiceID that the path is for")
    dgid = array(2, 64, "destination: prefix, GUID")
    sgid = array(2, 64, "source: prefix, GUID")
    dlid = field(16, "destination")
    slid = field(16, "source")
    raw_traffic = field(1, "0: IBA packets")
    _reserved0 = reserved(3)
    flow_label = field(20, "for the GRH")
    hop_limit = field(8, "for the GRH")
    tclass = field(8, "for the GRH")
    reversible = field(1, "1: the same path back")
    numb_path = field(7, "question: how many are wanted")
    pkey = field(16, "P_Key of both ends")
    qos_class = field(12, "QoS class")
    sl = field(4, "service level")
    mtu_selector = field(2, "Selector")
    mtu = field(6, "MTU code")
    rate_selector = field(2, "Selector")
    rate = field(6, "rate code")
    packet_life_time_selector = field(2, "Selector")
    packet_life_time = field(6, "4.096 us * 2^n")
    preference = field(8, "0 is best")
    _reserved1 = reserved(48)


class VLArbRecord(Structure, size=72, attr=0x36, section="15.2.5.9"):
    """A block of VL arbitration."""

    lid = field(16, "LID of the end port")
    out_port = field(8, "port")
    block = field(8, "1, 2 low; 3, 4 high priority")
    _reserved0 = reserved(32)
    entry = array(32, 16, "reserved(4), VL(4), weight(8)")


class MCMemberRecord(Structure, size=56, attr=0x38, section="15.2.5.17"):
    """A multicast group, or a member of one (52 octets, padded)."""

    mgid = array(2, 64, "the group")
    port_gid = array(2, 64, "the member")
    qkey = field(32, "Q_Key")
    mlid = field(16, "multicast LID")
    mtu_selector = field(2, "Selector")
    mtu = field(6, "MTU code")
    tclass = field(8, "for the GRH")
    pkey = field(16, "P_Key")
    rate_selector = field(2, "Selector")
    rate = field(6, "rate code")
    packet_life_time_selector = field(2, "Selector")
    packet_life_time = field(6, "4.096 us * 2^n")
    sl = field(4, "service level")
    flow_label = field(20, "for the GRH")
    hop_limit = field(8, "for the GRH")
    scope = field(4, "scope of the MGID")
    join_state = field(4, "JoinState")
    proxy_join = field(1, "somebody else joined it")
    _reserved0 = reserved(23)


class MultiPathRecord(Structure, size=24, attr=0x3A, section="15.2.5.20"):
    """Asks for paths between two sets of end ports; the GIDs of the sources, then of the destinations, follow."""

    raw_traffic = field(1, "0: IBA packets")
    _reserved0 = reserved(3)
    flow_label = field(20, "for the GRH")
    hop_limit = field(8, "for the GRH")
    tclass = field(8, "for the GRH")
    reversible = field(1, "1: the same path back")
    numb_path = field(7, "how many are wanted")
    pkey = field(16, "P_Key of both ends")
    qos_class = field(12, "QoS class")
    sl = field(4, "service level")
    mtu_selector = field(2, "Selector")
    mtu = field(6, "MTU code")
    rate_selector = field(2, "Selector")
    rate = field(6, "rate code")
    packet_life_time_selector = field(2, "Selector")
    packet_life_time = field(6, "4.096 us * 2^n")
    service_id_8msb = field(8, "upper octet of the ServiceID")
    independence = field(2, "1: as independent as possible")
    _reserved1 = reserved(6)
    sgid_count = field(8, "GIDs of sources")
    dgid_count = field(8, "GIDs of destinations")
    service_id_56lsb = field(56, "the rest of the ServiceID")


class InformInfo(Structure, size=36, attr=0x03, section="13.4.8.3"):
    """Subscribes to notices."""

    gid = array(2, 64, "issuer; zero: by LID range")
    lid_range_begin = field(16, "issuers; 0xffff: all")
    lid_range_end = field(16, "issuers")
    _reserved0 = reserved(16)
    is_generic = field(8, "1: traps of the specification")
    subscribe = field(8, "1 subscribe, 0 no longer")
    type = field(16, "Notice.Type; 0xffff: all")
    trap_number = field(16, "generic: trap, 0xffff: all; else DeviceID")
    qpn = field(24, "where reports go, 0 in a subscription: to QP1")
    _reserved1 = reserved(3)
    resp_time_value = field(5, "4.096 us * 2^n")
    _reserved2 = reserved(8)
    producer_type = field(24, "generic: node type, 0xffffff: all; else VendorID")


class InformInfoRecord(Structure, size=64, attr=0xF3, section="15.2.5.12"):
    """A subscription (60 octets, padded)."""

    subscriber_gid = array(2, 64, "who")
    enum = field(16, "which of the subscriber's")
    _reserved_gap = reserved(48)
    vars().update(_copies(InformInfo))


class SaNotice(Structure, size=80, attr=0x02, section="13.4.8.2"):
    """A notice as SA reports it: with the GID of its issuer."""

    notice = array(64, 8, "Notice")
    issuer_gid = array(2, 64, "who raised it: prefix, GUID")


def _names(of: type[Structure], octets: int | None = None) -> list[str | None]:
    last = 8 * (octets or of.size)
    kept = [n for n, f in of.fields.items() if f.offset + f.width <= last]
    return [None if n.startswith("_") else n for n in kept]


_PORT_INFO: tuple[str | None, ...] = (
    "mkey", "gid_prefix", "lid", "master_sm_lid", "cap_mask", "diag_code", "mkey_lease_period", "local_port_num",
    "link_width_enabled", "link_width_supported", "link_width_active", "link_speed_supported", "port_state",
    "port_phys_state", "link_down_default_state", "mkey_protect", None, "lmc", "link_speed_active", "link_speed_enabled",
    "neighbor_mtu", "master_sm_sl", "vl_cap", "init_type", "vl_high_limit", "vl_arb_high_cap", "vl_arb_low_cap",
    "init_type_reply", "mtu_cap", "vl_stall_count", "hoq_life", "operational_vls", "partition_enforcement_inbound",
    "partition_enforcement_outbound", "filter_raw_inbound", "filter_raw_outbound", "mkey_violations", "pkey_violations",
    "qkey_violations", "guid_cap", "client_reregister", "subnet_timeout", None, "resp_time_value", "local_phy_errors",
    "overrun_errors", "max_credit_hint", None, "link_round_trip_latency", "cap_mask2", "link_speed_ext_active",
    "link_speed_ext_supported", None, "link_speed_ext_enabled",
)  # fmt: skip
_INFORM: tuple[str | None, ...] = (
    "gid", "lid_range_begin", "lid_range_end", None, "is_generic", "subscribe", "type", "trap_number", "qpn", None, "producer_type",
)  # fmt: skip

COMPONENTS: dict[type[Structure], tuple[str | None, ...]] = {
    NodeRecord: ("lid", None, *_names(smp.NodeInfo, 40), "node_description"),
    PortInfoRecord: ("endport_lid", "portnum", None, *_PORT_INFO),
    SL2VLRecord: ("lid", "in_port", "out_port", None, "vl"),
    SwitchInfoRecord: ("lid", None, *_names(smp.SwitchInfo, 20)),
    LFTRecord: ("lid", "block", None, "port"),
    MFTRecord: ("lid", "position", None, "block", None, "port_mask"),
    SMInfoRecord: ("lid", None, *_names(smp.SMInfo, 21)),
    LinkRecord: ("from_lid", "from_port", "to_port", "to_lid"),
    GUIDInfoRecord: ("lid", "block", None, None, *(f"guid{i}" for i in range(8))),
    ServiceRecord: ("service_id", "service_gid", "service_pkey", None, "service_lease", "service_key", "service_name",
                    *(f"data8:{i}" for i in range(16)), *(f"data16:{i}" for i in range(8)), *(f"data32:{i}" for i in range(4)),
                    "data64:0", "data64:1"),
    PKeyTableRecord: ("lid", "block", "portnum", None, "pkey"),
    PathRecord: ("service_id", "service_id", "dgid", "sgid", "dlid", "slid", "raw_traffic", None, "flow_label", "hop_limit",
                 "tclass", "reversible", "numb_path", "pkey", "qos_class", "sl", "mtu_selector", "mtu", "rate_selector",
                 "rate", "packet_life_time_selector", "packet_life_time", "preference"),
    VLArbRecord: ("lid", "out_port", "block", None, "entry"),
    MCMemberRecord: ("mgid", "port_gid", "qkey", "mlid", "mtu_selector", "mtu", "tclass", "pkey", "rate_selector", "rate",
                     "packet_life_time_selector", "packet_life_time", "sl", "flow_label", "hop_limit", "scope", "join_state",
                     "proxy_join"),
    MultiPathRecord: ("raw_traffic", None, "flow_label", "hop_limit", "tclass", "reversible", "numb_path", "pkey",
                      "qos_class", "sl", "mtu_selector", "mtu", "rate_selector", "rate", "packet_life_time_selector",
                      "packet_life_time", "service_id_8msb", "independence", None, "sgid_count", "dgid_count",
                      "service_id_56lsb"),
    InformInfoRecord: ("subscriber_gid", "enum", None, *_INFORM),
}  # fmt: skip
"""``name:i`` is element ``i`` of an array whose elements have a bit each."""

RECORDS: dict[int, type[Structure]] = {r.attr: r for r in COMPONENTS if r.attr is not None}
"""Record by attribute ID."""


def mask_of(record: type[Structure], *names: str) -> int:
    """Component mask that selects ``names`` of ``record``. Raises ``KeyError`` for a name that has no bit."""
    bits = 0
    for name in names:
        found = [1 << i for i, n in enumerate(COMPONENTS[record]) if n == name]
        if not found:
            raise KeyError(f"{record.__name__} has no component {name}")
        bits |= sum(found)
    return bits
