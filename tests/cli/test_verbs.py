"""Every verb end to end on small fabrics: exit codes, JSON alone on stdout, the keys of the contract."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from softib.cli.main import VERBS
from tests.cli.run import softib


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A clean two-level tree."""
    path = tmp_path / "tree.yaml"
    path.write_text("name: tree\ntopology: {kind: fat-tree, radix: 8, levels: 2}\n")
    return path


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    """Six switches in a ring: minhop makes a credit loop there."""
    path = tmp_path / "ring.yaml"
    path.write_text("name: ring\ntopology: {kind: ring, switches: 6, hosts_per_switch: 2}\n")
    return path


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb):
    ran = softib(verb, "--help")
    assert ran.code == 0
    assert "Usage" in ran.out


def test_check_of_a_clean_tree(tree):
    ran = softib("check", tree, "--json")
    found = ran.json()
    assert ran.code == 0, found["findings"]
    assert {k: found["fabric"][k] for k in ("switches", "cas", "sharp_nodes", "links", "system_links")} == {
        "switches": 12,
        "cas": 32,
        "sharp_nodes": 0,
        "links": 64,
        "system_links": None,
    }
    assert found["problems"] == []
    assert softib("check", tree).code == 0


def test_check_of_a_broken_tree(tree, tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text(tree.read_text() + 'faults: [{kind: slow-link, cable: "leaf-2[5]", speed: SDR}]\n')
    ran = softib("check", path, "--json")
    assert ran.code == 1
    places = {(w["node"], w["portnum"]) for f in ran.json()["findings"] for w in f["where"]}
    assert ("leaf-2", 5) in places
    shown = softib("check", path)
    assert shown.code == 1
    assert "leaf-2" in shown.out


def test_report_exits_0_even_with_bad_news(ring):
    ran = softib("report", ring, "--json", "--engine", "ftree")
    assert ran.code == 0
    found = ran.json()
    assert found["routing"]["deadlock_free"] is False
    assert {"fabric", "findings", "problems", "bring_up", "routing", "prediction", "seconds"} <= set(found)
    assert any("credit" in f["code"] for f in found["findings"])


def test_report_on_a_terminal_and_as_a_page(tree, tmp_path):
    page = tmp_path / "report.html"
    ran = softib("report", tree, "--html", page, "--engine", "ftree")
    assert ran.code == 0
    assert "Predicted traffic" in ran.out
    assert "ftree" in ran.out
    assert page.read_text().startswith("<!doctype html>")
    assert str(page) in ran.err


def test_report_is_the_same_twice_but_for_seconds(tree):
    a, b = softib("report", tree, "--json").json(), softib("report", tree, "--json").json()
    for found in (a, b):
        del found["seconds"]  # wall time of each step: the only thing that may differ
    assert a == b


def test_a_fabric_file_may_name_its_engine(tree):
    tree.write_text(tree.read_text() + "sm: {engine: ftree}\n")
    assert softib("route", tree, "--json").json()["engine"] == "ftree"
    assert softib("route", tree, "--engine", "updn", "--json").json()["engine"] == "updn"


def test_route_proves_a_tree(tree, tmp_path):
    dump = tmp_path / "tables.lft"
    ran = softib("route", tree, "--engine", "minhop", "--json", "--dump", dump)
    assert ran.code == 0
    found = ran.json()
    assert found["engine"] == "minhop"
    assert found["deadlock_free"] is True
    assert found["credit_loop"] is None
    assert found["unreachable"] == 0
    # 32 hosts to 31 others and 12 switches: own leaf 0, hosts there 1, spines 1, other leaves 2, other hosts 3.
    assert {int(h): n for h, n in found["hops"].items()} == {0: 32, 1: 32 * (3 + 4), 2: 32 * 7, 3: 32 * 28}
    assert "Unicast lids" in dump.read_text()


def test_route_prints_the_cycle_of_a_ring(ring):
    ran = softib("route", ring, "--engine", "minhop", "--json")
    assert ran.code == 1
    loop = ran.json()["credit_loop"]
    assert len(loop) == 6
    assert len({node for node, _, _ in loop}) == 6
    assert all(isinstance(port, int) and vl == 0 for _, port, vl in loop)
    good = softib("route", ring, "--engine", "updn", "--json")
    assert good.code == 0
    assert good.json()["credit_loop"] is None


def test_route_judges_its_own_dump(tmp_path):
    """A fabric that is up, out to ibnetdiscover and dump_lfts, in again: the same proof."""
    from softib.fabric.formats import registry
    from softib.fabric.formats.lft.dump import write_lfts
    from softib.fabric.topologies.registry import generate
    from softib.scenario.bring_up import bring_up

    up = bring_up(generate("fat-tree", radix=8, levels=2), "updn")
    net, dump = tmp_path / "tree.ibnetdiscover", tmp_path / "tables.lft"
    registry.write(up.fabric, net)
    write_lfts(up.fabric, up.routing.lft, dump)
    ran = softib("route", net, "--lfts", dump, "--json")
    assert ran.code == 0, ran.err
    found = ran.json()
    assert {int(h): n for h, n in found["hops"].items()} == {0: 32, 1: 32 * (3 + 4), 2: 32 * 7, 3: 32 * 28}
    # Spine → spine goes down and up again: 4 × 3 pairs that up*/down* alone leaves out.
    assert found["switch_routes"] == {"total": 12 * (32 + 12 - 1), "arrived": 12 * (32 + 12 - 1)}
    assert found["switch_unreachable"] == 0


def test_routes_of_more_than_63_hops_arrive(tmp_path):
    """A line of 90 switches, managed from its middle: tables are not bound to the hops of directed routes."""
    from softib.fabric.builder import FabricBuilder
    from softib.fabric.formats import registry
    from softib.fabric.formats.lft.dump import write_lfts
    from softib.scenario.bring_up import bring_up

    b, n = FabricBuilder("line"), 90
    sw, ca = b.nodes(n, 2, 4, desc=[f"s{i}" for i in range(n)]), b.nodes(2, 1, 1, desc=["first", "last"])
    b.links(sw[:-1], 1, sw[1:], 2)
    b.links(sw[[0, -1]], 3, ca, 1)
    up = bring_up(b.build(), node="s45")
    net, dump = tmp_path / "line.ibnetdiscover", tmp_path / "tables.lft"
    registry.write(up.fabric, net)
    write_lfts(up.fabric, up.routing.lft, dump)
    found = softib("route", net, "--lfts", dump, "--json").json()
    assert found["switch_routes"] == {"total": n * (n + 1), "arrived": n * (n + 1)}


def test_convert_there_and_back(tree, tmp_path):
    net = tmp_path / "tree.net"
    ran = softib("convert", tree, net)
    assert ran.code == 0
    assert "12 switches" in ran.out
    assert softib("convert", net, tmp_path / "x", "--to", "ibnetdiscover").code == 0
    same = softib("diff", net, tmp_path / "x", "--json")
    assert same.json()["changes"] == [] or {c["kind"] for c in same.json()["changes"]} <= {"node-renamed", "node-guid"}


def test_diff(tree, tmp_path):
    assert softib("diff", tree, tree).code == 0
    assert softib("diff", tree, tree, "--json").json() == {
        "schema": "softib/diff/1",
        "a": str(tree),
        "b": str(tree),
        "equal": True,
        "changes": [],
        "problems": [],
    }
    other = tmp_path / "other.yaml"
    other.write_text(tree.read_text() + 'faults: [{kind: remove-cable, cable: "leaf-2[5]"}]\n')
    ran = softib("diff", tree, other, "--json")
    assert ran.code == 1
    assert [c["kind"] for c in ran.json()["changes"]] == ["cable-removed"]
    assert "leaf-2[5]" in softib("diff", tree, other).out


BINARY = b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 8


@pytest.mark.parametrize("option", ["--node-name-map", "--lfts", "--traffic", "--plan"])
def test_a_binary_file_is_one_line_wherever_a_text_is_due(tree, tmp_path, option):
    (tmp_path / "program").write_bytes(BINARY)
    ran = softib("report" if option == "--traffic" else "check", tree, option, tmp_path / "program")
    assert ran.code == 2 and ran.out == "" and "binary data (" in ran.err and len(ran.err.strip().splitlines()) == 1


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("option", ["", "--node-name-map", "--lfts", "--plan"])
def test_a_file_of_nul_bytes_alone_is_binary_and_not_empty(tree, tmp_path, option, packed):
    (tmp_path / "zeroes.topo").write_bytes(gzip.compress(bytes(200_000)) if packed else bytes(200_000))
    ran = softib("check", *((tree, option) if option else ()), tmp_path / "zeroes.topo")
    assert ran.code == 2 and "binary data (" in ran.err and len(ran.err.strip().splitlines()) == 1


def test_nul_bytes_after_a_text_are_read_over(tree, tmp_path):
    """A power failure leaves them at the end of a file."""
    softib("convert", tree, tmp_path / "whole.ibnetdiscover")
    text = (tmp_path / "whole.ibnetdiscover").read_bytes()
    (tmp_path / "padded.ibnetdiscover").write_bytes(text + bytes(4096))
    assert softib("diff", tmp_path / "whole.ibnetdiscover", tmp_path / "padded.ibnetdiscover").code == 0


def test_an_empty_dump_of_tables_is_called_empty(tree, tmp_path):
    (tmp_path / "empty").write_text("")
    ran = softib("check", tree, "--lfts", tmp_path / "empty")
    assert ran.code == 2 and "the file is empty" in ran.err


def test_a_plan_is_compared(tree, tmp_path):
    built = tmp_path / "built.yaml"
    built.write_text(tree.read_text() + 'faults: [{kind: remove-cable, cable: "leaf-2[5]"}]\n')
    plan = tmp_path / "plan.net"
    assert softib("convert", tree, plan).code == 0
    ran = softib("check", built, "--plan", plan, "--json")
    assert ran.code == 1
    assert any("plan" in f["code"] for f in ran.json()["findings"])


def test_a_design_is_a_plan_too(tree, tmp_path):
    """The architect's fabric.yaml against what was built."""
    built = tmp_path / "built.yaml"
    built.write_text(tree.read_text() + 'faults: [{kind: remove-cable, cable: "leaf-2[5]"}]\n')
    ran = softib("check", built, "--plan", tree, "--json")
    assert ran.code == 1
    missing = [f for f in ran.json()["findings"] if f["code"] == "plan-missing-cable"]
    assert [("leaf-2", 5) in [(w["node"], w["portnum"]) for w in f["where"]] for f in missing] == [True]
    assert softib("check", tree, "--plan", tree).code == 0


def test_check_says_whose_tables_it_judged(ring):
    """A ring deadlocks under minhop, not on the lanes of dfsssp: the finding is worth nothing without the engine."""
    ran = softib("check", ring, "--json")
    assert ran.code == 0 and ran.json()["findings"] == []
    assert ran.json()["routing"]["engine"] == ran.json()["routing"]["tables"] == "dfsssp", "a ring is no tree"
    told = ring.with_name("told.yaml")
    told.write_text(ring.read_text() + "sm: {engine: ftree}\n")
    ran = softib("check", told, "--json")
    assert ran.code == 1 and {f["code"] for f in ran.json()["findings"]} == {"credit-loop"}
    assert ran.json()["routing"]["engine"] == "ftree"
    assert ran.json()["routing"]["tables"] == "minhop"
    assert "fell back to minhop" in " ".join(softib("check", told).out.split())


def test_options_reach_the_dump_that_a_fabric_file_imports(tmp_path):
    (tmp_path / "small.net").write_text('Switch 4 "S1"\n[1] "H1"[1]\n\nHca 1 "H1"\n[1] "S1"[1]\n')
    (tmp_path / "f.yaml").write_text("import: small.net\n")
    (tmp_path / "names").write_text("nonsense\n")
    (tmp_path / "none").mkdir()
    ran = softib("check", tmp_path / "f.yaml", "--node-name-map", tmp_path / "names")
    assert ran.code == 2 and str(tmp_path / "names") in ran.err
    (tmp_path / "rhino.topo").write_text("NOSUCH N1\n    P1 -4x-2.5G-> HCA H1 P1\n")
    (tmp_path / "f.yaml").write_text("import: rhino.topo\n")
    ran = softib("check", tmp_path / "f.yaml", "--ibnl", tmp_path / "none")
    assert str(tmp_path / "none") in ran.err


def test_our_own_dump_of_a_fabric_without_lids_is_judged_as_it_was(tree, tmp_path):
    """The dump names its destinations: the LIDs come from there."""
    dump = tmp_path / "t.lft"
    made = softib("route", tree, "--engine", "ftree", "--dump", dump, "--json").json()
    read = softib("route", tree, "--lfts", dump, "--json")
    assert read.code == 0, read.err
    for key in ("unreachable", "hops", "deadlock_free"):
        assert read.json()[key] == made[key]


def test_an_empty_table_dump_is_no_silent_success(tree, tmp_path):
    ran = softib("convert", tree, tmp_path / "x.lft")
    assert ran.code == 0
    assert "no forwarding tables" in ran.err and "route --dump" in ran.err


def test_every_verb_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    assert [verb for verb in VERBS if f"## softib {verb}" not in text] == []


def test_convert_tells_programs_too(tree, tmp_path):
    ran = softib("convert", tree, tmp_path / "x.net", "--json")
    assert ran.json()["wrote"] == {"switches": 12, "cas": 32, "links": 64}


def test_report_with_tables_from_a_file(shared_data):
    folder = shared_data / "ibutils-clusters"
    ran = softib("report", folder / "subnet.lst", "--lfts", folder / "osm.fdbs", "--json")
    assert ran.code == 0
    found = ran.json()
    assert found["bring_up"] is None
    assert found["routing"]["origin"].endswith("osm.fdbs")


def test_more_addresses_than_infiniband_has_is_a_note_of_the_report_and_an_error_of_route(tmp_path):
    path = tmp_path / "huge.yaml"
    path.write_text("topology: {kind: fat-tree, radix: 36, levels: 3}\nsm: {lmc: 3}\n")
    ran = softib("report", path, "--json")
    assert ran.code == 0
    found = ran.json()
    assert found["routing"] is None
    assert any("49,151" in note for note in found["notes"])
    assert softib("route", path).code == 2


def test_help_needs_neither_numpy_nor_numba():
    import subprocess
    import sys

    code = (
        "import sys\nfrom softib.cli.main import main, cli, VERBS\n"
        "for v in VERBS:\n    cli.get_command(None, v)\n"
        "print([m for m in ('numpy', 'numba', 'rich', 'yaml', 'jinja2', 'pydantic') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_figures_of_the_bench_hold(shared_data):
    """Under 10 s for Selene's storage fabric in a new process, kernel cache present; under 60 s for 11,664 hosts."""
    import subprocess
    import sys

    script = Path(__file__).parents[2] / "bench" / "report_time.py"
    file = shared_data / "ufm-selene-storage" / "selene.storage.txt"
    ran = subprocess.run([sys.executable, str(script), str(file)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_hostile_names_in_a_file_stay_text_everywhere(tmp_path):
    evil = "<script>alert(1)</script>\x1b[2J[red]"
    net, page = tmp_path / "evil.net", tmp_path / "evil.html"
    net.write_text(
        f'Switch 4 "S1" # "{evil}"\n[1] "H1"[1]\n[2] "H2"[1]\n\n'
        f'Hca 1 "H1" # "{evil} a"\n[1] "S1"[1]\n\nHca 1 "H2" # "b"\n[1] "S1"[2]\n'
    )
    ran = softib("report", net, "--html", page)
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out + ran.err
    html = page.read_text()
    assert html.count("<script>") == 1
    assert "alert(1)" not in html or "&lt;script&gt;alert(1)" in html
