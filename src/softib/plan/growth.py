"""The cabling cost of growth: cables of a fabric that stay, move and are added when a larger one replaces it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from softib.fabric.model import Fabric

__all__ = ["Growth", "growth"]

PADDING = re.compile(r"(?<!\d)0+(?=\d)")
"""Leading zeros of a number."""


@dataclass(frozen=True)
class Growth:
    """``kept``: cables between the same two nodes before and after. ``moved``: present cables between two nodes
    that have fewer, or none, afterwards. ``new``: cables to buy if every moved one is reused.
    ``new_switches``, ``new_hosts``: added devices; ``idle_switches``: devices that are no longer used."""

    kept: int
    moved: int
    new: int
    new_switches: int
    idle_switches: int
    new_hosts: int


def growth(before: Fabric, after: Fabric) -> Growth:
    """Compare two fabrics by the names of their nodes, without the ports of switches.

    Names that differ only in padding are the same (``node-07`` and ``node-007``).
    """
    old_names, new_names = _plain_names(before), _plain_names(after)
    old, new = _cables(before, old_names), _cables(after, new_names)
    kept = (old & new).total()
    old_switches, old_hosts = _devices(before, old_names)
    new_switches, new_hosts = _devices(after, new_names)
    return Growth(
        kept,
        old.total() - kept,
        max(0, new.total() - old.total()),
        len(new_switches - old_switches),
        len(old_switches - new_switches),
        len(new_hosts - old_hosts),
    )


def _plain_names(fabric: Fabric) -> list[str]:
    """Return names of nodes without padding."""
    return [PADDING.sub("", name) for name in fabric.node_names()]


def _devices(fabric: Fabric, names: list[str]) -> tuple[set[str], set[str]]:
    """Return switches, and hosts (the first word of an adapter's name)."""
    switches = {names[int(n)] for n in fabric.switch_node}
    return switches, {names[int(n)].split(" ")[0] for n in fabric.cas}


def _cables(fabric: Fabric, names: list[str]) -> Counter[tuple[str, str]]:
    """Number of cables by the names of the nodes that they join, in order."""
    ports = fabric.cable_port[(fabric.cable_port >= 0).all(axis=1)]
    ends = fabric.port_node[ports].tolist()
    return Counter((a, b) if a < b else (b, a) for a, b in ((names[m], names[n]) for m, n in ends))
