"""The congestion manager: every device holds what options say, as stock OpenSM's own congestion control writes it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.errors import InputError
from softib.fabric.power_cycle import forget
from softib.fabric.topologies.registry import generate
from softib.iba import cc
from softib.live.internal_sm.settings import ManagerSettings
from softib.sm.config import SmConfig, config_of
from softib.sm.options.file import read_options
from softib.sm.subnet_manager import SubnetManager
from tests.live.internal_sm.runs import one_pass
from tests.live.serving import PRELOAD, Serving
from tests.sm.wire import settle

SETTINGS = """congestion_control TRUE
cc_key 0x0
cc_sw_cong_setting_control_map 0x1f
cc_sw_cong_setting_victim_mask 0x1ffe
cc_sw_cong_setting_credit_mask 0x6
cc_sw_cong_setting_threshold 0x7
cc_sw_cong_setting_packet_size 9
cc_sw_cong_setting_credit_starvation_threshold 0x3
cc_sw_cong_setting_credit_starvation_return_delay 2:77
cc_sw_cong_setting_marking_rate 0x1055
cc_ca_cong_setting_port_control 0x1
cc_ca_cong_setting_control_map 0x8003
cc_ca_cong_setting_ccti_timer 0 150
cc_ca_cong_setting_ccti_timer 15 0x1234
cc_ca_cong_setting_ccti_increase 0 2
cc_ca_cong_setting_trigger_threshold 1 6
cc_ca_cong_setting_ccti_min 1 4
"""
FILES = {
    "none": "congestion_control TRUE\n",
    "four": SETTINGS + "cc_cct 0:0,0:1,0:2,1:3\n",
    "one": SETTINGS + "cc_cct 1:5\n",
    "two blocks": SETTINGS + "cc_cct " + ",".join(f"{i % 4}:{i * 100}" for i in range(100)) + "\n",
}
COLUMNS = ("cc_switch_setting", "cc_ca_setting", "cc_table", "cc_port_setting", "cc_key_info")


def fabric():
    f = generate("fat-tree", radix=4, levels=2)
    f.node_type[f.cas[1]] = 3  # a router: OpenSM leaves it alone
    return f


def managed(f, text):
    sm = SubnetManager(config_of(read_options(text).options))
    plane = AgentPlane(f)
    settle(sm, plane, int(f.port(f.cas[0], 1)))
    return sm, plane


def sets(sm):
    return {k.split()[-1]: n for k, n in sm.report.mads.items() if "CONG_CTRL" in k}


@pytest.mark.stock
@pytest.mark.skipif(not PRELOAD.is_file(), reason="libumad2sim.so (ibsim-utils) is absent")
@pytest.mark.parametrize("name", FILES)
def test_our_tables_are_those_of_stock_opensm(name, stock, tmp_path):
    theirs, ours = fabric(), fabric()
    (tmp_path / "conf").write_text(FILES[name])
    serving = Serving(theirs)
    try:
        done = one_pass(
            stock("opensm"),
            serving.environment(theirs.node_name(int(theirs.cas[0]))),
            tmp_path / "osm",
            "-F",
            str(tmp_path / "conf"),
        )
    finally:
        serving.stop()
    assert done.up
    sm, _ = managed(ours, FILES[name])
    assert sm.report.problems == []
    for column in COLUMNS:
        assert (getattr(ours, column) == getattr(theirs, column)).all(), column
    assert name == "none" or ours.cc_table.any() == (name != "one")


def test_a_second_sweep_sends_nothing_and_a_switch_that_was_reset_gets_all_again():
    f = fabric()
    sm, plane = managed(f, FILES["two blocks"])
    cas = len(f.cas)
    assert sets(sm) == {
        "SwitchCongestionSetting": f.sizes.switches,
        "CACongestionSetting": cas,
        "CongestionControlTable": 2 * cas,
    }
    port = int(f.port(f.cas[0], 1))
    sm.request_sweep()
    settle(sm, plane, port)
    assert sets(sm) == {}
    spine = int(f.switch_node[-1])
    forget(f, spine)
    assert not f.cc_switch_setting[-1].any()
    for p in f.ports_of(spine):
        if f.port_peer[p] >= 0:
            plane.set_link(p, False)
            plane.set_link(p, True)
    sm.request_sweep()
    settle(sm, plane, port)
    assert sets(sm) == {"SwitchCongestionSetting": 1} and f.cc_switch_setting[-1].any()


def test_a_device_with_a_key_of_its_own_is_reported_and_tried_again():
    f = fabric()
    other = int(f.port(f.cas[2], 1))
    cc.CongestionKeyInfo.cc_key.set(f.cc_key_info, 0xABC, [other])
    sm, plane = managed(f, FILES["four"])
    assert not f.cc_table[other].any() and f.cc_table[f.port(f.cas[3], 1)].any()
    assert any(f.node_name(int(f.cas[2])) in p and "CONG_CTRL" in p for p in sm.report.problems)
    cc.CongestionKeyInfo.cc_key.set(f.cc_key_info, 0, [other])
    sm.request_sweep()
    settle(sm, plane, int(f.port(f.cas[0], 1)))
    assert sm.report.problems == [] and sets(sm) == {"CACongestionSetting": 1, "CongestionControlTable": 1}
    keyed = fabric()
    cc.CongestionKeyInfo.cc_key.set(keyed.cc_key_info, np.full(keyed.sizes.ports, 0xABC, np.uint64))
    sm, _ = managed(keyed, FILES["four"].replace("cc_key 0x0", "cc_key 0xabc"))
    assert sm.report.problems == [] and keyed.cc_table[other].any(), "who shows the key may write"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cc_cct 4:1", "shifts of 0 to 3"),
        ("cc_cct " + ",".join(129 * ["0:1"]), "up to 128"),
        ("cc_sw_cong_setting_threshold 16", "0 to 15"),
        ("cc_ca_cong_setting_ccti_timer 16 1", "SL and value"),
        ("cc_ca_cong_setting_ccti_min 3", "not a valid value"),
        ("cc_max_outstanding_mads 0", "1 to 65535"),
        ("cc_sw_cong_setting_victim_mask -1", "not a valid value"),
    ],
)
def test_what_cannot_be_is_said_with_its_line_and_the_default_holds(text, says):
    found, notes = read_options(f"congestion_control TRUE\n{text}\n", "f")
    assert not found.get(text.split()[0]) and any(re.search(f"^f:2: {text.split()[0]} .*{says}", n) for n in notes)


def test_a_fabric_file_says_the_same_and_nothing_without_effect():
    section = {
        "congestion_control": True,
        "cc_cct": "0:0,0:1",
        "cc_ca_cong_setting_ccti_timer": "0 150, 15 7",
        "cc_ca_cong_setting_control_map": 3,
    }
    config = ManagerSettings(fallback=section).read().congestion
    entries = np.array(cc.CACongestionSetting.unpack(config.ca)["entries"], np.uint8).reshape(16, 8)
    assert cc.CACongestionEntry.ccti_timer.get(entries).tolist() == [150, *14 * [0], 7]
    with pytest.raises(InputError, match=r"sm.cc_cct: has no effect without congestion_control: true"):
        ManagerSettings(fallback={"cc_cct": "0:0"}).read()
    assert config_of({"congestion_control": False, "cc_key": 0}) == SmConfig()
