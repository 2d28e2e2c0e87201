"""Laws of the packet layer over random fabrics, with adaptive routing, congestion control, aggregation, bit errors, short lifetimes and failures at once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from softib.fabric.builder import FabricBuilder
from softib.fabric.end_ports import end_ports
from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from softib.iba.smp import PortInfo
from softib.scenario.aggregation import aggregation_messages
from softib.scenario.bring_up import bring_up
from softib.scenario.failures import ManagerSettings, run_failures
from softib.scenario.faults_in_time import TimedFault
from softib.sim.messages import Reduction, Transport, joined
from softib.sim.packet import PacketOptions, constants, run
from softib.sim.packet.engine import execute
from softib.sim.packet.stepping import PacketSteps
from softib.sm.config import config_of
from softib.sm.options.file import read_options
from softib.workloads.hosts import hosts_of
from tests.sim.packet.fabrics import congestion
from tests.sim.packet.lab import drained
from tests.sim.packet.traffic import mixture

US = 1_000_000
SEEDS = [*range(50), *(pytest.param(n, marks=pytest.mark.slow) for n in range(50, 250))]
FAILING = [*range(6), *(pytest.param(n, marks=pytest.mark.slow) for n in range(6, 60))]
DROPS = ("hoq_discards", "life_discards", "inactive", "too_long", "relay_errors")


def settings_of(shape: int, engine: str):
    """Adaptive routing, congestion control and, on trees, aggregation, as a manager programs them."""
    text = f"adaptive_routing {('free', 'bounded')[shape % 2]}\n" + ("aggregation TRUE\n" if engine == "ftree" else "")
    return config_of(congestion(1 + shape % 15, shape % 3, 20, 3) | read_options(text).options | {"engine": engine})


@cache
def fabric_of(shape: int):
    """(fabric that is up, its manager's settings): a fat tree with aggregation nodes, or switches joined at random, cables of all lengths."""
    rng = np.random.default_rng(shape)
    if shape % 2:
        fabric, engine = (
            generate(
                "fat-tree",
                radix=int(rng.choice([4, 8])),
                levels=2,
                generation=str(rng.choice(["HDR", "NDR", "XDR"])),
                aggregation_nodes=True,
            ),
            "ftree",
        )
    else:
        fabric, engine = any_graph(rng), "updn"
    fabric.cable_length_m[:] = rng.integers(0, 40, len(fabric.cable_length_m))
    config = settings_of(shape, engine)
    bring_up(fabric, config=config)
    return fabric, config


def any_graph(rng):
    """A random tree of switches and some cables more, one to three hosts at each."""
    n = int(rng.integers(3, 8))
    b, next_port = FabricBuilder("any"), np.ones(n, int)
    switches = b.nodes(n, NodeType.SWITCH, 20, desc=[f"switch-{i}" for i in range(n)], speed="HDR")
    edges = [(i, int(rng.integers(0, i))) for i in range(1, n)]
    edges += [tuple(int(x) for x in rng.choice(n, 2, replace=False)) for _ in range(int(rng.integers(1, n)))]
    for a, c in edges:
        b.links(switches[a], int(next_port[a]), switches[c], int(next_port[c]), length_m=2.0)
        next_port[[a, c]] += 1
    for i in np.repeat(np.arange(n), rng.integers(1, 4, n)).tolist():
        host = b.nodes(1, NodeType.CA, 1, desc=[f"host-{i}-{next_port[i]}"], speed="HDR")
        b.links(switches[i], int(next_port[i]), host, 1, length_m=2.0)
        next_port[i] += 1
    return b.build()


def case(seed: int):
    """A fabric of its own (bit errors, lifetimes), what is sent, options."""
    fabric, config = fabric_of(seed % 10)
    fabric, rng = fabric.copy(), np.random.default_rng(1000 + seed)
    linked = (fabric.port_num > 0) & (fabric.port_peer >= 0)
    if seed % 3 == 1:
        fabric.port_loss[linked, 1] = 10.0 ** -rng.integers(6, 8)
    PortInfo.hoq_life.set(fabric.port_info, int(rng.choice([2, 4, 20])))
    ends = end_ports(fabric)
    sent = mixture(len(hosts_of(fabric)), 120, seed)
    if fabric.sizes.sharps:
        rows = hosts_of(fabric).end
        members = np.sort(rng.choice(rows, min(len(rows), 6), replace=False))
        reduced = aggregation_messages(fabric, ends, Reduction(members, 6000, bool(seed % 4 == 3)))
        sent = joined(
            replace(reduced, job=np.isin(reduced.dst, members).astype(np.int32)), sent
        )  # job 1: the results at hosts
    options = PacketOptions(seed=seed, ack_timeout=6, profile={"vl_blocks": int(rng.choice([130, 300]))})
    return fabric, config, sent, options


def credits_are_back(fabric, net, s):
    """Each sender of a live link may send the whole receive buffer of its peer (IBA chapter 7, flow control)."""
    vls = int(net.opt.vls)
    linked = np.flatnonzero((net.port["peer"] >= 0) & (fabric.port_num > 0))
    there = drained(net, s)
    for vl in range(vls):
        assert np.array_equal(there[linked * vls + vl], net.rare["blocks"][net.port["peer"][linked]])


@pytest.mark.parametrize("seed", SEEDS)
def test_octets_in_are_octets_out_and_credits_come_back(seed):
    """On each cable what one end sent the other received, to the octet. Into each switch came what left it, and what its ports counted as discarded (of bad packets
    that it had not begun to forward: what was found to be bad). Each buffer is whole again, nothing is left, each queue pair's messages arrived in order, and every
    result of an all-reduce holds each vector once."""
    fabric, _, sent, options = case(seed)
    net, s, status, _ = execute(fabric, sent, options)
    lost = any(s.port[column].any() for column in (*DROPS, "rcv_errors"))
    assert (
        status == constants.DONE or (status == constants.STUCK and lost)
    ) and s.reg.in_network == 0  # nobody repeats a datagram that others wait for
    cables = np.flatnonzero((net.port["peer"] >= 0) & (fabric.port_num > 0))
    peer = net.port["peer"][cables]
    for here, there in (("xmit_octets", "rcv_octets"), ("xmit_packets", "rcv_packets")):
        assert np.array_equal(s.port[here][cables], s.port[there][peer])
    inside_a_switch(fabric, s, bool(net.opt.lossy))
    credits_are_back(fabric, net, s)
    assert not (s.vl["ring"].any() or s.vl["queued"].any()) and not s.port["ready"].any()
    rc = sent.transport == Transport.RC
    done = s.message["completed"][: len(sent)] >= 0
    assert done[rc].mean() > 0.5 and (done[rc].all() or lost)
    arrived = s.message["arrived"][: len(sent)]
    for q in np.unique(sent.qp[rc & (sent.opcode < 2)]).tolist():
        in_turn = arrived[(sent.qp == q) & (sent.opcode < 2)]
        assert (np.diff(in_turn[in_turn >= 0]) >= 0).all()
    if net.opt.aggregates:
        summed = np.flatnonzero(sent.job == 1)
        values = s.message["value"][summed][arrived[summed] >= 0]
        assert len(values) and (values == (np.unique(sent.dst[summed]) + 1).sum()).all()


def inside_a_switch(fabric, s, lossy):
    """Packets into each switch (port 0's own, too) and out of it."""
    for node in np.flatnonzero(fabric.is_switch).tolist():
        own, ports = int(fabric.node_base[node]), fabric.node_base[node] + 1 + np.arange(fabric.node_nports[node])
        came = s.port["rcv_packets"][ports].sum() + s.port["xmit_packets"][own]
        left = s.port["xmit_packets"][ports].sum() + s.port["rcv_packets"][own] - s.port["xmit_packets"][own]
        dropped = sum(s.port[column][np.append(ports, own)].sum() for column in DROPS)
        bad = s.port["rcv_errors"][ports].sum() + s.rare_count["remote_errors"][ports].sum()
        assert 0 <= came - left - dropped <= (bad if lossy else 0), (node, came, left, dropped, bad)
        if not dropped and not bad:
            out = s.port["xmit_octets"][ports].sum() + s.port["rcv_octets"][own] - s.port["xmit_octets"][own]
            assert s.port["rcv_octets"][ports].sum() + s.port["xmit_octets"][own] == out


@pytest.mark.parametrize("seed", [n for n in range(12) if n % 3 != 1])
def test_a_run_that_begins_later_is_the_same_run_later(seed):
    """Nothing that happens depends on what time it is: all times are later by the same ps, counters are the same. (Bit errors are drawn by time.)"""
    fabric, _, sent, options = case(seed)
    later_ps = 123_456_789
    waits = sent.first[1:] > sent.first[:-1]
    sent = replace(sent, delay_ps=np.where(waits, sent.delay_ps, 0))
    later = replace(sent, start_ps=sent.start_ps + later_ps)
    a, b = run(fabric, sent, options), run(fabric, later, options)
    for name in ("began_ps", "arrived_ps", "completed_ps"):
        x, y = getattr(a, name), getattr(b, name)
        assert np.array_equal(np.where(x >= 0, x + later_ps, x), y), name
    assert a.counters.tobytes() == b.counters.tobytes()


@pytest.mark.parametrize("seed", FAILING)
def test_laws_hold_with_everything_while_cables_fail(seed, monkeypatch):
    """The same with a manager that re-routes: on a cable only what it lost when it was pulled is missing; MADs are answered, lost or in their row's list; buffers
    of live links are whole."""
    fabric, config, sent, options = case(seed)
    rng = np.random.default_rng(seed)
    of_switch = np.flatnonzero(fabric.is_switch[fabric.port_node] & (fabric.port_peer >= 0) & (fabric.port_num > 0))
    faults = []
    for port in rng.choice(of_switch, 2, replace=False).tolist():
        down, name = int(rng.integers(1, 20)) * US // 4, fabric.port_name(port)
        faults += [
            TimedFault(down, "link-down", name),
            TimedFault(down + int(rng.integers(1, 60)) * US, "link-up", name),
        ]
    faults.append(TimedFault(2 * US, "ber", fabric.port_name(int(of_switch[seed % len(of_switch)])), {"ber": 1e-6}))
    kept: list[PacketSteps] = []
    begin = PacketSteps.__init__
    monkeypatch.setattr(PacketSteps, "__init__", lambda steps, *given: (kept.append(steps), begin(steps, *given))[1])
    made = run_failures(fabric, sent, faults, options, ManagerSettings(config))
    steps = kept[0]
    s, net = steps.state, steps.net
    assert s.reg.in_network == 0 and not s.mads.inbox and not s.smi["held"].any()
    assert s.mads.spare == len(s.mad) - 1
    here = np.flatnonzero((fabric.port_num > 0) & (fabric.port_peer >= 0))
    there = fabric.port_peer[here]
    missing = s.port["xmit_packets"][here] - s.port["rcv_packets"][there]
    # a packet whose head was in a queue when its cable was pulled was received before it was lost
    assert ((missing >= 0) & (missing <= s.smi["cut"][there] + s.port["rcv_errors"][there])).all()
    whole = (s.smi["cut"][there] == 0) & (s.port["rcv_errors"][there] == 0)
    assert np.array_equal(s.port["xmit_octets"][here[whole]], s.port["rcv_octets"][there[whole]])
    credits_are_back(fabric, net, s)
    assert made.mads["lost"] + made.mads["answered"] <= made.mads["sent"]
