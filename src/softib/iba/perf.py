"""Performance management attributes (IBA 16.1), declared once. All of them begin at octet 64 of the MAD.

Data counters are in 4-octet words, wait and congestion times in ticks, everything else in events. The attributes on
congestion (0x30-0x37) come from IBA annex A10. Counter names are the specification's.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

from softib.iba.structure import Structure, array, field, reserved

__all__ = [
    "ALL_PORTS",
    "CapMask",
    "CapMask2",
    "ClassPortInfo",
    "PortCounters",
    "PortCountersExtended",
    "PortExtendedSpeedsCounters",
    "PortFlowCtlCounters",
    "PortOpRcvCounters",
    "PortRcvConCtrl",
    "PortRcvDataSL",
    "PortRcvErrorDetails",
    "PortSLRcvBECN",
    "PortSLRcvFECN",
    "PortSamplesControl",
    "PortSamplesResult",
    "PortVLOpData",
    "PortVLOpPackets",
    "PortVLXmitFlowCtlUpdateErrors",
    "PortVLXmitTimeCong",
    "PortVLXmitWaitCounters",
    "PortXmitConCtrl",
    "PortXmitDataSL",
    "PortXmitDiscardDetails",
    "SampleStatus",
    "SwPortVLCongestion",
]

ALL_PORTS = 255
"""PortSelect of "all ports at once", where ClassPortInfo.CapabilityMask has bit 8 (IBA 16.1.3.5)."""


class CapMask(IntFlag):
    """ClassPortInfo.CapabilityMask of PerfMgt (IBA 16.1.3.1); ConnectX and Quantum report 0x5300."""

    ALL_PORT_SELECT = 1 << 8
    EXTENDED_WIDTH = 1 << 9
    EXTENDED_WIDTH_NO_IETF = 1 << 10
    SAMPLES_ONLY = 1 << 11
    PORT_XMIT_WAIT = 1 << 12
    INHIBIT_LIMITED_PKEY = 1 << 13
    RSFEC_COUNTERS = 1 << 14
    QP1_DROPPED = 1 << 15


class CapMask2(IntFlag):
    """ClassPortInfo.CapabilityMask2 of PerfMgt: bits of the 27-bit field (IBA 16.1.3.1)."""

    ADDITIONAL_EXTENDED_COUNTERS = 1 << 1


class SampleStatus(IntEnum):
    """SampleStatus of PortSamplesControl and PortSamplesResult (IBA 16.1.3.2)."""

    DONE = 0
    STARTED = 1
    RUNNING = 2


class ClassPortInfo(Structure, size=72, attr=0x01, section="13.4.8.1"):
    """What a class on this port can do, where its traps go, and whether requests are redirected."""

    base_version = field(8, "1")
    class_version = field(8, "1 for PerfMgt")
    cap_mask = field(16, "PerfMgt: 8 AllPortSelect, 9 IsExtendedWidthSupported, 10 …NoIETF, 12 PortXmitWait")
    cap_mask2 = field(27, "class-specific capabilities")
    resp_time_value = field(5, "longest answer time 4.096 us * 2^n")
    redirect_gid = array(2, 64, "GID to ask instead: prefix, GUID")
    redirect_tc = field(8, "traffic class")
    redirect_sl = field(4, "SL")
    redirect_fl = field(20, "flow label")
    redirect_lid = field(16, "LID")
    redirect_pkey = field(16, "P_Key")
    _reserved0 = reserved(8)
    redirect_qp = field(24, "QP")
    redirect_qkey = field(32, "Q_Key")
    trap_gid = array(2, 64, "GID that gets traps: prefix, GUID")
    trap_tc = field(8, "traffic class")
    trap_sl = field(4, "SL")
    trap_fl = field(20, "flow label")
    trap_lid = field(16, "LID")
    trap_pkey = field(16, "P_Key")
    trap_hl = field(8, "hop limit")
    trap_qp = field(24, "QP")
    trap_qkey = field(32, "Q_Key")


class PortSamplesControl(Structure, attr=0x10, section="16.1.3.2"):
    """Which counters are sampled, when and for how long.

    ``tick``: Linux' qib driver reports 0, 1, 3 at SDR, DDR, QDR for a fixed 4 ns clock: multiples of ten bit times.
    ``counter_select`` 1 to 5: PortXmitData, PortRcvData, PortXmitPkts, PortRcvPkts, PortXmitWait (16.1.3.3).
    """

    op_code = field(8, "what kind of sampling")
    port_select = field(8, "portnum")
    tick = field(8, "sampling clock n: (n + 1) * 10 bit times of a lane of the link")
    _reserved0 = reserved(5)
    counter_width = field(3, "0: 16 bits … 4: 32 bits")
    _reserved1 = reserved(2)
    counter_mask0 = field(3, "what counter 0 can count")
    counter_masks_1to9 = field(27, "what counters 1 to 9 can count, 3 bits each")
    _reserved2 = reserved(1)
    counter_masks_10to14 = field(15, "what counters 10 to 14 can count, 3 bits each")
    sample_mechanisms = field(8, "number of independent sampling mechanisms - 1")
    _reserved3 = reserved(6)
    sample_status = field(2, "0 done, 1 started, 2 running")
    option_mask = field(64, "optional counters that exist")
    vendor_mask = field(64, "vendor counters that exist")
    sample_start = field(32, "ticks until sampling begins")
    sample_interval = field(32, "ticks of sampling")
    tag = field(16, "handed through to the results")
    counter_select = array(15, 16, "what counters 0 to 14 count")
    _reserved4 = reserved(32)
    samples_only_option_mask = field(64, "optional counters that exist as samples alone")


class PortSamplesResult(Structure, size=64, attr=0x11, section="16.1.3.4"):
    """The sampled values."""

    tag = field(16, "of the PortSamplesControl")
    _reserved0 = reserved(14)
    sample_status = field(2, "0 done, 1 started, 2 running")
    counter = array(15, 32, "counters 0 to 14")


class PortCounters(Structure, size=44, attr=0x12, section="16.1.3.5"):
    """Mandatory counters; each stops at its largest value. A Set clears those whose bit is in CounterSelect."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum, 255 = all")
    counter_select = field(16, "bit n: the n-th counter below is written by a Set")
    symbol_error_counter = field(16, "minor link errors")
    link_error_recovery_counter = field(8, "successful recoveries of the link")
    link_downed_counter = field(8, "failed recoveries: the link went down")
    port_rcv_errors = field(16, "packets with an error")
    port_rcv_remote_physical_errors = field(16, "packets with the bad-packet delimiter EBP")
    port_rcv_switch_relay_errors = field(16, "packets that a switch could not forward")
    port_xmit_discards = field(16, "packets discarded on the way out")
    port_xmit_constraint_errors = field(8, "packets not sent: P_Key or raw filter")
    port_rcv_constraint_errors = field(8, "packets not accepted: P_Key or raw filter")
    counter_select2 = field(8, "bit 0: PortXmitWait is written by a Set")
    local_link_integrity_errors = field(4, "LocalPhyErrors exceeded")
    excessive_buffer_overrun_errors = field(4, "OverrunErrors exceeded")
    qp1_dropped = field(16, "PerfMgt MADs dropped at QP1")
    vl15_dropped = field(16, "SMPs dropped")
    port_xmit_data = field(32, "4-octet words sent")
    port_rcv_data = field(32, "4-octet words received")
    port_xmit_pkts = field(32, "packets sent")
    port_rcv_pkts = field(32, "packets received")
    port_xmit_wait = field(32, "ticks with data and without credit or turn")


