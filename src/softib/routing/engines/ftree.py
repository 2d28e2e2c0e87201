"""``ftree``: fat-tree routing without contention for shift permutations (E. Zahavi et al.,
"Optimized InfiniBand fat-tree routing for shift all-to-all communication patterns", Concurrency and
Computation 22, 2010; OpenSM's engine).

1. Switches get a rank (0 = top) and an index. The index orders the switches of a level in the same
   way under every parent.
2. Compute nodes are routed in the order of (leaf index, port). Each gets a *main path*, which goes
   up from its leaf over the link with the fewest main paths so far. In a full tree, the main path
   of destination k therefore reaches top switch "k mod tops".
3. Every switch above a leaf sends packets for its destinations down to it. Every switch below a
   switch of a main path sends packets for its destination up to that switch. So all traffic to one
   destination meets on its main path, and each link down carries few destinations.
4. All other entries (on switches that no CA's traffic crosses, and for switches' own LIDs) use the
  least-loaded shortest legal path.

No path goes up after down in the total order (rank, index), so there are no credit loops. Some CAs
may be unconnected (for example two on different top switches); :mod:`softib.routing.detours`
connects them if that makes no loop.

OpenSM needs a pure tree unless roots are given. The fabric may not be a pure tree: cables, switches
or hosts are missing, numbers differ, or a management switch or storage is attached in an unexpected
place. Then softib selects roots, and adapters that are not compute nodes
(:mod:`softib.routing.engines.fat_tree`), such that the worst link carries the fewest paths. The
result is used if it reaches all pairs without a credit loop and its worst link carries fewer paths
than updn's. Otherwise, and with LMC > 0, ``minhop`` routes the fabric, as in OpenSM; ``notes``
report this in one line. Levels are counted from the compute nodes. So storage or SHARP aggregation
nodes on a spine are allowed if ``cn_guids`` or ``io_guids`` show that they are not compute nodes
(the graph marks SHARP nodes). OpenSM counts levels from all CAs. All nodes that are not compute
nodes, including ``io_guids``, are routed after the compute nodes. OpenSM's ``max_reverse_hops`` is
not supported, since it can cause credit loops. :func:`remedy` returns files with which OpenSM
accepts such a fabric: its roots (``root_guid_file``), and the adapters on switches that are not
leaves, as I/O nodes (``io_guid_file``), because all compute nodes must have the same distance from
the roots.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.plural import counted
from softib.routing.detours import connect
from softib.routing.engine import BY_MINHOP, RouteOptions, Routing
from softib.routing.engines import minhop, updn
from softib.routing.engines.fat_tree import NotATree, Tree, choices, recognise
from softib.routing.engines.ftree_kernels import climb, fill_down, fill_up
from softib.routing.graph import SwitchGraph
from softib.routing.lft_kernels import least_loaded
from softib.routing.proof.credit_loops import has_credit_loop
from softib.routing.proof.reach import lost_pairs
from softib.routing.quality import balance
from softib.routing.tables import destination_groups, destinations_table, legal_hops_table, ordered_hops

__all__ = ["Remedy", "imperfect", "remedy", "route"]


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Return the tables of a fat tree, even of one that is not pure. If ``graph`` is no fat tree,
    return minhop's tables, with the reason in ``notes``."""
    if not graph.end_lmc.any():
        return _by_base_lids(graph, options)
    routing = _by_base_lids(replace(graph, end_lmc=np.zeros_like(graph.end_lmc)), options)
    if routing.engine != "ftree":
        return replace(minhop.route(graph, options), notes=routing.notes)
    _add_lids(graph, routing.lft)
    return routing


