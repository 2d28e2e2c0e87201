"""libibmad as oracle: for every field that it and we know, both read the same value from random octets, and what
we pack it reads back.

Field numbers come from the installed header, so a libibmad with more fields is still compared rightly.
"""

import numpy as np
import pytest

from softib.iba import cc, notice, perf, perf_optional, smp
from tests.iba.lab import theirs

pytestmark = pytest.mark.stock


def one(struct, **names):
    return [(struct, ours, theirs) for ours, theirs in names.items()]


P, S, N, PC, PX = smp.PortInfo, smp.SwitchInfo, smp.NodeInfo, perf.PortCounters, perf_optional.PortCountersExtended
SCALARS = [
    *one(P, mkey="PORT_MKEY", gid_prefix="PORT_GID_PREFIX", lid="PORT_LID", master_sm_lid="PORT_SMLID",
         cap_mask="PORT_CAPMASK", diag_code="PORT_DIAG", mkey_lease_period="PORT_MKEY_LEASE",
         local_port_num="PORT_LOCAL_PORT", link_width_enabled="PORT_LINK_WIDTH_ENABLED",
         link_width_supported="PORT_LINK_WIDTH_SUPPORTED", link_width_active="PORT_LINK_WIDTH_ACTIVE",
         link_speed_supported="PORT_LINK_SPEED_SUPPORTED", port_state="PORT_STATE", port_phys_state="PORT_PHYS_STATE",
         link_down_default_state="PORT_LINK_DOWN_DEF", mkey_protect="PORT_MKEY_PROT_BITS", lmc="PORT_LMC",
         link_speed_active="PORT_LINK_SPEED_ACTIVE", link_speed_enabled="PORT_LINK_SPEED_ENABLED",
         neighbor_mtu="PORT_NEIGHBOR_MTU", master_sm_sl="PORT_SMSL", vl_cap="PORT_VL_CAP", init_type="PORT_INIT_TYPE",
         vl_high_limit="PORT_VL_HIGH_LIMIT", vl_arb_high_cap="PORT_VL_ARBITRATION_HIGH_CAP",
         vl_arb_low_cap="PORT_VL_ARBITRATION_LOW_CAP", init_type_reply="PORT_INIT_TYPE_REPLY", mtu_cap="PORT_MTU_CAP",
         vl_stall_count="PORT_VL_STALL_COUNT", hoq_life="PORT_HOQ_LIFE", operational_vls="PORT_OPER_VLS",
         partition_enforcement_inbound="PORT_PART_EN_INB", partition_enforcement_outbound="PORT_PART_EN_OUTB",
         filter_raw_inbound="PORT_FILTER_RAW_INB", filter_raw_outbound="PORT_FILTER_RAW_OUTB",
         mkey_violations="PORT_MKEY_VIOL", pkey_violations="PORT_PKEY_VIOL", qkey_violations="PORT_QKEY_VIOL",
         guid_cap="PORT_GUID_CAP", client_reregister="PORT_CLIENT_REREG",
         mcast_pkey_trap_suppression="PORT_MCAST_PKEY_SUPR_ENAB", subnet_timeout="PORT_SUBN_TIMEOUT",
         resp_time_value="PORT_RESP_TIME_VAL", local_phy_errors="PORT_LOCAL_PHYS_ERR", overrun_errors="PORT_OVERRUN_ERR",
         max_credit_hint="PORT_MAX_CREDIT_HINT", link_round_trip_latency="PORT_LINK_ROUND_TRIP",
         cap_mask2="PORT_CAPMASK2", link_speed_ext_active="PORT_LINK_SPEED_EXT_ACTIVE",
         link_speed_ext_supported="PORT_LINK_SPEED_EXT_SUPPORTED", link_speed_ext_enabled="PORT_LINK_SPEED_EXT_ENABLED",
         link_speed_ext2_active="PORT_LINK_SPEED_EXT_ACTIVE_2", link_speed_ext2_supported="PORT_LINK_SPEED_EXT_SUPPORTED_2",
         link_speed_ext2_enabled="PORT_LINK_SPEED_EXT_ENABLED_2"),
    *one(N, base_version="NODE_BASE_VERS", class_version="NODE_CLASS_VERS", node_type="NODE_TYPE",
         num_ports="NODE_NPORTS", sys_guid="NODE_SYSTEM_GUID", node_guid="NODE_GUID", port_guid="NODE_PORT_GUID",
         partition_cap="NODE_PARTITION_CAP", device_id="NODE_DEVID", revision="NODE_REVISION",
         local_port_num="NODE_LOCAL_PORT", vendor_id="NODE_VENDORID"),
    *one(S, linear_fdb_cap="SW_LINEAR_FDB_CAP", random_fdb_cap="SW_RANDOM_FDB_CAP", mcast_fdb_cap="SW_MCAST_FDB_CAP",
         linear_fdb_top="SW_LINEAR_FDB_TOP", default_port="SW_DEF_PORT", default_mcast_primary_port="SW_DEF_MCAST_PRIM",
         default_mcast_not_primary_port="SW_DEF_MCAST_NOT_PRIM", life_time_value="SW_LIFE_TIME",
         port_state_change="SW_STATE_CHANGE", optimized_sl2vl="SW_OPT_SLTOVL_MAPPING", lids_per_port="SW_LIDS_PER_PORT",
         partition_enforcement_cap="SW_PARTITION_ENFORCE_CAP", inbound_enforcement_cap="SW_PARTITION_ENF_INB",
         outbound_enforcement_cap="SW_PARTITION_ENF_OUTB", filter_raw_inbound_cap="SW_FILTER_RAW_INB",
         filter_raw_outbound_cap="SW_FILTER_RAW_OUTB", enhanced_port0="SW_ENHANCED_PORT0",
         mcast_fdb_top="SW_MCAST_FDB_TOP"),
    *one(smp.SMInfo, guid="SMINFO_GUID", sm_key="SMINFO_KEY", act_count="SMINFO_ACT", priority="SMINFO_PRIO",
         sm_state="SMINFO_STATE"),
    *one(smp.MlnxExtPortInfo, state_change_enable="MLNX_EXT_PORT_STATE_CHG_ENABLE",
         link_speed_supported="MLNX_EXT_PORT_LINK_SPEED_SUPPORTED",
         link_speed_enabled="MLNX_EXT_PORT_LINK_SPEED_ENABLED", link_speed_active="MLNX_EXT_PORT_LINK_SPEED_ACTIVE"),
    *one(smp.PortInfoExtended, cap_mask="PORT_EXT_CAPMASK", fec_mode_active="PORT_EXT_FEC_MODE_ACTIVE",
         fdr_fec_mode_supported="PORT_EXT_FDR_FEC_MODE_SUPPORTED", fdr_fec_mode_enabled="PORT_EXT_FDR_FEC_MODE_ENABLED",
         edr_fec_mode_supported="PORT_EXT_EDR_FEC_MODE_SUPPORTED", edr_fec_mode_enabled="PORT_EXT_EDR_FEC_MODE_ENABLED"),
    *one(smp.MadHeader, base_version="MAD_BASEVER", mgmt_class="MAD_MGMTCLASS", class_version="MAD_CLASSVER",
         status="MAD_STATUS", hop_pointer="DRSMP_HOPPTR", hop_count="DRSMP_HOPCNT", tid="MAD_TRID", attr_id="MAD_ATTRID",
         attr_mod="MAD_ATTRMOD"),
    *one(smp.Smp, mkey="MAD_MKEY", dr_slid="DRSMP_DRSLID", dr_dlid="DRSMP_DRDLID"),
    *one(notice.Notice, is_generic="NOTICE_IS_GENERIC", type="NOTICE_TYPE", producer_type="NOTICE_PRODUCER",
         trap_number="NOTICE_TRAP_NUMBER", issuer_lid="NOTICE_ISSUER_LID", toggle="NOTICE_TOGGLE", count="NOTICE_COUNT"),
    *one(PC, port_select="PC_PORT_SELECT", counter_select="PC_COUNTER_SELECT", symbol_error_counter="PC_ERR_SYM",
         link_error_recovery_counter="PC_LINK_RECOVERS", link_downed_counter="PC_LINK_DOWNED",
         port_rcv_errors="PC_ERR_RCV", port_rcv_remote_physical_errors="PC_ERR_PHYSRCV",
         port_rcv_switch_relay_errors="PC_ERR_SWITCH_REL", port_xmit_discards="PC_XMT_DISCARDS",
         port_xmit_constraint_errors="PC_ERR_XMTCONSTR", port_rcv_constraint_errors="PC_ERR_RCVCONSTR",
         counter_select2="PC_COUNTER_SELECT2", local_link_integrity_errors="PC_ERR_LOCALINTEG",
         excessive_buffer_overrun_errors="PC_ERR_EXCESS_OVR", vl15_dropped="PC_VL15_DROPPED",
         port_xmit_data="PC_XMT_BYTES", port_rcv_data="PC_RCV_BYTES", port_xmit_pkts="PC_XMT_PKTS",
         port_rcv_pkts="PC_RCV_PKTS", port_xmit_wait="PC_XMT_WAIT"),
    *one(PX, port_select="PC_EXT_PORT_SELECT", counter_select="PC_EXT_COUNTER_SELECT",
         counter_select2="PC_EXT_COUNTER_SELECT2", port_xmit_data="PC_EXT_XMT_BYTES", port_rcv_data="PC_EXT_RCV_BYTES",
         port_xmit_pkts="PC_EXT_XMT_PKTS", port_rcv_pkts="PC_EXT_RCV_PKTS", port_unicast_xmit_pkts="PC_EXT_XMT_UPKTS",
         port_unicast_rcv_pkts="PC_EXT_RCV_UPKTS", port_multicast_xmit_pkts="PC_EXT_XMT_MPKTS",
         port_multicast_rcv_pkts="PC_EXT_RCV_MPKTS", symbol_error_counter="PC_EXT_ERR_SYM",
         link_error_recovery_counter="PC_EXT_LINK_RECOVERS", link_downed_counter="PC_EXT_LINK_DOWNED",
         port_rcv_errors="PC_EXT_ERR_RCV", port_rcv_remote_physical_errors="PC_EXT_ERR_PHYSRCV",
         port_rcv_switch_relay_errors="PC_EXT_ERR_SWITCH_REL", port_xmit_discards="PC_EXT_XMT_DISCARDS",
         port_xmit_constraint_errors="PC_EXT_ERR_XMTCONSTR", port_rcv_constraint_errors="PC_EXT_ERR_RCVCONSTR",
         local_link_integrity_errors="PC_EXT_ERR_LOCALINTEG", excessive_buffer_overrun_errors="PC_EXT_ERR_EXCESS_OVR",
         vl15_dropped="PC_EXT_VL15_DROPPED", port_xmit_wait="PC_EXT_XMT_WAIT", qp1_dropped="PC_EXT_QP1_DROP"),
    *one(notice.ClassPortInfo, base_version="CPI_BASEVER", class_version="CPI_CLASSVER", cap_mask="CPI_CAPMASK",
         cap_mask2="CPI_CAPMASK2", resp_time_value="CPI_RESP_TIME_VALUE", redirect_tc="CPI_REDIRECT_TC",
         redirect_sl="CPI_REDIRECT_SL", redirect_fl="CPI_REDIRECT_FL", redirect_lid="CPI_REDIRECT_LID",
         redirect_pkey="CPI_REDIRECT_PKEY", redirect_qp="CPI_REDIRECT_QP", redirect_qkey="CPI_REDIRECT_QKEY",
         trap_tc="CPI_TRAP_TC", trap_sl="CPI_TRAP_SL", trap_fl="CPI_TRAP_FL", trap_lid="CPI_TRAP_LID",
         trap_pkey="CPI_TRAP_PKEY", trap_hl="CPI_TRAP_HL", trap_qp="CPI_TRAP_QP", trap_qkey="CPI_TRAP_QKEY"),
    *one(perf.PortSamplesControl, op_code="PSC_OPCODE", port_select="PSC_PORT_SELECT", tick="PSC_TICK",
         counter_width="PSC_COUNTER_WIDTH", counter_mask0="PSC_COUNTER_MASK0",
         counter_masks_1to9="PSC_COUNTER_MASKS1TO9", counter_masks_10to14="PSC_COUNTER_MASKS10TO14",
         sample_mechanisms="PSC_SAMPLE_MECHS", sample_status="PSC_SAMPLE_STATUS", option_mask="PSC_OPTION_MASK",
         vendor_mask="PSC_VENDOR_MASK", sample_start="PSC_SAMPLE_START", sample_interval="PSC_SAMPLE_INTVL",
         tag="PSC_TAG", samples_only_option_mask="PSC_SAMPLES_ONLY_OPT_MASK"),
    *one(perf_optional.PortRcvErrorDetails, port_local_physical_errors="PC_RCV_LOCAL_PHY_ERR",
         port_malformed_packet_errors="PC_RCV_MALFORMED_PKT_ERR", port_buffer_overrun_errors="PC_RCV_BUF_OVR_ERR",
         port_dlid_mapping_errors="PC_RCV_DLID_MAP_ERR", port_vl_mapping_errors="PC_RCV_VL_MAP_ERR",
         port_looping_errors="PC_RCV_LOOPING_ERR"),
    *one(perf_optional.PortXmitDiscardDetails, port_inactive_discards="PC_XMT_INACT_DISC",
         port_neighbor_mtu_discards="PC_XMT_NEIGH_MTU_DISC", port_sw_lifetime_limit_discards="PC_XMT_SW_LIFE_DISC",
         port_sw_hoq_lifetime_limit_discards="PC_XMT_SW_HOL_DISC"),
    *one(perf_optional.PortOpRcvCounters, port_op_rcv_pkts="PC_PORT_OP_RCV_PKTS", port_op_rcv_data="PC_PORT_OP_RCV_DATA"),
    *one(perf_optional.PortFlowCtlCounters, port_xmit_flow_pkts="PC_PORT_XMIT_FLOW_PKTS",
         port_rcv_flow_pkts="PC_PORT_RCV_FLOW_PKTS"),
    *one(perf_optional.PortRcvConCtrl, port_pkt_rcv_fecn="PC_RCV_CON_CTRL_PKT_RCV_FECN",
         port_pkt_rcv_becn="PC_RCV_CON_CTRL_PKT_RCV_BECN"),
    *one(perf_optional.PortXmitConCtrl, port_xmit_time_cong="PC_XMIT_CON_CTRL_TIME_CONG"),
    *one(perf_optional.PortExtendedSpeedsCounters, port_select="PESC_PORT_SELECT", counter_select="PESC_COUNTER_SELECT",
         sync_header_error_counter="PESC_SYNC_HDR_ERR_CTR", unknown_block_counter="PESC_UNK_BLOCK_CTR",
         port_fec_correctable_block_ctr="PESC_PORT_FEC_CORR_BLOCK_CTR",
         port_fec_uncorrectable_block_ctr="PESC_PORT_FEC_UNCORR_BLOCK_CTR",
         port_fec_corrected_symbol_ctr="PESC_PORT_FEC_CORR_SYMBOL_CTR"),
    *one(perf.PortSamplesResult, tag="PSR_TAG", sample_status="PSR_SAMPLE_STATUS"),
    *one(cc.CongestionInfo, congestion_info="CC_CONGESTION_INFO", control_table_cap="CC_CONGESTION_INFO_CONTROL_TABLE_CAP"),
    *one(cc.CongestionKeyInfo, cc_key="CC_CONGESTION_KEY_INFO_CC_KEY",
         cc_key_protect_bit="CC_CONGESTION_KEY_INFO_CC_KEY_PROTECT_BIT",
         cc_key_lease_period="CC_CONGESTION_KEY_INFO_CC_KEY_LEASE_PERIOD",
         cc_key_violations="CC_CONGESTION_KEY_INFO_CC_KEY_VIOLATIONS"),
    *one(cc.CongestionLogSwitch, log_type="CC_CONGESTION_LOG_LOGTYPE",
         congestion_flags="CC_CONGESTION_LOG_CONGESTION_FLAGS",
         log_events_counter="CC_CONGESTION_LOG_SWITCH_LOG_EVENTS_COUNTER",
         current_time_stamp="CC_CONGESTION_LOG_SWITCH_CURRENT_TIME_STAMP"),
    *one(cc.CongestionLogEventSwitch, slid="CC_CONGESTION_LOG_ENTRY_SWITCH_SLID",
         dlid="CC_CONGESTION_LOG_ENTRY_SWITCH_DLID", sl="CC_CONGESTION_LOG_ENTRY_SWITCH_SL",
         timestamp="CC_CONGESTION_LOG_ENTRY_SWITCH_TIMESTAMP"),
    *one(cc.CongestionLogCA, threshold_event_counter="CC_CONGESTION_LOG_CA_THRESHOLD_EVENT_COUNTER",
         threshold_congestion_event_map="CC_CONGESTION_LOG_CA_THRESHOLD_CONGESTION_EVENT_MAP",
         current_time_stamp="CC_CONGESTION_LOG_CA_CURRENT_TIMESTAMP"),
    *one(cc.CongestionLogEventCA, local_qp="CC_CONGESTION_LOG_ENTRY_CA_LOCAL_QP_CN_ENTRY",
         sl="CC_CONGESTION_LOG_ENTRY_CA_SL_CN_ENTRY", service_type="CC_CONGESTION_LOG_ENTRY_CA_SERVICE_TYPE_CN_ENTRY",
         remote_qp="CC_CONGESTION_LOG_ENTRY_CA_REMOTE_QP_NUMBER_CN_ENTRY",
         local_lid="CC_CONGESTION_LOG_ENTRY_CA_LOCAL_LID_CN",
         remote_lid="CC_CONGESTION_LOG_ENTRY_CA_REMOTE_LID_CN_ENTRY",
         timestamp="CC_CONGESTION_LOG_ENTRY_CA_TIMESTAMP_CN_ENTRY"),
    *one(cc.SwitchCongestionSetting, control_map="CC_SWITCH_CONGESTION_SETTING_CONTROL_MAP",
         threshold="CC_SWITCH_CONGESTION_SETTING_THRESHOLD", packet_size="CC_SWITCH_CONGESTION_SETTING_PACKET_SIZE",
         cs_threshold="CC_SWITCH_CONGESTION_SETTING_CS_THRESHOLD",
         cs_return_delay="CC_SWITCH_CONGESTION_SETTING_CS_RETURN_DELAY",
         marking_rate="CC_SWITCH_CONGESTION_SETTING_MARKING_RATE"),
    *one(cc.SwitchPortCongestionSettingElement, valid="CC_SWITCH_PORT_CONGESTION_SETTING_ELEMENT_VALID",
         control_type="CC_SWITCH_PORT_CONGESTION_SETTING_ELEMENT_CONTROL_TYPE",
         threshold="CC_SWITCH_PORT_CONGESTION_SETTING_ELEMENT_THRESHOLD",
         packet_size="CC_SWITCH_PORT_CONGESTION_SETTING_ELEMENT_PACKET_SIZE",
         cong_parm_marking_rate="CC_SWITCH_PORT_CONGESTION_SETTING_ELEMENT_CONG_PARM_MARKING_RATE"),
    *one(cc.CACongestionSetting, port_control="CC_CA_CONGESTION_SETTING_PORT_CONTROL",
         control_map="CC_CA_CONGESTION_SETTING_CONTROL_MAP"),
    *one(cc.CACongestionEntry, ccti_timer="CC_CA_CONGESTION_ENTRY_CCTI_TIMER",
         ccti_increase="CC_CA_CONGESTION_ENTRY_CCTI_INCREASE",
         trigger_threshold="CC_CA_CONGESTION_ENTRY_TRIGGER_THRESHOLD", ccti_min="CC_CA_CONGESTION_ENTRY_CCTI_MIN"),
    *one(cc.CongestionControlTable, ccti_limit="CC_CONGESTION_CONTROL_TABLE_CCTI_LIMIT"),
    *one(cc.TimeStamp, timestamp="CC_TIMESTAMP"),
]  # fmt: skip # a table, its columns aligned

