"""``ftree``: fat-tree routing without contention for shift permutations (E. Zahavi et al., "Optimized InfiniBand
fat-tree routing for shift all-to-all communication patterns", Concurrency and Computation 22, 2010; OpenSM's engine).

1. Switches get a rank (0 = top) and an index; the index orders the switches of a level alike under every parent.
2. Compute nodes are taken in the order of their leaf's index and port. Each gets a *main path*: from its leaf up the
   link with the fewest main paths so far. On a full tree destination k so lands on top switch "k mod tops".
3. Every switch above a leaf goes down to it; every switch below a main path's switch goes up to that switch. So all
   traffic to one destination meets at its main path, and a link down carries few destinations.
4. What remains (switches that no CA's traffic crosses, switches' own LIDs) gets the least-loaded shortest legal way.

No way goes up after down in the total order (rank, index), so there are no credit loops. CAs that this leaves apart
(on two top switches) are connected by :mod:`softib.routing.detours` if that makes none.

OpenSM wants a pure tree unless roots are given. Where the fabric is none (cables, switches or hosts are missing or unequal, a
management switch or storage hangs where no compute node should), the choice of roots and of adapters that are no compute nodes
(:mod:`softib.routing.quasi_tree`) is taken whose worst link carries the fewest paths, if all pairs are reached without a credit
loop and updn would load a link more; else, or with LMC > 0, the fabric is routed by ``minhop`` as OpenSM does. ``notes``
say so in one line. Levels are counted from the compute nodes, so storage or SHARP
aggregation nodes on a spine do not spoil a tree once ``cn_guids`` or ``io_guids`` tell them apart (SHARP nodes are
told apart by the graph); OpenSM counts from all CAs. ``io_guids`` are routed after the compute nodes like any other
non-compute node; OpenSM's ``max_reverse_hops`` is not offered, since it can bring credit loops.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.routing import minhop, updn
from softib.routing.credit_loops import has_credit_loop
from softib.routing.detours import connect
from softib.routing.engine import RouteOptions, Routing
from softib.routing.ftree_kernels import climb, fill_down, fill_up, scatter
from softib.routing.graph import SwitchGraph
from softib.routing.lft_kernels import least_loaded
from softib.routing.quality import balance
from softib.routing.quasi_tree import choices
from softib.routing.reach import lost_pairs
from softib.routing.roots import find_tops, given_roots, rank_switches
from softib.routing.tables import destination_groups, destinations_table, legal_hops_table, ordered_hops

__all__ = ["MAX_LEVELS", "MIN_LEVELS", "NotATree", "Tree", "compute_node_order", "imperfect", "recognise", "route"]

MIN_LEVELS, MAX_LEVELS = 2, 8
"""Levels of switches that OpenSM's engine takes."""


class NotATree(Exception):
    """Why a graph cannot be routed as a fat tree, in one line."""


@dataclass(frozen=True)
class Tree:
    """A graph seen as a tree. ``rank`` int32[n], 0 = top; ``order`` int32[n] switches from the top down, by (rank,
    index); ``place`` its inverse; ``compute`` int32[…] ends that are compute nodes, in routing order; ``others`` the
    other CA ends; ``levels``."""

    rank: np.ndarray
    order: np.ndarray
    place: np.ndarray
    compute: np.ndarray
    others: np.ndarray
    levels: int
    roots: np.ndarray


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Tables of a fat tree, pure or not; minhop's, with the reason in ``notes``, where ``graph`` is none."""
    notes: list[str] = []
    try:
        return _route(graph, options, notes)
    except NotATree as why:
        reason = why
    if options.past_roots and not options.root_guids:
        try:
            kept = _route(graph, replace(options, root_guids=options.past_roots), [*notes], obey=False)
            kept.notes.append(f"{reason}; the top switches are those that the whole tree had")
            return kept
        except NotATree as why:
            notes.append(f"with the top switches of before: {why}")
    found = None if options.root_guids else imperfect(graph, options)
    if found is not None:
        routing = found[1]
        worst, other = balance(graph, routing.lft).most, balance(graph, updn.route(graph, options).lft).most
        if worst <= other:
            routing.notes.append(f"no pure tree: {reason}; routed as a tree all the same (OpenSM's ftree would not)")
            return routing
        notes.append(f"as a tree the busiest link would carry {worst:,} paths, {other:,} under updn")
    routing = minhop.route(graph, options)
    routing.notes += [*notes, f"ftree: {reason}; routed by minhop, as OpenSM does"]
    return routing


