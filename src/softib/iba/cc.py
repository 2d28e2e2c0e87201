"""Congestion control attributes (IBA annex A10.4.3), declared once.

The class is 0x21, class version 2. The CC_Key is at byte 24 of the MAD, and the attribute at byte
64. Only CongestionLog begins at byte 32, because it includes the log area.
"""

from __future__ import annotations

from softib.iba.structure import Structure, array, field, reserved

__all__ = [
    "CCT_BLOCK",
    "CC_CLASS_VERSION",
    "CC_KEY_AT",
    "CC_LOG_AT",
    "SWITCH_PORT_BLOCK",
    "CACongestionEntry",
    "CACongestionSetting",
    "CongestionControlTable",
    "CongestionInfo",
    "CongestionKeyInfo",
    "CongestionLogCA",
    "CongestionLogEventCA",
    "CongestionLogEventSwitch",
    "CongestionLogSwitch",
    "SwitchCongestionSetting",
    "SwitchPortCongestionSetting",
    "SwitchPortCongestionSettingElement",
    "TimeStamp",
]

CC_CLASS_VERSION = 2
CC_KEY_AT = 24
CC_LOG_AT = 32
"""Offset of the attribute CongestionLog in the MAD."""
CCT_BLOCK = 64
"""Number of entries in a CongestionControlTable block. AttributeModifier is the number of the
block."""
SWITCH_PORT_BLOCK = 48
"""Number of ports in a SwitchPortCongestionSetting block, as in ibccquery and ibccconfig, which use
all of the 192 bytes. (OpenSM's header declares 32, but its congestion manager never sends the
attribute.)"""


class CongestionInfo(Structure, size=4, attr=0x11, section="A10.4.3.3"):
    """Congestion control capabilities of the node."""

    congestion_info = field(16, "bit 0: credit starvation (switches)")
    control_table_cap = field(8, "CA: blocks of 64 entries of its CongestionControlTable")


class CongestionKeyInfo(Structure, size=16, attr=0x12, section="A10.4.3.4"):
    """The CC_Key, which protects congestion control of the port."""

    cc_key = field(64, "0: everybody may")
    cc_key_protect_bit = field(1, "1: readable only with the CC_Key")
    _reserved0 = reserved(15)
    cc_key_lease_period = field(16, "seconds until the protect bit is cleared, 0 = never")
    cc_key_violations = field(16, "MADs with a wrong CC_Key; a Set of 0 clears")


class CongestionLogSwitch(Structure, size=224, attr=0x13, section="A10.4.3.5"):
    """The last 15 packets that a switch marked. Each entry is a CongestionLogEventSwitch."""

    log_type = field(8, "1")
    congestion_flags = field(8, "bit 0: credit starvation occurred")
    log_events_counter = field(16, "events since the log was set up, stops at its maximum")
    current_time_stamp = field(32, "TimeStamp at the answer")
    port_map = array(32, 8, "256 bits: ports that marked packets")
    events = array(180, 8, "15 entries of 12 bytes")


class CongestionLogEventSwitch(Structure, size=12, section="A10.4.3.5"):
    """A packet that a switch marked."""

    slid = field(16, "source of the packet")
    dlid = field(16, "destination of the packet")
    sl = field(4, "SL of the packet")
    _reserved0 = reserved(28)
    timestamp = field(32, "TimeStamp then")


class CongestionLogCA(Structure, size=224, attr=0x13, section="A10.4.3.5"):
    """The last 13 flows of a CA port that reached their threshold. Each entry is a
    CongestionLogEventCA."""

    log_type = field(8, "2")
    congestion_flags = field(8, "unused in CA logs")
    threshold_event_counter = field(16, "events since the log was set up, stops at its maximum")
    threshold_congestion_event_map = field(16, "SLs that reached their threshold")
    _reserved0 = reserved(16)
    current_time_stamp = field(32, "TimeStamp at the answer")
    events = array(208, 8, "13 entries of 16 bytes")


class CongestionLogEventCA(Structure, size=16, section="A10.4.3.5"):
    """A flow whose CCTI reached its threshold."""

    local_qp = field(24, "QP of the flow")
    sl = field(4, "SL of the flow")
    service_type = field(4, "0 RC, 1 UC, 2 RD, 3 UD")
    remote_qp = field(24, "destination QP")
    _reserved0 = reserved(8)
    local_lid = field(16, "source")
    remote_lid = field(16, "destination")
    timestamp = field(32, "TimeStamp then")


class SwitchCongestionSetting(Structure, size=76, attr=0x14, section="A10.4.3.6"):
    """How a switch marks congestion. A Set changes the components whose bit in ControlMap is
    set."""

    control_map = field(32, "bit 0 VictimMask, 1 CreditMask, 2 Threshold and PacketSize, 3 CS_…, 4 MarkingRate")
    victim_mask = array(32, 8, "256 bits: ports that also mark victims, port 0 last")
    credit_mask = array(32, 8, "256 bits: ports that apply credit starvation")
    threshold = field(4, "0 never marks … 15 marks most eagerly")
    _reserved0 = reserved(4)
    packet_size = field(8, "smaller packets are not marked, in units of 64 bytes")
    cs_threshold = field(4, "the same for credit starvation")
    _reserved1 = reserved(12)
    cs_return_delay = field(16, "shift (2) and multiplier (14)")
    marking_rate = field(16, "mean number of packets between two marks")


class SwitchPortCongestionSettingElement(Structure, size=4, section="A10.4.3.7"):
    """How one port of a switch marks congestion."""

    valid = field(1, "1: the port does not follow SwitchCongestionSetting")
    control_type = field(1, "0: threshold of marking, 1: of credit starvation")
    _reserved0 = reserved(2)
    threshold = field(4, "as above")
    packet_size = field(8, "as above")
    cong_parm_marking_rate = field(16, "as above")


class SwitchPortCongestionSetting(Structure, size=192, attr=0x15, section="A10.4.3.7"):
    """A block of 48 ports, with one SwitchPortCongestionSettingElement per port."""

    elements = array(192, 8, "48 entries of 4 bytes, port 48 * block first")


class CACongestionEntry(Structure, size=8, section="A10.4.3.8"):
    """How the flows of one SL react to BECNs."""

    ccti_timer = field(16, "1.024 us units until the CCTI decreases by one")
    ccti_increase = field(8, "increase of the CCTI by a BECN")
    trigger_threshold = field(8, "CCTI at which an event is logged")
    ccti_min = field(8, "lower limit of the CCTI")


class CACongestionSetting(Structure, size=132, attr=0x16, section="A10.4.3.8"):
    """How a CA port's flows react to BECNs. A Set changes the entries of the SLs in ControlMap."""

    port_control = field(16, "bit 0: 0 each QP, 1 each SL of the port is throttled")
    control_map = field(16, "SLs whose entries a Set changes")
    entries = array(128, 8, "16 entries of 8 bytes, by SL")


class CongestionControlTable(Structure, size=132, attr=0x17, section="A10.4.3.9"):
    """The injection delay of each CCTI, in blocks of 64."""

    ccti_limit = field(16, "largest CCTI")
    _reserved0 = reserved(16)
    entry = array(64, 16, "shift (2) and multiplier (14)")


class TimeStamp(Structure, size=4, attr=0x18, section="A10.4.3.10"):
    """The time of the port's clock."""

    timestamp = field(32, "in 1.024 us, wraps")
