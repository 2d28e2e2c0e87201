"""Malformed and lying answers, lost packets, lost Sets: each is reported in a line and survived, and the rest of the fabric converges.

Oracles: the state of the devices themselves (every other link ACTIVE, every other pair of hosts reached by walking the tables), and
a bound on sweeps: at most the backoff of troubled devices (2, 4, 8 ... 64 s) and one a light sweep.
"""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.node_finder import find_node
from softib.fabric.topologies.registry import generate
from softib.iba.constants import LFT_NO_ROUTE, NodeType, SmpAttr
from softib.iba.smp import MadHeader, NodeInfo, PortInfo, SwitchInfo
from softib.sm.ha.election import SmState
from softib.sm.managers.partitions import DEFAULT_PARTITIONS
from softib.sm.options.qos import QosConfig
from tests.sm.hostile import HostileWire, attribute, is_set
from tests.sm.late_answers import LateWire

MINUTE = 60
SWEEPS_A_MINUTE = 5 + 6
"""Sweeps that one troubled device may cause in a minute: backoff 2 + 4 + 8 + 16 + 32 s, and a light sweep each ten seconds."""


def lie_between_sweeps(wire: HostileWire, node: int, attr: SmpAttr, lie) -> int:
    """The subnet is up; then ``node`` answers otherwise, a whole sweep runs, and a minute. Returns the sweeps of that minute."""
    wire.run(5)
    assert wire.converged() and wire.sm.state == SmState.MASTER
    wire.problems.clear()
    wire.lies[(node, int(attr))] = lie
    before = wire.sm.sweeps
    wire.sm.request_sweep()
    wire.run(MINUTE)
    assert wire.sm.settled and wire.sm.state == SmState.MASTER
    assert wire.sm.sweeps - before <= SWEEPS_A_MINUTE, "no endless sweeps"
    return wire.sm.sweeps - before


def host_and_switch(wire: HostileWire) -> tuple[int, int]:
    return int(wire.fabric.cas[5]), find_node(wire.fabric, "leaf-4")


def behind(wire: HostileWire, switch: int) -> set[int]:
    """A leaf and its hosts."""
    f = wire.fabric
    peers = [int(f.port_peer[p]) for p in f.ports_of(switch) if f.port_peer[p] >= 0]
    return {switch} | {int(f.port_node[p]) for p in peers if not f.is_switch[f.port_node[p]]}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"node_guid": 0x1234567}, ("behind leaf-3[2]", "0x0000000001234567", "was")),
        ({"num_ports": 2}, ("host-0006", "a CA with 2 ports", "it was a CA with 1 port")),
        ({"node_type": int(NodeType.SWITCH)}, ("host-0006", "a switch with 1 port; it was a CA")),
        ({"local_port_num": 0}, ("behind leaf-3[2]", "impossible NodeInfo")),
        ({"num_ports": 0}, ("behind leaf-3[2]", "impossible NodeInfo")),
    ],
    ids=["guid", "ports", "type", "local-port", "no-ports"],
)
def test_a_host_that_answers_otherwise_in_the_next_sweep(fields, words):
    wire = HostileWire()
    host, _ = host_and_switch(wire)
    lie_between_sweeps(wire, host, SmpAttr.NODE_INFO, attribute(NodeInfo, **fields))
    assert wire.converged({host})
    assert wire.told(*words), wire.problems


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"node_guid": 0x1234567}, ("behind spine-3[2]", "0x0000000001234567")),
        ({"num_ports": 2}, ("behind spine-3[2]", "impossible NodeInfo")),
        ({"num_ports": 40}, ("leaf-4", "a switch with 40 ports; it was a switch with 4")),
        ({"node_type": int(NodeType.CA)}, ("leaf-4", "a CA with 4 ports; it was a switch")),
        ({"local_port_num": 1}, ("NodeGUID", "is on two devices")),
    ],
    ids=["guid", "fewer-ports", "more-ports", "type", "local-port"],
)
def test_a_switch_that_answers_otherwise_in_the_next_sweep(fields, words):
    wire = HostileWire()
    _, leaf = host_and_switch(wire)
    lie_between_sweeps(wire, leaf, SmpAttr.NODE_INFO, attribute(NodeInfo, **fields))
    assert not wire.lost_paths(behind(wire, leaf)), "its own hosts may be cut off, nobody else's"
    assert wire.told(*words), wire.problems


