"""Swapped hosts told by the order of names along the ports of leaves that have no names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softib.diags.check import check
from softib.diags.finding import Finding, Severity
from softib.diags.hosts.host_order import exchanged_hosts
from softib.diags.view import FabricView
from softib.fabric.builder import FabricBuilder
from softib.fabric.faults.inject import swap_cables
from softib.fabric.formats.registry import read
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from tests.diags.sites import Site

ORDERS = {
    "rising": lambda leaf, i: (12 * leaf + i, 0),
    "blocks": lambda leaf, i: (12 * leaf + (i + 6) % 12, 0),
    "falling": lambda leaf, i: (12 * leaf + 11 - i, 0),
    "all adapters on one leaf": lambda leaf, i: (3 * leaf + i // 4, i % 4),
    "neighbours share two leaves": lambda leaf, i: (12 * (leaf // 2) + i, leaf % 2),
}


def fabric_of(order: str, leaves: int = 8, seed: int | None = None) -> Fabric:
    """Unnamed leaves of twelve adapters below four spines; ``seed`` shuffles the hosts of all leaves."""
    b = FabricBuilder("order")
    b.nodes(leaves, NodeType.SWITCH, 24, desc=["Quantum Mellanox Technologies"] * leaves, speed="HDR")
    b.nodes(4, NodeType.SWITCH, 24, desc=["Quantum Mellanox Technologies"] * 4, speed="HDR")
    at = [ORDERS[order](leaf, i) for leaf in range(leaves) for i in range(12)]
    if seed is not None:
        at = [at[i] for i in np.random.default_rng(seed).permutation(len(at))]
    b.nodes(len(at), NodeType.CA, 1, desc=[f"cpu{1001 + h} mlx5_{a}" for h, a in at], speed="HDR")
    for leaf in range(leaves):
        b.links(leaves + 4 + 12 * leaf + np.arange(12), np.ones(12, int), np.full(12, leaf), 1 + np.arange(12))
        b.links(np.full(4, leaf), 13 + np.arange(4), leaves + np.arange(4), np.full(4, leaf + 1))
    return b.build()


def told(f: Fabric) -> list[Finding]:
    return [x for x in check(f) if x.code not in ("unnamed-nodes", "unnamed-leaves")]


def two_hosts(f: Fabric, rng: np.random.Generator) -> tuple[int, int]:
    """Ports of two adapters of different hosts on different leaves."""
    names = f.node_names()
    cas = [n for n in range(len(names)) if not f.is_switch[n]]
    while True:
        a, b = (int(f.port(cas[int(i)], 1)) for i in rng.integers(len(cas), size=2))
        apart = f.port_node[f.port_peer[a]] != f.port_node[f.port_peer[b]]
        if apart and names[f.port_node[a]].split()[0] != names[f.port_node[b]].split()[0]:
            return a, b


@pytest.mark.parametrize("order", ORDERS)
def test_hosts_in_their_places_are_no_finding(order: str) -> None:
    assert told(fabric_of(order)) == []


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(3))
def test_two_exchanged_cables_are_named(order: str, seed: int) -> None:
    f = fabric_of(order)
    a, b = two_hosts(f, np.random.default_rng(seed))
    swap_cables(f, a, b)
    (found,) = told(f)
    assert found.code == "swapped-cables"
    assert {(p.guid, p.portnum) for p in found.where} == {
        (int(f.node_guid[f.port_node[p]]), int(f.port_num[p])) for p in (a, b, int(f.port_peer[a]), int(f.port_peer[b]))
    }


def test_a_whole_host_in_anothers_place_is_one_piece_of_information() -> None:
    f = fabric_of("all adapters on one leaf")
    names = f.node_names()
    for i in range(4):
        swap_cables(
            f, int(f.port(names.index(f"cpu1002 mlx5_{i}"), 1)), int(f.port(names.index(f"cpu1010 mlx5_{i}"), 1))
        )
    (found,) = told(f)
    assert found.code == "swapped-hosts" and found.severity == Severity.INFO and len(found.where) == 16
    assert found.message.startswith("cpu1002 and cpu1010 are exchanged, all 4 cables")


@pytest.mark.parametrize("seed", range(10))
def test_hosts_without_an_order_tell_nothing(seed: int) -> None:
    assert exchanged_hosts(FabricView(fabric_of("rising", seed=seed))) == []


def test_two_ports_of_one_leaf_are_information() -> None:
    """Exchanging them changes no path, and whoever looks for the host finds another."""
    f = fabric_of("rising")
    swap_cables(f, int(f.port(0, 3)), int(f.port(0, 4)))
    (found,) = told(f)
    assert found.code == "swapped-hosts" and found.severity == Severity.INFO
    assert {p.portnum for p in found.where if p.guid == int(f.node_guid[0])} == {3, 4}


@pytest.mark.parametrize(
    "file",
    [
        "hk-examples/Topo.6_CS8500.txt",
        "ufm-selene-storage/selene.storage.txt",
        "fdr10-stage/topo",
        "psmn-x5/X5.topofile",
        "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.ibnetdiscover",
    ],
)
def test_no_real_fabric_has_hosts_out_of_order(shared_data: Path, file: str) -> None:
    view = FabricView(read(shared_data / file).fabric)
    node = view.fabric.port_node
    assert [x for x in exchanged_hosts(view) if node[x.a] != node[x.b]] == []


def test_the_one_real_exchange_is_a_crossed_rail(shared_data: Path) -> None:
    """hk-examples/Topo.5: the two adapters of pg-spd071 that test_real knows of, by another way."""
    view = FabricView(read(shared_data / "hk-examples/Topo.5.txt").fabric)
    (found,) = exchanged_hosts(view)
    hosts = {view.names[view.fabric.port_node[view.fabric.port_peer[p]]] for p in (found.a, found.b)}
    assert hosts == {"pg-spd071 mlx5_1", "pg-spd071 mlx5_2"}


SMALL_LEAVES = {
    "tree of four hosts a leaf": ("fat-tree", {"radix": 8, "levels": 2}),
    "hyperx": ("hyperx", {"dims": [4, 4], "hosts_per_switch": 4, "radix": 12}),
    "torus": ("torus", {"dims": [5, 4], "hosts_per_switch": 3, "radix": 12}),
    "dragonfly+": ("dragonfly+", {"g": 5, "radix": 10, "l": 4, "s": 4, "p": 4, "h": 4}),
}


@pytest.mark.parametrize("kind", SMALL_LEAVES)
def test_hosts_out_of_place_on_small_leaves_are_information(kind: str) -> None:
    """Turned by a port, two exchanged at a leaf, and all of two leaves exchanged; the oracle is what was moved."""
    name, parameters = SMALL_LEAVES[kind]
    site = Site.of(generate(name, **parameters))
    assert not check(site.fabric())
    leaves = [key for key, node in site.nodes.items() if node[0] and site.hosts_of(key)]
    for leaf, other in ((leaves[0], leaves[-1]), (leaves[5], leaves[2])):
        ports = [p for p, _ in site.hosts_of(leaf)]
        moves = {
            "shifted-hosts": {(leaf, p): (leaf, q) for p, q in zip(ports, [*ports[1:], ports[0]], strict=True)},
            "swapped-hosts": {(leaf, ports[0]): (leaf, ports[-1]), (leaf, ports[-1]): (leaf, ports[0])},
            "exchanged-leaves": {(a, p): (b, p) for a, b in ((leaf, other), (other, leaf)) for p in ports},
        }
        for code, plugs in moves.items():
            if code == "exchanged-leaves" and len(ports) < 4:
                continue  # cables of so few hosts are named one by one
            moved = site.copy()
            moved.replug(plugs)
            (found,) = check(moved.fabric())
            assert (found.code, found.severity) == (code, Severity.INFO), found.message
            at = {f"{p.node}[{p.portnum}]" for p in found.where}
            assert {f"{a}[{p}]" for a, p in plugs} <= at, found.message


def test_a_managers_node_on_one_leaf_does_not_hide_exchanged_leaves() -> None:
    site = Site.of(generate("rail-optimized", nodes=40))
    hosts = [(a, p) for a in ("leaf-5", "leaf-13") for p, _ in site.hosts_of(a)]
    site.replug({(a, p): ("leaf-13" if a == "leaf-5" else "leaf-5", p) for a, p in hosts})
    (found,) = check(site.fabric())
    assert found.code == "exchanged-leaves" and "leaf-5 and leaf-13" in found.message


@pytest.mark.parametrize("pair", [(1, 2), (2, 1), (3, 8), (8, 7), (5, 4)])
def test_hosts_exchanged_on_a_leaf_are_named_beside_a_swap_between_leaves(pair: tuple[int, int]) -> None:
    """Host 9 in the place of host 1 leaves hosts 2 to 9 on a leaf, as if all were moved on by a port."""
    for port in (1, 8):
        site = Site.of(generate("fat-tree", radix=16, levels=2, hosts=64))
        a, b, other = (f"leaf-{n}" for n in (*pair, 6))
        between = {(a, port): (b, port), (b, port): (a, port)}
        within = {(other, 2): (other, 3), (other, 3): (other, 2)}
        site.replug(between | within)
        found = {f.code: {f"{p.node}[{p.portnum}]" for p in f.where} for f in check(site.fabric())}
        assert found.keys() == {"swapped-cables", "swapped-hosts"}, found
        for code, plugs in (("swapped-cables", between), ("swapped-hosts", within)):
            assert {f"{leaf}[{p}]" for leaf, p in plugs} <= found[code]
