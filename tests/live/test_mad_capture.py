"""Captures: CRCs against the specification's sample packet and a bit-by-bit implementation, packets against tshark."""

from __future__ import annotations

import shutil
import struct
import subprocess

import numpy as np
import pytest

from softib.errors import InputError
from softib.fabric.power_cycle import power_on
from softib.fabric.topologies.registry import generate
from softib.iba.crc import icrc
from softib.iba.mad_packets import PACKET_SIZE, mad_packets
from softib.live.mad_capture import MadCapture
from softib.mad.batch import MadBatch
from tests.iba.dissected import columns
from tests.iba.lab import vcrc
from tests.live.serving import mad, wait_for

LOCAL = bytes.fromhex(
    "7012375c000e17d20a20248700 87b1b3000dec2a01710a1c015d400238f27a050000000ebb884d85fd5cfba4728bc0690ed40000".replace(
        " ", ""
    )
)
"""The sample of a local packet in IBA 7.8.4, LRH to pad; its invariant CRC there is 0x9625B75A, first octet 0x96."""


def crc_by_bits(octets: bytes, width: int, polynomial: int) -> bytes:
    """A CRC by its definition, one bit after the other, least significant bit of each octet first; register and result in
    the order of the polynomial, sent from the highest power on."""
    top, full = 1 << (width - 1), (1 << width) - 1
    register = full
    for octet in octets:
        for bit in range(8):
            feedback = bool(register & top) ^ bool(octet >> bit & 1)
            register = (register << 1 & full) ^ (polynomial if feedback else 0)
    register ^= full
    sent = format(register, f"0{width}b")  # x^(width-1) is sent first, as bit 0 of the first octet
    return bytes(int(sent[i : i + 8][::-1], 2) for i in range(0, width, 8))


def test_icrc_of_the_specifications_sample():
    assert len(LOCAL) == 52 and icrc(LOCAL).hex() == "9625b75a"
    masked = bytearray(LOCAL)
    masked[0] |= 0xF0
    masked[12] = 0xFF
    assert crc_by_bits(bytes(masked), 32, 0x04C11DB7).hex() == "9625b75a"


def test_icrc_does_not_see_what_switches_and_routers_change():
    vl = bytes([LOCAL[0] & 0x0F]) + LOCAL[1:]
    assert icrc(vl) == icrc(LOCAL) and icrc(LOCAL[:-1] + b"\1") != icrc(LOCAL)
    sl = LOCAL[:1] + bytes([LOCAL[1] ^ 0x10]) + LOCAL[2:]
    assert icrc(sl) != icrc(LOCAL)
    grh = bytes.fromhex("60000000001e1bff") + bytes(range(32))
    packet = LOCAL[:1] + b"\x13" + LOCAL[2:8] + grh + LOCAL[8:]
    for at, same in ((1, True), (3, True), (8, True), (9, True), (11, True), (15, True), (12, False), (20, False)):
        other = bytearray(packet)
        other[at] ^= 0x10 if at == 1 else 0x01
        if at == 8:
            other[8] = packet[8] ^ 0x01  # traffic class
        assert (icrc(bytes(other)) == icrc(packet)) is same, at
    with pytest.raises(ValueError, match="LNH 1"):
        icrc(b"\0\1" + bytes(60))


def test_vcrc_is_the_polynomial_of_7_8_2():
    rng = np.random.default_rng(1)
    for octets in (LOCAL + bytes.fromhex("9625b75a"), bytes(30), rng.bytes(288)):
        assert vcrc(octets) == crc_by_bits(octets, 16, 0x100B)
        wrong = bytearray(octets)
        wrong[7] ^= 4
        assert vcrc(bytes(wrong)) != vcrc(octets)