def test_a_switch_whose_guid_is_another_at_each_answer():
    wire, count = HostileWire(), iter(range(1, 1 << 30))
    _, leaf = host_and_switch(wire)

    def another(answers: np.ndarray, requests: np.ndarray) -> None:
        attribute(NodeInfo, node_guid=0x7000000 + next(count))(answers, requests)

    lie_between_sweeps(wire, leaf, SmpAttr.NODE_INFO, another)
    assert not wire.lost_paths(behind(wire, leaf))
    assert next(count) < 10_000, "it is asked again and again"


@pytest.mark.parametrize("which", ["host", "switch"])
def test_a_second_device_with_a_node_guid_is_left_out(which):
    wire = HostileWire()
    f = wire.fabric
    mine, other = (
        (int(f.cas[5]), int(f.cas[9])) if which == "host" else (find_node(f, "leaf-4"), find_node(f, "leaf-7"))
    )
    lie_between_sweeps(wire, mine, SmpAttr.NODE_INFO, attribute(NodeInfo, node_guid=int(f.node_guid[other])))
    but = {mine, other} if which == "host" else behind(wire, mine) | behind(wire, other)
    assert not wire.lost_paths(but)
    assert wire.told(f"NodeGUID {int(f.node_guid[other]):#018x} is on two devices")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("tid", 7, "is not answered"),
        ("attr_id", 0x15, "is not answered"),
        ("attr_id", 0x7777, "is not answered"),
        ("status", 0x1C, "is refused"),
        ("mgmt_class", 0x04, "is not answered"),
        ("method", 0x01, "is not answered"),
    ],
    ids=["tid", "attribute", "unknown-attribute", "status", "class", "method"],
)
def test_a_switch_whose_answers_have_a_wrong_head(field, value, words):
    wire = HostileWire()
    _, leaf = host_and_switch(wire)

    def lie(answers: np.ndarray, requests: np.ndarray) -> None:
        getattr(MadHeader, field).set(answers, np.full(len(answers), value, MadHeader.fields[field].get(answers).dtype))

    for attr in SmpAttr:
        wire.lies[(leaf, int(attr))] = lie
    wire.run(MINUTE)
    assert wire.sm.settled and wire.sm.sweeps <= SWEEPS_A_MINUTE
    assert not wire.lost_paths(behind(wire, leaf)) and not wire.dead_links(behind(wire, leaf))
    assert wire.told("behind spine-3[2]", words), wire.problems


@pytest.mark.parametrize("top", [0, 0xBFFF], ids=["zero", "highest"])
def test_a_switch_that_lies_about_its_linear_fdb_top(top):
    wire = HostileWire()
    _, leaf = host_and_switch(wire)
    wire.lies[(leaf, int(SmpAttr.SWITCH_INFO))] = attribute(SwitchInfo, linear_fdb_top=top)
    wire.run(MINUTE)
    assert wire.converged() and wire.sm.sweeps <= SWEEPS_A_MINUTE
    assert wire.told("leaf-4", f"LinearFDBTop reads {top} after it was set to {wire.sm.graph.max_lid}")


def test_a_switch_whose_port_state_change_never_ends():
    wire = HostileWire()
    _, leaf = host_and_switch(wire)
    lie_between_sweeps(wire, leaf, SmpAttr.SWITCH_INFO, attribute(SwitchInfo, port_state_change=1))
    assert wire.converged() and wire.told("leaf-4", "PortStateChange is still set after it was cleared")


def test_a_host_that_keeps_another_lid_than_it_is_given():
    wire = HostileWire()
    host, _ = host_and_switch(wire)
    lie_between_sweeps(wire, host, SmpAttr.PORT_INFO, attribute(PortInfo, lid=1))
    assert wire.converged({host})
    assert wire.told("host-0006", "reads LID 1 after it was given")


@pytest.mark.parametrize("done", [False, True], ids=["not-done", "done-but-not-answered"])
def test_a_switch_that_drops_every_second_set(done):
    """Each Set is repeated until it is answered, and the table of the switch is whole in the end."""
    wire, count = HostileWire(), [0]
    _, leaf = host_and_switch(wire)

    def second(mad: np.ndarray, node: int) -> bool:
        if node != leaf or not (is_set(mad) or (int(mad[3]) == 0x81 and done)):
            return False
        count[0] += 1
        return count[0] % 2 == 0

    if done:
        wire.drops = second
    else:
        wire.loses = second
    wire.run(MINUTE)
    f = wire.fabric
    assert wire.converged() and wire.sm.settled and count[0] > 4
    assert (f.lft[f.switch_of_node[leaf], 1 : wire.sm.graph.max_lid + 1] != LFT_NO_ROUTE).all()
    assert wire.sm.transactor.retried > 0