def imperfect(graph: SwitchGraph, options: RouteOptions) -> tuple[RouteOptions, Routing] | None:
    """The roots and I/O nodes with which ``graph`` can be routed as a tree, and its tables then; None where no choice reaches
    every pair without a credit loop. Of several the one whose worst link carries the fewest paths."""
    best: tuple[int, RouteOptions, Routing] | None = None
    for roots, no_compute in choices(graph, options):
        guids = {int(g) for g in graph.end_guid[no_compute]}
        changed = replace(
            options, root_guids=tuple(sorted(int(g) for g in graph.switch_guid[roots])), past_roots=(),
            io_guids=tuple(sorted({*options.io_guids, *guids})),
            cn_guids=tuple(g for g in options.cn_guids if g not in guids),
        )  # fmt: skip
        try:
            made = _route(graph, changed, [])
        except NotATree:
            continue
        if lost_pairs(graph, made.lft) or has_credit_loop(graph, made.lft):
            continue
        worst = balance(graph, made.lft).most
        if best is None or worst < best[0]:
            best = worst, changed, made
    return None if best is None else best[1:]


def _route(graph: SwitchGraph, options: RouteOptions, notes: list[str], obey: bool = True) -> Routing:
    """Raises :class:`NotATree`; ``obey``: roots that are given count, whatever they leave out."""
    tree = recognise(graph, options, notes)
    guids = tuple(int(g) for g in graph.switch_guid[tree.roots])
    lft = _tables(graph, tree, notes, whole=not (obey and options.root_guids))
    notes.append(f"fat tree of {tree.levels} levels, {len(tree.roots)} top switches, {len(tree.compute)} compute nodes")
    return Routing("ftree", lft, ranks=tree.rank, roots=guids, notes=notes)


def compute_node_order(graph: SwitchGraph, options: RouteOptions | None = None) -> np.ndarray:
    """Compute nodes in the order in which a shift permutation meets no contention: end rows, int32.

    The order that OpenSM dumps as ``opensm-ftree-ca-order.dump``. Raises :class:`NotATree`.
    """
    return recognise(graph, options or RouteOptions(), []).compute


def recognise(graph: SwitchGraph, options: RouteOptions, notes: list[str]) -> Tree:
    """See ``graph`` as a fat tree; raises :class:`NotATree` with OpenSM's reasons."""
    is_ca = ~graph.end_is_switch
    if graph.end_lmc.any():
        raise NotATree("LMC > 0 is not supported by fat-tree routing")
    if graph.n_switches < 2 or np.count_nonzero(is_ca) < 2:
        raise NotATree(f"{graph.n_switches} switch(es) and {np.count_nonzero(is_ca)} CA port(s) make no tree")
    is_compute = graph.end_is_compute.copy()
    if options.cn_guids:
        is_compute = is_ca & np.isin(graph.end_guid, np.array(options.cn_guids, np.uint64))
        if not is_compute.any():
            raise NotATree("none of the compute-node GUIDs is in the fabric")
    else:  # a GUID in both files is a compute node's, as for OpenSM
        is_compute &= ~np.isin(graph.end_guid, np.array(options.io_guids, np.uint64))
    roots = given_roots(graph, options.root_guids, notes)
    pure = not len(roots)
    if pure:
        roots = find_tops(graph, np.bincount(graph.end_switch[is_compute], minlength=graph.n_switches))
        if not len(roots):
            raise NotATree("every switch has compute nodes, so none is a top switch")
    rank = rank_switches(graph, roots)
    if (rank < 0).any():
        raise NotATree(f"{np.count_nonzero(rank < 0)} switch(es) have no path to a top switch")
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
            f"compute nodes hang on switches of ranks {', '.join(map(str, leaf_ranks))} "
            f"(the first of rank {leaf_ranks[0]}: {int(graph.switch_guid[first]):#018x})"
        )
    levels = int(leaf_ranks[0]) + 1
    if len(np.unique(graph.end_switch[is_compute])) < 2:
        raise NotATree("all compute nodes hang on one switch")
    if not MIN_LEVELS <= levels <= MAX_LEVELS:
        raise NotATree(f"{levels} level(s) of switches, it should be {MIN_LEVELS} to {MAX_LEVELS}")
    return levels


def _check_pure(graph: SwitchGraph, rank: np.ndarray, levels: int) -> None:
    """OpenSM's rules: nothing is below the leaves (its ERR AB26), and switches of one rank have equally many port groups up
    and down, of equally many ports (AB09, AB0A, AB0B, AB0C)."""
    n = graph.n_switches
    below = np.flatnonzero(rank >= levels)
    if len(below):
        raise NotATree(
            f"{len(below)} switch(es) are farther from the top than the switches with compute nodes (rank {levels - 1}): "
            f"{_guid(graph, below[0])} has rank {rank[below[0]]}"
        )
    owner = np.repeat(np.arange(n), np.diff(graph.first)).astype(np.int64)
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
                    f"switches of rank {r} differ in parallel cables {name}: {_guid(graph, low[at][0])} has {wide[0]} to "
                    f"a switch, {_guid(graph, low[at][bad])} has {wide[bad]}"
                )


