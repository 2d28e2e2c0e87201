"""Deadlocks are named, also those that HOQLife dissolves; SLs that break an engine's promise are said."""

from __future__ import annotations

import pytest

import softib


@pytest.fixture(scope="module")
def torus():
    """Six switches around, three across: minhop leads a circle of buffers round it."""
    return softib.generate("torus", dims=(6, 3), hosts_per_switch=1, generation="EDR")


def test_a_deadlock_that_discards_dissolved_is_named(torus):
    """OpenSM's HOQLife of a second lets the circle go on: each port named leads to the switch of another one, all the way round."""
    run = softib.simulate(torus, "all-to-all:256KB,window=0", layer="packet", engine="minhop")
    found, f = run.to_json(), run.fabric.arrays
    cycle = [place for place, _ in found["dissolved"]]
    assert "until discards dissolved it" in found["notes"][0] and not found["deadlock"]
    from softib.analysis.simulation.result import named_port

    ports = [named_port(f, place) for place in cycle]
    switches = [int(f.port_node[p]) for p in ports]
    assert sorted(int(f.port_node[f.port_peer[p]]) for p in ports) == sorted(switches) and len(set(switches)) == 6
    assert "deadlock of 6 ports" in found["ports"][0]["cause"]
    assert sum("never acknowledged" in note or "never arrived" in note for note in found["notes"]) == 2


def test_discards_at_a_slow_receiver_are_no_deadlock():
    """A host that takes 20 us for a packet, HOQLife of 4 us: packets are discarded, and nothing stands still without that."""
    from softib.fabric.end_ports import end_ports
    from softib.iba.smp import PortInfo
    from softib.sim.messages import messages
    from softib.sim.packet import run

    made = softib.generate("fat-tree", m=(4,), w=(1,), p=(1,), generation="EDR")
    fabric = softib.bring_up(made).fabric.arrays.copy()
    PortInfo.hoq_life.set(fabric.port_info, 0)
    fabric.port_drain[end_ports(fabric)[0]] = 5000
    out = run(fabric, messages([1, 2, 3], 0, 100_000, qp=[0, 1, 2]))
    assert out.counters["port_xmit_discards"].sum() > 0 and not out.dissolved


@pytest.mark.parametrize("engine", ["lash", "dfsssp"])
def test_an_sl_that_the_engine_does_not_state_is_said(torus, engine):
    """LASH and DFSSSP lay pairs on SLs; a job that forces one leaves their layers, unless it is the one they state for every pair."""
    own = softib.simulate(torus, "all-to-all:4KB,window=1", engine=engine, layer="static")
    forced = softib.simulate(torus, "all-to-all:4KB,window=1,sl=7", engine=engine, layer="static")
    assert not any("another SL" in note for note in own.notes)
    assert any(f"306 messages of 306 have another SL than {engine} states" in note for note in forced.notes)


def test_jobs_on_sls_of_their_own_leave_the_engines_layers(torus):
    """What-if vl=jobs does the same to every job but those on the engine's SL."""
    run = softib.simulate(
        torus,
        {"name": "two", "jobs": [{"pattern": "all-to-all", "size": 4096, "window": 1}] * 2},
        engine="lash",
        what_if="vl=jobs",
        layer="static",
    )
    assert any("vl=jobs" in note and "another SL" in note for note in run.notes)
