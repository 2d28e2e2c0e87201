"""Stock programs read counters, congestion control and vendor attributes of our agents: what they print is compared
with what stands in the columns."""

import os
import re
import time
from pathlib import Path

import numpy as np
import pytest

from softib.fabric.power_up import advertise_fec
from softib.iba.smp import PortInfo
from tests.agents.lab import OPTIONAL, counters_of, fields, place, program, tool

from .ibsim_stand_in import PRELOAD, StandIn
from .smps import line

pytestmark = pytest.mark.stock
BY_NAME = {s.__name__: s for s in OPTIONAL}
OPTIONS = {
    "-X": "PortXmitDataSL",
    "--rcvsl": "PortRcvDataSL",
    "-D": "PortXmitDiscardDetails",
    "-E": "PortRcvErrorDetails",
    "--oprcvcounters": "PortOpRcvCounters",
    "--flowctlcounters": "PortFlowCtlCounters",
    "--vloppackets": "PortVLOpPackets",
    "--vlopdata": "PortVLOpData",
    "--vlxmitflowctlerrors": "PortVLXmitFlowCtlUpdateErrors",
    "--vlxmitcounters": "PortVLXmitWaitCounters",
    "--swportvlcong": "SwPortVLCongestion",
    "--rcvcc": "PortRcvConCtrl",
    "--slrcvfecn": "PortSLRcvFECN",
    "--slrcvbecn": "PortSLRcvBECN",
    "--xmitcc": "PortXmitConCtrl",
    "--vlxmittimecc": "PortVLXmitTimeCong",
    "-T": "PortExtendedSpeedsCounters",
}
SWITCH = "2"
"""LID of the second switch; the client sits on the first host, so port 1 of that switch carries nothing."""


def serve(monkeypatch, folder, **kw):
    if not Path(PRELOAD).is_file():
        pytest.skip("libumad2sim.so (ibsim-utils) is not installed")
    monkeypatch.chdir(folder)
    f, s, h = line(3, **kw)
    server = StandIn(f, f"softib-gmp-{os.getpid()}-{time.monotonic_ns()}")
    program(f, server.plane, s, h)
    server.start()
    return f, s, h, server


@pytest.fixture
def lab(tmp_path, monkeypatch):
    f, s, h, server = serve(monkeypatch, tmp_path)
    yield f, s, h, server.environment("h0")
    server.stop()


def numbers(text):
    """Values of the lines behind PortSelect and CounterSelect, in their order."""
    return [
        int(v, 0) for k, v in re.findall(r"^(\w+):\.*(\w+)$", text, re.M) if k not in ("PortSelect", "CounterSelect")
    ]


@pytest.mark.parametrize(("option", "name"), OPTIONS.items(), ids=list(OPTIONS))
def test_perfquery_shows_what_the_columns_hold(lab, stock, option, name):
    f, s, _h, env = lab
    row, struct = int(f.port(s[1], 1)), BY_NAME[name]
    counters = counters_of(struct)
    want = [(n * 7 + 1) % x.mask + 1 if x.bits == 2 else n * 7 + 1 for n, (x, _) in enumerate(counters)]
    for value, (x, i) in zip(want, counters, strict=True):
        place(f, x.name)[row, i] = value
    said = tool(env, stock("perfquery"), option, SWITCH, "1")
    shown = numbers(said)
    # What RS-FEC counts is shown only when PortInfoExtended says that it is active.
    want = want[: len(shown)] if option == "-T" else want
    assert shown == want and len(want) >= 1, said
    tool(env, stock("perfquery"), "-R", option, SWITCH, "1")
    assert not any(place(f, x.name)[row, i] for x, i in counters)


def test_perfquery_shows_rsfec_where_it_is_active(tmp_path, monkeypatch, stock):
    f, s, _h, server = serve(monkeypatch, tmp_path, speed="HDR")
    advertise_fec(f)
    row = int(f.port(s[1], 1))
    f.lane_counters["fec_correctable_block_ctr"][row, :4] = [3, 4, 5, 6]
    f.lane_counters["port_fec_corrected_symbol_ctr"][row] = 99
    said = tool(server.environment("h0"), stock("perfquery"), "-T", SWITCH, "1")
    shown = fields(said)
    assert shown["FECCorrectableSymbolCtrLane2"] == "5" and shown["PortFECCorrectedSymbolCtr"] == "99", said
    said = fields(tool(server.environment("h0"), stock("smpquery"), "portinfoextended", SWITCH, "1"))
    assert said["FECModeActive"] == "2" and int(said["EDRFECModeSupported"], 16) == 7
    server.stop()


def test_perfquery_samples_control(lab, stock):
    _f, _s, _h, env = lab
    shown = fields(tool(env, stock("perfquery"), "-c", SWITCH, "1"))
    assert shown["PortSelect"] == "1" and shown["SampleMechanisms"] == "0" and int(shown["SampleStatus"], 16) == 0
    assert int(shown["CounterWidth"], 0) == 4


