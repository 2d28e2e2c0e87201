"""Failures, agents and a manager on two and three cores: the same bytes as on one, whatever fails where."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.scenario.failures import ManagerSettings, run_failures
from softib.scenario.faults_in_time import TimedFault
from softib.sim.ends import end_ports
from softib.sim.packet import PacketOptions
from softib.sim.packet.frames import write_capture
from softib.sim.packet.stepping import PacketSteps, ProcessorTimes
from softib.sm.config import SmConfig, config_of
from tests.sim.packet.fabrics import congestion, tree
from tests.sim.packet.traffic import mixture

US = 1_000_000


@pytest.fixture
def parts(monkeypatch):
    """How many parts each run had."""
    seen: list[int] = []
    begin = PacketSteps._start
    monkeypatch.setattr(PacketSteps, "_start", lambda steps: (seen.append(len(steps.states)), begin(steps))[1])
    return seen


def same(fabric, sent, faults, options, settings, parts, tmp_path, cores=(1, 2, 3)):
    """Everything that a run says is the same on one, two and three cores, but for the note on cores."""
    port = int(end_ports(fabric)[0])
    watched = (port, int(fabric.port_peer[port]))
    made = [
        run_failures(
            fabric.copy(), sent, faults, replace(options, cores=n, watch_ports=watched, sample_ps=700_001), settings
        )
        for n in cores
    ]
    assert parts == list(cores)
    one = made[0]
    assert write_capture(one.outcome.log, fabric, [port], tmp_path / "one") > 0
    for many in made[1:]:
        for name in ("began_ps", "arrived_ps", "completed_ps", "counters"):
            assert getattr(one.outcome, name).tobytes() == getattr(many.outcome, name).tobytes(), name
        assert one.outcome.end_ps == many.outcome.end_ps and one.outcome.deadlock == many.outcome.deadlock
        samples = one.outcome.samples, many.outcome.samples
        assert (
            samples[0].octets.tobytes() == samples[1].octets.tobytes()
            and samples[0].queued.tobytes() == samples[1].queued.tobytes()
        )
        assert one.records == many.records and one.milestones == many.milestones and one.mads == many.mads
        assert (one.broken, one.paths_back_ps, one.discarded, one.lost_on_wire) == (
            many.broken, many.paths_back_ps, many.discarded, many.lost_on_wire,
        )  # fmt: skip
        assert one.resent.tobytes() == many.resent.tobytes() and np.array_equal(one.unreachable, many.unreachable)
        write_capture(many.outcome.log, fabric, [port], tmp_path / "many")
        assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()
    assert len(one.outcome.samples.octets) > 10 and one.outcome.samples.octets.any()
    return one


def cable_between(fabric, seed: int) -> str:
    """The name of a port of a cable between two switches."""
    ports = np.flatnonzero(fabric.is_switch[fabric.port_node] & (fabric.port_peer >= 0) & (fabric.port_num > 0))
    ports = ports[fabric.is_switch[fabric.port_node[fabric.port_peer[ports]]]]
    return fabric.port_name(int(ports[seed % len(ports)]))


KINDS = {
    "link": lambda f, seed: [TimedFault(3 * US, "link-down", cable_between(f, seed)), TimedFault(700 * US, "link-up", cable_between(f, seed))],
    "several": lambda f, seed: [TimedFault(3 * US, "link-down", cable_between(f, seed)), TimedFault(5 * US, "link-down", cable_between(f, seed + 3)),
                                TimedFault(9 * US, "ber", cable_between(f, seed + 5), {"ber": 1e-7})],
    "switch": lambda f, seed: [TimedFault(4 * US, "switch-down", f.node_name(int(np.flatnonzero(f.is_switch)[-1 - seed % 2]))),
                               TimedFault(800 * US, "switch-up", f.node_name(int(np.flatnonzero(f.is_switch)[-1 - seed % 2])))],
    "host": lambda f, seed: [TimedFault(2 * US, "link-down", f.port_name(int(end_ports(f)[3 + seed]))),
                             TimedFault(400 * US, "link-up", f.port_name(int(end_ports(f)[3 + seed])))],
    "rates": lambda f, seed: [TimedFault(2 * US, "slow-port", cable_between(f, seed), {"gbps": 5.0}),
                              TimedFault(4 * US, "downgrade", cable_between(f, seed + 1), {"width": 1, "speed": None, "training": 50 * US})],
}  # fmt: skip


QUICK = {("link", 0), ("switch", 0)}


@pytest.mark.parametrize(
    ("kind", "seed"),
    [pytest.param(k, n, marks=() if (k, n) in QUICK else pytest.mark.slow) for k in KINDS for n in range(6)],
)
def test_whatever_fails_the_bytes_are_the_same(kind, seed, parts, tmp_path):
    """Faults in the middle of random messages; the manager re-routes over links of other parts, and makes links of two parts ACTIVE."""
    fabric = tree(4, 3)
    sent = mixture(16, 300, seed)
    options = PacketOptions(seed=seed, ack_timeout=7)
    one = same(
        fabric,
        sent,
        KINDS[kind](fabric, seed),
        options,
        ManagerSettings(SmConfig(engine="minhop", window=4)),
        parts,
        tmp_path,
    )
    assert all(r.happened for r in one.records) and one.milestones.sweeps


def test_without_a_manager(parts, tmp_path):
    """Traps have nowhere to go, messages over the dead cable are lost."""
    fabric = tree(4, 3)
    bring_up(fabric, "minhop")
    options = PacketOptions(ack_timeout=5, retries=2)
    one = same(
        fabric, mixture(16, 300, 7), KINDS["link"](fabric, 1)[:1], options, ManagerSettings(None), parts, tmp_path
    )
    assert one.broken[0] > 0 and not one.outcome.done and (one.resent > 0).any()


def test_adaptive_routing_and_congestion_control(parts, tmp_path):
    """Both as the manager programs them, on two levels with 10 m cables."""
    config = config_of(congestion(8, 4, 20, 3) | {"engine": "minhop", "adaptive_routing": "free"})
    fabric = generate("fat-tree", radix=8, levels=2, generation="NDR")
    fabric.cable_length_m[:] = 10.0
    bring_up(fabric, config=config)
    same(
        fabric,
        mixture(32, 300, 2),
        KINDS["link"](fabric, 5),
        PacketOptions(ack_timeout=8),
        ManagerSettings(config),
        parts,
        tmp_path,
    )


@pytest.mark.slow
def test_mads_of_many_rows(parts, tmp_path):
    """A window of 64 SMPs: rows of MADs are lost in one part and sent from another, and VL15 buffers overflow."""
    settings = ManagerSettings(
        SmConfig(engine="minhop", window=64, timeout_ps=500 * US), times=ProcessorTimes(vl15_packets=2)
    )
    fabric = tree(4, 3)
    one = same(
        fabric, mixture(16, 200, 3), KINDS["switch"](fabric, 0), PacketOptions(ack_timeout=8), settings, parts, tmp_path
    )
    assert one.mads["lost"] > 0 and one.mads["vl15_dropped"] > 0


def test_processors_that_take_no_time_take_one_core():
    """Where an agent answers at once nothing bounds a window; the result says why one core did the run."""
    fabric = tree(4, 3)
    settings = ManagerSettings(SmConfig(engine="minhop"), times=ProcessorTimes(agent_ps=0, forward_ps=0))
    made = run_failures(fabric.copy(), mixture(16, 20, 1), [], PacketOptions(cores=2), settings)
    assert any("cores were asked for" in note for note in made.outcome.notes)
