"""The options of OpenSM 3.3.23 with the names that ``opensm -c`` writes, by kind, and the default
of each. Also the options that softib does not use, with the reasons.
"""

from __future__ import annotations

__all__ = ["DEFAULTS", "KINDS", "LEFT_OUT", "Value", "not_carried", "number"]


Value = bool | int | str | None
"""Default of an option: a boolean, a number or a text (None: unset)."""

_KNOWN = {
    "truth": """
        m_key_lookup TRUE; lmc_esp0 FALSE; use_mfttop TRUE; no_partition_enforcement FALSE;
        allow_both_pkeys FALSE; keep_pkey_indexes TRUE; reassign_lids FALSE; force_heavy_sweep
        FALSE; sweep_on_trap TRUE; port_profile_switch_nodes FALSE; avoid_throttled_links FALSE;
        connect_roots FALSE; use_ucast_cache FALSE; quasi_ftree_indexing FALSE; do_mesh_analysis
        FALSE; nue_include_switches FALSE; port_shifting FALSE; guid_routing_order_no_scatter FALSE;
        sa_db_dump FALSE; ignore_other_sm FALSE; honor_guid2lid_file FALSE; single_thread FALSE;
        daemon FALSE; sm_inactive FALSE; babbling_port_policy FALSE; drop_event_subscriptions FALSE;
        ipoib_mcgroup_creation_validation TRUE; mcgroup_join_validation TRUE;
        use_original_extended_sa_rates_only FALSE; use_optimized_slvl FALSE; fsync_high_avail_files
        TRUE; perfmgr FALSE; perfmgr_redir TRUE; perfmgr_ignore_cas FALSE; perfmgr_rm_nodes TRUE;
        perfmgr_log_errors TRUE; perfmgr_query_cpi TRUE; perfmgr_xmit_wait_log FALSE;
        force_log_flush FALSE; accum_log_file TRUE; enable_quirks FALSE; no_clients_rereg FALSE;
        disable_multicast FALSE; exit_on_fatal TRUE; qos FALSE; suppress_sl2vl_mad_status_errors
        FALSE; congestion_control FALSE; consolidate_ipv6_snm_req FALSE
    """,
    "u8": """
        m_key_protection_level 0; lmc 0; sm_sl 0; packet_life_time 0x12; vl_stall_count 0x07;
        leaf_vl_stall_count 0x07; head_of_queue_lifetime 0x12; leaf_head_of_queue_lifetime 0x10;
        max_op_vls 5; force_link_speed 15; force_link_speed_ext 31; force_link_width 255; fdr10 1;
        subnet_timeout 18; local_phy_errors_threshold 0x08; overrun_errors_threshold 0x08;
        sm_assigned_guid 0x00; lash_start_vl 0; nue_max_num_vls 1; sm_priority 0; log_flags 0x03;
        cc_sw_cong_setting_threshold 0x00; cc_sw_cong_setting_packet_size 0;
        cc_sw_cong_setting_credit_starvation_threshold 0x00
    """,
    "u16": """
        m_key_lease_period 0; max_reverse_hops 0; perfmgr_sweep_time_s 180; console_port 10000;
        cc_sw_cong_setting_marking_rate 0; cc_ca_cong_setting_port_control 0x0000;
        cc_ca_cong_setting_control_map 0x0000
    """,
    "u32": """
        sweep_interval 10; scatter_ports 0; sminfo_polling_timeout 10000; polling_retry_number 4;
        max_wire_smps 4; max_wire_smps2 4; max_smps_timeout 600000; transaction_timeout 200;
        transaction_retries 3; long_transaction_timeout 500; max_msg_fifo_timeout 10000;
        perfmgr_max_outstanding_queries 500; perfmgr_xmit_wait_threshold 65535; log_max_size 0;
        qos_max_vls 0; qos_ca_max_vls 0; qos_sw0_max_vls 0; qos_swe_max_vls 0; qos_rtr_max_vls 0;
        cc_max_outstanding_mads 500; cc_sw_cong_setting_control_map 0x0
    """,
    "u64": """
        guid 0x0000000000000000; m_key 0x0000000000000000; sm_key 0x0000000000000001; sa_key
        0x0000000000000001; subnet_prefix 0xfe80000000000000; cc_key 0x0000000000000000
    """,
    "i32": """
        qos_high_limit -1; qos_ca_high_limit -1; qos_sw0_high_limit -1; qos_swe_high_limit -1;
        qos_rtr_high_limit -1
    """,
    "text": """
        partition_config_file /etc/opensm/partitions.conf; part_enforce both; torus_config
        /etc/opensm/torus-2QoS.conf; log_file /var/log/opensm.log; per_module_logging_file
        /etc/opensm/per-module-logging.conf; dump_files_dir /var/log/; console off; qos_policy_file
        /etc/opensm/qos-policy.conf; prefix_routes_file /etc/opensm/prefix-routes.conf;
        port_prof_ignore_file (null); hop_weights_file (null); port_search_ordering_file (null);
        routing_engine (null); lid_matrix_dump_file (null); lfts_file (null); root_guid_file (null);
        cn_guid_file (null); io_guid_file (null); ids_guid_file (null); guid_routing_order_file
        (null); sa_db_file (null); event_db_dump_file (null); event_plugin_name (null);
        event_plugin_options (null); node_name_map_name (null); qos_vlarb_high (null); qos_vlarb_low
        (null); qos_sl2vl (null); qos_ca_vlarb_high (null); qos_ca_vlarb_low (null); qos_ca_sl2vl
        (null); qos_sw0_vlarb_high (null); qos_sw0_vlarb_low (null); qos_sw0_sl2vl (null);
        qos_swe_vlarb_high (null); qos_swe_vlarb_low (null); qos_swe_sl2vl (null);
        qos_rtr_vlarb_high (null); qos_rtr_vlarb_low (null); qos_rtr_sl2vl (null); log_prefix (null)
    """,
    "mask": """
        cc_sw_cong_setting_victim_mask
        0x0000000000000000000000000000000000000000000000000000000000000000;
        cc_sw_cong_setting_credit_mask
        0x0000000000000000000000000000000000000000000000000000000000000000
    """,
    "other": """
        cc_sw_cong_setting_credit_starvation_return_delay 0:0; cc_ca_cong_setting_ccti_timer 0 0;
        cc_ca_cong_setting_ccti_increase 0 0; cc_ca_cong_setting_trigger_threshold 0 0;
        cc_ca_cong_setting_ccti_min 0 0; cc_cct (null)
    """,
}
"""Kind → names and defaults in the form that OpenSM writes."""

