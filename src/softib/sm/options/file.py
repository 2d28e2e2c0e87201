"""Read OpenSM's options file (``opensm -c`` writes one): one name and value per line, ``#`` begins
a comment (opensm(8)).

OpenSM 3.3.23's interpretation of a line is in :mod:`~softib.sm.options.opensm_conf`. The file may
also contain options specific to softib, and those of NVIDIA's OpenSM that softib supports.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from softib.errors import InputError
from softib.routing.engine import ENGINES, engines
from softib.sm.managers.congestion_mgr import CC_OPTIONS
from softib.sm.options.link import LINK_OPTIONS
from softib.sm.options.opensm_conf import as_opensm_reads, shown
from softib.sm.options.opensm_defaults import Value, not_carried
from softib.sm.options.qos import QOS_OPTIONS
from softib.sm.options.softib_options import SOFTIB_OPTIONS
from softib.sm.options.values import number, plain_text, truth

__all__ = ["OPTIONS", "ReadOptions", "engines_of", "read_options", "read_value", "unknown_to_opensm"]


OPENSM = (
    "minhop",
    "updn",
    "dnup",
    "file",
    "ftree",
    "lash",
    "dor",
    "torus-2QoS",
    "nue",
    "dfsssp",
    "sssp",
    "no_fallback",
)
"""Names that OpenSM 3.3.23 supports in ``routing_engine``."""

ADAPTIVE = {"ar_updn": "updn", "ar_ftree": "ftree", "ar_dor": "dor", "ar_minhop": "minhop"}
"""NVIDIA's engines with adaptive routing → the engine that makes their forwarding tables."""
LAST = "minhop"
"""The engine that OpenSM falls back to when no engine of the list works."""


class EngineList(NamedTuple):
    """OpenSM's option ``routing_engine`` in softib's terms."""

    names: str
    """The engines, separated by commas."""
    adaptive: bool
    """Whether adaptive routing is on."""
    notes: list[str]


def engines_of(text: str) -> EngineList:
    """Return the engines with which softib routes. An unknown name is skipped, as in OpenSM."""
    names, adaptive, notes = [], False, []
    for name in _names(text):
        if name in ENGINES:
            names.append(name)
        elif name in ADAPTIVE:
            names.append(ADAPTIVE[name])
            adaptive = True
            notes.append(f"{name} of NVIDIA's OpenSM is {ADAPTIVE[name]} with adaptive_routing free")
        elif name == "no_fallback":
            notes.append(
                "no_fallback is ignored: minhop's tables are better than no tables; use --strict to reject them"
            )
        elif name in engines():
            names.append(name)
        else:
            notes.append(f"no engine {name}; ignored, as in OpenSM 3.3.23")
    if not names:
        notes.append(f"{LAST} routes, as OpenSM's last resort")
    return EngineList(",".join(names or [LAST]), adaptive, notes)


def unknown_to_opensm(text: str) -> list[str]:
    """Return the names of the list that OpenSM 3.3.23 ignores."""
    return [name for name in _names(text) if name not in OPENSM]


def _names(text: str) -> list[str]:
    return [name for name in re.split(r"[, \t]+", text) if name]


PS_PER_S, PS_PER_MS = 10**12, 10**9


def _direction(text: str) -> str:
    """both, in, out or off"""
    if text.lower() not in ("both", "in", "out", "off"):
        raise ValueError
    return text.lower()


MOST_VLS = 5
"""The code of 15 data VLs (OperationalVLs, IBA table 155)."""


def _vls(text: str) -> int:
    """a number from 0 to 5"""
    n = int(text, 0)
    if not 0 <= n <= 0xFF:
        raise ValueError
    return min(n, MOST_VLS)


OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "routing_engine": ("engine", plain_text),
    "lmc": ("lmc", number(0, 7)),
    "sm_priority": ("priority", number(0, 15)),
    "m_key": ("mkey", number(0, (1 << 64) - 1)),
    "m_key_lease_period": ("mkey_lease", number(0, 0xFFFF)),
    "m_key_protection_level": ("mkey_protect", number(0, 3)),
    "m_key_lookup": ("mkey_lookup", truth),
    "sm_key": ("sm_key", number(0, (1 << 64) - 1)),
    "sa_key": ("sa_key", number(0, (1 << 64) - 1)),
    "subnet_prefix": ("subnet_prefix", number(0, (1 << 64) - 1)),
    "sweep_interval": ("sweep_interval_ps", number(0, 10**6, PS_PER_S)),
    "sminfo_polling_timeout": ("polling_timeout_ps", number(0, 10**9, PS_PER_MS)),
    "polling_retry_number": ("polling_retries", number(0, 10**6)),
    "transaction_timeout": ("timeout_ps", number(0, 10**6, PS_PER_MS)),
    "transaction_retries": ("retries", number(0, 255)),
    "subnet_timeout": ("subnet_timeout", number(0, 31)),
    "packet_life_time": ("packet_life_time", number(0, 31)),
    "head_of_queue_lifetime": ("hoq_life", number(0, 31)),
    "leaf_head_of_queue_lifetime": ("leaf_hoq_life", number(0, 31)),
    "vl_stall_count": ("vl_stall_count", number(0, 7)),
    "leaf_vl_stall_count": ("leaf_vl_stall_count", number(0, 7)),
    "max_op_vls": ("max_op_vls", _vls),
    "local_phy_errors_threshold": ("local_phy_errors", number(0, 15)),
    "overrun_errors_threshold": ("overrun_errors", number(0, 15)),
    **LINK_OPTIONS,
    **SOFTIB_OPTIONS,
    "root_guid_file": ("root_guid_file", plain_text),
    "cn_guid_file": ("cn_guid_file", plain_text),
    "io_guid_file": ("io_guid_file", plain_text),
    "torus_config": ("torus_config", plain_text),
    "lfts_file": ("lfts_file", plain_text),
    "pgrp_policy_file": ("pgrp_policy_file", plain_text),
    "topo_policy_file": ("topo_policy_file", plain_text),
    "rch_policy_file": ("rch_policy_file", plain_text),
    "nue_max_num_vls": ("nue_max_num_vls", number(0, 15)),
    "partition_config_file": ("partition_config_file", plain_text),
    "allow_both_pkeys": ("allow_both_pkeys", truth),
    "part_enforce": ("part_enforce", _direction),
    "reassign_lids": ("reassign_lids", truth),
    "no_clients_rereg": ("no_clients_rereg", truth),
    "use_mfttop": ("use_mfttop", truth),
    "qos": ("qos", truth),
    **QOS_OPTIONS,
    "qos_policy_file": ("qos_policy_file", plain_text),
    "prefix_routes_file": ("prefix_routes_file", plain_text),
    "link_policy_file": ("link_policy_file", plain_text),
    "congestion_control": ("congestion_control", truth),
    **CC_OPTIONS,
    "aggregation": ("aggregation", truth),
}
"""OpenSM's name → (softib's name, reader of the value). ``…_file`` options are paths, which the caller opens."""
SL_LISTS = (
    "cc_ca_cong_setting_ccti_timer",
    "cc_ca_cong_setting_ccti_increase",
    "cc_ca_cong_setting_trigger_threshold",
    "cc_ca_cong_setting_ccti_min",
)
"""Options that have one line per SL."""


class ReadOptions(NamedTuple):
    """The options of a file, and notes on those that are not used."""

    options: dict[str, Any]
    """softib's name → value."""
    notes: list[str]


def read_options(text: str, name: str = "opensm.conf") -> ReadOptions:
    """Return the options in ``text`` as OpenSM interprets them.

    Raises :class:`InputError` with file, line and a correction, but only for options that only
    softib has.
    """
    stated = as_opensm_reads(text)
    notes = [f"{name}:{r.line}: {r}" for r in stated.remarks if r.kind not in ("unknown", "programmed")]
    options: dict[str, Any] = {}
    for key, value in stated.values.items():
        if key in OPTIONS and key not in SL_LISTS and value not in (None, ""):
            _carry(options, key, value, f"{name}:{stated.lines.get(key, 0)}: {key}", notes)
    for key, (line, value) in stated.unknown.items():
        if key in OPTIONS and value.lower() not in ("(null)", "null", ""):
            options[OPTIONS[key][0]] = read_value(key, value, f"{name}:{line}: {key}")
    for line, key, value in _lists(text):
        _carry(options, key, value, f"{name}:{line}: {key}", notes)
    if "engine" in options:
        listed = engines_of(options["engine"])
        options["engine"] = listed.names
        options |= (
            {"adaptive_routing": read_value("adaptive_routing", "free", name)}
            if listed.adaptive and "adaptive_routing" not in options
            else {}
        )
        notes += [f"{name}:{stated.lines['routing_engine']}: routing_engine: {note}" for note in listed.notes]
    vls = stated.get("max_op_vls")
    if isinstance(vls, int) and vls > MOST_VLS:
        notes.append(
            f"{name}:{stated.lines['max_op_vls']}: max_op_vls {vls} is ignored, as by OpenSM; use 1 to 5, for 1, 2, 4, "
            f"8 and 15 VLs"
        )
    lost = [key for key in stated.changed if key not in OPTIONS]
    unused = not_carried(lost, [u for u in stated.unknown if u not in OPTIONS])
    return ReadOptions(options, notes + [f"{name}: {note}" for note in unused])


def _carry(options: dict[str, Any], key: str, value: Value, where: str, notes: list[str]) -> None:
    """Store one of OpenSM's options. A value that OpenSM accepts is ignored if no field of a MAD
    can hold it."""
    ours, read = OPTIONS[key]
    try:
        new = read(shown(value))
    except ValueError:
        notes.append(f"{where} {shown(value)[:40]!r} is not possible; use {read.__doc__}. The default holds")
        return
    options[ours] = {**options.get(ours, {}), **new} if isinstance(new, dict) else new


def _lists(text: str) -> list[tuple[int, str, str]]:
    """Yield (line, name, value) of :data:`SL_LISTS`."""
    rows = [(n, line.split("#")[0].split(None, 1)) for n, line in enumerate(text.split("\n"), 1)]
    return [(n, fields[0], fields[1].strip()) for n, fields in rows if len(fields) == 2 and fields[0] in SL_LISTS]


def read_value(key: str, text: str, where: str) -> Any:
    """Return the value of option ``key``, written as ``text``; ``where`` begins the message of an
    :class:`InputError`."""
    read = OPTIONS[key][1]
    try:
        return read(text)
    except ValueError:
        raise InputError(f"{where} {text[:40]!r} is not possible; use {read.__doc__}") from None
