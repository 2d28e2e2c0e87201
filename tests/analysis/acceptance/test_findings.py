"""Planted slow hosts, adapters and cables are named from made-up measurements; the bar is 95 % (bench/acceptance_stories.py has more of it)."""

from __future__ import annotations

import numpy as np
import pytest

from softib.diags.acceptance.measurements import Failure, Measurements
from tests.analysis.acceptance.stories import SIZES, Lab, Planted, tally


@pytest.fixture(scope="module")
def tree():
    return Lab(4, kind="fat-tree", radix=8, levels=3, generation="HDR")


@pytest.fixture(scope="module")
def rails():
    return Lab(4, kind="rail-optimized", nodes=16, rails=4, radix=16)


def test_what_is_planted_is_named_and_nothing_else(tree):
    planted, named, false = tally(tree, range(5), ("host", "cable", "cable"))
    assert named >= 0.95 * planted
    assert false == 0


def test_an_adapter_is_told_from_its_host(rails):
    for kind in ("adapter", "host"):
        planted, named, false = tally(rails, range(3), (kind,))
        assert (named, false) == (planted, 0)


def test_a_healthy_fabric_has_no_finding(tree):
    assert tally(tree, range(5), ()) == (0, 0, 0)


@pytest.mark.slow
def test_several_at_once_over_hundreds_of_hosts():
    lab = Lab(4, kind="fat-tree", radix=10, levels=3)
    planted, named, false = tally(lab, range(50), ("host", "host", "cable", "cable"))
    assert named >= 0.95 * planted
    assert false <= 2


def test_the_finding_has_its_numbers(tree):
    rng = np.random.default_rng(3)
    planted = [Planted("host", 11, 0.5)]
    found = tree.judge(int(rng.integers(9)), planted)
    assert [f.code for f in found] == ["slow-host"]
    evidence = found[0].evidence
    assert evidence["loss_percent"] == pytest.approx(50, abs=3)
    assert evidence["confidence"] > 0.99
    assert set(evidence["tests"]) >= {"bandwidth", "latency"}
    assert all(tree.ends.host[11] in " ".join(e["pair"]) for e in evidence["slowest"])


def test_slow_pairs_that_no_part_explains_are_told(tree, monkeypatch):
    """A slow host, and three pairs elsewhere that measure a quarter, each for a reason of its own: they are listed, and nothing else is."""
    from softib.analysis.acceptance.findings import judge
    from tests.analysis.acceptance import stories

    monkeypatch.setattr(stories, "HICCUPS", 0.0)
    measured = tree.measure(4, [Planted("host", 11, 0.5)])
    rows = np.flatnonzero((measured.test == "bandwidth") & (measured.source != 11) & (measured.target != 11))[
        [3, 30, 60]
    ]
    measured.value[rows] /= 4
    expected = {
        (measured.ends.name(int(a)), measured.ends.name(int(b)))
        for a, b in zip(measured.source[rows], measured.target[rows], strict=True)
    }
    found = judge(measured, tree.expectation, SIZES).findings
    told = next(f for f in found if f.code == "pairs-unexplained")
    assert {tuple(p["pair"]) for p in told.evidence["pairs"]} == expected and told.severity > 0
    assert all(p["lacks_percent"] == pytest.approx(75, abs=6) for p in told.evidence["pairs"])
    measured.value[rows] *= 4
    codes = [f.code for f in judge(measured, tree.expectation, SIZES).findings]
    assert "slow-host" in codes and "pairs-unexplained" not in codes


def test_links_that_trained_low_and_cables_that_no_pair_crossed_are_counted(tree):
    from softib.analysis.acceptance.findings import judge
    from softib.analysis.acceptance.remainder import trained_low, uncrossed

    measured = tree.measure(4, [])
    one = np.flatnonzero((measured.source == 0) & (measured.target != 0))[:1]
    few = Measurements(tree.ends, *(getattr(measured, n)[one] for n in ("test", "round", "source", "target", "value")))
    links = int(((tree.fabric.port_peer >= 0) & (tree.expectation.plane.gbps > 0)).sum()) // 2
    paths = tree.expectation.paths(few.source, few.target), tree.expectation.paths(few.target, few.source)
    crossed = {min(int(p), int(tree.fabric.port_peer[p])) for there in paths for p in there.port}
    (left,) = uncrossed(few, tree.expectation)
    assert left.evidence["of"] == links and len(left.evidence["cables"]) == links - len(crossed)
    rate, port = tree.expectation.plane.gbps, int(tree.cables[0])
    ends = [port, int(tree.fabric.port_peer[port])]
    before = rate[ends].copy()
    rate[ends] /= 4
    try:
        (low,) = trained_low(tree.expectation, [])
        assert (
            len(low.evidence["links"]) == 1
            and low.evidence["links"][0]["usual_gbps"] == 4 * low.evidence["links"][0]["gbps"]
        )
        assert "links-trained-low" in [f.code for f in judge(measured, tree.expectation, SIZES).findings]
    finally:
        rate[ends] = before


def test_a_link_that_trained_slowly_is_expected_at_the_rate_of_its_kind(tree):
    """Its pairs measure what the slow link carries, which the model of the fabric as it stands would call right."""
    from softib.analysis.acceptance.expected_pairs import usual_gbps

    gbps = tree.expectation.plane.gbps.copy()
    port = int(tree.cables[0])
    gbps[[port, int(tree.fabric.port_peer[port])]] /= 4
    assert usual_gbps(tree.fabric, gbps)[port] == tree.expectation.plane.gbps[port]


