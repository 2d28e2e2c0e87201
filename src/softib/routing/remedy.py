"""A tree that ``ftree`` does not take as it stands, and the GUID files with which it does.

Without files ftree wants a pure tree, as OpenSM does: one management switch, one missing cable, and the whole fabric is
routed by another engine. With the roots named (``root_guid_file``) it may be imperfect, and adapters on switches that are no leaves
are named as I/O nodes (``io_guid_file``), for all compute nodes must be equally far from the roots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from softib.routing import ftree
from softib.routing.engine import RouteOptions, Routing
from softib.routing.graph import SwitchGraph
from softib.routing.quality import balance
from softib.routing.roots import heights, rank_switches, top_down
from softib.routing.tables import ordered_hops
from softib.routing.verify import has_credit_loop, lost_pairs

__all__ = ["Remedy", "remedy"]

FEW_HOSTS = 0.34
"""A switch with fewer hosts than this share of what a host's switch has in the median is no leaf (a management switch)."""
NO_PATH = 255
COMPUTE = 0.5
"""At least this share of all adapters are compute nodes."""


@dataclass(frozen=True)
class Remedy:
    """``reason`` is why ftree does not fit; ``options`` name the roots and I/O nodes with which it does; ``routing`` its tables
    then."""

    reason: str
    options: RouteOptions
    routing: Routing


def remedy(graph: SwitchGraph, options: RouteOptions | None = None) -> Remedy | None:
    """The files that make ``graph`` a fat tree for ftree, None where it is one, where roots are given, or where no choice of
    roots leaves a tree that reaches every pair without a credit loop.

    Of several choices the one whose worst link carries the fewest paths.
    """
    options = options or RouteOptions()
    if options.root_guids:
        return None
    try:
        ftree.recognise(graph, options, [])
        return None
    except ftree.NotATree as why:
        reason = str(why)
    best: tuple[int, Remedy] | None = None
    tried: set[tuple[bytes, bytes]] = set()
    for roots, no_compute in _choices(graph, options):
        if (roots.tobytes(), no_compute.tobytes()) in tried:
            continue
        tried.add((roots.tobytes(), no_compute.tobytes()))
        guids = tuple(sorted(int(g) for g in graph.end_guid[no_compute]))
        changed = replace(
            options, root_guids=tuple(sorted(int(g) for g in graph.switch_guid[roots])), past_roots=(),
            io_guids=tuple(sorted({*options.io_guids, *guids})), cn_guids=_without(options.cn_guids, guids),
        )  # fmt: skip
        if _split(graph, roots, no_compute):
            continue
        made = ftree.route(graph, changed)
        if made.engine != "ftree" or lost_pairs(graph, made.lft) or has_credit_loop(graph, made.lft):
            continue
        worst = balance(graph, made.lft).most
        if best is None or worst < best[0]:
            best = worst, Remedy(reason, changed, made)
    return None if best is None else best[1]


def _split(graph: SwitchGraph, roots: np.ndarray, no_compute: np.ndarray) -> bool:
    """Are there two switches with compute nodes that no path up to a root's side and down joins?"""
    compute = graph.end_is_compute.copy()
    compute[no_compute] = False
    leaves = np.unique(graph.end_switch[compute])
    d = ordered_hops(graph, top_down(graph, rank_switches(graph, roots)))
    return bool((d.hops[np.ix_(leaves, leaves)] == NO_PATH).any())


def _without(guids: tuple[int, ...], out: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(g for g in guids if g not in set(out))


def _choices(graph: SwitchGraph, options: RouteOptions) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(switches that may be the roots, end rows that are no compute nodes then), likely ones first.

    Roots are switches that are no leaves and equally far from the leaves; leaves are first the switches with about as many hosts
    as most have, then those that the roots so found leave at their own rank.
    """
    is_compute = graph.end_is_compute & ~np.isin(graph.end_guid, np.array(options.io_guids, np.uint64))
    if options.cn_guids:
        is_compute &= np.isin(graph.end_guid, np.array(options.cn_guids, np.uint64))
    if not is_compute.any():
        return
    at = graph.end_switch[is_compute]
    per_switch = np.bincount(at, minlength=graph.n_switches)
    leaves = per_switch >= FEW_HOSTS * np.median(per_switch[at])
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
            yield roots, np.flatnonzero(is_compute & ~mine)
        leaves = found
