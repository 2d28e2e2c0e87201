"""Two running subnets, each with a manager of its own, are cabled together: one master remains, and no LID is held twice (IBA 14.4.1, 4.1.3)."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.node_finder import find_node
from softib.fabric.topologies.registry import generate
from softib.iba.constants import Method, PortState, SmpAttr
from softib.iba.smp import PortInfo
from softib.sm.config import SmConfig
from softib.sm.ha.election import SmState
from tests.sm.sa.asking import Several

S = 10**12


def halves():
    """A tree whose spine cables between two halves of the leaves are unplugged; returns it and these cables (one end each)."""
    f = generate("fat-tree", radix=8, levels=2)
    left = {find_node(f, f"leaf-{i}") for i in (1, 2, 3, 4)} | {find_node(f, f"spine-{i}") for i in (1, 2)}
    switch = f.is_switch[f.port_node]
    ports = np.flatnonzero(f.linked & switch & switch[np.maximum(f.port_peer, 0)])
    across = [
        p
        for p in ports.tolist()
        if p < f.port_peer[p] and (int(f.port_node[p]) in left) != (int(f.port_node[f.port_peer[p]]) in left)
    ]
    return f, left, across


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_two_running_halves_that_are_cabled_together_hold_no_lid_twice(seed):
    f, left, across = halves()
    hosts = [int(p) for p in np.flatnonzero(f.linked & ~f.is_switch[f.port_node])]
    mine = [p for p in hosts if int(f.port_node[f.port_peer[p]]) in left]
    theirs = [p for p in hosts if int(f.port_node[f.port_peer[p]]) not in left]
    config = {"sweep_interval_ps": 2 * S, "polling_timeout_ps": S, "polling_retries": 2, "window": 256, "chunk": 256}
    priority = (3, 5) if seed else (5, 3)
    s = Several(
        f,
        a=(mine[0], SmConfig(priority=priority[0], **config)),
        b=(theirs[0], SmConfig(priority=priority[1], **config)),
    )
    for port in across:
        s.plane.set_link(port, False, 0)
    s.start("a")
    s.start("b")
    s.run(5)
    assert (s.state("a"), s.state("b")) == ("MASTER", "MASTER"), "two subnets"
    ends = f.end_ports()
    before = f.lid[ends].astype(int).copy()
    assert len(set(before.tolist())) < len(before), "both began with LID 1"
    for port in across:
        s.plane.set_link(port, True, s.now_ps)
    s.run(30)
    assert sorted((s.state("a"), s.state("b"))) == ["MASTER", "STANDBY"]
    assert s.state("b" if seed else "a") == "MASTER", "the higher priority"
    lids = f.lid[f.end_ports()].tolist()
    assert len(set(lids)) == len(lids) and min(lids) > 0, "a LID is held twice"
    assert (f.port_state[f.linked] == PortState.ACTIVE).all()
    winner = s.sm["b" if seed else "a"]
    assert winner.report.nodes == f.sizes.nodes and not winner.report.problems
    kept = theirs if seed else mine
    rows = np.isin(f.end_ports(), kept)
    assert (f.lid[f.end_ports()][rows] == before[rows]).all(), "the master's own hosts keep theirs"


def tapped(s: Several, name: str) -> list[tuple[int, int, str]]:
    """Every SMP with method Set that ``name`` sends from now on: (time, attribute, the state of its sender then)."""
    step, sets = s.sm[name].step, []

    def watched(now_ps, inbox):
        outbox, due = step(now_ps, inbox)
        smp = np.isin(outbox.mad[:, 1], (0x01, 0x81)) & (outbox.mad[:, 3] == Method.SET)
        attrs = outbox.mad[smp][:, 16].astype(int) << 8 | outbox.mad[smp][:, 17]
        sets.extend((now_ps, attr, s.state(name)) for attr in attrs.tolist())
        return outbox, due

    s.sm[name].step = watched
    return sets


def two_parts(winner: str) -> tuple[Several, dict[str, list[int]], list[int]]:
    """Two running subnets, a and b, of which ``winner`` has the higher priority; their hosts' ports, and the cables between them, which are down."""
    f, left, across = halves()
    hosts = [int(p) for p in np.flatnonzero(f.linked & ~f.is_switch[f.port_node])]
    parts = {side: [p for p in hosts if (int(f.port_node[f.port_peer[p]]) in left) == (side == "a")] for side in "ab"}
    config = {"sweep_interval_ps": 2 * S, "polling_timeout_ps": S, "polling_retries": 2, "window": 64, "chunk": 64}
    s = Several(f, **{n: (parts[n][0], SmConfig(priority=9 if n == winner else 1, **config)) for n in "ab"})
    for port in across:
        s.plane.set_link(port, False, 0)
    s.start("a")
    s.start("b")
    s.run(5)
    assert (s.state("a"), s.state("b")) == ("MASTER", "MASTER")
    return s, parts, across


