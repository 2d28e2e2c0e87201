"""Traps that devices raise, as MADs that the SM's port receives (IBA 14.2.5.1)."""

import numpy as np
import pytest

from softib.errors import InputError
from softib.iba import notice
from softib.iba.constants import CapMask
from softib.iba.smp import PortInfo
from tests.agents.client_plane import ClientPlane
from tests.agents.lab import program, sent_where_it_can

from .smps import SET, ask, line

S = 10**12


@pytest.fixture
def lab():
    f, s, h = line(3)
    plane = ClientPlane(f)
    sm = program(f, plane, s, h)
    PortInfo.master_sm_lid.set(f.port_info, int(f.lid[sm]))
    plane.take_notices()
    return f, plane, sm, s, h


def sent(plane):
    """What the SM's port gets: (trap, issuer, details) of every notice that waits."""
    out = []
    for n in plane.take_notices():
        batch, port = plane.trap(n)
        plane.send(batch, port)
        (delivery,) = plane.take_deliveries()
        got = notice.Notice.unpack(delivery.batch.mad[0, 64:128].tobytes())
        details = notice.DETAILS_BY_TRAP[got["trap_number"]].unpack(bytes(got["data_details"]))
        assert delivery.batch.mad[0, 3] == 5 and got["is_generic"] == 1
        out.append((got["trap_number"], got["issuer_lid"], got["type"], details))
    return out


def test_thresholds_raise_129_130_131(lab):
    f, plane, _sm, s, h = lab
    plane.count(int(f.port(s[1], 7)), "local_link_integrity_errors", 2, 5)
    plane.count(int(f.port(h[1], 1)), "excessive_buffer_overrun_errors")
    plane.watchdog(int(f.port(s[2], 3)))
    plane.count(int(f.port(s[1], 7)), "symbol_error_counter", 7)
    got = sent(plane)
    assert [(t, lid, kind, d["lid"], d["portnum"]) for t, lid, kind, d in got] == [
        (129, 2, 1, 2, 7),
        (130, 12, 1, 12, 1),
        (131, 3, 1, 3, 3),
    ]
    assert f.counters["local_link_integrity_errors"][int(f.port(s[1], 7))] == 2


def test_link_failures_count_at_both_ends_and_raise_128(lab):
    f, plane, _sm, s, _h = lab
    near = int(f.port(s[1], 7))
    plane.set_link(near, False)
    assert f.counters["link_downed_counter"][[near, f.port_peer[near]]].tolist() == [1, 1]
    plane.set_link(near, False)
    assert f.counters["link_downed_counter"].sum() == 2, "what is down does not go down"
    assert {(t, d["lid"]) for t, _, _, d in sent_where_it_can(plane)} >= {(128, 2)}


def test_local_changes_raise_144(lab):
    f, plane, _sm, s, h = lab
    plane.describe(int(s[1]), "renamed", 9)
    plane.set_is_sm(int(f.port(h[2], 1)), True)
    plane.set_is_sm(int(f.port(h[2], 1)), True)
    (t1, l1, k1, d1), (t2, l2, k2, d2) = sent(plane)
    assert (t1, l1, k1, d1["lid"], d1["other_local_changes"], d1["change_flags"]) == (144, 2, 4, 2, 1, 1)
    assert (t2, l2, k2, d2["other_local_changes"], d2["change_flags"]) == (144, 13, 4, 0, 0)
    assert d2["cap_mask"] == int(PortInfo.cap_mask.get(f.port_info[int(f.port(h[2], 1))])) and d2["cap_mask"] & 2
    assert f.node_name(int(s[1])) == "renamed"


def test_a_set_of_the_node_description_raises_144_once(lab):
    f, plane, sm, s, _h = lab
    data = np.frombuffer(b"by MAD".ljust(64, b"\0"), np.uint8)
    for _ in range(2):
        assert ask(plane, sm, method=SET, attr=0x10, path=[1, 7], data=data)[0] == 0
    assert [(t, lid, d["change_flags"]) for t, lid, _, d in sent(plane)] == [(144, 2, 1)]
    assert f.node_name(int(s[1])) == "by MAD"