def test_ibqueryerrors_and_extended_counters_stay_within_what_the_client_receives(lab, stock):
    f, s, _h, env = lab
    f.counters["symbol_error_counter"][int(f.port(s[1], 1))] = 5
    shown = fields(tool(env, stock("perfquery"), "-x", SWITCH, "1"))
    assert "PortXmitData" in shown and "SymbolErrorCounter" not in shown
    assert fields(tool(env, stock("perfquery"), SWITCH, "1"))["SymbolErrorCounter"] == "5"


def test_perfquery_over_all_ports(lab, stock):
    f, s, _h, env = lab
    rows = [int(f.port(s[1], p)) for p in range(1, 9)]
    f.counters["symbol_error_counter"][rows] = np.arange(8)
    shown = fields(tool(env, stock("perfquery"), "-a", SWITCH))
    assert shown["PortSelect"] == "255" and shown["SymbolErrorCounter"] == "28"
    said = tool(env, stock("perfquery"), "-l", SWITCH, "2-4")
    assert re.findall(r"^SymbolErrorCounter:\.+(\d+)$", said, re.M) == ["1", "2", "3"]
    assert fields(tool(env, stock("perfquery"), "-r", SWITCH, "4"))["SymbolErrorCounter"] == "3"
    assert f.counters["symbol_error_counter"][rows].tolist() == [0, 1, 2, 0, 4, 5, 6, 7]
    tool(env, stock("perfquery"), "-R", "-a", SWITCH)
    assert not f.counters["symbol_error_counter"][rows].any()


def test_alias_guids_and_mkeys_by_smpquery(lab, stock):
    f, s, h, env = lab
    row = int(f.port(h[1], 1))
    f.guids[int(f.guid_base[row]) + 3] = 0x1234
    said = tool(env, stock("smpquery"), "guidinfo", "12")
    assert re.findall(r"0x[0-9a-f]{16}", said)[3] == "0x0000000000001234"
    port0 = f.port_info[int(f.port(s[1], 0))]
    PortInfo.mkey.set(port0, 0xABC)
    PortInfo.mkey_protect.set(port0, 2)
    assert "LinearFdbTop" not in tool(env, stock("smpquery"), "switchinfo", SWITCH, check=False)
    assert "LinearFdbTop" in fields(tool(env, stock("smpquery"), "-y", "0xabc", "switchinfo", SWITCH))


def test_mads_move_the_counters_that_perfquery_shows(lab, stock):
    f, s, _h, env = lab
    before = int(f.counters["port_rcv_pkts"][int(f.port(s[1], 8))])
    shown = fields(tool(env, stock("perfquery"), SWITCH, "8"))
    # ClassPortInfo, then the PortCounters request itself; the answer carries what was before it.
    assert int(shown["PortRcvPkts"]) in (before + 1, before + 2)
    assert int(shown["PortRcvData"]) == 72 * int(shown["PortRcvPkts"])


def test_ibccconfig_writes_and_ibccquery_reads(lab, stock):
    f, s, h, env = lab
    c, q = stock("ibccconfig"), stock("ibccquery")
    ask = lambda *words: fields(tool(env, q, *words))
    assert ask("CP", SWITCH)["ClassVersion"] == "2"
    assert ask("CI", SWITCH)["ControlTableCap"] == "0" and ask("CI", "12")["ControlTableCap"] == "2"
    tool(env, c, "SwitchCongestionSetting", SWITCH, "0x1f", "0x1e", "0x6", "0xf", "8", "3", "1:5", "77")
    got = ask("SwitchCongestionSetting", SWITCH)
    assert int(got["Threshold"], 16) == 0xF and got["Packet_Size"] == "8" and got["Marking_Rate"] == "77"
    assert got["Victim_Mask"].endswith("1e") and int(got["CS_ReturnDelay"], 16) == 1 << 14 | 5
    assert f.cc_switch_setting[s[1]].any() and not f.cc_switch_setting[s[0]].any()
    tool(env, c, "SwitchPortCongestionSetting", SWITCH, "7", "1", "0", "9", "2", "500")
    got = ask("SwitchPortCongestionSetting", SWITCH, "7")
    assert got["Valid"] == "1" and int(got["Threshold"], 16) == 9 and got["Cong_Parm_Marking_Rate"] == "500"
    assert np.flatnonzero(f.cc_port_setting.any(1)).tolist() == [int(f.port(s[1], 7))]
    tool(env, c, "CACongestionSetting", "12", "0", "0x6", "150", "1", "2", "3")
    said = tool(env, q, "CACongestionSetting", "12")
    assert re.findall(r"CCTI_Timer:\.+(\d+)", said) == ["0", "150", "150"] + 13 * ["0"]
    assert re.findall(r"CCTI_Min:\.+(\d+)", said) == ["0", "3", "3"] + 13 * ["0"]
    entries = [f"{i % 4}:{i * 3}" for i in range(64)]
    tool(env, c, "CongestionControlTable", "12", "63", "0", *entries)
    said = tool(env, q, "CongestionControlTable", "12")
    shown = zip(re.findall(r"CCT_Shift:\.+(\d+)", said), re.findall(r"CCT_Multiplier:\.+(\d+)", said), strict=True)
    # The stock client loses the MAD's last 32 octets; the table ends before them.
    assert [f"{a}:{b}" for a, b in shown] == entries
    assert "LogType:.........................1" in tool(env, q, "CongestionLog", SWITCH)
    assert "LogType:.........................2" in tool(env, q, "CongestionLog", "12")
    assert "Timestamp" in ask("Timestamp", SWITCH)
    tool(env, c, "CongestionKeyInfo", "12", "0xabc", "1", "0", "0")
    row = int(f.port(h[1], 1))
    assert int.from_bytes(bytes(f.cc_key_info[row, :8]), "big") == 0xABC
    assert int(ask("CongestionKeyInfo", "12")["CC_Key"], 16) == 0
    assert int(fields(tool(env, q, "-c", "0xabc", "CongestionKeyInfo", "12"))["CC_Key"], 16) == 0xABC
    before = f.cc_table.copy()
    tool(env, c, "CongestionControlTable", "12", "0", "0", check=False)
    # It got no answer, so it tried three times.
    assert (f.cc_table == before).all() and fields(tool(env, q, "CK", "12"))["CC_KeyViolations"] == "3"


