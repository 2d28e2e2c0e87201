"""A link that comes back within SubnetTimeOut of its switch's last trap: the next trap waits (IBA 14.2.5.1, o14-2), the manager does not."""

from __future__ import annotations

import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import PortState, SmpAttr
from softib.iba.smp import MadHeader
from softib.sm.sweep.schedule import SUBNET_TIMEOUT_UNIT_PS
from tests.sm.room import Room

MS, S = 10**9, 10**12


def run_until(room: Room, port: int, state: PortState, most_ps: int) -> int:
    """How long until ``port`` has ``state``."""
    began = room.now
    while room.f.port_state[port] != state:
        assert room.now - began < most_ps, "it waits"
        room.step()
        room.now += 4 * MS
    return room.now - began


@pytest.mark.parametrize("after_ms", [20, 150, 400, 900])
def test_a_link_that_comes_back_soon_is_active_soon(after_ms):
    room = Room(generate("fat-tree", radix=8, levels=2))
    room.rest()
    port = int(room.links()[3])
    room.now += 5 * S
    room.set_link(port, False)
    while room.step():
        pass
    began = room.now
    while room.now < began + after_ms * MS:
        room.step()
        room.now += 4 * MS
    room.set_link(port, True)
    timeout_ps = SUBNET_TIMEOUT_UNIT_PS << room.manager.sm.config.subnet_timeout
    took = run_until(room, port, PortState.ACTIVE, 2 * S)
    assert took <= max(timeout_ps // 2, after_ms * MS) + 50 * MS, "asked after 1/8, 1/4, 1/2, 1 of SubnetTimeOut"
    assert room.now - began < timeout_ps + 100 * MS


def test_switches_are_asked_a_few_times_and_no_more():
    """Also where the switch says at each Get that a port changed: then the sweeps that follow do not begin the series anew."""
    room = Room(generate("fat-tree", radix=8, levels=2))
    room.rest()
    port = int(room.links()[3])
    room.set_link(port, False)
    while room.step():
        pass
    for _ in range(50):  # the look at all switches that is due anyway
        room.step()
    asked, plane = [], room.board.plane
    plane.tap = lambda sent, p, answers: asked.extend(
        (MadHeader.attr_id.get(sent.mad) == SmpAttr.SWITCH_INFO) & (sent.mad[:, 3] == 1)
    )
    sweeps, end = room.manager.sm.sweeps, room.now + 4 * S
    while room.now < end:
        room.step()
        room.now += 4 * MS
    ends_of_cable = 2
    later = (
        room.manager.sm.sweeps - sweeps
    )  # for the trap of the switch that had no path to the manager until the tables were new: it repeats it
    assert 0 < sum(asked) <= 5 * ends_of_cable and later == 1
