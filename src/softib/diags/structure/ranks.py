"""The rank of every node of a tree: 0 host, 1 leaf, 2 spine, ….

A switch's rank is 1 plus its distance from the nearest leaf. This is wrong for two kinds of switches: an edge switch on
a spine or a core (a management switch with a few hosts), and a director's line chip without hosts. They would be above
the spine or core, so their ranks are counted downwards from it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from softib.components import components
from softib.diags.labels import Labels
from softib.diags.view import FabricView

__all__ = ["TREES", "UNTIERED", "TierCounts", "count_tiers", "ranks", "tier_name", "tier_text"]


TREES = ("fat-tree", "rail-optimized", "dragonfly+")
"""Kinds of structure whose tiers have names."""
NAMES = ("leaf", "spine", "core")
UNTIERED = "without a way to a leaf"


def tier_name(tier: int) -> str:
    """Return the name of a tier: ``leaf`` for 1, then ``spine``, ``core``, ``tier 4``, …."""
    return NAMES[tier - 1] if tier <= len(NAMES) else f"tier {tier}"


class TierCounts(NamedTuple):
    """Number of switches by tier."""

    tiers: dict[int, int]
    """Tier → number of switches, in ascending order of tiers."""
    untiered: int
    """Number of switches without a tier."""


def count_tiers(rank: np.ndarray) -> TierCounts:
    """Count the switches of each tier. ``rank``: the tier of each switch."""
    by_tier = {int(r): int((rank == r).sum()) for r in np.unique(rank[rank > 0])}
    return TierCounts(by_tier, int((rank <= 0).sum()))


def tier_text(tiers: dict[int, int], untiered: int) -> str:
    """Return the numbers as text, for example ``64 leaf, 64 spine, 32 core``, with the number of switches without a
    tier.
    """
    rows = [f"{n:,} {tier_name(t)}" for t, n in tiers.items()]
    return ", ".join(rows + ([f"{untiered:,} {UNTIERED}"] if untiered else []))


FEW_HOSTS = 0.34
"""Minimum number of hosts of a leaf, as a share of the median over all switches with hosts. (A spine with a UFM server
is not a leaf.)
"""
WRONG, FEW_WRONG = 2, 0.15
"""Maximum number, and maximum share, of a switch's cables that may be wrong."""
MOSTLY = 0.7
"""Minimum share of leaves in a class of switches for the other switches of this class to be leaves, too."""
HALF = 0.5
"""Minimum share of the leaves that must use a port number for hosts (or for uplinks) for it to be a number for hosts
(or for uplinks).
"""
SPARE = 0.15
"""Maximum share of the leaves, or of a class of names, that may be leaves without hosts (in reserve)."""


