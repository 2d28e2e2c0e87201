"""The cabling work of growth: which cables stay, move and are added when a larger fabric replaces a fabric."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from softib.fabric.topologies.blueprint import Blueprint

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


def growth(before: Blueprint, after: Blueprint) -> Growth:
    """Compare two fabrics by structure, ignoring the ports of switches.

    Host ports correspond by name, where padding does not count (``node-07`` is ``node-007``). Tier by tier above
    them, a present switch becomes the switch of the larger fabric that keeps most of its cables to the tier below.
    """
    old, new = _plain_names(before), _plain_names(after)
    match = _matches(before, after, old, new)
    cables = [match[before.wiring.cable_node], after.wiring.cable_node.astype(np.int64)]
    nodes = len(new) + len(old)
    (old_pairs, old_counts), (new_pairs, new_counts) = (
        np.unique(ends.min(axis=1) * nodes + ends.max(axis=1), return_counts=True) for ends in cables
    )
    _, at_old, at_new = np.intersect1d(old_pairs, new_pairs, assume_unique=True, return_indices=True)
    kept = int(np.minimum(old_counts[at_old], new_counts[at_new]).sum())
    stays = (match < len(new)) & (before.node_level > 0)
    old_hosts, new_hosts = (
        {names[i].split(" ")[0] for i in np.flatnonzero(blueprint.node_level == 0).tolist()}
        for blueprint, names in ((before, old), (after, new))
    )
    return Growth(
        kept,
        len(cables[0]) - kept,
        max(0, len(cables[1]) - len(cables[0])),
        int(np.count_nonzero(after.node_level > 0) - stays.sum()),
        int(np.count_nonzero(before.node_level > 0) - stays.sum()),
        len(new_hosts - old_hosts),
    )


def _matches(before: Blueprint, after: Blueprint, old: list[str], new: list[str]) -> np.ndarray:
    """Return the node of ``after`` that each node of ``before`` becomes (int64[nodes]); a node that is no longer used
    gets a number of its own, beyond those of ``after``."""
    match = np.arange(len(old)) + len(new)
    number = {name: i for i, name in enumerate(new)}
    for node in np.flatnonzero(before.node_level == 0).tolist():
        match[node] = number.get(old[node], match[node])
    for level in range(1, int(before.node_level.max()) + 1):
        ours, theirs = _down(before, level), _down(after, level)
        ours[:, 0] = match[ours[:, 0]]
        taken: set[int] = set()
        for node, other in _by_overlap(ours, theirs).tolist():
            if match[node] >= len(new) and other not in taken:
                match[node] = other
                taken.add(other)
        # switches that keep no cable are still used, with other cables
        idle = np.flatnonzero((before.node_level == level) & (match >= len(new)))
        free = [n for n in np.flatnonzero(after.node_level == level).tolist() if n not in taken]
        match[idle[: len(free)]] = free[: len(idle)]
    return match


def _down(blueprint: Blueprint, level: int) -> np.ndarray:
    """Return (lower node, switch of ``level``, number of cables) of each joined pair (int64[pairs, 3])."""
    ends = blueprint.wiring.cable_node.astype(np.int64)
    of = blueprint.node_level[ends].astype(np.int64)
    ends = np.where((of[:, 0] > of[:, 1])[:, None], ends[:, ::-1], ends)
    rows = (of.max(axis=1) == level) & (of.min(axis=1) < level)
    pairs, counts = np.unique(ends[rows], axis=0, return_counts=True)
    return np.column_stack([pairs, counts]).astype(np.int64)


def _by_overlap(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return (present switch, later switch) for each pair with common lower nodes, those with most common cables
    first, then by their order. Both arguments have the form of :func:`_down`, sorted by lower node."""
    ours = ours[np.argsort(ours[:, 0], kind="stable")]
    start, end = (np.searchsorted(theirs[:, 0], ours[:, 0], side) for side in ("left", "right"))
    times = end - start
    row = np.repeat(np.arange(len(ours)), times)
    other = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times) + np.repeat(start, times)
    pairs, of = np.unique(np.column_stack([ours[row, 1], theirs[other, 1]]), axis=0, return_inverse=True)
    common = np.bincount(of.ravel(), np.minimum(ours[row, 2], theirs[other, 2]), minlength=len(pairs))
    return pairs[np.argsort(-common, kind="stable")]


def _plain_names(blueprint: Blueprint) -> list[str]:
    """Return names of nodes without padding."""
    return PADDING.sub("", "\n".join(blueprint.wiring.names)).split("\n")
