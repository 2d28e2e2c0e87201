"""The packet checksums: real RoCE captures for the ICRC, algebra for the VCRC."""

import struct
import zlib

import numpy as np
import pytest

from softib.iba.crc import ICRC_SIZE, icrc
from softib.iba.headers import BTH, LRH
from tests.iba.lab import mad_packet, vcrc


def roce_icrc(datagram: bytes) -> bytes:
    """The four bytes of the ICRC of a RoCEv2 packet (annex A17.3): ``datagram`` from the IP header up to the payload.

    Eight bytes of ones stand for the LRH; what routers change counts as ones: IPv4 type of service, time to live and
    checksum, IPv6 traffic class, flow label and hop limit, the UDP checksum, and the byte of BTH with FECN and BECN.
    Raises :class:`ValueError` for neither IPv4 nor IPv6.
    """
    masked = bytearray(datagram)
    version = masked[0] >> 4
    if version == 4:
        udp = (masked[0] & 15) * 4
        masked[1] = masked[8] = 0xFF
        masked[10:12] = b"\xff\xff"
    elif version == 6:
        udp = 40
        masked[0] |= 0x0F
        masked[1:4] = b"\xff\xff\xff"
        masked[7] = 0xFF
    else:
        raise ValueError(f"IP version {version}: RoCEv2 runs on IPv4 or IPv6")
    masked[udp + 6 : udp + 8] = b"\xff\xff"
    masked[udp + 8 + BTH.fecn.byte] = 0xFF
    return zlib.crc32(b"\xff" * LRH.size + masked).to_bytes(ICRC_SIZE, "little")


def roce_packets(path):
    """Every RoCEv2 packet (UDP port 4791) of an Ethernet pcap, from its IP header to its ICRC."""
    raw, at = path.read_bytes(), 24
    while at < len(raw):
        n = struct.unpack_from("<I", raw, at + 8)[0]
        frame, at = raw[at + 16 : at + 16 + n], at + 16 + n
        kind = frame[12:14]
        if kind == b"\x08\x00" and frame[23] == 17 and frame[36:38] == b"\x12\xb7":
            yield frame[14 : 14 + struct.unpack(">H", frame[16:18])[0]]
        elif kind == b"\x86\xdd" and frame[20] == 17 and frame[56:58] == b"\x12\xb7":
            yield frame[14 : 54 + struct.unpack(">H", frame[18:20])[0]]


def test_icrc_of_real_roce_packets(shared_data):
    packets = list(roce_packets(shared_data / "pcap-roce" / "roce.pcap"))
    assert [roce_icrc(p[:-4]) == p[-4:] for p in packets] == [True] * 105
    for p in packets[:20]:
        corrupted = bytearray(p[:-4])
        corrupted[-1] ^= 1
        assert roce_icrc(bytes(corrupted)) != p[-4:]
    with pytest.raises(ValueError, match="IP version 1"):
        roce_icrc(b"\x10" * 64)


def reference_icrc(packet):
    """Bit by bit, straight from 7.8.1: generator 0x04C11DB7, least significant bit of each octet first."""
    data = bytearray(packet)
    data[0] |= 0xF0
    data[12] = 0xFF
    crc = 0xFFFFFFFF
    for octet in data:
        for bit in range(8):
            top = (crc >> 31) ^ (octet >> bit & 1)
            crc = (crc << 1 & 0xFFFFFFFF) ^ (0x04C11DB7 if top else 0)
    crc ^= 0xFFFFFFFF
    return int(f"{crc:032b}"[::-1], 2).to_bytes(4, "little")


def reference_vcrc(packet):
    """Bit by bit, straight from 7.8.2: generator 0x100B."""
    crc = 0xFFFF
    for octet in packet:
        for bit in range(8):
            top = (crc >> 15) ^ (octet >> bit & 1)
            crc = (crc << 1 & 0xFFFF) ^ (0x100B if top else 0)
    return int(f"{crc ^ 0xFFFF:016b}"[::-1], 2).to_bytes(2, "little")


@pytest.mark.parametrize("seed", range(3))
def test_both_against_bit_by_bit_division(seed):
    mad = np.random.default_rng(seed).integers(0, 256, 256, dtype=np.uint8)
    packet = mad_packet(mad, 0x1234, 0x4321, 1)
    assert packet[-6:-2] == reference_icrc(packet[:-6]) == icrc(packet[:-6])
    assert packet[-2:] == reference_vcrc(packet[:-2]) == vcrc(packet[:-2])


def test_what_switches_change_leaves_the_icrc():
    packet = bytearray(mad_packet(bytes(256), 5, 6, 1))
    before = icrc(packet[:-6])
    packet[0] ^= 0x70  # VL
    packet[12] ^= 0xC0  # FECN, BECN
    assert icrc(packet[:-6]) == before
    for at in (1, 2, 5, 8, 11, 13, 20, 100, 283):
        packet[at] ^= 4
        assert icrc(packet[:-6]) != before
        packet[at] ^= 4


def test_single_and_double_bit_errors_change_the_vcrc():
    packet = bytearray(mad_packet(bytes(range(256)), 5, 6, 1)[:-2])
    good = vcrc(packet)
    for at in range(0, len(packet) * 8, 7):
        packet[at // 8] ^= 1 << at % 8
        assert vcrc(packet) != good
        packet[at // 8] ^= 1 << at % 8
