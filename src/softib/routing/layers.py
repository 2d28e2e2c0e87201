"""Paths on as few layers (VLs) as it takes, so that no layer's channel dependencies have a cycle.

What dfsssp and lash share: the tables stay as they are, only the SL of a path, and with it the VL, is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.routing.graph import SwitchGraph
from softib.routing.layer_kernels import Paths, break_cycles, count_dependencies, first_fit
from softib.routing.order_kernels import Channels, VlState
from softib.routing.reach import port_map
from softib.routing.tables import cas_per_switch

__all__ = ["NO_LAYER", "Layers", "add_switches", "channels", "merged", "place_paths", "vl_state"]

NO_LAYER = 255


@dataclass(frozen=True)
class Layers:
    """``layer`` uint8[sources, destinations] of the paths from switches ``source`` int32 to ``dest`` columns, :data:`NO_LAYER`
    where there is none; ``used`` layers; ``states``: what was added to each of them, empty where nobody kept it."""

    layer: np.ndarray
    source: np.ndarray
    used: int
    states: tuple[Any, ...] = ()


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
    states: list[Any] = []
    left = 1
    while left and len(states) <= most:
        states.append(vl_state(graph))
        left = first_fit(c, states[-1], paths, len(states) - 1, waiting, layer, path, fresh)
    return Layers(layer, paths.source, len(states), tuple(states))


def add_switches(
    graph: SwitchGraph,
    lft: np.ndarray,
    dests: np.ndarray,
    found: Layers,
    more: np.ndarray,
    canon: np.ndarray | None = None,
) -> tuple[np.ndarray, int]:
    """Layers uint8[sources, more] for paths to the end ports ``more`` (switches' own), and how many layers are used then.

    Each path takes the first layer that ``found`` uses for ``dests`` on which it closes no cycle, and layer 0 where it does on
    all; where only one was used, a second takes those.
    """
    c, at = channels(graph, canon), port_map(graph)
    known = Paths(lft, at, found.source, graph.end_lid[dests].astype(np.int32), graph.end_switch[dests])
    other = Paths(lft, at, found.source, graph.end_lid[more].astype(np.int32), graph.end_switch[more])
    waiting = NO_LAYER - 1
    layer = np.full((len(found.source), len(more)), waiting, np.uint8)
    path, fresh = np.empty(graph.n_switches, np.int32), np.empty(graph.n_switches, np.int64)
    left = used = 0
    while used < found.used or (used < 2 and left):
        vl = found.states[used] if used < len(found.states) else vl_state(graph)
        if used < found.used and not found.states:
            first_fit(c, vl, known, used, used, found.layer, path, fresh)
        left = first_fit(c, vl, other, used, waiting, layer, path, fresh)
        used += 1
    return np.where(layer == waiting, 0, layer), used
