"""Subnet management attributes: what a Set stores, what it refuses, what it changes beside."""

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.iba.smp import GUIDInfo, NodeDescription, PortInfo, SwitchInfo
from tests.agents.smps import SET, ask, changed, line, snapshot

BAD_FIELD, BAD_ATTRIBUTE, BAD_METHOD, BAD_VERSION = 0x1C, 0x0C, 0x08, 0x04
TO_SWITCH = [1]


@pytest.fixture
def lab():
    f, s, h = line(2)
    # At power-up every trained switch says so (PortStateChange); these tests start after a manager has cleared it.
    assert SwitchInfo.port_state_change.get(f.switch_info).tolist() == [1, 1]
    SwitchInfo.port_state_change.set(f.switch_info, 0)
    return f, AgentPlane(f), int(f.port(h[0], 1)), s, h


def set_port(plane, sm, number=7, path=TO_SWITCH, **fields):
    info = ask(plane, sm, attr=0x15, mod=number, path=path)[1][:64]
    PortInfo.port_state.set(info, 0)
    PortInfo.port_phys_state.set(info, 0)
    for name, value in fields.items():
        PortInfo.fields[name].set(info, value)
    return ask(plane, sm, method=SET, attr=0x15, mod=number, path=path, data=info)


# IBA 7.2.7: the answer of every state to every request; None = refused.
TRANSITIONS = {
    1: {0: 1, 1: 1, 2: None, 3: None, 4: None},
    2: {0: 2, 1: 2, 2: None, 3: 3, 4: None},  # DOWN trains back to INIT: there is a cable
    3: {0: 3, 1: 2, 2: None, 3: 3, 4: 4},
    4: {0: 4, 1: 2, 2: None, 3: None, 4: 4},
}


@pytest.mark.parametrize("state", TRANSITIONS)
@pytest.mark.parametrize("request_", range(16))
def test_every_state_and_every_request(lab, state, request_):
    f, plane, sm, s, _h = lab
    number = 5 if state == 1 else 7  # port 5 has no cable
    row = int(f.port(s[0], number))
    PortInfo.port_state.set(f.port_info[row : row + 1], state)
    before = snapshot(f)
    status, data = set_port(plane, sm, number, port_state=request_)
    wanted = TRANSITIONS[state].get(request_)
    if wanted is None:
        assert status == BAD_FIELD and changed(f, before) == []
    else:
        assert status == 0 and f.port_state[row] == wanted == PortInfo.port_state.get(data[:64])


def test_down_retrains_both_ends_and_the_switch_says_so(lab):
    f, plane, sm, s, _h = lab
    rows = [int(f.port(s[0], 7)), int(f.port(s[1], 8))]
    PortInfo.port_state.set(f.port_info, 4, rows)
    assert set_port(plane, sm, port_state=1)[0] == 0
    assert f.port_state[rows].tolist() == [2, 2]
    assert SwitchInfo.port_state_change.get(f.switch_info).tolist() == [1, 1]
    assert {(n.port, n.trap) for n in plane.take_notices()} == {(int(f.port(x, 0)), 128) for x in s}
    info = ask(plane, sm, attr=0x12, path=TO_SWITCH)[1][:64]
    assert ask(plane, sm, method=SET, attr=0x12, path=TO_SWITCH, data=info)[0] == 0
    assert SwitchInfo.port_state_change.get(f.switch_info).tolist() == [0, 1], "writing 1 clears, on that switch"


def test_arming_and_activating_raises_no_state_change(lab):
    f, plane, sm, _s, _h = lab
    for state in (3, 4):
        assert set_port(plane, sm, port_state=state)[0] == 0
    assert not SwitchInfo.port_state_change.get(f.switch_info).any() and plane.take_notices() == []


