"""The cabling work of growth: which cables stay, move and are added when a larger fabric replaces a fabric."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from softib.fabric.topologies.wiring import Wiring

__all__ = ["Growth", "growth"]

PADDING = re.compile(r"(?<!\d)0+(?=\d)")
"""Leading zeros of a number."""


@dataclass(frozen=True)
class Growth:
    """``kept``: number of cables that stay between their two nodes. ``moved``: number of present cables that the larger
    fabric does not have between their two nodes. ``new``: number of cables to buy if every moved cable is reused.
    ``new_switches``, ``new_hosts``: added devices; ``idle_switches``: devices that are no longer used."""

    kept: int
    moved: int
    new: int
    new_switches: int
    idle_switches: int
    new_hosts: int


def growth(before: Wiring, after: Wiring) -> Growth:
    """Compare two fabrics by the names of their nodes, ignoring the ports of switches.

    Names that differ only in padding are the same (``node-07`` and ``node-007``).
    """
    names = [_plain_names(before), _plain_names(after)]
    number = {name: i for i, name in enumerate(dict.fromkeys(names[0] + names[1]))}
    old, new = (_cables(w.cable_node, plain, number) for w, plain in zip((before, after), names, strict=True))
    pairs = np.unique(np.concatenate([old[0], new[0]]))
    old_cables, new_cables = (_counts(pairs, *cables) for cables in (old, new))
    kept = int(np.minimum(old_cables, new_cables).sum())
    (old_switches, old_hosts), (new_switches, new_hosts) = (
        _devices(w, plain) for w, plain in zip((before, after), names, strict=True)
    )
    return Growth(
        kept,
        int(old_cables.sum()) - kept,
        max(0, int(new_cables.sum() - old_cables.sum())),
        len(new_switches - old_switches),
        len(old_switches - new_switches),
        len(new_hosts - old_hosts),
    )


def _plain_names(wiring: Wiring) -> list[str]:
    """Return names of nodes without padding."""
    return PADDING.sub("", "\n".join(wiring.names)).split("\n")


def _devices(wiring: Wiring, names: list[str]) -> tuple[set[str], set[str]]:
    """Return switches, and hosts (the first word of an adapter's name)."""
    kinds = wiring.is_switch.tolist()
    switches = {name for name, switch in zip(names, kinds, strict=True) if switch}
    return switches, {name.split(" ")[0] for name, switch in zip(names, kinds, strict=True) if not switch}


def _cables(cable_node: np.ndarray, names: list[str], number: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return (pairs of nodes that cables join, number of cables of each pair). Nodes are identified by the ``number``
    of their name (int64)."""
    of_node = np.array([number[name] for name in names], np.int64)
    ends = np.sort(of_node[cable_node], axis=1)
    return np.unique(ends[:, 0] * len(number) + ends[:, 1], return_counts=True)


def _counts(pairs: np.ndarray, some: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the number of cables of each of ``pairs``, 0 for those that are not in ``some``."""
    every = np.zeros(len(pairs), np.int64)
    every[np.searchsorted(pairs, some)] = counts
    return every
