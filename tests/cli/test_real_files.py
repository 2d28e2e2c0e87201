"""The main job on every real file of COUNTS.tsv, whole, cut off, and with bytes changed."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest

from tests.cli.run import softib
from tests.conftest import find_shared_data

DATA = find_shared_data()


def files() -> list[dict[str, str]]:
    if DATA is None:
        return []
    with (DATA / "COUNTS.tsv").open() as table:
        return list(csv.DictReader(table, delimiter="\t"))


def expected(row: dict[str, str]) -> dict[str, int]:
    """Numbers of the table under the names of ``--json``; for a .topo the table counts links between systems only."""
    if row["format"].startswith("topo"):
        return {"system_links": int(row["links"])}
    keys = ("switches", "cas", "sharp_nodes", "links")
    # 344 records, each link from both ends: 172 links; the table says 171 (tests/fabric/formats/test_counts.py counts them).
    keys = keys[:3] if row["file"] == "ibutils-clusters/subnet.lst" else keys
    return {k: int(row[k]) for k in keys if row[k]}


LARGE = 100
"""Files of more links are reported with the slow tests; all are read, and counted, in tests/fabric/formats/test_counts.py."""
ROWS = [pytest.param(r, id=r["file"], marks=pytest.mark.slow if int(r["links"]) > LARGE else ()) for r in files()]


@pytest.mark.parametrize("row", ROWS)
def test_report_of_a_real_file(shared_data: Path, row: dict[str, str], tmp_path: Path):
    page = tmp_path / "report.html"
    ran = softib("report", shared_data / row["file"], "--json", "--html", page)
    assert ran.code == 0, ran.err
    found = ran.json()
    assert {k: found["fabric"][k] for k in expected(row)} == expected(row)
    assert found["routing"]["unreachable"] == 0
    assert all(p["file"] and p["reason"] and p["line"] >= 0 for p in found["problems"])
    if found["prediction"]:
        assert 0 < found["prediction"]["effective_bisection"]["relative"] <= 1 + 1e-9
    assert "</html>" in page.read_text()


def test_a_published_figure_through_the_whole_program(shared_data: Path):
    """ibmgtsim's 12-ary 2-tree (144 hosts): .707 for random pairs over 12 × 12 full trees (d-mod-k), here by minhop."""
    ran = softib("report", shared_data / "ibmgtsim-topos" / "12-ary-2-tree.topo", "--json")
    assert ran.json()["prediction"]["effective_bisection"]["relative"] == pytest.approx(0.707, abs=0.01)


def test_tables_of_a_real_dump_are_judged(shared_data: Path):
    """osm.fdbs with subnet.lst: all 3,968 = 62 × 64 routes from a switch to another address arrive."""
    folder = shared_data / "ibutils-clusters"
    ran = softib("route", folder / "subnet.lst", "--lfts", folder / "osm.fdbs", "--json")
    assert ran.code == 0
    assert ran.json()["switch_routes"] == {"total": 3968, "arrived": 3968}


def test_the_credit_loop_of_a_real_fabric(shared_data: Path):
    source = shared_data / "hk-creditloop" / "ibnetdiscover_manually_created.txt"
    ran = softib("route", source, "--engine", "minhop", "--json")
    assert ran.code == 1
    assert len(ran.json()["credit_loop"]) == 4
    assert softib("route", source, "--engine", "updn", "--json").json()["credit_loop"] is None


SMALL = (
    "ibsim-net/net.2sw2path4hca",
    "jabl-tests/1.topo",
    "ufm-small-lab/small_topo_file",
    "ibutils-demo/gnu-based-32.topo",
    "ibutils-clusters/subnet.lst",
)


@pytest.mark.parametrize("name", SMALL)
def test_cut_or_changed_files_never_end_in_a_traceback(shared_data: Path, name: str, tmp_path: Path):
    data = (shared_data / name).read_bytes()
    rng = random.Random(name)
    for round_ in range(12):
        damaged = bytearray(data[: rng.randrange(len(data))] if round_ % 2 else data)
        for _ in range(0 if round_ % 2 else 20):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path = tmp_path / f"damaged-{round_}"
        path.write_bytes(bytes(damaged))
        ran = softib("report", path, "--json")
        assert ran.code in (0, 2), (round_, ran.err)
        if ran.code == 0:
            assert ran.json()["fabric"]["switches"] is not None
        else:
            assert len(ran.err.splitlines()) == 1, ran.err
