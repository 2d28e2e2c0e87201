"""Which cables may be isolated. Oracle: networkx, which knows nothing of the rule: whatever is chosen, every pair that was connected is."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import softib
from softib.analysis.isolation import budget_of, choose, proven, without_cables
from softib.diags.finding import Finding, Location, Severity
from softib.fabric.formats.base import ReadResult
from softib.fabric.topologies.registry import generate
from softib.monitor.isolation.ports import joins_parts
from softib.monitor.isolation.records import Isolated, Records
from softib.scenario.bring_up import bring_up
from tests.conftest import find_shared_data
from tests.diags.cable_rules.real import dump

DUMP = (find_shared_data() or Path("absent")) / "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2.db_csv"


def fabric_of(kind="fat-tree", **parameters):
    f = generate(kind, **parameters)
    bring_up(f)
    return f


def finding(f, cable, now=True, code="link-bit-errors"):
    where = tuple(
        Location(f.node_name(int(f.port_node[p])), int(f.node_guid[f.port_node[p]]), int(f.port_num[p]))
        for p in f.cable_port[cable]
    )
    return Finding(code, Severity.WARNING, where, "bad", {"isolate": {"now": now, "why": "later"}, "confidence": 1.0})


def graph_without(f, cables):
    g = nx.MultiGraph()
    g.add_nodes_from(range(f.sizes.nodes))
    g.add_edges_from(
        (int(f.port_node[a]), int(f.port_node[b])) for i, (a, b) in enumerate(f.cable_port) if i not in cables
    )
    return g


def cable_of(f, choice):
    names = [" ↔ ".join(f.port_name(int(p)) for p in ends) for ends in f.cable_port]
    return names.index(choice.cable)


@pytest.mark.parametrize(
    "parameters",
    [
        {"radix": 4, "levels": 2},
        {"radix": 4, "levels": 3},
        {"kind": "dragonfly", "a": 4, "p": 2, "h": 2, "g": 9},
        {"kind": "ring", "switches": 5},
    ],
    ids=str,
)
def test_accusing_every_cable_never_parts_two_nodes(parameters):
    f = fabric_of(**parameters)
    order = np.random.default_rng(7).permutation(f.sizes.cables).tolist()
    choices = choose(f, [finding(f, c) for c in order], f.sizes.cables)
    taken = {cable_of(f, c) for c in choices if c.isolate}
    assert len(choices) == f.sizes.cables and (taken or parameters.get("kind") == "ring")
    assert nx.number_connected_components(graph_without(f, taken)) == nx.number_connected_components(
        graph_without(f, ())
    )
    for node in np.flatnonzero(f.is_switch).tolist():
        left, whole = (sum(bool(f.is_switch[p]) for _, p in graph_without(f, x).edges(node)) for x in (taken, ()))
        assert 2 * left >= whole
    for c in choices:
        assert c.isolate == (not c.why) == bool(c.commands)


def test_the_last_path_stays():
    f = fabric_of(radix=4, levels=2)
    leaf = (
        f.node_desc.tolist().index(b"leaf-1")
        if b"leaf-1" in f.node_desc.tolist()
        else int(np.flatnonzero(f.is_switch)[0])
    )
    up = [
        i
        for i, (a, b) in enumerate(f.cable_port)
        if f.is_switch[f.port_node[[a, b]]].all() and leaf in f.port_node[[a, b]]
    ]
    first, second = choose(f, [finding(f, c) for c in up[:2]], 10)
    assert first.isolate and not second.isolate and second.why.startswith("it is the last path between")
    host = next(i for i, (a, b) in enumerate(f.cable_port) if not f.is_switch[f.port_node[[a, b]]].all())
    (one,) = choose(f, [finding(f, host)], 10)
    assert not one.isolate and "only cable of host-" in one.why


def test_a_budget_counts_what_is_isolated_already():
    f = fabric_of(radix=8, levels=2)
    between = [i for i, (a, b) in enumerate(f.cable_port) if f.is_switch[f.port_node[[a, b]]].all()]
    some = [finding(f, c) for c in between[::5][:3]]
    away = choose(f, some[:1], 10)[0].ends
    assert [c.isolate for c in choose(f, some[1:], 2, [away])] == [True, False]
    assert "of a budget of 2" in choose(f, some[1:], 2, [away])[1].why
    assert not any(c.isolate for c in choose(f, some, 0))
    assert [c.why for c in choose(f, [finding(f, between[0], now=False)], 5)] == ["later"]
    assert (budget_of(48, 10, 0.005), budget_of(16_384, 10, 0.005)) == (10, 82)


def test_the_tables_are_computed_without_the_cables():
    f = fabric_of(radix=4, levels=3)
    between = [i for i, (a, b) in enumerate(f.cable_port) if f.is_switch[f.port_node[[a, b]]].all()]
    choices = choose(f, [finding(f, c) for c in between[::3]], 10)
    after, proof = proven(ReadResult(f, [], "test"), choices, lambda step: nullcontext())
    assert after == choices and proof.startswith(f"tables without {sum(c.isolate for c in choices)} cables")


@pytest.mark.slow
@pytest.mark.skipif(not DUMP.exists(), reason="the real files are not here")
@pytest.mark.filterwarnings("ignore:.*sections that softib does not read")
def test_a_real_cluster_loses_no_cable():
    """docs/isolate.md: 271 NDR cables; those accused are of hosts."""
    for section, days, accused in (("PM_DELTA", 1 / 86400, 0), ("PM_INFO", 1.0, 10), ("PM_INFO", 365.0, 8)):
        result = softib.isolate(dump(DUMP, section, days * 86400.0), str(DUMP))
        assert (len(result.choices), result.standing, result.acted) == (accused, 0, False)
        assert all(not c.isolate and c.why.startswith("it is the only cable of ") for c in result.choices)


def test_acting_needs_a_live_subnet():
    with pytest.raises(softib.InputError, match="running fabric or umad:DEVICE"):
        softib.isolate(softib.observe, "nosuch-fabric", act=True)


def test_a_cable_that_the_fabric_needs_is_known():
    """joins_parts: networkx on the same cables."""
    f = fabric_of(radix=4, levels=2)
    leaf = next(n for n in range(f.sizes.nodes) if f.node_name(n) == "leaf-1")
    up = [i for i, p in enumerate(f.cable_port) if leaf in f.port_node[p] and f.is_switch[f.port_node[p]].all()]
    ends = [[(int(f.node_guid[f.port_node[p]]), int(f.port_num[p])) for p in f.cable_port[c]] for c in up]
    for away in (ends[:1], ends):
        less = without_cables(f, away)
        parts = nx.number_connected_components(graph_without(less, ()))
        assert [joins_parts(less, [e]) for e in away] == [parts > 1] * len(away)
    assert joins_parts(f, [(ends[0][0], (0xDEAD, 1))]), "a switch that cannot be seen"


def test_records_survive_and_damaged_ones_are_not_forgotten(tmp_path):
    memory = tmp_path / "seen.json"
    records = Records(memory)
    ends = ((7, 3), (9, 1))
    one = Isolated("a[3] ↔ b[1]", "a[3]", "link-bit-errors", "bad", 100.0, 200.0, None, "", ends, (7, 3))
    records.add(one)
    assert Records(memory).standing == [one] and Records(memory).times(ends[::-1], 150.0) == 1
    records.release(one, 300.0, "repaired")
    again = Records(memory)
    assert not again.standing and again.released_s(ends) == 300.0 and again.every[0].why == "repaired"
    for damaged in ("broken", "[1]", '[["a"]]', "{}" * 2, '[["a","b","c","d","x",1,null,"",[[1,2],[3,4]],[1,2]]]'):
        records.path.write_text(damaged)
        with pytest.raises(softib.InputError, match=r"isolated-seen\.json: "):
            Records(memory)
