"""The static layer on messages: bounds by loads, beside the fluid layer."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sim import fluid, static
from softib.sim.agreement import ALL
from softib.sim.fluid.phases import phase
from softib.sim.messages import Opcode, messages
from tests.sim import oracle


@pytest.fixture(scope="module")
def tree():
    fabric = generate("fat-tree", m=(4, 4), w=(1, 2), p=(1, 1))
    bring_up(fabric, "updn")
    return fabric


@pytest.mark.parametrize("shift", [1, 4, 7])
def test_the_last_message_of_a_phase_ends_with_the_fluid_layers(tree, shift):
    """All begin at once with one size: the busiest link decides, in both layers."""
    m = phase(16, shift, 1 << 20)
    ours, theirs = static.run(tree, m), fluid.run(tree, m)
    assert ours.done and (ours.agreement == ALL or shift == 7)  # there flows wait at two full ports, each with others
    assert ours.end_ps == pytest.approx(theirs.end_ps, rel=1e-9)
    assert (ours.counters == theirs.counters).all()


def test_a_link_sends_the_octets_of_all(tree):
    """Three senders to one host: each ends when its last link has sent all three."""
    m = messages([1, 2, 3], 0, [1000, 50_000, 70_000])
    found = static.run(tree, m)
    rate = float(next(g for g in oracle.link_rates(tree).values() if g))
    total = sum(oracle.octets(int(s)) for s in m.size) * 8000 / rate
    assert np.ptp(found.arrived_ps) < 200_000, "but for their last packets into memory"
    assert (found.arrived_ps - total < 1_500_000).all() and (found.arrived_ps > total).all()


def test_steps_follow_each_other(tree):
    first, needs = [0, 0, 1, 2], [0, 1]
    found = static.run(tree, messages([0, 4, 8], [4, 8, 0], 1 << 16, first=first, needs=needs, delay_ps=5))
    assert found.work["steps"] == 3
    assert found.began_ps.tolist()[1:] == (found.arrived_ps[:2] + 5).tolist()


def test_circles_of_dependencies_and_lost_routes_are_said(tree):
    broken = tree.copy()
    broken.lft[:, broken.lid[_host(broken, 3)]] = 255
    found = static.run(broken, messages([0, 1, 2], [2, 2, 3], 64, first=[0, 1, 2, 2], needs=[1, 0]))
    assert (found.arrived_ps == -1).all() and len(found.notes) == 2


def test_messages_at_several_times_are_beyond_it(tree):
    assert static.run(tree, messages([0, 1], [4, 4], 1 << 20, start_ps=[0, 10**7])).agreement != ALL


def test_a_read_comes_back(tree):
    found = static.run(tree, messages([0], [9], 4096, opcode=Opcode.READ))
    other = fluid.run(tree, messages([0], [9], 4096, opcode=Opcode.READ))
    assert found.arrived_ps[0] == other.arrived_ps[0] and found.completed_ps[0] == other.completed_ps[0]


def _host(fabric, row):
    from softib.fabric.end_ports import end_ports

    return int(end_ports(fabric)[row])