def _by_base_lids(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Do the same as :func:`route` for LMC 0."""
    notes: list[str] = []
    try:
        return _route(graph, options, notes)
    except NotATree as why:
        reason = why
    if options.past_roots and not options.root_guids:
        try:
            kept = _route(graph, replace(options, root_guids=options.past_roots), [*notes], obey=False)
            kept.notes.append(f"{reason}; used the top switches of the complete tree")
            return kept
        except NotATree as why:
            notes.append(f"with the previous top switches: {why}")
    tree = None if options.root_guids else imperfect(graph, options)
    if tree is not None:
        routing = tree[1]
        worst, other = balance(graph, routing.lft).most, balance(graph, updn.route(graph, options).lft).most
        if worst <= other:
            routing.notes.append(f"not a pure tree: {reason}; routed as a tree nevertheless, unlike OpenSM's ftree")
            return routing
        notes.append(f"as a tree the busiest link would carry {counted(worst, 'path')}, {other:,} under updn")
    routing = minhop.route(graph, options)
    routing.notes += [*notes, f"ftree: {reason}{BY_MINHOP}"]
    return routing


def _add_lids(graph: SwitchGraph, lft: np.ndarray) -> None:
    """Fill the entries of each port's additional LIDs (LMC) with those of base LIDs. The second LID
    gets the entries of the next port of its switch, the third those of the port after that, and so
    on. So the n-th LIDs of all ports have as little contention as the base LIDs, and the LIDs of
    one port use different uplinks."""
    place = np.lexsort((graph.end_port, graph.end_is_compute, graph.end_is_switch, graph.end_switch))
    kind = np.stack([graph.end_switch, graph.end_is_switch, graph.end_is_compute])[:, place]
    begins = np.flatnonzero(np.append(True, (kind[:, 1:] != kind[:, :-1]).any(axis=0)))
    size = np.diff(np.append(begins, len(place)))
    first, count = np.repeat(begins, size), np.repeat(size, size)
    base = graph.end_lid.astype(np.int64)
    for offset in range(1, 1 << int(graph.end_lmc.max())):
        like = place[first + (np.arange(len(place)) - first + offset) % count]
        further = graph.end_lmc[place] >= offset.bit_length()
        ends = place[further]
        lft[:, base[ends] + offset] = lft[:, base[like[further]]]
        lft[graph.end_switch[ends], base[ends] + offset] = graph.end_port[ends]


def imperfect(graph: SwitchGraph, options: RouteOptions) -> tuple[RouteOptions, Routing] | None:
    """Return roots and I/O nodes with which ``graph`` can be routed as a tree, and the tables. Of
    several choices, return the one whose worst link carries the fewest paths. Return None if no
    choice reaches every pair without a credit loop."""
    best: tuple[int, RouteOptions, Routing] | None = None
    for roots, no_compute in choices(graph, options):
        guids = {int(g) for g in graph.end_guid[no_compute]}
        changed = replace(
            options,
            root_guids=tuple(sorted(int(g) for g in graph.switch_guid[roots])),
            past_roots=(),
            io_guids=tuple(sorted({*options.io_guids, *guids})),
            cn_guids=tuple(g for g in options.cn_guids if g not in guids),
        )
        try:
            tables = _route(graph, changed, [])
        except NotATree:
            continue
        if lost_pairs(graph, tables.lft) or has_credit_loop(graph, tables.lft):
            continue
        worst = balance(graph, tables.lft).most
        if best is None or worst < best[0]:
            best = worst, changed, tables
    return None if best is None else best[1:]


def _route(graph: SwitchGraph, options: RouteOptions, notes: list[str], obey: bool = True) -> Routing:
    """Return the tables. Raises :class:`NotATree`. ``obey``: given roots are used even if some
    pairs then have no path."""
    tree = recognise(graph, options, notes)
    guids = tuple(int(g) for g in graph.switch_guid[tree.roots])
    lft = _tables(graph, tree, notes, whole=not (obey and options.root_guids))
    parts = (tree.levels, "level"), (len(tree.roots), "top switch"), (len(tree.compute), "compute node")
    notes.append(f"fat tree of {', '.join(counted(n, noun) for n, noun in parts)}")
    return Routing("ftree", lft, ranks=tree.rank, roots=guids, notes=notes)


def _tables(graph: SwitchGraph, tree: Tree, notes: list[str], whole: bool) -> np.ndarray:
    """Return the forwarding tables, computed in the four steps of the module's docstring. If some
    pairs have neither a path up and then down nor a detour without a credit loop, return incomplete
    tables, or, with ``whole``, raise :class:`NotATree`."""
    ends = np.concatenate([tree.compute, tree.others])
    rows = np.argsort(graph.end_switch[ends], kind="stable")  # destinations, grouped by leaf
    ends_by_row = ends[rows]
    row_of = np.empty(len(ends), np.int32)
    row_of[rows] = np.arange(len(ends), dtype=np.int32)
    leaf, keep = _with_missing(graph, tree, row_of)
    owner = graph.link_switch
    up = tree.place[graph.peer] < tree.place[owner]
    load = np.zeros(len(graph.peer), np.int64)
    chain = np.full((len(ends), int(tree.rank.max(initial=0)) + 1), -1, np.int32)
    climb(graph.first, graph.peer, graph.reverse, tree.rank, tree.place, leaf, keep, load, chain)

    lft = np.full((graph.n_switches, graph.lft_size), LFT_NO_ROUTE, np.uint8)
    lids = graph.end_lid[ends_by_row]
    dest, level = np.nonzero(chain >= 0)
    link = chain[dest, level]
    at, port = graph.peer[link], graph.out_port[graph.reverse[link]]  # main paths, then the leaves
    through, dest_first, dests = _main_path_switches(tree, dest, at)
    at, port = np.append(at, graph.end_switch[ends_by_row]), np.append(port, graph.end_port[ends_by_row])
    lft[at, np.append(lids[dest], lids)] = port
    taken = np.bincount(at * 256 + port, minlength=graph.n_switches * 256).reshape(-1, 256)
    leaf_switch, start = np.unique(graph.end_switch[ends_by_row], return_index=True)
    leaf_first = np.append(start, len(ends)).astype(np.int32)
    args = (graph.first, graph.peer, graph.out_port, graph.reverse, up)
    fill_down(*args, leaf_switch.astype(np.int32), leaf_first, lids, taken, lft)
    fill_up(*args, through, dest_first, lids[dests], taken, lft)
    d = ordered_hops(graph, tree.order)
    least_loaded(legal_hops_table(graph, d), destinations_table(graph, destination_groups(graph)), taken, lft)
    if not connect(graph, d, lft, notes) and whole:
        raise NotATree(f"no tree for all compute nodes: {notes.pop()}")
    return lft


def _with_missing(graph: SwitchGraph, tree: Tree, row_of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the leaves in routing order, and a table with a row per leaf that lists its hosts.
    Leaves with fewer hosts than the fullest leaf have -1 at the end of their row."""
    leaf = graph.end_switch[tree.compute]
    leaves, start, size = np.unique(tree.place[leaf], return_index=True, return_counts=True)
    most = int(size.max(initial=0))
    keep = np.full((len(leaves), most), -1, np.int32)
    at = np.arange(len(leaf)) - np.repeat(start, size)
    keep[np.repeat(np.arange(len(leaves)), size), at] = row_of[: len(leaf)]
    switches = np.concatenate([np.repeat(tree.order[leaves], most), graph.end_switch[tree.others]])
    return switches.astype(np.int32), np.concatenate([keep.ravel(), row_of[len(leaf) :]]).astype(np.int32)


def _main_path_switches(tree: Tree, dest: np.ndarray, switch: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ``(through, dest_first, dests)``: the switches on main paths from the bottom up, and
    the destinations of each."""
    by = np.lexsort((dest, -tree.place[switch]))
    through, start = np.unique(-tree.place[switch[by]], return_index=True)
    return tree.order[-through].astype(np.int32), np.append(start, len(by)).astype(np.int32), dest[by]


@dataclass(frozen=True)
class Remedy:
    """``reason``: why ftree does not accept the graph. ``options``: the roots and I/O nodes with
    which it does. ``routing``: the tables with these options."""

    reason: str
    options: RouteOptions
    routing: Routing


def remedy(graph: SwitchGraph, options: RouteOptions | None = None) -> Remedy | None:
    """Return the options that make ``graph`` a fat tree for ftree. Return None if it already is
    one, if roots are given, or if no choice of roots reaches every pair without a credit loop.

    Among several choices, return the one whose worst link carries the fewest paths.
    """
    options = options or RouteOptions()
    if options.root_guids:
        return None
    try:
        recognise(graph, options, [])
        return None
    except NotATree as why:
        reason = str(why)
    tree = imperfect(graph, options)
    return None if tree is None else Remedy(reason, *tree)
