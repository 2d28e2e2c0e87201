"""File formats, checks and topologies of installed packages: the tutorials as they are written, and
packages at fault.

Oracles: importlib.metadata's format of an installed distribution; cables and hosts counted by hand.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from softib.diags import check as checks
from softib.diags.finding import CODES
from softib.errors import InputError, SoftibWarning, UnknownFormat
from softib.fabric.formats import registry as formats
from softib.fabric.topologies import registry as topologies
from softib.fabric.topologies.registry import generate

ROOT = Path(__file__).resolve().parents[2]
CHECK = """
from softib.diags.finding import Severity, code, finding
code("{code}", Severity.INFO, "m", "a")
def find(c):
    {body}
"""
FORMAT = """
from softib.fabric.formats.registry import Format
def read(path, **options):
    {body}
F = Format("{name}", "fabric", "x", r"^%%x", "{module}:read")
"""
KIND = """
from softib.fabric.topologies.params import Kind, Parameter
def build(values):
    {body}
K = Kind("{name}", "d", "s", ({parameters}), build)
"""


def blocks(page: str) -> dict[str, str]:
    text = (ROOT / "docs" / "tutorial" / page).read_text("utf-8")
    return {m[1]: m[2] for m in re.finditer(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)}


def install(folder: Path, package: str, group: str, entry: str, module: str, text: str) -> None:
    """What pip leaves of a package: its module and its metadata."""
    (folder / f"{module}.py").write_text(text)
    info = folder / f"{package.replace('-', '_')}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder that Python finds packages in; codes and modules of its packages go with it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    cached = (checks.foreign_checks, formats.formats, topologies.kinds)
    modules, codes = set(sys.modules), set(CODES)
    for function in cached:
        function.cache_clear()
    yield tmp_path
    for function in cached:
        function.cache_clear()
    for name in set(sys.modules) - modules:
        if (tmp_path / f"{name}.py").exists():
            del sys.modules[name]
    for name in set(CODES) - codes:
        del CODES[name]


@pytest.mark.parametrize(
    ("page", "module", "outcomes"),
    [
        (
            "file-format.md",
            "cables",
            [
                (1, "hall.txt: line 4", ""),
            ],
        ),
        ("check.md", "site_names", [(1, "site-host-name", ""), (1, "", "")]),
        (
            "topology.md",
            "star",
            [(0, "", ""), (0, "6 switches", ""), (2, "", ("no parameter of star named 'point'; did you mean points?"))],
        ),
    ],
)
def test_the_tutorial_runs_as_it_is_written(tmp_path, page, module, outcomes):
    block = blocks(page).__getitem__
    project = tomllib.loads(block("toml"))["project"]
    ((group, entries),) = project["entry-points"].items()
    ((name, value),) = entries.items()
    install(tmp_path, project["name"], group, f"{name} = {value}", module, block("python"))
    if page == "file-format.md":
        (tmp_path / "hall.txt").write_text(block("text"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}"}
    for command, (code, out, err) in zip(block("sh").splitlines(), outcomes, strict=True):
        line = command.replace("softib ", f"{sys.executable} -m softib ", 1)
        done = subprocess.run(line, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
        assert out in done.stdout or page == "file-format.md", done
        assert done.returncode == code and err in done.stderr, done
        if "--ignore" in command:
            assert "site-host-name" not in done.stdout
        if page == "file-format.md":
            assert "a cable is SWITCH/PORT HOST with a port from 1 to 36" in done.stdout + done.stderr, done


def warned(ask) -> list[str]:
    with pytest.warns(SoftibWarning) as warnings:
        ask()
    return [str(w.message) for w in warnings if w.category is SoftibWarning]


FAULTS = {
    "import": ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
    "exit": ("raise SystemExit('bye')", "SystemExit: bye"),
    "nothing": ("x = 1", "AttributeError"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("group", "what", "ask"),
    [
        ("softib.readers", "file format", formats.formats),
        ("softib.checks", "check", checks.finding_codes),
        ("softib.topologies", "topology", topologies.kinds),
    ],
)
def test_a_package_at_fault_costs_one_line(site, group, what, ask, fault):
    text, reason = FAULTS[fault]
    install(site, "bad-pkg", group, "p = bad_mod:P", "bad_mod", text)
    sys.modules.pop("bad_mod", None)  # another test's module of this name
    (line,) = warned(ask)
    assert line.startswith(f"package bad-pkg: {what} p is left out: ") and reason in line and "\n" not in line


def test_what_a_package_prints_on_import_stays_out_of_stdout(site, capsys):
    """Stdout may be a document of --json."""
    install(
        site, "loud-pkg", "softib.checks", "loud = loud_mod:find", "loud_mod", "print('hello')\ndef find(c):\n    yield"
    )
    sys.modules.pop("loud_mod", None)
    checks.finding_codes()
    assert capsys.readouterr() == ("", "hello\n")


@pytest.mark.parametrize(
    ("group", "entry", "text", "reason"),
    [
        ("softib.readers", "topo = m_a:F", FORMAT.format(name="topo", module="m_a", body="pass"), (
            "softib has a file format of this name"
        )),
        ("softib.readers", "x = m_a:F", FORMAT.format(name="y", module="m_a", body="pass"), (
            "its format is called 'y'; call it 'x'"
        )),
        ("softib.readers", "x = m_a:F", FORMAT.format(name="x", module="m_b", body="pass"), "ModuleNotFoundError"),
        ("softib.readers", "x = m_a:read", FORMAT.format(name="x", module="m_a", body="pass"), (
            "the entry point is not a softib.fabric.formats.registry.Format"
        )),
        ("softib.checks", "absent_nodes = m_a:find", CHECK.format(code="mine-1", body="yield"), (
            "softib has a check of this name"
        )),
        ("softib.checks", "x = m_a:find", CHECK.format(code="absent-switch", body="yield"), (
            "finding code absent-switch already exists"
        )),
        ("softib.checks", "x = m_a:N", "N = 5", "it is not a function"),
        ("softib.topologies", "mesh = m_a:K", KIND.format(name="mesh", body="pass", parameters=""), (
            "softib has a topology of this name"
        )),
        ("softib.topologies", "x = m_a:K", KIND.format(name="y", body="pass", parameters=""), (
            "the name of its Kind is 'y'; use the name of the entry point, 'x'"
        )),
        ("softib.topologies", "x = m_a:K", KIND.format(name="x", body="pass", parameters=(
            "Parameter('name', 'text', 'd'),"
        )), "its parameter name is a parameter of every kind"),
        ("softib.topologies", "x = m_a:K", KIND.format(name="x", body="pass", parameters=(
            "Parameter('a', 'word', 'd'),"
        )), "is not a Parameter of a form"),
    ],
)  # fmt: skip # a table, its columns aligned
def test_what_cannot_be_used_is_left_out(site, group, entry, text, reason):
    install(site, "bad-pkg", group, entry, "m_a", text)
    ask = {
        "softib.readers": formats.formats,
        "softib.checks": checks.finding_codes,
        "softib.topologies": topologies.kinds,
    }
    (line,) = warned(ask[group])
    assert line.startswith("package bad-pkg: ") and reason in line, line
    assert CODES["absent-switch"].severity.name == "WARNING" and "mesh" in topologies.kinds()


def test_an_exception_inside_a_package_is_one_line_with_its_name(site):
    install(
        site,
        "k-pkg",
        "softib.topologies",
        "x = m_k:K",
        "m_k",
        KIND.format(name="x", body="return 1 / 0", parameters=""),
    )
    with pytest.raises(InputError, match=r"^package k-pkg: topology x failed: ZeroDivisionError: division by zero$"):
        generate("x")
    install(site, "f-pkg", "softib.readers", "x = m_f:F", "m_f", FORMAT.format(name="x", module="m_f", body="return 5"))
    (site / "a.txt").write_text("%%x\n")
    with pytest.raises(
        InputError, match=r"^package f-pkg: reader of x failed: TypeError: the reader returned int, not ReadResult$"
    ):
        formats.read(site / "a.txt")
    (site / "b.txt").write_text("nothing\n")
    with pytest.raises(UnknownFormat, match=r"x$"):
        formats.read(site / "b.txt")
    install(site, "c-pkg", "softib.checks", "x = m_c:find", "m_c", CHECK.format(code="mine-2", body="yield 5"))
    with pytest.raises(InputError, match=r"^package c-pkg: check x failed: TypeError: it returned 5, not a finding"):
        checks.check(generate("ring", switches=3))
