"""RoCE packets as Ethernet frames: Wireshark dissects them, and their invariant CRC is scapy's."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from softib.iba.crc import icrc
from softib.iba.headers import BTH, LNH, LRH
from softib.iba.pcap import PcapFile
from softib.iba.roce_frames import RoceEnds, roce_frames, udp_source_port
from softib.live.sysfs.roce import ip_of, mac_of, mac_of_gid, mapped, roce_gid

PAYLOAD = np.arange(64, dtype=np.uint8)
CONTENT = np.concatenate([BTH.pack(opcode=4, pkey=0xFFFF, dest_qp=0x123456, ack_req=1, psn=7), PAYLOAD])[None, :]
IPV4 = RoceEnds(mac_of(30), mapped(ip_of(30)), mac_of(9), mapped(ip_of(9)), 2)
LINK_LOCAL = RoceEnds(mac_of(30), roce_gid(30, 1), mac_of(9), roce_gid(9, 1), 2)
V1 = LINK_LOCAL._replace(version=1)
FCS = 4
SCAPY = {IPV4: "24e019f1", LINK_LOCAL: "398d0946"}
"""scapy 2.8.0, ``scapy.contrib.roce.BTH.compute_icrc`` of these frames."""


def frame(ends: RoceEnds) -> bytes:
    return roce_frames(CONTENT, ends, 0xC123)[0].tobytes()


@pytest.mark.parametrize("ends", SCAPY)
def test_the_invariant_crc_is_that_of_scapy(ends):
    assert frame(ends)[-FCS - 4 : -FCS].hex() == SCAPY[ends]


def test_the_invariant_crc_of_version_1_is_that_of_an_infiniband_packet_with_a_grh():
    """Annex A16: eight bytes of ones instead of the LRH, which all vary in a packet with a GRH (IBA 7.8.1)."""
    grh_to_payload = frame(V1)[14 : -FCS - 4]
    lrh = LRH.pack(lnh=int(LNH.GRH), slid=5, dlid=6, pkt_len=9).tobytes()
    assert frame(V1)[-FCS - 4 : -FCS] == icrc(lrh + grh_to_payload)


def test_wireshark_dissects_them(tmp_path, stock):
    stock("tshark")
    file = PcapFile(tmp_path / "x.pcap")
    for ends in (IPV4, LINK_LOCAL, V1):
        file.write(roce_frames(CONTENT, ends, 0xC123), 10**18, ethernet=True)
    file.close()
    fields = ("_ws.col.Protocol", "eth.fcs.status", "eth.src", "ip.checksum.status", "udp.srcport", "ip.src")
    fields += ("ipv6.src", "infiniband.grh.sgid", "infiniband.bth.destqp", "infiniband.bth.psn", "_ws.malformed")
    words = ["tshark", "-r", str(tmp_path / "x.pcap"), "-o", "eth.check_fcs:TRUE", "-o", "ip.check_checksum:TRUE"]
    done = subprocess.run(
        [*words, "-T", "fields", *(w for f in fields for w in ("-e", f))], capture_output=True, text=True
    )
    mac, port = "02:00:00:00:00:1e", str(0xC123)
    assert [line.split("\t") for line in done.stdout.splitlines()] == [
        ["RRoCE", "1", mac, "1", port, "127.64.0.31", "", "", "0x123456", "7", ""],
        ["RRoCE", "1", mac, "", port, "", "fe80::ff:fe00:1e", "", "0x123456", "7", ""],
        ["RoCE", "", mac, "", "", "", "", "fe80::ff:fe00:1e", "0x123456", "7", ""],
    ]


def test_a_port_has_one_mac_in_all_its_gids():
    assert {mac_of_gid(roce_gid(1234, index)) for index in range(4)} == {mac_of(1234)}
    assert mac_of_gid(mapped(10 << 24 | 1)) == bytes(6)


def test_the_source_port_depends_on_both_queue_pairs_and_is_dynamic():
    """The kernel's function is symmetric in the two, so both directions of a connection take one path."""
    ports = {udp_source_port(17, qp) for qp in range(100, 200)}
    assert len(ports) > 90 and min(ports) >= 0xC000 and max(ports) <= 0xFFFF
    assert udp_source_port(17, 100) == udp_source_port(100, 17)
