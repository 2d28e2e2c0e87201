"""Failures in virtual time against closed forms and laws: wire times, recovery, counters, credits
(IBA chapter 7, 7.6.9, 14.2.2, 16.1.3.5)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from softib.errors import InputError, UnknownName
from softib.fabric.builder import FabricBuilder
from softib.fabric.end_ports import end_ports
from softib.fabric.node_finder import find_node
from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from softib.iba.smp import CLASS_AT, HOP_COUNT_AT, INITIAL_PATH_AT, METHOD_AT
from softib.scenario.aggregation import aggregation_messages
from softib.scenario.bring_up import bring_up
from softib.scenario.failures import ManagerSettings, run_failures
from softib.scenario.faults_in_time import TimedFault
from softib.sim.messages import MulticastGroup, Opcode, Reduction, Transport, messages
from softib.sim.packet import PacketOptions, constants, run
from softib.sim.packet.manager_tables import deliveries_of
from softib.sim.packet.stepping import PacketSteps, ProcessorTimes
from softib.sm.config import SmConfig, config_of
from softib.sm.options.file import read_options
from softib.workloads.hosts import hosts_of
from tests.sim.packet.fabrics import chain, congestion, no_lifetimes, star, tree, up
from tests.sim.packet.lab import drained
from tests.sim.packet.traffic import mixture

US = 1_000_000
MAD_OCTETS = 290
"""LRH 8, BTH 12, DETH 8, MAD 256, ICRC 4, VCRC 2."""
QUICK = PacketOptions(ack_timeout=8)
"""ACK timeout 1.05 ms, about what a sweep takes: seven retries outlast it."""


def twins(cables: int = 2, hosts: int = 3, length_m: float = 2.0):
    """Two switches with parallel cables; the first host of the first switch has the manager."""
    b = FabricBuilder("twins")
    sw = b.nodes(2, NodeType.SWITCH, hosts + cables, desc=["left", "right"], speed="HDR")
    host = b.nodes(2 * hosts, NodeType.CA, 1, desc=[f"host-{i:04}" for i in range(2 * hosts)], speed="HDR")
    at = np.arange(2 * hosts)
    b.links(sw[at // hosts], 1 + at % hosts, host, 1, length_m=length_m)
    between = np.arange(cables)
    b.links(
        np.repeat(sw[0], cables), hosts + 1 + between, np.repeat(sw[1], cables), hosts + 1 + between, length_m=length_m
    )
    return up(b.build())


def smp(path: tuple[int, ...]) -> np.ndarray:
    """Get(NodeInfo) along ``path``."""
    mad = np.zeros(256, np.uint8)
    mad[:4] = 1, 0x81, 1, 1
    mad[17] = 0x11
    mad[HOP_COUNT_AT] = len(path)
    mad[32:36] = 0xFF
    mad[INITIAL_PATH_AT + 1 : INITIAL_PATH_AT + 1 + len(path)] = path
    return mad


def steps_of(fabric, sent, **times):
    return PacketSteps(fabric, sent, np.zeros(len(sent), np.int64), PacketOptions(), ProcessorTimes(**times))


def finish(steps):
    """To the end, answering nothing."""
    while steps.run_until(10**13):
        steps.arrived()


# -- the law of nothing --


@pytest.mark.parametrize("seed", range(3))
def test_without_faults_the_same_bytes_come_out(seed):
    """The run that could be managed and the one that cannot give the same times and counters."""
    sent = mixture(len(end_ports(tree(4, 2))), 200, seed)
    plain = run(tree(4, 2), sent, PacketOptions(seed=seed))
    settings = ManagerSettings(SmConfig(engine="minhop"))
    managed = run_failures(tree(4, 2).copy(), sent, [], PacketOptions(seed=seed), settings).outcome
    for name in ("began_ps", "arrived_ps", "completed_ps", "counters"):
        assert np.array_equal(getattr(plain, name), getattr(managed, name)), name
    assert plain.work["packet hops"] == managed.work["packet hops"]


# -- MADs on the wire --


def test_a_mad_delays_data_by_its_wire_time_and_goes_first():
    """A host sends without a pause; a MAD that it posts meanwhile leaves after the packet that is
    on the wire, before all others (IBA 7.6.9), and all packets after it come later by its wire
    time, no more and no less."""
    plain, with_mad = (steps_of(no_lifetimes(star(3)), messages([1], [0], 400_000)) for _ in range(2))
    finish(plain)
    port = int(end_ports(with_mad.fabric)[1])
    with_mad.run_until(20 * US)
    left = int(with_mad.state.port["xmit_packets"][port])
    busy_until = int(with_mad.state.port["free_at"][port])
    assert with_mad.state.port["ready"][port] == 1  # data waits
    with_mad.post(port, smp((1,)), 0xFFFF, 20 * US)
    with_mad.run_until(busy_until + 1)
    assert with_mad.state.port["xmit_packets"][port] == left + 1
    assert with_mad.state.smi["head"][port] == 0
    wire_ps = round(MAD_OCTETS * int(with_mad.net.port["fs"][port]) / 1000)
    assert int(with_mad.state.port["free_at"][port]) - busy_until == pytest.approx(
        wire_ps, abs=500
    )  # and flow control before it
    finish(with_mad)
    later = int(with_mad.state.message["arrived"][0] - plain.state.message["arrived"][0])
    assert later == wire_ps


def test_vl15_needs_no_credits_and_waits_for_no_data():
    """A port whose data VL has no credit at all still sends SMPs (IBA chapter 7, flow control)."""
    fabric = no_lifetimes(star(3))
    steps = steps_of(fabric, messages([1], [0], 4_000_000))
    steps.drains(int(end_ports(fabric)[0]), 0.0)
    steps.run_until(200 * US)
    port = int(end_ports(fabric)[1])
    assert steps.state.vl["waits"][port * int(steps.net.opt.vls)] & constants.STARVED
    before = int(steps.state.port["xmit_packets"][port])
    steps.post(port, smp((1,)), 0xFFFF, 200 * US)
    assert steps.run_until(300 * US)
    assert int(steps.state.port["xmit_packets"][port]) == before + 1
    assert len(steps.arrived()) == 1


@pytest.mark.parametrize("buffers", [1, 2, 5])
def test_a_full_vl15_buffer_drops_and_counts(buffers):
    """Twelve SMPs at once to a switch whose processor takes long: the buffer's share is answered,
    each other one is VL15Dropped."""
    fabric = star(2)
    steps = steps_of(fabric, messages([0], [1], 8), agent_ps=1000 * US, vl15_packets=buffers)
    port = int(end_ports(fabric)[0])
    for _ in range(12):
        steps.post(port, smp((1,)), 0xFFFF, 0)
    came = 0
    while steps.run_until(10**13):
        came += len(steps.arrived())
    entry = int(fabric.port_peer[port])
    assert came == buffers
    assert steps.state.smi["dropped"][entry] == 12 - buffers == steps.state.mads.lost
    assert not steps.state.smi["held"].any() and steps.in_network == 0


def test_the_return_path_is_that_of_the_specification():
    """Each switch writes the port by which the SMP came in (IBA 14.2.2.2); the hop pointer is
    beyond the count at the end."""
    fabric = chain(3, 1)  # ports: 1 host, 2 to the next, 3 to the one before
    steps = steps_of(fabric, messages([0], [1], 8))
    steps.post(int(end_ports(fabric)[0]), smp((1, 2, 2)), 0xFFFF, 0)
    while not steps.run_until(10**13):
        pass
    (a,) = steps.arrived()
    assert fabric.node_name(int(fabric.port_node[a.end])) == "switch-2"
    assert a.mad[192 + 1 : 192 + 4].tolist() == [1, 3, 3] or a.mad[128 + 64 + 1 : 128 + 64 + 4].tolist() == [1, 3, 3]


def test_gmps_take_credits_of_a_data_vl():
    """Of twenty performance MADs behind a VL without room for a data packet as many leave as
    credits are left: five blocks of 64 octets each (IBA chapter 7, flow control); twenty SMPs all
    leave."""
    fabric = no_lifetimes(star(3))
    steps = steps_of(fabric, messages([1], [0], 4_000_000), vl15_packets=99)
    ends = end_ports(fabric)
    steps.drains(int(ends[0]), 0.0)
    steps.run_until(200 * US)
    port = int(ends[1])
    row = steps.state.vl[port * int(steps.net.opt.vls)]
    free = int(row["fccl"] - row["fctbs"]) & constants.WRAP
    mad = np.zeros(256, np.uint8)
    mad[:4] = 1, 4, 1, 1
    before = int(steps.state.port["xmit_packets"][port])
    for _ in range(20):
        steps.post(port, mad, int(fabric.lid[ends[0]]), 200 * US, 0, steps.vl_of(port, 0))
    assert not steps.run_until(2000 * US)
    assert int(steps.state.port["xmit_packets"][port]) - before == free // 5 < 20
    for _ in range(20):
        steps.post(port, smp((1,)), 0xFFFF, 2000 * US)
    while steps.run_until(3000 * US):
        steps.arrived()
    assert int(steps.state.port["xmit_packets"][port]) - before == free // 5 + 20


def test_a_gmp_reaches_the_port_of_its_lid():
    fabric = star(3)
    ends = end_ports(fabric)
    mad = np.zeros(256, np.uint8)
    mad[:4] = 1, 4, 1, 1
    steps = steps_of(fabric, messages([1], [0], 8))
    steps.post(int(ends[1]), mad, int(fabric.lid[ends[2]]), 0, 0, 0)
    assert steps.run_until(2000 * US)
    (a,) = steps.arrived()
    assert a.end == ends[2] and a.source == ends[1] and not a.smp


# -- recovery in closed form --


class Posts:
    """What the manager sent: time, hops, does it end at a switch, is it a Set of a forwarding
    table?"""

    def __init__(self, monkeypatch, manager: int):
        self.sent: list[tuple[int, np.ndarray]] = []
        post = PacketSteps.post

        def remember(steps, port, mad, dlid, now_ps, level=0, vl=15):
            if port == manager and mad[CLASS_AT] == 0x81 and mad[METHOD_AT] in (1, 2):
                self.sent.append((now_ps, mad.copy()))
            post(steps, port, mad, dlid, now_ps, level, vl)

        monkeypatch.setattr(PacketSteps, "post", remember)


def test_recovery_takes_the_trap_and_the_round_trips(monkeypatch):
    """Two switches, two cables, one is pulled. With one SMP on the wire at a time the trap comes
    after the agent's time and one wire, the sweep ends after the sum of all round trips, and paths
    are back when the last table block is at its switch: to the ps."""
    fabric = twins()
    manager = int(end_ports(fabric)[0])
    cable = fabric.port(find_node(fabric, "left"), 4)
    agent, forward, thinks = 7 * US, 3 * US, 2 * US
    posts = Posts(monkeypatch, manager)
    sent = messages([1, 2], [4, 5], 8, start_ps=[1900 * US, 1950 * US])
    settings = ManagerSettings(SmConfig(engine="minhop", window=1), None, thinks, ProcessorTimes(agent, forward))
    pulled = 100 * US
    made = run_failures(fabric, sent, [TimedFault(pulled, "link-down", fabric.port_name(int(cable)))], None, settings)
    fs, delay = 8e6 / 200, 2 * 5000
    wire, latency = round(MAD_OCTETS * fs / 1000) + delay, 130_000
    (trap,) = [at for at, _, number in made.milestones.traps if number == 128][:1]
    assert trap == pulled + agent + wire
    ((began, ended),) = made.milestones.sweeps[:1]
    assert began == trap + thinks
    at, tables = began, []
    for when, mad in posts.sent:
        assert when == at
        hops = int(mad[HOP_COUNT_AT])
        path = mad[INITIAL_PATH_AT + 1 : INITIAL_PATH_AT + 1 + hops].tolist()
        to_switch = hops == 1 or (
            hops > 1 and path[-1] in (4, 5)
        )  # the first hop is the switch, ports 4 and 5 are the cables
        links = 2 * hops * wire
        passed = max(hops - 1, 0)
        there = hops * wire + (passed + to_switch) * latency + passed * forward + agent
        if mad[METHOD_AT] == 2 and mad[17] == 0x19:
            tables.append(at + there)
        at += links + (2 * passed + to_switch) * latency + 2 * passed * forward + agent + thinks
    assert ended == at
    assert made.milestones.tables == tables and tables
    assert made.paths_back_ps[0] in tables and made.outcome.done


def test_a_permutation_survives_a_pulled_cable():
    """Packets resume after the re-route: every message arrives, some were sent again, and the
    figures are in order."""
    fabric = tree(4, 2).copy()
    n = 8
    at = np.arange(n)
    sent = messages(at, (at + 3) % n, 4_000_000, qp=at)
    port = int(fabric.port(find_node(fabric, "leaf-1"), 3))
    made = run_failures(fabric, sent, [TimedFault(20 * US, "link-down", fabric.port_name(port))], QUICK)
    assert made.outcome.done and made.resent.sum() > 0
    assert made.broken[0] > 0 and not len(made.unreachable)
    (record,), (back,) = made.records, made.paths_back_ps
    trap = made.milestones.traps[0][0]
    (began, ended), *_ = made.milestones.sweeps
    assert record.fault.at_ps < trap < began < back <= ended
    assert back == max(x for x in made.milestones.tables if x <= back)
    again = made.resent > 0
    assert (made.outcome.arrived_ps[again] > back).any()
    downed = made.outcome.counters["link_downed_counter"]
    assert sorted(np.flatnonzero(downed).tolist()) == sorted([port, int(fabric.port_peer[port])])


def test_a_dead_switch_takes_its_hosts_with_it():
    """Hosts behind a leaf without power never arrive; the others do; both leaves' hosts are named;
    its packets count nowhere."""
    fabric = tree(4, 2).copy()
    n = 8
    at = np.arange(n)
    sent = messages(at, (at + 3) % n, 2_000_000, qp=at)
    ends = end_ports(fabric)
    made = run_failures(fabric, sent, [TimedFault(20 * US, "switch-down", "leaf-4")], QUICK)
    hosts = [int(ends[h]) for h in range(n) if "leaf-4" in fabric.port_name(int(fabric.port_peer[ends[h]]))]
    assert len(hosts) == 2 and made.unreachable.tolist() == sorted(hosts)
    involved = np.isin(ends[sent.src], hosts) | np.isin(ends[sent.dst], hosts)
    assert (made.outcome.arrived_ps[involved] < 0).all() and (made.outcome.arrived_ps[~involved] >= 0).all()
    neighbours = fabric.port_peer[list(fabric.ports_of(find_node(fabric, "leaf-4")))]
    downed = made.outcome.counters["link_downed_counter"]
    assert (downed[neighbours] == 1).all() and downed.sum() == 4
    assert made.records[0].lost_on_wire > 0


def test_a_switch_that_comes_back_carries_traffic_again():
    """switch-down and switch-up: the manager programs it anew, and the hosts behind it are reached.
    The neighbours' second trap may leave only SubnetTimeOut 18, 1.07 s, after the first (IBA
    o14-2), so the manager looks by itself before; queue pairs must be patient all the same."""
    fabric = tree(4, 2).copy()
    sent = messages([0, 6], [6, 1], 2_000_000, qp=[0, 1])
    faults = [TimedFault(20 * US, "switch-down", "leaf-4"), TimedFault(400 * US, "switch-up", "leaf-4")]
    made = run_failures(fabric, sent, faults, PacketOptions(ack_timeout=17))
    assert made.outcome.done and not len(made.unreachable)
    back = next(begin for begin, _ in made.milestones.sweeps if begin > 400 * US)
    assert back < 400 * US + (4_096_000 << 18) // 2
    assert len(made.milestones.sweeps) >= 2 and all(back >= 0 for back in made.paths_back_ps)


def test_without_a_manager_nobody_re_routes():
    fabric = tree(4, 2).copy()
    at = np.arange(8)
    sent = messages(at, (at + 3) % 8, 2_000_000, qp=at)
    fault = TimedFault(20 * US, "link-down", "leaf-1[3]")
    made = run_failures(fabric, sent, [fault], PacketOptions(ack_timeout=1), ManagerSettings(None))
    assert not made.outcome.done and made.paths_back_ps == [-1] and not made.milestones.sweeps
    never = made.outcome.arrived_ps < 0
    assert 0 < never.sum() < 8 and (made.resent[never] > 0).all()


def test_a_small_vl15_buffer_costs_timeouts_not_the_sweep():
    """SMPs that find the buffer full are repeated by the manager after its timeout (OpenSM's
    transaction_timeout), and the sweep ends."""
    fabric = tree(4, 2).copy()
    sent = messages([0, 1], [5, 6], 8, start_ps=[0, 3000 * US])
    times = ProcessorTimes(vl15_packets=1)
    config = SmConfig(engine="minhop", window=32, timeout_ps=500 * US)
    fault = TimedFault(20 * US, "link-down", "leaf-2[3]")
    made = run_failures(fabric, sent, [fault], None, ManagerSettings(config, times=times))
    assert (
        made.mads["vl15_dropped"] > 0 and int(made.outcome.counters["vl15_dropped"].sum()) == made.mads["vl15_dropped"]
    )
    assert made.milestones.sweeps[-1][1] > 0 and made.outcome.done


# -- faults together with other mechanisms --


@pytest.mark.parametrize("conf", ["adaptive_routing free\n", "congestion"])
def test_adaptive_routing_and_congestion_control_survive_a_pulled_cable(conf):
    """Both as the manager programs them, while it re-routes: every message arrives, both mechanisms
    took part, and credits come back."""
    options = congestion(1, 0, 20, 3) if conf == "congestion" else read_options(conf).options
    config = config_of(options | {"engine": "ftree"})
    fabric = generate("fat-tree", radix=8, levels=2, generation="NDR")
    bring_up(fabric, config=config)
    n = 32
    at = np.arange(n)
    sent = messages(at, np.where(at % 4 == 0, (at + 4) % n, at // 16), np.where(at < 2, 4096, 200_000), qp=at)
    sent = sent.only(sent.src != sent.dst)
    port = int(fabric.port(find_node(fabric, "leaf-1"), 5))
    run_of: list[PacketSteps] = []
    made = _kept(
        run_of, fabric, sent, [TimedFault(20 * US, "link-down", fabric.port_name(port))], QUICK, ManagerSettings(config)
    )
    s, net = run_of[0].state, run_of[0].net
    assert made.outcome.done and made.broken[0] > 0
    assert net.opt["cc" if conf == "congestion" else "ar"]
    if conf == "congestion":
        assert s.port["marked"].sum() > 0 and s.port["rcv_becn"].sum() > 0
    _all_credits_are_back(fabric, net, s)


@pytest.mark.parametrize("seed", range(3))
def test_a_group_survives_cables_that_fail(seed):
    """Datagrams to a group while its tree's cables fall and come back: a member has each at most
    once, no packet is left, each sender of a live link has the whole receive buffer again (copies
    of a packet have one place in it), and after the manager's sweep all arrive."""
    rng = np.random.default_rng(seed)
    fabric = no_lifetimes(tree(4, 2).copy())
    group = MulticastGroup(np.array([0, 2, 5, 7]))
    n = 400
    sent = messages(
        np.zeros(n, int),
        2,
        2048,
        qp=0,
        transport=Transport.UD,
        opcode=Opcode.SEND,
        group=1,
        groups=[group],
        start_ps=np.where(np.arange(n) < 300, np.arange(n) * US // 20, 3000 * US + np.arange(n) * US // 10),
    )
    cables = np.flatnonzero(
        fabric.is_switch[fabric.port_node]
        & fabric.is_switch[fabric.port_node[fabric.port_peer]]
        & (fabric.port_peer >= 0)
    )
    port = int(rng.choice(cables))
    faults = [TimedFault(int(rng.integers(1, 12)) * US, "link-down", fabric.port_name(port))]
    faults.append(TimedFault(14 * US, "link-up", fabric.port_name(port)))
    run_of: list[PacketSteps] = []
    made = _kept(run_of, fabric, sent, faults, QUICK, ManagerSettings(SmConfig(engine="minhop")))
    s, net = run_of[0].state, run_of[0].net
    assert s.reg.in_network == 0
    _all_credits_are_back(fabric, net, s)
    for i in range(n):
        ports, when, times = deliveries_of(net, s, i)
        others = ports != net.group_port[0]
        assert (times <= 1).all() and (i < 300 or (when[others] > 0).all())
    assert (made.outcome.arrived_ps[:20] >= 0).all()


def _all_credits_are_back(fabric, net, s):
    vls = int(net.opt.vls)
    linked = np.flatnonzero((net.port["peer"] >= 0) & (fabric.port_num > 0))
    for vl in range(vls):
        assert np.array_equal(drained(net, s)[linked * vls + vl], net.rare["blocks"][net.port["peer"][linked]])


def test_aggregation_survives_a_pulled_cable():
    """An all-reduce while a cable between switches is pulled: every result is the sum in which each
    host's vector is once (conservation)."""
    fabric = generate("fat-tree", radix=8, levels=2, generation="HDR", aggregation_nodes=True)
    config = config_of(read_options("aggregation TRUE\n").options | {"engine": "ftree"})
    bring_up(fabric, config=config)
    rows = hosts_of(fabric).end
    hosts = np.array([0, 1, 5, 6, 17, 30])
    sent = aggregation_messages(fabric, end_ports(fabric), Reduction(rows[hosts], 1_000_000, True))
    port = int(fabric.port(find_node(fabric, "leaf-1"), 5))
    made = run_failures(
        fabric, sent, [TimedFault(5 * US, "link-down", fabric.port_name(port))], QUICK, ManagerSettings(config)
    )
    results = np.isin(sent.dst, rows[hosts])
    assert made.outcome.done and (made.outcome.values[results] == (rows[hosts] + 1).sum()).all()


# -- laws under faults --


@pytest.mark.parametrize("seed", range(6))
def test_laws_hold_whatever_fails(seed):
    """Random faults under random traffic: no packet is left, what a port sent its peer received, or
    lost on the wire, or as a bit error; each sender of a live link has the whole receive buffer
    again."""
    rng = np.random.default_rng(seed)
    fabric = no_lifetimes(tree(4, 2).copy())
    sent = mixture(len(end_ports(fabric)), 200, seed)
    cables = np.flatnonzero(fabric.is_switch[fabric.port_node] & (fabric.port_peer >= 0))
    faults = []
    for port in rng.choice(cables, 3, replace=False).tolist():
        down = int(rng.integers(1, 60)) * US // 4
        name = fabric.port_name(port)
        faults += [
            TimedFault(down, "link-down", name),
            TimedFault(down + int(rng.integers(1, 300)) * US, "link-up", name),
        ]
    faults.append(TimedFault(int(rng.integers(1, 20)) * US, "ber", fabric.port_name(int(cables[0])), {"ber": 1e-6}))
    run_of: list[PacketSteps] = []
    settings = ManagerSettings(SmConfig(engine="minhop"))
    made = _kept(run_of, fabric, sent, faults, PacketOptions(seed=seed, ack_timeout=5), settings)
    steps = run_of[0]
    s, net = steps.state, steps.net
    assert s.reg.in_network == 0 and not s.mads.inbox and not s.smi["held"].any()
    assert s.mads.spare == len(s.mad) - 1
    switch = np.flatnonzero((fabric.port_num > 0) & (fabric.port_peer >= 0))
    there = fabric.port_peer[switch]
    lost = s.smi["cut"][there]
    inside = int(s.smi["cut"][fabric.port_num == 0].sum())
    missing = s.port["xmit_packets"][switch] - s.port["rcv_packets"][there] - s.port["rcv_errors"][there]
    # a packet whose head was in a queue when its cable was pulled was received before it was lost
    assert ((missing >= 0) & (missing <= lost + s.smi["dropped"][there])).all() and inside == 0
    vls = int(net.opt.vls)
    linked = np.flatnonzero((net.port["peer"] >= 0) & (fabric.port_num > 0))
    for vl in range(vls):
        assert np.array_equal(drained(net, s)[linked * vls + vl], net.rare["blocks"][net.port["peer"][linked]])
    assert made.mads["lost"] + made.mads["answered"] <= made.mads["sent"]


def _kept(keep, *args):
    """run_failures; its PacketSteps go to ``keep``."""
    init = PacketSteps.__init__

    def remember(self, *given):
        init(self, *given)
        keep.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PacketSteps, "__init__", remember)
        return run_failures(*args)