KINDS: dict[str, str] = {}
"""Name → ``truth``, ``u8`` to ``u64``, ``i32``, ``text``, ``mask`` (256 bits) or ``other``
(tables)."""
DEFAULTS: dict[str, Value] = {}
"""Name → its value if a file does not set it."""


def number(text: str) -> int | None:
    """Return the number if strtoul with base 0 parses all of ``text``, otherwise None."""
    digits = text.strip().lower()
    sign, digits = (-1 if digits[:1] == "-" else 1), digits.removeprefix("-").removeprefix("+")
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
    try:
        return sign * int(digits, base) if digits.isascii() and "_" not in digits and digits else None
    except ValueError:
        return None


for _kind, _lines in _KNOWN.items():
    for _entry in _lines.split(";"):
        _name, _text = _entry.split(None, 1)
        KINDS[_name] = _kind
        _text = _text.strip()
        DEFAULTS[_name] = (
            _text == "TRUE"
            if _kind == "truth"
            else number(_text)
            if _kind[0] in "ui"
            else None
            if _text == "(null)"
            else _text
        )


_DEVICE = "the port is chosen on the command line: softib sm run DEVICE, or -g GUID"


_LOG = "see --log-file, --log-level and --log-max-mb of softib sm run"


_FILES = "there is no such dump; softib route --dump, status --json and saquery show it"


_PERFMGR = "softib has no performance manager; use perfquery or softib check"


_ORDER = "engines here have their own order, the same for the same fabric"


_PROGRAM = "it concerns OpenSM as a program"


_VALID = "joins are always checked according to the specification"


