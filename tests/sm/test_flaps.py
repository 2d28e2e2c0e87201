"""Links that come and go while the manager sweeps: when everything rests, no link stays in INIT.

A switch raises trap 128 on the first rise of PortStateChange only (IBA 14.2.5.4), so a change between the moment a sweep
reads a port and the moment it clears the bit is told by nobody: the order of the two is what these tests are about.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType, PortState
from softib.live.internal_sm.manager import InternalManager
from softib.live.mad_router import MadRouter
from softib.sm.config import SmConfig
from softib.sm.state import SmState

S = 10**12
STEP_PS = 10**9
LOOK_PS = 10 * S
"""Every ten seconds the manager asks the switches for PortStateChange: a trap may be lost on a link that fell."""


class Room:
    """An internal manager on ``fabric``, stepped by hand: ``faults`` (port, up) happen between two of its steps."""

    def __init__(self, fabric: Fabric, **settings):
        self.f = fabric
        fabric.power_on()
        self.board = MadRouter(AgentPlane(fabric))
        cas = np.flatnonzero(fabric.node_type == NodeType.CA)
        config = SmConfig(sweep_interval_ps=LOOK_PS, **settings)
        self.manager = InternalManager(self.board, int(fabric.node_base[cas[0]]) + 1, config)
        self.now = STEP_PS

    def step(self) -> bool:
        """One step; False when the manager rests."""
        self.now += STEP_PS
        self.manager.wait_s(self.now)
        self.manager.run(lambda: self.now + 10**15, self.now)
        return not self.manager.sm.settled or bool(self.manager._inbox)

    def rest(self) -> None:
        """Until two looks at PortStateChange found nothing."""
        for _ in range(3):
            steps = 0
            while self.step():
                steps += 1
                assert steps < 5000, "the manager does not come to rest"
            self.now += LOOK_PS

    def set_link(self, port: int, up: bool) -> None:
        self.board.set_link(port, up, self.now)

    def links(self) -> np.ndarray:
        """Ports of switch-to-switch cables, one end each."""
        f = self.f
        port = np.arange(len(f.port_peer))
        switch = f.is_switch[f.port_node]
        return np.flatnonzero((f.port_peer > port) & switch & switch[np.maximum(f.port_peer, 0)])

    def neighbours(self, port: int) -> list[int]:
        """One link more of the switch at each end of ``port``: when they change, both ends' PortStateChange is set."""
        f, links = self.f, self.links()
        ends = {int(f.port_node[p]) for p in (port, f.port_peer[port])}
        near = []
        for node in sorted(ends):
            mine = links[(f.port_node[links] == node) | (f.port_node[f.port_peer[links]] == node)]
            near.append(int(mine[mine != port][0]))
        return near

    def waiting(self) -> list[str]:
        """Ports whose link is up and which are not ACTIVE."""
        f = self.f
        up = (f.port_state > PortState.DOWN) & (f.port_num > 0)
        return [f.port_name(p) for p in np.flatnonzero(up & (f.port_state != PortState.ACTIVE)).tolist()]


def fat_tree() -> Fabric:
    return generate("fat-tree", radix=12, levels=2, generation="HDR")


def steps_of(settings: dict, before: bool) -> int:
    """Steps of one sweep, of the first or of a later one."""
    room = Room(fat_tree(), **settings)
    if not before:
        room.rest()
        room.manager.sweep()
    steps = 0
    while room.step():
        steps += 1
    return steps


@pytest.mark.parametrize(
    "first", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["first-sweep", "later-sweep"]
)
def test_a_link_that_comes_up_at_any_moment_of_a_sweep_becomes_active(first):
    """The link is down when the sweep begins (it fell just before: PortStateChange is set), and comes up after step n."""
    for n in range(steps_of({}, first) + 2):
        room = Room(fat_tree())
        port = int(room.links()[7])
        if not first:
            room.rest()
        room.set_link(port, False)
        room.manager.sweep()
        for _ in range(n):
            room.step()
        room.set_link(port, True)
        room.rest()
        assert room.waiting() == [], f"after step {n}"


