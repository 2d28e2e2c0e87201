"""Laws that hold whatever the traffic: credits, counters, order, invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.errors import InputError, UnknownName
from softib.fabric.end_ports import end_ports
from softib.sim.messages import Opcode, Transport, messages
from softib.sim.packet import PacketOptions, constants, run
from softib.sim.packet.engine import execute
from tests.sim.packet.fabrics import chain, fabric_copy, no_lifetimes, star, tree
from tests.sim.packet.lab import IDEAL, drained
from tests.sim.packet.traffic import mixture


@pytest.mark.parametrize("seed", range(4))
def test_credits_are_conserved_and_what_is_sent_arrives(seed):
    """When the network is empty each sender has the whole receive buffer again, what a port sent its peer received, and every message
    arrived and completed, after it began."""
    fabric = tree(4, 2)
    sent = mixture(len(end_ports(fabric)), 300, seed)
    net, s, status, _ = execute(fabric, sent, PacketOptions(seed=seed))
    assert status == constants.DONE and s.reg.in_network == 0
    vls = int(net.opt.vls)
    linked = np.flatnonzero(net.port["peer"] >= 0)
    peer = net.port["peer"][linked]
    for vl in range(vls):
        assert np.array_equal(drained(net, s)[linked * vls + vl], net.rare["blocks"][peer])
    external = linked[peer != linked]
    there = net.port["peer"][external]
    assert np.array_equal(s.port["xmit_octets"][external], s.port["rcv_octets"][there])
    assert np.array_equal(s.port["xmit_packets"][external], s.port["rcv_packets"][there])
    assert not (s.vl["ring"].any() or s.vl["queued"].any()) and not s.port["ready"].any()
    m = s.message
    assert (m["arrived"] > m["began"]).all() and (m["began"] >= m["start"]).all()
    assert (m["completed"] > m["began"]).all()
    for i in np.flatnonzero(np.diff(sent.first)).tolist():
        j = int(sent.needs[sent.first[i]])
        after = m["completed"][j] if sent.src[i] == sent.src[j] else m["arrived"][j]
        assert m["began"][i] >= after + sent.delay_ps[i]


@pytest.mark.parametrize("seed", range(2))
def test_the_short_way_through_an_idle_output_changes_nothing(seed):
    """Where data are counted by SL every packet goes through its queue; without it one that can leave at once does not. Times and counters are the same."""
    fabric = tree(4, 3)
    sent = mixture(len(end_ports(fabric)), 300, seed)
    short, long = (run(fabric, sent, PacketOptions(seed=seed, counters_by_sl=by_sl)) for by_sl in (False, True))
    for column in ("arrived_ps", "completed_ps", "counters"):
        assert np.array_equal(getattr(short, column), getattr(long, column))
    assert short.work["events"] == long.work["events"]


@pytest.mark.parametrize("blocks", [130, 200, 1000])
def test_long_cables_let_through_a_buffer_each_round_trip(blocks):
    """On a kilometre of cable the receive buffer is the window: as many packets as it holds leave in the time that the first takes to the switch, through it, and its credit back
    (IBA chapter 7, flow control). So many credits are on the way at once, up to 15 here."""
    fabric = chain(1, 2, length_m=1000.0)
    octets, rounds = 4096 + 26, 40
    window = blocks // -(-octets // constants.BLOCK)
    profile = IDEAL | {"vl_blocks": blocks}
    net, s, status, _ = execute(fabric, messages([0], [1], rounds * window * 4096), PacketOptions(profile=profile))
    linked = net.port["fs"] > 0
    fs, delay = int(net.port["fs"][linked].max()), int(net.port["delay_ps"][linked].max())
    switch = int(net.port["latency_ps"][linked & (net.port["kind"] == constants.SWITCH_PORT)].max())
    round_trip = 2 * delay + switch + (octets + int(net.opt.fcp)) * fs / 1000
    assert status == constants.DONE
    assert float(s.message["arrived"][0]) == pytest.approx(rounds * round_trip, rel=0.02)
    there = np.flatnonzero(net.port["peer"] >= 0)
    assert np.array_equal(drained(net, s)[there], net.rare["blocks"][net.port["peer"][there]])


def test_messages_of_a_queue_pair_arrive_in_order():
    """PSN order, on lossy links too (IBA 9.7.2)."""
    fabric = star(4)
    fabric.port_loss[:, 1] = 2e-7
    src = np.repeat([0, 1, 2], 300)
    out = run(fabric, messages(src, 3, np.random.default_rng(1).integers(1, 30000, 900), qp=src))
    assert out.done and out.counters["port_rcv_errors"].sum() > 0
    for q in range(3):
        assert (np.diff(out.arrived_ps[src == q]) >= 0).all()


def test_reads_and_writes_on_lossy_links_complete():
    """NAKs, timeouts, missing responses: RC gets everything through."""
    fabric = tree(4, 2)
    lossy = fabric_copy(fabric)
    lossy.port_loss[:, 1] = 1e-6
    sent = mixture(8, 300, 7)
    rc = sent.transport == Transport.RC
    only = messages(sent.src[rc], sent.dst[rc], sent.size[rc], opcode=sent.opcode[rc])
    out = run(lossy, only, PacketOptions(ack_timeout=6))
    assert out.counters["port_rcv_errors"].sum() > 0
    assert out.done


def test_nobody_waits_for_a_dead_link():
    """Every packet is lost: the retries are exceeded, and the run ends and says so."""
    fabric = star(2)
    fabric.port_loss[:, 0] = 100.0
    out = run(fabric, messages([0], [1], 5000), PacketOptions(ack_timeout=4, retries=3))
    assert not out.done and "retries" in " ".join(out.notes)
    assert out.work["packets"] == 2 * 4, "a first time and three retries, two packets each"
    timeouts_ps = 4 * (4_096_000 << 4)
    assert timeouts_ps < out.end_ps < timeouts_ps + 10**7, "the run lasts until the queue pair is in error"


def test_the_same_seed_gives_the_same_bytes():
    fabric = star(5)
    fabric.port_loss[:, 1] = 3e-7
    sent = mixture(5, 300, 3)
    a, b, c = (run(fabric, sent, PacketOptions(seed=seed)) for seed in (1, 1, 2))
    assert a.arrived_ps.tobytes() == b.arrived_ps.tobytes() and a.counters.tobytes() == b.counters.tobytes()
    assert a.arrived_ps.tobytes() != c.arrived_ps.tobytes()


def test_pools_that_grow_change_nothing(monkeypatch):
    """Small pools are enlarged on the way; the result is the same bytes."""
    from softib.sim.packet import state

    fabric = tree(4, 3)
    sent = messages(np.arange(16), (np.arange(16) + 5) % 16, 1 << 18)
    large = run(fabric, sent)
    monkeypatch.setattr(state, "FIRST_ROWS", 130)
    monkeypatch.setattr(state, "ROWS_A_SENDER", 0)
    small = run(fabric, sent)
    assert large.arrived_ps.tobytes() == small.arrived_ps.tobytes()
    assert large.counters.tobytes() == small.counters.tobytes()


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(6)), st.integers(0, 5))
def test_names_of_hosts_do_not_matter(order, seed):
    """Relabelling hosts of a symmetric fabric relabels the answer; where two packets come at the same picosecond, the order in which
    their flow-control packets leave (640 ps each) may change."""
    fabric = no_lifetimes(star(6))
    rng = np.random.default_rng(seed)
    src, dst = np.arange(6), (np.arange(6) + rng.integers(1, 6)) % 6
    size = rng.integers(1, 100000, 6)
    order = np.array(order)
    plain = run(fabric, messages(src, dst, size))
    other = run(fabric, messages(order[src], order[dst], size))
    assert other.arrived_ps == pytest.approx(plain.arrived_ps, abs=2000, rel=0)


@given(st.integers(1, 1 << 22))
@settings(max_examples=15, deadline=None)
def test_a_faster_link_never_slows_a_flow_that_is_alone(size):
    slow, fast = star(2, "EDR"), star(2, "HDR")
    figures = {
        "pcie_gbps": 1000.0,
        "fetch_ns": 300,
        "switch_ns": 100,
        "adapter_ns": 500,
        "vl_blocks": 512,
        "ramp_bytes": 0,
        "inline_ns": 1,
    }
    options = PacketOptions(profile=figures)
    sent = messages([0], [1], size)
    edr, hdr = (run(f, sent, options).arrived_ps[0] for f in (slow, fast))
    assert hdr <= edr


def test_a_static_rate_is_kept():
    """A path of 25 Gb/s on a link of 100: a quarter (IBA chapter 9, static rate)."""
    fabric = star(2)
    n = 200
    out = run(fabric, messages(np.zeros(n, int), 1, 65536, qp=0, rate_gbps=25.0))
    took = out.arrived_ps[-1] - out.arrived_ps[0]
    assert (n - 1) * 65536 * 8e3 / took == pytest.approx(25, rel=0.01)


def test_reads_in_flight_are_limited():
    """max_rd_atomic: with one READ in flight small READs take a round trip each."""
    fabric = star(2)
    n = 64
    sent = messages(np.zeros(n, int), 1, 8, qp=0, opcode=Opcode.READ)
    one, many = (run(fabric, sent, PacketOptions(profile={"reads": r})) for r in (1, 16))
    alone = run(fabric, messages([0], [1], 8, opcode=Opcode.READ))
    trip = int(alone.arrived_ps[0]) - 500_000  # without posting and memory, which overlap
    assert one.arrived_ps[-1] > (n - 1) * trip * 0.9 > many.arrived_ps[-1]


def test_port_xmit_wait_counts_ticks_without_credits():
    """A sender whose sink is twice as slow waits half of the time (IBA 16.1.3.5)."""
    fabric = no_lifetimes(star(3))
    n = 400
    src = np.repeat([1, 2], n)
    out = run(fabric, messages(src, 0, 65536, qp=src))
    ends = end_ports(fabric)
    waited = out.counters["port_xmit_wait"][ends[1:3]].astype(float)
    ticks = out.end_ps / 387.9  # one octet on a lane of 25.78 Gb/s: 10 bits
    assert waited / ticks == pytest.approx([0.5, 0.5], rel=0.1)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"transport": Transport.UD, "size": 5000}, "UD sends at most the path MTU"),
        ({"transport": Transport.UC, "opcode": Opcode.READ}, "a READ or an atomic of UC"),
        ({"dst": 99}, "destination that does not exist"),
    ],
)
def test_bad_messages_are_one_line(columns, said):
    with pytest.raises(InputError, match=said):
        run(star(2), messages(**({"src": [0], "dst": [1], "size": 8} | columns)))


def test_bad_options_are_one_line():
    with pytest.raises(UnknownName, match="pcie_gbps"):
        run(star(2), messages([0], [1], 8), PacketOptions(profile={"pcie_gbit": 1}))
    with pytest.raises(InputError, match="Retry Count"):
        PacketOptions(retries=9)


def test_switch_port_0_sends_and_receives():
    fabric = chain(2, 1)
    ends = end_ports(fabric)
    switch0 = int(np.flatnonzero(fabric.port_num[ends] == 0)[0])
    out = run(fabric, messages([0, switch0], [switch0, 1], 3000))
    assert out.done


def test_the_fabric_is_not_changed():
    fabric = tree(4, 2)
    before = {name: getattr(fabric, name).copy() for name in ("counters", "lft", "port_info", "sl2vl")}
    run(fabric, messages([0], [5], 100000))
    assert all(np.array_equal(getattr(fabric, name), old) for name, old in before.items())
