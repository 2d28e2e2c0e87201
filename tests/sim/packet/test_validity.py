"""``Outcome.agreement``: does the model hold? Whether everything completed is another question (``Outcome.done``)."""

from __future__ import annotations

from softib.fabric.builder import FabricBuilder
from softib.iba.catalogue import SWITCH_OF
from softib.iba.constants import NodeType
from softib.sim import fluid
from softib.sim.agreement import ALL
from softib.sim.messages import messages
from softib.sim.packet import PacketOptions, run
from softib.sim.paths import Plane
from tests.sim.packet.fabrics import chain, star, up


def test_a_run_that_its_time_ended_is_valid_and_not_done():
    out = run(star(2), messages([0], [1], 1 << 20), PacketOptions(until_ps=10**6))
    assert out.agreement == ALL and not out.why_not and not out.done


def test_a_receiver_that_grants_too_much_is_outside_the_model():
    """``slow-port --overrun``; the fluid layer knows no slow receivers at all."""
    fabric = star(2)
    fabric.port_drain[3] = -1e6
    out = run(fabric, messages([0], [1], 5000))
    assert out.done and out.agreement != ALL and "overrun" in out.why_not[0]
    fabric.port_drain[3] = 1e6
    assert run(fabric, messages([0], [1], 5000)).agreement == ALL
    out = fluid.run(Plane(fabric), messages([0], [1], 5000))
    assert out.agreement != ALL and "slow-port" in out.why_not[0]


def test_adapters_of_two_generations_are_said():
    """Only where both take part."""
    b = FabricBuilder("two")
    sw = b.nodes(1, NodeType.SWITCH, 3, speed="HDR")
    for speed, port in (("EDR", 1), ("HDR", 2), ("HDR", 3)):
        b.links(sw, port, b.nodes(1, NodeType.CA, 1, speed=speed), 1, length_m=2.0)
    fabric = up(b.build())
    both, one = run(fabric, messages([0], [1], 5000)), run(fabric, messages([1], [2], 5000))
    assert both.done and "EDR, HDR" in both.why_not[0] and both.agreement != ALL
    assert one.agreement == ALL
    plane = Plane(fabric)
    both, one = fluid.run(plane, messages([0], [1], 5000)), fluid.run(plane, messages([1], [2], 5000))
    assert (
        "EDR, HDR" in both.why_not[0] and "fluid" in both.why_not[0] and both.agreement != ALL and one.agreement == ALL
    )


def test_a_switch_adds_what_the_profile_says():
    """``switch_ns``: a message over two switches is later by twice what both are slower, to the picosecond; over one by once; the links' own figures hold
    where nothing is said."""
    for fabric, switches in ((star(2), 1), (chain(2, 1), 2)):
        sent = messages([0], [1], 4096)
        own, slow, fast = (
            run(fabric, sent, PacketOptions(profile=p)) for p in ({}, {"switch_ns": 700}, {"switch_ns": 50})
        )
        edr = SWITCH_OF["EDR"].latency_ns
        assert slow.arrived_ps[0] - own.arrived_ps[0] == switches * (700 - edr) * 1000
        assert fast.arrived_ps[0] - own.arrived_ps[0] == switches * (50 - edr) * 1000
        assert slow.completed_ps[0] - own.completed_ps[0] == 2 * switches * (700 - edr) * 1000, (
            "and so the acknowledgement"
        )
