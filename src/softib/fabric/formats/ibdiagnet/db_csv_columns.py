"""Names of a .db_csv's columns, and the component of the specification that each column contains.

Source: headers of files that ibdiagnet 2.10 wrote. How speeds are packed follows from their values:
a port that supports QDR and NDR has 0x804. PortInfo's LinkSpeedActive is in the low byte,
LinkSpeedExtActive in the next, FDR10 and EDR20 in bits 16 and 17, and LinkSpeedExt2 in bits 24 and
25.
"""

from __future__ import annotations

import numpy as np

from softib.fabric.columns import CableMedium

__all__ = [
    "CABLE_LENGTHS",
    "CABLE_TEXTS",
    "COUNTERS",
    "DETAIL_COUNTERS",
    "EXTENDED_SPEEDS",
    "EXTENDED_SPEEDS_LANES",
    "FEC_NAMES",
    "FIRMWARE",
    "NO_FEC",
    "PORT_INFO",
    "PORT_INFO_EXTENDED",
    "SPEEDS",
    "SWITCH_INFO",
    "split_speeds",
]

PORT_INFO = {
    "MKey": "mkey",
    "GIDPrfx": "gid_prefix",
    "MSMLID": "master_sm_lid",
    "LID": "lid",
    "CapMsk": "cap_mask",
    "M_KeyLeasePeriod": "mkey_lease_period",
    "DiagCode": "diag_code",
    "LinkWidthActv": "link_width_active",
    "LinkWidthSup": "link_width_supported",
    "LinkWidthEn": "link_width_enabled",
    "LocalPortNum": "local_port_num",
    "LMC": "lmc",
    "MKeyProtBits": "mkey_protect",
    "LinkDownDefState": "link_down_default_state",
    "PortPhyState": "port_phys_state",
    "PortState": "port_state",
    "VLArbHighCap": "vl_arb_high_cap",
    "VLHighLimit": "vl_high_limit",
    "InitType": "init_type",
    "VLCap": "vl_cap",
    "MSMSL": "master_sm_sl",
    "NMTU": "neighbor_mtu",
    "FilterRawOutb": "filter_raw_outbound",
    "FilterRawInb": "filter_raw_inbound",
    "PartEnfOutb": "partition_enforcement_outbound",
    "PartEnfInb": "partition_enforcement_inbound",
    "OpVLs": "operational_vls",
    "HoQLife": "hoq_life",
    "VLStallCnt": "vl_stall_count",
    "MTUCap": "mtu_cap",
    "InitTypeReply": "init_type_reply",
    "VLArbLowCap": "vl_arb_low_cap",
    "PKeyViolations": "pkey_violations",
    "MKeyViolations": "mkey_violations",
    "SubnTmo": "subnet_timeout",
    "MulticastPKeyTrapSuppressionEnabled": "mcast_pkey_trap_suppression",
    "ClientReregister": "client_reregister",
    "GUIDCap": "guid_cap",
    "QKeyViolations": "qkey_violations",
    "MaxCreditHint": "max_credit_hint",
    "OverrunErrs": "overrun_errors",
    "LocalPhyError": "local_phy_errors",
    "RespTimeValue": "resp_time_value",
    "LinkRoundTripLatency": "link_round_trip_latency",
    "CapMsk2": "cap_mask2",
}
"""Column of PORTS → component of PortInfo (IBA 14.2.5.6)."""

SPEEDS = {
    "LinkSpeedActv": ("link_speed_active", "link_speed_ext_active", "link_speed_ext2_active"),
    "LinkSpeedSup": ("link_speed_supported", "link_speed_ext_supported", "link_speed_ext2_supported"),
    "LinkSpeedEn": ("link_speed_enabled", "link_speed_ext_enabled", "link_speed_ext2_enabled"),
}
"""Columns of PORTS that contain three components each (:func:`split_speeds`)."""

