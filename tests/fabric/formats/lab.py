"""What tests of this package share."""

from __future__ import annotations

import csv
import random
import re
from pathlib import Path

import pytest

from softib.errors import SoftibError
from softib.fabric.formats import registry
from softib.fabric.formats.base import ReadResult
from tests.conftest import find_shared_data

FILE = "sequoia-ndr-ibdiagnet/data__ibdiagnet2__ibdiagnet2"


def rows(path: Path, section: str) -> list[dict[str, str]]:
    """A section as Python's csv module reads it."""
    lines = path.read_text().split("\n")
    first = lines.index(f"START_{section}") + 1
    return list(csv.DictReader(lines[first : lines.index(f"END_{section}")]))


DATA = find_shared_data()

SMALL = [
    "jabl-tests/3.topo",
    "hk-creditloop/ibnetdiscover_manually_created.txt",
    "ibsim-net/net.2sw2path4hca",
    "qnib-net/netlist.clos5",
    "superbench-logs/ib_traffic_topo_aware_ibnetdiscover.txt",
    "ufm-small-lab/small_topo_file",
    "treydock-fixtures/collectors__fixtures__ibnetdiscover__test.out",
]


def real(name: str) -> bytes:
    if DATA is None:
        pytest.skip("the real files are absent (make real-data fetches them)")
    return (DATA / name).read_bytes()


def read_or_refuse(path: Path, content: bytes, text: bytes | None = None) -> ReadResult | None:
    """The law: every problem names file, line and reason; nothing but SoftibError is raised, in one line.

    ``text`` is what a compressed ``content`` unpacks into at most: its lines are counted."""
    path.write_bytes(content)
    content = content if text is None else text
    try:
        result = registry.read(path)
    except SoftibError as error:
        assert str(path) in str(error) and "\n" not in str(error) and str(error).isprintable() and len(str(error)) < 600
        return None
    lines = content.count(b"\n") + content.count(b"\r") + 1
    for p in result.problems:
        assert p.file == str(path) and 1 <= p.line <= lines and p.reason, p
        assert p.reason.isprintable() and len(p.reason) < 500, p
    f = result.fabric
    assert (f.port_peer[f.port_peer[f.linked]] == f.linked.nonzero()[0]).all()
    return result


def mutated(raw: bytes, rng: random.Random, edits: int) -> bytes:
    """``raw`` with bytes flipped, numbers swapped, pieces cut, doubled and moved."""
    data = bytearray(raw)
    for _ in range(edits):
        at = rng.randrange(max(len(data), 1))
        kind = rng.randrange(7)
        if kind == 0:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            data[at : at + rng.randrange(200)] = b""
        elif kind == 2:
            piece = data[at : at + rng.randrange(400)]
            to = rng.randrange(max(len(data), 1))
            data[to:to] = piece
        elif kind == 3:
            data[at:at] = rng.choice(
                [b'"', b"[", b"]", b"(", b")", b"#", b"\n", b"\r", b"\0", b"\xff\xfe", "²٣".encode(), b",", b"{", b"}"]
            )
        else:
            m = list(re.finditer(rb"\d+", bytes(data[at : at + 200])))
            if m:
                number = rng.choice(
                    [
                        b"0",
                        b"1",
                        b"255",
                        b"65535",
                        b"99999999999",
                        b"-1",
                        b"0x10",
                        b"1_0",
                        str(rng.randrange(300)).encode(),
                    ]
                )
                data[at + m[0].start() : at + m[0].end()] = number
    return bytes(data)


SW, CA = "0002c90300000010", "0002c90300000020"

PAIR = f"""\
vendid=0x2c9
devid=0xd2f0
sysimgguid=0x2c90300000011
switchguid=0x2c90300000010(2c90300000010)
Switch\t41 "S-{SW}"\t\t# "MF0;leaf-1:MQM8700/U1" enhanced port 0 lid 7 lmc 0
[3]\t"H-{CA}"[2](2c90300000099) \t\t# "node-1 mlx5_0" lid 9 2xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x2c90300000021
caguid=0x2c90300000020
Ca\t2 "H-{CA}"\t\t# "node-1 mlx5_0"
[2](2c90300000099) \t"S-{SW}"[3]\t\t# lid 9 lmc 1 "MF0;leaf-1:MQM8700/U1" lid 7 2xHDR
"""

PORTS = """\
CA   134  1 0x7cfe9003003b4bde 4x EDR - SW  1719 10 0x7cfe9003009ce5b0 ( 'o1 HCA-1' - 'leaf - 1' )
SW  1719 10 0x7cfe9003009ce5b0 4x EDR - CA   134  1 0x7cfe9003003b4bde ( 'leaf - 1' - 'o1 HCA-1' )
SW  1719  1 0x7cfe9003009ce5b0 4x EDR - SW  1516  7 0x7cfe900300b07320 ( 'leaf - 1' - 'spine' )
SW  1719 37 0x7cfe9003009ce5b0 4x ???                                    'leaf - 1'
"""