def test_a_disabled_port_cuts_the_link_until_it_polls_again(lab):
    f, plane, sm, s, _h = lab
    near, far = int(f.port(s[0], 7)), int(f.port(s[1], 8))
    assert set_port(plane, sm, port_state=1, port_phys_state=3)[0] == 0
    assert f.port_state[[near, far]].tolist() == [1, 1]
    assert PortInfo.port_phys_state.get(f.port_info[[near, far]]).tolist() == [3, 2]
    assert ask(plane, sm, path=[1, 7]) is None
    assert set_port(plane, sm, port_state=1)[0] == 0
    assert f.port_state[near] == 1, "down alone does not enable"
    assert set_port(plane, sm, port_state=1, port_phys_state=2)[0] == 0
    assert f.port_state[[near, far]].tolist() == [2, 2]
    assert ask(plane, sm, path=[1, 7])


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"lid": 0xC000}, 0),
        ({"master_sm_lid": 0xC000}, 0),
        ({"neighbor_mtu": 6}, 7),
        ({"operational_vls": 5}, 7),
        ({"link_width_enabled": 8}, 7),
        ({"link_speed_ext_enabled": 4}, 7),
        ({"port_phys_state": 5, "port_state": 1}, 7),
        ({"port_phys_state": 3, "port_state": 3}, 7),
        ({"link_down_default_state": 3}, 7),
    ],
)
def test_refused_requests_change_nothing(lab, fields, number):
    f, plane, sm, *_ = lab
    before = snapshot(f)
    assert set_port(plane, sm, number, **fields)[0] == BAD_FIELD
    assert changed(f, before) == []


def test_writable_fields_read_back_and_others_stay(lab):
    f, plane, sm, _s, h = lab
    end = {
        "mkey": 0,
        "gid_prefix": 0xFEC0000000000001,
        "lid": 77,
        "master_sm_lid": 3,
        "mkey_lease_period": 9,
        "mkey_protect": 2,
        "lmc": 2,
        "master_sm_sl": 4,
        "subnet_timeout": 11,
    }
    link = {
        "neighbor_mtu": 4,
        "vl_high_limit": 200,
        "vl_stall_count": 5,
        "hoq_life": 13,
        "operational_vls": 3,
        "local_phy_errors": 2,
        "overrun_errors": 1,
    }
    fixed = {
        "cap_mask": 0xFFFFFFFF,
        "diag_code": 0xFFFF,
        "link_width_supported": 0xFF,
        "link_width_active": 1,
        "link_speed_active": 1,
        "vl_cap": 5,
        "mtu_cap": 5,
        "guid_cap": 255,
        "resp_time_value": 1,
        "link_speed_ext_active": 8,
        "cap_mask2": 0xFFFF,
        "max_credit_hint": 5,
        "local_port_num": 99,
    }
    before = PortInfo.unpack(f.port_info[int(f.port(h[0], 1))].tobytes())
    status, data = set_port(plane, sm, 1, [], **end, **link, **fixed)
    assert status == 0
    after = PortInfo.unpack(data[:64].tobytes())
    assert {k: after[k] for k in (*end, *link)} == {**end, **link}
    assert {k: after[k] for k in fixed} == {k: before[k] for k in fixed}


def test_external_ports_keep_no_addresses(lab):
    f, plane, sm, s, _h = lab
    assert set_port(plane, sm, 7, lid=5, mkey=9, gid_prefix=1, lmc=1, vl_high_limit=3)[0] == 0
    info = PortInfo.unpack(f.port_info[int(f.port(s[0], 7))].tobytes())
    assert (info["lid"], info["mkey"], info["lmc"], info["vl_high_limit"]) == (0, 0, 0, 3)


def test_enabled_widths_and_speeds(lab):
    f, plane, sm, s, _h = lab
    row = int(f.port(s[0], 7))
    read = lambda: PortInfo.unpack(f.port_info[row].tobytes())
    first = read()
    assert set_port(plane, sm, link_width_enabled=0, link_speed_enabled=0, link_speed_ext_enabled=0)[0] == 0
    assert read() == first
    assert set_port(plane, sm, link_width_enabled=1, link_speed_enabled=1, link_speed_ext_enabled=30)[0] == 0
    assert (read()["link_width_enabled"], read()["link_speed_enabled"], read()["link_speed_ext_enabled"]) == (1, 1, 30)
    assert set_port(plane, sm, link_width_enabled=255, link_speed_enabled=15, link_speed_ext_enabled=31)[0] == 0
    assert read() == first


def test_a_link_trains_to_what_both_ends_enable(lab):
    f, plane, sm, s, _h = lab
    rows = [int(f.port(s[0], 7)), int(f.port(s[1], 8))]

    def active():
        info = f.port_info[rows]
        got = [
            x.get(info).tolist()
            for x in (PortInfo.link_width_active, PortInfo.link_speed_active, PortInfo.link_speed_ext_active)
        ]
        assert all(a == b for a, b in got), "both ends read the same"
        return tuple(a for a, _ in got)

    assert active() == (2, 4, 2)  # 4x EDR
    assert set_port(plane, sm, link_width_enabled=1, link_speed_ext_enabled=1)[0] == 0
    assert active() == (2, 4, 2), "an enabled width or speed takes effect when the link trains"
    assert set_port(plane, sm, port_state=1)[0] == 0
    assert active() == (1, 4, 1)  # 1x FDR
    assert set_port(plane, sm, link_speed_ext_enabled=30, link_speed_enabled=3, port_state=1)[0] == 0
    assert active() == (1, 2, 0)  # 1x DDR
    assert set_port(plane, sm, link_width_enabled=255, link_speed_ext_enabled=31, port_state=1)[0] == 0
    assert active() == (2, 4, 2)


