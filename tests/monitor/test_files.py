"""Files that others collected as observations: a real .db_csv and a later one made of it, real .pm and ibqueryerrors text. Skipped where the real files are absent."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

import softib
from softib.errors import InputError
from tests.conftest import find_shared_data

REAL = (find_shared_data() or Path("absent")) / "sequoia-ndr-ibdiagnet"
DB_CSV, PM = REAL / "data__ibdiagnet2__ibdiagnet2.db_csv", REAL / "data__ibdiagnet2__ibdiagnet2.pm"
real_files = pytest.mark.skipif(not DB_CSV.is_file(), reason="the real ibdiagnet files are not here")
STATED, LATER = "2025-03-31 23:43:18 UTC", "2025-03-31 23:53:18 UTC"


def later(text: str, column: str, guid: str, port: int, add: int) -> str:
    """The same dump ten minutes later, in which ``column`` of one port of PM_INFO grew."""
    lines = text.replace(STATED, LATER).split("\n")
    at = lines.index("START_PM_INFO")
    header = lines[at + 1].split(",")
    for i in range(at + 2, len(lines)):
        fields = lines[i].split(",")
        if fields[0] == guid and fields[2] == str(port):
            place = header.index(column)
            fields[place] = str(int(fields[place]) + add)
            lines[i] = ",".join(fields)
            return "\n".join(lines)
    raise AssertionError(guid)


@pytest.fixture
def pair(tmp_path):
    text = DB_CSV.read_text()
    first = tmp_path / "first.db_csv"
    first.write_text(text)
    second = tmp_path / "second.db_csv"
    second.write_text(later(text, "LinkDownedCounterExt", "0xb0cf0e0300d33fc0", 2, 3))
    return first, second


@real_files
def test_two_dumps_of_different_times(pair):
    seen = softib.observe(*reversed(pair)).observations  # their own times order them
    assert seen.intervals == 1 and (seen.seconds("link_downed_counter") == 600).all()
    assert seen.total("link_downed_counter").sum() == 3
    row = int(np.flatnonzero(seen.total("link_downed_counter"))[0])
    assert int(seen.ports.node_guid[row]) == 0xB0CF0E0300D33FC0 and seen.ports.portnum[row] == 2
    # 16-bit SymbolErrorCounters that stand at 65535 in the dump tell nothing.
    stuck = DB_CSV.read_text().split("START_PM_INFO")[1].split("END_PM_INFO")[0].count(",65535,")
    assert stuck and 0 < (~seen.known["symbol_error_counter"]).sum() <= stuck
    assert (seen.level["tick_symbols"][0] == 8).all()  # Tick 0x07 in PM_PORT_SAMPLES_CONTROL
    assert 20 < np.nanmedian(seen.level["temperature_c"]) < 90
    assert {"28.40.1000"} <= set(seen.ports.text["firmware"].tolist())
    assert (seen.ports.peer >= 0).all()


@real_files
def test_modules_of_cables(pair):
    """A made-up section in the words of --get_cable_info: the real file was written without it."""
    made = (
        "START_CABLE_INFO\nNodeGuid,PortGuid,PortNum,Vendor,PN,SN,Temperature\n"
        "0xb0cf0e0300d33fc0,0x0,2,Mellanox,MCP4Y10-N002,MT2233VS01234,48C\nEND_CABLE_INFO\n"
    )
    for path in pair:
        path.write_text(path.read_text().replace("START_INDEX_TABLE", made + "START_INDEX_TABLE"))
    seen = softib.observe(*pair).observations
    (row,) = np.flatnonzero(seen.ports.text["module_serial"] != "")
    texts = [seen.ports.text[name][row] for name in ("module_vendor", "module_part", "module_serial")]
    assert texts == ["Mellanox", "MCP4Y10-N002", "MT2233VS01234"]
    assert (
        seen.level["module_temperature_c"][0, row] == 48 and np.isfinite(seen.level["module_temperature_c"]).sum() == 1
    )


SPEEDS = [
    "SyncHeaderErrorCounter",
    "PortFECCorrectableBlockCounter",
    "PortFECUncorrectableBlockCounter",
    "PortFECCorrectedSymbolCounter",
    *(f"FECCorrectedSymbolCounterLane[{k}]" for k in range(4)),
    "FECUncorrectableBlockCounterLane0",
]


def with_speeds(text: str, guid: str, port: int, values: list[object]) -> str:
    """PM_INFO as ``--extended_speeds all`` writes it: zeros for all ports but one."""
    head, rest = text.split("START_PM_INFO\n")
    section, tail = rest.split("END_PM_INFO")
    lines = section.rstrip("\n").split("\n")
    lines[0] += "," + ",".join(SPEEDS)
    for i, line in enumerate(lines[1:], 1):
        f = line.split(",")
        lines[i] += "," + ",".join(map(str, values if f[0] == guid and f[2] == str(port) else [0] * len(SPEEDS)))
    return head + "START_PM_INFO\n" + "\n".join(lines) + "\nEND_PM_INFO" + tail


@real_files
def test_what_fec_does_is_read_judged_and_exported(pair):
    """Made-up columns under the names of public readers of such files: a link that mends 1.6e-4 of its bits in a minute and loses seven blocks, and what its lanes mended."""
    bad, port = "0xb0cf0e0300d33fc0", 2
    base = DB_CSV.read_text()
    pair[0].write_text(with_speeds(base, bad, port, [1, 10, 0, 0, 0, 0, 0, 0, "N/A"]))
    grown = [3, 4_000_000_000, 7, 4_000_000_000, 1_000_000_000, 1_000_000_000, 1_000_000_000, 1_000_000_000, "N/A"]
    pair[1].write_text(with_speeds(base.replace(STATED, "2025-03-31 23:44:18 UTC"), bad, port, grown))
    seen = softib.observe(*pair).observations
    (row,) = np.flatnonzero(seen.total("port_fec_corrected_symbol_ctr"))
    assert f"{int(seen.ports.node_guid[row]):#x}" == bad and seen.ports.portnum[row] == port
    assert (
        seen.total("port_fec_corrected_symbol_ctr")[row]
        == 4_000_000_000
        == seen.total("fec_correctable_block_ctr")[row]
    )
    assert (
        seen.total("port_fec_uncorrectable_block_ctr")[row] == 7 and seen.total("sync_header_error_counter")[row] == 2
    )
    assert not seen.known.get("fec_uncorrectable_block_ctr", np.zeros((1, len(seen.ports)), bool))[0, row]  # N/A
    lossy = [f for f in softib.diagnose(softib.observe(*pair)) if any(w.guid == int(bad, 16) for w in f.where[:1])]
    assert "link-pre-fec-errors" in {f.code for f in lossy if f.severity.name in ("WARNING", "ERROR")}, lossy
    text = softib.Exporter.text_of(*pair)
    assert f'softib_port_fec_corrected_symbols_total{{guid="{bad}",port="2"}} 4000000000' in text
    assert f'softib_port_fec_lane_corrected_total{{guid="{bad}",port="2",lane="3"}} 1000000000' in text
    assert "softib_port_raw_ber{" in text and "softib_port_observed_seconds{" in text
    pytest.importorskip("prometheus_client", reason="prometheus-client is not installed (the extra monitor)")
    from prometheus_client import parser

    families = {f.name for f in parser.text_string_to_metric_families(text)}
    assert "infiniband_switch_uplink_info" in families and len(families) > 60


@real_files
@pytest.mark.parametrize("value", ["-1", "99999999999999999999999", "18446744073709551615", "much", "", "4294967295"])
def test_hostile_fec_counters_tell_nothing(pair, value):
    """Below 0, beyond their field, no number, or at the largest value, where they stop."""
    base = DB_CSV.read_text()
    pair[0].write_text(with_speeds(base, "0xb0cf0e0300d33fc0", 2, [0] * len(SPEEDS)))
    pair[1].write_text(with_speeds(base.replace(STATED, LATER), "0xb0cf0e0300d33fc0", 2, [value] * len(SPEEDS)))
    seen = softib.observe(*pair).observations
    for name in ("port_fec_corrected_symbol_ctr", "fec_correctable_block_ctr", "port_fec_uncorrectable_block_ctr"):
        assert int(seen.total(name).max()) == 0, name


@real_files
def test_modules_of_a_file_are_exported(pair):
    made = (
        "START_CABLE_INFO\nNodeGuid,PortGuid,PortNum,Vendor,PN,SN,Temperature,SupplyVoltageReporting,RX1Power,TX1Bias,TX1Power,RXPowerLowThresh\n"
        "0xb0cf0e0300d33fc0,0x0,2,Mellanox,MMA4Z00-NS,MT2233VS01234,48C,3300.0 mV,-9.1 dBm,6.5 mA,-1.0 dBm,-8.0 dBm\nEND_CABLE_INFO\n"
        "START_PHY_DB16\nNodeGuid,PortGuid,PortNum," + ",".join(f"field{i}" for i in range(18)) + "\n"
        "0xb0cf0e0300d33fc0,0x0,2," + ",".join(["0"] * 12) + ",15,9,0,255,0,255\nEND_PHY_DB16\n"
    )
    pair[1].write_text(pair[1].read_text().replace("START_INDEX_TABLE", made + "START_INDEX_TABLE"))
    text = softib.Exporter.text_of(pair[1])
    label = 'guid="0xb0cf0e0300d33fc0",port="2"'
    for line in (
        f"softib_module_temperature_celsius{{{label}}} 48",
        f"softib_module_voltage_volts{{{label}}} 3.3",
        f"softib_module_transmit_bias_amperes{{{label}}} 0.0065",
        f"softib_module_receive_power_dbm{{{label}}} -9.1",
        f"softib_module_receive_power_low_alarm_dbm{{{label}}} -8",
        f"softib_port_raw_ber{{{label}}} 1.5e-08",
    ):
        name, value = line.rsplit(" ", 1)
        (told,) = [one for one in text.splitlines() if one.startswith(name)]
        assert float(told.rsplit(" ", 1)[1]) == pytest.approx(float(value), rel=0.01), told


@real_files
def test_a_date_that_is_none_leaves_the_time_of_the_file(pair):
    for path, day in zip(pair, (1_700_000_000, 1_700_000_600), strict=True):
        path.write_text(path.read_text().replace("2025-03-31", "2025-02-31"))
        os.utime(path, (day, day))
    assert (softib.observe(*pair).observations.seconds("link_downed_counter") == 600).all()


@real_files
def test_a_dump_of_another_fabric_is_one_line(pair, tmp_path):
    other = tmp_path / "other.db_csv"
    other.write_text(re.sub(r"0x(\w{8})0(\w{7})\b", r"0x\1f\2", DB_CSV.read_text().replace(STATED, LATER)))
    with pytest.raises(softib.InputError, match="of different fabrics") as error:
        softib.observe(pair[0], other)
    assert "\n" not in str(error.value)


@real_files
@pytest.mark.parametrize(
    ("again", "why"), [(True, "use two files of different times"), (False, "a second, later file")]
)
def test_one_reading_is_no_interval(pair, again, why):
    with pytest.raises(softib.InputError, match=why):
        softib.observe(*([pair[0], pair[0]] if again else [pair[0]]))


@real_files
def test_counters_alone_with_the_fabric_s_file(tmp_path):
    texts = tmp_path / "first.txt", tmp_path / "second.txt"
    for i, path in enumerate(texts):
        path.write_text(
            'Errors for "is-north-7-compute-12 mlx5_0"\n'
            f"   GUID 0xb0cf0e0300d33fc0 port 1: [LinkDownedCounter == {1 + i}] [PortXmitWait == {1000 + 70 * i}]\n"
        )
        os.utime(path, (1_700_000_000 + 60 * i,) * 2)
    seen = softib.observe(*texts, fabric=str(DB_CSV)).observations
    assert seen.total("link_downed_counter").sum() == 1 and seen.total("port_xmit_wait").sum() == 70
    assert seen.known["link_downed_counter"].sum() == 1 and seen.seconds("port_xmit_wait").max() == 60


@real_files
def test_a_pm_file_twice(tmp_path):
    first, second = tmp_path / "a.pm", tmp_path / "b.pm"
    for i, path in enumerate((first, second)):
        path.write_text(PM.read_text())
        os.utime(path, (1_700_000_000 + 60 * i,) * 2)
    seen = softib.observe(first, second, fabric=str(DB_CSV)).observations
    assert seen.known["port_xmit_data"].sum() > 500 and not seen.total("port_xmit_data").any()


@pytest.mark.parametrize("text", ["", "nothing\n", "GUID 0xzz port 1: [LinkDownedCounter == 1]\n"])
def test_files_without_counters_are_one_line(tmp_path, text):
    for name in ("a", "b"):
        (tmp_path / name).write_text(text)
    with pytest.raises(softib.InputError) as error:
        softib.observe(tmp_path / "a", tmp_path / "b")
    assert "\n" not in str(error.value)


def test_a_prometheus_that_is_down_is_one_line():
    with pytest.raises(softib.PeerError, match="no Prometheus answers"):
        softib.observe("http://127.0.0.1:9/")


def test_a_slider_over_a_prometheus_that_is_down_is_one_line(tmp_path):
    pytest.importorskip("fastapi", reason="fastapi is not installed (the extra serve)")
    with pytest.raises(softib.PeerError, match="no Prometheus answers") as error:
        softib.serve(softib.generate("fat-tree", radix=4, levels=2), history="http://127.0.0.1:9/")
    assert "\n" not in str(error.value)


def test_two_files_without_a_port_in_common_are_one_line(tmp_path):
    """perfquery of two devices: nothing rose that anybody could tell, and that is no clean bill of health."""
    tree = softib.bring_up(softib.generate("fat-tree", radix=4, levels=2)).fabric
    tree.save(tmp_path / "tree.ibnetdiscover")
    lids = [
        int(lid) for lid, portnum in zip(tree.ports["lid"], tree.ports["port"], strict=True) if lid and portnum == 1
    ][:2]
    for i, lid in enumerate(lids):
        file = tmp_path / f"{i}.out"
        file.write_text(f"# Port counters: Lid {lid} port 1\nSymbolErrorCounter:....0\n")
        os.utime(file, (1000 + 60 * i, 1000 + 60 * i))
    with pytest.raises(InputError, match="no port was read in both"):
        softib.observe(tmp_path / "0.out", tmp_path / "1.out", fabric=str(tmp_path / "tree.ibnetdiscover"))
