"""The packet layer against published numbers and closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softib.fabric.power_cycle import power_on
from softib.iba.smp import PortInfo, SwitchInfo
from softib.sim.agreement import ALL
from softib.sim.messages import Transport, messages
from softib.sim.packet import PacketOptions, run
from tests.sim.packet.fabrics import chain, no_lifetimes, ring_around, star
from tests.sim.packet.lab import IDEAL, arbitration

WIRE = 4096 + 34
"""Octets of a full datagram: LRH 8, BTH 12, DETH 8, ICRC 4, VCRC 2."""


def throughput(arrived: np.ndarray, octets: int, gbps: float, senders: int) -> float:
    """Share of the senders' links between a tenth and eight tenths of all arrivals."""
    at = np.sort(arrived[arrived >= 0])
    first, last = at[len(at) // 10], at[len(at) * 8 // 10]
    return float(((at > first) & (at <= last)).sum() * octets * 8e3 / (last - first) / senders / gbps)


@pytest.mark.parametrize(("inputs", "published"), [(2, 0.750), (4, 0.654), (8, 0.618), (16, 0.602)])
def test_head_of_line_blocking(inputs, published):
    """One FIFO an input, uniform traffic, saturated: Karol, Hluchyj, Morgan 1987, table I."""
    fabric = no_lifetimes(star(2 * inputs))
    rng = np.random.default_rng(3)
    src = np.repeat(np.arange(inputs), 4000)
    sent = messages(src, inputs + rng.integers(0, inputs, len(src)), 4096, qp=src, transport=Transport.UD)
    out = run(fabric, sent, PacketOptions(fifo=True, random_arbitration=True, profile=IDEAL))
    assert throughput(out.arrived_ps, WIRE, 100, inputs) == pytest.approx(published, abs=0.01)


def test_virtual_output_queues_have_no_head_of_line_blocking():
    """The same traffic with a queue for each output: nearly all of the links."""
    fabric = no_lifetimes(star(16))
    src = np.repeat(np.arange(8), 2000)
    sent = messages(src, 8 + np.random.default_rng(3).integers(0, 8, len(src)), 4096, qp=src, transport=Transport.UD)
    out = run(fabric, sent, PacketOptions(profile=IDEAL))
    assert throughput(out.arrived_ps, WIRE, 100, 8) > 0.8


@pytest.mark.parametrize("switches", [3, 5])
def test_parking_lot_without_congestion_control(switches):
    """A chain of switches, one sender each, one sink: shares 1/2, 1/4, … (IBA annex A10's motive)."""
    fabric = no_lifetimes(chain(switches, 2))
    src = np.repeat(2 * np.arange(switches) + 1, 600)
    out = run(fabric, messages(src, 0, 65536, qp=src), PacketOptions(until_ps=3 * 10**9))
    window = (out.arrived_ps > 5 * 10**8) & (out.arrived_ps > 0)
    got = np.array([(window & (src == 2 * i + 1)).sum() for i in range(switches)])
    wanted = np.append(0.5 ** np.arange(1, switches), 0.5 ** (switches - 1))
    assert got / got.sum() == pytest.approx(wanted, abs=0.02)


@pytest.mark.parametrize("weights", [(65, 195), (130, 65), (195, 195)])
def test_weights_of_the_low_table(weights):
    """Under saturation VLs share by their weights (IBA 7.6.9): a packet of 4,122 octets is 65 units."""
    got = shares(arbitration(no_lifetimes(star(3)), [(0, weights[0]), (1, weights[1])]))
    assert got == pytest.approx(np.array(weights) / sum(weights), abs=0.02)


def shares(fabric):
    """Of what two hosts send to a third, each on its own SL and VL, under saturation: the part that each gets."""
    src = np.repeat([1, 2], 3000)
    out = run(fabric, messages(src, 0, 4096, qp=src, sl=src - 1), PacketOptions(profile=IDEAL, until_ps=8 * 10**8))
    ok = (out.arrived_ps > 10**8) & (out.arrived_ps < 7 * 10**8)
    got = np.array([(ok & (src == 1)).sum(), (ok & (src == 2)).sum()])
    return got / got.sum()


@pytest.mark.parametrize("limit", [0, 1, 2, 9])
def test_the_limit_of_high_priority(limit):
    """VLHighLimit: low priority gets its turn when high has sent more than limit x 4 KB since its last; 0: after one packet (IBA 7.6.9)."""
    packet = 65 * 64
    burst = limit * 4096 // packet + 1
    high = shares(arbitration(no_lifetimes(star(3)), [(1, 255)], [(0, 255)], limit))[0]
    assert high == pytest.approx(burst / (burst + 1), abs=0.005)


def test_without_a_limit_high_priority_leaves_nothing():
    assert shares(arbitration(no_lifetimes(star(3)), [(1, 255)], [(0, 255)], 255)).tolist() == [1, 0]


def test_weights_of_the_high_table():
    table = [(0, 65), (1, 195)]
    assert shares(arbitration(no_lifetimes(star(3)), [], table, 255)) == pytest.approx([1 / 4, 3 / 4], abs=0.02)


def test_an_entry_of_weight_0_is_skipped_and_a_vl_may_have_several():
    """IBA 7.6.9: the same VL in three entries gets their sum; one of weight 0 gets nothing."""
    table = [(0, 65), (1, 65), (0, 65), (1, 0), (0, 65)]
    assert shares(arbitration(no_lifetimes(star(3)), table)) == pytest.approx([3 / 4, 1 / 4], abs=0.02)


def test_a_high_priority_vl_waits_at_most_one_packet_a_hop():
    """Small packets of the high table under saturation of another VL: at each hop one packet of 4,122 octets is ahead."""
    switches = 3
    fabric = arbitration(no_lifetimes(chain(switches, 2)), [(0, 255)], [(1, 255)], 255)
    alone = run(fabric, messages([1], [2 * switches - 2], 64, sl=1), PacketOptions(profile=IDEAL))
    n = 400
    src = np.concatenate([np.full(n, 0), np.full(n, 1)])
    dst = np.concatenate([np.full(n, 2 * switches - 1), np.full(n, 2 * switches - 2)])
    size = np.concatenate([np.full(n, 65536), np.full(n, 64)])
    start = np.concatenate([np.zeros(n, int), 10**7 + np.arange(n) * 3_333_333])
    sent = messages(src, dst, size, qp=src, sl=np.repeat([0, 1], n), start_ps=start)
    out = run(fabric, sent, PacketOptions(profile=IDEAL))
    took = (out.arrived_ps - out.began_ps)[n:]
    unloaded = int((alone.arrived_ps - alone.began_ps)[0])
    packet_ps = (4096 + 26 + 16 + 8 * switches) * 80
    # The last port goes to a host that receives nothing else; data may be ahead at every other one.
    assert took.min() >= unloaded
    assert took.max() <= unloaded + packet_ps * switches


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_waiting_of_poisson_arrivals(load):
    """M/D/1: the mean wait is load / (2 (1 - load)) packets (Pollaczek, Khinchine), source and switch together: a packet that waited
    behind one of its own source does not wait for it again, and deterministic servers in a tree delay like the last one alone
    (Shalmon, Kaplan: A tandem network of queues with deterministic service and intermediate arrivals, Operations Research 32, 1984)."""
    sources, n = 24, 400_000
    fabric = no_lifetimes(star(sources + 1))
    rng = np.random.default_rng(11)
    packet_ps = WIRE * 80
    start = np.cumsum(rng.exponential(packet_ps / load, n)).astype(np.int64)
    src = 1 + rng.integers(0, sources, n)
    out = run(
        fabric, messages(src, 0, 4096, qp=src, transport=Transport.UD, start_ps=start), PacketOptions(profile=IDEAL)
    )
    alone = run(fabric, messages([1], [0], 4096, transport=Transport.UD), PacketOptions(profile=IDEAL))
    wait = (out.arrived_ps - out.began_ps).mean() - (alone.arrived_ps - alone.began_ps)[0]
    assert wait / packet_ps == pytest.approx(load / (2 * (1 - load)), rel=0.02)


def test_bit_errors_damage_packets_by_the_closed_form():
    """1 - (1 - BER)^(8 octets) of a packet on a link without FEC, and RC sends each again."""
    fabric = star(2)
    ber, n = 1e-6, 3000
    into = int(np.flatnonzero(fabric.port_num == 0)[0]) + 1
    fabric.port_loss[into, 1] = ber * 8 * 66 / 64
    sent = messages(np.zeros(n, int), 1, 65536, qp=0)
    out = run(fabric, sent, PacketOptions(profile=IDEAL))
    assert out.done
    lost = int(out.counters["port_rcv_errors"].sum())
    carried = out.work["packets"]
    wrong = 1 - np.exp(-ber * 8 * 66 / 64 * 4122)
    assert lost / carried == pytest.approx(wrong, rel=0.05)


def test_a_credit_loop_deadlocks_and_is_named():
    """Shortest paths around a ring, buffers full, no lifetimes: the cycle of buffers is reported, and nothing hangs."""
    fabric, sent = ring_around()
    out = run(no_lifetimes(fabric), sent, PacketOptions(profile={"vl_blocks": 130}))
    assert out.agreement == ALL and not out.done and len(out.deadlock) == 5, (
        "the model holds: that is what hardware would do"
    )
    ports = [port for port, _ in out.deadlock]
    for here, there in zip(ports, [*ports[1:], ports[0]], strict=True):
        assert fabric.port_node[fabric.port_peer[here]] == fabric.port_node[there], (
            "each waits for a buffer of the next"
        )


def test_lifetimes_dissolve_the_same_loop():
    """With lifetimes switches discard packets instead (PortXmitDiscards), and RC sends them again until all are there. The hosts begin
    within 1 us: exactly together, they would discard and repeat in step until their retries are exceeded. (Acknowledgements that come after a sender
    went back once left it in its port's ring with nothing to send.)"""
    fabric, sent = ring_around(10)
    sent = replace(sent, start_ps=np.random.default_rng(1).integers(0, 10**6, len(sent)))
    without = run(no_lifetimes(ring_around(10)[0]), sent, PacketOptions(profile={"vl_blocks": 130}, ack_timeout=12))
    assert without.deadlock
    PortInfo.hoq_life.set(fabric.port_info, 4)  # 66 us: OpenSM's 1.07 s would make the test's clock run for minutes
    out = run(fabric, sent, PacketOptions(profile={"vl_blocks": 130}, ack_timeout=12))
    assert out.done and not out.deadlock
    assert out.counters["port_xmit_discards"].sum() > 0
    assert out.work["packets"] > 100 * 16, "packets were sent again"


def test_opensms_lifetimes_discard_where_the_loop_would_stand_still():
    """The same ring with what OpenSM sets (packet_life_time and head_of_queue_lifetime 0x12, leaf_head_of_queue_lifetime 0x10: 1.07 s and 0.27 s): no deadlock is left, but
    PortXmitDiscards, packets sent again, and, as a second is longer than eight ACK timeouts of 67 ms, queue pairs in error. ACK timeouts of 4.3 s outlast the
    lifetimes, and more gets through."""
    fabric, sent = ring_around(10)
    assert set(PortInfo.hoq_life.get(fabric.port_info[fabric.linked]).tolist()) <= {0, 16, 18}
    assert SwitchInfo.life_time_value.get(fabric.switch_info).tolist() == [18] * 5
    sent = replace(sent, start_ps=np.random.default_rng(1).integers(0, 10**8, len(sent)))
    assert run(no_lifetimes(ring_around(10)[0]), sent, PacketOptions(profile={"vl_blocks": 130})).deadlock
    done = []
    for ack_timeout in (14, 20):
        out = run(fabric, sent, PacketOptions(profile={"vl_blocks": 130}, ack_timeout=ack_timeout))
        assert not out.deadlock and out.agreement == ALL and out.end_ps > 10**12
        assert out.counters["port_xmit_discards"].sum() > 100
        assert out.work["packets"] > 16 * (out.completed_ps >= 0).sum() + 100, "packets were sent again"
        assert any("retries were exhausted" in note for note in out.notes)
        done.append(int((out.completed_ps >= 0).sum()))
    assert 0 < done[0] < done[1]


def test_the_flit_simulators_example_with_its_own_tables(shared_data):
    """Mellanox' ib_flit_sim, three levels: its .topo file, LIDs and forwarding tables; everybody sends to everybody, every packet arrives.
    (The file of its example of two levels is that of one level: its tables name switches that it has not.)"""
    name, hosts = "is1_3l_32n", 32
    from softib.fabric.formats.lft.dump import read_lfts
    from softib.fabric.formats.lft.parse import read_hcas
    from softib.fabric.formats.topo.reader import read as read_topo

    base = shared_data / f"flitsim/examples__{name}__"
    fabric = read_topo(f"{base}{name}.topo", ibnl_dirs=[shared_data / "ibutils-ibnl"]).fabric
    power_on(fabric)
    fabric.lft[:], problems = read_lfts(f"{base}{name}.fdbs", fabric)
    lid, more = read_hcas(f"{base}ftree.hcas", fabric)
    assert not problems and not more
    PortInfo.lid.set(fabric.port_info, lid)
    src, dst = (x.ravel() for x in np.meshgrid(np.arange(hosts), np.arange(hosts), indexing="ij"))
    out = run(fabric, messages(src[src != dst], dst[src != dst], 65536))
    assert out.done and not out.deadlock and not out.counters["port_xmit_discards"].any()


def test_a_vl_that_no_table_serves_is_named():
    """A port never sends on a VL that stands in none of its tables (IBA 7.6.9): the run ends and says so, and how many wait for what never came."""
    fabric = arbitration(no_lifetimes(star(4)), [(1, 10)])
    fabric.sl2vl[:] = 0x01
    sent = messages([1, 2, 0], [0, 3, 1], 8, sl=[0, 1, 1], first=[0, 0, 0, 1], needs=[0])
    out = run(fabric, sent)
    assert (out.arrived_ps >= 0).tolist() == [False, True, False] and not out.deadlock
    assert "wait forever at 1 port on VL 0" in out.notes[0]
    assert out.notes[1].startswith("1 message never began") and "of which 1 were sent" in out.notes[1]
