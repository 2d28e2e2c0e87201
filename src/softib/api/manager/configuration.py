"""Check of a configuration file of OpenSM: its kind, and how OpenSM and softib's subnet manager read it."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from softib.api.arguments import Suggests
from softib.errors import InputError, SoftibError, UnknownFormat
from softib.foreign_text import shown
from softib.input_files import read_text, shown_name
from softib.plural import counted
from softib.result import Result, also, key

__all__ = ["KINDS", "PARSERS", "PARTITIONS", "POLICY", "ROUTES", "TORUS", "ConfigCheck", "check_config", "kind_of"]


OPTIONS, TORUS, PARTITIONS, POLICY = "opensm.conf", "torus-2QoS.conf", "partitions.conf", "qos-policy.conf"
GUIDS, ROUTES, NAMES = "GUID file", "prefix-routes.conf", "node-name-map"
KINDS = (OPTIONS, TORUS, PARTITIONS, POLICY, ROUTES, GUIDS, NAMES)
_TORUS_KEYWORDS = {
    "torus",
    "mesh",
    "next_seed",
    "port_order",
    "portgroup_max_ports",
    "max_changes",
    *(f"{a}{w}" for a in "xyz" for w in ("p_link", "m_link", "_dateline")),
}
_POLICY_SECTIONS = {"port-groups", "qos-setup", "qos-levels", "qos-match-rules", "qos-ulps"}
_PARTITION = re.compile(r"^\s*[^:;{}\"\n]*:[^;{}]*;|^\s*[\w.-]+\s*=\s*0x[0-9a-fA-F]{1,4}\b[^:\n]*:", re.MULTILINE)
_GUID = r"(?:0[xX])?[0-9a-fA-F]{9,16}"
_GUID_LINE = re.compile(rf"{_GUID}(?:\s+(?P<name>\S.*))?")
_ROUTE_LINE = re.compile(rf"(?:{_GUID}|\*)\s+(?:{_GUID}|\*)")
_OPTION_LINE = re.compile(r"[A-Za-z_]\w*(?:\s+[^=:\s].*)?")


def kind_of(path: str, text: str) -> str:
    """Return the kind of the configuration file with content ``text``. For a file that is not a configuration file,
    raises :class:`UnknownFormat` and says what it is."""
    from softib.sm.options.opensm_conf import as_opensm_reads

    lines = [line for raw in text.splitlines() if (line := raw.split("#")[0].strip())]
    first = {line.split()[0] for line in lines}
    if first & _POLICY_SECTIONS:
        return POLICY
    if first & _TORUS_KEYWORDS:
        return TORUS
    if as_opensm_reads(text).lines:
        return OPTIONS
    _refuse_fabrics(path, text)
    if lines and all(_ROUTE_LINE.fullmatch(line) for line in lines):
        return ROUTES
    matches = [_GUID_LINE.fullmatch(line) for line in lines]
    if lines and all(matches):
        return NAMES if all(m and m["name"] for m in matches) else GUIDS
    if all(_OPTION_LINE.fullmatch(line) for line in lines):
        return OPTIONS
    if _PARTITION.search("\n".join(lines)):
        return PARTITIONS
    if 2 * sum(_ROUTE_LINE.fullmatch(line) is not None for line in lines) > len(lines):
        return ROUTES
    if 2 * sum(m is not None for m in matches) > len(lines):
        return NAMES if all(m["name"] for m in matches if m) else GUIDS
    kinds = ", ".join((OPTIONS, TORUS, PARTITIONS, POLICY, ROUTES))
    raise UnknownFormat(
        f"{shown_name(path)}: this is not a configuration file of OpenSM; use {kinds}, a GUID file or a node-name-map"
    )


def _refuse_fabrics(path: str, text: str) -> None:
    """Raise :class:`UnknownFormat` for fabrics, tables, counters and cabling lists."""
    from softib.fabric.formats import registry
    from softib.fabric.topologies import spec

    if spec.YAML_HEAD.search(text.encode()):
        content = "a fabric.yaml; use 'softib check' for it, including its section sm"
    else:
        try:
            row = registry.detect(path)
        except SoftibError as error:
            if not any(word in str(error) for word in ("this is", "binary")):
                return
            raise UnknownFormat(f"{str(error).removesuffix('.')}; it is not a configuration file of OpenSM") from None
        if row.kind == "names":
            return
        content = f"{row.what}; use 'softib check' for fabrics" if row.kind == "fabric" else row.what
    raise UnknownFormat(f"{shown_name(path)}: this is {content}, not a configuration file of OpenSM")


def _names(text: str, name: str) -> None:
    from softib.fabric.formats.node_name_map import parse

    if problems := parse(text, name).problems:
        raise InputError(str(problems[0]))


def _policy(text: str, name: str) -> None:
    from softib.sm.managers.qos_policy import parse_policy

    parse_policy(text, name)


def _routes(text: str, name: str) -> None:
    from softib.sm.managers.router_mgr import parse_prefix_routes

    parse_prefix_routes(text, name)


def _guids(text: str, name: str) -> None:
    from softib.sm.options.fabric_yaml import read_guids

    read_guids(name)


PARSERS: dict[str, Callable[[str, str], None]] = {
    POLICY: _policy,
    ROUTES: _routes,
    GUIDS: _guids,
    NAMES: _names,
}
"""Kind → its reader, which raises :class:`InputError` for unreadable content."""


THEN = {
    POLICY: "OpenSM logs ERR AC03 or AC04 and continues without a QoS policy",
    ROUTES: "OpenSM logs each unreadable line and uses the others",
}
"""Kind → OpenSM's reaction to the first error."""


