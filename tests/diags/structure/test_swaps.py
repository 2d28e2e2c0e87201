"""Swapped cables are named without a plan; exchanges that change no pair of linked nodes show nothing."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softib.diags.check import check
from softib.errors import InputError
from softib.fabric.faults.inject import swap_cables
from softib.fabric.formats import registry
from softib.fabric.model import Fabric
from softib.fabric.node_finder import find_node
from softib.fabric.topologies.registry import generate
from tests.extent import examples
from tests.fabric.random_faults import random_swap

SWAP_CODES = {"swapped-cables", "crossed-rails"}

TREES = st.one_of(
    st.builds(
        lambda radix, levels, cut: (
            "fat-tree",
            {"radix": 2 * radix, "levels": levels, "hosts": _some(radix, levels, cut)},
        ),
        st.integers(4, 8),
        st.integers(2, 3),
        st.floats(0.6, 1.0),
    ),
    st.builds(
        lambda r, p: ("fat-tree", {"radix": 4 * r, "levels": 2, "parallel": p}),
        st.integers(3, 6),
        st.sampled_from([1, 2]),
    ),
    st.builds(
        lambda nodes, rails, radix: ("rail-optimized", {"nodes": nodes, "rails": rails, "radix": radix}),
        st.integers(20, 60),
        st.sampled_from([4, 8]),
        st.sampled_from([16, 32]),
    ),
)
DIRECT = st.one_of(
    st.builds(lambda a, b: ("torus", {"dims": [a, b]}), st.integers(4, 6), st.integers(4, 6)),
    st.builds(lambda a: ("torus", {"dims": [a, 4, 3]}), st.integers(4, 5)),
    st.builds(lambda a, b: ("mesh", {"dims": [a, b], "hosts_per_switch": 2}), st.integers(4, 6), st.integers(5, 6)),
    st.builds(lambda a, b: ("hyperx", {"dims": [a, b]}), st.integers(4, 6), st.integers(4, 6)),
    st.builds(lambda n: ("ring", {"switches": n}), st.integers(12, 40)),
    st.builds(lambda g: ("dragonfly", {"g": g, "a": 4, "p": 2, "h": 2}), st.integers(7, 9)),
    st.builds(lambda g: ("dragonfly+", {"g": g, "radix": 8}), st.integers(5, 9)),
)


def _some(radix: int, levels: int, cut: float) -> int:
    """Hosts of a partly filled tree: at least two whole pods."""
    full = 2 * radix**levels
    return max(2 * radix ** (levels - 1), int(full * cut))


def swaps_found(fabric: Fabric) -> list[frozenset[str]]:
    """The four places of each swap that the check names."""
    return [frozenset(map(str, f.where)) for f in check(fabric) if f.code in SWAP_CODES]


def draw_swap(fabric: Fabric, seed: int, **how: object) -> frozenset[str]:
    rng = np.random.default_rng(seed)
    tiers = fabric.source.generator["tiers"]
    planted = random_swap(fabric, rng, tier=tiers[seed % len(tiers)], **how)
    return frozenset(planted.where)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(TREES, DIRECT), st.integers(0, 10_000))
def test_a_swapped_pair_is_named_and_nothing_else(case: tuple[str, dict], seed: int) -> None:
    fabric = generate(case[0], **case[1])
    planted = draw_swap(fabric, seed)
    findings = [f for f in check(fabric) if f.code != "isolated-part"]  # one ring may become two
    assert findings and findings[0].code in SWAP_CODES
    assert frozenset(map(str, findings[0].where)) == planted
    assert len(findings) == 1, [f.message for f in findings]


@pytest.mark.parametrize("seed", [19, 20, 26, 31, 50, 53, 117, 126, 127, 143, 144, 158, 291])
def test_a_swap_that_leaves_one_step_without_a_majority(seed: int) -> None:
    """Three spines with two cables to each leaf: two of the three rows of ports are spoiled at neighbouring ports."""
    fabric = generate("fat-tree", radix=12, levels=2, parallel=2)
    planted = frozenset(random_swap(fabric, np.random.default_rng(seed), tier="leaf-spine").where)
    assert swaps_found(fabric) == [planted]


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["fat-tree", "rail-optimized", "torus", "dragonfly+", "hyperx"]))
def test_exchanged_parallel_cables_show_nothing(seed: int, kind: str) -> None:
    fabric = {
        "fat-tree": lambda: generate("fat-tree", radix=12, levels=3, parallel=2),
        "rail-optimized": lambda: generate("rail-optimized", nodes=31),
        "torus": lambda: generate("torus", dims=[4, 5], parallel=2),
        "dragonfly+": lambda: generate("dragonfly+", g=5, radix=16, l=4, s=4, p=4, h=4, parallel=2),
        "hyperx": lambda: generate("hyperx", dims=[4, 4], parallel=2),
    }[kind]()
    rng = np.random.default_rng(seed)
    try:
        random_swap(fabric, rng, same_nodes=True)
    except InputError:
        pytest.skip("no parallel cables")
    assert check(fabric) == []


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 10_000))
def test_exchanged_ports_of_one_node_are_information_at_most(seed: int) -> None:
    """Two plugs exchanged on one switch: every switch still meets the same switches and hosts. The order of the others may
    tell."""
    fabric = generate("fat-tree", radix=12, levels=3)
    rng = np.random.default_rng(seed)
    switch = int(rng.choice(np.flatnonzero(fabric.is_switch)))
    ports = rng.permutation([p for p in fabric.ports_of(switch) if fabric.port_peer[p] >= 0])[:2]
    swap_cables(fabric, int(ports[0]), int(ports[1]))
    findings = check(fabric)
    assert [f.code for f in findings] in ([], ["swapped-hosts"], ["exchanged-ports"])
    assert {f.severity.name for f in findings} <= {"INFO"}


def test_several_swaps_at_once_are_each_named() -> None:
    fabric = generate("rail-optimized", nodes=127)
    rng = np.random.default_rng(7)
    planted = {frozenset(random_swap(fabric, rng, tier=t).where) for t in ("host-leaf", "leaf-spine") * 3}
    assert set(swaps_found(fabric)) == planted


def test_three_cables_in_a_ring_are_each_misplaced() -> None:
    """a→b→c→a is no pair of swaps that each mend the other; every cable is named with its place."""
    fabric = generate("fat-tree", radix=16, levels=2)
    swap_cables(fabric, "leaf-1[9]", "leaf-4[10]")
    swap_cables(fabric, "leaf-4[10]", "leaf-9[11]")
    findings = check(fabric)
    assert {f.code for f in findings} == {"misplaced-cable"}
    assert len(findings) == 3
    assert {"leaf-1[9]", "leaf-4[10]", "leaf-9[11]"} <= {str(p) for f in findings for p in f.where}


def test_names_that_tell_nothing_give_no_swap_of_hosts() -> None:
    """Without names two hosts on two leaves are the same graph: nothing to say."""
    fabric = generate("fat-tree", radix=8, levels=2)
    fabric.node_desc[:] = 0
    swap_cables(fabric, int(fabric.ports_of(int(fabric.cas[0]))[0]), int(fabric.ports_of(int(fabric.cas[-1]))[0]))
    assert check(fabric) == []


@pytest.mark.parametrize("seed", range(6))
def test_swaps_between_unnamed_switches_are_named_by_their_guids(seed: int) -> None:
    """Makers' default names everywhere: ports of like switches tell."""
    fabric = generate("fat-tree", radix=24, levels=2 + seed % 2, hosts=None if seed % 2 == 0 else 288 * 2)
    planted = random_swap(fabric, np.random.default_rng(seed), tier="leaf-spine")
    places = {
        (int(fabric.node_guid[find_node(fabric, p.split("[")[0])]), int(p.split("[")[1][:-1])) for p in planted.where
    }
    fabric.node_desc[:] = np.frombuffer(b"Quantum Mellanox Technologies".ljust(64, b"\0"), np.uint8)
    (found,) = [f for f in check(fabric) if f.code != "unnamed-nodes"]
    assert found.code == "swapped-cables"
    assert {(p.guid, p.portnum) for p in found.where} == places
    assert f"({found.where[0].guid:#018x})" in found.message


