"""Cuts of a fabric into two halves of its hosts: computes their capacity, and searches for a narrow cut.

A *host* is a CA port on a switch. A cut puts every switch on one of two sides. A bisection has half of the hosts on
each side. If one side of a cut has more hosts, the excess hosts are separated from their switches. The cost of the cut
is therefore the capacity of the cables that cross it, plus the capacity of the cables of the excess hosts, for which
the slowest are chosen. A cut that separates few hosts from many is therefore not a narrow bisection, even if few cables
cross it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from softib.diags.view import FabricView

__all__ = ["EXACT", "Cut", "SwitchCuts", "fiedler"]


STEPS, RESTARTS = 120, 8
TOLERANCE = 1e-5
"""Tolerance of the residual, relative to the largest eigenvalue. The vector is only used to sort switches, for which
this precision is sufficient.
"""


class Fiedler(NamedTuple):
    """Fiedler vector of a graph, with its eigenvalue."""

    vector: np.ndarray
    """float64[nodes] of length 1."""
    value: float
    converged: bool


def fiedler(n: int, a: np.ndarray, b: np.ndarray, weight: np.ndarray) -> Fiedler:
    """Return the Fiedler vector of a connected graph with ``n`` nodes and edges a[i]–b[i] of ``weight[i]``."""
    if n < 2:
        return Fiedler(np.zeros(n), 0.0, True)
    degree = np.bincount(a, weight, n) + np.bincount(b, weight, n)
    bound = 2 * float(degree.max()) or 1.0

    def laplacian(v: np.ndarray) -> np.ndarray:
        return np.asarray(degree * v - np.bincount(a, weight * v[b], n) - np.bincount(b, weight * v[a], n))

    # Any vector that is not constant is suitable. A fixed vector makes results reproducible.
    vector, value = np.cos(np.arange(n) * 1.7) + np.arange(n) / n, 0.0
    for _ in range(RESTARTS):
        vector, value = _lanczos(laplacian, vector, min(STEPS, n - 1))
        if float(np.linalg.norm(laplacian(vector) - value * vector)) <= TOLERANCE * bound:
            return Fiedler(vector, value, True)
    return Fiedler(vector, value, False)


def _lanczos(apply, start: np.ndarray, steps: int) -> tuple[np.ndarray, float]:  # type: ignore[no-untyped-def]
    """Return the smallest Ritz pair of ``apply`` in the Krylov space of ``start``, among vectors whose mean is 0."""
    v = start - start.mean()
    rows = np.zeros((steps, len(v)))
    rows[0] = v / np.linalg.norm(v)
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    for _ in range(steps):
        basis = rows[: len(diagonal) + 1]
        w = apply(basis[-1])
        diagonal.append(float(w @ basis[-1]))
        for _ in range(2):  # twice is enough (Parlett 6.9)
            w = w - basis.T @ (basis @ w)
            w -= w.mean()
        size = float(np.linalg.norm(w))
        if size < 1e-10 * (1 + abs(diagonal[0])) or len(diagonal) == steps:
            break
        off_diagonal.append(size)
        rows[len(diagonal)] = w / size
    k = len(diagonal)
    matrix = np.diag(diagonal) + np.diag(off_diagonal[: k - 1], 1) + np.diag(off_diagonal[: k - 1], -1)
    values, vectors = np.linalg.eigh(matrix)
    ritz = rows[:k].T @ vectors[:, 0]
    ritz -= ritz.mean()
    return ritz / np.linalg.norm(ritz), float(values[0])


EXACT = 13
"""Largest number of switches for which every cut is examined."""
PATIENCE, PASSES = 128, 20


@dataclass(frozen=True)
class Cut:
    """A cut. ``gbps``: its capacity in one direction. ``full``: the sending rate of the hosts in the half with the
    lower rate. ``side`` bool[hosts]: the half of each host.
    """

    gbps: float
    full: float
    side: np.ndarray

    @property
    def share(self) -> float:
        """Return :attr:`gbps` as a share of :attr:`full`; 1 if :attr:`full` is 0."""
        return self.gbps / self.full if self.full else 1.0


class SwitchCuts:
    """The switches of a fabric as a graph with hosts. Row i of an array of switches is the switch with node index
    ``node[i]`` (int64[switches])."""

    def __init__(self, view: FabricView):
        self.node = np.flatnonzero(view.is_switch)
        self.n = len(self.node)
        row = np.full(len(view.names), -1)
        row[self.node] = np.arange(self.n)
        rows, self.host_port, switch_port = view.to_hosts
        self.host_switch = row[view.fabric.port_node[switch_port]]
        self.host_gbps = view.link_gbps[rows]
        self.hosts = np.bincount(self.host_switch, minlength=self.n)
        links = view.between_switches
        a, b = row[view.node_a[links]], row[view.node_b[links]]
        pair, which = np.unique(np.minimum(a, b) * max(self.n, 1) + np.maximum(a, b), return_inverse=True)
        self.a, self.b = pair // max(self.n, 1), pair % max(self.n, 1)
        self.gbps = np.bincount(which, view.link_gbps[links], len(pair))
        self.low, self.high = len(self.host_gbps) // 2, -(-len(self.host_gbps) // 2)

    def cut(self, side: np.ndarray) -> Cut:
        """Return the cheapest cut into equal halves of the hosts in which the switches are divided as in ``side``
        (bool[switches]).
        """
        across = float(self.gbps[side[self.a] != side[self.b]].sum())
        half = side[self.host_switch].copy()
        count = int(half.sum())
        for many, excess in ((True, count - self.high), (False, self.low - count)):
            if excess > 0:
                there = np.flatnonzero(half == many)
                moved = there[np.argsort(self.host_gbps[there], kind="stable")[:excess]]
                across += float(self.host_gbps[moved].sum())
                half[moved] = not many
        full = min(float(self.host_gbps[half].sum()), float(self.host_gbps[~half].sum()))
        return Cut(across, full, half)

    def prefix(self, order: np.ndarray) -> np.ndarray:
        """Return the first switches of ``order`` that together have half of the hosts (bool[switches]; all switches if
        they have fewer hosts).
        """
        before = np.cumsum(self.hosts[order]) - self.hosts[order] / 2
        side = np.zeros(self.n, bool)
        side[order[before < len(self.host_gbps) / 2]] = True
        return side

    def narrowed(self, side: np.ndarray) -> np.ndarray:
        """Return ``side`` after single switches were moved to make the cut cheaper (Fiduccia and Mattheyses, DAC
        1982).
        """
        from softib.diags.capacity.cut_kernels import Scratch, Switches, narrow

        first, peer, weight = self._neighbours
        dues = np.concatenate([[0.0], np.cumsum(np.sort(self.host_gbps))])
        narrower = side.astype(np.uint8)
        switches = Switches(first, peer, weight, self.hosts.astype(np.int64), dues)
        scratch = Scratch(np.zeros(self.n), np.zeros(self.n, np.uint8), np.zeros(self.n, np.int64))
        narrow(switches, self.low, self.high, PATIENCE, PASSES, narrower, scratch)
        return narrower.astype(bool)

    @cached_property
    def _neighbours(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a CSR list of each switch's neighbours, with the capacity to each."""
        end, peer = np.concatenate([self.a, self.b]), np.concatenate([self.b, self.a])
        order = np.argsort(end, kind="stable")
        first = np.searchsorted(end[order], np.arange(self.n + 1))
        return first.astype(np.int64), peer[order].astype(np.int64), np.concatenate([self.gbps, self.gbps])[order]

    def every(self) -> np.ndarray:
        """Return every cut (bool[2^(switches - 1), switches]). The last switch is always on the second side. There must
        be at most :data:`EXACT` switches.
        """
        numbers = np.arange(1 << max(self.n - 1, 0))[:, None]
        return ((numbers >> np.arange(self.n)) & 1).astype(bool)

    def narrowest_of_all(self) -> Cut:
        """Return the narrowest bisection by examining every cut."""
        sides = self.every()
        across = (sides[:, self.a] != sides[:, self.b]) @ self.gbps
        count = sides @ self.hosts
        # Cuts are sorted by a lower bound of their cost, from the slowest hosts of the fabric. The exact cost is then
        # computed for a few cuts only.
        dues = np.concatenate([[0.0], np.cumsum(np.sort(self.host_gbps))])
        least = across + dues[np.maximum(np.maximum(count - self.high, self.low - count), 0)]
        weighed = np.sort(self.host_gbps)[::-1]
        most = float(weighed[: self.low].sum())  # no half of the hosts can send more
        best: Cut | None = None
        for i in np.argsort(least, kind="stable"):
            if best is not None and least[i] >= best.share * most - 1e-9:
                break
            one = self.cut(sides[i])
            if best is None or one.share < best.share - 1e-12:
                best = one
        assert best is not None
        return best
