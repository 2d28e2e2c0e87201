"""Every metric of the exporter: name, kind, labels, meaning, and source. docs/metrics.md contains the same table.

Names of port counters are those of treydock/infiniband_exporter (``infiniband_switch_port_…``,
``infiniband_hca_port_…``) or of guilbaults/infiniband-exporter. Metrics that only softib has begin with ``softib_``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "FINDINGS",
    "FINDING_LABELS",
    "GUILBAULTS",
    "HISTOGRAM",
    "PORT_COUNTERS",
    "SCHEMES",
    "SOFTIB_COUNTERS",
    "STATE",
    "TREYDOCK",
    "Metric",
    "PortCounter",
    "metrics",
]

SCHEMES = ("treydock", "guilbaults")
BYTES = 4
"""Bytes per unit of PortXmitData and PortRcvData (IBA 16.1.3.5)."""


@dataclass(frozen=True)
class Metric:
    """One metric: full name, ``counter``, ``gauge`` or ``histogram``, label names, and its help
    text."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


@dataclass(frozen=True)
class PortCounter:
    """A PerfMgt counter: its field, its names in treydock's exporter, in guilbaults' exporter ("": none) and in the
    specification, and the factor that converts it to the exported unit."""

    field: str
    treydock: str
    guilbaults: str
    spec: str
    factor: int = 1


PORT_COUNTERS = (
    PortCounter("port_xmit_data", "transmit_data_bytes", "portxmitdata", "PortXmitData", BYTES),
    PortCounter("port_rcv_data", "receive_data_bytes", "portrcvdata", "PortRcvData", BYTES),
    PortCounter("port_xmit_pkts", "transmit_packets", "portxmitpkts", "PortXmitPkts"),
    PortCounter("port_rcv_pkts", "receive_packets", "portrcvpkts", "PortRcvPkts"),
    PortCounter("port_unicast_xmit_pkts", "unicast_transmit_packets", "portunicastxmitpkts", "PortUnicastXmitPkts"),
    PortCounter("port_unicast_rcv_pkts", "unicast_receive_packets", "portunicastrcvpkts", "PortUnicastRcvPkts"),
    PortCounter(
        "port_multicast_xmit_pkts", "multicast_transmit_packets", "portmulticastxmitpkts", "PortMulticastXmitPkts"
    ),
    PortCounter("port_multicast_rcv_pkts", "multicast_receive_packets", "portmulticastrcvpkts", "PortMulticastRcvPkts"),
    PortCounter("symbol_error_counter", "symbol_error", "symbolerrorcounter", "SymbolErrorCounter"),
    PortCounter(
        "link_error_recovery_counter", "link_error_recovery", "linkerrorrecoverycounter", "LinkErrorRecoveryCounter"
    ),
    PortCounter("link_downed_counter", "link_downed", "linkdownedcounter", "LinkDownedCounter"),
    PortCounter("port_rcv_errors", "receive_errors", "portrcverrors", "PortRcvErrors"),
    PortCounter(
        "port_rcv_remote_physical_errors",
        "receive_remote_physical_errors",
        "portrcvremotephysicalerrors",
        "PortRcvRemotePhysicalErrors",
    ),
    PortCounter("port_rcv_switch_relay_errors", "receive_switch_relay_errors", "", "PortRcvSwitchRelayErrors"),
    PortCounter("port_xmit_discards", "transmit_discards", "portxmitdiscards", "PortXmitDiscards"),
    PortCounter(
        "port_xmit_constraint_errors",
        "transmit_constraint_errors",
        "portxmitconstrainterrors",
        "PortXmitConstraintErrors",
    ),
    PortCounter(
        "port_rcv_constraint_errors", "receive_constraint_errors", "portrcvconstrainterrors", "PortRcvConstraintErrors"
    ),
    PortCounter(
        "local_link_integrity_errors",
        "local_link_integrity_errors",
        "locallinkintegrityerrors",
        "LocalLinkIntegrityErrors",
    ),
    PortCounter(
        "excessive_buffer_overrun_errors",
        "excessive_buffer_overrun_errors",
        "excessivebufferoverrunerrors",
        "ExcessiveBufferOverrunErrors",
    ),
    PortCounter("vl15_dropped", "vl15_dropped", "vl15dropped", "VL15Dropped"),
    PortCounter("port_xmit_wait", "transmit_wait", "portxmitwait", "PortXmitWait"),
    PortCounter("qp1_dropped", "qp1_dropped", "", "QP1Dropped"),
    PortCounter(
        "port_local_physical_errors", "local_physical_errors", "portlocalphysicalerrors", "PortLocalPhysicalErrors"
    ),
    PortCounter(
        "port_malformed_packet_errors", "malformed_packet_errors", "portmalformedpkterrors", "PortMalformedPktErrors"
    ),
    PortCounter(
        "port_buffer_overrun_errors", "buffer_overrun_errors", "portbufferoverrunerrors", "PortBufferOverrunErrors"
    ),
    PortCounter("port_dlid_mapping_errors", "dli_mapping_errors", "portdlidmappingerrors", "PortDLIDMappingErrors"),
    PortCounter("port_vl_mapping_errors", "vl_mapping_errors", "", "PortVLMappingErrors"),
    PortCounter("port_looping_errors", "looping_errors", "", "PortLoopingErrors"),
)
"""Counters that the other exporters also have. Data counters are in bytes under the names of both exporters, although
guilbaults' exporter itself counts words of four bytes."""