ARRAYS = [
    (smp.GUIDInfo, "guid", "GI_GUID{}", 8),
    (perf.PortSamplesControl, "counter_select", "PSC_COUNTER_SEL{}", 15),
    (perf.PortSamplesResult, "counter", "PSR_COUNTER{}", 15),
    (perf_optional.PortXmitDataSL, "xmit_data_sl", "PC_XMT_DATA_SL{}", 16),
    (perf_optional.PortRcvDataSL, "rcv_data_sl", "PC_RCV_DATA_SL{}", 16),
    (perf_optional.PortVLOpPackets, "port_vl_op_packets", "PC_PORT_VL_OP_PACKETS{}", 16),
    (perf_optional.PortVLOpData, "port_vl_op_data", "PC_PORT_VL_OP_DATA{}", 16),
    (
        perf_optional.PortVLXmitFlowCtlUpdateErrors,
        "port_vl_xmit_flow_ctl_update_errors",
        "PC_PORT_VL_XMIT_FLOW_CTL_UPDATE_ERRORS{}",
        16,
    ),
    (perf_optional.PortVLXmitWaitCounters, "port_vl_xmit_wait", "PC_PORT_VL_XMIT_WAIT{}", 16),
    (perf_optional.SwPortVLCongestion, "sw_port_vl_congestion", "PC_SW_PORT_VL_CONGESTION{}", 16),
    (perf_optional.PortSLRcvFECN, "port_sl_rcv_fecn", "PC_SL_RCV_FECN{}", 16),
    (perf_optional.PortSLRcvBECN, "port_sl_rcv_becn", "PC_SL_RCV_BECN{}", 16),
    (perf_optional.PortVLXmitTimeCong, "port_vl_xmit_time_cong", "PC_VL_XMIT_TIME_CONG{}", 15),
    (perf_optional.PortExtendedSpeedsCounters, "error_detection_counter", "PESC_ERR_DET_CTR_LANE{}", 12),
    (perf_optional.PortExtendedSpeedsCounters, "fec_correctable_block_ctr", "PESC_FEC_CORR_BLOCK_CTR_LANE{}", 12),
    (perf_optional.PortExtendedSpeedsCounters, "fec_uncorrectable_block_ctr", "PESC_FEC_UNCORR_BLOCK_CTR_LANE{}", 12),
]