def test_the_same_input_gives_the_same_bytes():
    def once():
        fabric = tree(4, 2).copy()
        at = np.arange(8)
        sent = messages(at, (at + 3) % 8, 1_000_000, qp=at)
        fault = TimedFault(20 * US, "link-down", "leaf-1[3]")
        return run_failures(fabric, sent, [fault], QUICK)

    a, b = once(), once()
    assert np.array_equal(a.outcome.arrived_ps, b.outcome.arrived_ps) and a.milestones == b.milestones
    assert np.array_equal(a.outcome.counters, b.outcome.counters)


# -- slow and noisy --


def test_a_downgraded_link_has_its_new_rate():
    """4x HDR that trains at 1x EDR: 25 Gb/s from then on, and LinkDowned at both ends."""
    fabric = chain(2, 1, "HDR")
    size = 3_000_000
    sent = messages([0, 0], [1, 1], size, qp=[0, 0], start_ps=[0, 3000 * US])
    fault = TimedFault(1000 * US, "downgrade", "switch-0[2]", {"speed": "EDR", "width": 1, "training": US})
    made = run_failures(fabric, sent, [fault])
    took = made.outcome.arrived_ps - made.outcome.began_ps
    packets = math.ceil(size / 4096)
    octets = size + packets * 26 + 16
    assert took[0] == pytest.approx(octets * 8e3 / 200, rel=0.02)
    assert took[1] == pytest.approx(octets * 8e3 / 25, rel=0.01)
    assert made.outcome.counters["link_downed_counter"].sum() == 2


