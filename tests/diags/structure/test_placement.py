"""Direct networks whose switch names carry no coordinates: the ports give the places, so that planted faults are named
with exactly their ports. The oracle is the generator; names, GUIDs and the order of nodes in the file are shuffled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softib.diags.check import check, check_structure
from softib.diags.structure.recognise import recognise
from softib.diags.view import FabricView
from softib.fabric.faults.inject import swap_cables
from softib.fabric.formats.registry import read, write
from softib.fabric.model import Fabric
from softib.fabric.plugging import delete_cables
from softib.fabric.topologies.registry import generate
from tests.extent import extent
from tests.fabric.subset import without_nodes

GRIDS: list[tuple[str, dict[str, Any]]] = [
    ("torus", {"dims": [4, 4]}),
    ("torus", {"dims": [6, 6]}),
    ("torus", {"dims": [4, 4, 4]}),
    ("torus", {"dims": [extent(6, 8), extent(5, 8), 4]}),
    ("torus", {"dims": [5, 4], "parallel": 2}),
    ("torus", {"dims": [6, 5], "radix": 20}),
    ("mesh", {"dims": [6, 6]}),
    ("mesh", {"dims": [4, 4, 4]}),
    ("hyperx", {"dims": [6, 5]}),
    ("hyperx", {"dims": [4, 4, 4]}),
    ("hyperx", {"dims": [5, 5], "parallel": 2}),
]
DRAGONFLIES: list[tuple[str, dict[str, Any]]] = [
    ("dragonfly", {"g": 9, "a": 4, "p": 2, "h": 2}),
    ("dragonfly", {"g": 19, "a": 6, "p": 3, "h": 3}),
]
SHORT_RINGS: list[tuple[str, dict[str, Any]]] = [
    ("torus", {"dims": [3, 3]}),
    ("torus", {"dims": [3, 4]}),
    ("torus", {"dims": [3, 3, 3]}),
]
SEEDS = range(extent(1, 6))


def nameless(kind: str, parameters: dict[str, Any], seed: int, tmp_path: Path, form: str = "sw-{}") -> Fabric:
    """A fabric read from a netlist whose switches have serial numbers for names (``form``), in any order."""
    fabric, rng = generate(kind, **parameters), np.random.default_rng([seed, 77])
    switches = np.flatnonzero(fabric.is_switch)
    order = rng.permutation(len(switches))
    fabric.node_guid[switches] = fabric.node_guid[switches][order]
    fabric.node_desc[switches] = 0
    for row, number in zip(switches.tolist(), (101 + order).tolist(), strict=True):
        text = form.format(number).encode()
        fabric.node_desc[row, : len(text)] = np.frombuffer(text, np.uint8)
    path = tmp_path / f"{kind}-{seed}.ibnetdiscover"
    write(fabric, path)
    head, *nodes = path.read_text().split("\nvendid=")
    path.write_text(head + "".join(f"\nvendid={nodes[i].rstrip()}\n" for i in rng.permutation(len(nodes))))
    return read(path).fabric


def _cables(view: FabricView) -> list[tuple[int, int]]:
    rows = view.between_switches
    return list(zip(view.port_a[rows].tolist(), view.port_b[rows].tolist(), strict=True))


def _four_ends(view: FabricView, rng: np.random.Generator) -> tuple[int, int, int, int]:
    cables, node = _cables(view), view.fabric.port_node
    while True:
        (a, b), (c, d) = (cables[i] for i in rng.choice(len(cables), 2, replace=False))
        if len({int(node[p]) for p in (a, b, c, d)}) == 4:
            return (a, b, c, d) if rng.random() < 0.5 else (a, b, d, c)


def _told(fabric: Fabric) -> list[tuple[str, set[str]]]:
    return [(f.code, {str(p) for p in f.where}) for f in check(fabric) if f.code != "uneven-routes"]


@pytest.mark.parametrize("form", ["sw-{}", "", "Quantum Mellanox Technologies"])
@pytest.mark.parametrize(("kind", "parameters"), [*GRIDS, *DRAGONFLIES], ids=str)
def test_the_shape_is_that_of_the_generator(kind: str, parameters: dict[str, Any], form: str, tmp_path: Path) -> None:
    findings, structure = check_structure(nameless(kind, parameters, 1, tmp_path, form))
    assert structure.kind == kind
    assert sorted(structure.dims) == sorted(parameters.get("dims", ()))
    assert structure.groups == parameters.get("g", 0)
    assert {f.code for f in findings} <= {"unnamed-nodes", "uneven-routes"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kind", "parameters"), [*GRIDS, *DRAGONFLIES], ids=str)
def test_a_missing_cable(kind: str, parameters: dict[str, Any], seed: int, tmp_path: Path) -> None:
    fabric = nameless(kind, parameters, seed, tmp_path)
    view, rng = FabricView(fabric), np.random.default_rng(seed)
    cables = _cables(view)
    a, b = cables[rng.integers(len(cables))]
    wanted = {str(view.location(p)) for p in (a, b)}
    delete_cables(fabric, [int(fabric.port_cable[a])])
    assert _told(fabric) == [("missing-cable", wanted)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kind", "parameters"), GRIDS, ids=str)
def test_two_exchanged_plugs(kind: str, parameters: dict[str, Any], seed: int, tmp_path: Path) -> None:
    fabric = nameless(kind, parameters, seed, tmp_path)
    view = FabricView(fabric)
    ends = _four_ends(view, np.random.default_rng(seed))
    wanted = {str(view.location(p)) for p in ends}
    swap_cables(fabric, fabric.port_name(ends[0]), fabric.port_name(ends[2]))
    assert _told(fabric) == [("swapped-cables", wanted)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("kind", "parameters"), [*GRIDS, *SHORT_RINGS], ids=str)
def test_a_dead_switch(kind: str, parameters: dict[str, Any], seed: int, tmp_path: Path) -> None:
    """Its hosts are absent with it; all ports that led to it are named."""
    fabric = nameless(kind, parameters, seed, tmp_path)
    view = FabricView(fabric)
    dead = int(np.random.default_rng(seed).choice(np.flatnonzero(fabric.is_switch)))
    peers = [int(fabric.port_peer[p]) for p in fabric.ports_of(dead) if fabric.port_peer[p] >= 0]
    wanted = {str(view.location(p)) for p in peers if fabric.is_switch[fabric.port_node[p]]}
    hosts = [int(n) for n in fabric.port_node[peers] if not fabric.is_switch[n]]
    assert _told(without_nodes(fabric, [dead, *hosts])) == [("absent-switch", wanted)]


@pytest.mark.parametrize("seed", range(1, 1 + extent(4, 12)))
def test_three_faults_of_a_small_dragonfly(seed: int, tmp_path: Path) -> None:
    """Two exchanges and a missing cable, of local or global cables alike, leave the groups known."""
    fabric, rng = nameless(*DRAGONFLIES[0], seed, tmp_path, "q{:06x}"), np.random.default_rng(seed * 100 + 7)
    exchanged: list[set[str]] = []
    nodes: set[int] = set()
    for _ in range(2):
        view = FabricView(fabric)
        ends = _four_ends(view, rng)
        while nodes & {int(fabric.port_node[p]) for p in ends}:
            ends = _four_ends(view, rng)
        nodes |= {int(fabric.port_node[p]) for p in ends}
        exchanged.append({str(view.location(p)) for p in ends})
        swap_cables(fabric, fabric.port_name(ends[0]), fabric.port_name(ends[2]))
    free = [p for p in _cables(FabricView(fabric)) if not nodes & {int(fabric.port_node[q]) for q in p}]
    delete_cables(fabric, [int(fabric.port_cable[free[rng.integers(len(free))][0]])])
    assert recognise(fabric).kind == "dragonfly"
    assert [where for code, where in _told(fabric) if code == "swapped-cables" and where not in exchanged] == []
    assert sum(where in exchanged for _, where in _told(fabric)) >= 1


@pytest.mark.parametrize("seed", [2, 3, 5, 6])
def test_exchanged_plugs_beside_an_axis_of_two(seed: int, tmp_path: Path) -> None:
    """A cable of a ring closes one square there; the exchange is between a ring and a pair."""
    fabric = nameless("torus", {"dims": [6, 2]}, seed, tmp_path)
    view, rng = FabricView(fabric), np.random.default_rng(seed)
    crosswise = [c for c in _cables(view) if {int(fabric.port_num[p]) for p in c} == {4, 5}]
    along = [c for c in _cables(view) if {int(fabric.port_num[p]) for p in c} == {2, 3}]
    while True:
        ends = (*along[rng.integers(len(along))], *crosswise[rng.integers(len(crosswise))])
        if len({int(fabric.port_node[p]) for p in ends}) == 4:
            break
    wanted = {str(view.location(p)) for p in ends}
    swap_cables(fabric, fabric.port_name(ends[0]), fabric.port_name(ends[2]))
    assert _told(fabric) == [("swapped-cables", wanted)]


@pytest.mark.parametrize("swaps", [1, 3])
@pytest.mark.parametrize(
    ("kind", "dims"),
    [("torus", [5, 2]), ("torus", [7, 2]), ("torus", [8, 2]), ("torus", [4, 4]), ("hyperx", [4, 4, 4])],
    ids=str,
)
def test_exchanges_in_a_small_grid_are_named_or_unjudged(
    kind: str, dims: list[int], swaps: int, tmp_path: Path
) -> None:
    """Several exchanges can look like another network: then no cable is named, but the fabric is never silent."""
    for seed in range(3, 3 + extent(3, 12)):
        fabric, rng = nameless(kind, {"dims": dims}, seed, tmp_path), np.random.default_rng([seed, swaps])
        for _ in range(swaps):
            ends = _four_ends(FabricView(fabric), rng)
            swap_cables(fabric, fabric.port_name(ends[0]), fabric.port_name(ends[2]))
        codes = {code for code, _ in _told(fabric)}
        assert codes
        assert codes <= {"swapped-cables", "misplaced-cable", "unjudged-cables"}


@pytest.mark.parametrize("dims", [[6, 2], [7, 2], [8, 2]], ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_dead_switch_beside_an_axis_of_two(dims: list[int], seed: int, tmp_path: Path) -> None:
    """A ring without a switch is a path, and a ladder without one a shorter ladder; ports tell the sides."""
    fabric = nameless("torus", {"dims": dims}, seed, tmp_path, "Quantum Mellanox Technologies")
    view = FabricView(fabric)
    dead = int(np.random.default_rng(seed).choice(np.flatnonzero(fabric.is_switch)))
    peers = [int(fabric.port_peer[p]) for p in fabric.ports_of(dead) if fabric.port_peer[p] >= 0]
    wanted = {str(view.location(p)) for p in peers if fabric.is_switch[fabric.port_node[p]]}
    hosts = [int(n) for n in fabric.port_node[peers] if not fabric.is_switch[n]]
    told = [x for x in _told(without_nodes(fabric, [dead, *hosts])) if x[0] != "unnamed-nodes"]
    assert told == [("absent-switch", wanted)]


def test_a_network_without_any_rule_stays_irregular(tmp_path: Path) -> None:
    """A random regular graph has no axes: nothing is said about its cables but that they are not judged."""
    fabric = nameless("torus", {"dims": [6, 6]}, 1, tmp_path)
    view, rng = FabricView(fabric), np.random.default_rng(5)
    for _ in range(60):
        ends = _four_ends(FabricView(fabric), rng)
        swap_cables(fabric, fabric.port_name(ends[0]), fabric.port_name(ends[2]))
    assert recognise(fabric).kind == "irregular"
    assert {code for code, _ in _told(fabric)} <= {"unjudged-cables"}
    assert view.is_switch.sum() == 36


def _group_cables(fabric: Fabric) -> list[tuple[int, int]]:
    """Cables between a leaf and a spine of a group, the leaf's end first."""
    rank = recognise(fabric).rank
    node = fabric.port_node
    pairs = [(a, b) if rank[node[a]] == 1 else (b, a) for a, b in _cables(FabricView(fabric))]
    return [(a, b) for a, b in pairs if rank[node[a]] == 1 and rank[node[b]] == 2]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", ["missing", "swapped"])
def test_cables_inside_the_groups_of_a_dragonfly_plus(fault: str, seed: int, tmp_path: Path) -> None:
    """Its groups are trees of two tiers, judged like these."""
    parameters = {"g": 5, "l": 8, "s": 8, "p": 8, "h": 4, "radix": 24}
    fabric = nameless("dragonfly+", parameters, seed, tmp_path, "Quantum Mellanox Technologies")
    view, rng = FabricView(fabric), np.random.default_rng(seed)
    cables = _group_cables(fabric)
    while True:
        (a, b), (c, d) = (cables[i] for i in rng.choice(len(cables), 2, replace=False))
        if len({int(fabric.port_node[p]) for p in (a, b, c, d)}) == 4:
            break
    ends = (a, b) if fault == "missing" else (a, b, c, d)
    wanted = {str(view.location(p)) for p in ends}
    if fault == "missing":
        delete_cables(fabric, [int(fabric.port_cable[a])])
    else:
        swap_cables(fabric, a, c)
    told = [x for x in _told(fabric) if x[0] != "unnamed-nodes"]
    assert told == [("missing-uplinks" if fault == "missing" else "swapped-cables", wanted)]
