"""Receiver not ready: RNR NAK, its timer, its retries (IBA 9.7.5.2.8, table 45)."""

from __future__ import annotations

import numpy as np
import pytest

from softib.errors import InputError
from softib.iba.vendor.ar import ARInfo
from softib.sim.agreement import ALL
from softib.sim.messages import Opcode, Transport, joined, messages
from softib.sim.packet import PacketOptions, constants, run
from softib.sim.packet.engine import execute
from softib.sim.packet.options import RNR_TIMER_US
from softib.sim.packet.profiles import PROFILES
from tests.sim.packet.fabrics import adaptive, star

PS = 1_000_000


def sends(n: int, receives: int, repost_us: float, size: int = 64, **columns):
    return messages(
        np.zeros(n, int), 1, size, qp=0, opcode=Opcode.SEND, receives=receives, repost_ps=int(repost_us * PS), **columns
    )


@pytest.mark.parametrize(("timer", "repost_us"), [(1, 5.0), (1, 35.0), (4, 100.0), (8, 500.0)])
def test_a_message_that_meets_an_empty_queue_k_times_takes_k_cycles_more(timer, repost_us):
    """One receive, posted again so long after the first message arrived. A cycle is the packet's way there, the NAK's way back, and the
    timer; the message takes as many as it met no receive. Exact, to the picosecond."""
    p, start, options = PROFILES["EDR"], 3 * PS, PacketOptions(rnr_timer=timer)
    alone = run(star(2), sends(1, 0, 0))
    posting = p.adapter_ns * 500 + round(64 * p.inline_ns * 1000)
    cycle = int(alone.completed_ps[0]) - posting - p.cqe_ns * 1000 + RNR_TIMER_US[timer] * PS
    written = round(90 * 8e3 / p.pcie_gbps) + p.adapter_ns * 500
    _, s, _, _ = execute(star(2), sends(2, 1, repost_us, start_ps=[0, start]), options)
    arrived = s.message["arrived"]
    first_try = start + int(alone.arrived_ps[0])
    k = -(-(int(arrived[0]) + int(repost_us * PS) - (first_try - written)) // cycle)
    assert k >= 1 and s.rare_count["rnr_naks"].sum() == k
    assert arrived[1] == first_try + k * cycle


def test_enough_receives_cost_nothing():
    many, free = run(star(2), sends(50, 50, 1000.0)), run(star(2), sends(50, 0, 0))
    assert many.arrived_ps.tobytes() == free.arrived_ps.tobytes()


def test_a_program_that_posts_in_time_is_never_met_unready():
    """Messages apart by more than the program takes: one receive is enough."""
    start = np.arange(20) * 10 * PS
    _, s, _, _ = execute(star(2), sends(20, 1, 5.0, start_ps=start), PacketOptions())
    assert s.rare_count["rnr_naks"].sum() == 0


@pytest.mark.parametrize("retries", [0, 2, 6])
def test_retries_are_limited(retries):
    """So many RNR NAKs are borne; one more is an error, and what comes after it never arrives."""
    options = PacketOptions(rnr_timer=1, rnr_retries=retries)
    _, s, status, _ = execute(star(2), sends(3, 1, 10_000.0), options)
    out = run(star(2), sends(3, 1, 10_000.0), options)
    assert status == constants.DONE and s.rare_count["rnr_naks"].sum() == retries + 1
    assert (out.completed_ps >= 0).tolist() == [True, False, False] and out.agreement == ALL


def test_seven_means_no_limit():
    assert run(star(2), sends(3, 1, 1000.0), PacketOptions(rnr_timer=1, rnr_retries=7)).done


def test_long_sends_writes_and_reads_between_them_complete_on_lossy_links():
    """Only SENDs take receives; NAKs, timeouts and RNR NAKs together, in order."""
    rng = np.random.default_rng(4)
    n = 120
    fabric = star(2)
    fabric.port_loss[:, 1] = 2e-7
    sent = messages(
        np.zeros(n, int),
        1,
        rng.integers(1, 40000, n),
        qp=0,
        opcode=rng.integers(0, 3, n),
        receives=2,
        repost_ps=20 * PS,
    )
    out = run(fabric, sent, PacketOptions(rnr_timer=1, ack_timeout=8))
    assert out.done
    data = sent.opcode != Opcode.READ
    assert (np.diff(out.arrived_ps[data]) >= 0).all()
    sends_at = np.sort(out.arrived_ps[sent.opcode == Opcode.SEND])
    assert (sends_at[2:] - sends_at[:-2] > 20 * PS).all(), "two receives: the third SEND waits for the first one's"


def test_a_write_with_immediate_takes_a_receive_with_its_last_packet():
    """Its data is there before: what meets no receive, and comes again, is the one packet with the immediate data, where of a SEND all do
    (IBA 9.7.5.2.8). ImmDt is 4 octets (9.2.8), a RETH 16."""
    size, packets = 5 * 4096, 5
    made = {}
    for opcode in (Opcode.WRITE_WITH_IMM, Opcode.SEND):
        sent = messages([0, 0], 1, size, qp=0, opcode=opcode, receives=1, repost_ps=200 * PS, start_ps=[0, 50 * PS])
        made[opcode] = execute(star(2), sent, PacketOptions(rnr_timer=6))[1]
    octets = {o: (s.port["rcv_octets"].sum(), s.rare_count["rnr_naks"].sum()) for o, s in made.items()}
    alone = (
        run(star(2), messages([0], [1], size)).counters,
        run(star(2), messages([0], [1], size, opcode=Opcode.WRITE_WITH_IMM)).counters,
    )
    more = alone[1]["port_xmit_data"].astype(int) - alone[0]["port_xmit_data"]
    assert sorted(more.tolist())[-2:] == [1, 1] and (more >= 0).all()  # words: the host and the switch
    last, ack = 4096 + 26 + 4, 30
    write = 2 * (packets * (4096 + 26) + 16 + 4) + 2 * ack
    naks = octets[Opcode.WRITE_WITH_IMM][1]
    assert naks > 1 and octets[Opcode.WRITE_WITH_IMM][0] == 2 * (write + naks * (last + ack))  # both links of the path
    assert octets[Opcode.SEND][1] > 1 and octets[Opcode.SEND][0] > 2 * (write + octets[Opcode.SEND][1] * (last + ack))


def test_wrong_values_are_one_line():
    with pytest.raises(InputError, match="RNR Retry Count"):
        PacketOptions(rnr_retries=8)
    with pytest.raises(InputError, match="table 45"):
        PacketOptions(rnr_timer=32)
    with pytest.raises(InputError, match="several destinations"):
        run(star(3), messages([0, 0], [1, 2], 8, qp=0, opcode=Opcode.SEND, transport=Transport.UD, receives=1))


@pytest.mark.parametrize("transport", [Transport.UC, Transport.UD])
@pytest.mark.parametrize(
    ("receives", "repost_us", "arrive"),
    [(1, 25, [0, 3, 6]), (2, 25, [0, 1, 3, 4, 6, 7]), (3, 1e4, [0, 1, 2]), (1, 5, range(8))],
)
def test_without_rnr_naks_what_finds_no_receive_is_dropped(transport, receives, repost_us, arrive):
    """A message every 10 us, a receive posted again 25 us after it was taken: IBA 9.8.2.2.4 and 9.8.3.2. Senders learn nothing, so all complete; no packet goes back."""
    sent = sends(8, receives, repost_us, transport=transport, start_ps=np.arange(8) * 10 * PS)
    out = run(star(2), sent)
    assert np.flatnonzero(out.arrived_ps >= 0).tolist() == list(arrive)
    assert (out.completed_ps >= 0).all()
    dropped = [note for note in out.notes if "out_of_buffer" in note]
    assert (f"{8 - len(list(arrive))} messages" in dropped[0]) if len(list(arrive)) < 8 else not dropped
    assert out.counters["port_unicast_rcv_pkts"].sum() == 2 * 8, (
        "dropped behind the link: every packet crosses both links"
    )


def test_all_packets_of_a_uc_message_without_a_receive_are_dropped():
    """Its first packet finds none; a receive that is there when its last one comes is for the next message. Of a WRITE with immediate the last packet takes it."""
    size = 50 * 4096  # 16 us at 100 Gb/s
    for opcode, arrive in ((Opcode.SEND, [0, 2]), (Opcode.WRITE_WITH_IMM, [0, 1, 2])):
        sent = messages(
            [0] * 3,
            1,
            [64, size, 64],
            qp=0,
            opcode=opcode,
            transport=Transport.UC,
            receives=1,
            repost_ps=10 * PS,
            start_ps=[0, PS, 60 * PS],
        )
        assert np.flatnonzero(run(star(2), sent).arrived_ps >= 0).tolist() == arrive


@pytest.mark.parametrize("seed", range(3))
def test_receives_of_datagrams_that_overtake_each_other_are_conserved(seed):
    """With adaptive routing datagrams come out of order. Whatever order they take their receives in, each receive is posted again: after a pause as many at once
    as there are receives find one, and not one more."""
    rng, depth, early = np.random.default_rng(seed), 6, 300
    others = np.repeat(np.arange(1, 16), 8)
    background = messages(others, 28 + others % 3, 60_000, start_ps=rng.integers(0, 20 * PS, len(others)))
    late = depth + 3
    start = np.concatenate([np.sort(rng.integers(0, 25 * PS, early)), np.full(late, 400 * PS)])
    n = early + late
    datagrams = messages(
        np.zeros(n, int),
        31,
        2048,
        qp=9999,
        opcode=Opcode.SEND,
        transport=Transport.UD,
        receives=depth,
        repost_ps=10 * PS,
        start_ps=start,
    )
    sent = joined(datagrams, background)
    fabric = adaptive("free")
    ARInfo.by_transport_disable.set(fabric.ar_info, 0)  # managers leave UD out
    _, s, status, _ = execute(fabric, sent, PacketOptions(seed=seed))
    arrived = s.message["arrived"][:n]
    q = int(s.message["qp"][0])
    assert status == constants.DONE
    overtaken = (np.diff(arrived[:early][arrived[:early] >= 0]) < 0).sum()
    lost = (arrived < 0).sum()
    assert overtaken > 0 and 0 < lost == s.unreliable["out_of_buffer"][q]
    assert (arrived[early:] >= 0).sum() == depth
