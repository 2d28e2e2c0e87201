"""Fabrics and messages of the fluid layer, beside its definition in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from softib.fabric.end_ports import end_ports
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sim import fluid
from softib.sim.messages import Messages, messages
from softib.sim.outcome import Outcome
from tests.sim import oracle


@cache
def up(kind: str, engine: str = "updn", lmc: int = 0, **parameters: object) -> Fabric:
    fabric = generate(kind, **dict(parameters))
    fabric.cable_length_m[:] = 10.0
    bring_up(fabric, engine, lmc=lmc)
    return fabric


def tree() -> Fabric:
    """Four leaves with four hosts and two spines: two hosts share an uplink."""
    return up("fat-tree", m=(4, 4), w=(1, 2), p=(1, 1))


def star(hosts: int = 8) -> Fabric:
    """One switch."""
    return up("fat-tree", m=(hosts,), w=(1,), p=(1,))


def ended(fabric: Fabric, m: Messages, outcome: Outcome) -> np.ndarray:
    """When each message's last octet left: its arrival less the delay of its path."""
    from softib.sim.paths import Plane

    plane = Plane(fabric)
    return outcome.arrived_ps - plane.timing(m, plane.lay(m)).forth_ps


def flows_of(fabric: Fabric, m: Messages) -> list[oracle.Flow]:
    """The same messages for the oracle (WRITEs only)."""
    ends, made = end_ports(fabric), []
    for i in range(len(m)):
        a, b = int(ends[m.src[i]]), int(ends[m.dst[i]])
        path = oracle.route(fabric, a, b, int(fabric.lid[b]) + int(m.path_bits[i]), max(int(m.sl[i]), 0))
        limit = Fraction(float(m.rate_gbps[i])) if m.rate_gbps[i] > 0 else None
        before = [k for k in range(i) if m.qp[k] == m.qp[i]][-1:]
        made.append(
            oracle.Flow(path, Fraction(oracle.octets(int(m.size[i]))), Fraction(int(m.start_ps[i])), before, limit)
        )
    return made


def agree(fabric: Fabric, m: Messages, weight: dict | None = None) -> Outcome:
    """Both say the same but for rounding to picoseconds (one an event at most)."""
    outcome = fluid.run(fabric, m)
    assert outcome.done
    expected = oracle.ends(flows_of(fabric, m), oracle.link_rates(fabric), weight)
    found = ended(fabric, m, outcome)
    for i, (ours, theirs) in enumerate(zip(found.tolist(), expected, strict=True)):
        assert abs(ours - theirs) <= 2 + 1e-9 * float(theirs) + len(m), (
            f"message {i}: {ours}, should be {float(theirs):.1f}"
        )
    return outcome


def random_messages(fabric: Fabric, n: int, seed: int, **columns: object) -> Messages:
    rng = np.random.default_rng(seed)
    hosts = len(fabric.cas)
    src = rng.integers(0, hosts, n)
    dst = (src + rng.integers(1, hosts, n)) % hosts
    return messages(src, dst, rng.integers(1, 1 << 18, n), start_ps=rng.integers(0, 20_000_000, n), **columns)
