"""Trees that are not pure: which switches could be the top ones, and which hosts then are no
compute nodes.

Cables, switches or hosts are missing, or something hangs where no compute node should: a management
switch, storage on a spine.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.routing.engine import RouteOptions
from softib.routing.graph import SwitchGraph
from softib.routing.roots import heights, rank_switches, top_down
from softib.routing.tables import ordered_hops

__all__ = ["choices"]

FEW_HOSTS = 0.34
"""A switch with fewer hosts than this share of what a host's switch has in the median is no leaf (a
management switch)."""
NO_PATH = 255
COMPUTE = 0.5
"""At least this share of all adapters are compute nodes."""


def choices(graph: SwitchGraph, options: RouteOptions) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(switches that may be the roots, end rows that are no compute nodes then), likely ones first.

    Roots are switches that are no leaves and equally far from the leaves; leaves are first the
    switches with about as many hosts as most have, then those that the roots so found leave at
    their own rank. Only choices that join all switches with compute nodes.
    """
    is_compute = graph.end_is_compute & ~np.isin(graph.end_guid, np.array(options.io_guids, np.uint64))
    if options.cn_guids:
        is_compute &= np.isin(graph.end_guid, np.array(options.cn_guids, np.uint64))
    if not is_compute.any():
        return
    at = graph.end_switch[is_compute]
    per_switch = np.bincount(at, minlength=graph.n_switches)
    leaves = per_switch >= FEW_HOSTS * np.median(per_switch[at])
    tried: set[tuple[bytes, bytes]] = set()
    for _ in range(2):
        found = leaves
        height = heights(graph, np.where(leaves, per_switch, 0))
        for level in range(1, int(height.max(initial=0)) + 1):
            roots = np.flatnonzero((height == level) & ~leaves).astype(np.int32)
            if not len(roots):
                continue
            rank = rank_switches(graph, roots)
            mine = is_compute & (rank[graph.end_switch] == level)
            if np.count_nonzero(mine) < COMPUTE * np.count_nonzero(is_compute):
                continue
            found = np.zeros(graph.n_switches, bool)
            found[graph.end_switch[mine]] = True
            others = np.flatnonzero(is_compute & ~mine)
            if (roots.tobytes(), others.tobytes()) not in tried and not _split(graph, roots, others):
                yield roots, others
            tried.add((roots.tobytes(), others.tobytes()))
        leaves = found


def _split(graph: SwitchGraph, roots: np.ndarray, no_compute: np.ndarray) -> bool:
    """Are there two switches with compute nodes that no path up to a root's side and down joins?"""
    compute = graph.end_is_compute.copy()
    compute[no_compute] = False
    leaves = np.unique(graph.end_switch[compute])
    d = ordered_hops(graph, top_down(graph, rank_switches(graph, roots)))
    return bool((d.hops[np.ix_(leaves, leaves)] == NO_PATH).any())