def test_vendstat_reads_what_a_device_is(lab, stock):
    f, s, _h, env = lab
    said = tool(env, stock("vendstat"), "-N", SWITCH)
    assert f"hw_dev_id:   {int(f.device_id[s[1]]):#06x}" in said
    assert "fw_version:  00.01.00" in said and "fw_psid:     'SOFTIB'" in said and "sw_version:  00.01.00" in said
    assert "0 counter groups" in tool(env, stock("vendstat"), "-i", SWITCH, "1")
    assert "Unsupported device ID" in tool(env, stock("vendstat"), "-w", SWITCH, check=False)


def test_vendstat_reads_xmit_wait_of_infiniscale_iii(tmp_path, monkeypatch, stock):
    f, s, _h, server = serve(monkeypatch, tmp_path, device_id=47396)
    f.counters["port_xmit_wait"][int(f.port(s[1], 7))] = 0x777
    said = tool(server.environment("h0"), stock("vendstat"), "-w", SWITCH)
    assert said.split("\n")[0] == "Port 7: PortXmitWait 0x777" and len(said.strip().split("\n")) == 1
    server.stop()


def test_opensm_congestion_control(tmp_path, monkeypatch, stock):
    """OpenSM's congestion manager writes its settings, and only them: ibsim takes them for P_Key and SL2VL tables."""
    f, _s, h, server = serve(monkeypatch, tmp_path)
    pkeys, sl2vl = f.pkeys.copy(), f.sl2vl.copy()
    conf = tmp_path / "osm.conf"
    conf.write_text(
        "congestion_control TRUE\ncc_sw_cong_setting_control_map 0x1f\ncc_sw_cong_setting_threshold 0x7\n"
        "cc_sw_cong_setting_marking_rate 0x55\ncc_ca_cong_setting_control_map 0x3\ncc_ca_cong_setting_ccti_timer 0 150\n"
        "cc_ca_cong_setting_ccti_increase 0 2\ncc_cct 0:0,0:1,0:2,1:3\n"
    )
    env = {**server.environment("h0", sm=True), "OSM_CACHE_DIR": str(tmp_path), "OSM_TMP_DIR": str(tmp_path)}
    tool(env, stock("opensm"), "-o", "-F", str(conf), "-f", str(tmp_path / "osm.log"))
    server.stop()
    log = (tmp_path / "osm.log").read_text()
    assert "SUBNET UP" in log and not re.findall(r"ERR C1\w\w.*", log)
    assert (f.cc_switch_setting[:, 68] == 0x70).all(), "threshold of every switch"
    cas = f.port(h, 1)
    assert (f.cc_ca_setting[cas, 4:7] == [0, 150, 2]).all() and not f.cc_ca_setting[cas, 12:].any()
    assert (f.cc_table[cas, :14].view(">u2") == [3, 0, 0, 1, 2, 1 << 14 | 3, 0]).all()
    assert (f.pkeys[f.pkey_base[cas]] == pkeys[f.pkey_base[cas]]).all() and (f.sl2vl == sl2vl).all()
    assert (PortInfo.port_state.get(f.port_info[f.linked]) == 4).all()
