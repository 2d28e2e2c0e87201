"""Finds joins with too few cables. A join is a pair of switches, or of groups, that the recognised grid or dragonfly
connects. The check needs no rules about port numbers, so it also works in fabrics of a few switches, in which there are
too few ports of a kind to learn a rule.

In a grid, the joins are the neighbours along each dimension. In a dragonfly, they are all pairs of switches within a
group, and all pairs of groups (Kim et al., ISCA 2008). All joins of a kind have the same number of cables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from softib.diags.rules import mode
from softib.diags.structure.exchanged.plugs import node_pair
from softib.diags.structure.grids import Shape
from softib.diags.view import FabricView

__all__ = ["Joins", "Unjoined", "joins", "lacking", "misfit"]

FEW_MORE = 2
"""Maximum number of joins with more cables than most. If there are more, the number of cables per join is not a
rule.
"""


@dataclass(frozen=True)
class Unjoined:
    """A join with fewer cables than similar joins: the nodes of both sides, and their free ports at which a cable may
    be missing.
    """

    nodes_a: tuple[int, ...]
    nodes_b: tuple[int, ...]
    ports_a: tuple[int, ...]
    ports_b: tuple[int, ...]

    @property
    def certain(self) -> bool:
        """Whether each side has only one candidate port."""
        return len(self.ports_a) == len(self.ports_b) == 1

    def without(self, ports: Collection[int]) -> Unjoined:
        """Return the join without the candidates ``ports``, which other findings explain."""
        ends = (tuple(p for p in side if p not in ports) for side in (self.ports_a, self.ports_b))
        return Unjoined(self.nodes_a, self.nodes_b, *ends)


@dataclass
class Joins:
    """All joins of a shape. ``wanted``: their number. ``missing``: those with too few cables. ``uneven``: some joins
    have more cables than most, so the number of cables per join is not a rule.
    """

    wanted: int = 0
    uneven: bool = False
    kept: set[tuple[int, int]] = field(default_factory=set)
    """Pairs of neighbouring switches (the lower row first) that do not have more cables than most."""
    missing: list[Unjoined] = field(default_factory=list)
    surplus: list[tuple[tuple[int, ...], int]] = field(default_factory=list)
    """For each join with more cables than most: its cables (rows of the view), and the number of additional cables."""

    def extra_cables(self, view: FabricView, shape: Shape) -> list[int]:
        """Return the cables (rows of the view) between switches of the shape that the shape does not connect."""
        if not shape.forms:
            return []
        inside = shape.coordinates[:, 0] >= 0
        rows = view.between_switches
        rows = rows[inside[view.node_a[rows]] & inside[view.node_b[rows]]]
        over = {row for cables, _ in self.surplus for row in cables}
        return [
            r
            for r in rows.tolist()
            if node_pair(int(view.node_a[r]), int(view.node_b[r])) not in self.kept and r not in over
        ]


def joins(view: FabricView, shape: Shape) -> Joins:
    """Return the joins of ``shape``. A shape that is neither a grid nor a dragonfly has no joins."""
    compared = Joins()
    linked = _Links(view)
    if shape.forms:
        for k in range(len(shape.dims)):
            _compare(compared, linked, *_along(shape, k), k)
    elif shape.kind == "dragonfly":
        members = np.flatnonzero(shape.group >= 0)
        _compare(compared, linked, *_within(shape.group, members), 0)
    if shape.kind in ("dragonfly", "dragonfly+"):
        _between_groups(compared, linked, shape.group)
    return compared


def misfit(view: FabricView, shape: Shape) -> int:
    """Return the number of cables and pairs that do not match the shape. In a grid, these are cables between switches
    that are not neighbours, and neighbours without a cable; in a dragonfly, pairs with fewer or more cables than most.
    """
    if not shape.forms:
        compared = joins(view, shape)
        return len(compared.missing) + len(compared.surplus)
    linked = _Links(view)
    ends = [_along(shape, k) for k in range(len(shape.dims))]
    a, b = (np.concatenate([end[i] for end in ends]) for i in (0, 1))
    codes = np.minimum(a, b).astype(np.int64) * linked.n + np.maximum(a, b)
    x, y = view.node_a[linked.rows], view.node_b[linked.rows]
    cables = np.minimum(x, y).astype(np.int64) * linked.n + np.maximum(x, y)
    return int((~np.isin(cables, codes)).sum() + (~np.isin(np.unique(codes), cables)).sum())


def lacking(view: FabricView, shape: Shape) -> np.ndarray:
    """Return whether each switch may lack a cable to another switch (bool[nodes]). A switch of a grid lacks none if it
    has as many cables as neighbours in the grid, even if these cables lead to other switches.
    """
    least = np.full(len(view.names), np.iinfo(np.int64).max)
    if not shape.forms:
        return least > 0
    rows = view.between_switches
    cables = np.bincount(np.concatenate([view.node_a[rows], view.node_b[rows]]), minlength=len(least))
    least[shape.coordinates[:, 0] >= 0] = 0
    linked = _Links(view)
    for k in range(len(shape.dims)):
        a, b = _along(shape, k)
        count = linked.count(a, b)
        usual = int(mode(count[count > 0])[0]) if count.any() else 0
        for end in (a, b):
            np.add.at(least, end, usual)
    return np.asarray(cables < least)


class _Links:
    """The cables between each pair of switches, and the port numbers that each kind of join uses."""

    def __init__(self, view: FabricView):
        self.view, self.fabric = view, view.fabric
        rows = self.rows = view.between_switches
        ends = np.concatenate([view.port_a[rows], view.port_b[rows]])
        self.node, self.number = self.fabric.port_node[ends], self.fabric.port_num[ends]
        self.peer = self.fabric.port_node[self.fabric.port_peer[ends]]
        self.n = len(view.names)
        self.codes, self.times = np.unique(self.node.astype(np.int64) * self.n + self.peer, return_counts=True)
        self.linked = np.bincount(self.node, minlength=self.n) > 0

    def count(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the number of cables between each of ``a`` and each of ``b``."""
        code = a.astype(np.int64) * self.n + b
        at = np.minimum(np.searchsorted(self.codes, code), len(self.codes) - 1)
        return np.where(self.codes[at] == code, self.times[at], 0)

    def cables(self, a: np.ndarray, b: np.ndarray) -> tuple[int, ...]:
        """Return all cables between a node of ``a`` and a node of ``b``."""
        x, y = self.view.node_a[self.rows], self.view.node_b[self.rows]
        joined = (np.isin(x, a) & np.isin(y, b)) | (np.isin(x, b) & np.isin(y, a))
        return tuple(self.rows[joined].tolist())

    def numbers(self, a: np.ndarray, b: np.ndarray) -> Counter[int]:
        """Return how often each port number of nodes ``a`` leads to nodes ``b``."""
        code = np.unique(a.astype(np.int64) * self.n + b)
        return Counter(self.number[np.isin(self.node.astype(np.int64) * self.n + self.peer, code)].tolist())

    def free(self, nodes: np.ndarray, numbers: Counter[int]) -> tuple[int, ...]:
        """Return the free ports of ``nodes`` with one of ``numbers``; if there are none, all their free ports."""
        f = self.fabric
        ports = [p for node in nodes.tolist() for p in f.ports_of(node) if f.port_cable[p] < 0]
        return tuple([p for p in ports if int(f.port_num[p]) in numbers] or ports)


