"""Performance management (IBA 16.1): an agent's capabilities, and the mandatory attributes, which
are samples and PortCounters.

All attributes of the class begin at byte 64 of the MAD. Data counters count 4-byte words, counters
of waiting and of congestion count ticks, and all others count events. Counter names are those of
the specification. :mod:`softib.iba.perf_optional` declares the optional attributes.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

from softib.iba.structure import Structure, array, field, reserved

__all__ = [
    "ALL_PORTS",
    "CapMask",
    "CapMask2",
    "PortCounters",
    "PortSamplesControl",
    "PortSamplesResult",
    "SampleStatus",
]

ALL_PORTS = 255
"""PortSelect that means all ports at once, if bit 8 of ClassPortInfo.CapabilityMask is set (IBA
16.1.3.5).
"""


class CapMask(IntFlag):
    """ClassPortInfo.CapabilityMask of PerfMgt (IBA 16.1.3.1). ConnectX and Quantum report
    0x5300."""

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


class PortSamplesControl(Structure, attr=0x10, section="16.1.3.2"):
    """The counters that are sampled, and the time and duration of sampling.

    ``tick``: Linux' qib driver reports 0, 1 and 3 at SDR, DDR and QDR, since its clock of 4 ns is a
    multiple of ten bit times. ``counter_select``: 1 to 5 are PortXmitData, PortRcvData,
    PortXmitPkts, PortRcvPkts and PortXmitWait (16.1.3.3).
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
    tag = field(16, "copied to the results")
    counter_select = array(15, 16, "the quantities of counters 0 to 14")
    _reserved4 = reserved(32)
    samples_only_option_mask = field(64, "optional counters that exist only as samples")


class PortSamplesResult(Structure, size=64, attr=0x11, section="16.1.3.4"):
    """The sampled values."""

    tag = field(16, "of the PortSamplesControl")
    _reserved0 = reserved(14)
    sample_status = field(2, "0 done, 1 started, 2 running")
    counter = array(15, 32, "counters 0 to 14")


class PortCounters(Structure, size=44, attr=0x12, section="16.1.3.5"):
    """Mandatory counters. Each stops at its largest value. A Set clears the counters whose bit in
    CounterSelect is set."""

    _reserved0 = reserved(8)
    port_select = field(8, "portnum, 255 = all")
    counter_select = field(16, "bit n: the n-th counter below is written by a Set")
    symbol_error_counter = field(16, "minor link errors")
    link_error_recovery_counter = field(8, "successful recoveries of the link")
    link_downed_counter = field(8, "failed recoveries: the link went down")
    port_rcv_errors = field(16, "packets with an error")
    port_rcv_remote_physical_errors = field(16, "packets with the bad-packet delimiter EBP")
    port_rcv_switch_relay_errors = field(16, "packets that a switch could not forward")
    port_xmit_discards = field(16, "packets discarded at egress")
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
    port_xmit_wait = field(32, "ticks with data to send but without credit or arbitration")
