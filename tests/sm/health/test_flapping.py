"""A link that falls again and again is taken out, and given back (softib's own rule)."""

from __future__ import annotations

from softib.fabric.node_finder import find_node
from softib.iba.constants import PhysState, PortState
from softib.iba.smp import PortInfo
from softib.sm.options.softib_options import FlapConfig
from tests.sm.hostile import MS, HostileWire, S


def flap(wire: HostileWire, port: int, times: int) -> None:
    for _ in range(times):
        wire.plane.set_link(port, False, wire.now_ps)
        wire.plane.set_link(port, True, wire.now_ps + MS)
        wire.run(3)


def phys(wire: HostileWire, port: int) -> int:
    return int(PortInfo.port_phys_state.get(wire.fabric.port_info[port]))


def wire_with(threshold: int) -> tuple[HostileWire, int]:
    wire = HostileWire(sweep_interval_ps=2 * S, flaps=FlapConfig(threshold, 60 * S, 30 * S))
    wire.run(5)
    return wire, int(wire.fabric.port(find_node(wire.fabric, "leaf-4"), 3))


def test_at_the_threshold_it_is_taken_out_and_given_back():
    wire, port = wire_with(3)
    flap(wire, port, 2)
    assert not wire.dead_links(), "twice is not often"
    flap(wire, port, 1)
    wire.run(3)
    f = wire.fabric
    assert PhysState.DISABLED in (phys(wire, port), phys(wire, int(f.port_peer[port])))
    assert not wire.lost_paths(), "all hosts are reached by other ways"
    wire.sm.request_sweep()
    wire.run(3)
    assert wire.told("is isolated: its link fails repeatedly")
    wire.run(40)
    assert not wire.dead_links() and f.port_state[port] == PortState.ACTIVE, "the pause is over"


def test_falls_that_are_far_apart_do_not_count():
    wire, port = wire_with(3)
    for _ in range(4):
        flap(wire, port, 1)
        wire.run(70)
    assert not wire.dead_links() and not wire.told("is isolated")


def test_the_managers_own_link_is_never_taken_out():
    wire, _ = wire_with(2)
    f = wire.fabric
    own = int(f.port_peer[wire.port])
    flap(wire, own, 4)
    wire.sm.request_sweep()
    wire.run(10)
    assert phys(wire, own) == PhysState.LINK_UP and not wire.dead_links()
