"""Interpret a graph as a fat tree: the ranks, the order of switches and compute nodes, and the
reason if the graph is not a pure tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from softib.plural import counted, plural
from softib.routing.engine import RouteOptions
from softib.routing.graph import SwitchGraph
from softib.routing.roots import find_tops, given_roots, heights, rank_switches, top_down
from softib.routing.tables import ordered_hops

__all__ = ["MAX_LEVELS", "MIN_LEVELS", "NotATree", "Tree", "choices", "recognise"]


FEW_HOSTS = 0.34
"""A switch with fewer hosts than this share of the median (of all switches with hosts) is not a
leaf, but a switch for management hosts."""
NO_PATH = 255
COMPUTE = 0.5
"""Minimum share of adapters that must be compute nodes."""


def choices(graph: SwitchGraph, options: RouteOptions) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (switches that may be the roots, end rows that are not compute nodes if they are), the
    most likely first.

    Roots are switches that are not leaves and have equal distances from all leaves. In the first
    choice, the leaves are the switches with about the usual number of hosts. In the next, they are
    the switches with hosts that get the leaves' rank from the roots of the first. A choice is
    returned only if it connects all switches with compute nodes.
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
        switches = leaves
        height = heights(graph, np.where(leaves, per_switch, 0))
        for level in range(1, int(height.max(initial=0)) + 1):
            roots = np.flatnonzero((height == level) & ~leaves).astype(np.int32)
            if not len(roots):
                continue
            rank = rank_switches(graph, roots)
            of_level = is_compute & (rank[graph.end_switch] == level)
            if np.count_nonzero(of_level) < COMPUTE * np.count_nonzero(is_compute):
                continue
            switches = np.zeros(graph.n_switches, bool)
            switches[graph.end_switch[of_level]] = True
            others = np.flatnonzero(is_compute & ~of_level)
            if (roots.tobytes(), others.tobytes()) not in tried and not _split(graph, roots, others):
                yield roots, others
            tried.add((roots.tobytes(), others.tobytes()))
        leaves = switches


def _split(graph: SwitchGraph, roots: np.ndarray, no_compute: np.ndarray) -> bool:
    """Return whether two switches with compute nodes have no path up to a root and down again."""
    compute = graph.end_is_compute.copy()
    compute[no_compute] = False
    leaves = np.unique(graph.end_switch[compute])
    d = ordered_hops(graph, top_down(graph, rank_switches(graph, roots)))
    return bool((d.hops[np.ix_(leaves, leaves)] == NO_PATH).any())


MIN_LEVELS, MAX_LEVELS = 2, 8
"""Numbers of switch levels that OpenSM's engine supports."""


class NotATree(Exception):
    """Raised if a graph cannot be routed as a fat tree. Its message is the reason, in one line."""


@dataclass(frozen=True)
class Tree:
    """A graph interpreted as a tree. ``rank`` int32[n]: 0 = top. ``order`` int32[n]: switches from
    the top down, ordered by (rank, index); ``place`` is its inverse. ``compute`` int32[…]: ends
    that are compute nodes, in routing order; ``others``: the other CA ends. ``levels``: number of
    levels."""

    rank: np.ndarray
    order: np.ndarray
    place: np.ndarray
    compute: np.ndarray
    """End rows of the compute nodes, in an order for which shift permutations have no contention.
    OpenSM writes this order to ``opensm-ftree-ca-order.dump``."""
    others: np.ndarray
    levels: int
    roots: np.ndarray


def recognise(graph: SwitchGraph, options: RouteOptions, notes: list[str]) -> Tree:
    """Interpret ``graph`` as a fat tree. Raises :class:`NotATree` for the same reasons as
    OpenSM."""
    is_ca = ~graph.end_is_switch
    if graph.n_switches < 2 or np.count_nonzero(is_ca) < 2:
        raise NotATree(
            f"{counted(graph.n_switches, 'switch')} and {counted(int(np.count_nonzero(is_ca)), 'CA port')} make no tree"
        )
    is_compute = graph.end_is_compute.copy()
    if options.cn_guids:
        is_compute = is_ca & np.isin(graph.end_guid, np.array(options.cn_guids, np.uint64))
        if not is_compute.any():
            raise NotATree("none of the compute-node GUIDs is in the fabric")
    else:  # a GUID in both files is a compute node, as in OpenSM
        is_compute &= ~np.isin(graph.end_guid, np.array(options.io_guids, np.uint64))
    roots = given_roots(graph, options.root_guids, notes)
    pure = not len(roots)
    if pure:
        roots = find_tops(graph, np.bincount(graph.end_switch[is_compute], minlength=graph.n_switches))
        if not len(roots):
            raise NotATree("every switch has compute nodes, so none is a top switch")
    rank = rank_switches(graph, roots)
    if (rank < 0).any():
        lost = int(np.count_nonzero(rank < 0))
        raise NotATree(f"{counted(lost, 'switch')} {plural(lost, 'has', 'have')} no path to a top switch")
    levels = _levels(graph, rank, is_compute)
    if pure:
        _check_pure(graph, rank, levels)
    order = _index(graph, rank)
    place = np.empty_like(order)
    place[order] = np.arange(len(order), dtype=np.int32)
    compute, others = np.flatnonzero(is_compute), np.flatnonzero(is_ca & ~is_compute)
    compute = compute[np.lexsort((graph.end_port[compute], place[graph.end_switch[compute]]))]
    others = others[np.argsort(graph.end_guid[others], kind="stable")]
    return Tree(rank, order, place, compute.astype(np.int32), others.astype(np.int32), levels, roots)


