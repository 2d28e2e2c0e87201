"""Two and three swaps at random places, near each other or not: all cables that join other nodes than before are named,
and no finding is about another cable. The oracle is the fabric before the swaps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from softib.diags.check import check
from softib.fabric.faults.inject import swap_cables
from softib.fabric.faults.targets import port_at
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from tests.extent import extent
from tests.fabric.random_faults import random_swap

FABRICS: list[tuple[str, dict[str, object]]] = [
    ("fat-tree", {"radix": 16, "levels": 2}),
    ("fat-tree", {"radix": 16, "levels": 2, "hosts": 64}),
    ("fat-tree", {"radix": 8, "levels": 3}),
    ("rail-optimized", {"nodes": 40, "rails": 8, "radix": 32}),
    ("torus", {"dims": [6, 8]}),
    ("mesh", {"dims": [6, 6], "hosts_per_switch": 2}),
    ("hyperx", {"dims": [6, 6]}),
    ("dragonfly", {"g": 9, "a": 4, "p": 2, "h": 2}),
    ("dragonfly+", {"g": 9, "radix": 8}),
]
NAMES_A_CABLE = ("swapped-cables", "misplaced-cable", "crossed-rails")
Cable = frozenset[str]


def cables(f: Fabric) -> dict[tuple[int, ...], set[Cable]]:
    """The cables between each two nodes."""
    out: dict[tuple[int, ...], set[Cable]] = {}
    for ends in f.cable_port.tolist():
        out.setdefault(tuple(sorted(f.port_node[ends].tolist())), set()).add(frozenset(map(f.port_name, ends)))
    return out


@pytest.mark.parametrize("seed", range(extent(12, 400)))
def test_all_swaps_are_named_and_nothing_else(seed: int) -> None:
    kind, parameters = FABRICS[seed % len(FABRICS)]
    fabric, rng = generate(kind, **parameters), np.random.default_rng(seed)
    before = cables(fabric)
    for _ in range(2 + seed // len(FABRICS) % 2):
        random_swap(fabric, rng, tier=str(rng.choice(fabric.source.generator["tiers"])))
    findings = check(fabric)
    named = [set(map(str, f.where)) for f in findings]
    after = cables(fabric)
    moved = {nodes: new - before.get(nodes, set()) for nodes, new in after.items()}
    for nodes, new in moved.items():
        more = len(after[nodes]) - len(before.get(nodes, ()))  # of cables exchanged for parallel ones none is wrong
        assert sum(any(cable <= each for each in named) for cable in new) >= more, [f.message for f in findings]
    ports = set().union(*(cable for new in moved.values() for cable in new))
    assert all(each & ports for each in named), [f.message for f in findings]


def test_a_swap_that_joins_what_another_separated() -> None:
    """leaf-8 loses a cable to spine-2 by the first swap and gets one by the second: it meets as many as before."""
    fabric = generate("fat-tree", radix=16, levels=2, hosts=64)
    swap_cables(fabric, "leaf-6[13]", "leaf-8[12]")
    swap_cables(fabric, "spine-4[16]", "spine-2[1]")
    findings = check(fabric)
    assert [f.code for f in findings] == ["swapped-cables"] * 2
    assert {frozenset(map(str, f.where)) for f in findings} == {
        frozenset({"leaf-6[13]", "spine-2[16]", "leaf-8[12]", "spine-3[11]"}),
        frozenset({"spine-4[16]", "leaf-1[11]", "spine-2[1]", "leaf-8[16]"}),
    }


@pytest.mark.parametrize("length", [3, 4, 5])
def test_rotated_cables_of_a_small_torus_are_each_named(length: int) -> None:
    """A rule of 48 ports with three exceptions is not certain of a single cable, but the ring puts itself right."""
    fabric = generate("torus", dims=[6, 8])
    ports = ["switch-0-0[2]", "switch-2-3[4]", "switch-4-6[2]", "switch-1-5[4]", "switch-3-1[2]"][:length]
    ends = [fabric.port_name(int(fabric.port_peer[port_at(fabric, port)])) for port in ports]
    for first, second in pairwise(ports):
        swap_cables(fabric, first, second)
    findings = check(fabric)
    assert [f.code for f in findings] == ["misplaced-cable"] * length
    named = {frozenset(f.evidence["expected"]) for f in findings}
    assert named == {frozenset(pair) for pair in zip(ports, ends, strict=True)}


@pytest.mark.parametrize("swaps", [6, 8, 10, 12, 16])
def test_many_swaps_are_named_or_counted_as_not_judged(swaps: int) -> None:
    """A tenth of the cables and more: pairs put themselves right; of other cables at least the number is reported."""
    fabric, rng = generate("fat-tree", radix=16, levels=2, hosts=64), np.random.default_rng(swaps)
    before = cables(fabric)
    for _ in range(swaps):
        random_swap(fabric, rng, tier=str(rng.choice(fabric.source.generator["tiers"])))
    findings = check(fabric)
    surplus = sum(max(0, len(new) - len(before.get(nodes, ()))) for nodes, new in cables(fabric).items())
    named = sum(len(f.where) // 2 if f.code == "swapped-cables" else 1 for f in findings if f.code in NAMES_A_CABLE)
    counted = sum(len(f.evidence["cables"]) for f in findings if f.code == "unjudged-cables")
    assert surplus and named + counted >= surplus, [f.message for f in findings]


def test_a_kind_without_a_rule_is_said() -> None:
    """Cables of three leaves of eight, plugged as they came: no exception of a rule, and nothing is silent."""
    fabric, rng = generate("fat-tree", radix=16, levels=2), np.random.default_rng(1)
    ports = [p for leaf in ("leaf-1", "leaf-2", "leaf-3", "leaf-4", "leaf-5") for p in ports_up(fabric, leaf)]
    for a, b in zip(ports, rng.permutation(ports).tolist(), strict=True):
        if fabric.port_cable[a] != fabric.port_cable[b]:
            swap_cables(fabric, a, b)
    (said,) = [f for f in check(fabric) if f.code == "unjudged-cables"]
    assert said.evidence["between"] == ["leaf-#", "spine-#"] and said.evidence["of"] == 128
    assert len(said.evidence["cables"]) > 8 and said.message.startswith(f"{len(said.evidence['cables'])} of 128 cables")


def ports_up(fabric: Fabric, leaf: str) -> list[int]:
    return [port_at(fabric, f"{leaf}[{n}]") for n in range(9, 17)]


@pytest.mark.parametrize(
    ("swaps", "seed"), [*((2, s) for s in range(extent(4, 30))), *((n, s) for n in (3, 4) for s in range(3))]
)
def test_swaps_of_unnamed_switches_are_all_named(swaps: int, seed: int) -> None:
    """Without names the table of links shows all, also where two share a spine or a leaf; of three and four, more leaves
    and spines are odd than may be an exception, but exchanges explain all of their links."""
    fabric, rng = generate("fat-tree", radix=24, levels=2), np.random.default_rng(seed)
    planted = [random_swap(fabric, rng, tier="leaf-spine") for _ in range(swaps)]
    ports = {port_at(fabric, place) for swap in planted for place in swap.where}
    fabric.node_desc[:] = 0
    findings = [f for f in check(fabric) if f.code != "unnamed-nodes"]
    assert {f.code for f in findings} == {"swapped-cables"}
    row_of = {int(guid): node for node, guid in enumerate(fabric.node_guid)}
    assert {int(fabric.port(row_of[p.guid], p.portnum)) for f in findings for p in f.where} == ports
