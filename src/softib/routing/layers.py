"""Paths on as few layers (VLs) as it takes, so that no layer's channel dependencies have a cycle.

What dfsssp and lash share: the tables stay as they are, only the SL of a path, and with it the VL, is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from softib.plural import counted
from softib.routing.credit_loops import sl2vl_table, waiting_channels
from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.routing.layer_kernels import Paths, SwitchPaths, break_cycles, count_dependencies, first_fit, place_pairs
from softib.routing.order_kernels import Channels, VlState, put_all, topological_order
from softib.routing.reach import port_map
from softib.routing.tables import cas_per_switch

__all__ = [
    "NO_LAYER",
    "Layers",
    "channels",
    "merged",
    "on_vls",
    "place_paths",
    "place_switches",
    "placed",
    "unplaced",
    "vl_state",
]

NO_LAYER = 255


@dataclass(frozen=True)
class Layers:
    """``layer`` uint8[sources, destinations] of the paths from switches ``source`` int32 to ``dest`` columns, :data:`NO_LAYER`
    where there is none; ``used`` layers."""

    layer: np.ndarray
    source: np.ndarray
    used: int


def channels(graph: SwitchGraph, canon: np.ndarray | None = None) -> Any:
    """The graph's links as channels, each for itself unless ``canon`` int32[links] says which stands for which."""
    degree = np.diff(graph.first).astype(np.int64)
    owner = np.repeat(np.arange(graph.n_switches, dtype=np.int32), degree)
    size = degree[graph.peer]
    dep_first = (np.cumsum(size) - size).astype(np.int64)
    canon = np.arange(len(graph.peer), dtype=np.int32) if canon is None else canon
    return Channels(graph.first, graph.peer, graph.reverse, owner, dep_first, canon)


def merged(graph: SwitchGraph) -> np.ndarray:
    """int32[links]: the first of the parallel cables between the same two switches."""
    owner = graph.link_switch
    _, first, which = np.unique(owner * graph.n_switches + graph.peer, return_index=True, return_inverse=True)
    return first[which].astype(np.int32)


