"""Adds hosts to an existing fabric: determines the ports to use, the parts to buy, and the cables to move. Hosts go to
free ports of leaves, as long as no leaf becomes more oversubscribed than the most oversubscribed leaf is now. All other
hosts get new leaves, which have the same number of uplinks and use free ports of the switches above. If there are too
few such ports, switches are added to that tier, and each leaf moves an equal share of its uplinks to the new switches.

In a tree of three tiers, new leaves first go to pods whose spines have free ports, then to new pods with the same
number of spines as the largest pod. Each new spine is a copy of a spine of that pod and is cabled to the same cores, by
the same rules as leaves to spines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from softib.components import components
from softib.diags.structure.recognise import Structure, recognise
from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.iba.constants import LID_UCAST_MAX
from softib.plural import counted

__all__ = ["Addition", "add_hosts"]

TREES = ("fat-tree", "rail-optimized", "single-switch")


@dataclass
class Addition:
    """``cables``: (node, port, node, port) of every new cable; new nodes have new names. ``moves``: (leaf, port, old
    switch, its port, new switch, its port) of every cable whose upper end moves. ``leaves`` and ``tops``: new switches.
    ``oversubscription``: that of the most oversubscribed leaf afterwards."""

    hosts: int
    adapters: int
    cables: list[tuple[str, int, str, int]] = field(default_factory=list)
    moves: list[tuple[str, int, str, int, str, int]] = field(default_factory=list)
    leaves: list[str] = field(default_factory=list)
    tops: int = 0
    oversubscription: float = 1.0
    notes: list[str] = field(default_factory=list)


@dataclass
class _Leaf:
    name: str
    free: list[int]
    down: int
    up: int
    rail: int


def add_hosts(fabric: Fabric, hosts: int, adapters: int | None = None) -> Addition:
    """Add ``hosts`` with ``adapters`` ports each (default: one port per rail of the fabric, otherwise one).

    Raises :class:`InputError` if the fabric is not a tree of at most three tiers.
    """
    structure = recognise(fabric)
    if structure.kind not in TREES or structure.levels > 3:
        raise InputError(
            f"this fabric is recognised as {structure.kind} of {counted(structure.levels, 'tier')}; hosts can be added "
            f"only to trees of one to three tiers; use softib plan design with the total number of hosts"
        )
    each = adapters or max(1, structure.rails)
    leaves = _leaves(fabric, structure)
    if not leaves:
        raise InputError("no switch has hosts, so softib cannot place new ones; use a fabric with hosts")
    ratio = max([leaf.down / leaf.up for leaf in leaves if leaf.up], default=math.inf)
    ratio = max(1.0, ratio)
    lids = len(fabric.end_ports()) + hosts * each
    if lids > LID_UCAST_MAX:
        raise InputError(
            f"{counted(hosts, 'host')} more need {lids:,} LIDs with the present fabric; a subnet has {LID_UCAST_MAX:,} "
            "(IBA 4.1.3). Plan several subnets"
        )
    addition = Addition(hosts, each)
    names = _new_names(fabric, hosts)
    placed = _fill(leaves, names, each, structure.rails, ratio, addition)
    if placed < hosts:
        _new_leaves(fabric, structure, leaves, names[placed:], ratio, addition)
    after = [leaf.down / leaf.up for leaf in leaves if leaf.up]
    addition.oversubscription = max(after, default=1.0)
    return addition


def _leaves(fabric: Fabric, structure: Structure) -> list[_Leaf]:
    """Return every leaf with its free ports, host ports and uplinks."""
    leaves = []
    for node in structure.leaf.tolist():
        ports = np.array(list(fabric.ports_of(node)))
        ports = ports[fabric.port_num[ports] > 0]
        peer = fabric.port_peer[ports]
        linked = peer >= 0
        to_switch = np.zeros(len(ports), bool)
        to_switch[linked] = fabric.switch_of_node[fabric.port_node[peer[linked]]] >= 0
        free = fabric.port_num[ports[~linked & (fabric.port_cable[ports] < 0)]].tolist()
        down, up = int((linked & ~to_switch).sum()), int(to_switch.sum())
        leaves.append(_Leaf(fabric.node_name(node), free, down, up, int(structure.node_rail[node])))
    return leaves


def _new_names(fabric: Fabric, hosts: int) -> list[str]:
    taken = {fabric.node_name(int(n)).split(" ")[0] for n in fabric.cas}
    names: list[str] = []
    number = 1
    while len(names) < hosts:
        if (name := f"new-{number:03d}") not in taken:
            names.append(name)
        number += 1
    return names


def _fill(leaves: list[_Leaf], names: list[str], each: int, rails: int, ratio: float, addition: Addition) -> int:
    """Put hosts on free ports; return how many were placed. With rails, adapter r of a host goes to a leaf of rail r,
    and one group of leaves (one per rail) is filled after another. Otherwise all adapters of a host go to one leaf."""
    groups = [[leaf for leaf in leaves if leaf.rail == r] for r in range(each)] if rails > 1 else [leaves]
    need = 1 if rails > 1 else each
    waiting = [iter(group) for group in groups]
    current = [next(group, None) for group in waiting]
    for placed, name in enumerate(names):
        for r, group in enumerate(waiting):  # once a leaf is too full for one host, it is too full for the next
            while (leaf := current[r]) is not None and _room(leaf, ratio) < need:
                current[r] = next(group, None)
        chosen = [leaf for leaf in current if leaf is not None]
        if len(chosen) < len(groups):
            return placed
        _plug(name, chosen if rails > 1 else chosen * each, addition)
    return len(names)


def _room(leaf: _Leaf, ratio: float) -> int:
    by_ratio = len(leaf.free) if leaf.up == 0 else int(leaf.up * ratio + 1e-9) - leaf.down
    return min(len(leaf.free), by_ratio)


def _plug(name: str, chosen: list[_Leaf], addition: Addition) -> None:
    for adapter, leaf in enumerate(chosen):
        node = name if len(chosen) == 1 else f"{name} mlx5_{adapter}"
        addition.cables.append((leaf.name, leaf.free.pop(0), node, 1))
        leaf.down += 1


def _new_leaves(
    fabric: Fabric, structure: Structure, leaves: list[_Leaf], names: list[str], ratio: float, addition: Addition
) -> None:
    """Add leaves with uplinks for the hosts that did not get a port."""
    radix = max(int(fabric.port_num[list(fabric.ports_of(int(n)))].max()) for n in structure.leaf)
    uplinks = max((leaf.up for leaf in leaves), default=0)
    if uplinks == 0:
        raise InputError(
            f"{counted(len(names), 'host')} do not fit, because there is no switch above the leaves; use softib plan "
            f"design with the total number of hosts"
        )
    slots = min(radix - uplinks, int(uplinks * ratio + 1e-9))
    each, rails = addition.adapters, structure.rails
    count = -(-len(names) // slots) * each if rails > 1 else -(-len(names) // (slots // each))
    first = len(leaves)
    if structure.levels == 2 and first + count > radix:
        raise InputError(
            f"{counted(first + count, 'leaf', 'leaves')} need another tier, since a switch above has {radix} ports: "
            "use softib plan design for the whole size"
        )
    for k in range(count):
        name = f"new-leaf-{k + 1}"
        addition.leaves.append(name)
        leaves.append(_Leaf(name, list(range(1, slots + 1)), 0, uplinks, k % each if rails > 1 else -1))
    _fill(leaves[first:], names, each, rails, ratio, addition)
    fresh = [_Lower(leaf.name, uplinks, radix - uplinks + 1) for leaf in leaves[first:]]
    if structure.levels == 2:
        _connect(_stage(fabric, structure.leaf.tolist(), np.flatnonzero(structure.rank == 2)), fresh, radix, addition)
    else:
        _add_to_pods(fabric, structure, fresh, radix, addition)


@dataclass(frozen=True)
class _Lower:
    """A new switch with ``uplinks`` uplinks, the first of which is at port ``first``."""

    name: str
    uplinks: int
    first: int


@dataclass
class _Stage:
    """The switches of a tier and the switches above them. ``links``: lower switch → (its port, upper switch, its port)
    for each cable. ``free``: upper switch → its free ports."""

    links: dict[str, list[tuple[int, str, int]]]
    free: dict[str, list[int]]
    ports: int = 0
    """Number of ports of an upper switch towards lower switches; 0 means all of them."""

    def room(self) -> int:
        """Return the number of cables that the upper switches can take."""
        if not self.ports:
            return sum(map(len, self.free.values()))
        taken = sum(map(len, self.links.values()))
        return min(sum(map(len, self.free.values())), self.ports * len(self.free) - taken)


def _stage(fabric: Fabric, lower: Iterable[int], upper: Iterable[int]) -> _Stage:
    above = {int(n) for n in upper}
    links: dict[str, list[tuple[int, str, int]]] = {}
    for node in lower:
        links[fabric.node_name(node)] = [
            (
                int(fabric.port_num[port]),
                fabric.node_name(int(fabric.port_node[peer])),
                int(fabric.port_num[peer]),
            )
            for port in fabric.ports_of(node)
            if fabric.port_num[port] and (peer := int(fabric.port_peer[port])) >= 0 and fabric.port_node[peer] in above
        ]
    free = {
        fabric.node_name(n): [
            int(fabric.port_num[p]) for p in fabric.ports_of(n) if fabric.port_num[p] and fabric.port_cable[p] < 0
        ]
        for n in sorted(above)
    }
    return _Stage(links, free)


def _connect(stage: _Stage, fresh: list[_Lower], radix: int, addition: Addition) -> None:
    """Add cables from new switches to free ports of those above. If there are too few free ports, also add switches to
    the tier above, and move an equal share of every lower switch's uplinks to them."""
    need, have = sum(lower.uplinks for lower in fresh), stage.room()
    if have < need:
        above, moved, tops = len(stage.free), len(addition.moves), addition.tops
        _more_tops(stage, fresh, radix, addition)
        addition.notes.append(
            f"the {counted(above, 'switch')} above have {have:,} free ports for {need:,} uplinks: add "
            f"{addition.tops - tops} switches to that tier, and to them "
            f"{counted(len(addition.moves) - moved, 'cable')} move"
        )
    for lower in fresh:
        taken = dict.fromkeys(stage.free, 0)
        for i in range(lower.uplinks):
            top = _least(stage.free, taken)
            taken[top] += 1
            port = stage.free[top].pop(0)
            addition.cables.append((lower.name, lower.first + i, top, port))
            stage.links.setdefault(lower.name, []).append((lower.first + i, top, port))