SWITCH_INFO = {
    "LinearFDBCap": "linear_fdb_cap",
    "RandomFDBCap": "random_fdb_cap",
    "MCastFDBCap": "mcast_fdb_cap",
    "DefPort": "default_port",
    "DefMCastPriPort": "default_mcast_primary_port",
    "DefMCastNotPriPort": "default_mcast_not_primary_port",
    "LifeTimeValue": "life_time_value",
    "PortStateChange": "port_state_change",
    "OptimizedSLVLMapping": "optimized_sl2vl",
    "LidsPerPort": "lids_per_port",
    "PartEnfCap": "partition_enforcement_cap",
    "InbEnfCap": "inbound_enforcement_cap",
    "OutbEnfCap": "outbound_enforcement_cap",
    "FilterRawInbCap": "filter_raw_inbound_cap",
    "FilterRawOutbCap": "filter_raw_outbound_cap",
    "ENP0": "enhanced_port0",
}
"""Column of SWITCHES → component of SwitchInfo (IBA 14.2.5.4)."""

COUNTERS = {
    "symbol_error_counter": ("SymbolErrorCounterExt", "SymbolErrorCounter"),
    "link_error_recovery_counter": ("LinkErrorRecoveryCounterExt", "LinkErrorRecoveryCounter"),
    "link_downed_counter": ("LinkDownedCounterExt", "LinkDownedCounter"),
    "port_rcv_errors": ("PortRcvErrorsExt", "PortRcvErrors"),
    "port_rcv_remote_physical_errors": ("PortRcvRemotePhysicalErrorsExt", "PortRcvRemotePhysicalErrors"),
    "port_rcv_switch_relay_errors": ("PortRcvSwitchRelayErrorsExt", "PortRcvSwitchRelayErrors"),
    "port_xmit_discards": ("PortXmitDiscardsExt", "PortXmitDiscards"),
    "port_xmit_constraint_errors": ("PortXmitConstraintErrorsExt", "PortXmitConstraintErrors"),
    "port_rcv_constraint_errors": ("PortRcvConstraintErrorsExt", "PortRcvConstraintErrors"),
    "local_link_integrity_errors": ("LocalLinkIntegrityErrorsExt", "LocalLinkIntegrityErrors"),
    "excessive_buffer_overrun_errors": ("ExcessiveBufferOverrunErrorsExt", "ExcessiveBufferOverrunErrors"),
    "qp1_dropped": ("QP1DroppedExt",),
    "vl15_dropped": ("VL15DroppedExt", "VL15Dropped"),
    "port_xmit_data": ("PortXmitDataExtended", "PortXmitData"),
    "port_rcv_data": ("PortRcvDataExtended", "PortRcvData"),
    "port_xmit_pkts": ("PortXmitPktsExtended", "PortXmitPkts"),
    "port_rcv_pkts": ("PortRcvPktsExtended", "PortRcvPkts"),
    "port_xmit_wait": ("PortXmitWaitExt", "PortXmitWait"),
    "port_unicast_xmit_pkts": ("PortUniCastXmitPkts",),
    "port_unicast_rcv_pkts": ("PortUniCastRcvPkts",),
    "port_multicast_xmit_pkts": ("PortMultiCastXmitPkts",),
    "port_multicast_rcv_pkts": ("PortMultiCastRcvPkts",),
}
"""Counter of the fabric → columns of PM_INFO that contain it (the 64-bit form and a narrower
form)."""


DETAIL_COUNTERS = {
    "port_local_physical_errors": ("PortLocalPhysicalErrors",),
    "port_malformed_packet_errors": ("PortMalformedPacketErrors",),
    "port_buffer_overrun_errors": ("PortBufferOverrunErrors",),
    "port_dlid_mapping_errors": ("PortDLIDMappingErrors",),
    "port_vl_mapping_errors": ("PortVLMappingErrors",),
    "port_looping_errors": ("PortLoopingErrors",),
    "port_inactive_discards": ("PortInactiveDiscards",),
    "port_neighbor_mtu_discards": ("PortNeighborMTUDiscards",),
    "port_sw_lifetime_limit_discards": ("PortSwLifetimeLimitDiscards",),
    "port_sw_hoq_lifetime_limit_discards": ("PortSwHOQLifetimeLimitDiscards",),
}
"""Optional counter of the fabric → columns of PM_INFO."""

