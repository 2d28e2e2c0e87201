"""Uneven tiers found without names: the table of links between a tier and the next, against its own majority.

Switches of a tier that reach the same set of parents are one kind (a pod, or the whole tier). Within a kind every row
of the table should be the same; a row that differs names its switch, and the parents that have more or fewer links than
usual. A switch alone with its set of parents is compared with the kind that it shares most parents with. Where no
majority is, nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from softib.diags.rules import mode
from softib.diags.view import FabricView

__all__ = ["OddCable", "Uneven", "uneven"]

MIN_KIND = 3
"""Switches with equal rows that make a kind."""
MAX_ODD = 0.15
"""Larger shares of a tier that differ are its design, not faults."""


@dataclass(frozen=True)
class OddCable:
    """A cable (port rows ``port`` below, ``far`` above) that should lead to node ``wanted``, where like switches have it."""

    port: int
    far: int
    wanted: int


@dataclass(frozen=True)
class Uneven:
    """``switch`` has ``links`` uplinks, its kind ``usual``; nodes with ``fewer`` or ``more`` links from it than usual.

    ``cables`` are those of the surplus ones whose port number leads to one of ``fewer`` on most switches of the kind.
    """

    switch: int
    links: int
    usual: int
    fewer: tuple[int, ...]
    more: tuple[int, ...]
    cables: tuple[OddCable, ...] = ()


Row = dict[int, int]
"""Links of a switch by parent."""


def uneven(view: FabricView, rank: np.ndarray) -> list[Uneven]:
    """Switches whose links to the tier above differ from those of their kind."""
    links = view.between_switches
    a, b = view.port_a[links], view.port_b[links]
    node = view.fabric.port_node
    up = rank[node[a]] < rank[node[b]]
    low, high = np.where(up, a, b), np.where(up, b, a)
    out: list[Uneven] = []
    for r in range(1, int(rank.max(initial=0))):
        tier = (rank[node[low]] == r) & (rank[node[high]] == r + 1)
        out += _uneven_tier(view, low[tier], high[tier])
    return out


def _uneven_tier(view: FabricView, low: np.ndarray, high: np.ndarray) -> list[Uneven]:
    node = view.fabric.port_node
    rows: dict[int, Row] = {}
    pair, count = np.unique(np.stack([node[low], node[high]]), axis=1, return_counts=True)
    for switch, parent, n in zip(*pair.tolist(), count.tolist(), strict=True):
        rows.setdefault(switch, {})[parent] = n
    kinds: dict[frozenset[tuple[int, int]], list[int]] = {}
    for switch, row in rows.items():
        kinds.setdefault(frozenset(row.items()), []).append(switch)
    usual = [(dict(key), members) for key, members in kinds.items() if len(members) >= MIN_KIND]
    odd = [s for members in kinds.values() if len(members) < MIN_KIND for s in members]
    if not usual or len(odd) > max(1, MAX_ODD * len(rows)):
        return []
    by_parent: dict[int, list[int]] = {}
    for k, (row, _) in enumerate(usual):
        for parent in row:
            by_parent.setdefault(parent, []).append(k)
    found = []
    for switch in sorted(odd):
        near = [k for parent in rows[switch] for k in by_parent.get(parent, ())]
        if near:
            expected, members = usual[mode(np.array(near))[0]]
            found.append(_compare(view, switch, rows[switch], expected, members))
    # A switch cabled otherwise altogether is a design, not a fault.
    return [u for u in found if len(u.fewer) + len(u.more) <= max(4, u.usual // 4) and (u.fewer or u.more)]


def _compare(view: FabricView, switch: int, row: Row, expected: Row, members: list[int]) -> Uneven:
    parents = sorted({*row, *expected})
    fewer = tuple(p for p in parents if row.get(p, 0) < expected.get(p, 0))
    more = tuple(p for p in parents if row.get(p, 0) > expected.get(p, 0))
    cables = tuple(_odd_cables(view, switch, set(fewer), set(more), members))
    return Uneven(switch, sum(row.values()), sum(expected.values()), fewer, more, cables)


def _odd_cables(
    view: FabricView, switch: int, fewer: set[int], more: set[int], members: list[int]
) -> Iterator[OddCable]:
    f = view.fabric
    for port in f.ports_of(switch):
        far = int(f.port_peer[port])
        if far < 0 or int(f.port_node[far]) not in more:
            continue
        number = int(f.port_num[port])
        alike = np.array([f.node_base[m] + number for m in members if f.node_nports[m] >= number], np.int64)
        peers = f.port_peer[alike]
        wanted, votes = mode(f.port_node[peers[peers >= 0]])
        if wanted in fewer and 2 * votes > len(members):
            yield OddCable(port, far, wanted)
