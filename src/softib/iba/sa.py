"""Subnet administration: the header of its MADs, its records, and the meaning of component-mask
bits (IBA 15.2).

``COMPONENTS[Record][bit]`` is the name of the field that component-mask bit ``bit`` selects, or
None if the component is reserved. Bit numbers are those that clients use (rdma-core's ``ib_sa.h``
and OpenSM's ``ib_types.h``, which follow the order of components in the tables of IBA 15.2.5). A
component that later releases split kept its bit.
"""

from __future__ import annotations

from softib.iba import smp
from softib.iba.notice import ClassPortInfo
from softib.iba.sa_enums import (
    RMPP_HEADER,
    SA_DATA,
    SA_DATA_OCTETS,
    JoinState,
    RmppFlag,
    RmppType,
    SaAttr,
    SaCapMask,
    SaCapMask2,
    SaMethod,
    SaStatus,
    Selector,
)
from softib.iba.sa_records import (
    GUIDInfoRecord,
    InformInfo,
    InformInfoRecord,
    LFTRecord,
    LinkRecord,
    MCMemberRecord,
    MFTRecord,
    MultiPathRecord,
    NodeRecord,
    PathRecord,
    PKeyTableRecord,
    PortInfoRecord,
    SaNotice,
    ServiceRecord,
    SL2VLRecord,
    SMInfoRecord,
    SwitchInfoRecord,
    TraceRecord,
    VLArbRecord,
)
from softib.iba.structure import Structure, field, reserved

__all__ = [
    "COMPONENTS",
    "PATH_COMPONENTS",
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
    "TraceRecord",
    "VLArbRecord",
    "mask_of",
]


class RmppHeader(Structure, size=12, section="13.6.2.1"):
    """The reliable multi-packet (RMPP) header: bytes 24-35 of a MAD, in classes that use RMPP."""

    version = field(8, "1")
    type = field(8, "RmppType")
    resp_time = field(5, "RRespTime 4.096 us * 2^n; 31: none given")
    flags = field(3, "RmppFlag")
    status = field(8, "reason of a stop or abort")
    segment = field(32, "DATA: SegmentNumber; ACK: the last one received in order")
    length = field(32, "DATA: PayloadLength; ACK: NewWindowLast")


class SaHeader(Structure, size=56, section="15.2.1.1"):
    """The header of an SA MAD."""

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
    sm_key = field(64, "SM_Key: marks a requester as trusted")
    attr_offset = field(16, "distance between records of a table, in units of 8 bytes")
    _reserved2 = reserved(16)
    comp_mask = field(64, "components that the answer must match")


def _names(of: type[Structure], octets: int | None = None) -> list[str | None]:
    last = 8 * (octets or of.size)
    kept = [n for n, f in of.fields.items() if f.offset + f.width <= last]
    return [None if n.startswith("_") else n for n in kept]


_PORT_INFO: tuple[str | None, ...] = (
    "mkey",
    "gid_prefix",
    "lid",
    "master_sm_lid",
    "cap_mask",
    "diag_code",
    "mkey_lease_period",
    "local_port_num",
    "link_width_enabled",
    "link_width_supported",
    "link_width_active",
    "link_speed_supported",
    "port_state",
    "port_phys_state",
    "link_down_default_state",
    "mkey_protect",
    None,
    "lmc",
    "link_speed_active",
    "link_speed_enabled",
    "neighbor_mtu",
    "master_sm_sl",
    "vl_cap",
    "init_type",
    "vl_high_limit",
    "vl_arb_high_cap",
    "vl_arb_low_cap",
    "init_type_reply",
    "mtu_cap",
    "vl_stall_count",
    "hoq_life",
    "operational_vls",
    "partition_enforcement_inbound",
    "partition_enforcement_outbound",
    "filter_raw_inbound",
    "filter_raw_outbound",
    "mkey_violations",
    "pkey_violations",
    "qkey_violations",
    "guid_cap",
    "client_reregister",
    "subnet_timeout",
    None,
    "resp_time_value",
    "local_phy_errors",
    "overrun_errors",
    "max_credit_hint",
    None,
    "link_round_trip_latency",
    "cap_mask2",
    "link_speed_ext_active",
    "link_speed_ext_supported",
    None,
    "link_speed_ext_enabled",
)
_INFORM: tuple[str | None, ...] = (
    "gid",
    "lid_range_begin",
    "lid_range_end",
    None,
    "is_generic",
    "subscribe",
    "type",
    "trap_number",
    "qpn",
    None,
    "producer_type",
)

PATH_COMPONENTS = (
    "flow_label",
    "hop_limit",
    "tclass",
    "reversible",
    "numb_path",
    "pkey",
    "qos_class",
    "sl",
    "mtu_selector",
    "mtu",
    "rate_selector",
    "rate",
    "packet_life_time_selector",
    "packet_life_time",
)
"""Components of both PathRecord and MultiPathRecord. They follow raw_traffic and a reserved bit."""
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
    ServiceRecord: (
        "service_id",
        "service_gid",
        "service_pkey",
        None,
        "service_lease",
        "service_key",
        "service_name",
        *(f"data8:{i}" for i in range(16)),
        *(f"data16:{i}" for i in range(8)),
        *(f"data32:{i}" for i in range(4)),
        "data64:0",
        "data64:1",
    ),
    PKeyTableRecord: ("lid", "block", "portnum", None, "pkey"),
    PathRecord: (
        "service_id",
        "service_id",
        "dgid",
        "sgid",
        "dlid",
        "slid",
        "raw_traffic",
        None,
        *PATH_COMPONENTS,
        "preference",
    ),
    VLArbRecord: ("lid", "out_port", "block", None, "entry"),
    MCMemberRecord: (
        "mgid",
        "port_gid",
        "qkey",
        "mlid",
        "mtu_selector",
        "mtu",
        "tclass",
        "pkey",
        "rate_selector",
        "rate",
        "packet_life_time_selector",
        "packet_life_time",
        "sl",
        "flow_label",
        "hop_limit",
        "scope",
        "join_state",
        "proxy_join",
    ),
    MultiPathRecord: (
        "raw_traffic",
        None,
        *PATH_COMPONENTS,
        "service_id_8msb",
        "independence",
        None,
        "sgid_count",
        "dgid_count",
        "service_id_56lsb",
    ),
    InformInfoRecord: ("subscriber_gid", "enum", None, *_INFORM),
}
"""Names of components by record and bit. ``name:i`` is element ``i`` of an array with one bit per
element."""

RECORDS: dict[int, type[Structure]] = {r.attr: r for r in COMPONENTS if r.attr is not None}
"""Record by attribute ID."""


def mask_of(record: type[Structure], *names: str) -> int:
    """Return the component mask that selects the fields ``names`` of ``record``. Raises
    ``KeyError`` for a field that has no bit."""
    bits = 0
    for name in names:
        positions = [1 << i for i, n in enumerate(COMPONENTS[record]) if n == name]
        if not positions:
            raise KeyError(f"{record.__name__} has no component {name}")
        bits |= sum(positions)
    return bits