EXTENDED_SPEEDS = {
    "sync_header_error_counter": ("SyncHeaderErrorCounter",),
    "unknown_block_counter": ("UnknownBlockCounter",),
    "port_fec_correctable_block_ctr": ("PortFECCorrectableBlockCounter", "PortFECCorrectableBlockCtr"),
    "port_fec_uncorrectable_block_ctr": ("PortFECUncorrectableBlockCounter", "PortFECUncorrectableBlockCtr"),
    "port_fec_corrected_symbol_ctr": ("PortFECCorrectedSymbolCounter", "PortFECCorrectedSymbolCtr"),
}
"""Counter of PortExtendedSpeedsCounters → columns that ``--extended_speeds all`` adds to PM_INFO.
No file in softib's collection has these columns: the names come from public readers of such files
and from libibmad."""
EXTENDED_SPEEDS_LANES = {
    "error_detection_counter": ("ErrorDetectionCounterLane",),
    "fec_correctable_block_ctr": (
        "FECCorrectableBlockCounterLane",
        "FECCorrectedSymbolCounterLane",
        "FECCorrectableBlockCtrLane",
    ),
    "fec_uncorrectable_block_ctr": ("FECUncorrectableBlockCounterLane", "FECUncorrectableBlockCtrLane"),
}
"""Counter per lane → columns: ``NAME[0]`` or ``NAME0`` for lane 0, up to lane 11. If RS-FEC is
active, they count symbols."""

CABLE_LENGTHS = {
    "LengthSMFiber": CableMedium.SINGLEMODE,
    "LengthOM5": CableMedium.MULTIMODE,
    "LengthOM4": CableMedium.MULTIMODE,
    "LengthOM3": CableMedium.MULTIMODE,
    "LengthOM2": CableMedium.MULTIMODE,
    "LengthOM1": CableMedium.MULTIMODE,
    "LengthCopperOrActive": CableMedium.UNKNOWN,
}
"""Columns of CABLE_INFO that contain a length (text, for example ``3 m``) → medium of a cable for
which this column is set."""

CABLE_TEXTS = (
    "Vendor",
    "OUI",
    "PN",
    "SN",
    "Rev",
    "FWVersion",
    "Identifier",
    "Connector",
    "CableType",
    "Type",
    "Technology",
    "SupportedSpeedDesc",
    "DateCode",
    "Lot",
    "SupplyVoltage",
)
"""Columns of CABLE_INFO that are stored as text."""

FIRMWARE = (
    ("FWInfo_Extended_Major", "FWInfo_Extended_Minor", "FWInfo_Extended_SubMinor"),
    ("FWInfo_Major", "FWInfo_Minor", "FWInfo_SubMinor"),
)
"""Columns of the firmware version. Devices whose version does not fit in three bytes state only its
first three numbers."""

NO_FEC = 255
"""FECActv of a port that does not report its FEC mode."""
FEC_NAMES = {0: "NO-FEC", 4: "RS_FEC_544_514", 14: "MLNX_RS_271_257_PLR"}
"""FECActv → the text that ibdiagnet's .net_dump of the same run shows."""

PORT_INFO_EXTENDED = {
    "CapabilityMask": "cap_mask",
    "FECModeActive": "fec_mode_active",
    "FDRFECModeSupported": "fdr_fec_mode_supported",
    "FDRFECModeEnabled": "fdr_fec_mode_enabled",
    "EDRFECModeSupported": "edr_fec_mode_supported",
    "EDRFECModeEnabled": "edr_fec_mode_enabled",
    "HDRFECModeSupported": "hdr_fec_mode_supported",
    "HDRFECModeEnabled": "hdr_fec_mode_enabled",
    "NDRFECModeSupported": "ndr_fec_mode_supported",
    "NDRFECModeEnabled": "ndr_fec_mode_enabled",
}
"""Column of PORT_INFO_EXTENDED → component of PortInfoExtended (IBA 14.2.5.19)."""


def split_speeds(value: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """Split packed speeds into columns (LinkSpeed, LinkSpeedExt, LinkSpeedExt2). Also return the
    bits whose meaning is unknown."""
    # Bits 16 and 17 (FDR10, EDR20) repeat EXTENDED_PORT_INFO.
    return (value & 0xF, (value >> 8) & 0x1F, (value >> 24) & 0x3), value & ~np.int64(0x03031F0F)
