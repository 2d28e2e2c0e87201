"""The ``sm:`` section of a fabric.yaml as settings of the manager: one reader, which all verbs use.

Every key has an effect or is an error; none is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from softib.errors import InputError
from softib.input_files import FILE_LIMIT, read_text
from softib.routing.chains.chain_policy import ChainPolicy, PortGroup, parse_chain, parse_groups
from softib.routing.engine import RouteOptions
from softib.sm.managers.congestion_mgr import CC_OPTIONS
from softib.sm.managers.partitions import parse_partitions
from softib.sm.managers.qos_policy import parse_policy
from softib.sm.managers.router_mgr import parse_prefix_routes
from softib.sm.options.file import OPTIONS, read_options, read_value
from softib.sm.options.link import LINK_OPTIONS, parse_link_policy
from softib.sm.options.qos import QOS_OPTIONS
from softib.sm.options.softib_options import SOFTIB_OPTIONS

__all__ = [
    "CHAIN_FILES",
    "GUID_FILES",
    "ROUTE_KEYS",
    "check_engine_keys",
    "check_keys",
    "read_guids",
    "route_options",
    "settings_of",
]

GUID_FILES = {"root_guid_file": "root_guids", "cn_guid_file": "cn_guids", "io_guid_file": "io_guids"}
"""OpenSM's option → field of :class:`RouteOptions`."""
ENGINE_FILES = ("torus_config", "lfts_file")
"""Options whose text the engine reads itself."""
CHAIN_FILES = ("pgrp_policy_file", "topo_policy_file", "rch_policy_file")
"""Files of engine ``chain``, under the names of NVIDIA's OpenSM."""
ENGINE_NUMBERS = ("nue_max_num_vls", "data_vls", "seed")
ROUTE_KEYS = (*GUID_FILES, *ENGINE_FILES, *CHAIN_FILES, *ENGINE_NUMBERS)
"""All parts of :class:`RouteOptions`."""
PLAIN = ("engine", "lmc", "priority", "subnet_prefix", "qos", "congestion_control", "aggregation")
MKEY = ("m_key", "m_key_lease_period", "m_key_protection_level", "m_key_lookup")
VALUES = (*MKEY, *LINK_OPTIONS, *SOFTIB_OPTIONS, *QOS_OPTIONS, *CC_OPTIONS)
"""Options whose values have the format of OpenSM's file: ``qos_sl2vl: "0,1,2,…"``."""
ELSEWHERE = ("node", "partitions", "qos_policy_file", "prefix_routes_file", "link_policy_file", *ROUTE_KEYS)
OFF = (None, False, 0, "", "off")
NEEDS: tuple[tuple[Collection[str], tuple[str, ...], str], ...] = (
    ((*QOS_OPTIONS, "qos_policy_file"), ("qos",), "qos: true"),
    (
        ("flap_window", "flap_pause"),
        ("flap_threshold", "babbling_port_policy"),
        "flap_threshold or babbling_port_policy",
    ),
    (("babbling_threshold",), ("babbling_port_policy",), "babbling_port_policy: true"),
    (CC_OPTIONS, ("congestion_control",), "congestion_control: true"),
    (("ar_sl_mask", "ar_transport_mask"), ("adaptive_routing",), "adaptive_routing: free or bounded"),
    (("aggregation_trees", "aggregation_streaming_trees"), ("aggregation",), "aggregation: true"),
)
"""Keys; for each, the policies of which at least one must be set for the key to have an effect, and the message."""
FILES: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "partitions": ("partitions", lambda text, path: tuple(parse_partitions(text, path))),
    "qos_policy_file": ("qos_policy", parse_policy),
    "prefix_routes_file": ("prefix_routes", parse_prefix_routes),
    "link_policy_file": ("link_policy", parse_link_policy),
}
"""Options that name a file → the field that its reader fills."""
ONLY_WITH = {
    "torus_config": ("torus-2QoS",),
    "lfts_file": ("file",),
    "nue_max_num_vls": ("nue",),
    "data_vls": ("lash", "dfsssp", "nue"),
    **dict.fromkeys(CHAIN_FILES, ("chain",)),
}
"""Option → the engines that read it; one of these must be configured."""


def check_keys(section: Mapping[str, Any]) -> None:
    """Raise :class:`InputError` in one line for a key that would have no effect."""
    for key, value in section.items():
        if key == "seed" and value is not None:
            raise InputError("sm.seed: has no effect, because no engine of the manager is random; remove seed")
        if key not in (*PLAIN, *ELSEWHERE, *VALUES):
            raise InputError(f"sm.{key}: the subnet manager has no such option")
        for keys, policies, text in NEEDS:
            if key in keys and value is not None and not any(section.get(p) not in OFF for p in policies):
                raise InputError(f"sm.{key}: has no effect without {text}")


