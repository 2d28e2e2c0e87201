"""Subnet management packets and their attributes (IBA 14.2), declared once."""

from __future__ import annotations

from softib.iba.structure import Structure, array, field, reserved, text


class MadHeader(Structure, size=24, section="13.4.3"):
    """The common header of every MAD."""

    base_version = field(8, "1")
    mgmt_class = field(8, "MgmtClass")
    class_version = field(8, "1 for SMPs and PerfMgt, 2 for SA and CC")
    method = field(8, "Method; bit 7 = response")
    status = field(16, "MadStatus; directed-route SMPs: bit 15 = direction")
    hop_pointer = field(8, "directed route only: position of the SMP on its path")
    hop_count = field(8, "directed route only: hops of the path")
    tid = field(64, "TransactionID")
    attr_id = field(16, "AttributeID")
    _reserved = reserved(16)
    attr_mod = field(32, "AttributeModifier")


class Smp(Structure, size=256, section="14.2.1"):
    """A subnet management packet, either LID-routed or directed-route."""

    header = array(24, 8, "MadHeader")
    mkey = field(64, "M_Key of the sender")
    dr_slid = field(16, "directed route: 0xffff for a pure directed route")
    dr_dlid = field(16, "directed route: 0xffff for a pure directed route")
    _reserved = reserved(28 * 8)
    data = array(64, 8, "the attribute")
    initial_path = array(64, 8, "directed route: egress ports, entry 0 unused")
    return_path = array(64, 8, "directed route: ingress ports")


class NodeDescription(Structure, size=64, attr=0x10, section="14.2.5.2"):
    """The name of a node as text."""

    node_description = text(64, "NUL-padded UTF-8")


class NodeInfo(Structure, size=64, attr=0x11, section="14.2.5.3"):
    """Identity and type of a node."""

    base_version = field(8, "MAD base version")
    class_version = field(8, "SMP class version")
    node_type = field(8, "1 CA, 2 switch, 3 router")
    num_ports = field(8, "physical ports")
    sys_guid = field(64, "SystemImageGUID: equal for parts of one system")
    node_guid = field(64, "NodeGUID")
    port_guid = field(64, "GUID of the port that received the SMP (switch: of port 0)")
    partition_cap = field(16, "entries of the P_Key table of a CA port or switch port 0")
    device_id = field(16, "DeviceID")
    revision = field(32, "Revision")
    local_port_num = field(8, "port that received the SMP")
    vendor_id = field(24, "VendorID (an IEEE OUI)")


class SwitchInfo(Structure, size=64, attr=0x12, section="14.2.5.4"):
    """Forwarding tables and settings of a switch."""

    linear_fdb_cap = field(16, "entries of the linear forwarding table")
    random_fdb_cap = field(16, "entries of the random forwarding table")
    mcast_fdb_cap = field(16, "entries of the multicast forwarding table")
    linear_fdb_top = field(16, "highest LID in use")
    default_port = field(8, "random FDB: port of unknown LIDs")
    default_mcast_primary_port = field(8, "port of multicast without an entry")
    default_mcast_not_primary_port = field(8, "the same, arrived on the primary port")
    life_time_value = field(5, "packet life time 4.096 us * 2^n, 0x1f = infinite")
    port_state_change = field(1, "a port changed state; writing 1 clears")
    optimized_sl2vl = field(2, "OptimizedSLtoVLMappingProgramming")
    lids_per_port = field(16, "random FDB: LIDs per port")
    partition_enforcement_cap = field(16, "P_Key entries of an external port")
    inbound_enforcement_cap = field(1, "can check P_Keys of incoming packets")
    outbound_enforcement_cap = field(1, "can check P_Keys of outgoing packets")
    filter_raw_inbound_cap = field(1, "can drop incoming raw packets")
    filter_raw_outbound_cap = field(1, "can drop outgoing raw packets")
    enhanced_port0 = field(1, "port 0 is a full endpoint")
    _reserved0 = reserved(3)
    _reserved1 = reserved(8)
    mcast_fdb_top = field(16, "highest MLID in use")


class GUIDInfo(Structure, size=64, attr=0x14, section="14.2.5.5"):
    """A block of eight GUIDs of a port; entry 0 of block 0 is the PortGUID."""

    guid = array(8, 64, "GUIDs")


