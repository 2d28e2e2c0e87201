"""Finds absent and shifted hosts from port numbers only. Hosts with several adapters use the same port number on each
leaf of a unit (a group of leaves, one per rail). A number between used numbers that is free on all leaves of a unit
indicates an absent host. If the hosts of one leaf are all one port further than on the other leaves of its unit, this
leaf is rotated. For hosts with one adapter, a number that is free on very few leaves of a kind indicates an absent
host.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from softib.components import components
from softib.diags.hosts.host_order import HostExchange
from softib.diags.rules import mode
from softib.diags.structure.rails import system_of
from softib.diags.view import FabricView

__all__ = ["TurnedRail", "Vacancy", "exchanged_in_units", "turned_rails", "vacancies"]

ALIKE = 0.9
"""Minimum share of a unit's port numbers that have the same host on all leaves, and minimum share of leaves that use a
port number.
"""
MIN_HOSTS = 4
"""Minimum number of hosts of a unit."""
MIN_LEAVES = 4
"""Minimum number of leaves of a kind for a free number to be a gap."""
FEW = 0.02
"""Maximum share of the host ports of a kind of leaves that may be empty. With a larger share, the leaves are partly
filled by design.
"""


FEW_OF_UNIT = 0.1
"""Maximum share of a unit's port numbers that may be empty. It is larger because several leaves agree."""
MIN_RAILS = 3
"""Minimum number of leaves of a unit for a majority that shows that one leaf is wrong."""
SHIFTS = (1, -1, 2, -2)


@dataclass(frozen=True)
class Vacancy:
    """Free leaf ports (rows) of an absent host, which the hosts at neighbouring ports suggest. ``sure``: several
    adapters agree.
    """

    ports: tuple[int, ...]
    neighbours: tuple[int, ...]
    sure: bool


@dataclass(frozen=True)
class TurnedRail:
    """A leaf on which each host is ``by`` ports further than on the ``others`` leaves of its unit. ``ports``: rows of
    its host ports.
    """

    leaf: int
    ports: tuple[int, ...]
    by: int
    others: int


class _Grid:
    """A unit. ``at`` int64[numbers, leaves]: the host at each port number of each leaf (-1: none)."""

    def __init__(self, view: FabricView, held: dict[int, int], leaves: np.ndarray):
        f = view.fabric
        last = int(f.node_nports[leaves].min())
        self.leaves, self.rows = leaves, f.node_base[leaves].astype(np.int64)
        self.at = np.full((last + 1, len(leaves)), -1, np.int64)
        for column, base in enumerate(self.rows.tolist()):
            self.at[1:, column] = [held.get(base + number, -1) for number in range(1, last + 1)]
        self.there = self.at >= 0
        self.used = np.flatnonzero(self.there.any(axis=1))


class _Units(NamedTuple):
    """The leaves with their hosts."""

    held: dict[int, int]
    """Leaf port → its host."""
    grids: list[_Grid]
    """Units of several leaves."""
    lone: list[int]
    """Leaves that share no hosts with another leaf."""


def _units_of(view: FabricView) -> _Units:
    """Return the units of all hosts with a link."""
    _, host_port, leaf_port = view.to_hosts
    f = view.fabric
    if not len(host_port):
        return _Units({}, [], [])
    system = system_of(view)[f.port_node[host_port]]
    leaf = f.port_node[leaf_port].astype(np.int64)
    unit = _units(len(view.names), system, leaf)
    held = dict(zip(leaf_port.tolist(), system.tolist(), strict=True))
    order = np.argsort(unit[leaf], kind="stable")
    parts = [np.unique(leaf[part]) for part in np.split(order, np.flatnonzero(np.diff(unit[leaf][order])) + 1)]
    return _Units(
        held,
        [_Grid(view, held, leaves) for leaves in parts if len(leaves) > 1],
        [int(x[0]) for x in parts if len(x) == 1],
    )


def vacancies(view: FabricView, rank: np.ndarray) -> list[Vacancy]:
    """Return the ports of absent hosts. The running time is nearly linear in the number of host ports."""
    held, grids, lone = _units_of(view)
    out: list[Vacancy] = []
    for grid in grids:
        in_unit = _in_unit(view, held, grid)
        if in_unit is None:
            lone += grid.leaves.tolist()
        else:
            out += in_unit
    lone = [x for x in lone if rank[x] == 1]
    return out + list(_on_leaves(view, held, np.array(sorted(lone), np.int64)))


def turned_rails(view: FabricView) -> Iterator[TurnedRail]:
    """Yield the leaves on which each host is one or two ports further than on most other leaves of the unit."""
    for grid in _units_of(view).grids:
        if len(grid.leaves) < MIN_RAILS or len(grid.used) < MIN_HOSTS:
            continue
        usual = np.array([mode(grid.at[n][grid.there[n]])[0] for n in grid.used.tolist()])
        right = (grid.at[grid.used] == usual[:, None]).mean(axis=0)
        if (right >= ALIKE).sum() < MIN_RAILS - 1:
            continue
        for column in np.flatnonzero(right < 1 - ALIKE).tolist():
            held = grid.at[grid.used, column]
            by = next((k for k in SHIFTS if (np.roll(usual, k) == held).mean() >= ALIKE), 0)
            if by:
                ports = tuple((grid.rows[column] + grid.used).tolist())
                yield TurnedRail(int(grid.leaves[column]), ports, by, len(grid.leaves) - 1)


