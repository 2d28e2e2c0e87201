"""RMPP messages in captures: the segments are those of the state machines of both ends, and what tshark and saquery see."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from softib.agents.rmpp_segments import segments_of
from softib.iba.crc import icrc
from softib.iba.mad_packets import MAD_AT
from softib.iba.pcap import ERF_SIZE
from softib.iba.sa import NodeRecord
from softib.live.shared_fabric import SharedFabric
from softib.mad.rmpp import conversation
from tests.iba.dissected import columns
from tests.live.serving import wait_for
from tests.mad.rmpp_ends import Receiver, RmppState, Sender

HEADERS = {0x03: 20, 0x32: 4, 0x10: 28}
"""Class headers of SA, vendor and device management classes (IBA 15.2.1.1, 16.5.1, 16.3.1)."""


def talk(message: bytes, class_header: int) -> list[tuple[bytes, bool]]:
    """What the state machines of ``tests/mad/rmpp_ends.py`` say to each other over a wire that loses nothing."""
    sender, receiver = Sender(message, class_header), Receiver(class_header)
    said: list[tuple[bytes, bool]] = []
    back: list[np.ndarray] = []
    while not (sender.over and receiver.over):
        there, _ = sender.step(0, back)
        said += [(m.tobytes(), True) for m in there]
        back, _ = receiver.step(0, there)
        said += [(m.tobytes(), False) for m in back]
    assert receiver.state == RmppState.DONE and receiver.message[36:] == message[36:]
    return said


@pytest.mark.parametrize("klass", HEADERS)
@pytest.mark.parametrize("segments", [1, 2, 64, 65, 66, 129, 200])
def test_the_wire_carries_what_two_state_machines_say(klass, segments):
    room = 220 - HEADERS[klass]
    for octets in {(segments - 1) * room + 1, segments * room, 0 if segments == 1 else segments * room - 1}:
        message = np.random.default_rng(octets).bytes(36 + HEADERS[klass] + octets)
        message = message[:1] + bytes([klass]) + message[2:]
        mads, on = conversation(message)
        assert [(m.tobytes(), bool(d)) for m, d in zip(mads, on, strict=True)] == talk(message, HEADERS[klass])


def test_who_has_no_rmpp_gets_the_first_segment_and_acknowledges_nothing():
    message = bytes([1, 3, 2, 0x92]) + bytes(52 + 1000)
    mads, on = conversation(message, acknowledged=False)
    assert len(mads) == 1 and on.all() and mads[0].tobytes() == talk(message, 20)[0][0]


def frames_of(pcap) -> list[bytes]:
    """Packets of a capture, LRH to VCRC."""
    octets, at, out = pcap.read_bytes(), 24, []
    while at < len(octets):
        size = int.from_bytes(octets[at + 8 : at + 12], "little")
        out.append(octets[at + 16 + ERF_SIZE : at + 16 + size])
        at += 16 + size
    return out


@pytest.mark.parametrize("klass", HEADERS)
@pytest.mark.parametrize("n", [1, 2, 64, 65, 66, 129, 200])
def test_as_many_packets_are_counted_as_are_captured(klass, n):
    head = 36 + HEADERS[klass]
    for octets in {head, head + (n - 1) * (256 - head) + 1, head + n * (256 - head)}:
        message = bytes([1, klass]).ljust(octets, b"\0")
        _, on = conversation(message)
        assert segments_of(octets, klass) == (int(on.sum()), int((~on).sum()))


@pytest.mark.stock
def test_a_port_counts_each_segment_and_acknowledgement(softib, stock):
    """Oracle: the capture. A host's packets pass its port once, whoever is at the other end; switches on the way add up."""
    softib("up", "one.yaml", "--pcap", "one.pcap", "--sweep", "0", "--detach")
    pcap, host = softib.folder / "one.pcap", "host-0008"
    f = SharedFabric.open(Path(softib.status()[0]["shared_fabric"])).fabric
    port = int(f.ports_of(f.node_names().index(host), port0=False)[0])
    lid, sa = int(f.lid[port]), int(f.lid[int(f.ports_of(f.node_names().index("host-0001"), port0=False)[0])])
    names = ("port_xmit_pkts", "port_rcv_pkts", "port_xmit_data", "port_unicast_rcv_pkts")
    look = lambda: np.array([f.counters[n].astype(np.int64) for n in names])
    assert wait_for(lambda: softib.status()[0]["traps"]["pending"] == 0)  # of the bring-up
    before = look()
    for words in ((), ("-p",), ("CPI",), ("-p", "--slid", str(sa), "--dlid", str(lid))):
        softib("run", "--node", host, "--", stock("saquery"), *words)
    leaf, far = int(f.port_peer[port]), int(f.port_node[f.port_peer[port]])
    softib("down")
    moved = look() - before
    asked = [p for p in frames_of(pcap) if p[MAD_AT + 1] == 3]
    ends = [(int.from_bytes(p[6:8], "big"), int.from_bytes(p[2:4], "big")) for p in asked]
    sent, got = ends.count((lid, sa)), ends.count((sa, lid))
    assert sent > 4 and got > 20
    assert moved[:, port].tolist() == [sent, got, 72 * sent, got]
    assert moved[:, leaf].tolist() == [got, sent, 72 * got, sent]
    levels = (
        f.sl_counters["xmit_data_sl"][port].astype(int).tolist(),
        f.sl_counters["rcv_data_sl"][port].astype(int).tolist(),
    )
    assert levels == ([72 * sent] + [0] * 15, [72 * got] + [0] * 15), "all of it on SL 0, and no SMP among it"
    inside = [p for p in f.ports_of(far, port0=False) if p != leaf]
    assert moved[0, inside].sum() == sent and moved[1, inside].sum() == got, "in by one port, out by another"