@dataclass(repr=False)
class ConfigCheck(Suggests, Result):
    """Result of :func:`check_config`."""

    document = "sm-config"

    path: str = field(metadata=key("file"))
    kind: str = field(metadata=key(type=Literal[*KINDS]))
    opensm: tuple[str, ...]
    """Settings that OpenSM 3.3.23 does not use as written, and what OpenSM does instead."""
    softib: tuple[str, ...]
    """Differences of softib's manager from OpenSM, and settings that it ignores."""

    def __post_init__(self) -> None:
        self.opensm, self.softib = tuple(map(shown, self.opensm)), tuple(map(shown, self.softib))

    @property
    @also(before="opensm")
    def good(self) -> bool:
        """Return whether OpenSM uses the file as written."""
        return not self.opensm

    def __repr__(self) -> str:
        return (
            f"<ConfigCheck of {self.path}: {self.kind}, {counted(len(self.opensm), 'line')} that OpenSM does not "
            f"use as written>"
        )


def check_config(path: str | os.PathLike[str]) -> ConfigCheck:
    """Check a configuration file as OpenSM 3.3.23 reads it. The kind is identified by content: its
    options file (``opensm -F``; files that it names are also read), torus-2QoS.conf,
    partitions.conf, qos-policy.conf, prefix routes, a file of GUIDs, or a node-name-map. Raises
    :class:`InputError` if ``path`` cannot be read or is none of these.
    """
    name = os.fspath(path)
    text = read_text(name, "configuration file of OpenSM", errors="replace")
    kind = kind_of(name, text)
    if kind == TORUS:
        return _torus(name, text)
    if kind == PARTITIONS:
        return _partitions(name, text)
    if kind not in PARSERS:
        return _options(name, text)
    opensm = _guid_lines(name, text) if kind == GUIDS else ()
    try:
        PARSERS[kind](text, name)
    except InputError as why:
        rest = f"; {THEN[kind]}" if kind in THEN else ""
        return ConfigCheck(name, kind, opensm or (str(why),), (f"refuses the whole file{rest}",))
    return ConfigCheck(name, kind, opensm, ("uses the file as written",) if opensm else ())


def _guid_lines(name: str, text: str) -> tuple[str, ...]:
    from softib.sm.options.opensm_guids import guid_remarks

    return tuple(f"{name}:{number}: {remark}" for number, remark in guid_remarks(text))


def _torus(name: str, text: str) -> ConfigCheck:
    from softib.routing.engines.torus_config import refusals

    lines = refusals(text)
    if lines:
        lines.append("torus-2QoS is rejected; OpenSM continues with the next engine, or minhop")
    return ConfigCheck(name, TORUS, tuple(lines), ())


def _partitions(name: str, text: str) -> ConfigCheck:
    from softib.sm.managers.partitions import partition_problems
    from softib.sm.options.opensm_partitions import as_opensm_reads_partitions

    read = as_opensm_reads_partitions(text)
    opensm = [f"{name}:{r.line}: {r.text}{'; OpenSM drops the file' if r.drops else ''}" for r in read.remarks]
    if read.dropped:
        opensm.insert(
            0,
            f"{name}: OpenSM reads it up to line {read.dropped.line}, then replaces the whole file by its default: "
            f"every port is a full member of 0x7fff, and no port is isolated; the effect of each single error "
            f"is below",
        )
    softib = partition_problems(text, name)
    if softib:
        softib.append("softib rejects the whole file because of these lines")
    elif opensm:
        softib.append("softib uses the file as written")
    return ConfigCheck(name, PARTITIONS, tuple(opensm), tuple(softib))


def _options(name: str, text: str) -> ConfigCheck:
    from softib.live.internal_sm.settings import MISSING, ManagerSettings
    from softib.sm.options.file import unknown_to_opensm
    from softib.sm.options.opensm_conf import as_opensm_reads
    from softib.sm.options.opensm_defaults import DEFAULTS

    stated = as_opensm_reads(text)
    opensm = [f"{name}:{r.line}: {r}" for r in stated.remarks]
    torus, engines = stated.get("torus_config"), str(stated.get("routing_engine") or "")
    opensm += [
        f"{name}:{stated.lines['routing_engine']}: no engine {e}; OpenSM continues with the rest of the list, then "
        f"minhop"
        for e in unknown_to_opensm(engines)
    ]
    if "torus-2QoS" in engines.replace(",", " ").split():
        if not stated.get("qos"):
            opensm.append(
                f"{name}: torus-2QoS is rejected without qos TRUE; OpenSM continues with the next engine, or minhop"
            )
        if torus and Path(str(torus)).is_file():
            opensm += [f"{torus}: {line}" for line in check_config(str(torus)).opensm]
        else:
            opensm.append(f"{name}: torus_config: no file {torus}; torus-2QoS is rejected")
    softib: list[str] = []
    try:
        ManagerSettings({}, name, note=softib.append).read()
    except SoftibError as why:
        softib.append(f"refused: {why}")
    opensm += [line for line in softib if any(f": {key}: no file " in line for key in DEFAULTS if key in MISSING)]
    listed = {line for line in softib if line in opensm or any(n not in DEFAULTS and n in line for n in stated.unknown)}
    opensm.sort(key=_line)
    others = sorted((line for line in softib if line not in listed), key=_line)
    return ConfigCheck(name, "opensm.conf", tuple(opensm), tuple(others))


def _line(remark: str) -> float:
    """Return the line number at the start of a remark; remarks without a number come last."""
    match = re.match(r".*?:(\d+): ", remark)
    return int(match[1]) if match else math.inf
