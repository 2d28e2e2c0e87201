"""The records of subnet administration (IBA 15.2.5), which follow the SA header in a MAD."""

from __future__ import annotations

from softib.iba import smp
from softib.iba.structure import Field, Structure, array, field, reserved, text

__all__ = [
    "GUIDInfoRecord",
    "InformInfo",
    "InformInfoRecord",
    "LFTRecord",
    "LinkRecord",
    "MCMemberRecord",
    "MFTRecord",
    "MultiPathRecord",
    "NodeRecord",
    "PKeyTableRecord",
    "PathRecord",
    "PortInfoRecord",
    "SL2VLRecord",
    "SMInfoRecord",
    "SaNotice",
    "ServiceRecord",
    "SwitchInfoRecord",
    "TraceRecord",
    "VLArbRecord",
]


def _copies(of: type[Structure], octets: int | None = None) -> dict[str, Field]:
    """Return copies of the fields of the record type ``of`` (of its first ``octets`` bytes), for
    the declaration of a record that contains them."""
    last = 8 * (octets or of.size)
    copies: dict[str, Field] = {}
    for name, f in of.fields.items():
        if f.offset + f.width <= last:
            copies[name if not name.startswith("_") else f"_in{name}"] = Field(f.bits, f.doc, f.count, f.is_text)
    return copies


class NodeRecord(Structure, size=112, attr=0x11, section="15.2.5.2"):
    """NodeInfo and NodeDescription of an end port's node (108 bytes, padded)."""

    lid = field(16, "LID of the end port")
    _reserved0 = reserved(16)
    vars().update(_copies(smp.NodeInfo, 40))
    node_description = text(64, "NodeDescription")


class PortInfoRecord(Structure, size=72, attr=0x12, section="15.2.5.3"):
    """PortInfo of a port."""

    endport_lid = field(16, "LID of the end port (of port 0 for all ports of a switch)")
    portnum = field(8, "port")
    options = field(8, "bit 7: a request for the full PortInfo")
    vars().update(_copies(smp.PortInfo))


class SL2VLRecord(Structure, size=16, attr=0x13, section="15.2.5.4"):
    """SLtoVLMappingTable of one input and one output port."""

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
    """A link. Each link has two records, one in each direction."""

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
    """A service offered by a port."""

    service_id = field(64, "ServiceID")
    service_gid = array(2, 64, "GID that offers it")
    service_pkey = field(16, "P_Key to reach it")
    _reserved0 = reserved(16)
    service_lease = field(32, "seconds; 0xffffffff: forever")
    service_key = array(2, 64, "required to delete the record")
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

    service_id = field(64, "ServiceID of the path")
    dgid = array(2, 64, "destination: prefix, GUID")
    sgid = array(2, 64, "source: prefix, GUID")
    dlid = field(16, "destination")
    slid = field(16, "source")
    raw_traffic = field(1, "0: IBA packets")
    _reserved0 = reserved(3)
    flow_label = field(20, "for the GRH")
    hop_limit = field(8, "for the GRH")
    tclass = field(8, "for the GRH")
    reversible = field(1, "1: the same path in both directions")
    numb_path = field(7, "request: the number wanted")
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
    """A block of a VL arbitration table."""

    lid = field(16, "LID of the end port")
    out_port = field(8, "port")
    block = field(8, "1, 2 low; 3, 4 high priority")
    _reserved0 = reserved(32)
    entry = array(32, 16, "reserved(4), VL(4), weight(8)")


class MCMemberRecord(Structure, size=56, attr=0x38, section="15.2.5.17"):
    """A multicast group, or a member of one (52 bytes, padded)."""

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
    proxy_join = field(1, "joined by proxy")
    _reserved0 = reserved(23)


class MultiPathRecord(Structure, size=24, attr=0x3A, section="15.2.5.20"):
    """Request for paths between two sets of end ports. The GIDs of the sources and then those of
    the destinations follow the record."""

    raw_traffic = field(1, "0: IBA packets")
    _reserved0 = reserved(3)
    flow_label = field(20, "for the GRH")
    hop_limit = field(8, "for the GRH")
    tclass = field(8, "for the GRH")
    reversible = field(1, "1: the same path in both directions")
    numb_path = field(7, "the number wanted")
    pkey = field(16, "P_Key of both ends")
    qos_class = field(12, "QoS class")
    sl = field(4, "service level")
    mtu_selector = field(2, "Selector")
    mtu = field(6, "MTU code")
    rate_selector = field(2, "Selector")
    rate = field(6, "rate code")
    packet_life_time_selector = field(2, "Selector")
    packet_life_time = field(6, "4.096 us * 2^n")
    service_id_8msb = field(8, "top byte of the ServiceID")
    independence = field(2, "1: as independent as possible")
    _reserved1 = reserved(6)
    sgid_count = field(8, "GIDs of sources")
    dgid_count = field(8, "GIDs of destinations")
    service_id_56lsb = field(56, "the rest of the ServiceID")


class InformInfo(Structure, size=36, attr=0x03, section="13.4.8.3"):
    """A subscription to notices."""

    gid = array(2, 64, "issuer; zero: by LID range")
    lid_range_begin = field(16, "issuers; 0xffff: all")
    lid_range_end = field(16, "issuers")
    _reserved0 = reserved(16)
    is_generic = field(8, "1: traps of the specification")
    subscribe = field(8, "1 subscribe, 0 unsubscribe")
    type = field(16, "Notice.Type; 0xffff: all")
    trap_number = field(16, "generic: trap, 0xffff: all; else DeviceID")
    qpn = field(24, "destination QP of reports, 0 in a subscription: QP1")
    _reserved1 = reserved(3)
    resp_time_value = field(5, "4.096 us * 2^n")
    _reserved2 = reserved(8)
    producer_type = field(24, "generic: node type, 0xffffff: all; else VendorID")


class InformInfoRecord(Structure, size=64, attr=0xF3, section="15.2.5.12"):
    """A subscription (60 bytes, padded)."""

    subscriber_gid = array(2, 64, "who")
    enum = field(16, "number among the subscriber's")
    _reserved_gap = reserved(48)
    vars().update(_copies(InformInfo))


class SaNotice(Structure, size=80, attr=0x02, section="13.4.8.2"):
    """A notice as SA forwards it, with the GID of the port that issued it."""

    notice = array(64, 8, "Notice")
    issuer_gid = array(2, 64, "the issuer: prefix, GUID")


class TraceRecord(Structure, size=44, attr=0x39, section="15.2.5.19"):
    """A node on a path (SubnAdmGetTraceTable, requested with a PathRecord). The layout is that of
    opa-ff's ``ib_sa_records.h``. The administrator chooses the IDs; equal IDs have the same meaning
    as long as the generation is the same."""

    gid_prefix = field(64, "of the subnet")
    id_generation = field(16, "changes when IDs mean something else")
    _reserved0 = reserved(8)
    node_type = field(8, "as NodeInfo's")
    node_id = field(64, "the node")
    chassis_id = field(64, "its chassis")
    entry_port_id = field(64, "ingress port, 0 at the beginning of the path")
    exit_port_id = field(64, "egress port, 0 at the end of the path")
