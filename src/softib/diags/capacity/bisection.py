"""Bisection bandwidth: the rate at which half of the hosts can send to the other half, in the worst
case.

The bisection is the cut into equal halves with the least capacity (Dally and Towles, *Principles and practices of
interconnection networks*, chapter 3.3). The bisection bandwidth is the capacity of this cut, here in one direction. The
*full* rate is the rate at which the hosts of the half with the lower rate can send. If the bisection bandwidth is 100 %
of the full rate, no half of the hosts can overload the fabric.

Finding the bisection is NP-hard (Garey, Johnson and Stockmeyer 1976). Up to :data:`~softib.diags.capacity.cuts.EXACT`
switches, every cut is examined. For more switches, the search starts from cuts that the structure suggests (below each
tier of a tree, across each dimension of a grid, between groups) and from a cut along the Fiedler vector. Each of them
is improved by moving single switches, and the narrowest result is used. It is an existing cut, so its capacity is an
upper bound of the bisection bandwidth. The tests compare the results with every cut of small graphs and with published
formulas.

*Parts* are groups of hosts that together cannot send to the other hosts at full rate. The examined groups are the hosts
below one switch, in one part of a tree below a tier, and in one group of a dragonfly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from softib.diags.capacity.cuts import EXACT, Cut, SwitchCuts, fiedler
from softib.diags.view import FabricView, components, gbps_text
from softib.plural import counted
from softib.result import Result

if TYPE_CHECKING:
    from softib.diags.structure.grids import Shape

__all__ = ["Bisection", "NarrowestPart", "bisect"]


RANDOM_STARTS = 12
"""Number of random cuts from which the search starts, in addition to the cut along the Fiedler vector, if the structure
suggests no cut.
"""


@dataclass(frozen=True)
class NarrowestPart(Result):
    """The group of hosts whose outgoing cables have the least capacity relative to the hosts' sending rate."""

    name: str
    hosts: int
    """Number of host ports in the group."""
    of: int
    """Number of host ports in the fabric."""
    gbps: float | None
    """Capacity of the outgoing cables in Gb/s; None if the speeds are unknown."""
    percent: float
    """Capacity of the outgoing cables in percent of the rate at which these hosts can send (or the other hosts, if
    their rate is lower).
    """

    def __str__(self) -> str:
        rate = "" if self.gbps is None else f" ({gbps_text(self.gbps)})"
        hosts = f"{self.hosts:,} of {counted(self.of, 'host port')}"
        return f"{self.name}: {hosts}, which can send {self.percent:.1f} % of what they could{rate} to the others"


@dataclass(frozen=True)
class Bisection:
    """The bisection of a fabric. ``gbps``: its bandwidth (None: the source records no speeds). ``percent``: the same in
    percent of the full rate (None: the fabric has no hosts).

    ``how``: the method that found it. ``exact``: whether it is proven that no narrower cut exists. ``host_port``
    int64[hosts]: the ports of the hosts. ``side`` bool[hosts]: the half to which each belongs. ``part``: the narrowest
    part (None: every part can send at full rate). ``partitions``: the examined partitions of the fabric, each as
    int64[nodes], the part to which each switch belongs.
    """

    gbps: float | None
    full_gbps: float | None
    percent: float | None
    how: str
    exact: bool = False
    host_port: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64), compare=False)
    side: np.ndarray = field(default_factory=lambda: np.zeros(0, bool), compare=False)
    part: NarrowestPart | None = None
    partitions: tuple[np.ndarray, ...] = field(default=(), compare=False)