class PortInfo(Structure, size=64, attr=0x15, section="14.2.5.6"):
    """State and configuration of a port."""

    mkey = field(64, "M_Key of the port")
    gid_prefix = field(64, "GidPrefix")
    lid = field(16, "base LID")
    master_sm_lid = field(16, "LID of the master SM")
    cap_mask = field(32, "CapabilityMask")
    diag_code = field(16, "DiagCode")
    mkey_lease_period = field(16, "seconds")
    local_port_num = field(8, "port that received the SMP")
    link_width_enabled = field(8, "bits as WIDTH_BITS")
    link_width_supported = field(8, "bits as WIDTH_BITS")
    link_width_active = field(8, "one bit of WIDTH_BITS")
    link_speed_supported = field(4, "1 SDR, 2 DDR, 4 QDR")
    port_state = field(4, "PortState")
    port_phys_state = field(4, "PhysState")
    link_down_default_state = field(4, "1 sleep, 2 polling")
    mkey_protect = field(2, "MKeyProtectBits")
    _reserved0 = reserved(3)
    lmc = field(3, "the port owns 2^lmc LIDs")
    link_speed_active = field(4, "1 SDR, 2 DDR, 4 QDR")
    link_speed_enabled = field(4, "1 SDR, 2 DDR, 4 QDR")
    neighbor_mtu = field(4, "MTU code of the link")
    master_sm_sl = field(4, "SL to reach the SM")
    vl_cap = field(4, "1: VL0, 2: VL0-1, 3: VL0-3, 4: VL0-7, 5: VL0-14")
    init_type = field(4, "InitType")
    vl_high_limit = field(8, "bytes of high priority, in 4 KiB, before low priority is served")
    vl_arb_high_cap = field(8, "entries of the high-priority VLArb table")
    vl_arb_low_cap = field(8, "entries of the low-priority VLArb table")
    init_type_reply = field(4, "InitTypeReply")
    mtu_cap = field(4, "largest MTU code")
    vl_stall_count = field(3, "timed-out packets before a VL is stalled")
    hoq_life = field(5, "head-of-queue lifetime 4.096 us * 2^n")
    operational_vls = field(4, "as vl_cap")
    partition_enforcement_inbound = field(1, "P_Key check of incoming packets")
    partition_enforcement_outbound = field(1, "P_Key check of outgoing packets")
    filter_raw_inbound = field(1, "drop incoming raw packets")
    filter_raw_outbound = field(1, "drop outgoing raw packets")
    mkey_violations = field(16, "SMPs with a wrong M_Key")
    pkey_violations = field(16, "packets with a wrong P_Key")
    qkey_violations = field(16, "packets with a wrong Q_Key")
    guid_cap = field(8, "entries of the GUID table")
    client_reregister = field(1, "the SM requests clients to register again")
    mcast_pkey_trap_suppression = field(2, "MulticastPKeyTrapSuppressionEnabled")
    subnet_timeout = field(5, "trap interval and subnet delay 4.096 us * 2^n")
    _reserved1 = reserved(3)
    resp_time_value = field(5, "longest answer time of the SMA 4.096 us * 2^n")
    local_phy_errors = field(4, "threshold of local link integrity errors")
    overrun_errors = field(4, "threshold of excessive buffer overruns")
    max_credit_hint = field(16, "MaxCreditHint")
    _reserved2 = reserved(1)
    link_speed_ext2_active = field(2, "1 XDR (LinkSpeedExtActive2)")
    link_speed_ext2_supported = field(2, "1 XDR (LinkSpeedExtSupported2)")
    link_speed_ext2_enabled = field(3, "1 XDR (LinkSpeedExtEnabled2)")
    link_round_trip_latency = field(24, "in 4 ns")
    cap_mask2 = field(16, "CapabilityMask2")
    link_speed_ext_active = field(4, "1 FDR, 2 EDR, 4 HDR, 8 NDR")
    link_speed_ext_supported = field(4, "1 FDR, 2 EDR, 4 HDR, 8 NDR")
    _reserved3 = reserved(3)
    link_speed_ext_enabled = field(5, "1 FDR, 2 EDR, 4 HDR, 8 NDR")