def test_a_slow_port_makes_its_peer_wait_as_the_running_fabric_counts():
    """PortXmitWait of the port that faces it: the time that it takes to drain what was sent beyond
    its buffer, less what the link would have needed (softib.agents.kernels.faults.flow_control
    counts the same on a running fabric)."""
    gbps, size = 5.0, 2_000_000
    fabric = no_lifetimes(star(2, "HDR"))
    ends = end_ports(fabric)
    fault = TimedFault(1, "slow-port", fabric.port_name(int(ends[1])), {"gbps": gbps})
    made = run_failures(fabric, messages([0], [1], size), [fault], None, ManagerSettings(None))
    facing = int(fabric.port_peer[ends[1]])
    octets = size + math.ceil(size / 4096) * 26 + 16
    buffer = 768 * 64
    waits_ps = (octets - buffer) * 8e3 / gbps - (octets - buffer) * 8e3 / 200
    tick_ps = 10e6 / 53.125 / 1000
    assert int(made.outcome.counters["port_xmit_wait"][facing]) * tick_ps == pytest.approx(waits_ps, rel=0.02)
    assert made.outcome.done


def test_bit_errors_begin_at_their_time():
    """Before it none; after it the closed form 1 - (1 - BER)^(8 octets), within 5 standard
    deviations."""
    ber, size = 2e-6, 40_000_000
    fabric = star(2, "EDR")
    port = fabric.port_name(int(end_ports(fabric)[1]))
    half = 1600 * US
    made = run_failures(
        fabric,
        messages([0], [1], size),
        [TimedFault(half, "ber", port, {"ber": ber})],
        PacketOptions(seed=3),
        ManagerSettings(None),
    )
    quiet = run_failures(
        star(2, "EDR"),
        messages([0], [1], size // 4),
        [TimedFault(half, "ber", port, {"ber": ber})],
        None,
        ManagerSettings(None),
    )
    assert not quiet.outcome.counters["port_rcv_errors"].any()
    ends = end_ports(fabric)
    errors = int(made.outcome.counters["port_rcv_errors"][ends[1]])
    received = int(made.outcome.counters["port_rcv_pkts"][ends[1]]) + errors
    after = received - half * 100 / 8e3 / 4122
    expected = after * -math.expm1(8 * 4122 * math.log1p(-ber))
    assert expected > 100 and abs(errors - expected) < 5 * math.sqrt(expected)
    assert made.outcome.done


# -- questions that are wrong --


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (TimedFault(0, "link-down", "laef-1[1]"), "leaf-1"),
        (TimedFault(0, "link-down", "leaf-1"), "is not a port"),
        (TimedFault(0, "switch-down", "host-0001"), "not a switch"),
        (TimedFault(0, "downgrade", "leaf-1[1]", {"training": 0}), "needs a width"),
        (TimedFault(0, "downgrade", "leaf-1[1]", {"speed": "XXX", "training": 0}), "speed"),
        (TimedFault(0, "downgrade", "leaf-1[1]", {"speed": "XDR", "training": 0}), "support at most NDR"),
    ],
)
def test_a_fault_that_cannot_be_is_one_line(fault, said):
    with pytest.raises((InputError, UnknownName), match=said):
        run_failures(tree(4, 2).copy(), messages([0], [1], 8), [fault])
    assert replace(fault, at_ps=1).at_ps == 1
