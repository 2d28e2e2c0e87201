"""Options of link policy: OpenSM's ``force_link_…``, and a file of widths and speeds by port (IBA 14.2.5.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from softib.errors import InputError
from softib.iba.constants import MAX_SWITCH_PORTS
from softib.iba.link_speeds import SPEEDS as LINK_SPEEDS
from softib.iba.link_speeds import WIDTH_BITS
from softib.plain_values import whole_number
from softib.sm.options.values import one_of

__all__ = [
    "ALL_EXT",
    "ALL_SPEEDS",
    "ALL_WIDTHS",
    "EXT_NONE",
    "FDR10_OFF",
    "FDR10_ON",
    "LINK_OPTIONS",
    "LinkPolicy",
    "LinkRule",
    "link_policy",
    "parse_link_policy",
]

WIDTHS = {f"{lanes}x": bit for lanes, bit in WIDTH_BITS.items()}
SPEEDS = {
    s.name: ("speed", s.speed_bit) if s.speed_bit else ("ext", s.ext_bit) if s.ext_bit else ("ext2", s.ext2_bit)
    for s in LINK_SPEEDS
    if not s.mlnx_bit
}
"""Speed → component and bit; FDR10 has a separate component."""
FEC_MODES = {"none": 1, "firecode": 2, "rs": 4, "ll-rs": 8}
"""Bits of the FECModeEnabled components of PortInfoExtended (IBA 14.2.5.19)."""
FDR10_ON, FDR10_OFF = 1, 2
"""OpenSM's values of ``fdr10``; 0 leaves it unchanged."""
ALL_WIDTHS, ALL_SPEEDS, ALL_EXT, EXT_NONE = 255, 15, 31, 30
"""OpenSM's values for "all that the port supports" (ALL_…) and for "no extended speed"."""


VALUES_OF: dict[str, dict[str, tuple[str, int]]] = {
    "width": {name: ("width", bit) for name, bit in WIDTHS.items()},
    "speed": SPEEDS,
    "fec": {name: ("fec", bit) for name, bit in FEC_MODES.items()},
    "fdr10": {"on": ("fdr10", FDR10_ON), "off": ("fdr10", FDR10_OFF)},
}
"""Key of a rule → its values, and the component and bit that each sets."""


@dataclass(frozen=True)
class LinkRule:
    """Settings of the ports ``portnums`` (empty: all) of the nodes whose name or NodeGUID matches
    ``node``. 0: leave the component unchanged."""

    node: str = "*"
    portnums: frozenset[int] = frozenset()
    width: int = 0
    speed: int = 0
    ext: int = 0
    ext2: int = 0
    fec: int = 0
    fdr10: int = 0


@dataclass(frozen=True)
class LinkPolicy:
    """Rules in order. For each component of a port, the last matching rule that sets it is used."""

    rules: tuple[LinkRule, ...]


LINK_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "force_link_speed": (
        "force_link_speed",
        one_of((0, 1, 3, 5, 7, 15), "0 (unchanged), 1, 3, 5, 7 or 15 (all supported)"),
    ),
    "force_link_speed_ext": (
        "force_link_speed_ext",
        one_of((*range(16), 30, 31), "0 (unchanged), 1 to 15, 30 (none) or 31 (all supported)"),
    ),
    "fdr10": ("fdr10", one_of((0, 1, 2), "0 (unchanged), 1 (enable) or 2 (disable)")),
    "force_link_width": (
        "force_link_width",
        one_of((*range(32), 255), "0 (unchanged), 1 to 31 or 255 (all supported)"),
    ),
}
"""OpenSM's options (``opensm -c`` explains the values)."""


def link_policy(fields: Mapping[str, Any]) -> LinkPolicy | None:
    """Return the policy of OpenSM's options and of ``link_policy`` (the rules in a file, which take
    precedence). None if neither is set."""
    names = {"force_link_speed": "speed", "force_link_speed_ext": "ext", "force_link_width": "width", "fdr10": "fdr10"}
    forced: dict[str, Any] = {ours: int(fields[name]) for name, ours in names.items() if fields.get(name)}
    rules = ((LinkRule(**forced),) if forced else ()) + tuple(fields.get("link_policy") or ())
    return LinkPolicy(rules) if rules else None


def parse_link_policy(text: str, name: str = "link-policy.conf") -> tuple[LinkRule, ...]:
    """Parse one rule per line: ``leaf-3[1-4,9] width=1x,4x speed=QDR,EDR``. A name may contain
    ``*`` and ``?``, and ``#`` begins a comment.

    Raises :class:`InputError` with file and line.
    """
    rules = []
    for number, line in enumerate(text.splitlines(), 1):
        tokens = line.split("#")[0].split()
        if tokens:
            try:
                rules.append(_rule(tokens))
            except ValueError as error:
                raise InputError(f"{name}:{number}: {error}") from None
    return tuple(rules)


def _rule(tokens: list[str]) -> LinkRule:
    node, _, listed = tokens[0].partition("[")
    portnums: set[int] = set()
    for part in listed.rstrip("]").split(",") if listed else []:
        first, _, last = part.partition("-")
        ends = whole_number(first), whole_number(last or first)
        if ends[0] is None or ends[1] is None or ends[1] > MAX_SWITCH_PORTS:
            raise ValueError(f"{tokens[0]!r}: {part!r} is not a port; use leaf-3[1-4,9]")
        portnums |= set(range(ends[0], ends[1] + 1))
    fields: dict[str, Any] = {"width": 0, "speed": 0, "ext": 0, "ext2": 0, "fec": 0, "fdr10": 0}
    for word in tokens[1:]:
        key, _, values = word.partition("=")
        if key not in VALUES_OF or not values:
            raise ValueError(f"{word!r} is not possible; use width=1x,4x or speed=QDR,EDR or fec=rs,none or fdr10=on")
        for value in values.split(","):
            component, bit = VALUES_OF[key].get(value.upper() if key == "speed" else value.lower(), ("", 0))
            if not component or (key == "fdr10" and fields["fdr10"]):
                raise ValueError(f"{value!r} is not a {key}; use {', '.join(VALUES_OF[key])}")
            fields[component] |= bit
        if key == "speed":  # the speeds form one list, so components that are not in it are off
            fields["speed"] = fields["speed"] or 1
            fields["ext"] = fields["ext"] or EXT_NONE
    if len(tokens) < 2:
        raise ValueError(f"{tokens[0]!r} sets nothing; add width=…, speed=…, fec=… or fdr10=…")
    return LinkRule(node, frozenset(portnums), **fields)