SOFTIB_COUNTERS = (
    (
        "port_inactive_discards",
        "softib_port_inactive_discards_total",
        "PortInactiveDiscards: packets for a port that was not ACTIVE",
    ),
    (
        "port_neighbor_mtu_discards",
        "softib_port_neighbor_mtu_discards_total",
        "PortNeighborMTUDiscards: packets longer than NeighborMTU",
    ),
    (
        "port_sw_lifetime_limit_discards",
        "softib_port_switch_lifetime_discards_total",
        "PortSwLifetimeLimitDiscards: packets too long in the switch",
    ),
    (
        "port_sw_hoq_lifetime_limit_discards",
        "softib_port_head_of_queue_discards_total",
        "PortSwHOQLifetimeLimitDiscards: packets too long at the head of the queue",
    ),
    (
        "port_vl_xmit_flow_ctl_update_errors",
        "softib_port_flow_control_update_errors_total",
        "PortVLXmitFlowCtlUpdateErrors: no flow-control packet of a VL arrived in time (2 bits per VL on the wire)",
    ),
    (
        "port_fec_corrected_symbol_ctr",
        "softib_port_fec_corrected_symbols_total",
        "PortFECCorrectedSymbolCtr: symbols that RS-FEC corrected",
    ),
    (
        "port_fec_correctable_block_ctr",
        "softib_port_fec_corrected_blocks_total",
        "PortFECCorrectableBlockCtr: blocks that RS-FEC corrected",
    ),
    (
        "port_fec_uncorrectable_block_ctr",
        "softib_port_fec_uncorrected_blocks_total",
        "PortFECUncorrectableBlockCtr: blocks that RS-FEC could not correct",
    ),
)
"""Counters that no other exporter has: field, metric, help."""

