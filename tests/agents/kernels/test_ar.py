"""Adaptive routing tables of switches (layouts of NVIDIA's OpenSM; what is softib's own is said in softib.iba.vendor.ar)."""

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.iba.vendor import ar
from tests.agents.smps import GET, SET, ask, line

QUANTUM, SWITCH_X = 0xD2F0, 0xC738
FREE, STATIC = ar.FREE << 6, ar.STATIC << 6


@pytest.fixture
def lab():
    f, _, h = line(2, device_id=QUANTUM)
    return f, AgentPlane(f), int(f.port(h[0], 1))


def talk(lab, attr, method=GET, mod=0, data=None, path=(1,)):
    _f, plane, port = lab
    status, got = ask(plane, port, attr=attr, method=method, mod=mod, path=path, data=data)
    return status, got[:64]


def ports_mask(*ports):
    return np.frombuffer(sum(1 << p for p in ports).to_bytes(32, "big"), np.uint8)


def test_a_set_of_ar_info_keeps_what_is_settable_and_no_capability(lab):
    f = lab[0]
    status, got = talk(lab, 0xFF20)
    assert status == 0 and not f.ar_info.any()
    can = ar.ARInfo.unpack(got)
    assert (can["group_cap"], can["ar_version_cap"], can["by_sl_cap"], can["ar_enabled"]) == (ar.AR_GROUPS, 1, 1, 0)
    wanted = ar.ARInfo.pack(
        ar_enabled=1,
        by_sl_en=1,
        enable_by_sl_mask=0xFFF0,
        group_top=7,
        fr_enabled=1,
        fr_supported=1,
        group_cap=1,
        ageing_time_value=30,
        by_transport_disable=ar.UD,
    )
    status, got = talk(lab, 0xFF20, SET, data=wanted)
    now = ar.ARInfo.unpack(got)
    assert status == 0 and now == ar.ARInfo.unpack(talk(lab, 0xFF20)[1])
    assert {k for k in now if now[k] != can[k]} == {
        "ar_enabled",
        "fr_enabled",
        "by_sl_en",
        "enable_by_sl_mask",
        "group_top",
        "ageing_time_value",
        "by_transport_disable",
    }
    assert ar.ARInfo.enable_by_sl_mask.get(f.ar_info).tolist() == [0xFFF0, 0], "the other switch is as it was"


@pytest.mark.parametrize("bad", [{"group_top": ar.AR_GROUPS}, {"sub_grps_active": 1}])
def test_what_a_switch_has_not_is_refused_whole(lab, bad):
    assert talk(lab, 0xFF20, SET, data=ar.ARInfo.pack(ar_enabled=1, **bad))[0] == 0x1C and not lab[0].ar_info.any()