@pytest.mark.parametrize(
    "seed", [0, 1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]
)
def test_one_percent_loss_on_every_link(seed):
    """A request to h hops away comes back with probability .99^(2h)."""
    wire, rng = HostileWire(), np.random.default_rng(seed)
    lost = lambda mad, node: rng.random() > 0.99 ** int(mad[7])
    wire.loses = wire.drops = lost
    wire.run(MINUTE)
    assert wire.converged() and wire.sm.settled, wire.sm.report.problems
    assert wire.sm.transactor.retried > 0


@pytest.mark.parametrize("engine", ["updn", "dfsssp"])
@pytest.mark.parametrize("hurt", ["every-second-set", "one-percent"])
def test_tables_that_change_in_stages_while_sets_are_lost(engine, hurt):
    """Cables of a torus fall and come back, so tables (of dfsssp: SLs too) change in stages; a Set that is lost keeps later stages back, and none is kept for ever."""
    wire, rng, count = (
        HostileWire(generate("torus", dims=[4, 4], hosts_per_switch=1), engine=engine),
        np.random.default_rng(1),
        [0],
    )
    f = wire.fabric
    wire.run(5)
    assert wire.converged()
    switch = int(f.port_node[int(f.port_peer[wire.port])])

    def lost(mad: np.ndarray, node: int) -> bool:
        if hurt == "one-percent":
            return rng.random() > 0.99 ** int(mad[7])
        count[0] += node == switch and is_set(mad)
        return node == switch and is_set(mad) and count[0] % 2 == 0

    wire.loses = lost
    if hurt == "one-percent":
        wire.drops = lost
    of_switch = f.is_switch[f.port_node]
    cables = np.flatnonzero(f.linked & of_switch & of_switch[np.maximum(f.port_peer, 0)])
    for port in rng.choice(cables, 3, replace=False).tolist():
        for up in (False, True):
            wire.plane.set_link(port, up, wire.now_ps)
            wire.sm.request_sweep()
            wire.run(MINUTE)
            assert wire.sm.settled and not wire.lost_paths(), (port, up)
    assert wire.converged() and wire.sm.transactor.retried > 0


@pytest.mark.parametrize("latency", ["under-a-timeout", "sometimes-over"])
def test_answers_that_are_all_late_delay_nobody_for_ever(latency):
    """A loaded machine: every answer takes longer than the discovery waits for a device that nobody knows. A device that answers late is
    there, so the next sweep waits for it. (Before, such a manager knew its own node alone, and asked ever more rarely, up to 51 s.)"""
    delay = {
        "under-a-timeout": lambda r: 0.1 * r.random(),
        "sometimes-over": lambda r: 0.25 if r.random() < 0.5 else 0.01,
    }
    for seed in (3,):
        wire = LateWire(seed, delay[latency], window=8)
        longest_ps = wire.run(12)
        assert wire.converged(), seed
        assert longest_ps <= wire.sm.transactor.timeout_ps, (
            "a manager with work to do never sleeps longer than a timeout"
        )


@pytest.mark.parametrize("cap", [0, 4, 0xFFFF], ids=["zero", "too-small", "too-large"])
@pytest.mark.parametrize("name", ["leaf-4", "spine-3"])
def test_a_switch_that_lies_about_its_linear_fdb_cap_from_the_start(name, cap):
    """Too small: it is left out, and its hosts. Too large is only a word as long as the table suffices."""
    wire = HostileWire()
    switch = find_node(wire.fabric, name)
    wire.lies[(switch, int(SmpAttr.SWITCH_INFO))] = attribute(SwitchInfo, linear_fdb_cap=cap)
    wire.run(MINUTE)
    assert wire.sm.settled and wire.sm.state == SmState.MASTER and wire.sm.sweeps <= SWEEPS_A_MINUTE
    but = behind(wire, switch) if cap < 0xFFFF else set()
    assert not wire.lost_paths(but) and not wire.dead_links(but)
    assert cap == 0xFFFF or wire.told(name, f"has a forwarding table of {cap} entries", "left out"), wire.problems


