"""Congestion control: blocks, maps, the CC_Key and its lease, the log and the clock (IBA annex A10)."""

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.power_cycle import power_on
from softib.iba import cc
from tests.agents.lab import program
from tests.agents.smps import GET, SET, ask, line

S = 10**12
SWITCH, CA = 2, 12


@pytest.fixture
def lab():
    f, s, h = line(3)
    plane = AgentPlane(f)
    sm = program(f, plane, s, h)
    return f, plane, sm, s, h


def talk(lab, struct, dlid, method=GET, mod=0, now=0, key=0, **fields):
    _f, plane, sm, *_ = lab
    data = struct.pack(**fields)[:192]
    got = ask(
        plane,
        sm,
        klass=0x21,
        version=2,
        attr=struct.attr,
        dlid=dlid,
        method=method,
        mod=mod,
        now=now,
        data=data,
        cc_key=key,
    )
    return got if got is None else (got[0], struct.unpack(got[1][: struct.size].tobytes()))


def test_switches_and_cas_have_what_is_theirs(lab):
    for struct, switch, ca in (
        (cc.SwitchCongestionSetting, 0, 0x0C),
        (cc.SwitchPortCongestionSetting, 0, 0x0C),
        (cc.CACongestionSetting, 0x0C, 0),
        (cc.CongestionControlTable, 0x0C, 0),
    ):
        assert talk(lab, struct, SWITCH)[0] == switch and talk(lab, struct, CA)[0] == ca, struct
    for struct in (cc.CongestionInfo, cc.TimeStamp):
        assert talk(lab, struct, SWITCH)[0] == talk(lab, struct, CA)[0] == 0
        assert talk(lab, struct, SWITCH, SET)[0] == 0x0C, "read-only"


@pytest.mark.parametrize("bit", range(5))
def test_the_control_map_chooses_what_a_switch_takes_over(lab, bit):
    parts = [
        {"victim_mask"},
        {"credit_mask"},
        {"threshold", "packet_size"},
        {"cs_threshold", "cs_return_delay"},
        {"marking_rate"},
    ]
    everything = {
        "victim_mask": [7] * 32,
        "credit_mask": [9] * 32,
        "threshold": 5,
        "packet_size": 6,
        "cs_threshold": 3,
        "cs_return_delay": 4,
        "marking_rate": 2,
    }
    status, got = talk(lab, cc.SwitchCongestionSetting, SWITCH, SET, control_map=1 << bit, **everything)
    assert status == 0 and {n for n in everything if np.any(got[n])} == parts[bit]
    assert all(got[n] == everything[n] for n in parts[bit]) and got["control_map"] == 1 << bit


def test_the_control_map_chooses_the_sls_of_a_ca(lab):
    entry = lambda t: list(cc.CACongestionEntry.pack(ccti_timer=t, ccti_min=1))
    for t, sls in ((150, 0x8001), (7, 0x0002)):
        entries = np.array(16 * [entry(t)]).ravel()
        assert talk(lab, cc.CACongestionSetting, CA, SET, control_map=sls, entries=entries)[0] == 0
    got = np.array(talk(lab, cc.CACongestionSetting, CA)[1]["entries"], np.uint8).reshape(16, 8)
    assert cc.CACongestionEntry.ccti_timer.get(got).tolist() == [150, 7] + 13 * [0] + [150]


def test_blocks_of_the_table(lab):
    f, _plane, _sm, _s, h = lab
    for block in (0, 1):
        entries = [block * 64 + i for i in range(64)]
        assert talk(lab, cc.CongestionControlTable, CA, SET, mod=block, ccti_limit=127, entry=entries)[0] == 0
    assert [talk(lab, cc.CongestionControlTable, CA, mod=b)[1]["entry"][1] for b in (0, 1)] == [1, 65]
    assert talk(lab, cc.CongestionControlTable, CA, mod=2)[0] == 0x1C
    before = f.cc_table.copy()
    assert talk(lab, cc.CongestionControlTable, CA, SET, ccti_limit=128)[0] == 0x1C and (f.cc_table == before).all()
    assert f.cc_table[int(f.port(h[1], 1)), 4:].view(">u2").tolist() == list(range(128))
    assert talk(lab, cc.CongestionInfo, CA)[1]["control_table_cap"] == 2


