"""Bisection bandwidth: what half of the hosts can send to the other half, by a cut that the structure tells.

Definitions (Dally and Towles, chapter 3.3: the bisection is a minimum cut into equal halves; the bisection bandwidth is
the capacity across it, here in one direction):

* *trees*: half of the traffic of every leaf must go up, so the narrowest tier decides: the minimum over tiers of the sum
  over switches of min(Gb/s down, Gb/s up), halved. For full trees it equals the cut; with oversubscription it is the cut
  of the narrowest tier; a leaf that lost uplinks counts with what is left;
* *grids and dragonflies*: links that cross the middle of a dimension, or of the row of groups: the least over dimensions.
  For odd sizes the halves differ by one plane, and the figure is that of this cut;
* *irregular fabrics*: a cut along the Fiedler vector (Fiedler 1973; Pothen, Simon and Liou 1990): an upper bound.

*Full* is the injection bandwidth of the smaller half. 100 % is a non-blocking fabric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softib.diags.view import FabricView

if TYPE_CHECKING:
    from softib.diags.grids import Shape

__all__ = ["Bisection", "bisect"]

ITERATIONS = 200


@dataclass(frozen=True)
class Bisection:
    """``gbps`` across the bisection (None: the source records no speeds), ``percent`` of full (None: no hosts)."""

    gbps: float | None
    full_gbps: float | None
    percent: float | None
    how: str


def bisect(view: FabricView, rank: np.ndarray, shape: Shape) -> Bisection:
    """Bisection bandwidth of a recognised fabric."""
    rows, _, switch_port = view.to_hosts
    host_gbps = np.bincount(view.fabric.port_node[switch_port], view.link_gbps[rows], minlength=len(view.names))
    total = float(host_gbps.sum())
    if total == 0:
        return Bisection(None, None, None, "no hosts")
    if shape.kind == "single-switch":
        cut, full, how = total / 2, total / 2, "one switch"
    elif shape.kind == "fat-tree":
        cut, full, how = _tier_cut(view, rank, host_gbps), total / 2, "narrowest tier"
    else:
        cut, full, how = _middle_cut(view, shape, host_gbps)
    told = "speeds" in view.records
    percent = round(100 * min(1.0, cut / full), 2) if full else None
    return Bisection(round(min(cut, full), 3) if told else None, round(full, 3) if told else None, percent, how)


def _tier_cut(view: FabricView, rank: np.ndarray, host_gbps: np.ndarray) -> float:
    links = view.between_switches
    n = len(view.names)
    down, up = host_gbps.copy(), np.zeros(n)
    for own, far in ((view.node_a, view.node_b), (view.node_b, view.node_a)):
        o, p, gbps = own[links], far[links], view.link_gbps[links]
        higher, lower = rank[p] > rank[o], rank[p] < rank[o]
        up += np.bincount(o[higher], gbps[higher], minlength=n)
        down += np.bincount(o[lower], gbps[lower], minlength=n)
    through = np.minimum(down, up)
    top = int(rank.max())
    return min(float(through[rank == r].sum()) / 2 for r in range(1, top))


def _middle_cut(view: FabricView, shape: Shape, host_gbps: np.ndarray) -> tuple[float, float, str]:
    """(Gb/s across, Gb/s of the smaller half's hosts, how)."""
    sides = []
    if shape.dims:
        for k, size in enumerate(shape.dims):
            x = shape.coordinates[:, k]
            sides.append((f"across dimension {k}", x < size // 2, x >= 0))
    elif shape.groups:
        sides.append(("between two halves of the groups", shape.group < shape.groups // 2, shape.group >= 0))
    else:
        sides.append(("spectral cut, an upper bound", _spectral_half(view, host_gbps), view.is_switch))
    links = view.between_switches
    best: tuple[float, float, str] | None = None
    for how, low, known in sides:
        a, b = view.node_a[links], view.node_b[links]
        crossing = known[a] & known[b] & (low[a] != low[b])
        cut = float(view.link_gbps[links][crossing].sum())
        full = min(float(host_gbps[known & low].sum()), float(host_gbps[known & ~low].sum()))
        if best is None or cut * (best[1] or 1) < best[0] * (full or 1):
            best = (cut, full, how)
    assert best is not None
    return best


def _spectral_half(view: FabricView, host_gbps: np.ndarray) -> np.ndarray:
    """bool[nodes]: one side of a cut of the switches into halves of equal host bandwidth along the Fiedler vector."""
    links = view.between_switches
    switches, at = np.unique(np.concatenate([view.node_a[links], view.node_b[links]]), return_inverse=True)
    low = np.zeros(len(view.names), bool)
    if len(switches) < 2:
        return low
    a, b = at[: len(links)], at[len(links) :]
    weight, n = view.link_gbps[links], len(switches)
    degree = np.bincount(a, weight, n) + np.bincount(b, weight, n)
    shift = 2 * float(degree.max()) or 1.0
    v = np.cos(np.arange(n) * 1.7) + np.arange(n) / n  # any vector that is not constant; no randomness
    for _ in range(ITERATIONS):
        v = v - v.mean()
        v = (shift - degree) * v + np.bincount(a, weight * v[b], n) + np.bincount(b, weight * v[a], n)
        v /= float(np.abs(v).max()) or 1.0
    order = np.argsort(v, kind="stable")
    hosts = host_gbps[switches][order]
    half = np.cumsum(hosts) <= hosts.sum() / 2
    low[switches[order[half]]] = True
    return low
