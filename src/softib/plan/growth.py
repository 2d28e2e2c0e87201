"""What growth costs in cabling: the cables of a fabric that stay, move and come when a larger one
takes its place."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from softib.fabric.model import Fabric

__all__ = ["Growth", "growth"]

PADDED = re.compile(r"\d+")


@dataclass(frozen=True)
class Growth:
    """``kept``: cables between the same two ports before and after. ``moved``: cables of today
    whose port gets another peer, or none. ``new``: cables to buy if every moved one is used again.
    ``new_switches``, ``new_hosts``: devices that come; ``idle_switches``: devices that are no
    longer used."""

    kept: int
    moved: int
    new: int
    new_switches: int
    idle_switches: int
    new_hosts: int


def growth(before: Fabric, after: Fabric) -> Growth:
    """Compare two fabrics by the names of their nodes and their port numbers.

    Names are the same where they differ by padding alone (``node-07`` and ``node-007``).
    """
    old, new = _cables(before), _cables(after)
    kept = len(old & new)
    old_switches, old_hosts = _names(before)
    new_switches, new_hosts = _names(after)
    return Growth(
        kept,
        len(old) - kept,
        max(0, len(new) - len(old)),
        len(new_switches - old_switches),
        len(old_switches - new_switches),
        len(new_hosts - old_hosts),
    )


def _plain(name: str) -> str:
    return PADDED.sub(lambda digits: str(int(digits[0])), name)


def _names(fabric: Fabric) -> tuple[set[str], set[str]]:
    """Switches, and hosts (the first word of an adapter's name)."""
    names = [_plain(name) for name in fabric.node_names()]
    switches = {names[int(n)] for n in fabric.switch_node}
    return switches, {names[int(n)].split(" ")[0] for n in fabric.cas}


def _cables(fabric: Fabric) -> set[frozenset[tuple[str, int]]]:
    ports = fabric.cable_port[(fabric.cable_port >= 0).all(axis=1)]
    names = np.array([_plain(name) for name in fabric.node_names()], object)
    ends = zip(names[fabric.port_node[ports]].tolist(), fabric.port_num[ports].tolist(), strict=True)
    return {frozenset(zip(name, number, strict=True)) for name, number in ends}