@pytest.mark.parametrize(("struct", "ours", "name"), SCALARS, ids=lambda x: getattr(x, "__name__", x))
def test_both_read_the_same(mad, numbers, struct, ours, name):
    if f"IB_{name}_F" not in numbers:
        pytest.skip(f"this libibmad has no IB_{name}_F")
    number, field = numbers[f"IB_{name}_F"], struct.fields[ours]
    rng = np.random.default_rng(11)
    octets = rng.integers(0, 256, (50, max(struct.size, 256)), dtype=np.uint8)
    want = field.get(octets)
    assert len(set(want.tolist())) > 1
    for row, value in zip(octets, want, strict=True):
        assert theirs(mad, row, number, field.bits) == int(value)
    # And the other way: what they write, and nothing else, is what we write.
    for row in octets[:5]:
        a, b = row.copy(), row.copy()
        value = int(rng.integers(0, field.mask, endpoint=True, dtype=np.uint64))
        field.set(a, value)
        (mad.mad_set_field64 if field.bits == 64 else mad.mad_set_field)(b.ctypes.data, 0, number, value)
        assert (a == b).all()


@pytest.mark.parametrize(("struct", "ours", "name", "count"), ARRAYS, ids=lambda x: getattr(x, "__name__", x))
def test_both_read_the_same_arrays(mad, numbers, struct, ours, name, count):
    octets = np.random.default_rng(12).integers(0, 256, (20, max(struct.size, 256)), dtype=np.uint8)
    field = struct.fields[ours]
    assert field.count == count
    for row, values in zip(octets, field.get(octets), strict=True):
        said = [theirs(mad, row, numbers[f"IB_{name.format(i)}_F"], field.bits) for i in range(count)]
        assert said == values.tolist()


