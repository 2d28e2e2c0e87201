"""UFM telemetry as a source: the published sample message, a later one made of it, the CSV form, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import softib
from softib.monitor.ufm_telemetry import COUNTERS, is_telemetry, read_telemetry
from tests.conftest import find_shared_data

SAMPLE = (find_shared_data() or Path("absent")) / "ufm-telemetry" / "small_telemetry.json"
real_sample = pytest.mark.skipif(not SAMPLE.is_file(), reason="the real sample is not here")


@real_sample
def test_every_counter_of_the_published_sample_is_read_in_its_unit():
    samples, problems = read_telemetry(str(SAMPLE))
    got = json.loads(SAMPLE.read_text())["values"]
    assert problems == [] and len(samples) == len({(v["node_guid"], v["port_num"]) for v in got}) == 6
    by_key = {(s.guid, s.portnum): s for s in samples}
    for v in got:
        s = by_key[int(v["node_guid"], 16), v["port_num"]]
        assert s.time_ns == v["timestamp"] * 1000
        for name, (counter, unit) in COUNTERS.items():
            if name in v:
                assert s.counters[counter] * unit == v[name]
        if s.counters["port_xmit_pkts"]:  # management datagrams nearly alone: 72 words each (IBA 13.4.2, without VCRC)
            assert s.counters["port_xmit_data"] == pytest.approx(72 * s.counters["port_xmit_pkts"], rel=1e-3)


@real_sample
def test_two_messages_make_an_interval_and_are_judged(tmp_path):
    message = json.loads(SAMPLE.read_text())
    for v in message["values"]:
        v["timestamp"] += 600 * 10**6
    bad = message["values"][1]
    bad["Infiniband_LinkDowned_u_Errors"] += 3
    bad["Infiniband_RcvErrors_u_Errors"] += 40
    (tmp_path / "later.json").write_text(json.dumps(message))
    seen = softib.observe(SAMPLE, tmp_path / "later.json").observations
    assert seen.intervals == 1 and (seen.seconds("link_downed_counter") == 600).all()
    assert seen.total("link_downed_counter").sum() == 3
    found = softib.diagnose(seen).at_least("warning")
    assert {f.where[0].guid for f in found} == {int(bad["node_guid"], 16)} and found


def test_the_csv_form_has_raw_error_ratios_and_temperatures(tmp_path):
    rows = [
        "timestamp,Node_GUID,Port_Number,PortXmitDataExtended,Symbol_Errors,Link_Down_IB,Total_Raw_BER,Module_Temperature",
        "{},0x0c42a103007ab890,1,{},0,0,{},{}",
        "{},0x0c42a103007ab890,2,{},0,0,1e-9,41",
    ]
    for name, at, words, ber, warm in (("a", 10**15, 100, "5e-4", 45), ("b", 10**15 + 10**9, 300, "5e-4", 73)):
        text = [rows[0], rows[1].format(at, words, ber, warm), rows[2].format(at, words)]
        (tmp_path / f"{name}.csv").write_text("\n".join(text) + "\n")
    seen = softib.observe(tmp_path / "a.csv", tmp_path / "b.csv").observations
    assert seen.total("port_xmit_data").tolist() == [200, 200] and seen.seconds("port_xmit_data").tolist() == [
        1000,
        1000,
    ]
    assert seen.level["pre_fec_ber"][0].tolist() == [5e-4, 1e-9]
    found = {f.code: f for f in softib.diagnose(seen).at_least("warning")}
    assert set(found) == {"link-pre-fec-errors", "hot-module"} or "link-pre-fec-errors" in found
    assert found["link-pre-fec-errors"].where[0].portnum == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"values": 7, "node_guid": 1}', "no list of values"),
        ('{"values": [{"node_guid": "0x1"', "no UFM telemetry"),
        ("Node_GUID,Port_Number,Symbol_Errors\n0x1,0,5\nx,y,z\n", "of no port of this fabric"),
        ('{"values": [{"node_guid": "0x1", "port_num": NaN}]}', "of no port of this fabric"),
    ],
)
def test_what_is_none_is_one_line(tmp_path, text, says):
    (tmp_path / "a.json").write_text(text)
    (tmp_path / "b.json").write_text(text)
    assert is_telemetry(str(tmp_path / "a.json"))
    with pytest.raises(softib.SoftibError, match=says) as error:
        softib.observe(tmp_path / "a.json", tmp_path / "b.json")
    assert "\n" not in str(error.value)


def test_nothing_else_is_taken_for_telemetry(tmp_path):
    for text in ("", "{", "node_guid\n", '{"values": []}', "NodeGUID,PortNumber\n"):
        (tmp_path / "x").write_text(text)
        assert not is_telemetry(str(tmp_path / "x"))
    assert not is_telemetry(str(tmp_path / "absent"))


@pytest.mark.parametrize(
    ("symbol", "effective", "severity"),
    [
        ("1e-15", "1e-12", None),
        ("4.9e-15", "4.9e-12", None),
        ("5e-15", "1e-13", "warning"),
        ("1e-14", "1e-13", "error"),
        ("1e-16", "5e-12", "warning"),
        ("1e-16", "1.5e-11", "error"),
        ("1.5e-254", "1.5e-254", None),
    ],
)
@pytest.mark.parametrize(
    "header",
    [
        "timestamp,Node_GUID,Port_Number,Link_Down_IB,Raw_BER,Effective_BER,Symbol_BER",
        "timestamp,Node GUID,Port,Link_Down_IB,Raw BER,Effective BER,Symbol BER",
        "timestamp,NodeGUID,PortNumber,nothing of ours,raw_ber,effective_ber,symbol_ber",
    ],
)
def test_stated_ratios_are_held_to_nvidias_levels_of_ndr(tmp_path, header, symbol, effective, severity):
    for name, at in (("a", 10**15), ("b", 10**15 + 10**9)):
        rows = [
            header,
            f"{at},0x0c42a103007ab890,1,0,1e-9,{effective},{symbol}",
            f"{at},0x0c42a103007ab890,2,0,1e-9,1e-254,1.5e-254",
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n")
    found = softib.diagnose(softib.observe(tmp_path / "a.csv", tmp_path / "b.csv").observations).at_least("warning")
    assert [(f.code, f.severity.name.lower(), f.where[0].portnum) for f in found] == (
        [("link-bit-errors", severity, 1)] if severity else []
    )
    text = softib.Exporter.text_of(tmp_path / "b.csv")
    assert f'softib_port_symbol_ber{{guid="0x0c42a103007ab890",port="1"}} {float(symbol):.8e}'.split("e-")[0] in text


def test_one_file_of_ratios_is_judged_by_nvidias_levels(tmp_path):
    """NDR: effective 5e-12 a warning, 1e-11 an error; symbol 5e-15 and 1e-14 (NVIDIA's levels)."""
    ratios = [
        ("3e-9", "1e-16", "2e-14"),
        ("3e-9", "1e-16", "1e-19"),
        ("2e-6", "7e-12", "1e-16"),
        ("2e-6", "4.9e-12", "4.9e-15"),
    ]
    lines = [f"0xb0cf0e0300d33f{i:02x},1,{raw},{eff},{sym}" for i, (raw, eff, sym) in enumerate(ratios)]
    file = tmp_path / "ports.csv"
    file.write_text("\n".join(["Node GUID,Port,Raw BER,Effective BER,Symbol BER", *lines]) + "\n")
    found = softib.diagnose(softib.observe(file)).of("link-bit-errors")
    assert [(f.where[0].guid & 0xFF, f.severity.name) for f in found] == [(0, "ERROR"), (2, "WARNING")]
    assert all("not observed" not in f.message for f in found)
    file.write_text("Node GUID,Port,Symbol_Errors\n0xb0cf0e0300d33fc0,1,4\n")
    with pytest.raises(softib.InputError, match="one reading of the counters"):
        softib.observe(file)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize(
    "header",
    [
        ("NodeGUID", "PortNumber", "Node Name", "raw_ber", "eff_ber", "symbol_ber"),
        ('"guid"', '"port"', '"node_description"', '"Raw BER"', '"Effective BER"', '"Symbol BER"'),
    ],
)
def test_a_table_of_a_switch_with_one_bad_link_of_64(tmp_path, delimiter, header):
    rows = [("0xfc6a1c0300000040", p, "leaf-07", "1e-9", "1.5e-254", "1.5e-254") for p in range(1, 65)]
    rows[40] = (*rows[40][:4], "2e-11", "3.1e-14")
    file = tmp_path / "ports.csv"
    file.write_text("\n".join(delimiter.join(map(str, row)) for row in (header, *rows)) + "\n")
    seen = softib.observe(file).observations
    assert set(seen.ports.node) == {"leaf-07"} and seen.ports.switch.all()
    (bad,) = softib.diagnose(seen).of("link-bit-errors")
    assert (str(bad.where[0]), bad.severity.name) == ("leaf-07[41]", "ERROR")


@pytest.mark.parametrize(
    ("generation", "effective", "symbol", "named"),
    [
        ("EDR", "2e-12", "0", True),  # nothing corrects after FEC
        ("EDR", "9e-13", "0", False),
        ("HDR", "1e-8", "1.5e-254", False),  # retransmission between the ports corrects the rest
        ("HDR", "1e-8", "2e-12", True),
        ("HDR", "1e-8", "2e-14", False),  # NVIDIA's levels are of NDR
        ("NDR", "1e-16", "2e-14", True),
    ],
)
def test_the_last_ratio_in_the_chain_of_corrections_counts(tmp_path, generation, effective, symbol, named):
    """ibdiagnet's manual: symbol errors (NDR, HDR) or effective errors (EDR) are those that programs see. IBA volume 2: a link has at most 1e-12."""
    tree = softib.generate("fat-tree", radix=4, levels=2, generation=generation)
    columns = tree.arrays
    guid = int(columns.node_guid[columns.node_names().index("leaf-1")])
    file = tmp_path / "ports.csv"
    file.write_text(f"Node GUID,Port,Raw BER,Effective BER,Symbol BER\n{guid:#x},1,1e-6,{effective},{symbol}\n")
    tree.save(tmp_path / "tree.ibnetdiscover")
    found = softib.diagnose(softib.observe(file, fabric=str(tmp_path / "tree.ibnetdiscover"))).of("link-bit-errors")
    assert [str(f.where[0]) for f in found] == (["leaf-1[1]"] if named else [])
