"""Computes the positions of nodes on the map, and its edges, as columns that a browser draws.

A tree is drawn in blocks, which are the connected parts that remain without the top tier (the pods of a three-level
tree, the leaves of a two-level tree). The blocks are placed in a grid. Each has its leaves in a row, the hosts below
them, and its upper switches above. The top tier is above all blocks. If the fabric is not a tree, each switch is its
own block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.diags.structure.recognise import Structure, recognise
from softib.diags.view import components
from softib.fabric.model import Fabric
from softib.natural_order import natural_rank

__all__ = ["Map", "map_of"]

ASPECT = 1.8
"""Width over height of the whole map, as on a screen."""
TIER_ROW = 3.0
"""Height of a row of switches; the distance between hosts is 1.0."""


@dataclass(frozen=True)
class Map:
    """``x`` and ``y`` float64[nodes]; ``tier`` int8[nodes]: 0 hosts, 1 leaves …, -1 nodes without a
    link; ``leaf`` int32[nodes]: the switch of a host (its rack on the map), a switch itself;
    ``block`` int64[nodes]: the block of a switch, -1 for the top tier and for hosts. Edges join two
    nodes, whatever the number of cables: ``edge`` int32[edges, 2] node rows; ``edge_of_port``
    int32[ports], -1 for a port without cable."""

    x: np.ndarray
    y: np.ndarray
    tier: np.ndarray
    leaf: np.ndarray
    block: np.ndarray
    edge: np.ndarray
    edge_of_port: np.ndarray


def map_of(fabric: Fabric) -> Map:
    """Return the map of ``fabric``. The time is nearly linear in the number of ports."""
    structure = recognise(fabric)
    tier = structure.rank.astype(np.int8)
    edge, edge_of_port = _edges(fabric)
    leaf = _leaves(fabric, edge)
    block, above = _parts(fabric, structure, edge)
    x, y = _place(fabric, tier, leaf, block, above)
    return Map(x, y, tier, leaf, block, edge, edge_of_port)


def _edges(f: Fabric) -> tuple[np.ndarray, np.ndarray]:
    rows = np.flatnonzero(f.linked)
    a, b = f.port_node[rows].astype(np.int64), f.port_node[f.port_peer[rows]].astype(np.int64)
    keys, at = np.unique(np.minimum(a, b) * f.sizes.nodes + np.maximum(a, b), return_inverse=True)
    of_port = np.full(f.sizes.ports, -1, np.int32)
    of_port[rows] = at.reshape(-1)
    return np.stack([keys // f.sizes.nodes, keys % f.sizes.nodes], axis=1).astype(np.int32), of_port


def _leaves(f: Fabric, edge: np.ndarray) -> np.ndarray:
    """Return the switch at the other end of each host's first cable. For a switch, or a node without a link, return the
    node itself.
    """
    leaf = np.arange(f.sizes.nodes, dtype=np.int32)
    for this, other in ((0, 1), (1, 0)):
        rows = np.flatnonzero(~f.is_switch[edge[:, this]] & f.is_switch[edge[:, other]])[::-1]
        leaf[edge[rows, this]] = edge[rows, other]
    return leaf


def _parts(f: Fabric, s: Structure, edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (block of each node: the smallest switch in it, or -1; bool of the top tier)."""
    rank = s.rank.astype(np.int64)
    top = int(rank.max(initial=0))
    switch = f.is_switch & (rank > 0)
    if top < 2:
        return np.where(switch, np.arange(f.sizes.nodes), -1), np.zeros(f.sizes.nodes, bool)
    above = switch & (rank == top)
    below = switch & ~above
    inside = below[edge].all(axis=1)
    part = components(f.sizes.nodes, edge[inside, 0], edge[inside, 1])
    return np.where(below, part, -1), above