_PORT = ("guid", "port")
LANES = Metric(
    "softib_port_fec_lane_corrected_total",
    "counter",
    (*_PORT, "lane"),
    "FECCorrectableBlockCtrLane: corrections on each lane (symbols under RS-FEC); lanes with a count of 0 are absent",
)
STUCK = Metric(
    "softib_port_stuck_counter",
    "gauge",
    (*_PORT, "counter"),
    "1 for each counter that is at its largest value, by its PerfMgt name",
)
HISTOGRAM = Metric(
    "softib_port_fec_codeword_symbols",
    "histogram",
    (*_PORT, "le"),
    "Codewords by the number of symbols that RS-FEC corrected, if the device's register is readable; "
    "uncorrectable ones are in softib_port_fec_uncorrected_blocks_total",
)
STATE = (
    Metric(
        "softib_port_symbol_ber",
        "gauge",
        _PORT,
        "Symbol errors divided by the bits that the link carried, over softib_port_observed_seconds",
    ),
    Metric(
        "softib_port_symbol_ber_upper",
        "gauge",
        _PORT,
        "Upper bound of the symbol error ratio with 95 % confidence, also with a count of 0",
    ),
    Metric(
        "softib_port_raw_ber",
        "gauge",
        _PORT,
        "Symbols that RS-FEC corrected, divided by bits: a lower bound of the bit error ratio before FEC",
    ),
    Metric("softib_port_effective_ber", "gauge", _PORT, "Blocks that RS-FEC could not correct, divided by bits"),
    Metric("softib_port_observed_seconds", "gauge", _PORT, "Duration over which the port's error ratios are computed"),
    Metric(
        "softib_port_transmit_wait_ratio",
        "gauge",
        _PORT,
        "Share of the last interval in which data waited for credits or arbitration: "
        "PortXmitWait times the device's tick",
    ),
    Metric(
        "softib_port_transmit_utilization_ratio",
        "gauge",
        _PORT,
        "Data sent in the last interval, as a share of the link's data rate",
    ),
    Metric("softib_port_state", "gauge", _PORT, "PortState: 1 down, 2 init, 3 armed, 4 active"),
    Metric(
        "softib_port_physical_state",
        "gauge",
        _PORT,
        "PortPhysicalState: 2 polling, 3 disabled, 4 training, 5 link up, 6 error recovery",
    ),
    Metric(
        "softib_port_stuck_counters",
        "gauge",
        _PORT,
        "Number of the port's counters that are at their largest value (absent if there are none)",
    ),
    Metric(
        "softib_port_fec_limit_symbols",
        "gauge",
        _PORT,
        "Symbols of a codeword that the active code corrects: 15 RS(544,514), 7 RS(528,514)",
    ),
    Metric(
        "softib_module_temperature_celsius", "gauge", _PORT, "Temperature of the cable's module, if the source has it"
    ),
    Metric(
        "softib_module_temperature_high_alarm_celsius",
        "gauge",
        _PORT,
        "High alarm threshold of the module's temperature",
    ),
    Metric("softib_module_voltage_volts", "gauge", _PORT, "Supply voltage of the module"),
    Metric(
        "softib_module_receive_power_dbm",
        "gauge",
        _PORT,
        "Optical power that the module receives on its weakest lane; -40: no light",
    ),
    Metric(
        "softib_module_receive_power_low_alarm_dbm", "gauge", _PORT, "Low alarm threshold of the module's receive power"
    ),
    Metric(
        "softib_module_transmit_power_dbm", "gauge", _PORT, "Optical power that the module sends on its weakest lane"
    ),
    Metric(
        "softib_module_transmit_power_low_alarm_dbm",
        "gauge",
        _PORT,
        "Low alarm threshold of the module's transmit power",
    ),
    Metric("softib_module_transmit_bias_amperes", "gauge", _PORT, "Highest bias current of the module's lasers"),
    Metric(
        "softib_device_temperature_celsius", "gauge", _PORT, "Temperature of the port's device, if the source has it"
    ),
)
_CABLE = (*_PORT, "node", "peer_guid", "peer", "peer_port")
STANDING = (
    Metric(
        "softib_device_up",
        "gauge",
        ("guid", "node", "kind"),
        "1: the device answered in the last round; 0: it was seen or is expected, and does not answer",
    ),
    Metric(
        "softib_port_info",
        "gauge",
        _CABLE,
        "Names of a port's device and of its peer, whether the link is up or down",
    ),
    Metric(
        "softib_link_up",
        "gauge",
        _CABLE,
        "1 for each cable that was seen or is expected and is up at both ends, 0 for one that is down",
    ),
)
"""Metrics of every device, port and cable that was ever seen. They are exported until it is removed, also while it is
down."""
FINDING_LABELS = ("code", "severity", "guid", "port", "node", "peer_guid", "peer", "peer_port", "jobs")
FINDINGS = (
    Metric(
        "softib_finding",
        "gauge",
        FINDING_LABELS,
        "1 for each finding over the last twenty minutes that no device or cable that is down explains; "
        "node and port: the end to check first",
    ),
    Metric(
        "softib_finding_first_seen_timestamp_seconds",
        "gauge",
        ("code", "guid", "port", "node"),
        "Start of the present episode of this finding",
    ),
    Metric(
        "softib_finding_episodes",
        "gauge",
        ("code", "guid", "port", "node"),
        "Episodes of this finding in the last thirty days, the present one included",
    ),
)
"""The result of ``softib diagnose``."""
TREYDOCK = (
    Metric("infiniband_switch_info", "gauge", ("guid", "switch", "lid"), "Name and LID of a switch"),
    Metric(
        "infiniband_switch_uplink_info",
        "gauge",
        (*_PORT, "switch", "uplink", "uplink_guid", "uplink_type", "uplink_port", "uplink_lid"),
        "Peer of a switch port",
    ),
    Metric("infiniband_switch_port_rate_bytes_per_second", "gauge", _PORT, "Data rate of the link"),
    Metric("infiniband_switch_port_raw_rate_bytes_per_second", "gauge", _PORT, "Signalling rate of the link"),
    Metric("infiniband_hca_info", "gauge", ("guid", "hca", "lid"), "Name and LID of each port of an HCA"),
    Metric(
        "infiniband_hca_uplink_info",
        "gauge",
        (*_PORT, "hca", "uplink", "uplink_guid", "uplink_type", "uplink_port", "uplink_lid"),
        "Peer of an HCA's port",
    ),
    Metric("infiniband_hca_rate_bytes_per_second", "gauge", ("guid",), "Data rate of the link of the HCA's port"),
    Metric(
        "infiniband_hca_raw_rate_bytes_per_second", "gauge", ("guid",), "Signalling rate of the link of the HCA's port"
    ),
    Metric("infiniband_exporter_collector_duration_seconds", "gauge", ("collector",), "Duration of the last round"),
    Metric(
        "infiniband_exporter_collect_errors",
        "gauge",
        ("collector",),
        "Ports that could not be read in the last round although their device answered",
    ),
    Metric(
        "infiniband_exporter_collect_timeouts", "gauge", ("collector",), "Devices that did not answer in the last round"
    ),
)
GUILBAULTS_LABELS = ("component", "local_name", "local_guid", "local_port", "remote_guid", "remote_port", "remote_name")
GUILBAULTS = (
    Metric("infiniband_speed", "gauge", GUILBAULTS_LABELS, "Signalling rate of a lane in Gb/s"),
    Metric("infiniband_width", "gauge", GUILBAULTS_LABELS, "Lanes of the link"),
    Metric("infiniband_scrape_ok", "gauge", (), "1: the last round read every port"),
    Metric("infiniband_scrape_duration_seconds", "gauge", (), "Duration of the last round"),
)
SERVICE = (
    Metric(
        "softib_up",
        "gauge",
        (),
        "1: rounds are being read; 0: the last round is too old, so no metrics of ports are shown",
    ),
    Metric("softib_round_duration_seconds", "gauge", (), "Duration of the last round"),
    Metric("softib_round_timestamp_seconds", "gauge", (), "Time at which the last round ended"),
    Metric("softib_round_mads", "gauge", (), "Requests sent in the last round"),
    Metric("softib_rounds_total", "counter", (), "Rounds since the exporter began"),
    Metric("softib_ports", "gauge", ("read",), "Ports that the last round read (yes), and could not read (no)"),
    Metric(
        "softib_devices_silent",
        "gauge",
        (),
        "Devices that did not answer in the last round, or are skipped because they never answered",
    ),
    Metric(
        "softib_devices_down",
        "gauge",
        (),
        "Devices that were seen or are expected and do not answer, until they are forgotten",
    ),
    Metric(
        "softib_findings_judged_timestamp_seconds",
        "gauge",
        (),
        "Time of the last evaluation of the rules (absent: none)",
    ),
    Metric(
        "softib_sm_state",
        "gauge",
        ("sm", "state"),
        "1 for the SMState of each subnet manager (MASTER, STANDBY, DISCOVERING, NOTACTIVE)",
    ),
    Metric("softib_sm_priority", "gauge", ("sm",), "SMInfo.Priority of each subnet manager"),
    Metric("softib_sm_activity_total", "counter", ("sm",), "SMInfo.ActCount of each subnet manager"),
    Metric("softib_sm_still_seconds", "gauge", ("sm",), "Seconds since the manager's ActCount rose"),
    Metric("softib_sm_answers", "gauge", ("sm",), "1: the manager answered SMInfo in the last round"),
    Metric("softib_sm_answer_seconds", "gauge", (), "Duration of the last SMInfo request"),
    Metric(
        "softib_sa_answer_seconds",
        "gauge",
        (),
        "Duration of the last SubnAdmGet(ClassPortInfo), a query to the subnet administrator (absent: no answer)",
    ),
    Metric(
        "softib_sm_stalled",
        "gauge",
        ("sm",),
        "1: the manager's port answers, but the manager is a master whose ActCount has not risen for more than 30 s, "
        "or it has not answered SMInfo in three consecutive rounds",
    ),
    Metric("softib_sm_sweeps_total", "counter", (), "Sweeps of the running fabric's manager"),
    Metric("softib_sm_sweep_seconds", "gauge", ("phase",), "Seconds of each phase of the running fabric's last sweep"),
    Metric("softib_sm_sweep_problems", "gauge", (), "Problems of the running fabric's last sweep"),
    Metric("softib_sa_requests_total", "counter", (), "Queries to the subnet administrator of the running fabric"),
    Metric("softib_sa_busy_total", "counter", (), "Queries that were answered with BUSY because too many waited"),
    Metric("softib_sa_waiting", "gauge", (), "Pending queries"),
    Metric(
        "softib_sa_wait_seconds",
        "histogram",
        ("le",),
        "Waiting time of clients' queries at the running fabric's manager, from delivery to answer",
    ),
    Metric("softib_sa_oldest_wait_seconds", "gauge", (), "Waiting time of the oldest pending query"),
    Metric(
        "softib_traps",
        "gauge",
        ("what",),
        "Traps of a running fabric: pending, sent, repressed, given_up, merged, lost",
    ),
    Metric(
        "softib_traps_raised_total",
        "counter",
        ("trap",),
        "Notices that devices of a running fabric raised, by trap number (128 link state, 129 to 131 thresholds, "
        "144 capability, 256 M_Key, 257 to 259 P_Key and Q_Key)",
    ),
    Metric(
        "softib_fabric_mads_total",
        "counter",
        ("what",),
        "MADs that a running fabric answered, forwarded, or gave back as timed out",
    ),
)


def metrics(scheme: str) -> list[Metric]:
    """Return all metrics of the exporter with the names of ``scheme``, in the order of the documentation's table."""
    ports: list[Metric] = []
    if scheme == "treydock":
        for kind in ("switch", "hca"):
            ports += [
                Metric(
                    f"infiniband_{kind}_port_{c.treydock}_total",
                    "counter",
                    _PORT,
                    f"{c.spec} of {'a switch' if kind == 'switch' else 'an HCA'} port",
                )
                for c in PORT_COUNTERS
            ]
        ports += TREYDOCK
    else:
        ports += [
            Metric(f"infiniband_{c.guilbaults or c.spec.lower()}_total", "counter", GUILBAULTS_LABELS, c.spec)
            for c in PORT_COUNTERS
        ]
        ports += GUILBAULTS
    softib = [Metric(name, "counter", _PORT, text) for _, name, text in SOFTIB_COUNTERS]
    return [*ports, *softib, LANES, STUCK, HISTOGRAM, *STATE, *STANDING, *FINDINGS, *SERVICE]
