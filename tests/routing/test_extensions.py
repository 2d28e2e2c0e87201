"""Engines of installed packages: docs/tutorial/engine-package.md as it is written, and packages that are at fault.

Oracles: importlib.metadata's format of an installed distribution; the proof of tables, which knows nothing of engines; the arithmetic of D-mod-K.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from softib.errors import InputError, SoftibWarning, UnknownName
from softib.fabric.topologies.registry import generate
from softib.routing import engine as registry
from softib.routing.engine import ENGINES, engines, route
from softib.routing.proof.verify import verify
from softib.scenario.bring_up import bring_up
from softib.sm.options.file import engines_of
from tests.routing.fabrics import clos

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tutorial" / "engine-package.md").read_text("utf-8")


def block(language: str) -> str:
    return re.search(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)[1]


def install(folder: Path, package: str, entries: dict[str, str], module: str, text: str) -> None:
    """What pip leaves of a package: its module and its metadata."""
    (folder / f"{module}.py").write_text(text)
    info = folder / f"{package.replace('-', '_')}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n")
    lines = [f"{name} = {value}\n" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("[softib.engines]\n" + "".join(lines))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder that Python finds packages in."""
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._of_packages.cache_clear()
    yield tmp_path
    registry._of_packages.cache_clear()


def test_the_tutorial_runs_as_it_is_written(tmp_path):
    project = tomllib.loads(block("toml"))["project"]
    install(tmp_path, project["name"], project["entry-points"]["softib.engines"], "dmodk", block("python"))
    env = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    ran = [
        subprocess.run(
            [sys.executable, "-m", *line.split()], cwd=ROOT, env=env, capture_output=True, text=True, timeout=200
        )
        for line in block("sh").splitlines()
    ]
    assert ran[0].returncode == 0 and "dmodk" in ran[0].stdout and "Traceback" not in ran[0].stderr, ran[0]
    assert ran[1].returncode == 2 and "did you mean dmodk?" in ran[1].stderr, ran[1]
    assert ran[2].returncode in (0, 1) and "Traceback" not in ran[2].stderr, ran[2]


def test_d_mod_k_is_an_engine_of_the_manager(site):
    install(site, "dmodk-engine", {"dmodk": "dmodk:route"}, "dmodk", block("python"))
    assert engines() == (*ENGINES, "dmodk")
    assert engines_of("ar_updn,dmodk,unheard")[0] == "updn,dmodk"
    fabric = generate("fat-tree", radix=8, levels=2)
    subnet = bring_up(fabric, "dmodk")
    graph, lft = subnet.graph, fabric.lft
    assert subnet.routing.engine == "dmodk" and not subnet.report.problems
    assert verify(graph, subnet.routing.lft).ok
    for switch in range(graph.n_switches):
        links = slice(graph.first[switch], graph.first[switch + 1])
        if (
            switch in graph.end_switch[~graph.end_is_switch]
        ):  # a leaf: every spine is on a shortest path to another leaf
            ups = graph.out_port[links]
            for end in np.flatnonzero(~graph.end_is_switch & (graph.end_switch != switch)):
                lid = int(graph.end_lid[end])
                assert lft[switch, lid] == ups[lid % len(ups)]


@pytest.mark.parametrize(
    ("text", "entry", "reason"),
    [
        ("import nothing_of_this_name", "e", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("raise SystemExit('bye')", "e", "SystemExit: bye"),
        ("route = 3", "e", "the engine is not a function"),
        ("route = print", "ftree", "softib has a routing engine of this name"),
        ("route = print", "a,b", "the engine's name has a comma or a space"),
        ("x = 1", "e", "AttributeError"),
    ],
)
def test_a_package_at_fault_costs_one_line_and_the_rest_goes_on(site, text, entry, reason):
    install(site, "bad-pkg", {entry: "bad_engine:route"}, "bad_engine", text)
    install(site, "dmodk-engine", {"dmodk": "dmodk:route"}, "dmodk", block("python"))
    sys.modules.pop("bad_engine", None)
    with pytest.warns(SoftibWarning) as warnings:
        assert engines() == (*ENGINES, "dmodk")
    (line,) = [str(w.message) for w in warnings if w.category is SoftibWarning]
    assert (
        line.startswith(f"package bad-pkg: routing engine {entry} is left out: ")
        and reason in line
        and "\n" not in line
    )
    g = clos(leaves=2, spines=2, hosts=2)
    assert route(g, "dmodk").engine == "dmodk" and route(g, "ftree").engine == "ftree"
    with pytest.raises(UnknownName):
        route(g, "bad")


HEAD = "import numpy as np\nfrom softib.routing.engine import Routing\ndef tables(g): return np.full((g.n_switches, g.lft_size), 255, np.uint8)\n"
FAULTS = {
    "1 / 0": "ZeroDivisionError: division by zero",
    "None": "lft is object[]",
    "tables(graph).astype(int)": "lft is int64",
    "tables(graph)[:, 1:]": "lft is uint8",
    "tables(graph) * 0 + 77": "leaves switch 0 by port 77, which it does not have",
    "Routing('x', tables(graph), path_sl=np.zeros(3, np.uint8))": "path_sl is uint8[3]",
    "Routing('x', tables(graph), sl2vl=np.full(16, 16, np.uint8))": "sl2vl has numbers above 15",
    "Routing('x', tables(graph), vls=9)": "vls is 9; every link has 8 data VLs",
}


@pytest.mark.parametrize("result", FAULTS)
def test_an_engine_that_fails_makes_way_with_its_package_s_name(site, result):
    module = f"fails_{list(FAULTS).index(result)}"
    install(
        site,
        "failing-pkg",
        {"f": f"{module}:route"},
        module,
        f"{HEAD}def route(graph, options):\n    return {result}\n",
    )
    g = clos(leaves=2, spines=2, hosts=2)
    alone, listed = route(g, "f"), route(g, "f,updn")
    assert alone.engine == "minhop" and (alone.lft == route(g, "minhop").lft).all()
    assert listed.engine == "updn"
    for routing in (alone, listed):
        (note,) = [n for n in routing.notes if "failing-pkg" in n]
        assert note.startswith("package failing-pkg: routing engine f failed: ") and FAULTS[result] in note, note


def test_an_engine_that_refuses_by_an_error_of_softib_makes_way_too(site, monkeypatch):
    text = "from softib.errors import InputError\ndef route(graph, options):\n    raise InputError('rings alone')\n"
    install(site, "ring-pkg", {"rings": "ring_engine:route"}, "ring_engine", text)
    routing = route(clos(leaves=2, spines=2, hosts=2), "rings,minhop")
    assert routing.engine == "minhop" and any("rings alone" in note for note in routing.notes)
    assert InputError.__name__ not in " ".join(routing.notes)


def test_no_engine_is_imported_to_check_names():
    code = (
        "import softib, sys\nassert softib.engines('ftree,updn,dfsssp,lash,torus-2QoS')\n"
        "print([m for m in sys.modules if m.startswith('softib.routing.engines') or m == 'numba'])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