def test_training_does_not_mend_a_bad_cable():
    f, s, h = line(2)
    rows = [int(f.port(s[0], 7)), int(f.port(s[1], 8))]
    PortInfo.link_width_active.set(f.port_info, 1, rows)
    PortInfo.link_speed_ext_active.set(f.port_info, 1, rows)
    plane = AgentPlane(f)
    assert set_port(plane, int(f.port(h[0], 1)), port_state=1)[0] == 0
    assert PortInfo.link_width_active.get(f.port_info[rows]).tolist() == [1, 1]
    assert PortInfo.link_speed_ext_active.get(f.port_info[rows]).tolist() == [1, 1]


def test_a_link_without_a_common_speed_stays_down(lab):
    f, plane, sm, s, _h = lab
    rows = [int(f.port(s[0], 7)), int(f.port(s[1], 8))]
    assert set_port(plane, sm, 8, path=[1, 7], link_speed_enabled=1, link_speed_ext_enabled=30)[0] == 0
    assert set_port(plane, sm, link_speed_enabled=2, link_speed_ext_enabled=30, port_state=1)[0] == 0
    assert f.port_state[rows].tolist() == [1, 1]


def test_hardware_takes_a_link_away_and_gives_it_back(lab):
    f, plane, sm, s, _h = lab
    rows = [int(f.port(s[0], 7)), int(f.port(s[1], 8))]
    plane.set_link(rows[1], False, 5)
    assert f.port_state[rows].tolist() == [1, 1] and ask(plane, sm, path=[1, 7]) is None
    assert [(n.now_ps, n.trap, n.detail) for n in plane.take_notices()] == [(5, 128, 8), (5, 128, 7)]
    plane.set_link(rows[0], True, 9)
    assert f.port_state[rows].tolist() == [2, 2] and ask(plane, sm, path=[1, 7])
    assert plane.take_notices() == [], "the bit is still set: no second trap"


def test_selected_port_must_exist_and_a_ca_sets_only_its_own(lab):
    _f, plane, sm, _s, _h = lab
    assert ask(plane, sm, attr=0x15, mod=9, path=TO_SWITCH)[0] == BAD_FIELD
    assert ask(plane, sm, attr=0x15, mod=2, path=[])[0] == BAD_FIELD
    assert ask(plane, sm, attr=0x15, mod=0x80000007, path=TO_SWITCH)[0] == 0, "bit 31: the SM knows extended speeds"


def test_status_of_what_is_not_there(lab):
    _f, plane, sm, _s, _h = lab
    assert ask(plane, sm, attr=0x99, path=[])[0] == BAD_ATTRIBUTE
    assert ask(plane, sm, attr=0x12, path=[])[0] == BAD_ATTRIBUTE, "SwitchInfo of a CA"
    assert ask(plane, sm, method=SET, attr=0x11, path=[])[0] == BAD_ATTRIBUTE, "NodeInfo is read-only"
    assert ask(plane, sm, method=0x12, path=[])[0] == BAD_METHOD
    assert ask(plane, sm, klass=4, attr=0x15, dlid=0) is None


def test_versions(lab):
    from tests.agents.smps import requests

    _f, plane, sm, _s, _h = lab
    batch = requests(1)
    batch.mad[0, 2] = 2
    assert plane.send(batch, sm).mad[0, 5] == BAD_VERSION
    batch.mad[0, 0] = 2
    assert len(plane.send(batch, sm)) == 0


