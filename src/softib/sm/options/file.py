"""Reads OpenSM's options file (``opensm -c`` writes one): a name and a value a line, ``#`` begins a
comment (opensm(8)).

What OpenSM 3.3.23 makes of a line is in :mod:`~softib.sm.options.opensm_conf`. softib's own
options, and those of NVIDIA's OpenSM that it knows, may stand among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from softib.errors import InputError
from softib.sm.managers.aggregation_mgr import AGGREGATION_OPTIONS
from softib.sm.options.ar import AR_OPTIONS
from softib.sm.options.change import CHANGE_OPTIONS
from softib.sm.options.congestion import CC_OPTIONS
from softib.sm.options.engines import engines_of
from softib.sm.options.flap import FLAP_OPTIONS
from softib.sm.options.left_out import not_carried
from softib.sm.options.link import LINK_OPTIONS
from softib.sm.options.opensm_conf import Stated, as_opensm_reads, shown
from softib.sm.options.opensm_defaults import DEFAULTS, Value
from softib.sm.options.qos import QOS_OPTIONS

__all__ = ["OPTIONS", "read_options", "read_value"]

PS_PER_S, PS_PER_MS = 10**12, 10**9
YES, NO = ("true", "yes", "1", "on"), ("false", "no", "0", "off")


def _number(most: int, scale: int = 1) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text, 0)
        if not 0 <= value <= most:
            raise ValueError
        return value * scale

    read.__doc__ = f"a number from 0 to {most}" if most < 1 << 20 else f"a number up to {most:#x}"
    return read


def _truth(text: str) -> bool:
    """TRUE or FALSE"""
    if text.lower() not in (*YES, *NO):
        raise ValueError
    return text.lower() in YES


def _text(text: str) -> str:
    """text"""
    return text.strip()


def _direction(text: str) -> str:
    """both, in, out or off"""
    if text.lower() not in ("both", "in", "out", "off"):
        raise ValueError
    return text.lower()


OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "routing_engine": ("engine", _text),
    "lmc": ("lmc", _number(7)),
    "sm_priority": ("priority", _number(15)),
    "m_key": ("mkey", _number((1 << 64) - 1)),
    "m_key_lease_period": ("mkey_lease", _number(0xFFFF)),
    "m_key_protection_level": ("mkey_protect", _number(3)),
    "m_key_lookup": ("mkey_lookup", _truth),
    "sm_key": ("sm_key", _number((1 << 64) - 1)),
    "sa_key": ("sa_key", _number((1 << 64) - 1)),
    "subnet_prefix": ("subnet_prefix", _number((1 << 64) - 1)),
    "sweep_interval": ("sweep_interval_ps", _number(10**6, PS_PER_S)),
    "sminfo_polling_timeout": ("polling_timeout_ps", _number(10**9, PS_PER_MS)),
    "polling_retry_number": ("polling_retries", _number(10**6)),
    "transaction_timeout": ("timeout_ps", _number(10**6, PS_PER_MS)),
    "transaction_retries": ("retries", _number(255)),
    "subnet_timeout": ("subnet_timeout", _number(31)),
    "packet_life_time": ("packet_life_time", _number(31)),
    "head_of_queue_lifetime": ("hoq_life", _number(31)),
    "leaf_head_of_queue_lifetime": ("leaf_hoq_life", _number(31)),
    "vl_stall_count": ("vl_stall_count", _number(7)),
    "leaf_vl_stall_count": ("leaf_vl_stall_count", _number(7)),
    "max_op_vls": ("max_op_vls", _number(5)),
    "local_phy_errors_threshold": ("local_phy_errors", _number(15)),
    "overrun_errors_threshold": ("overrun_errors", _number(15)),
    **LINK_OPTIONS,
    **FLAP_OPTIONS,
    **CHANGE_OPTIONS,
    "root_guid_file": ("root_guid_file", _text),
    "cn_guid_file": ("cn_guid_file", _text),
    "io_guid_file": ("io_guid_file", _text),
    "torus_config": ("torus_config", _text),
    "lfts_file": ("lfts_file", _text),
    "pgrp_policy_file": ("pgrp_policy_file", _text),
    "topo_policy_file": ("topo_policy_file", _text),
    "rch_policy_file": ("rch_policy_file", _text),
    "nue_max_num_vls": ("nue_max_num_vls", _number(15)),
    "partition_config_file": ("partition_config_file", _text),
    "allow_both_pkeys": ("allow_both_pkeys", _truth),
    "part_enforce": ("part_enforce", _direction),
    "reassign_lids": ("reassign_lids", _truth),
    "no_clients_rereg": ("no_clients_rereg", _truth),
    "use_mfttop": ("use_mfttop", _truth),
    "qos": ("qos", _truth),
    **QOS_OPTIONS,
    "qos_policy_file": ("qos_policy_file", _text),
    "prefix_routes_file": ("prefix_routes_file", _text),
    "congestion_control": ("congestion_control", _truth),
    **CC_OPTIONS,
    **AR_OPTIONS,
    "aggregation": ("aggregation", _truth),
    **AGGREGATION_OPTIONS,
}
"""OpenSM's name → (ours, what reads the value). ``…_file`` are paths, for the caller to open."""
SL_LISTS = (
    "cc_ca_cong_setting_ccti_timer",
    "cc_ca_cong_setting_ccti_increase",
    "cc_ca_cong_setting_trigger_threshold",
    "cc_ca_cong_setting_ccti_min",
)
"""Options with a line for each SL: they add up."""