def test_system_image_guid_and_security(lab):
    f, plane, _sm, s, h = lab
    plane.set_sys_guid(int(h[1]), 0x1234)
    plane.security(int(f.port(h[1], 1)), 257, lid1=11, lid2=12, key=0x8001, sl=3, qp1=5, qp2=6)
    plane.security(int(f.port(h[1], 1)), 258, lid1=11, lid2=12, key=0x1000, qp2=6)
    plane.security(int(f.port(s[1], 7)), 259, lid1=11, pkey=0x7001, switch_lid=2, portnum=7)
    got = sent(plane)
    assert [(t, lid, kind) for t, lid, kind, _ in got] == [(145, 12, 4), (257, 12, 2), (258, 12, 2), (259, 2, 2)]
    assert got[0][3]["sys_guid"] == 0x1234 and got[0][3]["lid"] == 12
    assert (got[1][3]["lid1"], got[1][3]["key"], got[1][3]["qp2"]) == (11, 0x8001, 6) and got[3][3]["pkey"] == 0x7001
    info = f.port_info[int(f.port(h[1], 1))]
    assert (int(PortInfo.pkey_violations.get(info)), int(PortInfo.qkey_violations.get(info))) == (1, 1)
    with pytest.raises(InputError, match="no security trap 128"):
        plane.security(1, 128)


def lock(f, port, protect=0, lease=0):
    PortInfo.mkey.set(f.port_info[port], 0xABC)
    PortInfo.mkey_protect.set(f.port_info[port], protect)
    PortInfo.mkey_lease_period.set(f.port_info[port], lease)


def test_a_wrong_mkey_raises_256(lab):
    f, plane, sm, s, h = lab
    lock(f, int(f.port(s[1], 0)))
    other = int(f.port(h[2], 1))
    assert ask(plane, other, method=SET, attr=0x12, path=[1, 8], mkey=0x77) is None
    assert ask(plane, other, klass=1, method=SET, attr=0x15, mod=7, dlid=2, mkey=0x78) is None
    assert ask(plane, sm, attr=0x12, path=[1, 7]) is not None, "protection 0 lets everybody read"
    (t, lid, kind, d), (_, _, _, by_lid) = sent(plane)
    assert (t, lid, kind) == (256, 2, 2)
    assert (d["method"], d["attr_id"], d["attr_mod"], d["mkey"]) == (2, 0x12, 0, 0x77)
    assert (d["lid"], d["dr_slid"], d["dr_notice"], d["dr_hop_count"], d["dr_path_truncated"]) == (
        0xFFFF,
        0xFFFF,
        1,
        2,
        0,
    )
    assert d["dr_return_path"][:3] == [1, 7, 0]
    assert (by_lid["lid"], by_lid["dr_notice"], by_lid["attr_mod"], by_lid["mkey"]) == (13, 0, 7, 0x78)


def test_the_mkey_lease_runs_out(lab):
    f, plane, sm, s, h = lab
    port0, other = int(f.port(s[1], 0)), int(f.port(h[2], 1))
    lock(f, port0, protect=2, lease=15)
    read = lambda now, mkey=0: ask(plane, other, attr=0x12, path=[1, 8], mkey=mkey, now=now)
    assert read(1 * S) is None and read(15 * S) is None
    # The owner shows up within the lease: it stops.
    assert ask(plane, sm, attr=0x12, path=[1, 7], mkey=0xABC, now=15 * S)
    assert read(20 * S) is None and read(34 * S) is None and read(35 * S) is not None
    assert int(PortInfo.mkey_violations.get(f.port_info[port0])) == 4


def test_who_cannot_trap_does_not(lab):
    f, plane, _sm, s, _h = lab
    info = f.port_info[int(f.port(s[1], 0))]
    PortInfo.cap_mask.set(info, int(PortInfo.cap_mask.get(info)) & ~int(CapMask.OTHER_LOCAL_CHANGES))
    plane.describe(int(s[1]), "silent")
    PortInfo.cap_mask.set(info, 0)
    plane.count(int(f.port(s[1], 7)), "local_link_integrity_errors")
    assert plane.take_notices() == []


def test_a_full_queue_loses_and_says_so(lab):
    f, plane, _sm, s, _h = lab
    for _ in range(len(plane.tables.notices) + 3):
        plane.watchdog(int(f.port(s[1], 7)))
    assert plane.tables.notice_count.tolist() == [len(plane.tables.notices), 3]
    assert len(plane.take_notices()) == len(plane.tables.notices)
