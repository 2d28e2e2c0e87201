"""RoCEv2 in the packet engine: framing, priority flow control, equal-cost paths."""

from __future__ import annotations

import numpy as np
import pytest

from softib.errors import InputError, UnknownName
from softib.sim.agreement import ALL
from softib.sim.messages import Opcode, Transport, messages
from softib.sim.packet import PacketOptions, constants, run
from softib.sim.packet.engine import execute
from tests.sim.packet.fabrics import chain, ring_around, star, tree

FRAME = 4096 + 62
"""A full frame without RETH: Ethernet 14 and FCS 4, IPv4 20, UDP 8, BTH 12, payload, ICRC 4 (IBA annex A17)."""
WIRE = FRAME + 20
"""With preamble 8 and interpacket gap 12 (IEEE 802.3)."""


def roce(seed: int = 0, until_ps: int = 10**15, **ethernet) -> PacketOptions:
    return PacketOptions(network="roce", seed=seed, until_ps=until_ps, ethernet=ethernet)


def incast(senders: int, size: int = 1_000_000):
    return messages(1 + np.arange(senders), 0, size)


def test_an_unloaded_write_takes_the_closed_form():
    """64 octets over one switch of 100 Gb/s, to the picosecond: half a pair of adapters, inlining, two cables of 10 ns, the switch's 300 ns, one frame
    on the wire (cut-through), memory at what PCIe 3.0 x16 carries in packets of 512 bytes with 20 of headers, the other half."""
    out = run(star(2), messages([0], [1], 64), roce())
    frame = 62 + 16 + 64
    pcie_gbps = 16 * 8 * 128 / 130 * 512 / 532
    to_memory = (frame * round(8e6 / pcie_gbps) + 500) // 1000
    wanted = 250_000 + 64 * 600 + 10_000 + 300_000 + (frame + 20) * 80 + 10_000 + to_memory + 250_000
    assert int(out.arrived_ps[0] - out.began_ps[0]) == wanted


def test_store_and_forward_takes_a_frame_more_a_switch():
    """Each switch waits for the whole frame."""
    fabric, sent = chain(3), messages([0], [2], 4096)
    through, stored = (run(fabric, sent, roce(cut_through=c)).arrived_ps[0] for c in (True, False))
    assert stored - through == 3 * (FRAME + 16 + 20) * 80


def test_goodput_of_one_flow_is_payload_over_frame():
    """100 Gb/s times 4096 / 4178; the memory of the adapters limits nothing."""
    size = 50_000_000
    out = run(star(2), messages([0], [1], size), PacketOptions(network="roce", profile={"pcie_gbps": 1e6}))
    assert size * 8e3 / out.arrived_ps[0] == pytest.approx(100 * 4096 / WIRE, rel=1e-3)


def test_the_path_mtu_fits_the_frame():
    """IBA path MTUs: 1024 in frames of 1500, 4096 in frames of 9000; and by their own numbers."""
    sent = messages([0], [1], 64 * 1024)
    for mtu, payload in ((1500, 1024), (4200, 4096), (9000, 4096), (1024, 1024), (2048, 2048), (4096, 4096)):
        assert run(star(2), sent, roce(mtu=mtu)).work["packets"] == 64 * 1024 // payload