def bisect(view: FabricView, rank: np.ndarray, shape: Shape) -> Bisection:
    """Return the bisection of a fabric with the recognised structure ``shape``. ``rank`` int[nodes]: the tier of each
    node; 1: leaf switches.
    """
    graph = SwitchCuts(view)
    hosts = len(graph.host_gbps)
    if hosts < 2 or not graph.host_gbps.any():
        return Bisection(None, None, None, "fewer than two hosts on switches", exact=True)
    speeds_known = "speeds" in view.records
    if graph.n <= EXACT:
        cuts = 1 << max(graph.n - 1, 0)
        how = f"exact: narrowest of all {cuts:,} cuts" if cuts > 1 else "exact: the only cut"
        cut, exact = graph.narrowest_of_all(), True
    else:
        cut, exact, how = _searched(graph, rank[graph.node], shape)
    across = min(cut.gbps, cut.full)
    families = _families(graph, rank[graph.node], shape)
    return Bisection(
        gbps=round(across, 3) if speeds_known else None,
        full_gbps=round(cut.full, 3) if speeds_known else None,
        percent=round(100 * min(1.0, cut.share), 2),
        how=how,
        exact=exact,
        host_port=graph.host_port,
        side=cut.side,
        part=_narrowest_part(graph, view, families, speeds_known),
        partitions=tuple(_by_node(graph, part, len(view.names)) for _, part in families),
    )


class _Searched(NamedTuple):
    """The narrowest cut that a search met."""

    cut: Cut
    exact: bool
    """No narrower cut exists."""
    how: str
    """The search, as text."""


def _searched(graph: SwitchCuts, rank: np.ndarray, shape: Shape) -> _Searched:
    """Improve each proposed cut, and return the narrowest resulting cut."""
    best: Cut | None = None
    name, tried = "", 0
    for label, side in _proposals(graph, rank, shape):
        tried += 1
        for cut in (graph.cut(side), graph.cut(graph.narrowed(side))):
            if best is None or (cut.share, cut.gbps) < (best.share - 1e-12, best.gbps - 1e-9):
                best, name = cut, label
    assert best is not None
    # No cut is narrower than one that no link crosses.
    exact = best.gbps == 0
    how = f"narrowest of {tried} improved cuts, {name}"
    return _Searched(best, exact, how if exact else f"{how}; an upper bound")


def _proposals(graph: SwitchCuts, rank: np.ndarray, shape: Shape) -> list[tuple[str, np.ndarray]]:
    """Return (name, bool[switches]) of each cut from which the search starts."""
    orders: list[tuple[str, np.ndarray]] = []
    index = np.arange(graph.n)
    part = components(graph.n, graph.a, graph.b)
    size = np.bincount(part, graph.hosts, graph.n)[part]
    if shape.dims:
        x = shape.coordinates[graph.node]
        for k in range(len(shape.dims)):
            others = [x[:, j] for j in range(x.shape[1]) if j != k]
            orders.append((f"across dimension {k}", np.lexsort((*others, x[:, k]))))
    if shape.groups:
        orders.append(("between groups", np.lexsort((index, shape.group[graph.node]))))
    top = int(rank.max(initial=0))
    if shape.kind == "fat-tree" and top >= 2:
        orders += _tree_orders(graph, rank, top)
    if not orders or shape.kind == "fat-tree":
        vector, converged = _spectral(graph, part, size)
        label = "along the Fiedler vector" if converged else "along the Fiedler vector, not converged"
        orders.append((label, np.lexsort((vector, part, -size))))
    if len(orders) == 1:
        rng = np.random.default_rng(0)
        orders += [("from a random half", rng.permutation(graph.n)) for _ in range(RANDOM_STARTS)]
    proposals = [(label, graph.prefix(order)) for label, order in orders]
    if shape.kind == "fat-tree":
        proposals += [
            (f"{label}, below tier {t + 1}", _lowered(graph, rank, side, t))
            for label, side in list(proposals)
            for t in range(1, top)
        ]
    return proposals


def _tree_orders(graph: SwitchCuts, rank: np.ndarray, top: int) -> list[tuple[str, np.ndarray]]:
    """Return (name, order) for two orders of the switches: pod by pod, and by the number of uplinks."""
    index = np.arange(graph.n)
    pods = [_below(graph, rank, t) for t in range(2, top + 1)]
    up = np.zeros(graph.n)
    for end, peer in ((graph.a, graph.b), (graph.b, graph.a)):
        up += np.bincount(end, np.where(rank[peer] > rank[end], graph.gbps, 0.0), graph.n)
    down = np.bincount(graph.host_switch, graph.host_gbps, graph.n)
    ratio = np.divide(up, down, out=np.full(graph.n, np.inf), where=down > 0)
    orders = [
        ("between switches in their order", index),
        ("between leaves with few and with many uplinks", np.lexsort((index, ratio))),
    ]
    if top > 2:
        orders.insert(0, ("between parts of the tree", np.lexsort((index, *pods))))
    return orders