def test_heads_of_packets():
    """Field by field by the tables of IBA 7.7, 9.2 and 9.3."""
    m = np.stack([mad(), mad(klass=1), mad(klass=3, attr=0x35)])
    one = np.array([1, 1, 1])
    p = mad_packets(m, 5 * one, [0xFFFF, 9, 9], sl=3 * one, pkey=0x8001 * one, sqp=one, dqp=one, first_psn=0xFFFFFF)
    assert p.shape == (3, 290) and PACKET_SIZE == 290
    for row, smp in zip(p, (True, True, False), strict=True):
        vl, lnh, _, words, slid = struct.unpack(">BBHHH", row[:8].tobytes())
        opcode, _, pkey, dqp, _, qkey, sqp = struct.unpack(">BBHIIII", row[8:28].tobytes())
        assert (vl, lnh) == ((0xF0, 2) if smp else (0, 0x32)) and words == 72 and slid == 5
        assert opcode == 0x64 and (dqp, sqp) == ((0, 0) if smp else (1, 1))
        assert (pkey, qkey) == ((0xFFFF, 0) if smp else (0x8001, 0x80010000))
        assert row[-6:-2].tobytes() == icrc(row[:-6].tobytes())
        assert row[-2:].tobytes() == crc_by_bits(row[:-2].tobytes(), 16, 0x100B)
    assert [int.from_bytes(r[17:20].tobytes(), "big") for r in p] == [0xFFFFFF, 0, 1]


def test_a_file_that_cannot_be(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        MadCapture(tmp_path / "absent" / "x.pcap", generate("fat-tree", radix=4, levels=2))
    with pytest.raises(InputError, match="Is a directory"):
        MadCapture(tmp_path, generate("fat-tree", radix=4, levels=2))


def test_a_full_disk_ends_the_capture_not_the_fabric(capsys):
    f = generate("fat-tree", radix=4, levels=2)
    power_on(f)
    writer = MadCapture("/dev/null", f)
    writer._file.abandon()
    writer._file._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115 (closed by the capture)
    sent = MadBatch.zeros(1)
    sent.mad[0] = mad()
    for _ in range(2):
        writer.exchange(int(f.cas[0]), sent, sent[:0])
    writer.flush()
    writer.close()
    assert capsys.readouterr().err.count("or enlarge it; the capture ends here") == 1


@pytest.mark.stock
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_dissects_every_mad_of_a_bring_up_and_of_tools(softib, stock):
    softib("up", "one.yaml", "--pcap", "one.pcap", "--detach")
    for tool in ("iblinkinfo", "perfquery"):
        stock(tool)
        softib("run", "--", tool)
    softib("fault", "link-down", "leaf-1[3]")
    pcap = softib.folder / "one.pcap"
    assert wait_for(lambda: columns(pcap, "frame.number", only="infiniband.mad.method == 0x05"))
    status = softib.status()[0]
    softib("down")
    told = subprocess.run(["tshark", "-r", str(pcap), "-V"], capture_output=True, text=True, timeout=300).stdout
    assert "Malformed" not in told and told.count("InfiniBand\n") > 0
    rows = columns(pcap, "frame.protocols", "infiniband.lrh.vl", "infiniband.mad.mgmtclass", "infiniband.mad.method")
    assert all(r[0].startswith("erf:infiniband") for r in rows)
    classes = [int(r[2], 0) for r in rows]
    assert {0x81, 0x01, 0x04} <= set(classes)
    assert all((int(r[1], 0) == 15) == (c in (0x01, 0x81)) for r, c in zip(rows, classes, strict=True))
    methods = [int(r[3], 0) for r in rows]
    asked, answered = sum(m in (1, 2) for m in methods), methods.count(0x81)
    assert 0 < asked - answered <= status["mads"]["timed_out"] + len(rows) // 10 or asked == answered
    octets = pcap.read_bytes()
    at = 24
    for _ in range(50):
        size = struct.unpack_from("<I", octets, at + 8)[0]
        packet = octets[at + 32 : at + 16 + size]
        assert packet[-6:-2] == icrc(packet[:-6]) and packet[-2:] == crc_by_bits(packet[:-2], 16, 0x100B)
        at += 16 + size


def test_without_a_capture_nothing_is_tapped(softib):
    assert "there is no folder absent" in softib("up", "one.yaml", "--pcap", "absent/x.pcap", code=2)
    assert softib.status() == []
