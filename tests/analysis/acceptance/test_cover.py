"""The cover schedule and its proof. Oracles: a walk of every flow through the tables hop by hop in plain Python, the tables of all pairs,
counters of the simulated ports, planted slow cables, and the fat tree's construction."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import softib
from softib.analysis.acceptance.cover.measured import carried_most, slow_directions
from softib.analysis.acceptance.cover.routes import cover_routes
from softib.analysis.acceptance.cover.run import run_cover
from softib.analysis.acceptance.cover.schedule import SHARE, cover_schedule
from softib.analysis.acceptance.cover.virtual import measure_in_virtual_time
from softib.analysis.acceptance.plan import ends_of_fabric
from softib.analysis.routed import routed
from softib.api.fabric import result_of
from softib.api.progress import unwatched
from softib.diags.structure.recognise import recognise
from softib.fabric.end_ports import port_gbps


class Lab:
    """A generated fabric with its tables and cover routes."""

    def __init__(self, engine: str | None = None, adaptive: bool = False, only: list[str] | None = None, **shape):
        result = result_of(softib.generate(**shape))
        if adaptive:
            result.extra["sm"] = {"adaptive_routing": "free"}
        self.found = routed(result, engine, None, unwatched)
        self.fabric = self.found.fabric
        self.ends = ends_of_fabric(self.fabric, self.found.graph, only)
        self.routes = cover_routes(self.fabric, self.found.graph, self.found.lft, self.ends, adaptive)

    def walk(self, source: int, target: int) -> list[int]:
        """Rows of the ports that a packet leaves, looked up in the fabric's own tables."""
        f = self.fabric
        port, last = int(self.ends.port[source]), int(self.ends.port[target])
        lid, out = int(f.lid[last]), []
        for _ in range(64):
            out.append(port)
            at = int(f.port_peer[port])
            if at == last:
                return out
            node = int(f.port_node[at])
            port = int(f.node_base[node]) + int(f.lft[f.switch_of_node[node], lid])
        raise AssertionError("the tables run in a circle")

    def measure(self, one):
        return measure_in_virtual_time(self.routes, one, self.ends.row)

    def slow_down(self, port: int, share: float) -> str:
        """The cable behind ``port`` passes that share of its rate, in that direction."""
        self.fabric.port_drain[self.fabric.port_peer[port]] = 8000 / (port_gbps(self.fabric)[port] * share)
        return self.fabric.port_name(port)


@pytest.mark.parametrize("engine", ["ftree", "minhop", "dfsssp"])
def test_loads_are_those_of_a_walk_through_the_tables(engine):
    lab = Lab(engine, kind="fat-tree", radix=8, levels=3, generation="NDR")
    schedule = cover_schedule(lab.routes, 40)
    gbps, proven = port_gbps(lab.fabric), set()
    for one in schedule.rounds:
        assert max(Counter(one.source.tolist()).values()) == max(Counter(one.target.tolist()).values()) == 1
        load: Counter[int] = Counter()
        for s, t in zip(one.source.tolist(), one.target.tolist(), strict=True):
            load.update(lab.walk(s, t))
        assert max(load.values()) == 1, "routes of a round share no link"
        proven |= {p for p, n in load.items() if n * 400 >= SHARE * gbps[p]}
    directions = set(np.flatnonzero(lab.fabric.linked).tolist())
    claimed = {int(lab.routes.port[c]) for c in np.flatnonzero(schedule.proven)}
    assert claimed == proven <= directions
    # What is left, no pair of hosts can reach by these tables.
    hosts = range(len(lab.ends.ends))
    reached = (
        {p for s in hosts for t in hosts if s != t for p in lab.walk(s, t)} if proven != directions else directions
    )
    assert proven == reached
    assert len(schedule.rounds) <= 4


def test_slow_hosts_fill_a_fast_link_together():
    """Hosts of half the rate of the links between switches: two flows fill one."""
    lab = Lab(kind="fat-tree", radix=8, levels=2, hosts=16, generation="NDR")
    routes = lab.routes
    network = routes.network
    network.rate[network.n_links :] = 200.0
    schedule = cover_schedule(routes, 40)
    for one in schedule.rounds:
        assert (one.carries <= network.rate + 1e-9).all()
    crossing: dict[int, set[tuple[int, int]]] = {}
    hosts = range(len(lab.ends.ends))
    for s, t in ((s, t) for s in hosts for t in hosts if s != t):
        for port in lab.walk(s, t):
            crossing.setdefault(port, set()).add((s, t))
    # A link between switches needs two flows of different senders to different receivers, a host's link one.
    edge = set(lab.routes.port[network.n_links :].tolist())
    two = {p for p, pairs in crossing.items() if min(len({s for s, _ in pairs}), len({t for _, t in pairs})) > 1}
    assert {int(lab.routes.port[c]) for c in np.flatnonzero(schedule.proven)} == edge | two
    assert max(one.carries[: network.n_links].max() for one in schedule.rounds) == 400.0


