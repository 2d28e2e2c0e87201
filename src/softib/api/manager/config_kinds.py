"""Which of OpenSM's files a text is, by its content."""

from __future__ import annotations

import re
from collections.abc import Callable

from softib.errors import InputError, SoftibError, UnknownFormat
from softib.input_files import shown_name

__all__ = ["KINDS", "PARSERS", "PARTITIONS", "POLICY", "ROUTES", "TORUS", "kind_of"]

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
    """The kind of the configuration file ``text``. Raises :class:`UnknownFormat` for a file of
    something else, with what it is."""
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
    known = ", ".join((OPTIONS, TORUS, PARTITIONS, POLICY, ROUTES))
    raise UnknownFormat(
        f"{shown_name(path)}: this is no configuration of OpenSM; softib judges {known}, GUID files and node-name-maps"
    )


def _refuse_fabrics(path: str, text: str) -> None:
    """Raise :class:`UnknownFormat` for fabrics, tables, counters and cabling lists."""
    from softib.fabric.formats import registry
    from softib.fabric.topologies import spec

    if spec.YAML_HEAD.search(text.encode()):
        what = "a fabric.yaml; 'softib check' judges it, its section sm too"
    else:
        try:
            row = registry.detect(path)
        except SoftibError as error:
            if not any(word in str(error) for word in ("this is", "binary")):
                return
            raise UnknownFormat(f"{str(error).removesuffix('.')}; it is no configuration of OpenSM") from None
        if row.kind == "names":
            return
        what = f"{row.what}; 'softib check' judges fabrics" if row.kind == "fabric" else row.what
    raise UnknownFormat(f"{shown_name(path)}: no configuration of OpenSM, but {what}")


def _names(text: str, name: str) -> None:
    from softib.fabric.formats.node_name_map import parse

    if problems := parse(text, name).problems:
        raise InputError(str(problems[0]))


def _policy(text: str, name: str) -> None:
    from softib.sm.managers.qos_policy import parse_policy

    parse_policy(text, name)


def _routes(text: str, name: str) -> None:
    from softib.sm.managers.prefix_routes import parse_prefix_routes

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
"""Kind → its reader, which raises :class:`InputError` for what it cannot read."""
