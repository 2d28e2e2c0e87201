"""Dtypes of a fabric's counter columns (:mod:`softib.fabric.columns`). Fields are named as in
PerfMgt.

Each column has one row per port. :data:`COUNTERS` (176 bytes per port) always takes memory; the
memory of the other columns is allocated when one of their counters first increases
(:data:`softib.fabric.columns.LAZY_COLUMNS`).
"""

from __future__ import annotations

import numpy as np

LINK_ERRORS = (
    "symbol_error_counter",
    "link_error_recovery_counter",
    "link_downed_counter",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_discards",
    "port_xmit_constraint_errors",
    "port_rcv_constraint_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
"""PerfMgt names of the error counters, in the order of their bits in CounterSelect (IBA
16.1.3.5)."""
DATA = ("port_xmit_data", "port_rcv_data", "port_xmit_pkts", "port_rcv_pkts")
CAST_PACKETS = (
    "port_unicast_xmit_pkts",
    "port_unicast_rcv_pkts",
    "port_multicast_xmit_pkts",
    "port_multicast_rcv_pkts",
)
COUNTER_NAMES = (*LINK_ERRORS, "qp1_dropped", "vl15_dropped", *DATA, "port_xmit_wait", *CAST_PACKETS)
"""PerfMgt names (IBA 16.1.3.5 and 16.1.4.11). Data counters count 4-byte words, wait counters count
ticks, and all others count events."""

COUNTERS = np.dtype([(name, np.uint64) for name in COUNTER_NAMES])

DETAIL_COUNTERS = np.dtype(
    [
        (name, np.uint64)
        for name in (
            # PortRcvErrorDetails, PortXmitDiscardDetails
            "port_local_physical_errors",
            "port_malformed_packet_errors",
            "port_buffer_overrun_errors",
            "port_dlid_mapping_errors",
            "port_vl_mapping_errors",
            "port_looping_errors",
            "port_inactive_discards",
            "port_neighbor_mtu_discards",
            "port_sw_lifetime_limit_discards",
            "port_sw_hoq_lifetime_limit_discards",
            # PortOpRcvCounters, PortFlowCtlCounters
            "port_op_rcv_pkts",
            "port_op_rcv_data",
            "port_xmit_flow_pkts",
            "port_rcv_flow_pkts",
            # PortRcvConCtrl, PortXmitConCtrl
            "port_pkt_rcv_fecn",
            "port_pkt_rcv_becn",
            "port_xmit_time_cong",
        )
    ]
)
"""Optional counters of a port (136 bytes), with the names of PerfMgt (IBA 16.1.4, A10). Data is
counted in 4-byte words, time in ticks."""

VL_COUNTERS = np.dtype(
    [
        (name, np.uint64, (16,))
        for name in (
            "port_vl_op_packets",
            "port_vl_op_data",
            "port_vl_xmit_flow_ctl_update_errors",
            "port_vl_xmit_wait",
            "sw_port_vl_congestion",
            "port_vl_xmit_time_cong",
        )
    ]
)
"""Optional counters per VL (768 bytes a port): packets and words of the opcode selected by
``op_code``, late flow-control updates, ticks without credit, packets that met congestion, and ticks
in congestion."""

SL_COUNTERS = np.dtype(
    [(name, np.uint64, (16,)) for name in ("xmit_data_sl", "rcv_data_sl", "port_sl_rcv_fecn", "port_sl_rcv_becn")]
)
"""Optional counters per SL (512 bytes a port): words sent and received, packets received with FECN
and with BECN."""

LANE_COUNTERS = np.dtype(
    [
        ("sync_header_error_counter", np.uint64),
        ("unknown_block_counter", np.uint64),
        ("error_detection_counter", np.uint64, (12,)),
        ("fec_correctable_block_ctr", np.uint64, (12,)),
        ("fec_uncorrectable_block_ctr", np.uint64, (12,)),
        ("port_fec_correctable_block_ctr", np.uint64),
        ("port_fec_uncorrectable_block_ctr", np.uint64),
        ("port_fec_corrected_symbol_ctr", np.uint64),
    ]
)
"""Counters per lane of PortExtendedSpeedsCounters (328 bytes a port). If RS-FEC is active,
``fec_correctable_block_ctr`` counts corrected *symbols* of each lane (as in libibmad's RSFEC field
table)."""