def test_switch_ports_by_block_of_48(lab):
    f, _plane, _sm, s, _h = lab
    elements = np.zeros((48, 4), np.uint8)
    elements[:, 0] = np.arange(48)
    assert talk(lab, cc.SwitchPortCongestionSetting, SWITCH, SET, elements=elements.ravel())[0] == 0
    rows = [int(f.port(s[1], p)) for p in range(9)]
    assert f.cc_port_setting[rows, 0].tolist() == list(range(9)) and np.count_nonzero(f.cc_port_setting) == 8
    assert talk(lab, cc.SwitchPortCongestionSetting, SWITCH, mod=1)[0] == 0x1C


def test_the_cc_key_guards_sets(lab):
    key = {"cc_key": 0xABC, "cc_key_lease_period": 15, "cc_key_violations": 1}
    assert talk(lab, cc.CongestionKeyInfo, CA, SET, **key)[0] == 0
    assert talk(lab, cc.CACongestionSetting, CA, SET, control_map=1) is None, "a wrong key gets no answer"
    assert talk(lab, cc.CACongestionSetting, CA, SET, key=0xABC, control_map=1)[0] == 0
    assert talk(lab, cc.CACongestionSetting, CA)[0] == 0, "everybody may read"
    got = talk(lab, cc.CongestionKeyInfo, CA)[1]
    assert got["cc_key"] == 0xABC and got["cc_key_violations"] == 1
    assert talk(lab, cc.CongestionKeyInfo, CA, SET, key=0xABC, **{**key, "cc_key_violations": 0})[0] == 0
    assert talk(lab, cc.CongestionKeyInfo, CA)[1]["cc_key_violations"] == 0, "a Set of 0 clears"


def test_the_protect_bit_hides_the_key_until_the_lease_ends(lab):
    hidden = {"cc_key": 0xABC, "cc_key_protect_bit": 1, "cc_key_lease_period": 10}
    assert talk(lab, cc.CongestionKeyInfo, CA, SET, **hidden)[0] == 0
    read = lambda now, key=0: talk(lab, cc.CongestionKeyInfo, CA, now=now, key=key)[1]["cc_key"]
    assert read(100 * S) == 0 and read(100 * S, 0xABC) == 0xABC
    assert talk(lab, cc.CACongestionSetting, CA, SET, now=200 * S) is None
    assert read(209 * S) == 0 and read(210 * S) == 0xABC, "ten seconds after the first violation"


def test_log_and_clock(lab):
    f, plane, sm, s, _h = lab
    event = cc.CongestionLogEventSwitch.pack(slid=11, dlid=13, sl=2, timestamp=99)
    f.cc_log[int(f.port(s[1], 0))] = cc.CongestionLogSwitch.pack(
        log_events_counter=1, events=np.concatenate([event, np.zeros(168, np.uint8)])
    )
    now = 777 * 1_024_000
    got = ask(plane, sm, klass=0x21, version=2, attr=0x13, dlid=SWITCH, now=now, whole=True)
    log = cc.CongestionLogSwitch.unpack(bytes(got[32:256]))
    assert (log["log_type"], log["log_events_counter"], log["current_time_stamp"]) == (1, 1, 777)
    assert bytes(log["events"][:12]) == bytes(event)
    got = ask(plane, sm, klass=0x21, version=2, attr=0x13, dlid=CA, now=now, whole=True)
    log = cc.CongestionLogCA.unpack(bytes(got[32:256]))
    assert (log["log_type"], log["current_time_stamp"]) == (2, 777)
    # 1.024 us a tick, 32 bits.
    assert talk(lab, cc.TimeStamp, CA, now=5 * S)[1]["timestamp"] == 5 * 10**9 // 1024
    assert talk(lab, cc.TimeStamp, CA, now=(2**32 + 3) * 1_024_000)[1]["timestamp"] == 3


def test_power_on_forgets_settings(lab):
    f, *_ = lab
    talk(lab, cc.CongestionKeyInfo, CA, SET, cc_key=5)
    talk(lab, cc.SwitchCongestionSetting, SWITCH, SET, control_map=31, marking_rate=4)
    power_on(f)
    assert not f.cc_key_info.any() and not f.cc_switch_setting.any()
