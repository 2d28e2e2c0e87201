"""Steady states that the packet layer skips. The oracle is the run in which every packet is simulated: all
of its values are the same, to the bit."""

from __future__ import annotations

import time

import numpy as np
import pytest

import softib
from softib.scenario.failures import ManagerSettings, run_failures
from softib.scenario.faults_in_time import TimedFault
from softib.sim.messages import Opcode, Transport, messages
from softib.sim.packet import PacketOptions, engine, run, steady
from tests.sim.packet.fabrics import chain, star, tree

MB = 1 << 20
FEW = 1 << 11
"""Events before the first attempt, so that short runs have steady states, too."""


@pytest.fixture(autouse=True)
def early(monkeypatch):
    monkeypatch.setattr(steady, "FIRST_WAIT", FEW)
    monkeypatch.setattr(steady, "LEAST_GAIN", 4)
    monkeypatch.setattr(engine, "EVENTS_A_CALL", FEW)


def streams(ends: int, seed: int):
    """Long messages: rings, incasts, pairs and shifts of random hosts, with random sizes, starts, static rates,
    services and operations; some behind others, some behind computations."""
    rng = np.random.default_rng(seed)
    host = rng.permutation(ends)
    n = int(rng.integers(1, ends))
    shape = seed % 5
    if shape == 0:  # as collectives have it, all at once
        src, dst = host, np.roll(host, 1 + seed % max(ends - 1, 1))
        src, dst = src[src != dst], dst[src != dst]
    elif shape == 1:
        src, dst = host[1 : n + 1], np.full(n, host[0])
    elif shape == 2:
        src, dst = np.full(n, host[0]), host[1 : n + 1]
    elif shape == 3:
        src, dst = host[: ends // 2], host[ends // 2 : ends // 2 * 2]
    else:
        src = rng.integers(0, ends, n)
        dst = (src + rng.integers(1, ends, n)) % ends
    n, parts = len(src), int(rng.integers(1, 4))
    opcode = np.repeat(rng.choice([Opcode.WRITE, Opcode.SEND, Opcode.READ], 1 if seed % 2 else n), n if seed % 2 else 1)
    transport = np.where((rng.random(n) < 0.2) & (opcode != Opcode.READ) & (seed % 3 == 0), Transport.UC, Transport.RC)
    size = np.where(seed % 4 > 0, rng.integers(4 * MB, 24 * MB), rng.integers(4 * MB, 24 * MB, n)).astype(int)
    rate = np.where(rng.random(n) < 0.5, rng.choice([10.0, 25.0, 33.3]), 0.0) if seed % 3 == 1 else np.zeros(n)
    each = lambda column: np.tile(column, parts)
    waits = (np.arange(n * parts) >= n) & (rng.random(n * parts) < 0.3)
    needs = rng.integers(0, np.maximum(np.arange(n * parts), 1))[waits]
    start = rng.integers(0, 5 * 10**7, n) * (seed % 2)
    return messages(
        each(src),
        each(dst),
        each(size),
        opcode=each(opcode),
        transport=each(transport),
        rate_gbps=each(rate),
        qp=each(np.arange(n)),
        start_ps=each(start),
        delay_ps=rng.integers(0, 10**7, n * parts),
        first=np.concatenate([[0], np.cumsum(waits)]),
        needs=needs,
    )


def fabric_of(seed: int):
    kind = seed // 5 % 4
    speed = ("EDR", "HDR", "NDR")[seed % 3]
    if kind == 3:
        return tree(4, 3)
    return star(2 + seed % 6, speed) if kind < 2 else chain(2 + seed % 3, 2, speed)


def same(a, b) -> None:
    """All values of two outcomes are the same."""
    for name in ("began_ps", "arrived_ps", "completed_ps", "counters", "sl_counters", "vl_counters"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    assert (a.end_ps, a.work) == (b.end_ps, b.work)


def jumps(outcome) -> int:
    return sum("steady states" in note for note in outcome.notes)


def check(seed: int) -> int:
    """Both runs of the streams of ``seed``; were there steady states to skip?"""
    fabric = fabric_of(seed)
    m = streams(len(np.flatnonzero(~fabric.is_switch)), seed)
    by_sl = seed % 7 == 0
    skipped, full = (
        run(fabric, m, PacketOptions(seed=seed, skip=skip, counters_by_sl=by_sl)) for skip in (True, False)
    )
    same(skipped, full)
    assert not jumps(full)
    return jumps(skipped)


def test_random_streams():
    """Of ten random workloads a third or more repeat, and all are the full run."""
    assert sum(check(seed) for seed in range(5, 15)) >= 3


@pytest.mark.slow
def test_190_more_streams():
    assert sum(check(seed) for seed in range(15, 205)) >= 48


def steps(ends: int, seed: int):
    """Programs whose steps repeat: each host computes, sends to some others, and goes on when what it sent is
    complete and what it expects has arrived; every third program has one step that takes longer."""
    rng = np.random.default_rng(seed)
    hosts = rng.permutation(ends)[: int(rng.integers(2, ends + 1))]
    n, count = len(hosts), int(rng.integers(12, 40))
    shifts = rng.choice(np.arange(1, n), min(n - 1, int(rng.integers(1, 4))), replace=False)
    size = rng.integers(1, 300_000, len(shifts))
    opcode = int(rng.choice([Opcode.WRITE, Opcode.SEND, Opcode.READ]))
    us = rng.integers(1, 30, n) * 10**6
    rows, first, needs = [], [0], []
    for step in range(count):
        base = step * n * (1 + len(shifts))
        for h in range(n):
            late = 10**8 if seed % 3 == 0 and step == count // 2 else 0
            rows.append((hosts[h], hosts[h], 1, h, Opcode.COMPUTE, us[h] + late))
            before = base - n * len(shifts)
            needs += [before + k * n + at for k, s in enumerate(shifts) for at in (h, (h - s) % n)] if step else []
            first.append(len(needs))
        for k, s in enumerate(shifts):
            for h in range(n):
                rows.append((hosts[h], hosts[(h + s) % n], size[k], n * (1 + k) + h, opcode, 0))
                needs.append(base + h)
                first.append(len(needs))
    src, dst, size, qp, opcode, delay = np.array(rows).T
    return messages(src, dst, size, qp=qp, opcode=opcode, delay_ps=delay, first=first, needs=needs)


def check_steps(seed: int) -> int:
    """Both runs of the program of ``seed``; were there steps to skip?"""
    fabric = fabric_of(seed)
    m = steps(len(np.flatnonzero(~fabric.is_switch)), seed)
    skipped, full = (run(fabric, m, PacketOptions(skip=skip)) for skip in (True, False))
    same(skipped, full)
    return jumps(skipped)


def test_steps_that_repeat():
    assert sum(check_steps(seed) for seed in range(8)) >= 3


@pytest.mark.slow
def test_100_more_programs():
    assert sum(check_steps(seed) for seed in range(8, 108)) >= 30


def test_samples_and_the_end_of_time_are_kept():
    fabric, m = star(4, "NDR"), messages([0, 1, 2, 3], [1, 2, 3, 0], 24 * MB)
    for more in ({"sample_ps": 10**8}, {"until_ps": 3 * 10**8}):
        skipped, full = (run(fabric, m, PacketOptions(skip=skip, **more)) for skip in (True, False))
        same(skipped, full)
        assert jumps(skipped)
        if "sample_ps" in more:
            assert np.array_equal(skipped.samples.octets, full.samples.octets)
            assert np.array_equal(skipped.samples.queued, full.samples.queued)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_skipped_where_chance_or_a_fault_decides(seed):
    """The same ring, with a cable that loses packets, an arbitration by chance, or a fault at a time."""
    rng = np.random.default_rng(seed)
    fabric, sent = star(4, "NDR"), messages([0, 1, 2, 3], [1, 2, 3, 0], 6 * MB)
    where = fabric.port_name(int(np.flatnonzero(fabric.is_switch[fabric.port_node] & fabric.linked)[seed % 4]))
    options = {}
    if seed % 3 == 0:
        fabric.port_loss[:, 0] = 1e-5
    elif seed % 3 == 1:
        options["random_arbitration"] = True
    if seed % 3 == 2:
        at = int(rng.integers(10**7, 10**8))
        faults = [TimedFault(at, "link-down", where), TimedFault(at + 10**7, "link-up", where)]
        made = [
            run_failures(fabric.copy(), sent, faults, PacketOptions(skip=skip), ManagerSettings(None)).outcome
            for skip in (True, False)
        ]
    else:
        made = [run(fabric, sent, PacketOptions(seed=seed, skip=skip, **options)) for skip in (True, False)]
    same(*made)
    assert not jumps(made[0])


@pytest.mark.slow
def test_a_step_of_128_gpus_takes_seconds(monkeypatch):
    """GPT-13B with tensor 8, pipeline 2, data 8: 350 million packet hops, of which nearly all repeat."""
    monkeypatch.undo()
    fabric = softib.bring_up(softib.generate("rail-optimized", nodes=16, rails=8, radix=64, ufm=False)).fabric
    work = (
        "training-step:1,layers=40,hidden=5120,sequence=2048,tensor=8,pipeline=2,batch=64,overlap=no,gradient-bytes=4"
    )
    softib.simulate(fabric, "permutation:1MB", layer="packet")  # compiles
    began = time.process_time()
    step = softib.simulate(fabric, work, layer="packet")
    assert time.process_time() - began < 10
    assert step.messages.height >= 1000
    assert any("packet hops, which repeat exactly" in note for note in step.notes)