class PKeyTable(Structure, size=64, attr=0x16, section="14.2.5.7"):
    """A block of 32 P_Keys."""

    pkey = array(32, 16, "P_Keys; bit 15 = full member")


class SLtoVLMappingTable(Structure, size=64, attr=0x17, section="14.2.5.8"):
    """VL of each SL, for one pair of input and output port."""

    vl = array(16, 4, "VL of SL 0, 1, … 15; 15 drops")


class VLArbitrationTable(Structure, size=64, attr=0x18, section="14.2.5.9"):
    """A block of 32 (VL, weight) entries."""

    entry = array(32, 16, "reserved(4), VL(4), weight(8) in 64-byte units")


class LinearForwardingTable(Structure, size=64, attr=0x19, section="14.2.5.10"):
    """Output port of 64 consecutive LIDs."""

    port = array(64, 8, "255 = no route")


class MulticastForwardingTable(Structure, size=64, attr=0x1B, section="14.2.5.12"):
    """Masks of output ports (16 ports) for 32 consecutive MLIDs."""

    port_mask = array(32, 16, "bit p = port 16*position + p")


class SMInfo(Structure, size=64, attr=0x20, section="14.2.5.13"):
    """The subnet manager on a port, and its state."""

    guid = field(64, "PortGUID of the SM's port")
    sm_key = field(64, "SM_Key")
    act_count = field(32, "grows while the SM is alive")
    priority = field(4, "0-15, higher wins")
    sm_state = field(4, "0 not active, 1 discovering, 2 standby, 3 master")


class MlnxExtPortInfo(Structure, size=64, attr=0xFF90, section="Mellanox vendor attribute"):
    """Mellanox ExtendedPortInfo, which distinguishes FDR10 from QDR."""

    _reserved0 = reserved(24)
    state_change_enable = field(8, "which fields a Set changes")
    _reserved1 = reserved(24)
    link_speed_supported = field(8, "1 = FDR10")
    _reserved2 = reserved(24)
    link_speed_enabled = field(8, "1 = FDR10")
    _reserved3 = reserved(24)
    link_speed_active = field(8, "1 = FDR10")


class PortInfoExtended(Structure, size=64, attr=0x33, section="14.2.5.19"):
    """Forward error correction of a port. The attribute exists if CapabilityMask2 bit 1 is set."""

    cap_mask = field(32, "which of the following exist")
    fec_mode_active = field(16, "0 none, 1 FireCode, 2 RS, 3 low-latency RS")
    fdr_fec_mode_supported = field(16, "modes at FDR")
    fdr_fec_mode_enabled = field(16, "modes at FDR")
    edr_fec_mode_supported = field(16, "modes at EDR")
    edr_fec_mode_enabled = field(16, "modes at EDR")
    hdr_fec_mode_supported = field(16, "modes at HDR")
    hdr_fec_mode_enabled = field(16, "modes at HDR")
    ndr_fec_mode_supported = field(16, "modes at NDR")
    ndr_fec_mode_enabled = field(16, "modes at NDR")


BASE_VERSION_AT, CLASS_AT, VERSION_AT, METHOD_AT = (
    MadHeader.base_version.byte,
    MadHeader.mgmt_class.byte,
    MadHeader.class_version.byte,
    MadHeader.method.byte,
)
STATUS_AT, HOP_POINTER_AT, HOP_COUNT_AT = MadHeader.status.byte, MadHeader.hop_pointer.byte, MadHeader.hop_count.byte
STATUS_CODE_AT = STATUS_AT + 1
"""Offset of the lower byte of the status, which holds the reason if a request is rejected (IBA
13.4.7). The upper byte belongs to the class, and holds the D bit of an SMP."""
TID_AT, ATTR_AT, MODIFIER_AT = MadHeader.tid.byte, MadHeader.attr_id.byte, MadHeader.attr_mod.byte
MKEY_AT, DR_SLID_AT, DR_DLID_AT = Smp.mkey.byte, Smp.dr_slid.byte, Smp.dr_dlid.byte
DATA_AT = Smp.data.byte
"""Offset of the attribute in an SMP, and of the data in a PerfMgt MAD."""
INITIAL_PATH_AT, RETURN_PATH_AT = Smp.initial_path.byte, Smp.return_path.byte
"""Offset of entry 0 of each path. Entry 0 is unused."""
