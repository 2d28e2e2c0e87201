"""What a manager says of its tables, against walks of every pair in plain Python (:mod:`tests.routing.brute`)."""

from __future__ import annotations

import pytest

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


def test_large_tables_are_said_to_be_unproved():
    sm = Asked(generate(**TORUS), engine="minhop").sm
    assert sm.graph is not None and sm.routing is not None
    proof = prove_tables(sm.database, sm.graph, sm.routing, sm.config, most=100)
    assert proof.lost is None and proof.good and "not proved" in proof.verdict


def test_pairs_without_a_path_are_counted():
    assert TableProof("file", "file", lost=1234).faults == ["1,234 pairs have no path"]
