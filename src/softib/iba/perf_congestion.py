"""Performance management of congestion: notices and times by VL and SL (IBA annex A10, attributes
0x30 to 0x37)."""

from __future__ import annotations

from softib.iba.structure import Structure, array, field, reserved

__all__ = [
    "PortRcvConCtrl",
    "PortRcvDataSL",
    "PortSLRcvBECN",
    "PortSLRcvFECN",
    "PortVLXmitTimeCong",
    "PortXmitConCtrl",
    "PortXmitDataSL",
    "SwPortVLCongestion",
]


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
