"""What a manager says of its tables, against walks of every pair in plain Python (:mod:`tests.routing.brute`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from softib.fabric.faults.inject import remove_cable
from softib.fabric.topologies.registry import generate
from softib.sm.tables.table_proof import TableProof, prove_tables
from tests.routing import brute
from tests.sm.sa.asking import Asked

TORUS = {"kind": "torus", "dims": [4, 4], "generation": "EDR"}
TREE = {"kind": "fat-tree", "radix": 4, "levels": 2, "generation": "EDR"}


@pytest.mark.parametrize(
    ("fabric", "asked", "made_by"),
    [
        (TORUS, "ftree", "minhop"),
        (TORUS, "torus-2QoS", "minhop"),
        (TORUS, "ftree,updn", "updn"),
        (TORUS, "dor", "dor"),
        (TREE, "ftree", "ftree"),
    ],
)
def test_whose_tables_and_whether_they_deadlock(fabric, asked, made_by):
    sm = Asked(generate(**fabric), engine=asked).sm
    assert sm.graph is not None and sm.routing is not None
    proof = prove_tables(sm.database, sm.graph, sm.routing, sm.config)
    loops = brute.has_cycle(brute.dependencies(sm.graph, sm.routing.lft))
    assert (proof.engine, bool(proof.loop), proof.lost) == (made_by, loops, brute.judge(sm.graph, sm.routing.lft)[1])
    assert proof.is_fallback == (made_by not in asked.split(","))
    assert proof.good == (not proof.is_fallback and not loops)
    text = "; ".join([*proof.faults, proof.verdict])
    assert ("credit loop can form: switch-" in text) == loops
    if proof.is_fallback:
        assert f"tables by {made_by}, not by {asked} ({asked}: " in text
    if proof.good:
        assert text == f"tables by {made_by}: every pair arrives, no credit loop"
    assert text.startswith(f"tables by {made_by}")


def test_large_tables_are_said_to_be_unproved():
    sm = Asked(generate(**TORUS), engine="minhop").sm
    assert sm.graph is not None and sm.routing is not None
    proof = prove_tables(sm.database, sm.graph, sm.routing, sm.config, most=100)
    assert proof.lost is None and proof.good and "not proved" in proof.verdict


def test_pairs_without_a_path_are_counted():
    assert TableProof("file", "file", lost=1234).faults == ["tables by file: 1,234 pairs have no path"]


def test_limits_of_the_packets_of_switches_are_in_the_verdict():
    """minhop in a three-level tree without two cables, and a switch whose entry of another switch is lost: the right values come from plain walks."""
    fabric = generate("fat-tree", radix=4, levels=3, generation="EDR")
    for place in ("core-1[1]", "core-3[2]"):
        remove_cable(fabric, place)
    sm = Asked(fabric, engine="minhop").sm
    assert sm.graph is not None and sm.routing is not None
    routing = replace(sm.routing, lft=sm.routing.lft.copy())
    # No host's packet passes one core switch on its way to another.
    cores = [sm.database.name(int(node)).startswith("core-") for node in sm.graph.switch_node]
    switch, far = next(
        (s, i)
        for s in range(sm.graph.n_switches)
        for i in range(len(sm.graph.end_lid))
        if sm.graph.end_is_switch[i] and sm.graph.end_switch[i] != s and cores[s] and cores[sm.graph.end_switch[i]]
    )
    for changed in (False, True):
        if changed:
            routing.lft[switch][int(sm.graph.end_lid[far])] = 255
        proof = prove_tables(sm.database, sm.graph, routing, sm.config)
        lost = [
            (s, b)
            for s in range(sm.graph.n_switches)
            for b in range(len(sm.graph.end_lid))
            if brute.walk(sm.graph, routing.lft, s, int(sm.graph.end_lid[b]))[0] != b
        ]
        assert proof.switch_lost == len(lost)
        alone = brute.has_cycle(brute.dependencies(sm.graph, routing.lft))
        assert not alone and proof.good
        assert bool(proof.switch_loop) == brute.has_cycle(brute.dependencies(sm.graph, routing.lft, switches=True))
        assert bool(proof.switch_loop) == ("packets from and to switches can form a credit loop" in proof.verdict)
        assert bool(lost) == ("no path" in proof.verdict)
    assert proof.switch_lost and proof.switch_loop
