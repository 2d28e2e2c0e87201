"""Options of OpenSM 3.3.23 that softib does not carry over, and why."""

from __future__ import annotations

__all__ = ["LEFT_OUT", "not_carried"]

_DEVICE = "the port is chosen on the command line: softib sm run DEVICE, or -g GUID"
_LOG = "see --log-file, --log-level and --log-max-mb of softib sm run"
_FILES = "there is no dump of that kind; softib route --dump, status --json and saquery show it"
_PERFMGR = "softib has no performance manager; ask the devices: perfquery, softib check"
_ORDER = "engines here have an order of their own, the same for the same fabric"
_PROGRAM = "it is about OpenSM as a program"
_VALID = "joins are checked as the specification says, always"

LEFT_OUT: dict[str, str] = {
    "guid": _DEVICE,
    "lmc_esp0": "a switch has one LID",
    "sm_sl": "subnet management goes on SL 0",
    "no_partition_enforcement": "OpenSM calls it obsolete; part_enforce off says the same",
    "keep_pkey_indexes": "a key that stands stays where it is, always",
    "sm_assigned_guid": "ports keep their own EUI-64",
    "force_heavy_sweep": "softib sm sweep looks at everything",
    "sweep_on_trap": "traps call for a sweep, always",
    "port_profile_switch_nodes": _ORDER,
    "port_prof_ignore_file": _ORDER,
    "hop_weights_file": _ORDER,
    "port_search_ordering_file": _ORDER,
    "avoid_throttled_links": "engines take links of all speeds alike",
    "connect_roots": "top switches reach each other, always",
    "use_ucast_cache": "hosts that are away keep their routes, always",
    "lid_matrix_dump_file": "the engine file reads tables (lfts_file), no lid matrices",
    "quasi_ftree_indexing": "ftree balances damaged trees by itself",
    "max_reverse_hops": "ftree finds the ways of I/O nodes by itself",
    "ids_guid_file": _ORDER,
    "guid_routing_order_file": _ORDER,
    "guid_routing_order_no_scatter": _ORDER,
    "do_mesh_analysis": "lash looks at the graph alone",
    "lash_start_vl": "lash begins with VL 0",
    "nue_include_switches": "nue reaches switches, always",
    "port_shifting": _ORDER,
    "scatter_ports": _ORDER,
    "sa_db_file": "see --sa-db of softib sm run",
    "sa_db_dump": "see --sa-db of softib sm run",
    "ignore_other_sm": "a manager with another sm_key is left alone; others take part in the election",
    "honor_guid2lid_file": "guid2lid is obeyed, always; reassign_lids forgets it",
    "max_wire_smps": "see --maxsmps of softib sm run",
    "max_wire_smps2": "see --maxsmps of softib sm run",
    "max_smps_timeout": "a request that is late frees its place by itself",
    "long_transaction_timeout": "transaction_timeout holds for all",
    "max_msg_fifo_timeout": "the queue of questions is bounded; who finds no room gets BUSY",
    "single_thread": _PROGRAM,
    "daemon": _PROGRAM,
    "sm_inactive": "a manager takes part as soon as it runs",
    "drop_event_subscriptions": "subscriptions of ports that left end, always",
    "ipoib_mcgroup_creation_validation": _VALID,
    "mcgroup_join_validation": _VALID,
    "use_original_extended_sa_rates_only": "paths have all rate codes",
    "use_optimized_slvl": "SLtoVL tables are written one by one",
    "fsync_high_avail_files": "files are replaced whole",
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
    "disable_multicast": "groups are managed, always",
    "exit_on_fatal": _PROGRAM,
    "console": "there is no console; softib sm sweep, reload, explain and status --json",
    "console_port": "there is no console; softib sm sweep, reload, explain and status --json",
    "suppress_sl2vl_mad_status_errors": "refusals are counted in the report of a sweep",
    "consolidate_ipv6_snm_req": "each IPv6 group has an MLID of its own, as long as there are some",
    **dict.fromkeys(
        ("qos_max_vls", "qos_ca_max_vls", "qos_sw0_max_vls", "qos_swe_max_vls", "qos_rtr_max_vls"),
        "OpenSM reads it, and never looks at it; max_op_vls is obeyed",
    ),
}


NAMED = 8
"""Names of one line at most."""


def not_carried(changed: list[str], unknown: list[str]) -> list[str]:
    """What to say of options that are not used: a line for each reason. ``changed`` are set to
    something else than OpenSM's default (the default would be no loss), ``unknown`` names that
    OpenSM does not know either."""
    reasons: dict[str, list[str]] = {}
    for name in changed:
        reasons.setdefault(LEFT_OUT[name], []).append(name)
    lines = [
        f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not used: {why}" for why, names in reasons.items()
    ]
    names = list(dict.fromkeys(name[:40] for name in unknown))
    if names:
        more = f" and {len(names) - NAMED} more ('softib sm check-config' has all)" if len(names) > NAMED else ""
        lines.append(f"neither softib nor OpenSM 3.3.23 has an option {', '.join(names[:NAMED])}{more}")
    return lines
