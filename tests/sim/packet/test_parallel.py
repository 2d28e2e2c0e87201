"""One run on several cores gives the same bytes as on one: conservative windows (Chandy and Misra 1979) change no order that matters."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from softib.errors import InputError
from softib.iba.smp import PortInfo
from softib.scenario.bring_up import bring_up
from softib.sim.ends import end_ports
from softib.sim.messages import Messages, Opcode, messages
from softib.sim.packet import PacketOptions, run
from softib.sim.packet import tables as t
from softib.sim.packet.engine import execute
from softib.sim.packet.network import build_net
from softib.sim.packet.partition import lookahead, parts_of_ports
from softib.sm.config import config_of
from tests.sim.packet.fabrics import adaptive, chain, congestion, no_lifetimes, ring_around, star, tree
from tests.sim.packet.lab import same


def traffic(ends: int, n: int, seed: int) -> Messages:
    """WRITEs, SENDs, READs and atomics of all sizes; some wait for the arrival of others, at third hosts too."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, ends, n)
    dst = (src + rng.integers(1, ends, n)) % ends
    needs, first = [], [0]
    for i in range(n):
        if i and rng.random() < 0.3:
            needs.append(int(rng.integers(0, i)))
        first.append(len(needs))
    size, opcode = rng.choice([1, 64, 2048, 4097, 30_000], n), rng.integers(0, 4, n)
    return messages(
        src, dst, np.where(opcode == Opcode.ATOMIC, 8, size), opcode=opcode, start_ps=rng.integers(0, 10**7, n),
        first=first, needs=needs, delay_ps=rng.integers(0, 10**5, n),
    )  # fmt: skip


@pytest.mark.parametrize(
    "seed", [n if n in (0, 3, 7, 8) else pytest.param(n, marks=pytest.mark.slow) for n in range(12)]
)
def test_same_bytes_on_any_number_of_cores(seed):
    """Trees and chains, cables with and without a length, bit errors, short lifetimes, FIFO inputs."""
    rng = np.random.default_rng(seed)
    fabric = copy.deepcopy(tree(4, 3) if seed % 3 else chain(5, 2, length_m=float(rng.integers(0, 30))))
    if seed % 2:
        fabric.port_loss[:, 1] = 1e-7
    if seed % 4 == 1:
        PortInfo.hoq_life.set(fabric.port_info, 0)
    n = int((~fabric.is_switch[fabric.port_node[end_ports(fabric)]]).sum())
    same(fabric, traffic(n, 250, seed), seed=seed, ack_timeout=6, fifo=seed % 5 == 4)


@pytest.mark.parametrize("mode", ["free", "bounded"])
def test_same_bytes_with_adaptive_routing(mode):
    """A switch asks its own queues alone."""
    same(adaptive(mode), traffic(32, 300, 3))


def test_same_bytes_with_congestion_control():
    """FECN is seen at the destination, and BECN is a packet."""
    fabric = chain(5, 2)
    bring_up(fabric, config=config_of(congestion(8, 4, 20, 3) | {"engine": "minhop"}))
    src = np.repeat(2 * np.arange(5) + 1, 60)
    same(no_lifetimes(fabric), messages(src, 0, 65536, qp=src))


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_same_bytes_with_random_arbitration(seed, fifo):
    """What an output draws depends on seed, port, input and time alone: saturated outputs, of which several inputs have packets at every time."""
    fabric, rng = tree(4, 3), np.random.default_rng(seed)
    src = np.repeat(np.arange(16), 40)
    sent = messages(src, (src + rng.integers(1, 16, len(src))) % 16, 30_000, qp=np.arange(len(src)))
    same(fabric, sent, seed=seed, random_arbitration=True, fifo=fifo)
    plain, drawn, other = (
        run(fabric, sent, PacketOptions(seed=n, random_arbitration=r, fifo=fifo))
        for n, r in ((seed, False), (seed, True), (seed + 5, True))
    )
    assert drawn.arrived_ps.tobytes() != plain.arrived_ps.tobytes()
    assert drawn.arrived_ps.tobytes() != other.arrived_ps.tobytes()
    assert len(execute(fabric, sent, PacketOptions(cores=2, random_arbitration=True))[1]) == 2


