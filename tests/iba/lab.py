"""What tests of this package share."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET

import numpy as np

from softib.iba.crc import VCRC_SIZE
from softib.iba.crc_kernels import vcrcs
from softib.iba.mad_packets import mad_packets
from softib.iba.pcap import FILE_HEADER, pcap_records


def mad_packet(
    mad, dlid: int, slid: int, qp: int, *, src_qp: int | None = None, sl: int = 0, pkey: int = 0xFFFF, psn: int = 0
) -> bytes:
    """``mad`` (256 bytes) from LID ``slid`` to QP ``qp`` at ``dlid``: LRH to VCRC."""
    rows = np.frombuffer(bytes(mad), np.uint8).reshape(1, -1)
    return mad_packets(
        rows, slid, dlid, sl=sl, pkey=pkey, sqp=qp if src_qp is None else src_qp, dqp=qp, first_psn=psn
    ).tobytes()


def theirs(mad, buf, number, bits):
    raw = buf.ctypes.data
    return mad.mad_get_field64(raw, 0, number) if bits == 64 else mad.mad_get_field(raw, 0, number)


def dissect(stock, tmp_path, packets):
    """A dictionary of field name → list of values (as integers where it is a number) for each packet."""
    path = tmp_path / "mads.pcap"
    rows = np.frombuffer(b"".join(packets), np.uint8).reshape(len(packets), -1)
    path.write_bytes(FILE_HEADER + pcap_records(rows, np.arange(len(rows)) * 1000).tobytes())
    run = subprocess.run([stock("tshark"), "-r", str(path), "-T", "pdml"], capture_output=True, text=True, timeout=240)
    root = ET.fromstring(run.stdout)
    out = []
    for packet in root.iter("packet"):
        fields: dict[str, list] = {}
        for f in packet.iter("field"):
            fields.setdefault(f.get("name"), []).append(f.get("show"))
        assert not any("malformed" in (p.get("name") or "") for p in packet.iter("proto")), "malformed packet"
        out.append(fields)
    assert len(out) == len(packets)
    return out


def number(text):
    if text in ("True", "False"):
        return int(text == "True")
    return int(text, 0) if ":" not in text else int(text.replace(":", ""), 16)


def vcrc(packet: bytes) -> bytes:
    """The two bytes of the VCRC behind ``packet`` (LRH up to and with the ICRC; IBA 7.8.2)."""
    row = np.frombuffer(bytearray(packet + bytes(VCRC_SIZE)), np.uint8).reshape(1, -1)
    vcrcs(row)
    return row[0, -VCRC_SIZE:].tobytes()
