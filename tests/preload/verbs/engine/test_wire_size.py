"""Packets and words of a message. Oracle: packets built header by header from the declarations of IBA chapter 9."""

import numpy as np
import pytest

from softib.iba.headers import AETH, BTH, DETH, GRH, LRH, RETH, ImmDt
from tests.preload.verbs.fabric_library import SOURCES, library

ICRC, XRCETH, ATOMIC_ETH, ATOMIC_ACK_ETH, IETH, FETH = 4, 4, 28, 8, 4, 4
"""Octets of what iba/headers.py does not declare: IBA 9.3.2 (as XRCETH, annex A14), 9.3.4, 9.5.3, 9.3.7, annex A19."""
GLOBAL, UD, XRC = 1, 2, 4
NAMES = (
    "SEND",
    "SEND_IMM",
    "SEND_INV",
    "WRITE",
    "WRITE_IMM",
    "READ_REQUEST",
    "READ_RESPONSE",
    "ATOMIC",
    "ATOMIC_RESPONSE",
    "ACK",
    "ATOMIC_WRITE",
    "FLUSH",
)
REQUESTS = set(NAMES) - {"READ_RESPONSE", "ATOMIC_RESPONSE", "ACK"}
FIRST = {"WRITE": RETH.size, "WRITE_IMM": RETH.size, "READ_RESPONSE": AETH.size}
LAST = {"SEND_IMM": ImmDt.size, "SEND_INV": IETH, "WRITE_IMM": ImmDt.size, "READ_RESPONSE": AETH.size}
SINGLE = {
    "READ_REQUEST": (RETH.size, 0),
    "ATOMIC": (ATOMIC_ETH, 0),
    "ATOMIC_RESPONSE": (AETH.size + ATOMIC_ACK_ETH, 0),
    "ACK": (AETH.size, 0),
    "ATOMIC_WRITE": (RETH.size, 8),
    "FLUSH": (RETH.size + FETH, 0),
}


def packets(name, flags, payload, mtu):
    """Octets of each packet from LRH to ICRC, one by one."""
    each = LRH.size + BTH.size + ICRC
    each += GRH.size if flags & GLOBAL else 0
    each += DETH.size if flags & UD else 0
    each += XRCETH if flags & XRC and name in REQUESTS else 0
    if name in SINGLE:
        extension, octets = SINGLE[name]
        return [each + extension + octets]
    cuts = [min(mtu, payload - at) for at in range(0, payload, mtu)] or [0]
    sizes = []
    for i, octets in enumerate(cuts):
        extension, only = 0, len(cuts) == 1
        if i == 0:
            extension += FIRST.get(name, 0)
        if i == len(cuts) - 1 and not (only and name == "READ_RESPONSE"):
            extension += LAST.get(name, 0)
        sizes.append(each + extension + -(-octets // 4) * 4)
    return sizes


def test_the_messages_are_in_this_order():
    text = (SOURCES / "wire_size.h").read_text()
    body = text[text.index("enum sv_message {") : text.index("SV_MESSAGES")]
    assert tuple(w.strip(",").removeprefix("SV_MSG_") for w in body.split() if w.startswith("SV_MSG_")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_dwords_of_every_message(name):
    lib, rng = library(), np.random.default_rng(7)
    sizes = [0, 1, 3, 4, 5, 255, 256, 257, 4095, 4096, 4097, 8192, *rng.integers(0, 1 << 20, 40).tolist()]
    for mtu in (256, 512, 1024, 2048, 4096):
        for flags in range(8):
            for payload in sizes:
                got = lib.sv_wire_size_of(NAMES.index(name), flags, payload, mtu)
                want = packets(name, flags, payload, mtu)
                assert (got.packets, got.dwords * 4) == (len(want), sum(want)), (mtu, flags, payload)


def test_published_sizes():
    """The figures that the requirement names: payload + 24, + 16 on FIRST and ONLY, an ACK 28; a gigabyte at once."""
    lib = library()
    assert lib.sv_wire_size_of(NAMES.index("WRITE"), 0, 64, 4096).dwords * 4 == 64 + 24 + 16
    two = lib.sv_wire_size_of(NAMES.index("WRITE"), 0, 8192, 4096)
    assert (two.packets, two.dwords * 4) == (2, 8192 + 2 * 24 + 16)
    assert lib.sv_wire_size_of(NAMES.index("ACK"), 0, 0, 4096).dwords * 4 == 28
    big = lib.sv_wire_size_of(NAMES.index("WRITE"), 0, 1 << 40, 256)
    assert (big.packets, big.dwords * 4) == (1 << 32, (1 << 40) + 24 * (1 << 32) + 16)
