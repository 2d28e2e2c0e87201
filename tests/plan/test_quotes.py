"""Quotes with one row changed: a count on paper of 8 hosts with two NDR ports each, beside one switch."""

from __future__ import annotations

import pytest

from softib.plan.bill import Bill, Item
from softib.plan.quote import check_quote, read_quote

PIECES = [
    ("switch", "", 0.0, "switch, Quantum-2", 1),
    ("adapter", "", 0.0, "adapter port, ConnectX-7", 16),
    ("splitter", "DAC", 1.5, "DAC splitter", 6),
    ("cage", "MMF", 0.0, "cage, MMF", 2),
    ("host", "MMF", 0.0, "host, MMF", 4),
    ("fibre", "MMF", 5.0, "fibre, MMF", 4),
]
"""Six splitters carry 12 ports, two twin-port transceivers the other 4."""
BILL = Bill(tuple(Item(r, m, length, t, "", n, None, None, "NDR") for r, m, length, t, n in PIECES), "USD", "2026-01")
ROWS = {
    "switch": "MQM9700-NS2F;NDR switch, 64 ports, 2 power supplies (AC), managed, rail kit;1",
    "adapter": "MCX75310AAS-NEAT;ConnectX-7 HCA 400Gb/s;16",
    "splitter": "MCP7Y00-N01A;passive copper splitter 1.5m;6",
    "cage": "MMA4Z00-NS;twin-port transceiver;2",
    "host": "MMA4Z00-NS400;transceiver;4",
    "fibre": "MFP7E10-N005;fibre 5 m;4",
}
SINGLE_MODE = {
    "cage": "MMS4X00-NM;twin-port;2",
    "host": "MMS4X00-NS400;single port;4",
    "fibre": "MFP7E30-N005;MPO fibre;4",
}


def compared(tmp_path, changed=None, *more):
    path = tmp_path / "quote.csv"
    path.write_text("\n".join(["Part;Description;Qty", *(ROWS | (changed or {})).values(), *more]) + "\n")
    differences, notes = check_quote(BILL, read_quote(path))
    return {(d.needed, d.offered) for d in differences}, notes


def test_the_whole_quote(tmp_path):
    assert compared(tmp_path) == (set(), [])


@pytest.mark.parametrize(
    ("changed", "differences"),
    [
        ({"switch": "MQM8700-HS2F;Quantum HDR switch;1"}, {(1, 0), (0, 1)}),
        ({"switch": "MSN5600-CS2FC;Spectrum-4 Ethernet switch;1"}, {(1, 0), (0, 1)}),
        ({"switch": ";64-port NDR InfiniBand switch;1"}, set()),
        ({"switch": ";40-port HDR InfiniBand switch;1"}, {(1, 0), (0, 1)}),
        ({"switch": "SUP-QM9700-3Y;3 year support for MQM9700-NS2F switch;1"}, {(1, 0)}),
        ({"adapter": "ENT-1;Support 3 years for MCX75310AAS-NEAT adapter;16"}, {(16, 0)}),
        ({"adapter": "MCX653105A-HDAT;ConnectX-6 VPI;16"}, {(16, 0), (0, 16)}),
        ({"adapter": "MCX755106AS-HEAT;ConnectX-7 dual-port 200Gb/s;8"}, {(16, 0), (0, 8)}),
        ({"adapter": "MCX715105AS-WEAT;ConnectX-7 400GbE;16"}, {(16, 0), (0, 16)}),
        ({"adapter": "900-9D3B6-00CV-AA0;BlueField-3 B3220;16"}, {(16, 0), (0, 16)}),
        ({"splitter": "MFS1S00-H010V;HDR AOC;6"}, {(6, 0), (0, 6)}),
        ({"host": SINGLE_MODE["host"]}, {(4, 0), (0, 4)}),
        ({"fibre": SINGLE_MODE["fibre"]}, {(4, 0), (0, 4)}),
        ({"cage": ";twin-port transceiver 1310 nm;2"}, {(2, 0), (0, 2)}),
        (SINGLE_MODE, set()),
    ],
)
def test_another_part_does_not_stand_for_the_right_one(tmp_path, changed, differences):
    assert compared(tmp_path, changed)[0] == differences


@pytest.mark.parametrize(
    "row",
    [
        "SUP-QM9700-3Y;3 year support for MQM9700-NS2F switch;1",
        "ENT-1;Warranty, ConnectX-7 adapter MCX75310AAS-NEAT;16",
        "LIC-1;licence for Quantum-2 switch;1",
        "MTDF-FAN-A;fan module for MQM9700 switch;2",
        "PS-1000;QM9700 switch power supply;2",
        "930-KIT;rail kit for QM9700 switch;1",
        "MMA4Z00-NS400;transceiver (optional, not included);4",
        ";Credit, discount on adapters;-1",
        "Total;;31",
    ],
)
def test_services_and_accessories_are_not_counted(tmp_path, row):
    differences, (note,) = compared(tmp_path, None, row)
    assert not differences and "row 8 is not counted" in note


@pytest.mark.parametrize(
    ("row", "note"),
    [
        ("MMA4Z00-NS400;transceiver;1.5", "the quantity 1.5, which is not a whole number"),
        ("MMA4Z00-NS400;transceiver;1.024", "the quantity 1.024, which is not a whole number"),
        ("MMA4Z00-NS400;transceiver;", "no quantity"),
        ("XYZ-1;Mystery cable 5 m;7", "part XYZ-1 is not in the catalogue"),
        ("ZZ-9999;InfiniBand NDR switch;1", "part ZZ-9999 is not in the catalogue"),
    ],
)
def test_rows_in_doubt_are_named(tmp_path, row, note):
    differences, (line,) = compared(tmp_path, None, row)
    assert not differences and note in line and "row 8" in line


def test_credits_are_netted(tmp_path):
    assert compared(tmp_path, {"host": "MMA4Z00-NS400;transceiver;10"}, "MMA4Z00-NS400;credit;-6") == (set(), [])
    assert compared(tmp_path, None, "MFP7E10-N005;returned;(1)")[0] == {(4, 3)}
    assert compared(tmp_path, {"adapter": "DGX-H;server with 8x ConnectX-7;2"})[0] == set()


def test_a_formula_without_a_value_is_named(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in ("Part;Description;Qty", *ROWS.values()):
        book.active.append([int(c) if c.isdigit() else c for c in row.split(";")])
    book.active["C6"] = "=2*2"
    book.create_sheet("Options").append(["Part", "Description", "Qty"])
    book["Options"].append(["MMA4Z00-NS400", "spare", 4])
    book.save(tmp_path / "quote.xlsx")
    differences, (formula, option) = check_quote(BILL, read_quote(tmp_path / "quote.xlsx"))
    assert [(d.needed, d.offered) for d in differences] == [(4, 0)]
    assert "C6" in formula and "not counted (optional)" in option