def test_tables_by_block(lab):
    f, plane, sm, _s, _h = lab
    rng = np.random.default_rng(5)
    cap = int(SwitchInfo.linear_fdb_cap.get(f.switch_info[0]))
    cases = [
        (0x19, 0, f.lft[0, :64]),
        (0x19, cap // 64 - 1, f.lft[0, cap - 64 : cap]),
        (0x16, 7 << 16, None),
        (0x18, (1 << 16) | 7, None),
        (0x18, (3 << 16) | 7, None),
        (0x17, (8 << 8) | 7, None),
        (0x1B, 31, f.mft[0, 992:, 0]),
    ]
    for attr, mod, view in cases:
        data = rng.integers(0, 256, 64, dtype=np.uint8)
        status, said = ask(plane, sm, method=SET, attr=attr, mod=mod, path=TO_SWITCH, data=data)
        assert status == 0
        status, read = ask(plane, sm, attr=attr, mod=mod, path=TO_SWITCH)
        assert status == 0 and (read[:64] == said[:64]).all()
        held = {0x17: 8, 0x18: 16}.get(attr, 64)  # VLArb tables of 8 entries here
        assert (read[:held] == data[:held]).all() and not read[held:64].any()
        if view is not None:
            assert view.astype(view.dtype.newbyteorder(">")).tobytes() == data.tobytes()
    for attr, mod in (
        (0x19, cap // 64),
        (0x16, 1),
        (0x16, 9 << 16),
        (0x18, 0),
        (0x18, 5 << 16),
        (0x18, 2 << 16 | 7),
        (0x17, 9),
        (0x17, 9 << 8),
        (0x17, 0x30000),
        (0x1B, 32),
        (0x1B, 1 << 28),
        (0x14, 1),
    ):
        before = snapshot(f)
        assert ask(plane, sm, attr=attr, mod=mod, path=TO_SWITCH)[0] == BAD_FIELD, (hex(attr), hex(mod))
        assert changed(f, before) == []


def test_sl2vl_of_all_ports_at_once(lab):
    f, plane, sm, s, _h = lab
    rows = lambda sw, out: f.sl2vl[int(f.sl2vl_base[int(f.port(sw, out))]) :][:9]
    untouched = rows(s[1], 1).copy()
    a, b = np.arange(8, dtype=np.uint8), np.arange(8, dtype=np.uint8) + 100
    assert ask(plane, sm, method=SET, attr=0x17, mod=0x30000, path=TO_SWITCH, data=a)[0] == 0
    assert all((rows(s[0], out) == a).all() for out in range(1, 9))
    assert ask(plane, sm, method=SET, attr=0x17, mod=0x20003, path=TO_SWITCH, data=b)[0] == 0
    assert (rows(s[0], 3) == b).all() and (rows(s[0], 4) == a).all()
    assert ask(plane, sm, method=SET, attr=0x17, mod=0x10500, path=TO_SWITCH, data=b)[0] == 0
    assert all((rows(s[0], out)[5] == b).all() for out in range(1, 9)) and (rows(s[0], 4)[4] == a).all()
    assert (rows(s[1], 1) == untouched).all()


def test_guids_and_description(lab):
    f, plane, sm, s, _h = lab
    block = GUIDInfo.pack(guid=np.arange(1, 9, dtype=np.uint64))
    assert ask(plane, sm, method=SET, attr=0x14, path=[], data=block)[0] == 0
    read = GUIDInfo.guid.get(ask(plane, sm, attr=0x14, path=[])[1][:64])
    assert read[0] == f.port_guid[sm] and read[1:].tolist() == [2, 3, 4, 5, 6, 7, 8]
    name = NodeDescription.pack(node_description="renamed")
    assert ask(plane, sm, method=SET, attr=0x10, path=TO_SWITCH, data=name)[0] == 0
    assert f.node_name(int(s[0])) == "renamed"


# IBA 14.2.4.1: (protect bits, method) → answered with a wrong key? and is the key shown?
@pytest.mark.parametrize(
    ("protect", "get", "shown"), [(0, True, True), (1, True, False), (2, False, None), (3, False, None)]
)
def test_mkey_protection(lab, protect, get, shown):
    f, plane, sm, s, _h = lab
    key = 0xFEED
    assert set_port(plane, sm, 0, mkey=key, mkey_protect=protect)[0] == 0
    answer = ask(plane, sm, attr=0x15, path=TO_SWITCH, mkey=1)
    assert (answer is not None) == get
    if get:
        assert PortInfo.mkey.get(answer[1][:64]) == (key if shown else 0)
    assert ask(plane, sm, method=SET, attr=0x19, path=TO_SWITCH, mkey=1) is None
    row = int(f.port(s[0], 0))
    assert PortInfo.mkey_violations.get(f.port_info[row]) == 1 + (not get)
    right = ask(plane, sm, attr=0x15, path=TO_SWITCH, mkey=key)
    assert right[0] == 0 and PortInfo.mkey.get(right[1][:64]) == key


def test_mkey_lease_ends_the_protection(lab):
    from tests.agents.smps import requests

    _f, plane, sm, _s, _h = lab
    assert set_port(plane, sm, 0, mkey=5, mkey_protect=2, mkey_lease_period=3)[0] == 0
    wrong = requests(1, attr=0x15, path=TO_SWITCH, mkey=1)
    second = 10**12
    assert len(plane.send(wrong, sm, 10 * second)) == 0
    assert len(plane.send(wrong, sm, 12 * second)) == 0
    assert len(plane.send(requests(1, path=TO_SWITCH, mkey=5), sm, 12 * second)) == 1, "the owner stops the lease"
    assert len(plane.send(wrong, sm, 14 * second)) == 0
    assert len(plane.send(wrong, sm, 17 * second)) == 1


@pytest.mark.parametrize(
    ("lid", "lmc", "sm_lid", "status"),
    [
        (0, 0, 1, 0x1C),
        (0xC000, 0, 1, 0x1C),
        (0xFFFF, 0, 1, 0x1C),
        (0xBFFF, 0, 1, 0),
        (5, 0, 0, 0x1C),
        (5, 0, 0xC000, 0x1C),
        (0xBFFE, 1, 1, 0),
        (13, 2, 1, 0),
    ],
)
def test_a_lid_is_unicast(lid, lmc, sm_lid, status):
    """0 and multicast LIDs are refused once a port has one, as SMAs do; bits below the LMC do not count."""
    f, _s, h = line(2)
    plane, sm = AgentPlane(f), int(f.port(h[0], 1))
    set_ = lambda **fields: set_port(plane, sm, 1, [], **fields)
    assert set_(lid=0, master_sm_lid=0)[0] == 0, "what a port without a manager reads, written back"
    assert set_(lid=7, master_sm_lid=1)[0] == 0
    assert set_(lid=lid, lmc=lmc, master_sm_lid=sm_lid)[0] == status
    assert int(f.lid[sm]) == (7 if status else lid)
    if not status:
        base = lid >> lmc << lmc
        mine = [
            x for x in range(max(base - 3, 1), min(base + 12, 0xC000)) if ask(plane, sm, klass=1, attr=0x11, dlid=x)
        ]
        assert mine == list(range(base, base + (1 << lmc)))


# -- port 0 without a data path --


def test_a_base_port_0_ignores_what_it_does_not_have(lab):
    """MTU and VLs are unused on a base port 0 (IBA 14.2.5.6): one that reads MTUCap 0 and VLCap 0, as unmanaged Quantum-2
    switches do, takes its LID from a Set that carries both, and still reads 0 in them. Where it has them they bind."""
    f, plane, sm, s, _h = lab
    row = int(f.port(s[0], 0))
    asked = {"lid": 77, "master_sm_lid": 1, "neighbor_mtu": 1, "operational_vls": 1}
    for field in (PortInfo.mtu_cap, PortInfo.vl_cap, PortInfo.neighbor_mtu, PortInfo.operational_vls):
        field.set(f.port_info, 0, [row])
    status, data = set_port(plane, sm, 0, **asked)
    told = PortInfo.unpack(data[:64].tobytes())
    assert status == 0 and f.lid[row] == 77 and (told["neighbor_mtu"], told["operational_vls"]) == (0, 0)
    PortInfo.mtu_cap.set(f.port_info, 2, [row])
    assert set_port(plane, sm, 0, **(asked | {"neighbor_mtu": 3}))[0] == BAD_FIELD
    external = int(f.port(s[0], 7))
    PortInfo.mtu_cap.set(f.port_info, 0, [external])
    assert set_port(plane, sm, 7, neighbor_mtu=1)[0] == BAD_FIELD, "a port with packets has an MTU"


def test_a_mellanox_part_of_an_oem_answers_its_attribute(lab):
    """OpenSM asks ExtendedPortInfo by DeviceID alone; parts that nobody knows refuse it."""
    f, plane, sm, s, _h = lab
    for vendor, device, status in (
        (0x2C9, 0xD2F0, 0),
        (0x1708, 0xD2F0, 0),
        (0x1708, 0x7322, BAD_ATTRIBUTE),
        (0x2C9, 1, 0),
    ):
        f.vendor_id[s[0]], f.device_id[s[0]] = vendor, device
        assert ask(plane, sm, attr=0xFF90, mod=7, path=TO_SWITCH)[0] == status, (vendor, device)