def irregular(rng: np.random.Generator, spines_too: bool) -> Fabric:
    """An unnamed fat tree whose leaves (and spines) use their cables each in another order."""
    fabric = generate("fat-tree", radix=24, levels=2)
    for switch in [*(f"leaf-{i + 1}" for i in range(24)), *(f"spine-{i + 1}" for i in range(12 * spines_too))]:
        first, count = (13, 12) if switch.startswith("leaf") else (1, 24)
        for _ in range(30):
            a, b = (rng.permutation(count)[:2] + first).tolist()
            swap_cables(fabric, f"{switch}[{a}]", f"{switch}[{b}]")
    fabric.node_desc[:] = 0
    return fabric


@pytest.mark.slow
def test_unnamed_leaves_without_regular_ports_show_a_swap_by_the_spines_ports() -> None:
    fabric = irregular(np.random.default_rng(1), spines_too=False)
    assert check(fabric) == []
    ports = [int(fabric.port(2, 14)), int(fabric.port(6, 17))]
    ports += [int(fabric.port_peer[p]) for p in ports]
    swap_cables(fabric, ports[0], ports[1])
    (found,) = check(fabric)
    assert found.code == "swapped-cables"
    assert {(p.guid, p.portnum) for p in found.where} == {
        (int(fabric.node_guid[fabric.port_node[p]]), int(fabric.port_num[p])) for p in ports
    }


@pytest.mark.slow
def test_unnamed_switches_without_regular_ports_show_uneven_spines() -> None:
    """Which of the two parallel cables is the wrong one, nothing tells."""
    fabric = irregular(np.random.default_rng(1), spines_too=True)
    assert check(fabric) == []
    swap_cables(fabric, int(fabric.port(2, 14)), int(fabric.port(6, 17)))
    findings = check(fabric)
    assert {f.code for f in findings} == {"uneven-spines"} and len(findings) == 2
    assert {int(fabric.node_guid[2]), int(fabric.node_guid[6])} == {f.where[0].guid for f in findings}


@pytest.mark.parametrize("seed", range(6))
def test_three_rotated_uplinks_miss_no_uplink(tmp_path, seed):
    """Each leaf has as many uplinks as before: the rotated cables alone are named, by construction, in whatever order
    the file has its nodes."""
    f = generate("fat-tree", radix=16, levels=2, hosts=64)
    swap_cables(f, "leaf-1[9]", "leaf-2[11]")
    swap_cables(f, "leaf-2[11]", "leaf-3[13]")
    file = tmp_path / "rotated"
    registry.write(f, file, "ibnetdiscover")
    head, *blocks = file.read_text().split("\n\n")
    random.Random(seed).shuffle(blocks)
    file.write_text("\n\n".join([head, *(b.strip("\n") for b in blocks)]) + "\n")
    found = check(registry.read(file).fabric)
    assert {f.code for f in found} == {"misplaced-cable"}, [f.message for f in found]
    assert {str(p) for f in found for p in f.where} >= {"leaf-1[9]", "leaf-2[11]", "leaf-3[13]"}
