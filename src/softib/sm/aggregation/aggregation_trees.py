"""Trees over aggregation nodes, and the tree of a job. All functions depend only on a graph, its
forwarding tables, and the switches of the nodes.

A tree consists of the paths that the forwarding tables define from every leaf to the root node.
Because switches forward by destination, these paths form a tree, and its edges are routes of
ordinary packets. Switches without an aggregation node are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.routing.graph import SwitchGraph

__all__ = ["NOT_IN", "ROOT", "AggregationTree", "Job", "build_tree", "job_tree", "roots_of"]

ROOT, NOT_IN = -1, -2
MOST_HOPS = 64


@dataclass(frozen=True)
class AggregationTree:
    """``parent`` int32[nodes]: the parent of each aggregation node, ROOT, or NOT_IN if it is not in
    the tree. ``tree`` is its ID."""

    tree: int
    streaming: bool
    root: int
    parent: np.ndarray

    @property
    def members(self) -> np.ndarray:
        """Aggregation nodes in the tree, ascending."""
        return np.flatnonzero(self.parent != NOT_IN)


@dataclass(frozen=True)
class Job:
    """The part of a tree that a job uses: the aggregation node of each of its hosts, the nodes
    between them, and the node at which all paths meet."""

    tree: int
    node_of_host: np.ndarray
    nodes: np.ndarray
    top: int


def roots_of(graph: SwitchGraph, ranks: np.ndarray | None, switch_of: np.ndarray) -> np.ndarray:
    """Return the aggregation nodes that can be roots, ordered by NodeGUID: of the switches that
    have a node, those in the highest rank. ``switch_of`` is the switch of each node."""
    rank = np.zeros(graph.n_switches, np.int64) if ranks is None else np.asarray(ranks, np.int64)
    order = np.lexsort((graph.switch_guid[switch_of], rank[switch_of]))
    return order[rank[switch_of[order]] == rank[switch_of].min()] if len(order) else order


def build_tree(
    graph: SwitchGraph,
    lft: np.ndarray,
    switch_of: np.ndarray,
    lid: np.ndarray,
    root: int,
    tree: int = 0,
    streaming: bool = False,
) -> AggregationTree:
    """Return the tree of ``root``: all aggregation nodes on the paths from switches with hosts.
    ``lid``: LID of each node."""
    n = graph.n_switches
    node_in = np.full(n, NOT_IN, np.int32)
    node_in[switch_of] = np.arange(len(switch_of))
    peer_of = np.full((n, 256), -1, np.int32)
    peer_of[np.repeat(np.arange(n), np.diff(graph.first)), graph.out_port] = graph.peer
    egress = lft[:, int(lid[root])]
    after = np.where(egress == LFT_NO_ROUTE, -1, peer_of[np.arange(n), egress])
    parent = np.full(len(switch_of), NOT_IN, np.int32)
    parent[root] = ROOT
    for leaf in np.unique(graph.end_switch[graph.end_is_compute]).tolist():
        at, below = leaf, NOT_IN
        for _ in range(MOST_HOPS):
            here = int(node_in[at])
            if here >= 0 and here != below:
                if below >= 0:
                    parent[below] = here
                if parent[here] != NOT_IN:  # the rest of the path is known
                    break
                below = here
            at = int(after[at])
            if at < 0:
                break
    # A path that ends before it reaches the root is not used.
    for _ in range(MOST_HOPS):
        lost = (parent == NOT_IN) | ((parent >= 0) & (parent[np.maximum(parent, 0)] == NOT_IN))
        if (lost == (parent == NOT_IN)).all():
            break
        parent[lost] = NOT_IN
    return AggregationTree(tree, streaming, root, parent)


def job_tree(
    trees: Iterable[AggregationTree],
    switch_of: np.ndarray,
    host_switch: np.ndarray,
    load: dict[int, int],
    streaming: bool,
) -> Job | None:
    """Return a tree of the given kind for hosts on ``host_switch``: the one with the fewest jobs
    (``load`` by tree ID, increased here), or of several, the one with the lowest ID. Return None if
    no tree has a node in each of these switches. ``top`` is the node at which all paths meet."""
    node_in = {int(s): i for i, s in enumerate(switch_of.tolist())}
    wanted = [node_in.get(int(s), NOT_IN) for s in host_switch.tolist()]
    fit = [t for t in trees if t.streaming == streaming and all(w >= 0 and t.parent[w] != NOT_IN for w in wanted)]
    if not fit or not wanted:
        return None
    tree = min(fit, key=lambda t: (load.get(t.tree, 0), t.tree))
    load[tree.tree] = load.get(tree.tree, 0) + 1
    paths = [_path(tree, w) for w in sorted(set(wanted))]
    common = set(paths[0]).intersection(*paths[1:])
    top = next(node for node in paths[0] if node in common)
    nodes = sorted({node for path in paths for node in path[: path.index(top) + 1]})
    return Job(tree.tree, np.array(wanted, np.int32), np.array(nodes, np.int32), top)


def _path(tree: AggregationTree, node: int) -> list[int]:
    path = [node]
    while tree.parent[path[-1]] >= 0:
        path.append(int(tree.parent[path[-1]]))
    return path