def exchanged_in_units(view: FabricView) -> Iterator[HostExchange]:
    """Yield pairs of hosts that are exchanged on fewer than half of the leaves of their unit: on the other leaves, each
    host has the port number that the other host has here.
    """
    for grid in _units_of(view).grids:
        if len(grid.leaves) < MIN_RAILS or len(grid.used) < MIN_HOSTS:
            continue
        counts = [mode(grid.at[n][grid.there[n]]) for n in grid.used.tolist()]
        usual, agree = np.array(counts).T
        right = grid.at[grid.used] == usual[:, None]
        there = int(grid.there[grid.used].sum())
        if len(np.unique(usual)) < len(usual) or (2 * agree <= grid.there[grid.used].sum(axis=1)).any():
            continue
        number_of = dict(zip(usual.tolist(), grid.used.tolist(), strict=True))
        follow = int((right & grid.there[grid.used]).sum())
        if follow < ALIKE * there:
            continue
        for row, column in np.argwhere(~right & grid.there[grid.used]).tolist():
            number, other = int(grid.used[row]), number_of.get(int(grid.at[grid.used[row], column]), -1)
            if number < other and grid.at[other, column] == usual[row]:
                base = int(grid.rows[column])
                yield HostExchange(base + number, base + other, follow, there, by_rails=True)


def _units(nodes: int, system: np.ndarray, leaf: np.ndarray) -> np.ndarray:
    """Return the unit of each node (int64[nodes]): leaves with adapters of the same hosts have the same number."""
    order = np.argsort(system, kind="stable")
    same = system[order][1:] == system[order][:-1]
    a, b = leaf[order][:-1][same], leaf[order][1:][same]
    return components(nodes, a, b)


def _in_unit(view: FabricView, held: dict[int, int], grid: _Grid) -> list[Vacancy] | None:
    """Return the empty ports of a unit; None if its port numbers do not have the same host on all leaves."""
    cable, at, there, used = view.fabric.port_cable, grid.at, grid.there, grid.used
    whole = [n for n in used.tolist() if there[n].sum() >= 2 and len(set(at[n][there[n]].tolist())) == 1]
    if len(whole) < MIN_HOSTS or len(whole) < ALIKE * len(used):
        return None
    full = {n for n in whole if there[n].mean() > 0.5}
    free = [n for n in range(min(whole), max(whole)) if not there[n].any() and (cable[grid.rows + n] < 0).all()]
    free = [n for n in free if {n - 1, n + 1} & full and _between(n, full)]
    if len(free) > max(1, FEW_OF_UNIT * len(whole)):
        return []
    return [Vacancy(tuple((grid.rows + n).tolist()), _neighbours(view, int(grid.rows[0]), n, held), True) for n in free]


def _between(number: int, full: set[int]) -> bool:
    return any(n in full for n in range(number - 3, number)) and any(n in full for n in range(number + 1, number + 4))


def _neighbours(view: FabricView, base: int, number: int, held: dict[int, int]) -> tuple[int, ...]:
    """Return the adapters at the ports before and after a free port."""
    f = view.fabric
    ports = [
        next((base + n for n in span if base + n in held), -1)
        for span in (range(number - 1, 0, -1), range(number + 1, 255))
    ]
    return tuple(int(f.port_node[f.port_peer[p]]) for p in ports if p >= 0)


def _on_leaves(view: FabricView, held: dict[int, int], leaves: np.ndarray) -> Iterator[Vacancy]:
    """Yield the port numbers that are free on very few leaves of a kind. Leaves of a kind have the same usual number of
    hosts.
    """
    f = view.fabric
    if len(leaves) < MIN_LEAVES:
        return
    last = int(f.node_nports[leaves].max())
    used = np.zeros((len(leaves), last + 3), bool)
    for i, leaf in enumerate(leaves.tolist()):
        ports = np.array([p for p in f.ports_of(leaf) if p in held], np.int64)
        used[i, f.port_num[ports]] = True
    usual, _ = mode(used.sum(axis=1))
    kind = np.flatnonzero(np.abs(used.sum(axis=1) - usual) <= max(1, usual // 8))
    if len(kind) < MIN_LEAVES:
        return
    always = used[kind].mean(axis=0) >= ALIKE
    gaps = np.argwhere(always & ~used[kind])
    if always.sum() < ALIKE * usual or len(gaps) > max(1, FEW * len(kind) * int(always.sum())):
        return  # hosts at arbitrary ports, or leaves that are partly filled
    first = int(np.argmax(always))  # spare ports are at the end of a row of hosts, not at its start
    for i, number in gaps.tolist():
        leaf = int(leaves[kind[i]])
        port = int(f.node_base[leaf]) + number
        neighbours = [number + 1, number + (2 if number == first else -1)]
        if number > f.node_nports[leaf] or f.port_cable[port] >= 0 or not used[kind[i], neighbours].all():
            continue
        yield Vacancy((port,), _neighbours(view, int(f.node_base[leaf]), number, held), False)