@pytest.mark.parametrize("name", ["leaf-4", "spine-3"])
def test_a_switch_whose_table_is_shorter_than_it_says(name):
    """It refuses blocks: after that it is left out, and everybody else is reached."""
    wire = HostileWire(generate("fat-tree", radix=8, levels=3))
    f = wire.fabric
    switch = find_node(f, name)
    row = f.switch_of_node[switch]
    SwitchInfo.linear_fdb_cap.set(f.switch_info[row : row + 1], 64)
    wire.lies[(switch, int(SmpAttr.SWITCH_INFO))] = attribute(SwitchInfo, linear_fdb_cap=0xBFFF)
    wire.run(MINUTE)
    assert wire.sm.graph.max_lid > 64 and wire.sm.settled and wire.sm.sweeps <= SWEEPS_A_MINUTE
    assert not wire.lost_paths(behind(wire, switch)), wire.problems
    assert wire.told(name, "refused entries of its forwarding table from LID 64 on", "left out"), wire.problems


@pytest.mark.parametrize(
    ("structure", "attr", "fields", "words"),
    [
        (SwitchInfo, SmpAttr.SWITCH_INFO, {"linear_fdb_cap": 0}, ("leaf-4", "0 entries", "it held that many before")),
        (SwitchInfo, SmpAttr.SWITCH_INFO, {"linear_fdb_cap": 0xFFFF}, ("leaf-4", "LinearFDBCap is 65535; it was")),
        (SwitchInfo, SmpAttr.SWITCH_INFO, {"mcast_fdb_cap": 0}, ("leaf-4", "MulticastFDBCap is 0; it was")),
        (SwitchInfo, SmpAttr.SWITCH_INFO, {"mcast_fdb_cap": 0xFFFF}, ("leaf-4", "MulticastFDBCap is 65535; it was")),
        (
            SwitchInfo,
            SmpAttr.SWITCH_INFO,
            {"partition_enforcement_cap": 0},
            ("leaf-4", "PartitionEnforcementCap is 0; it was"),
        ),
        (NodeInfo, SmpAttr.NODE_INFO, {"partition_cap": 0}, ("leaf-4", "PartitionCap is 0; it was")),
        (NodeInfo, SmpAttr.NODE_INFO, {"partition_cap": 0xFFFF}, ("leaf-4", "PartitionCap is 65535; it was")),
        (PortInfo, SmpAttr.PORT_INFO, {"vl_cap": 0}, ("leaf-4", "VLCap of port 0 is 0; it was")),
        (PortInfo, SmpAttr.PORT_INFO, {"vl_cap": 15}, ("leaf-4", "VLCap of port 1 is 15, which is undefined")),
        (PortInfo, SmpAttr.PORT_INFO, {"guid_cap": 0}, ("leaf-4", "GUIDCap of port 0 is 0; it was")),
        (PortInfo, SmpAttr.PORT_INFO, {"mtu_cap": 0}, ("leaf-4", "MTUCap of port 0 is 0; it was")),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_a_switch_that_states_another_capacity_in_the_next_sweep(structure, attr, fields, words):
    """It is named, and nobody loses a path, with partitions and QoS programmed."""
    wire = HostileWire(partitions=tuple(DEFAULT_PARTITIONS), qos=QosConfig())
    _, leaf = host_and_switch(wire)
    lie_between_sweeps(wire, leaf, attr, attribute(structure, **fields))
    assert not wire.lost_paths() and not wire.dead_links(behind(wire, leaf)), wire.problems
    assert wire.told(*words), wire.problems


@pytest.mark.parametrize("fields", [{"guid_cap": 0}, {"guid_cap": 255}, {"vl_cap": 0}, {"mtu_cap": 0}, {"mtu_cap": 15}])
def test_a_host_that_states_an_impossible_capacity_from_the_start(fields):
    wire = HostileWire(partitions=tuple(DEFAULT_PARTITIONS), qos=QosConfig())
    host, _ = host_and_switch(wire)
    wire.lies[(host, int(SmpAttr.PORT_INFO))] = attribute(PortInfo, **fields)
    wire.lies[(host, int(SmpAttr.NODE_INFO))] = attribute(NodeInfo, partition_cap=0)
    wire.run(MINUTE)
    assert wire.sm.settled and wire.sm.sweeps <= SWEEPS_A_MINUTE
    assert wire.converged({host}), wire.problems