LEFT_OUT: dict[str, str] = {
    "guid": _DEVICE,
    "lmc_esp0": "a switch has one LID",
    "sm_sl": "subnet management uses SL 0",
    "no_partition_enforcement": "obsolete; acts as part_enforce off",
    "keep_pkey_indexes": "an existing key always keeps its index",
    "sm_assigned_guid": "ports keep their own EUI-64",
    "force_heavy_sweep": "softib sm sweep reads everything",
    "sweep_on_trap": "traps always start a sweep",
    "port_profile_switch_nodes": _ORDER,
    "port_prof_ignore_file": _ORDER,
    "hop_weights_file": _ORDER,
    "port_search_ordering_file": _ORDER,
    "avoid_throttled_links": "engines treat links of all speeds equally",
    "connect_roots": "top switches always reach each other",
    "use_ucast_cache": "absent hosts always keep their routes",
    "lid_matrix_dump_file": "the engine file reads tables (lfts_file), no lid matrices",
    "quasi_ftree_indexing": "ftree balances damaged trees by itself",
    "max_reverse_hops": "ftree finds the paths of I/O nodes by itself",
    "ids_guid_file": _ORDER,
    "guid_routing_order_file": _ORDER,
    "guid_routing_order_no_scatter": _ORDER,
    "do_mesh_analysis": "lash uses only the graph",
    "lash_start_vl": "lash begins with VL 0",
    "nue_include_switches": "nue always reaches switches",
    "port_shifting": _ORDER,
    "scatter_ports": _ORDER,
    "sa_db_file": "see --sa-db of softib sm run",
    "sa_db_dump": "see --sa-db of softib sm run",
    "ignore_other_sm": "a manager with another sm_key is ignored; others take part in the election",
    "honor_guid2lid_file": "guid2lid is always used; reassign_lids discards it",
    "max_wire_smps": "see --maxsmps of softib sm run",
    "max_wire_smps2": "see --maxsmps of softib sm run",
    "max_smps_timeout": "an overdue request frees its slot by itself",
    "long_transaction_timeout": "transaction_timeout holds for all",
    "max_msg_fifo_timeout": "the queue of requests is bounded; requests beyond it get BUSY",
    "single_thread": _PROGRAM,
    "daemon": _PROGRAM,
    "sm_inactive": "a manager takes part as soon as it starts",
    "drop_event_subscriptions": "subscriptions of ports that left always end",
    "ipoib_mcgroup_creation_validation": _VALID,
    "mcgroup_join_validation": _VALID,
    "use_original_extended_sa_rates_only": "paths have all rate codes",
    "use_optimized_slvl": "SLtoVL tables are written one by one",
    "fsync_high_avail_files": "files are replaced as a whole",
    "perfmgr": _PERFMGR,
    "perfmgr_redir": _PERFMGR,
    "perfmgr_sweep_time_s": _PERFMGR,
    "perfmgr_max_outstanding_queries": _PERFMGR,
    "perfmgr_ignore_cas": _PERFMGR,
    "perfmgr_rm_nodes": _PERFMGR,
    "perfmgr_log_errors": _PERFMGR,
    "perfmgr_query_cpi": _PERFMGR,
    "perfmgr_xmit_wait_log": _PERFMGR,
    "perfmgr_xmit_wait_threshold": _PERFMGR,
    "event_db_dump_file": _PERFMGR,
    "event_plugin_name": "there are no plugins",
    "event_plugin_options": "there are no plugins",
    "node_name_map_name": "nodes have the names of their NodeDescription; reports take --node-name-map",
    "log_flags": _LOG,
    "force_log_flush": _LOG,
    "log_file": _LOG,
    "log_max_size": _LOG,
    "accum_log_file": _LOG,
    "per_module_logging_file": _LOG,
    "log_prefix": _LOG,
    "dump_files_dir": _FILES,
    "enable_quirks": "no device has quirks here",
    "disable_multicast": "groups are always managed",
    "exit_on_fatal": _PROGRAM,
    "console": "there is no console; softib sm sweep, reload, explain and status --json",
    "console_port": "there is no console; softib sm sweep, reload, explain and status --json",
    "suppress_sl2vl_mad_status_errors": "refusals are counted in the report of a sweep",
    "consolidate_ipv6_snm_req": "each IPv6 group has a separate MLID while MLIDs are free",
    **dict.fromkeys(
        ("qos_max_vls", "qos_ca_max_vls", "qos_sw0_max_vls", "qos_swe_max_vls", "qos_rtr_max_vls"),
        "OpenSM reads the option but ignores it; max_op_vls is used",
    ),
}


NAMED = 8
"""Maximum number of names in a line of a note."""


def not_carried(changed: list[str], unknown: list[str]) -> list[str]:
    """Return notes on options that softib does not use, one line for each reason. ``changed`` are
    options whose value differs from OpenSM's default (others need no note). ``unknown`` are names
    that OpenSM does not have either."""
    reasons: dict[str, list[str]] = {}
    for name in changed:
        reasons.setdefault(LEFT_OUT[name], []).append(name)
    lines = [
        f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not used: {why}" for why, names in reasons.items()
    ]
    names = list(dict.fromkeys(name[:40] for name in unknown))
    if names:
        rest = f"  and {len(names) - NAMED} more ('softib sm check-config' lists all)" if len(names) > NAMED else ""
        lines.append(f"neither softib nor OpenSM 3.3.23 has an option {', '.join(names[:NAMED])}{rest}")
    return lines
