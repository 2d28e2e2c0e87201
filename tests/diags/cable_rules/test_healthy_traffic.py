"""Incasts, shuffles and checkpoints of healthy hosts accuse nobody: the packet layer makes the counters, which knows nothing of the rules.

Switches of EDR with hosts of SDR, where ports between switches are faster than what comes in and what goes out, and fabrics of one speed.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from softib.diags.cable_rules.judge import judge
from softib.diags.finding import Finding
from softib.diags.observations import Observations, tables_of
from softib.fabric.topologies.registry import generate
from softib.monitor.fabric_ports import ports_of, rows_of
from softib.scenario.bring_up import bring_up
from softib.sim.messages import Messages, messages
from softib.sim.packet import PacketOptions, run

SIZE, EACH = 65536, 24
KINDS = ("incast", "shuffle", "checkpoint")


@cache
def fabric(mixed: bool):
    more = {"host_generation": "SDR"} if mixed else {}
    made = generate("fat-tree", radix=8, levels=2, generation="EDR", **more)
    bring_up(made)
    return made


def traffic(kind: str, senders: int, rng: np.random.Generator) -> Messages:
    """``incast``: all to one; ``shuffle``: each to each other, one after the other; ``checkpoint``: many to three storage hosts."""
    hosts = rng.permutation(32)
    sources, targets = hosts[:senders], hosts[senders:]
    if kind == "incast":
        pairs = [(s, targets[0]) for s in sources for _ in range(EACH)]
    elif kind == "shuffle":
        pairs = [
            (s, t) for s in sources for t in np.roll(sources, int(rng.integers(senders))) if s != t for _ in range(4)
        ]
    else:
        pairs = [(s, targets[i % 3]) for i, s in enumerate(sources) for _ in range(EACH)]
    src, dst = np.array(pairs).T
    return messages(src, dst, SIZE, qp=src * 32 + dst)


def findings_after(kind: str, senders: int, mixed: bool, seed: int) -> list[Finding]:
    rng = np.random.default_rng(seed)
    f = fabric(mixed)
    out = run(f, traffic(kind, senders, rng), PacketOptions())
    rows = rows_of(f)
    ports = ports_of(f, rows)
    # A round ends some time after the traffic, or in the middle of none of it.
    span = int(out.arrived_ps.max() / 1000 * rng.choice((1.0, 1.4, 3.0)))
    names = [
        n
        for n in out.counters.dtype.names
        if n in ("port_xmit_wait", "port_xmit_data", "port_rcv_data", "port_xmit_discards")
    ]
    increase = {n: out.counters[n][rows][None].astype(np.uint64) for n in names}
    shape = (1, len(rows))
    begin = np.full(shape, 10**18, np.int64)
    level = {"tick_symbols": np.ones(shape)}
    seen = Observations(ports, begin, begin + span, increase, {n: np.ones(shape, bool) for n in names}, level)
    return judge(seen, tables_of(f, ports))


def accused(kind: str, senders: int, mixed: bool, seed: int) -> list[str]:
    found = findings_after(kind, senders, mixed, seed)
    return [f"{f.code} {f.message}" for f in found if f.severity > 0]


@pytest.mark.slow
@pytest.mark.parametrize("mixed", [True, False], ids=["EDR-with-SDR-hosts", "EDR"])
@pytest.mark.parametrize("kind", KINDS)
def test_healthy_traffic_accuses_nobody(kind, mixed):
    """A hundred in all."""
    wrong = {n: found for i in range(17) if (found := accused(kind, n := 3 + i % 14, mixed, 1000 * i + n))}
    assert wrong == {}


@pytest.mark.slow
def test_the_traffic_makes_ports_wait():
    found = findings_after("incast", 6, False, 1)
    assert any(one.code == "congestion-hot-spot" for one in found)
