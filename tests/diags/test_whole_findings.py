"""One rule for every finding: the message is short, the evidence whole, the counts right. Oracle: the number and the names planted."""

from __future__ import annotations

import io

import numpy as np
import pytest

from softib.analysis.model import CheckResult, Counts, Report
from softib.diags.check import check
from softib.fabric.faults.inject import duplicate_description
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.smp import PortInfo
from softib.render.findings_csv import to_csv
from softib.render.html import to_html
from softib.render.terminal import print_check

N = 37
"""More than any finding of one place may be told alone, and than a table shows."""
LONGEST_MESSAGE = 400


def impossible_lids(fabric: Fabric) -> tuple[set[str], frozenset[str]]:
    ends = fabric.end_ports()
    PortInfo.lid.set(fabric.port_info, np.arange(1, len(ends) + 1), ends)
    bad = ends[5 : 5 + N]
    PortInfo.lid.set(fabric.port_info, np.arange(50000, 50000 + N), bad)
    return {fabric.port_name(int(p)) for p in bad}, frozenset({"lids"})


def lids_of_zero(fabric: Fabric) -> tuple[set[str], frozenset[str]]:
    ends = fabric.end_ports()
    PortInfo.lid.set(fabric.port_info, np.arange(1, len(ends) + 1), ends)
    PortInfo.lid.set(fabric.port_info, 0, ends[5 : 5 + N])
    return {fabric.port_name(int(p)) for p in ends[5 : 5 + N]}, frozenset({"lids"})


def symbol_errors(fabric: Fabric) -> tuple[set[str], frozenset[str]]:
    hosts = np.flatnonzero((fabric.port_cable >= 0) & ~fabric.is_switch[fabric.port_node])[:N]
    fabric.counters["symbol_error_counter"][hosts] = 1000 + np.arange(N)
    return {fabric.port_name(int(p)) for p in hosts}, frozenset({"counters"})


def waiting(fabric: Fabric) -> tuple[set[str], frozenset[str]]:
    hosts = np.flatnonzero((fabric.port_cable >= 0) & ~fabric.is_switch[fabric.port_node])[:N]
    fabric.counters["port_xmit_wait"][hosts] = 10**6 + np.arange(N)
    return {fabric.port_name(int(p)) for p in hosts}, frozenset({"counters"})


def one_name_for_many(fabric: Fabric) -> tuple[set[str], frozenset[str]]:
    hosts = np.flatnonzero(~fabric.is_switch)[:N].tolist()
    for h in hosts[1:]:
        duplicate_description(fabric, h, hosts[0])
    return {f"{int(fabric.node_guid[h]):#018x}" for h in hosts}, frozenset()


PLANTED = [impossible_lids, lids_of_zero, symbol_errors, waiting, one_name_for_many]


@pytest.mark.parametrize("plant", PLANTED)
def test_every_place_is_in_json_in_csv_in_the_page_and_in_text_with_all(plant) -> None:
    fabric = generate("fat-tree", radix=16, levels=2)
    wanted, records = plant(fabric)
    found = [f for f in check(fabric, records=fabric.source.records | records) if f.code != "uneven-spines"]
    report = Report("made", "generated", Counts("made", 24, 128, 0, 256, None), found, [], fabric=fabric)
    assert all(len(f.message) <= LONGEST_MESSAGE for f in found)
    places = [p for f in CheckResult.of(report).to_json()["findings"] for p in f["where"]]
    by = {p["guid"] if plant is one_name_for_many else f"{p['node']}[{p['portnum']}]" for p in places}
    assert wanted <= by, "JSON has every place"
    table, page, text = to_csv(report), to_html(report), all_of(report)
    for name in wanted:
        assert name in table and name in page and name in text, name
    bulk = [f for f in found if len(f.where) >= N]
    for f in bulk:
        assert str(N) in f.message and N in f.evidence.values(), (f.message, f.evidence)
    assert bulk or len(found) == N


def all_of(report: Report) -> str:
    from rich.console import Console

    out = io.StringIO()
    print_check(report, Console(file=out, width=100_000), every=True)
    return out.getvalue()
