"""Patterns of installed packages: docs/tutorial/workload-pattern.md as it is written, and packages that are at fault.

Oracles: importlib.metadata's format of an installed distribution; the time of a message over a link of known rate.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from softib.errors import InputError, SoftibWarning
from softib.workloads import registry
from softib.workloads.hosts import Hosts
from softib.workloads.workload import parse, read
from tests.packages import install

ROOT = Path(__file__).resolve().parents[2]
GROUP = "softib.workloads"
PAGE = (ROOT / "docs" / "tutorial" / "workload-pattern.md").read_text("utf-8")
GOOD = """
from typing import Literal
import numpy as np
from softib.workloads.job import Job
from softib.workloads.pattern import JobMessages, Pattern
class One(Job):
    "host 0 to host 1"
    pattern: Literal["{name}"] = "{name}"
def messages(job, place):
    one = np.arange(1)
    return {made}
P = Pattern(One, messages)
"""
FEW = Hosts(np.arange(16), tuple(f"node-{i:02}" for i in range(16)), np.arange(16) // 4)
MADE = "[JobMessages(one, one + 1, job.size, one)]"


def block(language: str) -> str:
    return re.search(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)[1]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder that Python finds packages in."""
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.patterns.cache_clear()
    yield tmp_path
    registry.patterns.cache_clear()


def warned(site) -> list[str]:
    with pytest.warns(SoftibWarning) as warnings:
        assert "permutation" in registry.patterns()
    return [str(w.message) for w in warnings if w.category is SoftibWarning]


def test_the_tutorial_runs_as_it_is_written(tmp_path):
    project = tomllib.loads(block("toml"))["project"]
    entries = project["entry-points"]["softib.workloads"]
    install(tmp_path, project["name"], GROUP, entries, "halo", block("python"))
    commands = block("sh").splitlines()
    env = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    ran = []
    for command in commands:
        argv = [sys.executable, "-m", *command.split()]
        ran.append(subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120))
    assert ran[0].returncode == 0 and "128 messages completed" in ran[0].stdout, ran[0]
    assert ran[1].returncode == 2 and "no option of halo named 'round'; did you mean rounds?" in ran[1].stderr
    assert ran[2].returncode == 0 and "HDR" in ran[2].stdout, ran[2]


def test_a_round_begins_when_both_boundaries_are_there(tmp_path, site):
    install(site, "halo-pattern", GROUP, {"halo": "halo:HALO"}, "halo", block("python"))
    m, _ = parse("halo:1KB,rounds=3,hosts=0-4").messages(FEW)
    assert len(m) == 30 and len(m.needs) == 2 * 20
    for i in range(10, 30):
        needs = m.needs[m.first[i] : m.first[i + 1]]
        assert (m.dst[needs] == m.src[i]).all() and len(set(m.src[needs])) == 2, "both neighbours have sent"
        assert (needs // 10 == i // 10 - 1).all(), "the round before"


def test_a_pattern_of_a_package_is_an_option_of_files_and_data(site):
    install(site, "one-pkg", GROUP, {"one": "one_mod:P"}, "one_mod", GOOD.format(name="one", made=MADE))
    (site / "w.yaml").write_text("jobs:\n- {pattern: one, size: 1KB}\n- {pattern: shift, size: 1KB}\n")
    m, names = read(site / "w.yaml").messages(FEW)
    assert len(m) == 17 and names == ("one", "shift")
    assert len(read({"jobs": [{"pattern": "one"}]}).messages(FEW)[0]) == 1


@pytest.mark.parametrize(
    ("text", "entry", "reason"),
    [
        ("import nothing_of_this_name", "p", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("raise SystemExit('bye')", "p", "SystemExit: bye"),
        ("raise RuntimeError('two\\nlines')", "p", "RuntimeError: two lines"),
        ("P = 3", "p", "the entry point is not a softib.workloads.pattern.Pattern"),
        (GOOD.format(name="q", made=MADE), "p", "its job needs a field pattern: Literal['p'] = 'p'"),
        (GOOD.format(name="incast", made=MADE), "incast", "softib has a workload pattern of this name"),
        ("x = 1", "p", "AttributeError"),
    ],
)
def test_a_package_at_fault_costs_one_line_and_the_rest_goes_on(site, text, entry, reason):
    install(site, "bad-pkg", GROUP, {entry: "bad_mod:P"}, "bad_mod", text)
    install(site, "one-pkg", GROUP, {"one": "one_mod:P"}, "one_mod", GOOD.format(name="one", made=MADE))
    sys.modules.pop("bad_mod", None)
    lines = warned(site)
    assert len(lines) == 1 and "\n" not in lines[0], lines
    assert lines[0].startswith(f"package bad-pkg: workload pattern {entry} is left out: ") and reason in lines[0]
    assert len(parse("one:1KB").messages(FEW)[0]) == 1 and len(parse("incast:1KB,senders=2").messages(FEW)[0]) == 2


def test_of_two_packages_with_one_name_the_first_by_name_has_it(site):
    for package in ("a-pkg", "b-pkg"):
        module = package.replace("-", "_") + "_two"
        install(site, package, GROUP, {"two": f"{module}:P"}, module, GOOD.format(name="two", made=MADE))
    assert warned(site) == [
        "package b-pkg: workload pattern two is left out: a-pkg has a workload pattern of this name; rename this one"
    ]
    assert registry.patterns()["two"].package == "a-pkg"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("None", "TypeError"),
        ("[JobMessages(one, one + 99, 1, one)]", "dst is not a column of 1 numbers from 0 to 15"),
        ("[JobMessages(one, one + 1, 0, one)]", "size has numbers below 1"),
        ("[JobMessages(one, one + 1, 1, one, one + 5, one)]", "waits and needs are not rows"),
        ("[JobMessages(one, one + 0.5, 1, one)]", "dst is not a column"),
    ],
)
def test_a_pattern_that_fails_ends_with_its_package_s_name(site, made, reason):
    module = f"raises_{abs(hash(made))}"
    install(site, "raising-pkg", GROUP, {"one": f"{module}:P"}, module, GOOD.format(name="one", made=made))
    with pytest.raises(InputError) as error:
        parse("one:1KB").messages(FEW)
    assert str(error.value).startswith("package raising-pkg: workload pattern one failed: ") and reason in str(
        error.value
    )
