"""Add hosts to an existing fabric: ports to use, parts to buy, cables to move. Hosts go to free
ports of leaves as long as no leaf becomes more oversubscribed than the currently most
oversubscribed one. The rest get new leaves with the same number of uplinks, on free ports of the
switches above. If these have too few ports, switches are added beside them, and each leaf moves an
equal share of its uplinks to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from softib.diags.structure.recognise import Structure, recognise
from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.plural import counted

__all__ = ["Addition", "add_hosts"]

TREES = ("fat-tree", "rail-optimized", "single-switch")


@dataclass
class Addition:
    """``cables``: (node, port, node, port) of every new cable, new nodes by new names; ``moves``:
    (leaf, port, switch and port above, new switch and port) of every cable that gets another upper
    end. ``leaves`` and ``tops``: new switches; ``oversubscription``: the most oversubscribed leaf
    afterwards."""

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

    def takes(self, ratio: float) -> bool:
        """Return whether one more host fits."""
        return bool(self.free) and (self.up == 0 or self.down + 1 <= self.up * ratio + 1e-9)


def add_hosts(fabric: Fabric, hosts: int, adapters: int | None = None) -> Addition:
    """Add ``hosts`` with ``adapters`` ports each (default: a port a rail of the fabric, else one).

    Raises :class:`InputError` if the fabric is not a tree of at most two tiers.
    """
    structure = recognise(fabric)
    if structure.kind not in TREES or structure.levels > 2:
        raise InputError(
            f"this fabric is recognised as {structure.kind} of {counted(structure.levels, 'tier')}; hosts are added to "
            "trees of one or two tiers. Use softib plan design for the whole size"
        )
    each = adapters or max(1, structure.rails)
    leaves = _leaves(fabric, structure)
    if not leaves:
        raise InputError("no switch has hosts, so none can be added")
    ratio = max([leaf.down / leaf.up for leaf in leaves if leaf.up], default=math.inf)
    ratio = max(1.0, ratio)
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
    """Put hosts on free ports; how many found place. On rails adapter r of a host goes to a leaf of
    rail r, unit by unit; elsewhere all adapters of a host go to one leaf."""
    placed = 0
    for name in names:
        if rails > 1:
            units = [[leaf for leaf in leaves if leaf.rail == r and leaf.takes(ratio)] for r in range(each)]
            chosen = [place[0] for place in units if place]
        else:
            room = next((leaf for leaf in leaves if _room(leaf, ratio) >= each), None)
            chosen = [] if room is None else [room] * each
        if len(chosen) < each:
            break
        _plug(name, chosen, addition)
        placed += 1
    return placed


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
    """Leaves for the hosts that found no port, and their uplinks."""
    radix = max(int(fabric.port_num[list(fabric.ports_of(int(n)))].max()) for n in structure.leaf)
    uplinks = max((leaf.up for leaf in leaves), default=0)
    if uplinks == 0:
        raise InputError(
            f"{counted(len(names), 'host')} do not fit, and there is no switch above the leaves: "
            "use softib plan design for the whole size"
        )
    slots = min(radix - uplinks, int(uplinks * ratio + 1e-9))
    each, rails = addition.adapters, structure.rails
    count = -(-len(names) // slots) * each if rails > 1 else -(-len(names) // (slots // each))
    first = len(leaves)
    for k in range(count):
        name = f"new-leaf-{k + 1}"
        addition.leaves.append(name)
        leaves.append(_Leaf(name, list(range(1, slots + 1)), 0, uplinks, k % each if rails > 1 else -1))
    _fill(leaves[first:], names, each, rails, ratio, addition)
    _uplinks(fabric, structure, leaves[first:], uplinks, radix, addition)


def _uplinks(
    fabric: Fabric, structure: Structure, fresh: list[_Leaf], uplinks: int, radix: int, addition: Addition
) -> None:
    """Cables from new leaves to the switches above, on their free ports; with too few of those, new
    switches above and the share of every leaf's uplinks that moves to them."""
    above = np.flatnonzero(structure.rank == 2)
    free = {
        fabric.node_name(int(n)): [
            int(fabric.port_num[p]) for p in fabric.ports_of(int(n)) if fabric.port_num[p] and fabric.port_cable[p] < 0
        ]
        for n in above
    }
    need, have = len(fresh) * uplinks, sum(map(len, free.values()))
    if have < need:
        _more_tops(fabric, structure, free, len(fresh), uplinks, radix, addition)
        addition.notes.insert(
            0,
            f"the {counted(len(above), 'switch')} above the leaves have {have:,} free ports for {need:,} uplinks: "
            f"{addition.tops} more stand beside them, and {counted(len(addition.moves), 'cable')} move to these",
        )
    for leaf in fresh:
        taken = dict.fromkeys(free, 0)
        for i in range(uplinks):
            top = min((t for t in free if free[t]), key=lambda name: (taken[name], -len(free[name])))
            taken[top] += 1
            addition.cables.append((leaf.name, radix - uplinks + 1 + i, top, free[top].pop(0)))


def _more_tops(
    fabric: Fabric,
    structure: Structure,
    free: dict[str, list[int]],
    new_leaves: int,
    uplinks: int,
    radix: int,
    addition: Addition,
) -> None:
    """Put switches beside those above the leaves, and move cables until each leaf has at most an
    equal share of its uplinks to each. ``free`` ports of switches above the leaves are kept up to
    date."""
    old, leaves = len(free), len(structure.leaf) + new_leaves
    tops = max(-(-leaves * uplinks // radix), old + 1)
    while uplinks % tops and tops < uplinks:
        tops += 1
    if tops > uplinks or leaves > radix:
        raise InputError(
            f"{counted(leaves, 'leaf', 'leaves')} with {counted(uplinks, 'uplink')} need a third "
            "tier: use softib plan design for the whole size"
        )
    share = uplinks // tops
    addition.tops = tops - old
    new = {f"new-top-{k + 1}": list(range(1, radix + 1)) for k in range(addition.tops)}
    free |= new
    for node in structure.leaf.tolist():
        name = fabric.node_name(node)
        taken = dict.fromkeys(free, 0)
        for port in fabric.ports_of(node):
            peer = int(fabric.port_peer[port])
            if not fabric.port_num[port] or peer < 0 or fabric.switch_of_node[fabric.port_node[peer]] < 0:
                continue
            top, number = fabric.node_name(int(fabric.port_node[peer])), int(fabric.port_num[peer])
            taken[top] += 1
            if taken[top] <= share:
                continue
            other = min((t for t in new if free[t]), key=lambda name: (taken[name], -len(free[name])))
            taken[other] += 1
            addition.moves.append((name, int(fabric.port_num[port]), top, number, other, free[other].pop(0)))
            free[top].append(number)
