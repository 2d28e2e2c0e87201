"""Layouts of virtual ports: bytes written by hand from the offsets that ibis prints (dword, bits from the right)."""

import numpy as np
import pytest

from softib.iba.constants import SmpAttr
from softib.iba.vendor import vports

STRUCTURES = [
    vports.VirtualizationInfo,
    vports.VPortInfo,
    vports.VNodeInfo,
    vports.VPortState,
    vports.VPortGUIDInfo,
    vports.VPortPKeyTable,
]


def payload(*words):
    """64 octets from 32-bit words, first to last."""
    return b"".join(w.to_bytes(4, "big") for w in words).ljust(64, b"\0")


def test_virtualization_info():
    raw = payload(127 << 16 | 5, 1 << 31 | 1 << 29 | 2 << 8 | 9)
    v = vports.VirtualizationInfo.unpack(raw)
    assert (v["vport_cap"], v["vport_index_top"]) == (127, 5)
    assert (v["virtualization_enable"], v["client_reregister"], v["vport_state_change"]) == (1, 0, 1)
    assert (v["virtualization_revision"], v["capability_mask"]) == (2, 9)


def test_vport_info():
    raw = payload(4 << 28 | 1 << 26 | 8 << 16 | 3, 7 << 16 | 6, 0x1234 << 16 | 2, 0xA1, 0xB2, 0xC3, 0xD4)
    v = vports.VPortInfo.unpack(raw)
    assert (v["vport_state"], v["client_reregister"], v["lid_required"], v["guid_cap"], v["capability_mask"]) == (
        4,
        0,
        1,
        8,
        3,
    )
    assert (v["pkey_violations"], v["qkey_violations"], v["vport_lid"], v["lid_by_vport_index"]) == (7, 6, 0x1234, 2)
    assert (v["vport_guid"], v["vport_profile"]) == (0xA1_0000_00B2, 0xC3_0000_00D4)


def test_vnode_info():
    v = vports.VNodeInfo.unpack(payload(128 << 16 | 1 << 8 | 2, 0xA1, 0xB2))
    assert (v["partition_cap"], v["local_port_num"], v["num_ports"], v["vnode_guid"]) == (128, 1, 2, 0xA1_0000_00B2)


def test_first_vport_state_is_in_the_upper_half_of_the_first_octet():
    states = vports.VPortState.unpack(b"\x42" + bytes(62) + b"\x13")["vport_state"]
    assert [int(states[i]) for i in (0, 1, 126, 127)] == [4, 2, 1, 3]
    assert len(states) == vports.VPORT_STATES


@pytest.mark.parametrize("struct", STRUCTURES, ids=lambda c: c.__name__)
def test_random_octets_survive_unpack_and_pack(struct):
    octets = np.random.default_rng(7).integers(0, 256, (64, 64), dtype=np.uint8)
    assert (struct.pack(**struct.unpack(octets)) == octets).all()


@pytest.mark.parametrize("struct", STRUCTURES, ids=lambda c: c.__name__)
def test_attribute_ids(struct):
    assert struct.attr in set(SmpAttr)
