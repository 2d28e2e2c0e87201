"""Captures of a run: what tshark reads in them is what the engine did (IBA 7.7, 9.2 to 9.4, 9.7)."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from softib.fabric.end_ports import end_ports
from softib.iba.crc import icrc
from softib.sim.messages import Opcode, Transport, messages
from softib.sim.packet import PacketOptions, constants, run
from softib.sim.packet.frames import FIRST_QPN, frames, tap, write_capture
from tests.iba.dissected import columns
from tests.iba.lab import vcrc
from tests.sim.packet.fabrics import fabric_copy, star, tree
from tests.sim.packet.groups import datagrams, grouped
from tests.sim.packet.traffic import mixture

FIELDS = (
    "frame.interface_name",
    "frame.packet_flags_direction",
    "frame.time_epoch",
    "infiniband.lrh.slid",
    "infiniband.lrh.dlid",
    "infiniband.lrh.sl",
    "infiniband.lrh.vl",
    "infiniband.lrh.pktlen",
    "infiniband.bth.opcode",
    "infiniband.bth.destqp",
    "infiniband.bth.a",
    "infiniband.bth.psn",
    "infiniband.bth.padcnt",
    "infiniband.reth.dmalen",
    "infiniband.aeth.syndrome.opcode",
    "infiniband.aeth.msn",
)
needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
FIRST_OF, ONLY_OF = {6, 0, 0x26, 0x20}, {10, 4, 0x2A, 0x24, 0x64}
LAST_OF = {8, 2, 0x28, 0x22}


def captured(tmp_path, fabric, sent, ports, **options):
    out = run(
        fabric, sent, PacketOptions(watch_ports=tuple({*ports, *fabric.port_peer[list(ports)].tolist()}), **options)
    )
    path = tmp_path / "run.pcapng"
    assert write_capture(out.log, fabric, ports, path) == len(tap(out.log, ports).row)
    assert not columns(path, "frame.number", only="_ws.malformed || _ws.expert.severity == 8388608")
    return out, [dict(zip(FIELDS, row, strict=True)) for row in columns(path, *FIELDS)]


def number(text: str) -> int:
    return int(text, 0)


@pytest.mark.stock
@needs_tshark
def test_tshark_reads_every_frame_and_each_messages_packets(tmp_path):
    """Random messages of every kind, the port of a host and the switch port that faces another one: no malformed packet; counters are the
    frames; of each message the right opcodes, as many packets as its size takes, PSNs in a row."""
    fabric, sent = tree(4, 2), mixture(14, 200, 3)
    ends = end_ports(fabric)
    ports = [int(ends[0]), int(fabric.port_peer[ends[1]])]
    out, rows = captured(tmp_path, fabric, sent, ports)
    for port in ports:
        mine = [r for r in rows if r["frame.interface_name"] == fabric.port_name(port)]
        for direction, packets, data in (
            ("0x00000002", "port_xmit_pkts", "port_xmit_data"),
            ("0x00000001", "port_rcv_pkts", "port_rcv_data"),
        ):
            some = [r for r in mine if number(r["frame.packet_flags_direction"]) == number(direction)]
            assert len(some) == out.counters[packets][port]
            assert sum(number(r["infiniband.lrh.pktlen"]) for r in some) == out.counters[data][port]
    _check_messages(fabric, sent, rows, int(ends[0]))


def _check_messages(fabric, sent, rows, port):
    """WRITEs and SENDs that the first host sent, by queue pair."""
    first = [
        r
        for r in rows
        if r["frame.interface_name"] == fabric.port_name(port) and number(r["frame.packet_flags_direction"]) == 2
    ]
    qps = np.unique(sent.qp)
    for q in np.unique(sent.qp[(sent.src == 0) & (sent.opcode < Opcode.READ)]).tolist():
        mine = np.flatnonzero((sent.qp == q) & (sent.opcode < Opcode.READ))
        if len(mine) != (sent.qp == q).sum():
            continue
        target = FIRST_QPN + 2 * int(np.searchsorted(qps, q)) + 1
        frames = [r for r in first if number(r["infiniband.bth.destqp"]) == target]
        assert [number(r["infiniband.bth.psn"]) for r in frames] == list(range(len(frames)))
        begins = [r for r in frames if number(r["infiniband.bth.opcode"]) in FIRST_OF | ONLY_OF]
        ends = [r for r in frames if number(r["infiniband.bth.opcode"]) in LAST_OF | ONLY_OF]
        assert len(begins) == len(ends) == len(mine)
        assert len(frames) == (-(-sent.size[mine] // 4096)).sum()
        written = sent.size[mine][sent.opcode[mine] == Opcode.WRITE].tolist()
        assert [number(r["infiniband.reth.dmalen"]) for r in begins if r["infiniband.reth.dmalen"]] == written
        pads = [number(r["infiniband.bth.padcnt"]) for r in ends]
        assert pads == (-sent.size[mine] % 4).tolist()
        if sent.transport[mine[0]] == Transport.RC:
            assert all(r["infiniband.bth.a"] in ("1", "True") for r in ends), (
                "the last packet asks for an acknowledgement"
            )


@pytest.mark.stock
@needs_tshark
def test_acknowledgements_naks_and_repeats_are_as_the_engine_sent_them(tmp_path):
    """On a lossy link: NAKs of a PSN sequence error (syndrome 3), ACKs (0), MSN = messages done; after a NAK the PSN it names comes again."""
    fabric = fabric_copy(star(2))
    fabric.port_loss[:, 1] = 2e-6
    ends = end_ports(fabric)
    sent = messages(np.zeros(20, int), 1, 60_000, qp=0, sl=2)
    out, rows = captured(tmp_path, fabric, sent, [int(ends[0])], seed=4, ack_timeout=6)
    assert out.done and {number(r["infiniband.lrh.sl"]) for r in rows} == {2}
    answers = [r for r in rows if number(r["infiniband.bth.opcode"]) == 17]
    naks = [r for r in answers if number(r["infiniband.aeth.syndrome.opcode"]) == 3]
    assert naks and all(number(r["frame.packet_flags_direction"]) == 1 for r in answers)
    for nak in naks:
        after = rows[rows.index(nak) :]
        again = [
            r
            for r in after
            if number(r["infiniband.bth.opcode"]) != 17 and r["infiniband.bth.psn"] == nak["infiniband.bth.psn"]
        ]
        assert again, "what the NAK asks for is sent again"
    last = [r for r in answers if number(r["infiniband.aeth.syndrome.opcode"]) == 0][-1]
    assert number(last["infiniband.aeth.msn"]) == 20 and number(last["infiniband.bth.psn"]) == 20 * 15 - 1


def test_checksums_and_times():
    """ICRC and VCRC of each frame by the other implementations; the first octet passes a port when the engine sent it, the cable later at its peer."""
    fabric, sent = star(3), messages([0, 1], [2, 2], 9000)
    ends = end_ports(fabric)
    port, peer = int(ends[0]), int(fabric.port_peer[ends[0]])
    out = run(fabric, sent, PacketOptions(watch_ports=(port, peer)))
    seen = tap(out.log, [port])
    for _, packets in frames(out.log, seen.row):
        for packet in packets:
            raw = packet.tobytes()
            assert raw[-6:-2] == icrc(raw[:-6]) and raw[-2:] == vcrc(raw[:-2])
    there, here = tap(out.log, [peer]), seen
    outbound = out.log.port[here.row] == port
    assert (there.ps[out.log.port[there.row] == port] - here.ps[outbound] == 10_000).all(), "2 m of cable"


def test_the_same_run_gives_the_same_bytes(tmp_path):
    fabric, sent = tree(4, 2), mixture(14, 100, 9)
    for name in ("a", "b"):
        out = run(fabric, sent, PacketOptions(watch_ports=(30, int(fabric.port_peer[30]))))
        write_capture(out.log, fabric, [30], tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() != b""


def test_nothing_is_logged_unless_asked():
    out = run(star(2), messages([0], [1], 100))
    assert out.log is None and out.samples is None


@pytest.mark.stock
@needs_tshark
@pytest.mark.parametrize(("opcode", "said"), [(Opcode.SEND, 0x04), (Opcode.WRITE_WITH_IMM, 0x0B)])
def test_tshark_reads_rnr_naks_and_their_timer(tmp_path, opcode, said):
    """Two SENDs (WRITEs with immediate) and one receive that is posted late: syndrome RNR NAK with the code of the timer (IBA 9.7.5.2.8,
    table 45)."""
    sent = messages([0, 0], 1, 64, qp=0, opcode=opcode, receives=1, repost_ps=100_000_000)
    fabric = star(2)
    port = int(end_ports(fabric)[1])
    out = run(fabric, sent, PacketOptions(watch_ports=(port, int(fabric.port_peer[port])), rnr_timer=14))
    path = tmp_path / "rnr.pcapng"
    write_capture(out.log, fabric, [port], path)
    assert not columns(path, "frame.number", only="_ws.malformed")
    found = columns(path, "infiniband.aeth.syndrome", only="infiniband.aeth.syndrome.opcode == 1")
    assert found and {number(row[0]) for row in found} == {0x20 + 14}
    assert {number(row[0]) for row in columns(path, "infiniband.bth.opcode")} == {said, 0x11}


@pytest.mark.stock
@needs_tshark
def test_tshark_reads_datagrams_to_a_group(tmp_path):
    """They have a GRH with a multicast GID, and QP 0xFFFFFF (IBA chapter 10, multicast); no frame is malformed, and both CRCs are right."""
    fabric, ends, group = grouped([0, 1, 5], [0])
    port = int(ends[5])
    sent = datagrams(group, [0], 3, size=1001)
    out = run(fabric, sent, PacketOptions(watch_ports=(port, int(fabric.port_peer[port]))))
    path = tmp_path / "group.pcapng"
    assert write_capture(out.log, fabric, [port], path) == 3
    assert not columns(path, "frame.number", only="_ws.malformed || _ws.expert.severity == 8388608")
    fields = ("infiniband.lrh.dlid", "infiniband.grh.dgid", "infiniband.bth.destqp", "infiniband.bth.opcode")
    for dlid, dgid, qp, opcode in columns(path, *fields):
        assert (
            number(dlid) == group.mlid
            and dgid.startswith("ff12:601b")
            and number(qp) == 0xFFFFFF
            and number(opcode) == 0x64
        )
    rows = np.flatnonzero(out.log.kind == constants.LOG_SENT)
    for which, made in frames(out.log, rows):
        assert len(which) and all(icrc(row[:-6].tobytes()) == row[-6:-2].tobytes() for row in made)
