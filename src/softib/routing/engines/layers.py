"""Layers (VLs) whose channel dependencies have no cycle: what kernels need to add dependencies to
them one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from softib.routing.graph import SwitchGraph
from softib.routing.transition.order_kernels import Channels, VlState

__all__ = ["channels", "merged", "on_vls", "vl_state"]


def channels(graph: SwitchGraph, canon: np.ndarray | None = None) -> Any:
    """The graph's links as channels, each for itself unless ``canon`` int32[links] says which
    stands for which."""
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
    """A VL without dependencies; ``order`` int32[links] lists channels as a first guess of their
    topological order."""
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


def on_vls(graph: SwitchGraph, vls: int) -> SwitchGraph:
    """``graph`` with a link for each VL of a link: row ``link * vls + vl``."""
    if vls == 1:
        return graph
    more = np.arange(vls, dtype=np.int32)
    return replace(
        graph,
        first=graph.first * vls,
        peer=np.repeat(graph.peer, vls),
        reverse=(graph.reverse[:, None] * vls + more).ravel().astype(np.int32),
    )