def test_counters_of_the_fluid_layer_move_as_planned():
    lab = Lab("dfsssp", kind="fat-tree", radix=8, levels=3, generation="NDR")
    schedule = cover_schedule(lab.routes, 40)
    rounds, slow = run_cover(lab.routes, schedule, lab.measure, lambda done, of: None)
    most = carried_most(rounds, lab.routes.network.n_channels)
    assert (most >= SHARE * lab.routes.network.rate).sum() == schedule.proven.sum() == len(lab.routes.directions)
    assert not slow.named and not slow.flows and len(rounds) == len(schedule.rounds)


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("where", ["up", "down", "to a host", "from a host"])
def test_a_cable_one_percent_slow_is_named(adaptive, where):
    lab = Lab(adaptive=adaptive, kind="fat-tree", radix=8, levels=2, generation="NDR")
    network = lab.routes.network
    rows = {
        "up": 5,
        "down": network.n_links - 3,
        "from a host": network.n_links + 9,
        "to a host": network.n_channels - 4,
    }
    planted = lab.slow_down(int(lab.routes.port[rows[where]]), 0.99)
    schedule = cover_schedule(lab.routes, 40)
    rounds, slow = run_cover(lab.routes, schedule, lab.measure, lambda done, of: None)
    assert [lab.fabric.port_name(int(lab.routes.port[d.channel])) for d in slow.named] == [planted]
    assert 0.004 < slow.named[0].loss < 0.03 and slow.named[0].rounds >= 2
    assert len(rounds) <= 8


@pytest.mark.parametrize("tiers", [(0, 1), (1, 2), (2, 3), (3, 2), (2, 1), (1, 0)])
def test_each_tier_s_cable_is_told_from_those_behind_it(tiers):
    """Under adaptive routing a link into a leaf that is slow slows all hosts of the leaf as much as itself."""
    lab = Lab(adaptive=True, kind="fat-tree", radix=8, levels=3, generation="NDR")
    f = lab.fabric
    rank = recognise(f).rank
    ports = [p for p in lab.routes.port.tolist() if (rank[f.port_node[p]], rank[f.port_node[f.port_peer[p]]]) == tiers]
    planted = lab.slow_down(ports[len(ports) // 3], 0.99)
    _, slow = run_cover(lab.routes, cover_schedule(lab.routes, 40), lab.measure, lambda done, of: None)
    assert [f.port_name(int(lab.routes.port[d.channel])) for d in slow.named] == [planted]


@pytest.mark.parametrize(("error", "named"), [(None, 1), (0.001, 1), (0.01, 0)])
def test_a_loss_within_the_error_of_its_own_rate_is_none(error, named):
    """A program that waits for a processor is slow now and then: its rate varies between the parts of a round, a slow cable's does not."""
    lab = Lab(kind="fat-tree", radix=8, levels=2, generation="NDR")
    lab.slow_down(int(lab.routes.port[5]), 0.99)
    rounds, _ = run_cover(lab.routes, cover_schedule(lab.routes, 40), lab.measure, lambda done, of: None)
    if error is not None:
        rounds = [replace(r, error=error * r.gbps) for r in rounds]
    assert len(slow_directions(lab.routes, rounds).named) == named


def test_a_healthy_fabric_under_adaptive_routing_has_no_slow_direction():
    lab = Lab(adaptive=True, kind="fat-tree", radix=8, levels=2, generation="NDR")
    schedule = cover_schedule(lab.routes, 40)
    rounds, slow = run_cover(lab.routes, schedule, lab.measure, lambda done, of: None)
    assert not slow.named
    most = carried_most(rounds, lab.routes.network.n_channels)
    assert (most >= SHARE * lab.routes.network.rate).all() and len(rounds) == 2
    assert not slow_directions(lab.routes, rounds[:1]).named, "one round names nothing"


def test_the_bill_says_what_hosts_that_are_left_out_leave():
    """Two hosts of one leaf cover their own cables alone."""
    tree = softib.generate("fat-tree", radix=4, levels=2, generation="NDR")
    run = softib.cover(tree, hosts=["host-0001", "host-0002"])
    assert (run.planned, run.proven, run.directions) == (4, 4, 32)
    reasons = Counter(one.why for one in run.unproven)
    assert reasons == {
        "no measuring port is at its end, and no route between measuring ports can use it": 2 * 6,  # of six other hosts
        "no route between measuring ports uses it": 2 * 8,  # cables between switches
    }
    assert run.good and [f.code for f in run.findings] == ["directions-unproven"]


@pytest.mark.slow
def test_sixteen_thousand_hosts_in_three_tiers():
    lab = Lab(kind="fat-tree", radix=64, levels=3, hosts=16384, generation="NDR")
    assert len(lab.ends.ends) == 16384
    schedule = cover_schedule(lab.routes, 40)
    loaded: set[int] = set()
    for one in schedule.rounds:
        load: Counter[int] = Counter()
        for s, t in zip(one.source.tolist(), one.target.tolist(), strict=True):
            load.update(lab.walk(s, t))
        assert max(load.values()) == 1
        loaded |= set(load)
    assert len(loaded) >= 0.999 * len(lab.routes.directions) and len(schedule.rounds) <= 40


@pytest.mark.slow
def test_a_cable_one_percent_slow_among_two_thousand_hosts_under_adaptive_routing():
    lab = Lab(adaptive=True, kind="fat-tree", radix=20, levels=3, generation="NDR")
    assert len(lab.ends.ends) == 2000
    planted = lab.slow_down(int(lab.routes.port[5000]), 0.99)
    schedule = cover_schedule(lab.routes, 40)
    _, slow = run_cover(lab.routes, schedule, lab.measure, lambda done, of: None)
    assert [lab.fabric.port_name(int(lab.routes.port[d.channel])) for d in slow.named] == [planted]