@pytest.mark.parametrize("winner", ["a", "b"])
def test_the_lower_of_two_masters_stands_back_before_it_sets_anything(winner):
    """IBA C14-60.2.1. From the moment when the cables are up the lower one sets nothing but SMInfo (HANDOVER), and PortStateChange of its own switches;
    the higher one nothing else before the lower one has handed over."""
    s, parts, across = two_parts(winner)
    f, loser = s.fabric, "ab".replace(winner, "")
    lids = {name: f.lid[parts[name]].copy() for name in "ab"}
    taps = {name: tapped(s, name) for name in "ab"}
    for port in across:
        s.plane.set_link(port, True, s.now_ps)
    s.run(30)
    assert (s.state(winner), s.state(loser)) == ("MASTER", "STANDBY")
    harmless = {int(SmpAttr.SM_INFO), int(SmpAttr.SWITCH_INFO)}
    handover = [at for at, attr, _ in taps[loser] if attr == SmpAttr.SM_INFO]
    assert len(handover) == 1 and {attr for _, attr, _ in taps[loser]} <= harmless
    early = {attr for at, attr, _ in taps[winner] if at < handover[0]}
    assert early <= harmless
    late = {attr for at, attr, _ in taps[winner] if at >= handover[0]}
    assert {int(SmpAttr.PORT_INFO), int(SmpAttr.LFT)} <= late, "then it takes the other part"
    assert (f.lid[parts[winner]] == lids[winner]).all() and len(set(f.lid[f.end_ports()].tolist())) == len(
        f.end_ports()
    )
    assert (f.port_state[f.linked] == PortState.ACTIVE).all()


def test_a_lower_master_that_never_hands_over_is_not_waited_for_without_end():
    s, _, across = two_parts("a")
    s.sm["b"]._mastership.leaves_to_rival = lambda now_ps, guid: True  # it answers SMInfo, and does nothing else
    for port in across:
        s.plane.set_link(port, True, s.now_ps)
    s.run(3)
    assert len(set(s.fabric.lid[s.fabric.end_ports()].tolist())) < len(s.fabric.end_ports()), "a waits"
    s.run(27)
    assert s.state("a") == s.state("b") == "MASTER"
    assert len(set(s.fabric.lid[s.fabric.end_ports()].tolist())) == len(s.fabric.end_ports())


@pytest.mark.parametrize("dies", ["before they meet", "before anybody looks"])
def test_a_part_that_another_manager_ruled_meanwhile_is_read_again(dies):
    """A subnet falls apart, its standby becomes master of the other part and writes tables there without the hosts that it does not see; it dies, and
    the parts meet. Nothing but the devices tells of it: the switches hold the LinearFDBTop of ours. What they hold afterwards is what a manager writes
    that knows nothing."""
    f, left, across = halves()
    hosts = [int(p) for p in np.flatnonzero(f.linked & ~f.is_switch[f.port_node])]
    mine = [p for p in hosts if int(f.port_node[f.port_peer[p]]) in left]
    theirs = [p for p in hosts if int(f.port_node[f.port_peer[p]]) not in left]
    config = {"sweep_interval_ps": 2 * S, "polling_timeout_ps": S, "polling_retries": 2, "window": 256, "chunk": 256}
    s = Several(f, a=(mine[0], SmConfig(priority=5, **config)), b=(theirs[0], SmConfig(**config)))
    s.start("a")
    s.run(3)
    s.start("b")
    s.run(3)
    assert (s.state("a"), s.state("b")) == ("MASTER", "STANDBY")
    before = f.lft.copy()
    for port in across:
        s.plane.set_link(port, False, s.now_ps)
    s.plane.set_link(int(f.port_peer[theirs[1]]), False, s.now_ps)  # a host that only the old master remembers
    if dies == "before they meet":
        s.run(20)
        assert (s.state("a"), s.state("b")) == ("MASTER", "MASTER")
        # b is wrong about nothing that it sees; a host that is away is nobody to it.
        s.sm["b"]._stores.lft.locations = s.sm["b"]._stores.lft.locations.none()
        s.sm["b"].request_sweep()
        s.run(5)
        s.kill("b")
    else:
        s.sm["b"]._mastership.state = SmState.MASTER
        s.alive.discard("a")  # it is busy, and hears nothing of all that
        s.sm["b"].request_sweep()
        s.run(5)
        s.kill("b")
        s.alive.add("a")
    assert (f.lft != before).any()
    for port in [*across, int(f.port_peer[theirs[1]])]:
        s.plane.set_link(port, True, s.now_ps)
    s.run(30)
    assert s.state("a") == "MASTER" and (f.port_state[f.linked] == PortState.ACTIVE).all()
    assert np.array_equal(f.lft, before)
    lids = PortInfo.master_sm_lid.get(f.port_info[f.end_ports()])
    assert set(lids.tolist()) == {int(f.lid[mine[0]])}
