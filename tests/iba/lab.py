"""What tests of this package share."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET

from softib.iba.frames import pcap


def theirs(mad, buf, number, bits):
    raw = buf.ctypes.data
    return mad.mad_get_field64(raw, 0, number) if bits == 64 else mad.mad_get_field(raw, 0, number)


def dissect(stock, tmp_path, packets):
    """A dictionary of field name → list of values (as integers where it is a number) for each packet."""
    path = tmp_path / "mads.pcap"
    path.write_bytes(pcap((i * 10**6, p) for i, p in enumerate(packets)))
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