class PortCountersExtended(Structure, size=184, attr=0x1D, section="16.1.4.11"):
    """The same in 64 bits. Everything from ``symbol_error_counter`` on exists where CapabilityMask2 bit 1 says so."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum, 255 = all")
    counter_select = field(16, "bits 0-7: the eight counters that follow")
    counter_select2 = field(32, "bits of the additional counters")
    port_xmit_data = field(64, "4-octet words sent")
    port_rcv_data = field(64, "4-octet words received")
    port_xmit_pkts = field(64, "packets sent")
    port_rcv_pkts = field(64, "packets received")
    port_unicast_xmit_pkts = field(64, "unicast packets sent")
    port_unicast_rcv_pkts = field(64, "unicast packets received")
    port_multicast_xmit_pkts = field(64, "multicast packets sent")
    port_multicast_rcv_pkts = field(64, "multicast packets received")
    symbol_error_counter = field(64, "as in PortCounters")
    link_error_recovery_counter = field(64, "as in PortCounters")
    link_downed_counter = field(64, "as in PortCounters")
    port_rcv_errors = field(64, "as in PortCounters")
    port_rcv_remote_physical_errors = field(64, "as in PortCounters")
    port_rcv_switch_relay_errors = field(64, "as in PortCounters")
    port_xmit_discards = field(64, "as in PortCounters")
    port_xmit_constraint_errors = field(64, "as in PortCounters")
    port_rcv_constraint_errors = field(64, "as in PortCounters")
    local_link_integrity_errors = field(64, "as in PortCounters")
    excessive_buffer_overrun_errors = field(64, "as in PortCounters")
    vl15_dropped = field(64, "as in PortCounters")
    port_xmit_wait = field(64, "as in PortCounters")
    qp1_dropped = field(64, "as in PortCounters")


class PortRcvErrorDetails(Structure, size=16, attr=0x15, section="16.1.4.1"):
    """PortRcvErrors by cause."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_local_physical_errors = field(16, "CRC and delimiter errors")
    port_malformed_packet_errors = field(16, "malformed packets")
    port_buffer_overrun_errors = field(16, "no room although credit was given")
    port_dlid_mapping_errors = field(16, "no forwarding entry")
    port_vl_mapping_errors = field(16, "SL maps to VL15")
    port_looping_errors = field(16, "forwarded to the port it came from")