def test_groups_two_a_block(lab):
    f = lab[0]
    both = np.concatenate([ports_mask(1, 7), ports_mask(8)])
    assert talk(lab, 0xFF21, SET, mod=3, data=both)[0] == 0
    assert f.ar_group[0, 6:8].tolist() == [[1 << 1 | 1 << 7, 0, 0, 0], [1 << 8, 0, 0, 0]]
    assert np.count_nonzero(f.ar_group) == 2 and (talk(lab, 0xFF21, mod=3)[1] == both).all()
    for wrong in (ports_mask(0), ports_mask(9), ports_mask(200)):
        refused = talk(lab, 0xFF21, SET, mod=3, data=np.concatenate([ports_mask(2), wrong]))
        assert refused[0] == 0x1C and np.count_nonzero(f.ar_group) == 2, "no such port"
    assert talk(lab, 0xFF21, mod=ar.AR_GROUPS // 2)[0] == talk(lab, 0xFF21, mod=1 << 24)[0] == 0x1C


def test_the_words_of_a_group_are_ports_0_to_255():
    from softib.fabric.builder import FabricBuilder

    b = FabricBuilder("wide", lft_cap=64)
    s, h = b.nodes(1, 2, 254, device_id=QUANTUM), b.nodes(1, 1, 1)
    b.links(s, 1, h, 1)
    f = b.build()
    plane = AgentPlane(f)
    ports = [1, 63, 64, 129, 254]
    data = np.concatenate([np.zeros(32, np.uint8), ports_mask(*ports)])
    assert ask(plane, int(f.port(h[0], 1)), attr=0xFF21, method=SET, path=(1,), data=data)[0] == 0
    assert [p for p in range(256) if int(f.ar_group[0, 1, p // 64]) >> p % 64 & 1] == ports


def test_a_group_is_copied_over_ranges(lab):
    f = lab[0]
    talk(lab, 0xFF21, SET, mod=1, data=np.concatenate([ports_mask(5), np.zeros(32, np.uint8)]))
    ranges = np.zeros((16, 2), ">u2")
    ranges[0], ranges[1] = (12, 10), (40, 40)
    assert talk(lab, 0xFFBD, SET, mod=2, data=ranges.view(np.uint8).ravel())[0] == 0
    assert np.flatnonzero(f.ar_group[0].any(axis=1)).tolist() == [2, 10, 11, 12, 40]
    ranges[1] = 3, 4
    assert talk(lab, 0xFFBD, SET, mod=2, data=ranges.view(np.uint8).ravel())[0] == 0x1C
    assert talk(lab, 0xFFBD)[0] == 0x0C, "there is nothing to read"


def test_sixteen_lids_a_block_and_their_ports_in_both_tables(lab):
    f = lab[0]
    block = np.zeros((16, 4), np.uint8)
    block[:, 0], block[:, 1], block[:, 3] = FREE, np.arange(16), 9
    block[5] = STATIC, 255, 0, 0
    assert talk(lab, 0xFF23, SET, mod=2, data=block.ravel())[0] == 0
    assert f.lft[0, 32:48].tolist() == [*range(5), 255, *range(6, 16)] and (f.lft[0, :32] == 255).all()
    assert set((f.ar_lft[0, 32:48] >> ar.STATE_SHIFT).tolist()) == {ar.FREE, ar.STATIC}
    assert (f.ar_lft[0, 32:48] & ar.GROUP_MASK).tolist() == [9] * 5 + [0] + [9] * 10
    assert (talk(lab, 0xFF23, mod=2)[1].reshape(16, 4) == block).all()
    block[3, 0] = ar.HASH << 6
    before = f.ar_lft.copy()
    assert talk(lab, 0xFF23, SET, mod=2, data=block.ravel())[0] == 0x1C and (f.ar_lft == before).all()
    assert talk(lab, 0xFF23, mod=f.sizes.lft_cap // 16)[0] == talk(lab, 0xFF23, mod=1 << 24)[0] == 0x1C


@pytest.mark.parametrize("device", [SWITCH_X, 0x1234])
def test_other_switches_and_adapters_have_no_such_attribute(device):
    f, _, h = line(2, device_id=device)
    lab = f, AgentPlane(f), int(f.port(h[0], 1))
    for attr in (0xFF20, 0xFF21, 0xFF23):
        assert talk(lab, attr)[0] == talk(lab, attr, path=())[0] == 0x0C
    status, got = talk(lab, 0xFF17, mod=4)
    assert status == 0 and not ar.CapabilityMaskSMP.is_adaptive_routing_rev1_supported.get(got)


def test_general_info_tells_who_can(lab):
    assert ar.CapabilityMaskSMP.unpack(talk(lab, 0xFF17, mod=4)[1])["is_adaptive_routing_rev1_supported"] == 1
    assert talk(lab, 0xFF17, mod=4)[1][:4].tolist() == [0, 0, 2, 4], (
        "bits 9 and 2 of the first word, as mstflint numbers them"
    )
    assert talk(lab, 0xFF17)[0] == 0x1C