def _levels(graph: SwitchGraph, rank: np.ndarray, is_compute: np.ndarray) -> int:
    if not is_compute.any():
        raise NotATree("the fabric has no compute node")
    leaf_ranks = np.unique(rank[graph.end_switch[is_compute]])
    if len(leaf_ranks) > 1:
        first = graph.end_switch[is_compute][rank[graph.end_switch[is_compute]] == leaf_ranks[0]][0]
        raise NotATree(
            f"compute nodes are on switches of ranks {', '.join(map(str, leaf_ranks))} "
            f"(the first of rank {leaf_ranks[0]}: {int(graph.switch_guid[first]):#018x})"
        )
    levels = int(leaf_ranks[0]) + 1
    if len(np.unique(graph.end_switch[is_compute])) < 2:
        raise NotATree("all compute nodes are on one switch")
    if not MIN_LEVELS <= levels <= MAX_LEVELS:
        raise NotATree(f"{counted(levels, 'level')} of switches; supported are {MIN_LEVELS} to {MAX_LEVELS}")
    return levels


def _check_pure(graph: SwitchGraph, rank: np.ndarray, levels: int) -> None:
    """Check OpenSM's rules: no switch is below the leaves (its ERR AB26); switches of one rank have
    the same number of port groups up and down, and these have the same number of ports (AB09, AB0A,
    AB0B, AB0C)."""
    n = graph.n_switches
    below = np.flatnonzero(rank >= levels)
    if len(below):
        raise NotATree(
            f"{counted(len(below), 'switch')} {plural(len(below), 'is', 'are')} farther from the top than the "
            f"switches with compute nodes (rank {levels - 1}): "
            f"{_guid(graph, below[0])} has rank {rank[below[0]]}"
        )
    owner = graph.link_switch
    pair, size = np.unique(owner * n + graph.peer, return_counts=True)
    low, high = pair // n, pair % n
    for name, away in (("up", -1), ("down", 1)):
        towards = rank[high] - rank[low] == away
        groups = np.bincount(low[towards], minlength=n)
        for r in range(levels):
            if name == "down" and r == levels - 1:
                continue
            row = np.flatnonzero(rank == r)
            odd = row[groups[row] != groups[row[0]]]
            if len(odd):
                raise NotATree(
                    f"switches of rank {r} differ in their links {name}: {_guid(graph, row[0])} has groups to "
                    f"{groups[row[0]]} switches, {_guid(graph, odd[0])} to {groups[odd[0]]}"
                )
            at = towards & (rank[low] == r)
            wide = size[at]
            if len(wide) and (wide != wide[0]).any():
                bad = int(np.flatnonzero(wide != wide[0])[0])
                raise NotATree(
                    f"switches of rank {r} differ in parallel cables {name}: {_guid(graph, low[at][0])} has "
                    f"{wide[0]} to "
                    f"a switch, {_guid(graph, low[at][bad])} has {wide[bad]}"
                )


def _guid(graph: SwitchGraph, switch: int) -> str:
    return f"{int(graph.switch_guid[switch]):#018x}"


def _index(graph: SwitchGraph, rank: np.ndarray) -> np.ndarray:
    """Return the switches from the top down. Switches of a level are ordered by (first switch above
    in this order, NodeGUID). So the planes of a tree have the same order under every parent, and
    leaves of one subtree are adjacent."""
    n = graph.n_switches
    owner = graph.link_switch
    place = np.zeros(n, np.int64)
    done: list[np.ndarray] = []
    count = 0
    for r in range(int(rank.max()) + 1):
        row = np.flatnonzero(rank == r)
        above = np.full(n, n, np.int64)
        links = (rank[owner] == r) & (rank[graph.peer] == r - 1)
        np.minimum.at(above, owner[links], place[graph.peer[links]])
        row = row[np.lexsort((graph.switch_guid[row], above[row]))]
        place[row] = count + np.arange(len(row))
        count += len(row)
        done.append(row)
    return np.concatenate(done).astype(np.int32)