@pytest.mark.parametrize("interval_ps", [20_000, 777_777])
def test_same_samples(interval_ps):
    """Windows end where samples are taken, and pairs of intervals become one at the same number; a run that ends between two samples, too."""
    fabric, sent = tree(4, 3), traffic(16, 250, 5)
    out = run(fabric, sent, PacketOptions(sample_ps=interval_ps))
    assert len(out.samples.octets) > 20 and out.samples.queued.any()
    same(fabric, sent, sample_ps=interval_ps)
    same(fabric, sent, sample_ps=interval_ps, until_ps=out.end_ps // 2)


def test_the_same_deadlock_is_found():
    """A ring that is full stands still on two cores as on one, with the same cycle; so do its lifetimes dissolve it."""
    fabric, sent = ring_around(100)
    same(no_lifetimes(fabric), sent, profile={"vl_blocks": 130})
    fabric, sent = ring_around(20)
    PortInfo.hoq_life.set(fabric.port_info, 4)
    same(fabric, sent, profile={"vl_blocks": 130}, ack_timeout=8)


def test_a_full_box_ends_the_window(monkeypatch):
    """A part whose box of mail is nearly full goes on in the next window, and nothing is lost."""
    monkeypatch.setattr(t, "MAIL_ROWS", t.MARGIN + 3)
    fabric = chain(2, 12, length_m=500.0)
    hosts = np.arange(24)
    same(fabric, messages(np.repeat(hosts, 100), np.repeat((hosts + 12) % 24, 100), 256))


def test_parts_and_lookahead():
    """Adapters stay with their switch, halves carry about the same, and no cable between parts is shorter than the lookahead."""
    fabric = tree(8, 3)
    ends = end_ports(fabric)
    sent = messages(np.arange(128), np.roll(np.arange(128), 1), 4096)
    net, _ = build_net(fabric, PacketOptions(), np.zeros(1, np.int64))
    part = parts_of_ports(net, ends, sent, 2)
    host = ends[:128]
    assert np.array_equal(part[host], part[fabric.port_peer[host]])
    assert 56 <= np.bincount(part[host])[0] <= 72
    switch = fabric.is_switch[fabric.port_node]
    for node in np.flatnonzero(fabric.is_switch):
        assert np.ptp(part[switch & (fabric.port_node == node)]) == 0
    ahead = lookahead(net, part, ends, sent)
    fs = int(net.port[host[0], t.FS])
    assert 0 < ahead <= 38 * fs // 1000 + 1  # a credit of 8 octets behind a packet of 30


def test_parts_have_the_same_to_do():
    """No part of a run has a tenth more events than the other, core switches included; and no window's busiest part has less than its share."""
    sent = messages(np.arange(128), np.random.default_rng(1).permutation(128), 20_000)
    _, states, *_ = execute(tree(8, 3), sent, PacketOptions(cores=2))
    events = np.array([int(s.reg[t.EVENTS]) for s in states])
    assert len(states) == 2 and events.max() < 1.1 * events.min()
    assert events.max() <= states[0].reg[t.CRITICAL] == states[1].reg[t.CRITICAL] <= events.sum()


def test_one_part_where_several_are_of_no_use():
    """A single switch runs on one core."""
    net, states, *_ = execute(star(4), messages([0], [1], 4096), PacketOptions(cores=2))
    assert len(states) == 1
    assert (net.rare[:, t.PART_OF] == 0).all()
    with pytest.raises(InputError, match="-1 cores"):
        PacketOptions(cores=-1)


def test_a_part_that_fails_ends_the_others(monkeypatch):
    """An error in one thread is raised, and nobody waits for ever."""
    from softib.errors import LimitError
    from softib.sim.packet import parallel, state

    def no_room(_):
        raise LimitError("no room")

    monkeypatch.setattr(parallel, "grow", no_room)
    monkeypatch.setattr(state, "FIRST_ROWS", 2 * t.MARGIN)
    monkeypatch.setattr(state, "ROWS_A_SENDER", 0)
    n = 128
    sent = messages(np.repeat(np.arange(n), 60), np.repeat(np.roll(np.arange(n), 1), 60), 9000, opcode=Opcode.SEND)
    with pytest.raises(LimitError, match="no room"):
        run(tree(8, 3), sent, PacketOptions(cores=2))


def test_one_line_says_why_a_run_takes_one_core():
    out = run(star(3), messages([0, 1], [1, 2], 4096), PacketOptions(cores=2))
    assert ["no second part" in note for note in out.notes if "cores" in note] == [True]
    assert not any("cores" in note for note in run(star(3), messages([0], [1], 4096), PacketOptions(cores=1)).notes)