class PortXmitDiscardDetails(Structure, size=12, attr=0x16, section="16.1.4.2"):
    """PortXmitDiscards by cause."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_inactive_discards = field(16, "the port was not ACTIVE")
    port_neighbor_mtu_discards = field(16, "longer than NeighborMTU")
    port_sw_lifetime_limit_discards = field(16, "too long in the switch")
    port_sw_hoq_lifetime_limit_discards = field(16, "too long at the head of the queue")


class PortOpRcvCounters(Structure, size=12, attr=0x17, section="16.1.4.3"):
    """Received packets of one opcode."""

    op_code = field(8, "opcode that is counted")
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_op_rcv_pkts = field(32, "packets")
    port_op_rcv_data = field(32, "4-octet words")


class PortFlowCtlCounters(Structure, size=12, attr=0x18, section="16.1.4.4"):
    """Flow-control packets."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_xmit_flow_pkts = field(32, "sent")
    port_rcv_flow_pkts = field(32, "received")


class PortVLOpPackets(Structure, size=36, attr=0x19, section="16.1.4.5"):
    """Packets of one opcode by VL."""

    op_code = field(8, "opcode that is counted")
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_vl_op_packets = array(16, 16, "by VL")


class PortVLOpData(Structure, size=68, attr=0x1A, section="16.1.4.6"):
    """Data of one opcode by VL."""

    op_code = field(8, "opcode that is counted")
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_vl_op_data = array(16, 32, "4-octet words by VL")


class PortVLXmitFlowCtlUpdateErrors(Structure, size=8, attr=0x1B, section="16.1.4.7"):
    """Flow-control updates that came too late, by VL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_vl_xmit_flow_ctl_update_errors = array(16, 2, "by VL")


class PortVLXmitWaitCounters(Structure, size=36, attr=0x1C, section="16.1.4.8"):
    """PortXmitWait by VL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_vl_xmit_wait = array(16, 16, "ticks by VL")


class PortExtendedSpeedsCounters(Structure, size=152, attr=0x1F, section="16.1.4"):
    """Errors of 64b/66b lanes (FDR and EDR), and of RS-FEC.

    CounterSelect counts the counters in this order. With RS-FEC active, ``fec_correctable_block_ctr`` counts corrected
    symbols of each lane.
    """

    _reserved0 = reserved(8)
    port_select = field(8, "portnum, 255 = all")
    _reserved1 = reserved(48)
    counter_select = field(64, "counters that a Set writes")
    sync_header_error_counter = field(16, "blocks with a bad sync header")
    unknown_block_counter = field(16, "blocks of unknown type")
    error_detection_counter = array(12, 16, "by lane")
    fec_correctable_block_ctr = array(12, 32, "by lane")
    fec_uncorrectable_block_ctr = array(12, 32, "by lane")
    port_fec_correctable_block_ctr = field(32, "RS-FEC: blocks that it mended")
    port_fec_uncorrectable_block_ctr = field(32, "RS-FEC: blocks that it could not mend")
    port_fec_corrected_symbol_ctr = field(32, "RS-FEC: symbols that it mended")


class SwPortVLCongestion(Structure, size=36, attr=0x30, section="A10"):
    """Packets that left a congested switch port, by VL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    sw_port_vl_congestion = array(16, 16, "by VL")


class PortRcvConCtrl(Structure, size=12, attr=0x31, section="A10"):
    """Congestion notices received."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_pkt_rcv_fecn = field(32, "packets with FECN")
    port_pkt_rcv_becn = field(32, "packets with BECN")


class PortSLRcvFECN(Structure, size=68, attr=0x32, section="A10"):
    """Packets with FECN by SL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_sl_rcv_fecn = array(16, 32, "by SL")


class PortSLRcvBECN(Structure, size=68, attr=0x33, section="A10"):
    """Packets with BECN by SL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_sl_rcv_becn = array(16, 32, "by SL")


class PortXmitConCtrl(Structure, size=8, attr=0x34, section="A10"):
    """Time in congestion."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_xmit_time_cong = field(32, "ticks")


class PortVLXmitTimeCong(Structure, size=64, attr=0x35, section="A10"):
    """Time in congestion by VL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_vl_xmit_time_cong = array(15, 32, "ticks by VL 0 to 14")


class PortXmitDataSL(Structure, size=68, attr=0x36, section="A10"):
    """Words sent by SL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    xmit_data_sl = array(16, 32, "4-octet words by SL")


class PortRcvDataSL(Structure, size=68, attr=0x37, section="A10"):
    """Words received by SL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    rcv_data_sl = array(16, 32, "4-octet words by SL")
