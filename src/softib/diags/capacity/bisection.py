"""Bisection bandwidth: the rate at which half of the hosts can send to the other half, in the worst
case.

The bisection is a minimum cut into equal halves (Dally and Towles, *Principles and practices of
interconnection networks*, chapter 3.3); the bisection bandwidth is the capacity across it, here in
one direction. **Full* is the sending rate of the weaker half's hosts: at 100 % no half of the hosts
can overload the fabric.

Finding it is NP-hard (Garey, Johnson and Stockmeyer 1976). Up to
:data:`~softib.diags.capacity.cuts.EXACT` switches every cut is examined. Beyond, cuts that the
structure suggests (below each tier of a tree, across each dimension of a grid, between groups) and
one along the Fiedler vector are each narrowed switch by switch; the narrowest is used. It is a real
cut, so it bounds the bisection from above; the tests compare it with every cut of small graphs and
with published formulas.

**Parts* are groups of hosts that together cannot send to the rest at full rate. The hosts below one
switch, one part of a tree below a tier, or one group of a dragonfly are examined.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from softib.diags.capacity.cuts import EXACT, Cut, SwitchCuts, fiedler
from softib.diags.view import FabricView, components, gbps_text
from softib.plural import counted
from softib.result import Result

if TYPE_CHECKING:
    from softib.diags.structure.grids import Shape

__all__ = ["Bisection", "NarrowestPart", "bisect"]


RANDOM_STARTS = 12
"""Number of random halves to start from, in addition to the spectral one, if no structure suggests
any."""


@dataclass(frozen=True)
class NarrowestPart(Result):
    """Hosts behind few cables."""

    name: str
    hosts: int
    """Host ports there."""
    of: int
    """Number of host ports of the fabric."""
    gbps: float | None
    """Gb/s of the outgoing cables; None: speeds unknown."""
    percent: float
    """The same in percent of the sending rate of these hosts (or of the rest, if lower)."""

    def __str__(self) -> str:
        rate = "" if self.gbps is None else f" ({gbps_text(self.gbps)})"
        hosts = f"{self.hosts:,} of {counted(self.of, 'host port')}"
        return f"{self.name}: {hosts}, which can send {self.percent:.1f} % of what they could{rate} to the others"


@dataclass(frozen=True)
class Bisection:
    """``gbps`` across the bisection (None: the source records no speeds), ``percent`` of full
    (None: no hosts).

    ``how``: the method that found it; ``exact``: no narrower cut exists. ``host_port`` int64[hosts]
    are the ports of the hosts and ``side`` bool[hosts] their halves. ``part`` is the narrowest
    part, None if every part can send at full rate; ``partitions`` are all examined partitions, each
    int64[nodes]: the part of each switch.
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
    """Return the bisection of a recognised fabric; ``rank`` int[nodes] by tier, 1 = leaves."""
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


def _searched(graph: SwitchCuts, rank: np.ndarray, shape: Shape) -> tuple[Cut, bool, str]:
    """Return the narrowest of the proposed cuts after improvement, whether it is exact, and how it
    was found."""
    best: Cut | None = None
    name, tried = "", 0
    for label, side in _proposals(graph, rank, shape):
        tried += 1
        for cut in (graph.cut(side), graph.cut(graph.narrowed(side))):
            if best is None or (cut.share, cut.gbps) < (best.share - 1e-12, best.gbps - 1e-9):
                best, name = cut, label
    assert best is not None
    # A cut without any crossing link is the narrowest possible.
    exact = best.gbps == 0
    return best, exact, f"narrowest of {tried} improved cuts, {name}" + ("" if exact else "; an upper bound")


def _proposals(graph: SwitchCuts, rank: np.ndarray, shape: Shape) -> list[tuple[str, np.ndarray]]:
    """Return (name, bool[switches]) of the cuts to start from."""
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
    """Return orders of leaves: pod by pod, and by uplinks."""
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
    """Return parts that remain without the switches of ``tier`` and above: smallest switch of each
    part (int64[switches])."""
    kept = (rank[graph.a] < tier) & (rank[graph.b] < tier)
    return components(graph.n, graph.a[kept], graph.b[kept])


def _lowered(graph: SwitchCuts, rank: np.ndarray, side: np.ndarray, tier: int) -> np.ndarray:
    """Return ``side`` for the switches up to ``tier``; the others all on the second side: a cut of
    the links above ``tier``."""
    lowered = side & (rank == 1)
    for t in range(2, tier + 1):
        pull = np.zeros(graph.n)
        for end, peer in ((graph.a, graph.b), (graph.b, graph.a)):
            sure = (rank[end] == t) & (rank[peer] == t - 1)
            pull += np.bincount(end, np.where(sure, np.where(lowered[peer], graph.gbps, -graph.gbps), 0.0), graph.n)
        lowered |= (rank == t) & (pull > 0)
    return lowered


def _spectral(graph: SwitchCuts, part: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return Fiedler vector of the connected part with most hosts (float64[switches], 0 elsewhere),
    and whether it converged."""
    vector = np.zeros(graph.n)
    largest = np.flatnonzero(part == part[int(size.argmax())])
    row = np.full(graph.n, -1)
    row[largest] = np.arange(len(largest))
    inside = row[graph.a] >= 0
    part_vector, _, converged = fiedler(len(largest), row[graph.a[inside]], row[graph.b[inside]], graph.gbps[inside])
    vector[largest] = part_vector
    return vector, converged


def _families(graph: SwitchCuts, rank: np.ndarray, shape: Shape) -> list[tuple[str, np.ndarray]]:
    """Return (description, int64[switches]) of the partitions to examine: switches, parts of a
    tree, groups."""
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
    """Return the part with the lowest outgoing capacity relative to its sending rate, None if every
    part can send at full rate."""
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