@pytest.mark.stock
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_every_segment_of_saquery_is_a_packet_that_tshark_reads(softib, stock):
    stock("saquery")
    softib("up", "one.yaml", "--pcap", "one.pcap", "--detach")
    pcap = softib.folder / "one.pcap"
    told = softib("run", "--node", "host-0002", "--", "saquery", "NR")
    softib("run", "--node", "host-0002", "--", "saquery", "-p")
    nodes = told.count("NodeRecord dump")
    assert nodes == softib.status()[0]["nodes"] > 4
    assert wait_for(lambda: len(columns(pcap, "frame.number", only="infiniband.rmpp.rmpptype == 2")) > 2)
    softib("down")
    verbose = subprocess.run(["tshark", "-r", str(pcap), "-V"], capture_output=True, text=True, timeout=300).stdout
    assert "Malformed" not in verbose and "Transaction ID" in verbose
    fields = (
        "infiniband.lrh.slid",
        "infiniband.lrh.dlid",
        "infiniband.bth.psn",
        "infiniband.mad.transactionid",
        "infiniband.mad.method",
        "infiniband.rmpp.rmpptype",
        "infiniband.rmpp.segmentnumber",
        "infiniband.rmpp.newwindowlast",
    )
    rows = columns(pcap, *fields, only="infiniband.mad.mgmtclass == 3")
    psns = [int(r[2]) for r in rows]
    assert psns == sorted(set(psns))
    asked = [r for r in rows if int(r[4], 0) == 0x12]  # SubnAdmGetTable, one for each saquery
    assert len(asked) == 2
    for question in asked:
        here, sa, tid = question[0], question[1], question[3]
        answer = [r for r in rows if r[3] == tid and int(r[4], 0) == 0x92]
        data = [r for r in answer if int(r[5], 0) == 1]
        acks = [r for r in answer if int(r[5], 0) == 2]
        assert [int(r[6], 0) for r in data] == list(range(1, len(data) + 1)) and len(data) > 2
        assert {(r[0], r[1]) for r in data} == {(sa, here)} and {(r[0], r[1]) for r in acks} == {(here, sa)}
        assert answer[1] in acks and answer[-1] in acks and int(acks[-1][6], 0) == len(data)
    frames = frames_of(pcap)
    assert all(p[-6:-2] == icrc(p[:-6]) for p in frames)
    tid = bytes.fromhex(f"{int(asked[0][3], 0):016x}")
    receiver = Receiver()
    for packet in frames:
        mad = np.frombuffer(packet[MAD_AT : MAD_AT + 256], np.uint8)
        if mad[8:16].tobytes() == tid and mad[3] == 0x92 and mad[25] == 1:
            receiver.step(0, [mad])
    assert receiver.state == RmppState.DONE
    size = int.from_bytes(receiver.message[44:46], "big") * 8
    assert len(receiver.message) - 56 == nodes * size and size >= NodeRecord.size
