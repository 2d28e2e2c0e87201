"""Links that come and go while the manager sweeps: when everything rests, no link stays in INIT.

A switch raises trap 128 on the first rise of PortStateChange only (IBA 14.2.5.4), so a change between the moment a sweep
reads a port and the moment it clears the bit is told by nobody: the order of the two is what these tests are about.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.constants import PortState
from softib.live.internal_sm.manager import InternalManager
from softib.sm.ha.election import SmState
from tests.sm.room import Room

S = 10**12


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


@pytest.mark.parametrize(
    "first", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["first-sweep", "later-sweep"]
)
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


@pytest.mark.slow
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
