"""Congestion control and adaptive routing, as managers programmed them by MADs."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.end_ports import end_ports
from softib.scenario.bring_up import bring_up
from softib.sim.messages import Opcode, Transport, messages
from softib.sim.packet import PacketOptions, run
from softib.sm.config import config_of
from tests.sim.packet.fabrics import adaptive, chain, congestion, fabric_copy, no_lifetimes, tree


def test_congestion_control_makes_the_parking_lot_fair():
    """Five senders along a chain, one sink: Jain's index and utilisation with FECN, BECN and CCTs (threshold 8, marking rate 4,
    CCTI_Timer 20, increase 1, entries i / 8)."""
    fabric = chain(5, 2)
    bring_up(fabric, config=config_of(congestion(8, 4, 20, 3) | {"engine": "minhop"}))
    no_lifetimes(fabric)
    src, end = np.repeat(2 * np.arange(5) + 1, 1200), 10 * 10**9
    out = run(fabric, messages(src, 0, 65536, qp=src), PacketOptions(until_ps=end))
    window = out.arrived_ps > end // 4
    got = np.array([(window & (src == 2 * i + 1)).sum() for i in range(5)])
    assert got.sum() ** 2 / (5 * (got**2).sum()) >= 0.95
    assert got.sum() * 65536 * 8e3 / (end * 0.75) / 100 >= 0.9


def test_without_the_managers_tables_nothing_is_marked():
    """Congestion control that nobody programmed does nothing: the same bytes as with it switched off."""
    fabric = chain(3, 2)
    sent = messages([1, 3, 5], 0, 1 << 20)
    with_it, without = run(fabric, sent), run(fabric, sent, PacketOptions(congestion_control=False))
    assert np.array_equal(with_it.arrived_ps, without.arrived_ps)


def colliding(fabric, size=1 << 20):
    """All hosts of leaf 0 send to hosts whose paths share one uplink: destinations with equal residues."""
    from softib.fabric.end_ports import end_ports

    ends = end_ports(fabric)
    leaf = fabric.port_node[fabric.port_peer[ends]] if len(ends) else ends
    hosts = ~fabric.is_switch[fabric.port_node[ends]]
    first = np.flatnonzero(hosts & (leaf == leaf[0]))
    switch = fabric.switch_of_node[leaf[0]]
    by_port: dict[int, list[int]] = {}
    for i in np.flatnonzero(hosts & (leaf != leaf[0])).tolist():
        by_port.setdefault(int(fabric.lft[switch, fabric.lid[ends[i]]]), []).append(i)
    targets = max(by_port.values(), key=len)[: len(first)]
    return messages(first[: len(targets)], targets, size)


def test_adaptive_routing_spreads_what_collides():
    """Four flows that the tables put on one uplink take a quarter of the time when packets choose."""
    fabric = adaptive()
    sent = colliding(fabric)
    static, free = run(fabric, sent, PacketOptions(adaptive_routing=False)), run(fabric, sent)
    assert static.done and free.done
    assert free.end_ps < static.end_ps / 2.5
    assert (free.counters["port_xmit_data"] > 0).sum() > (static.counters["port_xmit_data"] > 0).sum()


def test_packets_out_of_order_are_sent_again_without_placement():
    """A receiver that takes packets in order alone answers with NAKs, and RC goes back."""
    fabric = adaptive()
    n = 32
    sent = messages(np.arange(n), np.random.default_rng(2).permutation(n), 1 << 19)
    sent = messages(sent.src[sent.src != sent.dst], sent.dst[sent.src != sent.dst], 1 << 19)
    placed, strict = run(fabric, sent), run(fabric, sent, PacketOptions(placement=False))
    needed = int(-(-sent.size // 4096).sum())
    assert placed.work["packets"] == needed
    assert strict.done and strict.work["packets"] > needed


def test_reads_survive_adaptive_routing():
    """Responses that come out of order are placed, too."""
    fabric = adaptive()
    sent = colliding(fabric)
    asked = messages(sent.dst, sent.src, sent.size, opcode=Opcode.READ)
    assert run(fabric, asked).done


def test_a_bounded_flow_keeps_its_port():
    """State BOUNDED: no packet overtakes another, so nothing is sent again although nothing is placed."""
    fabric = adaptive("bounded")
    sent = colliding(fabric)
    out = run(fabric, sent, PacketOptions(placement=False))
    assert out.done and out.work["packets"] == int(-(-sent.size // 4096).sum())


@pytest.mark.parametrize("engine", ["ftree"])
def test_effective_bisection_of_the_static_layer(engine):
    """Random perfect matchings, long messages: the rates of packets are those of the static layer's shares, to 0.02."""
    from softib.scenario.graph_view import graph_of
    from softib.sim import static

    fabric = tree(8, 2)
    graph = graph_of(fabric)
    network = static.Network.build(graph, fabric.lft[:, : graph.lft_size])
    n = network.n_hosts
    rng = np.random.default_rng(5)
    both = []
    for _ in range(3):
        order = rng.permutation(n)
        src = np.concatenate([order[: n // 2], order[n // 2 :]])
        dst = np.concatenate([order[n // 2 :], order[: n // 2]])
        rate, _ = static.flow_rates(network, src, dst)
        end = 4 * 10**8
        out = run(fabric, messages(np.repeat(src, 400), np.repeat(dst, 400), 65536), PacketOptions(until_ps=end))
        arrived = ((out.arrived_ps > end // 4) & (out.arrived_ps <= end)).reshape(n, -1).sum(axis=1)
        both.append((rate.mean(), (arrived * 65536 * 8e3 / (0.75 * end) / 400).mean()))
    shares, packets = np.mean(both, axis=0)
    print(shares, packets)
    assert packets == pytest.approx(shares, abs=0.02)


def test_a_notice_of_a_single_read_leaves_at_once():
    """Responses that come marked are noticed by a packet with BECN, even when the reader has nothing else to send."""
    from softib.sim.packet import constants
    from softib.sim.packet.engine import execute

    fabric = chain(3, 2)
    bring_up(fabric, config=config_of(congestion(8, 0, 20, 3) | {"engine": "minhop"}))
    sent = messages([0] * 4, [1, 2, 3, 4], 2_000_000, opcode=Opcode.READ)
    _, state, status, _ = execute(no_lifetimes(fabric), sent, PacketOptions())
    assert status == constants.DONE
    marked, noticed = state.port["rcv_fecn"].sum(), state.port["rcv_becn"].sum()
    assert marked == noticed > 0


@pytest.mark.parametrize("repair", [False, True])
def test_local_repair_leads_packets_around_a_dead_uplink(repair):
    """The cable that four flows share dies, the tables stay: without repair nothing gets through, with it everything, by other spines."""
    fabric = adaptive("off\nlocal_repair TRUE" if repair else "off")
    sent = colliding(fabric)
    ends = np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])
    leaf = int(fabric.port_node[fabric.port_peer[ends[0]]])
    switch = int(fabric.switch_of_node[leaf])
    used = {int(fabric.lft[switch, fabric.lid[p]]) for p in end_ports(fabric)[sent.dst].tolist()}
    assert len(used) == 1, "they collide"
    port = int(fabric.node_base[leaf]) + used.pop()
    peer = int(fabric.port_peer[port])
    fabric.port_peer[[port, peer]] = -1
    out = run(fabric, sent, PacketOptions(until_ps=20 * 10**9))
    assert (out.arrived_ps > 0).all() == repair


@pytest.mark.parametrize("adapts", [True, False])
def test_an_sl_that_a_switch_maps_to_vl_15_is_discarded_and_counted(adapts):
    """VL 15 is for SMPs alone (IBA 7.6.6): a switch drops data that its SL2VL table puts there, whether it chooses among ports or not."""
    fabric = fabric_copy(adaptive())
    leaf = int(fabric.node_base[np.flatnonzero(fabric.is_switch)[0]])
    ports = int(fabric.node_nports[fabric.port_node[leaf]]) + 1
    first = int(fabric.sl2vl_base[leaf])
    fabric.sl2vl[first : first + ports * ports] = 0xFF
    ends = end_ports(fabric)
    at = fabric.port_node[fabric.port_peer[ends[: int((~fabric.is_switch).sum())]]]
    here, there = np.flatnonzero(at == fabric.port_node[leaf]), np.flatnonzero(at != fabric.port_node[leaf])
    sent = messages(here, there[: len(here)], 8, transport=Transport.UD)
    out = run(fabric, sent, PacketOptions(adaptive_routing=adapts))
    assert (out.arrived_ps < 0).all()
    assert out.counters["port_rcv_switch_relay_errors"].sum() == len(here)