def _guid(graph: SwitchGraph, switch: int) -> str:
    return f"{int(graph.switch_guid[switch]):#018x}"


def _index(graph: SwitchGraph, rank: np.ndarray) -> np.ndarray:
    """Switches from the top down: a level by (earliest switch above, NodeGUID), so that the planes of a tree come in
    the same order under every parent, and the leaves of one subtree stay together."""
    n = graph.n_switches
    owner = np.repeat(np.arange(n), np.diff(graph.first))
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


def _tables(graph: SwitchGraph, tree: Tree, notes: list[str], whole: bool) -> np.ndarray:
    """The forwarding tables, by the four steps of the module's docstring. Where some pairs have no path up and then down,
    and no other path without a credit loop: what there is, or :class:`NotATree` if they must be ``whole``."""
    ends = np.concatenate([tree.compute, tree.others])
    rows = np.argsort(graph.end_switch[ends], kind="stable")  # table rows, grouped by leaf
    ends_by_row = ends[rows]
    row_of = np.empty(len(ends), np.int32)
    row_of[rows] = np.arange(len(ends), dtype=np.int32)
    leaf, keep = _with_missing(graph, tree, row_of)
    owner = np.repeat(np.arange(graph.n_switches), np.diff(graph.first))
    up = tree.place[graph.peer] < tree.place[owner]
    load = np.zeros(len(graph.peer), np.int64)
    chain = np.full((len(ends), int(tree.rank.max(initial=0)) + 1), -1, np.int32)
    climb(graph.first, graph.peer, graph.reverse, tree.rank, tree.place, leaf, keep, load, chain)

    table = np.full((len(ends), graph.n_switches), LFT_NO_ROUTE, np.uint8)
    leaf_switch, start = np.unique(graph.end_switch[ends_by_row], return_index=True)
    leaf_first = np.append(start, len(ends)).astype(np.int32)
    down_load, up_load = np.zeros_like(load), np.zeros_like(load)
    args = (graph.first, graph.peer, graph.out_port)
    fill_down(*args, graph.reverse, up, leaf_switch.astype(np.int32), leaf_first, chain, down_load, table)
    through, dest_first, dests = _main_path_switches(graph, tree, chain)
    table[np.arange(len(ends)), graph.end_switch[ends_by_row]] = graph.end_port[ends_by_row]
    fill_up(*args, up, through, dest_first, dests, up_load, table)

    lft = np.full((graph.n_switches, graph.lft_size), LFT_NO_ROUTE, np.uint8)
    lid = graph.end_lid.astype(np.int64)
    scatter(table, lid[ends_by_row], lft)
    del table
    d = ordered_hops(graph, tree.order)
    least_loaded(legal_hops_table(graph, d), destinations_table(graph, *destination_groups(graph)), True, lft)
    full = connect(graph, d, lft, notes)
    if full is None and whole:
        raise NotATree(f"no tree for all compute nodes: {notes.pop()}")
    return lft if full is None else full


def _with_missing(graph: SwitchGraph, tree: Tree, row_of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leaves in routing order with a row of the table each, -1 for the hosts that a leaf has fewer than the fullest."""
    leaf = graph.end_switch[tree.compute]
    leaves, start, size = np.unique(tree.place[leaf], return_index=True, return_counts=True)
    most = int(size.max(initial=0))
    keep = np.full((len(leaves), most), -1, np.int32)
    at = np.arange(len(leaf)) - np.repeat(start, size)
    keep[np.repeat(np.arange(len(leaves)), size), at] = row_of[: len(leaf)]
    switches = np.concatenate([np.repeat(tree.order[leaves], most), graph.end_switch[tree.others]])
    return switches.astype(np.int32), np.concatenate([keep.ravel(), row_of[len(leaf) :]]).astype(np.int32)


def _main_path_switches(graph: SwitchGraph, tree: Tree, chain: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``(through, dest_first, dests)``: switches on main paths from the bottom up, and the destinations of each."""
    dest, level = np.nonzero(chain >= 0)
    switch = graph.peer[chain[dest, level]]
    by = np.lexsort((dest, -tree.place[switch]))
    through, start = np.unique(-tree.place[switch[by]], return_index=True)
    return (
        tree.order[-through].astype(np.int32),
        np.append(start, len(by)).astype(np.int32),
        dest[by].astype(np.int32),
    )