def read_options(text: str, name: str = "opensm.conf") -> tuple[dict[str, Any], list[str]]:
    """(ours → value, notes for people) of a file's ``text``: what it says, as OpenSM takes it, and
    what of it is not carried over.

    Raises :class:`InputError` with file, line and what would be right, for softib's own options
    alone.
    """
    stated = as_opensm_reads(text)
    notes = [f"{name}:{r.line}: {r}" for r in stated.remarks if r.kind != "unknown"]
    found: dict[str, Any] = {}
    for key, value in stated.values.items():
        if key in OPTIONS and key not in SL_LISTS and value not in (None, ""):
            _carry(found, key, value, f"{name}:{stated.lines.get(key, 0)}: {key}", notes)
    for key, (line, value) in stated.unknown.items():
        if key in OPTIONS and value.lower() not in ("(null)", "null", ""):
            found[OPTIONS[key][0]] = read_value(key, value, f"{name}:{line}: {key}")
    for line, key, value in _lists(text):
        _carry(found, key, value, f"{name}:{line}: {key}", notes)
    if "engine" in found:
        found["engine"], adaptive, more = engines_of(found["engine"])
        found |= (
            {"adaptive_routing": read_value("adaptive_routing", "free", name)}
            if adaptive and "adaptive_routing" not in found
            else {}
        )
        notes += [f"{name}:{stated.lines['routing_engine']}: routing_engine: {note}" for note in more]
    return found, notes + [
        f"{name}: {note}" for note in not_carried(_left(stated), [u for u in stated.unknown if u not in OPTIONS])
    ]


def _carry(found: dict[str, Any], key: str, value: Value, where: str, notes: list[str]) -> None:
    """One of OpenSM's options; a value that OpenSM takes and no field of a MAD can hold is left
    out."""
    ours, read = OPTIONS[key]
    try:
        new = read(shown(value))
    except ValueError:
        notes.append(f"{where} {shown(value)[:40]!r} is not possible; it should be {read.__doc__}. The default holds")
        return
    found[ours] = {**found.get(ours, {}), **new} if isinstance(new, dict) else new


def _lists(text: str) -> list[tuple[int, str, str]]:
    """(line, name, value) of :data:`SL_LISTS`."""
    rows = [(n, line.split("#")[0].split(None, 1)) for n, line in enumerate(text.split("\n"), 1)]
    return [(n, fields[0], fields[1].strip()) for n, fields in rows if len(fields) == 2 and fields[0] in SL_LISTS]


def _left(stated: Stated) -> list[str]:
    return [name for name in stated.changed if name not in OPTIONS and name in DEFAULTS]


def read_value(key: str, text: str, where: str) -> Any:
    """The value of option ``key``, written as ``text``; ``where`` begins the message of an
    :class:`InputError`."""
    read = OPTIONS[key][1]
    try:
        return read(text)
    except ValueError:
        raise InputError(f"{where} {text[:40]!r} is not possible; write {read.__doc__}") from None