@pytest.mark.parametrize(
    ("name", "struct", "meant", "read_instead"),
    [
        ("PC_QP1_DROP", PC, "qp1_dropped", "vl15_dropped"),
        ("PORT_EXT_HDR_FEC_MODE_SUPPORTED", smp.PortInfoExtended, "hdr_fec_mode_supported", "edr_fec_mode_enabled"),
        ("PORT_EXT_HDR_FEC_MODE_ENABLED", smp.PortInfoExtended, "hdr_fec_mode_enabled", "ndr_fec_mode_supported"),
    ],
)
def test_where_libibmad_reads_its_neighbour(mad, numbers, name, struct, meant, read_instead):
    """libibmad gives these the offset of the other half of the word. The specification wins; this fails when they
    mend it, and the field then belongs into SCALARS."""
    buf = struct.pack(**{meant: 0x1234, read_instead: 0x5678})
    buf = np.concatenate([buf, np.zeros(256, np.uint8)])
    assert mad.mad_get_field(buf.ctypes.data, 0, numbers[f"IB_{name}_F"]) == 0x5678


def test_every_field_of_libibmads_tables_has_a_partner(numbers):
    """No field of the structures that we share is forgotten."""
    stems = (
        "PORT_",
        "NODE_",
        "SW_",
        "PC_",
        "PSC_",
        "CPI_",
        "SMINFO_",
        "MLNX_",
        "GI_",
        "NOTICE_",
        "PESC_",
        "PSR_",
        "CC_",
    )
    compared = {n for *_, n in SCALARS} | {t.format(i) for *_, t, c in ARRAYS for i in range(c)}
    other = {n[3:-2] for n in numbers if n.startswith(tuple("IB_" + s for s in stems)) and n.endswith("_F")}
    other = {n for n in other if not n.endswith(("FIRST", "LAST"))} - compared
    expected = {
        "NODE_DESC",
        "PC_QP1_DROP",
        "CPI_REDIRECT_GID",
        "CPI_TRAP_GID",
        "NOTICE_DATA_DETAILS",
        # Masks are 32 octets to us; the rest are shifts and multipliers of a 16-bit entry.
        "CC_CCKEY",
        "CC_CONGESTION_LOG_SWITCH_PORTMAP",
        "CC_SWITCH_CONGESTION_SETTING_VICTIM_MASK",
        "CC_SWITCH_CONGESTION_SETTING_CREDIT_MASK",
        "CC_CONGESTION_CONTROL_TABLE_ENTRY_CCT_SHIFT",
        "CC_CONGESTION_CONTROL_TABLE_ENTRY_CCT_MULTIPLIER",
        "NOTICE_DATA_LID",
        "NOTICE_DATA_144_LID",
        "NOTICE_DATA_144_CAPMASK",
    }
    assert {n for n in other if "FEC_MODE" not in n and "RSFEC" not in n and "PORT_FEC" not in n} <= expected