def _along(shape: Shape, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of nodes that are neighbours along dimension ``k`` of a grid; the node with the lower coordinate
    comes first.
    """
    nodes = np.flatnonzero(shape.coordinates[:, 0] >= 0)
    x = shape.coordinates[nodes]
    size, form = shape.dims[k], shape.forms[k]
    stride = np.concatenate([np.cumprod(np.array(shape.dims)[:0:-1])[::-1], [1]]).astype(np.int64)
    node_at = np.full(int(np.prod(shape.dims)), -1)
    node_at[x @ stride] = nodes
    a: list[np.ndarray] = []
    b: list[np.ndarray] = []
    for step in range(1, size if form == "full" else 2):
        there = x.copy()
        there[:, k] += step
        inside = there[:, k] < size
        if form == "cycle":
            there[:, k] %= size
            inside[:] = True
        mate = np.where(inside, node_at[np.where(inside[:, None], there, 0) @ stride], -1)
        a.append(nodes[mate >= 0])
        b.append(mate[mate >= 0])
    return np.concatenate(a), np.concatenate(b)


def _within(group: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    i, j = np.triu_indices(len(members), 1)
    same = group[members[i]] == group[members[j]]
    return members[i[same]], members[j[same]]


def _compare(compared: Joins, linked: _Links, a: np.ndarray, b: np.ndarray, kind: int) -> None:
    """Compare the joins ``a[i]``-``b[i]``, which are of one kind, with each other. Add to ``compared`` those with too
    few cables (``missing``) and with too many (``surplus``)."""
    alive = linked.linked[a] & linked.linked[b]
    a, b = a[alive], b[alive]
    count = linked.count(a, b)
    usual, _ = mode(count[count > 0])
    compared.wanted += usual * len(a)
    compared.uneven |= bool((count > usual).any())
    compared.surplus += [
        (linked.cables(a[i], b[i]), int(count[i] - usual)) for i in np.flatnonzero(count > usual)[:FEW_MORE]
    ]
    fits = (count > 0) & (count <= usual)
    compared.kept.update(zip(np.minimum(a, b)[fits].tolist(), np.maximum(a, b)[fits].tolist(), strict=True))
    less = np.flatnonzero(count < usual)
    if not len(less):
        return
    here, there = linked.numbers(a, b), linked.numbers(b, a)
    for i in less.tolist():
        ends = (linked.free(a[i : i + 1], here), linked.free(b[i : i + 1], there))
        compared.missing += [Unjoined((int(a[i]),), (int(b[i]),), *ends)] * int(usual - count[i])


def _between_groups(compared: Joins, linked: _Links, group: np.ndarray) -> None:
    """Add to ``compared`` the pairs of groups with fewer cables than most. If there are only two groups, no other pair
    is available for comparison; then one free global port in each group indicates a missing cable.
    """
    of, to = group[linked.node], group[linked.peer]
    across = (of >= 0) & (to >= 0) & (of != to)
    groups = int(group.max(initial=-1)) + 1
    table = np.zeros((groups, groups), np.int64)
    np.add.at(table, (of[across], to[across]), 1)
    size = np.bincount(group[(group >= 0) & linked.linked], minlength=groups)
    whole = np.flatnonzero(size == mode(size)[0])  # smaller groups lack a switch and therefore its cables
    g, h = (whole[i] for i in np.triu_indices(len(whole), 1))
    count = table[g, h]
    usual, _ = mode(count[count > 0])
    numbers = Counter(linked.number[across].tolist())
    free = []
    for k in range(groups):
        ports = linked.free(np.flatnonzero((group == k) & linked.linked), numbers)
        free.append(tuple(p for p in ports if int(linked.fabric.port_num[p]) in numbers))
    if groups == 2 and [len(ports) for ports in free] == [1, 1]:
        usual += 1
    compared.wanted += usual * len(g)
    compared.uneven |= bool((count > usual).any())
    for i in np.flatnonzero(count > usual)[:FEW_MORE].tolist():
        low, high = (np.flatnonzero(group == k) for k in (g[i], h[i]))
        compared.surplus.append((linked.cables(low, high), int(count[i] - usual)))
    for i in np.flatnonzero(count < usual).tolist():
        one, other = int(g[i]), int(h[i])
        nodes_a, nodes_b = (tuple(sorted({int(linked.fabric.port_node[p]) for p in free[k]})) for k in (one, other))
        compared.missing += [Unjoined(nodes_a, nodes_b, free[one], free[other])] * int(usual - count[i])