@pytest.mark.parametrize("length_m", [2.0, 300.0])
def test_pauses_with_enough_headroom_lose_nothing(length_m):
    """802.1Qbb's promise: 8 to 1 at full rate without DCQCN, short and long cables; no frame is lost, and none is sent again."""
    out = run(star(9, length_m=length_m), incast(8), roce(cc="none", xoff_bytes=50_000))
    figures = out.port_figures
    assert out.done and out.work["frames dropped"] == 0 and figures["pause_frames_sent"].sum() > 8
    assert out.work["packets"] == 8 * -(-1_000_000 // 4096), "nothing was sent again"
    assert out.end_ps == pytest.approx(8 * 1_000_000 / 4096 * WIRE * 80, rel=0.03), "and the sink's link is never idle"


def test_what_came_after_a_pause_fits_the_headroom_and_needs_it():
    """The largest ingress is at most XOFF and a frame above it and the headroom; and with none, frames are lost, counted and sent again."""
    fabric, sent = star(9, length_m=300.0), incast(8)
    net, s, _, _ = execute(fabric, sent, roce(cc="none", xoff_bytes=50_000))
    external = net.port["kind"] == constants.SWITCH_PORT
    room = net.buffer["headroom"][external].max()
    peak = s.queue["peak_ingress"][external].max()
    # what a round trip over two cables of 1,500 ns brings at 100 Gb/s at least comes after the pause was asked for
    assert 50_000 + 2 * 1_500 * 100 // 8 < peak <= 50_000 + FRAME + 16 + room
    out = run(fabric, sent, roce(cc="none", xoff_bytes=50_000, headroom_bytes=0))
    assert out.done and out.port_figures["headroom_drops"].sum() > 0
    assert out.work["packets"] > 8 * -(-1_000_000 // 4096), "go-back-N sends again"


def test_a_long_pause_is_asked_for_again():
    """Pause quanta are 16 bits of 512 bit times: at 100 Gb/s a pause runs out after 335.5 us, so it is sent again every 167.8 us. An adapter
    with a slow way to memory pauses the switch, which pauses the senders; nothing is lost."""
    fabric = star(9)
    out = run(fabric, incast(8, 200_000), PacketOptions(network="roce", profile={"pcie_gbps": 0.1}, ack_timeout=20))
    sink = fabric.node_base[np.flatnonzero(~fabric.is_switch)[0]] + 1
    paused, frames = (
        out.port_figures["paused_ps"][fabric.port_peer[sink]],
        out.port_figures["pause_frames_sent"][sink],
    )
    half = 65_535 * 512 * 10 / 2
    assert out.done and out.work["frames dropped"] == 0
    assert paused > 100 * half, "the sink's link mostly stands still"
    assert paused / half < frames < 3 * paused / half


def test_without_flow_control_full_queues_drop_and_go_back_n_repairs():
    """Tail drops are counted as discards; RC sends again until everything arrives."""
    out = run(star(9), incast(8), roce(pfc=False, cc="none", queue_bytes=100_000))
    assert out.done and out.port_figures["tail_drops"].sum() > 0
    assert out.counters["port_xmit_discards"].sum() == out.port_figures["tail_drops"].sum()
    assert out.port_figures["pause_frames_sent"].sum() == 0
    assert out.port_figures["peak_queue"].max() <= 100_000


def test_pauses_around_a_ring_deadlock_and_are_named():
    """A cyclic routing: every switch has asked the one before to pause (Guo et al., SIGCOMM 2016); the cycle is reported as for credits."""
    fabric, sent = ring_around()
    out = run(fabric, sent, roce(ecmp=False, cc="none", xoff_bytes=50_000))
    assert not out.done and out.agreement == ALL and len(out.deadlock) == 5
    ports = [port for port, _ in out.deadlock]
    for here, there in zip(ports, [*ports[1:], ports[0]], strict=True):
        assert fabric.port_node[fabric.port_peer[here]] == fabric.port_node[there]


def test_a_victim_waits_behind_a_pause_unless_it_has_a_priority_of_its_own():
    """Head-of-line blocking of PFC (Zhu et al. 2015, section 2.2): a flow to an idle host shares a link with one to a hot host."""
    fabric = chain(2, 4)
    src, dst = np.array([0, 1, 5, 6, 7]), np.array([4, 5, 4, 4, 4])
    took = []
    for sl in (0, 1):
        sent = messages(src, dst, 4_000_000, sl=np.array([0, sl, 0, 0, 0]))
        out = run(fabric, sent, roce(cc="none", xoff_bytes=50_000))
        took.append(int(out.arrived_ps[1]))
        assert out.done and out.work["frames dropped"] == 0
    assert took[0] > 1.5 * took[1]


def test_dcqcn_keeps_pauses_away():
    """The same incast with DCQCN: fewer pauses (its purpose)."""
    with_it, without = (
        run(star(9), incast(8, 10_000_000), roce(cc=cc, xoff_bytes=200_000)) for cc in ("dcqcn", "none")
    )
    assert with_it.port_figures["pause_frames_sent"].sum() < without.port_figures["pause_frames_sent"].sum() / 10
    assert with_it.work["CNPs"] > 0


def test_equal_cost_paths_share_flows_like_throws_of_a_die():
    """Hashed flows of one leaf over its uplinks: a multinomial (chi-square within 3 standard deviations); one flow stays on one path."""
    fabric = tree(16, 2)  # 8 uplinks a leaf, 8 hosts
    flows = 800
    src, dst = np.arange(flows) % 8, 8 + np.arange(flows) % 64
    out = run(fabric, messages(src, dst, 4096, qp=np.arange(flows)), roce(cc="none"))
    leaf = fabric.port_node[fabric.port_peer[fabric.node_base[np.flatnonzero(~fabric.is_switch)[0]] + 1]]
    ports = fabric.node_base[leaf] + 1 + np.arange(fabric.node_nports[leaf])
    up = ports[fabric.is_switch[fabric.port_node[fabric.port_peer[ports]]]]
    sent = out.counters["port_xmit_pkts"][up].astype(float)  # acknowledgements leave by the same ports
    data = (flows + (sent.sum() - flows)) / len(up)
    assert len(up) == 8 and sent.min() > 0
    chi = ((sent - data) ** 2 / data).sum()
    assert chi < 7 + 3 * np.sqrt(14) * 2
    one = run(fabric, messages([0], [40], 4_000_000), roce())
    assert (one.counters["port_xmit_pkts"][up] > 900).sum() == 1


def test_another_seed_hashes_otherwise_and_the_same_one_alike():
    fabric = tree(8, 2)
    n = 32
    sent = messages(np.arange(n), (np.arange(n) + 5) % n, 200_000)
    first, again, other = (run(fabric, sent, roce(seed=s)) for s in (1, 1, 2))
    assert (first.arrived_ps == again.arrived_ps).all() and (first.counters == again.counters).all()
    assert (first.arrived_ps != other.arrived_ps).any()


def test_reads_atomics_and_datagrams_run_over_ethernet_too():
    """All of the transport is the same code: everything completes and arrives."""
    rng = np.random.default_rng(1)
    n, ends = 200, 8
    src = rng.integers(0, ends, n)
    dst = (src + rng.integers(1, ends, n)) % ends
    transport = rng.integers(0, 3, n)
    opcode = np.where(transport == Transport.RC, rng.integers(0, 4, n), rng.integers(0, 2, n))
    opcode = np.where(transport == Transport.UD, Opcode.SEND, opcode)
    size = np.where(opcode == Opcode.ATOMIC, 8, rng.integers(1, 4096, n))
    sent = messages(src, dst, size, opcode=opcode, transport=transport, qp=(src * ends + dst) * 3 + transport)
    out = run(tree(4, 2), sent, roce())
    assert out.done and (out.arrived_ps > out.began_ps).all()


@pytest.mark.parametrize("network", ["roce", "tcp"])
def test_no_frame_is_lost_without_a_counter(network):
    """On every link the other end receives what was sent, and in every switch what came in left or was counted as dropped."""
    fabric = tree(4, 2)
    src = np.repeat(np.arange(1, 8), 4)
    options = {"pfc": False, "queue_bytes": 30_000} | ({"cc": "none"} if network == "roce" else {})
    net, s, status, _ = execute(
        fabric, messages(src, 0, 150_000, qp=src), PacketOptions(network=network, ethernet=options)
    )
    from softib.sim.packet.ethernet import port_figures

    assert status == constants.DONE and s.reg.in_network == 0
    linked = np.flatnonzero((net.port["peer"] >= 0) & (net.port["peer"] != np.arange(len(net.port))))
    assert (s.port["xmit_packets"][linked] == s.port["rcv_packets"][net.port["peer"][linked]]).all()
    drops = port_figures(net, s, int(s.reg.last))["tail_drops"]
    assert drops.sum() > 0
    for node in np.flatnonzero(fabric.is_switch):
        ports = fabric.node_base[node] + 1 + np.arange(fabric.node_nports[node])
        assert s.port["rcv_packets"][ports].sum() == s.port["xmit_packets"][ports].sum() + drops[ports].sum()


def test_questions_that_cannot_be():
    """One line each."""
    with pytest.raises(UnknownName, match="network of the packet layer"):
        PacketOptions(network="iwarp")
    with pytest.raises(UnknownName, match="option of Ethernet"):
        PacketOptions(network="roce", ethernet={"xof": 1})
    with pytest.raises(InputError, match="mtu 100"):
        PacketOptions(network="roce", ethernet={"mtu": 100})
    with pytest.raises(InputError, match="SL 9 has no priority of Ethernet"):
        run(star(2), messages([0], [1], 64, sl=9), roce())


@pytest.mark.parametrize("network", ["roce", "tcp"])
def test_computations_delay_what_waits_for_them(network):
    """A program computes for 5 us, then sends: all of it 5 us later than without."""
    both = messages(
        [0, 0],
        [0, 1],
        [1, 64],
        opcode=[Opcode.COMPUTE, Opcode.WRITE],
        qp=[0, 1],
        first=[0, 0, 1],
        needs=[0],
        delay_ps=[5_000_000, 0],
    )
    late = run(star(2), both, PacketOptions(network=network))
    alone = run(star(2), messages([0], [1], 64), PacketOptions(network=network))
    assert late.done and late.arrived_ps[1] - alone.arrived_ps[0] == 5_000_000