@pytest.mark.parametrize("first", [True, False], ids=["first-sweep", "later-sweep"])
def test_a_link_that_flaps_at_any_moment_of_a_sweep_becomes_active(first):
    """It is ACTIVE, or INIT, when it is read, and INIT afterwards; other links of its switches fell before."""
    for n in range(steps_of({}, first) + 2):
        room = Room(fat_tree())
        port = int(room.links()[7])
        if not first:
            room.rest()
        for other in room.neighbours(port):
            room.set_link(other, False)
        room.manager.sweep()
        for _ in range(n):
            room.step()
        room.set_link(port, False)
        room.set_link(port, True)
        room.rest()
        assert room.waiting() == [], f"after step {n}"


def test_an_inherited_fabric_is_looked_at_again():
    """A new master finds ports ACTIVE; one that flaps in its first sweep, while the old PortStateChange is set, is seen."""
    for n in range(steps_of({}, True) + 2):
        room = Room(fat_tree())
        room.rest()
        port = int(room.links()[3])
        room.board.leave(room.manager)
        for other in room.neighbours(port):
            room.set_link(other, False)
            room.set_link(other, True)
        heir = Room.__new__(Room)
        heir.f, heir.board, heir.now = room.f, room.board, room.now
        heir.manager = InternalManager(room.board, room.manager.port, replace(room.manager.sm.config))
        for _ in range(n):
            heir.step()
        heir.set_link(port, False)
        heir.set_link(port, True)
        heir.rest()
        assert heir.waiting() == [], f"after step {n}"


@pytest.mark.parametrize("down_s", [0.5, 15, 60, 400])
def test_the_managers_own_link_falls_and_comes_back(down_s):
    """While it is down nothing tells the manager anything, and a sweep sees its own port alone; the traps of the switch at
    the other end are sent ever more rarely, and no more after three minutes. It sweeps when its link is up again, not later."""
    room = Room(fat_tree())
    room.rest()
    port, sm = room.manager.port, room.manager.sm
    nodes = sm.report.nodes
    room.set_link(port, False)
    until = room.now + int(down_s * S)
    while room.now < until:  # as the daemon does: it runs when it wants to, traps are repeated in their time
        if not room.step():
            room.now += S // 4
        room.board.traps(room.now)
    assert (sm.report.nodes == 1) is (down_s > 10), "OpenSM, too, looks every ten seconds, and sees itself"
    assert (sm.state == SmState.DISCOVERING) is (down_s > 10), "and is nobody's master then"
    room.set_link(port, True)
    began = room.now
    while room.step():
        pass
    assert room.now - began < S, "of one-millisecond steps"
    assert room.waiting() == [] and sm.state == SmState.MASTER and sm.report.nodes == nodes and not sm.report.problems
    assert sm.sa_manager.subnet is not None and len(sm.sa_manager.subnet.end_guid) > nodes - 2


@pytest.mark.parametrize("seed", [5, 6])
def test_repeated_flaps_in_a_fabric_of_hundreds_leave_no_link_behind(seed):
    """288 hosts and 36 switches, a window so small that a sweep has a hundred steps, and links that fall and rise all the
    time, for eight sweeps. A trap that a fallen link loses is made good by the look at PortStateChange every 10 s."""
    room = Room(generate("fat-tree", radix=24, levels=2, generation="HDR"))
    assert room.f.is_switch.sum() == 36 and len(room.f.is_switch) > 300
    sm = room.manager.sm
    sm.config = replace(sm.config, chunk=128)
    sm.transactor.window = 128
    rng = np.random.default_rng(seed)
    links = room.links()
    room.rest()
    down: list[int] = []
    while sm.sweeps < 8:
        room.step()
        if rng.random() < 0.1:
            port = int(rng.choice(links))
            room.set_link(port, False)
            down.append(port)
        while down and rng.random() < 0.5:
            room.set_link(down.pop(0), True)
    for port in down:
        room.set_link(port, True)
    room.rest()
    assert room.waiting() == []
    assert (room.f.port_state[links] == PortState.ACTIVE).all()