def _least(free: dict[str, list[int]], taken: dict[str, int], of: Iterable[str] | None = None) -> str:
    """Return the switch with a free port that has the fewest cables in ``taken``. If there are several, return the one
    with the most free ports."""
    return min((t for t in of or free if free[t]), key=lambda name: (taken[name], -len(free[name])))


def _more_tops(stage: _Stage, fresh: list[_Lower], radix: int, addition: Addition) -> None:
    """Add switches to the tier above, and move cables until each lower switch has its uplinks evenly distributed over
    the upper switches."""
    old, count = len(stage.free), len(stage.links) + len(fresh)
    uplinks = max(lower.uplinks for lower in fresh)
    tops = max(-(-count * uplinks // radix), old + 1)
    while uplinks % tops and tops < uplinks:
        tops += 1
    if tops > uplinks or count > radix:
        raise InputError(
            f"{counted(count, 'switch')} with {counted(uplinks, 'uplink')} each do not fit below one tier of "
            f"{radix}-port switches; use softib plan design with the total number of hosts"
        )
    share = uplinks // tops
    new = {f"new-top-{addition.tops + k + 1}": list(range(1, radix + 1)) for k in range(tops - old)}
    addition.tops += len(new)
    stage.free |= new
    for name, cables in stage.links.items():
        taken = dict.fromkeys(stage.free, 0)
        for i, (port, top, number) in enumerate(cables):
            taken[top] += 1
            if taken[top] <= share:
                continue
            other = _least(stage.free, taken, new)
            taken[other] += 1
            cables[i] = (port, other, stage.free[other].pop(0))
            addition.moves.append((name, port, top, number, *cables[i][1:]))
            stage.free[top].append(number)


def _parts(fabric: Fabric, nodes: np.ndarray) -> list[np.ndarray]:
    """Return the connected parts of ``nodes``."""
    ends = fabric.port_node[fabric.cable_port[(fabric.cable_port >= 0).all(axis=1)]]
    inside = np.isin(ends, nodes).all(axis=1)
    part = components(fabric.sizes.nodes, *ends[inside].T)[nodes]
    return [nodes[part == p] for p in np.unique(part)]


def _add_to_pods(fabric: Fabric, structure: Structure, fresh: list[_Lower], radix: int, addition: Addition) -> None:
    """Connect new leaves of a tree of three tiers: first to pods with room, then to new pods."""
    rank = structure.rank
    split = lambda nodes, low: _stage(fabric, nodes[rank[nodes] == low].tolist(), nodes[rank[nodes] == low + 1])
    pods = [split(nodes, 1) for nodes in _parts(fabric, np.flatnonzero((rank == 1) | (rank == 2)))]
    groups = [split(nodes, 2) for nodes in _parts(fabric, np.flatnonzero((rank == 2) | (rank == 3)))]
    ups = {spine: len(cables) for group in groups for spine, cables in group.links.items()}
    full = max(pods, key=lambda pod: sum(map(len, pod.links.values())))
    down = -(-sum(map(len, full.links.values())) // len(full.free))
    for pod in pods:
        pod.ports = min(down, radix - max(ups[spine] for spine in pod.free))
    spines: list[tuple[_Stage, _Lower]] = []
    for leaf in fresh:
        pod = next((pod for pod in pods if pod.room() >= leaf.uplinks), _Stage({}, {}, full.ports))
        if not pod.free:
            for spine in full.free:
                group = next(g for g in groups if spine in g.links)
                name = f"new-spine-{len(spines) + 1}"
                pod.free[name] = list(range(1, radix - ups[spine] + 1))
                spines.append((group, _Lower(name, ups[spine], radix - ups[spine] + 1)))
            pods.append(pod)
        _connect(pod, [leaf], radix, addition)
    for group in groups:
        lower = [spine for of, spine in spines if of is group]
        if lower:
            _connect(group, lower, radix, addition)
    addition.tops += len(spines)