def _below(graph: SwitchCuts, rank: np.ndarray, tier: int) -> np.ndarray:
    """Return the part of each switch when the switches of ``tier`` and above are removed, as the smallest switch of the
    part (int64[switches]).
    """
    kept = (rank[graph.a] < tier) & (rank[graph.b] < tier)
    return components(graph.n, graph.a[kept], graph.b[kept])


def _lowered(graph: SwitchCuts, rank: np.ndarray, side: np.ndarray, tier: int) -> np.ndarray:
    """Return ``side`` with all switches above ``tier`` on the second side, so that the cut crosses links above
    ``tier``.
    """
    lowered = side & (rank == 1)
    for t in range(2, tier + 1):
        pull = np.zeros(graph.n)
        for end, peer in ((graph.a, graph.b), (graph.b, graph.a)):
            sure = (rank[end] == t) & (rank[peer] == t - 1)
            pull += np.bincount(end, np.where(sure, np.where(lowered[peer], graph.gbps, -graph.gbps), 0.0), graph.n)
        lowered |= (rank == t) & (pull > 0)
    return lowered


def _spectral(graph: SwitchCuts, part: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return the Fiedler vector of the connected part with most hosts (float64[switches], 0 for other switches), and
    whether the computation converged.
    """
    vector = np.zeros(graph.n)
    largest = np.flatnonzero(part == part[int(size.argmax())])
    row = np.full(graph.n, -1)
    row[largest] = np.arange(len(largest))
    inside = row[graph.a] >= 0
    part_vector, _, converged = fiedler(len(largest), row[graph.a[inside]], row[graph.b[inside]], graph.gbps[inside])
    vector[largest] = part_vector
    return vector, converged


def _families(graph: SwitchCuts, rank: np.ndarray, shape: Shape) -> list[tuple[str, np.ndarray]]:
    """Return (description, int64[switches]) of each partition to examine. Its parts are single switches, parts of a
    tree, or groups of a dragonfly.
    """
    index = np.arange(graph.n)
    families: list[tuple[str, np.ndarray]] = [("", index)]
    if shape.kind in ("fat-tree", "dragonfly+"):
        families += [(f"below tier {t}, with ", _below(graph, rank, t)) for t in range(3, int(rank.max(initial=0)) + 1)]
    if shape.groups:
        group = shape.group[graph.node].astype(np.int64)
        families.append(("group of ", np.where(group >= 0, group, group.max(initial=0) + 1 + index)))
    return families


def _by_node(graph: SwitchCuts, part: np.ndarray, nodes: int) -> np.ndarray:
    out = np.full(nodes, -1)
    out[graph.node] = part
    return out


def _narrowest_part(
    graph: SwitchCuts, view: FabricView, families: list[tuple[str, np.ndarray]], speeds_known: bool
) -> NarrowestPart | None:
    """Return the part with the lowest outgoing capacity relative to its hosts' sending rate; None if every part can
    send at full rate.
    """
    total, best = float(graph.host_gbps.sum()), (1.0 - 1e-9, 0.0, 0, "")
    for name, part in families:
        n = int(part.max(initial=0)) + 1
        hosts_gbps = np.bincount(part[graph.host_switch], graph.host_gbps, n)
        crossing = part[graph.a] != part[graph.b]
        out = sum(np.bincount(part[end[crossing]], graph.gbps[crossing], n) for end in (graph.a, graph.b))
        most = np.minimum(hosts_gbps, total - hosts_gbps)
        share = np.divide(out, most, out=np.ones(n), where=most > 0)
        worst = int(share.argmin())
        if share[worst] < best[0] - 1e-9:
            count = int((part[graph.host_switch] == worst).sum())
            switch = view.display_names[int(graph.node[int(np.flatnonzero(part == worst)[0])])]
            best = (float(share[worst]), float(np.broadcast_to(out, n)[worst]), count, f"{name}{switch}")
    if not best[3]:
        return None
    return NarrowestPart(
        best[3], best[2], len(graph.host_gbps), round(best[1], 3) if speeds_known else None, round(100 * best[0], 2)
    )