def _place(
    f: Fabric, tier: np.ndarray, leaf: np.ndarray, part: np.ndarray, above: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    n = f.sizes.nodes
    x, y = np.zeros(n), np.zeros(n)
    order = natural_rank(f.node_names())
    width, height = _blocks(f, order, part, tier, leaf, x, y)
    _rows(np.flatnonzero(above), order, x, y, width, 0.0, 1.0)
    rest = np.flatnonzero((part < 0) & ~above & (leaf == np.arange(n)))
    _rows(rest, order, x, y, max(width, 10.0), -height - 2 * TIER_ROW, -1.0)
    return x, y


def _blocks(
    f: Fabric, order: np.ndarray, part: np.ndarray, tier: np.ndarray, leaf: np.ndarray, x: np.ndarray, y: np.ndarray
) -> tuple[float, float]:
    """Place the switches and hosts of all blocks; return the width and height of the grid that they fill."""
    switches = np.flatnonzero(part >= 0)
    if not len(switches):
        return 0.0, 0.0
    hosts = np.flatnonzero((leaf != np.arange(len(leaf))) & (part[leaf] >= 0))
    count = np.bincount(leaf[hosts], minlength=len(leaf))
    columns = max(1, int(np.ceil(np.sqrt(count.max(initial=0) / 1.5))))
    _under(hosts, order, leaf, columns, x, y)
    ids, block = np.unique(part[switches], return_inverse=True)
    block = block.reshape(-1)
    top = int(tier[switches].max())
    widest = 0
    for t in range(1, top + 1):
        of_tier = switches[tier[switches] == t]
        at, row = np.lexsort((order[of_tier], block[tier[switches] == t])), block[tier[switches] == t]
        nth = np.arange(len(of_tier)) - np.searchsorted(row[at], row[at])
        x[of_tier[at]], y[of_tier[at]] = nth * (columns + 1.0), (t - 1) * TIER_ROW
        widest = max(widest, int(nth.max(initial=0)) + 1)
    rows = int(np.ceil(count.max(initial=0) / columns))
    across, down = widest * (columns + 1.0) + 2.0, rows + top * TIER_ROW + 2.0
    grid = _across(len(ids), across, down)
    first = np.full(len(ids), len(order))
    np.minimum.at(first, block, order[switches])
    slot = np.empty(len(ids), np.int64)
    slot[np.argsort(first, kind="stable")] = np.arange(len(ids))
    shift_x, shift_y = (slot % grid) * across, -(slot // grid) * down - top * TIER_ROW
    x[switches] += shift_x[block]
    y[switches] += shift_y[block]
    x[hosts] += x[leaf[hosts]]
    y[hosts] += y[leaf[hosts]]
    return min(grid, len(ids)) * across, -(-len(ids) // grid) * down


def _across(blocks: int, width: float, height: float) -> int:
    """Return the number of blocks side by side for which the map has about the proportions of a screen and its last
    row is not nearly empty."""
    n = np.arange(1, blocks + 1)
    rows = -(-blocks // n)
    return int(n[np.argmin(np.abs(np.log(n * width / (rows * height) / ASPECT)) + 0.5 * (rows * n - blocks) / n)])


def _under(hosts: np.ndarray, order: np.ndarray, leaf: np.ndarray, columns: int, x: np.ndarray, y: np.ndarray) -> None:
    """Place hosts in rows of ``columns`` below their leaf, in the order of names; positions are
    relative to the leaf."""
    by = hosts[np.lexsort((order[hosts], leaf[hosts]))]
    nth = np.arange(len(by)) - np.searchsorted(leaf[by], leaf[by])
    x[by] = nth % columns - (columns - 1) / 2
    y[by] = -1.2 - nth // columns


def _rows(
    nodes: np.ndarray, order: np.ndarray, x: np.ndarray, y: np.ndarray, width: float, y0: float, step: float
) -> None:
    """Place ``nodes`` evenly over ``width``, in several rows if they would be closer than 1.0."""
    if not len(nodes):
        return
    nodes = nodes[np.argsort(order[nodes], kind="stable")]
    room = max(1, int(max(width, 1.0)))
    rows = -(-len(nodes) // room)
    each = -(-len(nodes) // rows)
    nth = np.arange(len(nodes))
    x[nodes] = ((nth % each) + 0.5) * max(width, 1.0) / each
    y[nodes] = y0 + step * TIER_ROW * (1 + nth // each)