def vl_state(graph: SwitchGraph, order: np.ndarray | None = None) -> Any:
    """A VL without dependencies; ``order`` int32[links] lists channels as a first guess of their topological order."""
    n = len(graph.peer)
    degree = np.diff(graph.first).astype(np.int64)
    node_at = np.arange(n, dtype=np.int32) if order is None else order.astype(np.int32)
    place = np.empty(n, np.int32)
    place[node_at] = np.arange(n, dtype=np.int32)
    present = np.zeros(int(degree[graph.peer].sum()), np.uint8)
    fwd, bwd, keys = (np.empty(n, np.int32) for _ in range(3))
    blocks = (int(degree.max(initial=1)) + 63) >> 6
    ahead, behind, seen = (np.zeros((rows, blocks), np.uint64) for rows in (n, n, graph.n_switches))
    return VlState(present, place, node_at, fwd, bwd, keys, ahead, behind, seen, np.zeros(n // 64 + 1, np.uint64))


def place_paths(
    graph: SwitchGraph,
    lft: np.ndarray,
    dests: np.ndarray,
    most: int,
    canon: np.ndarray | None = None,
    both: bool = False,
) -> Layers:
    """Lay the paths from all switches with CAs to the end ports ``dests`` (rows) on layers.

    LASH's way (T. Skeie, O. Lysne, I. Theiss, "Layered Shortest Path (LASH) Routing in Irregular System Area Networks",
    IPDPS 2002): each path in turn on the first layer that stays free of cycles. Where that takes more than ``most``, DFSSSP's: all
    on one layer, the weakest dependency of each cycle moves on to the next (of dfsssp's paths on 26 cyclic fabrics it never took fewer layers, on 20 more).
    ``both``: where more than two are needed, whichever takes fewer. ``used`` may be ``most`` + 1: it takes more.
    """
    source = np.flatnonzero(cas_per_switch(graph)).astype(np.int32)
    c = channels(graph, canon)
    paths = Paths(lft, port_map(graph), source, graph.end_lid[dests].astype(np.int32), graph.end_switch[dests])
    by_path = _by_path(graph, c, paths, most)
    if by_path.used <= (2 if both else most):
        return by_path
    by_cycle = _by_cycle(graph, c, paths, most)
    return by_cycle if by_cycle.used < by_path.used else by_path


def _by_cycle(graph: SwitchGraph, c: Any, paths: Any, most: int) -> Layers:
    layer = np.zeros((len(paths.source), len(paths.lid)), np.uint8)
    path = np.empty(graph.n_switches, np.int32)
    n_deps = int(np.diff(graph.first).astype(np.int64)[graph.peer].sum())
    links = len(graph.peer)
    used = 0
    moved = True
    while moved and used <= most:
        count = np.zeros(n_deps, np.int64)
        count_dependencies(c, paths, layer, used, count, path)
        scratch = np.zeros(links, np.uint8), np.empty(links + 1, np.int32), np.empty(links + 1, np.int32)
        moved = break_cycles(c, paths, layer, used, count, path, *scratch) > 0
        used += 1
    return Layers(layer, paths.source, used)


def _by_path(graph: SwitchGraph, c: Any, paths: Any, most: int) -> Layers:
    waiting = NO_LAYER - 1
    layer = np.full((len(paths.source), len(paths.lid)), waiting, np.uint8)
    path, fresh = np.empty(graph.n_switches, np.int32), np.empty(graph.n_switches, np.int64)
    used, left = 0, 1
    while left and used <= most:
        left = first_fit(c, vl_state(graph), paths, used, waiting, layer, path, fresh)
        used += 1
    return Layers(layer, paths.source, used)


def placed(graph: SwitchGraph, routing: Routing, data_vls: int) -> Routing:
    """``routing``, whose SLs are the VLs that order paths between CAs, with SLs for those to and from switches, and a note. Where one VL carries all paths between
    CAs, these may have a second."""
    assert routing.path_sl is not None
    vls = min(max(routing.vls, 2), data_vls)
    path_sl, left = place_switches(graph, routing.lft, routing.path_sl, vls)
    used = max(routing.vls, int(path_sl.max(initial=0)) + 1)
    notes = [*routing.notes, counted(used, "VL"), *unplaced(left)]
    return replace(routing, path_sl=path_sl if used > 1 else None, vls=used, notes=notes)


def unplaced(left: int) -> list[str]:
    """The note about ``left`` of :func:`place_switches`."""
    return [f"requests and answers between {counted(left, 'pair')} of switches can make a credit loop"] if left else []


def place_switches(
    graph: SwitchGraph, lft: np.ndarray, path_sl: np.ndarray, vls: int, sl2vl: np.ndarray | None = None, sls: int = 0
) -> tuple[np.ndarray, int]:
    """SLs uint8[n_switches, ends] of all paths, those to and from switches included, and how many pairs of switches find none without a cycle.

    ``path_sl`` as of :class:`~softib.routing.engine.Routing`: what it says of paths between CAs stays. A request from a CA (or switch) to a switch has the first of
    ``sls`` SLs (default: of ``vls``) on which it closes no cycle of channels on the VLs 0 … ``vls`` - 1, nor the answer to all ends beside the sender, which has
    the request's SL; where there is none, one on which the request closes none. A switch without CAs asks on the SL on which it answers.
    """
    start, targets = waiting_channels(graph, lft, path_sl, sl2vl, vls, switches=True)
    if topological_order(start, targets, np.empty(len(start) - 1, np.int32)) == len(start) - 1:
        return path_sl, 0
    full = np.array(np.broadcast_to(path_sl, (graph.n_switches, path_sl.shape[1])))
    port0 = np.full(graph.n_switches, -1, np.int32)
    port0[graph.end_switch[graph.end_is_switch]] = np.flatnonzero(graph.end_is_switch)
    between = np.where(graph.end_is_switch, NO_LAYER, full)
    start, targets = waiting_channels(graph, lft, between, sl2vl, vls)
    order = np.empty(len(start) - 1, np.int32)
    if topological_order(start, targets, order) < len(order):
        return path_sl, 0
    c, state = channels(wide := on_vls(graph, vls)), vl_state(wide, order)
    put_all(c, state, start, targets)
    by_switch = np.argsort(graph.end_switch, kind="stable").astype(np.int32)
    first = np.searchsorted(graph.end_switch[by_switch], np.arange(graph.n_switches + 1)).astype(np.int32)
    lids, lmc = graph.end_lid.astype(np.int64), graph.end_lmc.astype(np.int64)
    net = SwitchPaths(
        lft,
        port_map(graph),
        graph.peer,
        graph.peer_port,
        sl2vl_table(graph, sl2vl, vls),
        port0,
        first,
        by_switch,
        lids,
        lmc,
    )
    left = place_pairs(c, state, net, vls, sls or vls, cas_per_switch(graph), full)
    return full, left


def on_vls(graph: SwitchGraph, vls: int) -> SwitchGraph:
    """``graph`` with a link for each VL of a link: row ``link * vls + vl``."""
    if vls == 1:
        return graph
    more = np.arange(vls, dtype=np.int32)
    return replace(graph, first=graph.first * vls, peer=np.repeat(graph.peer, vls),
                   reverse=(graph.reverse[:, None] * vls + more).ravel().astype(np.int32))  # fmt: skip