def ranks(view: FabricView, labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    """Return two ranks of each node (int8[nodes] each). The first is its rank in the tree (0 host, 1 leaf, 2 spine, …;
    -1 if there is no path to a leaf). The second is computed only from the distance to the nearest leaf. The cuts of a
    bisection use the second, because for them an attached edge switch is separate from the tree.
    """
    n = len(view.names)
    links = view.between_switches
    a, b = view.node_a[links], view.node_b[links]
    _, _, switch_port = view.to_hosts
    hosts = np.bincount(view.fabric.port_node[switch_port], minlength=n)
    with_hosts = hosts > 0
    rank = np.full(n, 127, np.int64)
    if with_hosts.any():
        many = hosts >= max(1.0, FEW_HOSTS * float(np.median(hosts[with_hosts])))
        leaf = many | _like_leaves(labels, many, a, b)
        rank[leaf | _cabled_like_leaves(view, labels, leaf)] = 1
    else:
        rank[np.unique(np.concatenate([a, b]))] = 1
    while True:
        before = rank.copy()
        np.minimum.at(rank, a, rank[b] + 1)
        np.minimum.at(rank, b, rank[a] + 1)
        if (rank == before).all():
            break
    rank[rank >= 127] = -1
    distance = np.where(view.is_host, 0, rank).astype(np.int8)
    _lower_spare_chips(view, labels, rank, a, b)
    _lower_spurs(rank, hosts, a, b)
    _raise_drawn(rank, a, b)
    rank[view.is_host] = 0
    return rank.astype(np.int8), distance


def _lower_spare_chips(view: FabricView, labels: Labels, rank: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Correct the rank of a director's line chips without hosts, which reach only its spine chips. They get the rank of
    line chips of the same class of names that have the same cables upwards and that have switches below.
    """
    up, down = np.concatenate([a, b]), np.concatenate([b, a])
    rises = rank[up] > rank[down]
    row = _rows(len(rank), down[rises], up[rises])  # cables upwards
    spare = ~np.isin(np.arange(len(rank)), down[rises]) & (rank >= 3)
    spare_row = _rows(len(rank), up[rises], down[rises])
    for node_class in labels.classes:
        of = node_class.nodes
        used = of[(row[of] > 0) & ~spare[of]]
        for chip in of[spare[of]]:
            same = used[(row[used] == spare_row[chip]) & (rank[used] == rank[chip] - 2)]
            if len(same) >= 2:
                rank[chip] -= 2


def _lower_spurs(rank: np.ndarray, hosts: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Correct the ranks of switches that appear to be above the top of the tree. These have hosts, or are attached to
    switches with hosts, and the tree is connected without them. Along a chain of such switches the rank decreases with
    every switch, down to a leaf.
    """
    top = last = int(rank.max(initial=0))
    carries = hosts > 0
    while top >= 3:
        hang = np.concatenate([a[carries[b] & (rank[b] > top)], b[carries[a] & (rank[a] > top)]])
        carries[hang[rank[hang] == top]] = True
        if not carries[rank == top].all() or not _joined(rank, top - 1, a, b):
            break
        top -= 1
    if top < last:
        above = rank > top
        rank[above] = np.maximum(1, 2 * top - rank[above])


def _raise_drawn(rank: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Raise by one the rank of switches whose rank is too low because of one or two wrong cables to a lower tier."""
    ends, peers = np.concatenate([a, b]), np.concatenate([b, a])
    cables, within, below = (
        np.bincount(ends, x, minlength=len(rank))
        for x in (rank[ends] > 0, rank[ends] == rank[peers], rank[ends] > rank[peers])
    )
    rank[(rank >= 2) & (2 * within > cables) & (below <= np.minimum(WRONG, FEW_WRONG * cables))] += 1


def _joined(rank: np.ndarray, top: int, a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether all leaves reach each other through switches of rank ``top`` or lower."""
    keep = (rank[a] <= top) & (rank[b] <= top)
    return len(np.unique(components(len(rank), a[keep], b[keep])[rank == 1])) == 1


def _rows(n: int, owner: np.ndarray, peer: np.ndarray) -> np.ndarray:
    """Return an identifier of the cables of each switch (uint64[n]): the sum of fixed random numbers of the cables'
    peers; 0 without cables.
    """
    word = np.random.default_rng(0x1B).integers(1 << 62, size=n, dtype=np.uint64)
    row = np.zeros(n, np.uint64)
    np.add.at(row, owner, word[peer])
    return row


def _like_leaves(labels: Labels, leaf: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the leaves with few hosts or none (bool[nodes]). They have names like leaves, and no link to a leaf."""
    leaf_like = np.zeros(len(leaf), bool)
    for node_class in labels.classes:
        if leaf[node_class.nodes].mean() >= MOSTLY:
            leaf_like[node_class.nodes] = True
    leaf_like[a[leaf[b]]] = False
    leaf_like[b[leaf[a]]] = False
    return leaf_like


def _cabled_like_leaves(view: FabricView, labels: Labels, leaf: np.ndarray) -> np.ndarray:
    """Return the switches without hosts that are cabled like leaves (bool[nodes]): they have the same number of cables
    to the same switches as at least two leaves, at port numbers that leaves use for uplinks. Without this correction, a
    leaf in reserve would be two tiers above the other leaves, like a core switch.
    """
    f = view.fabric
    links = view.between_switches
    ports = np.concatenate([view.port_a[links], view.port_b[links]])
    owner, peer = f.port_node[ports], f.port_node[f.port_peer[ports]]
    row = _rows(len(view.names), owner, peer)
    rows, count = np.unique(row[leaf & (row > 0)], return_counts=True)
    number_used = np.zeros(256, bool)
    number_used[f.port_num[ports[leaf[owner]]]] = True
    elsewhere = np.bincount(owner, ~number_used[f.port_num[ports]], minlength=len(row)) > 0
    leaf_like = ~leaf & (row > 0) & np.isin(row, rows[count >= 2]) & ~elsewhere
    for node_class in labels.classes:  # spine chips of a director reach the same line chips as leaves, and are many
        if leaf_like[node_class.nodes].mean() > SPARE and len(node_class.nodes) > 1:
            leaf_like[node_class.nodes] = False
    leaf_like &= ~view.is_sharp & view.is_switch
    if leaf_like.sum() > max(1, SPARE * leaf.sum()):
        leaf_like[:] = False
    return leaf_like | _by_uplink_numbers(view, labels, leaf, owner, peer, ports)


def _by_uplink_numbers(
    view: FabricView, labels: Labels, leaf: np.ndarray, owner: np.ndarray, peer: np.ndarray, ports: np.ndarray
) -> np.ndarray:
    """Return the switches without hosts whose cables all lead to parents of leaves, from port numbers that leaves use
    only for uplinks (bool[nodes]). There may be many of them, because the top of a tree is never cabled in this way.
    """
    f = view.fabric
    none = np.zeros(len(leaf), bool)
    _, _, host_ports = view.to_hosts
    host_ports = host_ports[leaf[f.port_node[host_ports]]]
    with_hosts = len(np.unique(f.port_node[host_ports]))
    up = ports[leaf[owner]]
    if with_hosts < 2 or not len(up):
        return none
    for_hosts, for_uplinks = (np.bincount(f.port_num[x], minlength=256) >= HALF * with_hosts for x in (host_ports, up))
    usual = np.median(np.bincount(owner, minlength=len(leaf))[np.unique(f.port_node[host_ports])])
    if not for_hosts.any() or not for_uplinks.any() or (for_hosts & for_uplinks).any():
        return none
    above = none.copy()
    above[peer[leaf[owner]]] = True
    cables = np.bincount(owner, minlength=len(leaf))
    astray = np.bincount(owner, ~for_uplinks[f.port_num[ports]] | ~above[peer] | leaf[peer], minlength=len(leaf))
    leaf_like = ~leaf & ~above & view.is_switch & (astray == 0) & (cables >= HALF * usual)
    for node_class in labels.classes:
        if len(node_class.nodes) > 1 and not leaf[node_class.nodes].any():
            leaf_like[node_class.nodes] = False  # no leaf has a name like these
    return leaf_like
