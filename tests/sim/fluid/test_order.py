"""Adapters in the fluid layer: the order of a queue pair, message rate and PCIe, beside the packet layer."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sim import fluid, packet
from softib.sim.agreement import ALL
from softib.sim.messages import Opcode, messages

WRITE, READ, ATOMIC = int(Opcode.WRITE), int(Opcode.READ), int(Opcode.ATOMIC)


@cache
def tree(generation):
    fabric = generate("fat-tree", m=(4, 4), w=(1, 2), p=(1, 1), generation=generation)
    fabric.cable_length_m[:] = 10.0
    bring_up(fabric, "updn")
    return fabric


def both(generation, m, within):
    """Outcomes of the fluid and the packet layer, no message ``within`` more of its time apart."""
    ours, theirs = fluid.run(tree(generation), m), packet.run(tree(generation), m)
    assert ours.done and theirs.done and ours.agreement == ALL
    assert np.abs(ours.arrived_ps / theirs.arrived_ps - 1).max() <= within
    return ours, theirs


@pytest.mark.parametrize("generation", ["QDR", "HDR"])
@pytest.mark.parametrize("opcode", [WRITE, READ])
def test_a_small_message_behind_a_large_one_arrives_behind_it(generation, opcode):
    """IBA chapter 9, ordering: packets of a queue pair arrive in order. Alone the small one is faster: nothing to fetch, less to write into memory."""
    ours, _ = both(generation, messages([0] * 3, [15] * 3, [1 << 20, 8, 20_000], opcode=opcode), 0.002)
    assert (np.diff(ours.arrived_ps) > 0).all() and (np.diff(ours.completed_ps) > 0).all()


@pytest.mark.parametrize("opcode", [WRITE, READ])
def test_four_octets_behind_a_packet_that_is_written_slowly(opcode):
    """HDR adapters write the first 16 KB of a message at half the rate; the four octets behind it would overtake it in both layers."""
    for size in (4096, 12_000):
        ours, theirs = both("HDR", messages([0] * 2, [15] * 2, [size, 4], opcode=opcode), 0.01)
        assert np.diff(ours.arrived_ps)[0] >= 0 and np.diff(theirs.arrived_ps)[0] >= 0


def test_a_write_leaves_behind_the_request_of_a_read_and_completes_behind_it():
    """The WRITE does not wait for the data of the READ, the second READ does; completions are in the order of posting (IBA 9.7.5.1)."""
    m = messages([0] * 4, [15] * 4, [1 << 20, 64, 1 << 18, 2000], opcode=[READ, WRITE, READ, WRITE])
    ours, theirs = both("HDR", m, 0.005)
    assert ours.arrived_ps[1] < ours.arrived_ps[0] < ours.arrived_ps[2]
    assert (np.diff(ours.completed_ps) >= 0).all() and (np.diff(theirs.completed_ps) >= 0).all()
    assert np.abs(ours.completed_ps / theirs.completed_ps - 1).max() < 0.02


def test_who_waits_for_a_completion_waits_for_those_before_it():
    m = messages([0, 0, 0], [15, 15, 14], [1 << 20, 64, 64], opcode=[READ, WRITE, WRITE], first=[0, 0, 0, 1], needs=[1])
    ours = fluid.run(tree("HDR"), m)
    assert ours.began_ps[2] == ours.completed_ps[1] >= ours.completed_ps[0]


@pytest.mark.parametrize(("generation", "gap_ns"), [("QDR", 100.0), ("EDR", 7.0), ("NDR", 3.3)])
def test_message_rate_of_an_adapter(generation, gap_ns):
    """200 SENDs of 8 octets leave as far apart as the device profile says (their octets would take a fifth of that on QDR), on one queue pair or to many."""
    ours, _ = both(generation, messages([0] * 200, [15] * 200, 8, opcode=Opcode.SEND), 0.004)
    assert np.diff(ours.arrived_ps).mean() == pytest.approx(gap_ns * 1000, rel=0.01)
    many = fluid.run(tree(generation), messages([0] * 15, range(1, 16), 8))
    alone = [int(fluid.run(tree(generation), messages([0], [k], 8)).arrived_ps[0]) for k in (1, 15)]
    assert many.arrived_ps[[0, 14]].tolist() == [alone[0], alone[1] + round(14 * gap_ns * 1000)]


def test_queue_pairs_that_wait_for_the_message_rate_are_said():
    """Which of several queue pairs has its turn first is the packet layer's to say."""
    outcome = fluid.run(tree("QDR"), messages([0] * 40, [15] * 40, 8, qp=np.arange(40) % 4))
    assert outcome.agreement != ALL and "message rate" in outcome.why_not[0]


def test_the_message_rate_does_not_hold_up_large_messages():
    """All begin at once: 40 flows of one port are one change of rates, not 40."""
    outcome = fluid.run(tree("QDR"), messages([0] * 12, range(4, 16), 1 << 16))
    assert np.ptp(outcome.arrived_ps) < 2_000


def test_pcie_limits_both_ends():
    """A QDR adapter moves 31 of the link's 32 Gb/s (measured: 30.7): out of one, and into one from two."""
    for src, dst in (([0], [15]), ([0, 4], [15, 15])):
        ours, theirs = both("QDR", messages(src, dst, 1 << 22), 0.002)
        rate = (1 << 22) * len(src) * 8e3 / int(ours.arrived_ps.max())
        assert 30.4 < rate < 31
        assert rate == pytest.approx((1 << 22) * len(src) * 8e3 / int(theirs.arrived_ps.max()), rel=0.002)
