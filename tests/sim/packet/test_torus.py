"""A torus whose links fill: dimension order deadlocks on one VL, and does not by torus-2QoS(8)'s SLs and VLs."""

from __future__ import annotations

import numpy as np
import pytest

import softib
from softib.fabric.end_ports import end_ports
from softib.fabric.topologies.registry import generate
from softib.routing.engine import RouteOptions
from softib.scenario.bring_up import bring_up
from softib.sim.packet import run
from softib.workloads.hosts import hosts_of
from softib.workloads.workload import parse
from tests.sim.packet.fabrics import no_lifetimes


def config(fabric, dims):
    """A torus-2QoS.conf(5) with the seed at the origin."""
    guid = {fabric.node_name(int(n)): int(fabric.node_guid[n]) for n in np.flatnonzero(fabric.is_switch)}
    name = lambda at: f"0x{guid['switch-' + '-'.join(map(str, at))]:016x}"
    lines = ["torus " + " ".join(map(str, (*dims, *[1] * (3 - len(dims)))))]
    for axis, step in ((a, s) for a in range(len(dims)) for s in (1, -1)):
        beside = [step % dims[axis] if a == axis else 0 for a in range(len(dims))]
        lines.append(f"{'xyz'[axis]}{'p' if step > 0 else 'm'}_link {name([0] * len(dims))} {name(beside)}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("dims", [(8,), (6, 3), (4, 4, 4)])
def test_torus_2qos_does_not_deadlock_where_minhop_does(dims):
    """All hosts to all at once, HOQLife and lifetime infinite: minhop's packets close a ring and wait for ever; torus-2QoS's take VL 1 behind the dateline."""
    done = {}
    for engine in ("minhop", "torus-2QoS"):
        fabric = generate("torus", dims=dims, hosts_per_switch=2, generation="HDR")
        up = bring_up(fabric, engine, options=RouteOptions(torus_config=config(fabric, dims)))
        assert up.routing.engine == engine
        made, _ = parse("all-to-all:64KB,window=0").messages(hosts_of(no_lifetimes(fabric)), 0)
        stated = None
        if engine == "torus-2QoS":
            row = np.searchsorted(up.graph.end_lid, fabric.lid[end_ports(fabric)])
            stated = up.routing.path_sl[up.graph.end_switch[row[made.src]], row[made.dst]]
            assert stated.max() == (1 << len(dims)) - 1
        outcome = run(fabric, made, path_sl=stated)
        done[engine] = outcome.done
        assert bool(outcome.deadlock) is (engine == "minhop")
    assert done == {"minhop": False, "torus-2QoS": True}


def test_an_engine_that_does_not_fit_is_said():
    """Without a torus-2QoS.conf OpenSM, and so our manager, falls back to minhop: the run and the what-if name it, and why."""
    torus = softib.generate("torus", dims=(4, 4), hosts_per_switch=1)
    found = softib.simulate(torus, "shift:4KB", engine="torus-2QoS")
    assert found.engine == "minhop" and any("torus-2QoS.conf" in note and "minhop" in note for note in found.notes)
    other = softib.simulate(torus, "shift:4KB", engine="updn", what_if="engine=torus-2QoS")
    assert other.engine == "updn" and any("what if engine=torus-2QoS: torus-2QoS" in note for note in other.notes)
    assert not any(
        "fell back" in note or "minhop" in note for note in softib.simulate(torus, "shift:4KB", engine="updn").notes
    )
