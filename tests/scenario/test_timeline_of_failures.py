"""Timelines of messages while links fail: every moment of a packet is accounted for, and one that is lost says where."""

from __future__ import annotations

import numpy as np

import softib
from softib.scenario.failures import ManagerSettings, run_failures
from softib.scenario.faults_in_time import TimedFault
from softib.sim.messages import messages
from softib.sim.packet import PacketOptions
from softib.sim.packet.timeline import timeline
from softib.sm.config import SmConfig
from tests.sim.packet.fabrics import chain, tree
from tests.sim.packet.traffic import mixture

US = 1_000_000


def cable_between_switches(fabric) -> str:
    """A port of one."""
    switch = fabric.is_switch[fabric.port_node]
    ports = np.flatnonzero(switch & (fabric.port_num > 0) & (fabric.port_peer >= 0))
    return fabric.port_name(int(ports[switch[fabric.port_peer[ports]]][5]))


def test_parts_add_up_and_losses_have_their_place():
    """Random messages, a cable that is pulled and comes back: every packet of every message arrives or is lost at a port, and its times leave no gap."""
    fabric, sent = tree(4, 3).copy(), mixture(16, 200, 3)
    where = cable_between_switches(fabric)
    faults = [TimedFault(3 * US, "link-down", where), TimedFault(400 * US, "link-up", where)]
    options = PacketOptions(ack_timeout=7, watch_ports=tuple(range(fabric.sizes.ports)))
    made = run_failures(fabric, sent, faults, options, ManagerSettings(SmConfig(engine="minhop", window=4)))
    log, out = made.outcome.log, made.outcome
    lost = 0
    for i in range(len(sent)):
        found = timeline(log, i)
        lost += sum(f.lost_ps >= 0 for f in found.flights)
        if out.arrived_ps[i] >= 0:
            assert found.last >= 0 and found.flights[found.last].written_ps == out.arrived_ps[i]
        for flight in found.flights:
            assert (flight.written_ps < 0) != (flight.lost_ps < 0), "it arrived, or it was lost somewhere"
            parts = flight.parts(log)
            assert min(parts.values(), default=0) >= 0
            assert sum(parts.values()) == (flight.written_ps - flight.hops[0].arrived_ps if parts else 0)
    assert lost > 0


def test_a_link_that_trains_slower_keeps_the_timeline_whole():
    """HDR, then one lane of EDR: the switch behind it has EDR's latency from then on, and packets of before and after are followed alike."""
    fabric = chain(2, 1, "HDR")
    sent = messages([0, 0], [1, 1], 20_000, qp=[0, 0], start_ps=[0, 3000 * US])
    fault = TimedFault(1000 * US, "downgrade", "switch-0[2]", {"speed": "EDR", "width": 1, "training": US})
    made = run_failures(fabric, sent, [fault], PacketOptions(watch_ports=tuple(range(fabric.sizes.ports))))
    switches = []
    for i in range(2):
        found = timeline(made.outcome.log, i)
        flight = found.flights[found.last]
        assert len(flight.hops) == 3 and flight.written_ps == made.outcome.arrived_ps[i]
        switches.append(flight.parts(made.outcome.log)["switches"])
    assert switches[1] < switches[0], "EDR's switches are faster than HDR's"


def test_a_message_is_traced_over_the_ports_that_the_manager_chose_anew():
    """From Python: its packets before and after the re-route, one run over the watched ports of both."""
    record = softib.Record(trace=0)
    tree_ = softib.generate("fat-tree", radix=8, levels=2, hosts=32)
    plain = softib.simulate(tree_, "shift:1MB,k=9", layer="packet", record=record)
    uplink = plain.trace["packets"][0]["hops"][1]["port"]
    run = softib.simulate(tree_, "shift:1MB,k=9", layer="packet", record=record, faults=[f"5us link-down {uplink}"])
    assert run.trace["arrived_us"] > plain.trace["arrived_us"]
    data = [p for p in run.trace["packets"] if p["kind"] == "data"]
    assert {p["hops"][1]["port"] for p in data if len(p["hops"]) > 1} > {uplink}, (
        "it took another uplink after the sweep"
    )
    assert any(p["lost_us"] is not None for p in data)
