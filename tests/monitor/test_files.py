"""Files that others collected as observations: a real .db_csv and a later one made of it, real .pm and ibqueryerrors text. Skipped where the real files are absent."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

import softib

REAL = Path(__file__).resolve().parents[2] / "shared/data/sequoia-ndr-ibdiagnet"
if not REAL.is_dir():
    REAL = Path(os.environ.get("SOFTIB_DATA", "/work/shared/data")) / "sequoia-ndr-ibdiagnet"
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


@real_files
def test_a_dump_of_another_fabric_is_one_line(pair, tmp_path):
    other = tmp_path / "other.db_csv"
    other.write_text(re.sub(r"0x(\w{8})0(\w{7})\b", r"0x\1f\2", DB_CSV.read_text().replace(STATED, LATER)))
    with pytest.raises(softib.InputError, match="of another fabric") as error:
        softib.observe(pair[0], other)
    assert "\n" not in str(error.value)


@real_files
@pytest.mark.parametrize(("again", "why"), [(True, "of the same time"), (False, "a second, later one")])
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