def test_expected_latency_is_the_law_of_simulate(tree):
    """Half of a ping-pong: two adapters, the path's switches and the octets, as the fluid layer has a message that is alone."""
    from softib.sim import fluid
    from softib.sim.messages import messages

    e, one = tree.expectation, tree.rounds[-1]
    a, b = one.source[:4], one.target[:4]
    for x, y, us in zip(a, b, e.latency_us(a, b, 2), strict=True):
        alone = [fluid.run(e.plane, messages(e.row[[p]], e.row[[q]], 2)) for p, q in ((x, y), (y, x))]
        assert us == pytest.approx(sum(float(o.arrived_ps[0]) for o in alone) / 2e6, rel=0.01)


def test_who_failed_is_named_with_the_reason(tree):
    from softib.analysis.acceptance.findings import judge

    failures = [
        Failure(0, "bandwidth", 0, 1, 0, "Permission denied (publickey)"),
        Failure(1, "latency", 2, 0, 0, "Permission denied (publickey)"),
        Failure(1, "latency", 5, 6, -1, "not finished after 60 s"),
    ]
    found = judge(Measurements.of(tree.ends, [], failures), tree.expectation, SIZES).findings
    assert [f.code for f in found] == ["host-unmeasured", "pair-unmeasured"]
    assert found[0].message == f"{tree.ends.host[0]}: Permission denied (publickey)"


def test_hosts_without_a_fabric_are_named_too():
    from softib.analysis.acceptance.findings import judge
    from softib.analysis.acceptance.plan import ends_of_hosts
    from softib.diags.acceptance.schedule import rounds_of

    ends = ends_of_hosts([f"node{i:02}" for i in range(24)])
    rng = np.random.default_rng(0)
    rows = [
        {
            "test": "bandwidth",
            "round": one.number,
            "source": a,
            "target": b,
            "value": (60 if 7 in (a, b) else 100) * rng.uniform(0.98, 1),
        }
        for one in rounds_of(ends, 8)
        for a, b in zip(one.source.tolist(), one.target.tolist(), strict=True)
    ]
    found = judge(Measurements.of(ends, rows), None, SIZES).findings
    assert [(f.code, f.where[0].node) for f in found] == [("slow-host", "node07")]


def test_latency_beside_bandwidth_waits_where_paths_meet_the_load(tree):
    """Oracle: the packet layer with all pairs of the round, none left out; and the law without load where no link is shared."""
    from softib.analysis.acceptance.loaded_latency import END_PS, EVERY_PS, PROBES, SETTLED_PS
    from softib.diags.acceptance.measurements import TESTS
    from softib.diags.acceptance.schedule import measuring_parts
    from softib.sim import packet
    from softib.sim.messages import messages
    from softib.sim.packet.options import PacketOptions

    e = tree.expectation
    one = next(r for r in tree.rounds if r.pairs == "across core")
    found, alone = e.of_round(TESTS["latency-with-bandwidth"], one, 2), e.latency_us(one.source, one.target, 2)
    part = measuring_parts(len(one))
    mine, load = part == 0, part != 0
    a, b = np.concatenate([one.source[mine], one.target[mine]]), np.concatenate([one.target[mine], one.source[mine]])
    x, y = np.concatenate([one.source[load], one.target[load]]), np.concatenate([one.target[load], one.source[load]])
    begin = np.tile(SETTLED_PS + np.arange(PROBES) * EVERY_PS, len(a))
    sent = messages(
        e.row[np.concatenate([np.repeat(a, PROBES), x])],
        e.row[np.concatenate([np.repeat(b, PROBES), y])],
        np.concatenate([np.full(len(begin), 2), np.full(len(x), 1 << 21)]),
        start_ps=np.concatenate([begin, np.zeros(len(x), np.int64)]),
    )
    took = packet.run(tree.fabric, sent, PacketOptions(until_ps=END_PS)).arrived_ps[: len(begin)] - begin
    middle = np.median(took.reshape(-1, PROBES), axis=1) / 1e6
    assert found[mine] == pytest.approx((middle[: mine.sum()] + middle[mine.sum() :]) / 2, abs=0.08)
    assert (found >= alone - 1e-9).all() and (found - alone).max() > 0.1
    leaf = next(r for r in tree.rounds if r.pairs == "same leaf")
    assert np.array_equal(
        e.of_round(TESTS["latency-with-bandwidth"], leaf, 2), e.latency_us(leaf.source, leaf.target, 2)
    )


def test_a_cable_that_delays_beside_bandwidth_is_named():
    lab = Lab(2, tests=["latency-with-bandwidth"], kind="fat-tree", radix=8, levels=2, generation="HDR")
    port = next(c for c in lab.cables.tolist() if lab.crossed(c) > 3)
    found = lab.judge(5, [Planted("cable", port, 1.5)])
    assert [f.code for f in found] == ["slow-cable"] and lab.names(found[0], Planted("cable", port, 1.5))
    assert set(found[0].evidence["tests"]) == {"latency-with-bandwidth"}


def test_every_pair_measures_once_beside_the_others(tree):
    from softib.analysis.acceptance.plan import plan_batches
    from softib.diags.acceptance.measurements import tests_named

    plan = plan_batches(
        tree.ends,
        tree.expectation,
        tests_named(["latency-with-bandwidth"]),
        per_class=1,
        size=1 << 20,
        seconds=1.0,
        at_once=None,
    )
    for one in plan.rounds:
        batches = [b for b in plan.batches if b.round == one.number]
        everybody = set(zip(one.source.tolist(), one.target.tolist(), strict=True))
        assert sorted((p.source, p.target) for b in batches for p in b.pairs) == sorted(everybody)
        for b in batches:
            measured, load = ({(p.source, p.target) for p in some} for some in (b.pairs, b.load))
            assert measured | load == everybody and not measured & load and len(load) >= 2 * len(measured)
