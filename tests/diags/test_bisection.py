"""Bisection bandwidth: exact where it says so, an upper bound elsewhere, and never below what traffic gets.

Oracles: every half of the hosts with the maximum flow between the halves (small graphs), published formulas (large ones;
more of them in ``test_structure.py``), NumPy's dense eigenvalues for the spectral cut.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.analysis.prediction import predict
from softib.diags.capacity.bisection import _searched
from softib.diags.capacity.cuts import SwitchCuts, fiedler
from softib.diags.structure.grids import Shape
from softib.diags.structure.recognise import recognise, recognise_view, summary
from softib.diags.view import FabricView
from softib.fabric.builder import FabricBuilder
from softib.fabric.faults import inject
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from softib.routing.engine import route
from tests.extent import examples
from tests.fabric.topologies.graphs import flow_gbps
from tests.render.samples import with_lids

SPEEDS = ("SDR", "QDR", "EDR", "HDR")


def random_fabric(rng: np.random.Generator, switches: int, hosts: int, extra: int, speeds: tuple[str, ...]) -> Fabric:
    """A random tree of switches with ``extra`` more cables and hosts anywhere; each switch and host of its own speed."""
    b = FabricBuilder("random")
    said = rng.choice(speeds, switches + hosts).tolist()
    switch = [int(b.nodes(1, NodeType.SWITCH, 60, desc=[f"sw-{i}"], speed=said[i])[0]) for i in range(switches)]
    free = np.ones(switches, int)

    def cable(a: int, c: int) -> None:
        b.links(switch[a], int(free[a]), switch[c], int(free[c]))
        free[[a, c]] += 1

    for i in range(1, switches):
        cable(i, int(rng.integers(i)))
    for _ in range(extra if switches > 1 else 0):
        cable(*rng.choice(switches, 2, replace=False).tolist())
    for i in range(hosts):
        s = int(rng.integers(switches))
        host = int(b.nodes(1, NodeType.CA, 1, desc=[f"host-{i}"], speed=said[switches + i])[0])
        b.links(switch[s], int(free[s]), host, 1)
        free[s] += 1
    return b.build()


def structure_of(fabric: Fabric):
    return recognise_view(FabricView(fabric, frozenset({"speeds"})))


def cable_gbps(fabric: Fabric) -> np.ndarray:
    view, gbps = FabricView(fabric), np.zeros(fabric.sizes.cables)
    assert sorted(view.cable) == list(range(fabric.sizes.cables))
    gbps[view.cable] = view.link_gbps
    return gbps


@pytest.mark.parametrize("seed", range(12))
def test_every_half_of_the_hosts_agrees(seed: int) -> None:
    """The bisection is the least maximum flow between any two halves, beside what the weaker half can send."""
    rng = np.random.default_rng(seed)
    speeds = SPEEDS if seed % 2 else ("EDR",)
    fabric = random_fabric(rng, int(rng.integers(1, 8)), int(rng.integers(4, 10)), int(rng.integers(0, 6)), speeds)
    gbps = cable_gbps(fabric)
    hosts = np.flatnonzero(~fabric.is_switch)
    own = np.zeros(fabric.sizes.nodes)
    ends = fabric.port_node[fabric.cable_port]
    np.add.at(own, ends[:, 0], gbps)
    np.add.at(own, ends[:, 1], gbps)
    least = np.inf
    for half in itertools.combinations(range(len(hosts)), len(hosts) // 2):
        a = hosts[list(half)]
        b = np.setdiff1d(hosts, a)
        least = min(least, flow_gbps(fabric, gbps, a, b) / min(own[a].sum(), own[b].sum()))
    found = structure_of(fabric).bisection
    assert found.exact
    assert found.percent == pytest.approx(100 * least, abs=0.01)


@pytest.mark.parametrize(("speeds", "found"), [(("EDR",), 19), (SPEEDS, 10)])
def test_the_search_finds_what_every_cut_finds(speeds: tuple[str, ...], found: int) -> None:
    """On small graphs both can be asked. The search is an upper bound always, and the narrowest in nearly all graphs of
    one speed; where hosts differ by a factor of 25 in two thirds of them."""
    same = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        fabric = random_fabric(rng, 10, 24, int(rng.integers(2, 20)), speeds)
        view = FabricView(fabric)
        graph = SwitchCuts(view)
        exact = graph.narrowest_of_all()
        searched, _, _ = _searched(graph, np.ones(graph.n), Shape.of("irregular", len(view.names)))
        assert searched.share >= exact.share - 1e-9
        same += searched.share <= exact.share + 1e-9
    assert same >= found


def test_a_management_spur_costs_next_to_nothing() -> None:
    """A 96-host tree of three levels with one switch and one host on a core port: it read 1 % of full."""
    fabric = spur_of_96()
    found = structure_of(fabric)
    assert len(FabricView(fabric).to_hosts[0]) == 97
    # Full but for the odd host: 48 against 49, and no half can be made to send less than it could.
    assert found.bisection.percent == 100.0
    assert found.bisection.part is None


def spur_of_96() -> Fabric:
    b = FabricBuilder("spur")
    leaf = b.nodes(24, NodeType.SWITCH, 8, desc=[f"leaf-{i}" for i in range(24)], speed="EDR")
    spine = b.nodes(24, NodeType.SWITCH, 8, desc=[f"spine-{i}" for i in range(24)], speed="EDR")
    core = b.nodes(16, NodeType.SWITCH, 8, desc=[f"core-{i}" for i in range(16)], speed="EDR")
    host = b.nodes(96, NodeType.CA, 1, desc=[f"host-{i}" for i in range(96)], speed="EDR")
    index = np.arange(96)
    b.links(leaf[index // 4], 1 + index % 4, host, 1)
    b.links(leaf[index // 4], 5 + index % 4, spine[index // 16 * 4 + index % 4], 1 + index // 4 % 4)
    b.links(spine[index // 4], 5 + index % 4, core[index // 4 % 4 * 4 + index % 4], 1 + index // 16)
    extra = b.nodes(1, NodeType.SWITCH, 8, desc=["mgmt"], speed="EDR")
    ufm = b.nodes(1, NodeType.CA, 1, desc=["ufm"], speed="EDR")
    b.links(core[:1], 8, extra, 1)
    b.links(extra, 2, ufm, 1)
    return b.build()


def test_few_cables_between_many_hosts_are_the_bisection() -> None:
    """Two full trees joined by four cables: half and half, 4 of 64."""
    b = FabricBuilder("dumbbell")
    leaf = b.nodes(16, NodeType.SWITCH, 16, desc=[f"leaf-{i}" for i in range(16)], speed="EDR")
    spine = b.nodes(16, NodeType.SWITCH, 16, desc=[f"spine-{i}" for i in range(16)], speed="EDR")
    host = b.nodes(128, NodeType.CA, 1, desc=[f"host-{i}" for i in range(128)], speed="EDR")
    index = np.arange(128)
    b.links(leaf[index // 8], 1 + index % 8, host, 1)
    b.links(leaf[index // 8], 9 + index % 8, spine[index // 64 * 8 + index % 8], 1 + index // 8 % 8)
    b.links(spine[:4], 16, spine[8:12], 16)
    found = structure_of(b.build()).bisection
    assert (found.gbps, found.full_gbps, found.percent) == (400.0, 6400.0, 6.25)


@pytest.mark.parametrize(
    ("kind", "parameters", "links"),
    [
        # NVIDIA's DGX SuperPOD reference architecture: non-blocking.
        ("rail-optimized", {"nodes": 127}, 127 * 8 // 2),
        # Odd tori and meshes: 2 (k^n - 1) / (k - 1) and (k^n - 1) / (k - 1) cables (Azizoglu and Egecioglu 2004) into halves that
        # differ by one switch; one of its two hosts is cut off besides.
        ("torus", {"dims": [5, 5, 5], "hosts_per_switch": 2}, 2 * 124 // 4 + 1),
        ("torus", {"dims": [7, 7], "hosts_per_switch": 2}, 2 * 48 // 6 + 1),
        ("mesh", {"dims": [5, 5], "hosts_per_switch": 2}, 24 // 4 + 1),
        ("mesh", {"dims": [7, 7], "hosts_per_switch": 2}, 48 // 6 + 1),
        # HyperX: the narrowest dimension, S = 6 against 4: 4 lines of (6/2)^2, or 6 lines of (4/2)^2 (Ahn et al. 2009).
        ("hyperx", {"dims": [6, 4], "hosts_per_switch": 40}, 24),
    ],
)
def test_published_sizes(kind: str, parameters: dict, links: int) -> None:
    fabric = generate(kind, generation="EDR", **parameters)
    assert recognise(fabric).bisection.gbps == 100.0 * links


def test_a_dragonfly_plus_is_cut_between_groups() -> None:
    """Of 8 groups 4 stand on each side: 16 of the 28 pairs of groups, each with as many cables (Shpiner et al. 2017)."""
    fabric = generate("dragonfly+", generation="EDR", g=8, radix=16)
    found = recognise(fabric)
    a, b = (found.group[fabric.port_node[fabric.cable_port[:, i]]] for i in (0, 1))
    between = int(((a >= 0) & (b >= 0) & (a != b)).sum())
    assert found.bisection.gbps == 100.0 * between * 16 / 28


def test_an_odd_or_thin_tier_is_seen_wherever_it_is() -> None:
    """A tree of three levels whose core lost half of its switches, and one whose leaves did: half of full each."""
    fabric = generate("fat-tree", radix=8, levels=3, generation="EDR")
    cores = [n for n in fabric.node_names() if n.startswith("core")]
    for name in cores[: len(cores) // 2]:
        inject.dead_switch(fabric, name)
    found = recognise(fabric)
    assert found.bisection.percent == 50.0
    assert found.bisection.part is not None
    assert found.bisection.part.percent == 50.0 and found.bisection.part.hosts == 16
    half = generate("fat-tree", radix=8, levels=3, generation="EDR")
    for leaf in (n for n in half.node_names() if n.startswith("leaf")):
        for portnum in (5, 6):
            inject.remove_cable(half, f"{leaf}[{portnum}]")
    assert recognise(half).bisection.percent == 50.0


def laws(fabric: Fabric, engine: str, seed: int = 0) -> None:
    """What traffic gets is at most what the wiring allows: across the narrowest cut exactly, over random pairs in the mean."""
    structure = structure_of(fabric)
    graph = with_lids(fabric)
    told = predict(fabric, graph, route(graph, engine).lft, seed=seed, cut=structure.bisection)
    if told is None or structure.bisection.percent is None:
        return
    assert told.random_pairs.limit is not None
    assert [p.name for p in told.patterns][1] == "narrowest"
    slack = 4 * told.random_pairs.spread / np.sqrt(50) + 1e-9
    assert told.random_pairs.relative <= told.random_pairs.limit + slack
    # Gb/s of one direction between the two halves, beside the capacity of the cut.
    assert told.random_pairs.narrowest_gbps is not None and structure.bisection.gbps is not None
    assert told.random_pairs.narrowest_gbps <= structure.bisection.gbps + 1e-3


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("fat-tree", {"radix": 8, "levels": 2}),
        ("fat-tree", {"radix": 12, "levels": 2, "oversubscription": 2}),
        ("fat-tree", {"radix": 8, "levels": 3, "hosts": 77}),
        ("rail-optimized", {"nodes": 31}),
        ("dragonfly", {"g": 9, "a": 4, "p": 2, "h": 2}),
        ("dragonfly+", {"g": 5, "radix": 8}),
        ("torus", {"dims": [5, 4, 3]}),
        ("mesh", {"dims": [4, 5]}),
        ("hyperx", {"dims": [4, 4]}),
        ("ring", {"switches": 30, "hosts_per_switch": 3}),
    ],
)
def test_traffic_gets_at_most_what_the_wiring_allows(kind: str, parameters: dict) -> None:
    fabric = generate(kind, **parameters)
    laws(fabric, "updn")
    for i in range(2):
        damaged = fabric.copy()
        rng = np.random.default_rng(i)
        for _ in range(4):
            inject.remove_cable(damaged, int(damaged.cable_port[rng.integers(damaged.sizes.cables), 0]))
        laws(damaged, "updn", seed=i)


@settings(max_examples=examples(40))
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(2, 40), st.integers(0, 40), st.booleans())
def test_the_law_on_random_fabrics(seed: int, switches: int, hosts: int, extra: int, mixed: bool) -> None:
    rng = np.random.default_rng(seed)
    laws(random_fabric(rng, switches, hosts, extra, SPEEDS if mixed else ("HDR",)), "updn", seed=seed % 100)


def test_the_law_with_a_spur() -> None:
    laws(spur_of_96(), "updn")


REAL = [
    "ufm-selene-storage/selene.storage.txt",
    "psmn-x5/X5.topofile",
    "fdr10-stage/topo",
    "ufm-small-lab/small_topo_file",
    "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.ibnetdiscover",
]


@pytest.mark.parametrize("path", REAL)
def test_the_law_on_real_fabrics(shared_data, path: str) -> None:
    """Hosts of several speeds, management switches, oversubscribed leaves."""
    from softib.fabric.formats.registry import read

    laws(read(shared_data / path).fabric, "minhop")


def test_how_it_was_found_is_said() -> None:
    small = generate("fat-tree", radix=6, levels=2)
    large = generate("fat-tree", radix=16, levels=2)
    assert summary(small, recognise(small)).bisection_exact is True
    told = summary(large, recognise(large))
    assert told.bisection_exact is False
    assert told.bisection_how.endswith("an upper bound")


@pytest.mark.parametrize("n", [3, 10, 64])
def test_the_fiedler_value_of_a_path_is_the_textbooks(n: int) -> None:
    """2 - 2 cos(pi / n) (Fiedler 1973); the vector falls from one end to the other."""
    a = np.arange(n - 1)
    vector, value, converged = fiedler(n, a, a + 1, np.ones(n - 1))
    assert converged
    assert value == pytest.approx(2 - 2 * np.cos(np.pi / n), abs=1e-4)
    assert (np.diff(vector) > 0).all() or (np.diff(vector) < 0).all()


@pytest.mark.parametrize("seed", range(6))
def test_the_spectral_vector_converges_to_the_dense_solution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 120
    a = np.concatenate([np.arange(1, n), rng.integers(0, n, 80)])
    b = np.concatenate([rng.integers(0, np.arange(1, n)), rng.integers(0, n, 80)])
    keep = a != b
    a, b, weight = a[keep], b[keep], rng.choice([25.0, 100.0, 400.0], int(keep.sum()))
    dense = np.zeros((n, n))
    np.add.at(dense, (a, b), -weight)
    np.add.at(dense, (b, a), -weight)
    dense -= np.diag(dense.sum(axis=1))
    values, vectors = np.linalg.eigh(dense)
    vector, value, converged = fiedler(n, a, b, weight)
    assert converged
    assert value == pytest.approx(values[1], rel=1e-3)
    if values[2] > 1.05 * values[1]:
        assert abs(vector @ vectors[:, 1]) > 0.999


def test_the_search_is_the_same_each_time() -> None:
    fabric = generate("dragonfly", g=9, a=4, p=2, h=2)
    one, two = recognise(fabric).bisection, recognise(fabric).bisection
    assert one == two and (one.side == two.side).all()