def check_engine_keys(section: Mapping[str, Any]) -> None:
    """Raise :class:`InputError` in one line for an option of an engine that ``section`` (as in the
    file) does not select. (The command line may name another engine.)"""
    names = [name.strip() for name in str(section.get("engine") or "").split(",")]
    for key, engines in ONLY_WITH.items():
        if key == "pgrp_policy_file" and section.get("root_guid_file"):
            continue  # its groups may be roots
        if section.get(key) is not None and not any(engine in names for engine in engines):
            raise InputError(f"sm.{key}: read only by engine {', '.join(engines)}; remove it, or name the engine")


def settings_of(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of :class:`~softib.sm.config.SmConfig` that ``section`` sets; ``node`` is
    for the caller. Files are read.

    Raises :class:`InputError` for a key without effect or a GUID file with other contents,
    :class:`UnreadableFile` if a file cannot be opened.
    """
    check_keys(section)
    fields: dict[str, Any] = {key: section[key] for key in PLAIN if section.get(key) is not None}
    for key in VALUES:
        if section.get(key) is not None:
            ours = OPTIONS[key][0] if key in MKEY else key
            fields[ours] = read_value(key, str(section[key]), f"sm.{key}")
    for key, (field, parse) in FILES.items():
        if section.get(key):
            fields[field] = parse(_text(section[key]), section[key])
    options = route_options(section)
    if options != RouteOptions():
        fields["options"] = options
    return fields


def route_options(section: Mapping[str, Any]) -> RouteOptions:
    """Return the engine options of ``section``; read the files that it names."""
    groups = _port_groups(section)
    fields: dict[str, Any] = {}
    for key, field in GUID_FILES.items():
        if section.get(key):
            names: list[str] = []
            fields[field] = read_guids(section[key], [g.name for g in groups] if key == "root_guid_file" else [], names)
            fields |= {"root_groups": tuple(names), "groups": groups} if names else {}
    if section.get("torus_config"):
        fields["torus_config"] = _text(section["torus_config"])
    if section.get("lfts_file"):
        fields["lfts"] = read_text(section["lfts_file"], "dump of tables", FILE_LIMIT, errors="replace")
    fields |= {key: int(section[key]) for key in ENGINE_NUMBERS if section.get(key) is not None}
    policy = _chain(section)
    return RouteOptions(**fields) if policy is None else RouteOptions(**fields, chain=policy)


def _port_groups(section: Mapping[str, Any]) -> tuple[PortGroup, ...]:
    """Return the groups that a root_guid_file may name, as in NVIDIA's OpenSM."""
    if not section.get("pgrp_policy_file") or not section.get("root_guid_file"):
        return ()
    return parse_groups(_text(section["pgrp_policy_file"]), str(section["pgrp_policy_file"]))


def _chain(section: Mapping[str, Any]) -> ChainPolicy | None:
    """Return the routing chain of ``section``, with the engine options in each step's ``config``;
    None if there is no chain."""
    files = {key: (_text(section[key]), str(section[key])) for key in CHAIN_FILES if section.get(key)}
    if not files:
        return None
    if "rch_policy_file" not in files and "topo_policy_file" not in files and section.get("root_guid_file"):
        return None  # its groups are for the roots
    if "rch_policy_file" not in files:
        raise InputError(f"{next(iter(files))}: has no effect without rch_policy_file")
    policy = parse_chain(files)
    folder = Path(section["rch_policy_file"]).parent
    steps = []
    for step in policy.steps:
        if step.config:
            path = str(folder / step.config)
            stated = read_options(_text(path), path).options
            keys = {
                key: value
                for key, value in {**section, **stated}.items()
                if key in ROUTE_KEYS and key not in CHAIN_FILES
            }
            step = replace(step, options=route_options(keys))
        steps.append(step)
    return replace(policy, steps=tuple(steps))


def read_guids(path: str, groups: Sequence[str] = (), named: list[str] | None = None) -> tuple[int, ...]:
    """Read one hexadecimal GUID per line, as in OpenSM's files. A name may follow, and ``#`` begins
    a comment. A line may instead name one of the port ``groups``, which is added to ``named``.

    Raises :class:`InputError` with file and line for anything else.
    """
    guids = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        fields = line.split("#")[0].split()
        if not fields:
            continue
        if fields[0] in groups and named is not None:
            named.append(fields[0])
            continue
        try:
            guid = int(fields[0], 16)
        except ValueError:
            guid = -1
        if not 0 < guid < 1 << 64:
            raise InputError(
                f"{path}:{number}: {fields[0]!r} is not a GUID; use one per line, for example 0x0002c90300000001"
            )
        guids.append(guid)
    return tuple(guids)


def _text(path: str) -> str:
    return read_text(path, "file of the subnet manager", errors="replace")
