"""Optional attributes of performance management (IBA 16.1.4): 64-bit counters, causes of errors,
counters per opcode and per VL, flow control.

ClassPortInfo states which counters of PortCountersExtended an agent has
(:class:`softib.iba.perf.CapMask`). It has no bit for the other attributes: an agent answers with
status 0x0C for an attribute that it does not support (IBA 13.4.7).
"""

from __future__ import annotations

from softib.iba.structure import Structure, array, field, reserved

__all__ = [
    "PortCountersExtended",
    "PortExtendedSpeedsCounters",
    "PortFlowCtlCounters",
    "PortOpRcvCounters",
    "PortRcvConCtrl",
    "PortRcvDataSL",
    "PortRcvErrorDetails",
    "PortSLRcvBECN",
    "PortSLRcvFECN",
    "PortVLOpData",
    "PortVLOpPackets",
    "PortVLXmitFlowCtlUpdateErrors",
    "PortVLXmitTimeCong",
    "PortVLXmitWaitCounters",
    "PortXmitConCtrl",
    "PortXmitDataSL",
    "PortXmitDiscardDetails",
    "SwPortVLCongestion",
]


class PortExtendedSpeedsCounters(Structure, size=152, attr=0x1F, section="16.1.4"):
    """Errors on 64b/66b lanes (FDR and EDR), and errors that RS-FEC found.

    The bits of CounterSelect are in the order of these counters. If RS-FEC is active,
    ``fec_correctable_block_ctr`` counts corrected symbols of each lane.
    """

    _reserved0 = reserved(8)
    port_select = field(8, "portnum, 255 = all")
    _reserved1 = reserved(48)
    counter_select = field(64, "counters that a Set writes")
    sync_header_error_counter = field(16, "blocks with a bad sync header")
    unknown_block_counter = field(16, "RS-FEC: corrected blocks")
    error_detection_counter = array(12, 16, "by lane")
    fec_correctable_block_ctr = array(12, 32, "by lane")
    fec_uncorrectable_block_ctr = array(12, 32, "by lane")
    port_fec_correctable_block_ctr = field(32, "RS-FEC: uncorrectable blocks")
    port_fec_uncorrectable_block_ctr = field(32, "RS-FEC: corrected symbols")
    port_fec_corrected_symbol_ctr = field(32, "RS-FEC: symbols that it corrected")


class SwPortVLCongestion(Structure, size=36, attr=0x30, section="A10"):
    """Packets that left a switch port in congestion, per VL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    sw_port_vl_congestion = array(16, 16, "by VL")


class PortRcvConCtrl(Structure, size=12, attr=0x31, section="A10"):
    """Congestion notifications (FECN, BECN) that a port received."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_pkt_rcv_fecn = field(32, "packets with FECN")
    port_pkt_rcv_becn = field(32, "packets with BECN")


class PortSLRcvFECN(Structure, size=68, attr=0x32, section="A10"):
    """Packets received with FECN, per SL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_sl_rcv_fecn = array(16, 32, "by SL")


class PortSLRcvBECN(Structure, size=68, attr=0x33, section="A10"):
    """Packets received with BECN, per SL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_sl_rcv_becn = array(16, 32, "by SL")


class PortXmitConCtrl(Structure, size=8, attr=0x34, section="A10"):
    """Time for which a port was in congestion."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_xmit_time_cong = field(32, "ticks")


class PortVLXmitTimeCong(Structure, size=64, attr=0x35, section="A10"):
    """Time in congestion, per VL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_vl_xmit_time_cong = array(15, 32, "ticks by VL 0 to 14")


class PortXmitDataSL(Structure, size=68, attr=0x36, section="A10"):
    """Words sent, per SL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    xmit_data_sl = array(16, 32, "4-byte words by SL")


class PortRcvDataSL(Structure, size=68, attr=0x37, section="A10"):
    """Words received, per SL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    rcv_data_sl = array(16, 32, "4-byte words by SL")


class PortCountersExtended(Structure, size=184, attr=0x1D, section="16.1.4.11"):
    """The counters of PortCounters in 64 bits. Fields from ``symbol_error_counter`` on exist only
    if CapabilityMask2 bit 1 is set."""

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
    """PortRcvErrors, divided by cause."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_local_physical_errors = field(16, "CRC and delimiter errors")
    port_malformed_packet_errors = field(16, "malformed packets")
    port_buffer_overrun_errors = field(16, "no buffer space although credit was given")
    port_dlid_mapping_errors = field(16, "no forwarding entry")
    port_vl_mapping_errors = field(16, "SL maps to VL15")
    port_looping_errors = field(16, "forwarded to the port it came from")


class PortXmitDiscardDetails(Structure, size=12, attr=0x16, section="16.1.4.2"):
    """PortXmitDiscards, divided by cause."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_inactive_discards = field(16, "the port was not ACTIVE")
    port_neighbor_mtu_discards = field(16, "longer than NeighborMTU")
    port_sw_lifetime_limit_discards = field(16, "too long in the switch")
    port_sw_hoq_lifetime_limit_discards = field(16, "too long at the head of the queue")


class PortOpRcvCounters(Structure, size=12, attr=0x17, section="16.1.4.3"):
    """Received packets and data of one opcode."""

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
    """Packets of one opcode, per VL."""

    op_code = field(8, "opcode that is counted")
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_vl_op_packets = array(16, 16, "by VL")


class PortVLOpData(Structure, size=68, attr=0x1A, section="16.1.4.6"):
    """Data of one opcode, per VL."""

    op_code = field(8, "opcode that is counted")
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_vl_op_data = array(16, 32, "4-byte words by VL")


class PortVLXmitFlowCtlUpdateErrors(Structure, size=8, attr=0x1B, section="16.1.4.7"):
    """Flow-control updates that arrived too late, per VL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_vl_xmit_flow_ctl_update_errors = array(16, 2, "by VL")


class PortVLXmitWaitCounters(Structure, size=36, attr=0x1C, section="16.1.4.8"):
    """PortXmitWait, per VL."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum")
    counter_select = field(16, "counters that a Set writes")
    port_vl_xmit_wait = array(16, 16, "ticks by VL")
