"""Faults planted at seeded random places of generated and real fabrics, and whether a check finds and names them.

A planter changes a copy of a clean fabric and returns what a check should name: the ports of one cable (or all freed
ports of a node that is gone). A fault is *found* where a finding that the clean fabric does not have names one of its
nodes, and *named* where one new finding (of few places) holds all of its ports. New findings that name none of its nodes
are *stray*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from softib.diags.check import check
from softib.diags.finding import Finding
from softib.diags.structure.recognise import recognise
from softib.fabric.builder import FabricBuilder
from softib.fabric.faults.inject import duplicate_description, duplicate_guid, remove_cable
from softib.fabric.formats.registry import read
from softib.fabric.model import Fabric
from softib.fabric.plugging import set_active
from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from tests.fabric.subset import without_nodes

GENERATED: dict[str, tuple[str, dict[str, object]]] = {
    "tree-2": ("fat-tree", {"radix": 16, "levels": 2}),
    "tree-2-half": ("fat-tree", {"radix": 24, "levels": 2, "hosts": 120, "parallel": 2}),
    "tree-3": ("fat-tree", {"radix": 12, "levels": 3, "hosts": 390}),
    "superpod": ("rail-optimized", {"nodes": 63}),
}
REAL = {
    "Topo.5": "hk-examples/Topo.5.txt",
    "CS8500": "hk-examples/Topo.6_CS8500.txt",
    "selene": "ufm-selene-storage/selene.storage.txt",
    "fdr10": "fdr10-stage/topo",
    "rhino": "ibutils-clusters/RhinoBased512.lst",
    "psmn": "psmn-x5/X5.topofile",
    "sequoia": "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.db_csv",
}
CROWD = 8
"""A finding of more places than the fault has ports, and this many, names nothing in particular."""


class NoPlace(Exception):
    """The fabric has no place for this fault."""


@dataclass
class Truth:
    """``cables``: the port names of each faulty cable (free ports of a node that is gone: one group); ``nodes``: names
    of which one at least must be named."""

    cables: list[frozenset[str]]
    nodes: set[str] = field(default_factory=set)


@dataclass
class Ground:
    """A clean fabric with what faults are drawn from."""

    name: str
    fabric: Fabric
    rank: np.ndarray
    clean: set[tuple[str, str]]


@dataclass
class Score:
    """Counts over seeds."""

    tried: int = 0
    found: int = 0
    named: int = 0
    stray: int = 0
    examples: list[str] = field(default_factory=list)


def director(shuffled: bool = False) -> Fabric:
    """Leaves without names below two directors of ten leaf chips (L) and ten spine chips (S), two cables a pair of chips.

    ``shuffled``: people plugged the cables between leaf and director as they came.
    """
    rng = np.random.default_rng(7)
    b = FabricBuilder("director")
    leaves, chips = 24, 20
    leaf = b.nodes(leaves, NodeType.SWITCH, 40, desc=["Quantum Mellanox Technologies"] * leaves)
    line, spine = (
        b.nodes(
            chips,
            NodeType.SWITCH,
            44,
            desc=[f"MF0;ib{d}:MCS8500/{what}{i + 1:02d}/U1" for d in (1, 2) for i in range(10)],
        )
        for what in "LS"
    )
    host = b.nodes(leaves * 20, NodeType.CA, 1, desc=[f"node{i:04d} HCA-1" for i in range(leaves * 20)])
    at = np.arange(leaves * 20)
    b.links(leaf[at // 20], at % 20 + 1, host, 1)
    free = [rng.permutation(24) if shuffled else np.arange(24) for _ in range(chips)]
    for k in range(leaves):
        own = rng.permutation(chips) if shuffled else np.arange(chips)
        b.links(leaf[k], own + 21, line, np.array([free[c][k] for c in range(chips)]) + 1)
    pair = np.arange(200)
    low, high = pair // 10, pair % 10 + pair // 100 * 10
    for extra in (0, 1):
        b.links(line[low], 25 + 2 * (high % 10) + extra, spine[high], 1 + 2 * (low % 10) + extra)
    return b.build()


BUILT: dict[str, Callable[[], Fabric]] = {"director": director, "director-shuffled": lambda: director(True)}


@cache
def ground(name: str, data: Path | None = None) -> Ground:
    """Fabric ``name`` of :data:`GENERATED`, or of :data:`REAL` below ``data``."""
    if name in GENERATED:
        kind, parameters = GENERATED[name]
        fabric = generate(kind, **parameters)
    elif name in BUILT:
        fabric = BUILT[name]()
    else:
        assert data is not None
        fabric = read(data / REAL[name]).fabric
    return Ground(name, fabric, recognise(fabric).rank, {(f.code, f.message) for f in check(fabric)})


def _tier(g: Ground, low: int) -> np.ndarray:
    """Ports on the lower end of cables between tier ``low`` and the next, on switches with hosts or above such."""
    f = g.fabric
    rows = np.flatnonzero(f.port_peer >= 0)
    a, b = f.port_node[rows], f.port_node[f.port_peer[rows]]
    here = (g.rank[a] == low) & (g.rank[b] == low + 1) & f.is_switch[b]
    if low == 0:
        here &= ~_sharp(f)[a]
    return rows[here]


def _sharp(f: Fabric) -> np.ndarray:
    return np.array(["Aggregation Node" in n for n in f.node_names()])


def _draw(rng: np.random.Generator, rows: np.ndarray) -> int:
    if not len(rows):
        raise NoPlace
    return int(rows[rng.integers(len(rows))])


def _names(f: Fabric, ports: list[int]) -> frozenset[str]:
    return frozenset(shown(f, int(f.port_node[p]), int(f.port_num[p])) for p in ports)


def shown(f: Fabric, node: int, num: int | None) -> str:
    """A place that stays unique where names are not."""
    return f"{f.node_name(node)}|{int(f.node_guid[node]):#x}[{num}]"


def _remove(low: int, how_many: int = 1) -> Callable[[Ground, np.random.Generator], tuple[Fabric, Truth]]:
    def plant(g: Ground, rng: np.random.Generator) -> tuple[Fabric, Truth]:
        f, truth = g.fabric.copy(), Truth([])
        ports = _tier(g, low)
        first = _draw(rng, ports)
        same = ports[f.port_node[ports] == f.port_node[first]]
        chosen = [first, *[p for p in rng.permutation(same).tolist() if p != first][: how_many - 1]]
        if len(chosen) < how_many or len(same) <= how_many:
            raise NoPlace
        for p in chosen:
            truth.cables.append(_names(f, [p, int(f.port_peer[p])]))
        for p in chosen:
            remove_cable(f, p)
        return f, truth

    return plant


def _leaf_and_core(g: Ground, rng: np.random.Generator) -> tuple[Fabric, Truth]:
    """A cable below and a cable above one switch of tier 2."""
    f = g.fabric.copy()
    above = _draw(rng, _tier(g, 2))
    spine = f.port_node[above]
    below = _tier(g, 1)
    below = _draw(rng, below[f.port_node[f.port_peer[below]] == spine])
    truth = Truth([_names(f, [p, int(f.port_peer[p])]) for p in (above, below)])
    remove_cable(f, above)
    remove_cable(f, below)
    return f, truth


def _gone(g: Ground, nodes: list[int]) -> tuple[Fabric, Truth]:
    f = g.fabric
    sharp = _sharp(f)
    peers = [int(f.port_node[f.port_peer[p]]) for n in nodes for p in f.ports_of(n) if f.port_peer[p] >= 0]
    nodes = [*nodes, *[n for n in dict.fromkeys(peers) if sharp[n] and n not in nodes]]
    gone = set(nodes)
    free = [int(f.port_peer[p]) for n in nodes for p in f.ports_of(n) if f.port_peer[p] >= 0]
    free = [p for p in free if int(f.port_node[p]) not in gone]
    if not free:
        raise NoPlace
    return without_nodes(f, nodes), Truth([_names(f, free)], {f.node_name(n) for n in nodes})


def _absent_leaf(g: Ground, rng: np.random.Generator) -> tuple[Fabric, Truth]:
    """A leaf without power: its hosts are only in the scan where they have other links."""
    f = g.fabric
    up = _tier(g, 1)
    leaf = int(f.port_node[_draw(rng, up)])
    below = [int(f.port_node[f.port_peer[p]]) for p in f.ports_of(leaf) if f.port_peer[p] >= 0]
    alone = [n for n in dict.fromkeys(below) if not f.is_switch[n] and _links(f, n) == 1]
    return _gone(g, [leaf, *alone])


def _absent_spine(g: Ground, rng: np.random.Generator) -> tuple[Fabric, Truth]:
    f = g.fabric
    return _gone(g, [int(f.port_node[f.port_peer[_draw(rng, _tier(g, 1))]])])


def _links(f: Fabric, node: int) -> int:
    return int((f.port_peer[list(f.ports_of(node))] >= 0).sum())


def _host_of(g: Ground, rng: np.random.Generator) -> tuple[int, np.ndarray]:
    from softib.diags.structure.rails import system_of
    from softib.diags.view import FabricView

    node = int(g.fabric.port_node[_draw(rng, _tier(g, 0))])
    system = system_of(FabricView(g.fabric))
    return node, np.flatnonzero(system == system[node])


def _absent_host(g: Ground, rng: np.random.Generator) -> tuple[Fabric, Truth]:
    """A host without power: none of its adapters answers."""
    return _gone(g, _host_of(g, rng)[1].tolist())


def _absent_adapter(g: Ground, rng: np.random.Generator) -> tuple[Fabric, Truth]:
    """One of several adapters of a host is not in the scan."""
    node, all_of = _host_of(g, rng)
    if len(all_of) < 4:
        raise NoPlace
    fabric, truth = _gone(g, [node])
    truth.nodes |= {g.fabric.node_name(int(n)) for n in all_of}
    return fabric, truth


def _slow(low: int) -> Callable[[Ground, np.random.Generator], tuple[Fabric, Truth]]:
    def plant(g: Ground, rng: np.random.Generator) -> tuple[Fabric, Truth]:
        f = g.fabric.copy()
        if "speeds" not in f.source.records and f.source.format != "generated":
            raise NoPlace
        p = _draw(rng, _tier(g, low))
        ends = [p, int(f.port_peer[p])]
        set_active(f, ends, 1, 1)  # 1x SDR
        return f, Truth([_names(f, ends)])

    return plant


def _errors(g: Ground, rng: np.random.Generator) -> tuple[Fabric, Truth]:
    f = g.fabric.copy()
    p = _draw(rng, np.concatenate([_tier(g, 0), _tier(g, 1)]))
    f.counters["symbol_error_counter"][p] = 4_000_000_000
    f.source.records |= {"counters"}
    return f, Truth([_names(f, [p, int(f.port_peer[p])])])


def _twin_guid(g: Ground, rng: np.random.Generator) -> tuple[Fabric, Truth]:
    a, b, f = *_two_of_a_kind(g, rng), g.fabric.copy()
    duplicate_guid(f, a, b)
    return f, Truth([_linked_names(f, [a, b])])


def _twin_name(g: Ground, rng: np.random.Generator) -> tuple[Fabric, Truth]:
    a, b, f = *_two_of_a_kind(g, rng), g.fabric.copy()
    duplicate_description(f, a, b)
    return f, Truth([_linked_names(f, [a, b])])


def _two_of_a_kind(g: Ground, rng: np.random.Generator) -> tuple[int, int]:
    f = g.fabric
    hosts = np.unique(f.port_node[_tier(g, 0)])
    told = hosts[f.node_desc[hosts, 0] != 0]
    if len(told) < 2:
        raise NoPlace
    a, b = rng.permutation(told)[:2].tolist()
    if f.sys_guid[a] == f.sys_guid[b] or f.node_name(a) == f.node_name(b):
        raise NoPlace
    return a, b


def _linked_names(f: Fabric, nodes: list[int]) -> frozenset[str]:
    return _names(f, [p for n in nodes for p in f.ports_of(n) if f.port_peer[p] >= 0])


FAULTS: dict[str, Callable[[Ground, np.random.Generator], tuple[Fabric, Truth]]] = {
    "uplink removed": _remove(1),
    "spine-core removed": _remove(2),
    "two uplinks of a leaf removed": _remove(1, 2),
    "leaf and core cable of a spine removed": _leaf_and_core,
    "leaf absent": _absent_leaf,
    "spine absent": _absent_spine,
    "host absent": _absent_host,
    "adapter absent": _absent_adapter,
    "host link at 1x SDR": _slow(0),
    "uplink at 1x SDR": _slow(1),
    "4e9 symbol errors": _errors,
    "duplicate node GUID": _twin_guid,
    "duplicate description": _twin_name,
}


def measure(g: Ground, fault: str, seeds: range) -> Score:
    """Plant ``fault`` once a seed and judge what :func:`check` says beyond what it says of the clean fabric."""
    score = Score()
    for seed in seeds:
        rng = np.random.default_rng([seed, len(fault)])
        try:
            fabric, truth = FAULTS[fault](g, rng)
        except NoPlace:
            continue
        new = [f for f in check(fabric) if (f.code, f.message) not in g.clean]
        found, named, stray = judge(truth, new)
        score.tried += 1
        score.found += found
        score.named += named
        score.stray += stray
        if not named or stray:
            score.examples.append(f"seed {seed}: {truth} -> {[(f.code, f.message[:160]) for f in new][:4]}")
    return score


def judge(truth: Truth, new: list[Finding]) -> tuple[bool, bool, int]:
    """(found, all cables named exactly, findings that name nothing of the fault)."""
    nodes = {p.rsplit("|", 1)[0] for cable in truth.cables for p in cable} | truth.nodes
    near = [f for f in new if {p.node for p in f.where} & nodes]
    every = frozenset().union(*truth.cables)
    told: set[frozenset[str]] = set()
    for f in near:
        ports = frozenset(f"{p.node}|{p.guid:#x}[{p.portnum}]" for p in f.where if p.portnum is not None)
        told.add(ports)
    named = all(any(cable <= t and len(t) <= len(cable) + CROWD for t in told) for cable in truth.cables)
    together = frozenset().union(*told)
    named = named or (every <= together and len(together) <= len(every) + CROWD)
    return bool(near), named, len(new) - len(near)
