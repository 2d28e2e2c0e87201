"""What a run of the tests may take and leave. Oracles: CONTRIBUTING.md's promise of the time, and things planted to be left."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.minutes import BUDGETS, TESTS, TOO_MUCH, Minutes

ROOT = TESTS.parent


def test_each_package_has_a_budget_and_all_of_them_fit_what_is_promised():
    packages = {path.parent.name for path in TESTS.glob("*/__init__.py")} | {
        path.name for path in TESTS.iterdir() if path.is_dir() and any(path.rglob("test_*.py"))
    }
    assert set(BUDGETS) == packages
    (minutes,) = re.findall(r"at most (\d+) minutes on two cores", (ROOT / "CONTRIBUTING.md").read_text())
    assert sum(BUDGETS.values()) <= 2 * int(minutes)


def test_a_package_above_its_budget_is_named_and_only_one_far_above_fails():
    minutes = Minutes()
    minutes.add({"iba": 1.5 * BUDGETS["iba"]})
    assert len(minutes.above(1.0)) == 1 and "tests/iba took" in minutes.above(1.0)[0] and not minutes.above(TOO_MUCH)
    minutes.add({"iba": BUDGETS["iba"]})
    assert len(minutes.above(TOO_MUCH)) == 1
    before = sum(os.times()[:4])
    with minutes.measured(TESTS / "cm" / "test_any.py"):
        while sum(os.times()[:4]) < before + 0.1:
            subprocess.run([sys.executable, "-I", "-c", "sum(range(10**6))"], check=True)
    assert 60 * minutes["cm"] >= 0.09, "with the programs that it waited for"


def test_only_make_test_judges_budgets():
    """``make oldest`` compiles kernels with other versions of Numba: its tests may take longer."""
    code = (
        "import types, pytest, tests.conftest as c\n"
        "c.MINUTES.add({'iba': 1e6})\n"
        "session = types.SimpleNamespace(config=object(), exitstatus=pytest.ExitCode.OK)\n"
        "c.pytest_sessionfinish(session)\n"
        "print(int(session.exitstatus))\n"
    )
    (test,) = re.findall(r"^test: .*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M)
    (set_by_make,) = re.findall(r"export (SOFTIB_TEST_BUDGETS)=1 ", test)
    plain = {k: v for k, v in os.environ.items() if k != set_by_make}
    ends = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
        ).stdout
        for env in (plain, {**plain, set_by_make: "1"})
    ]
    assert ends == ["0\n", "1\n"]


def test_what_a_run_leaves_is_named(tmp_path):
    home, marked = tmp_path / "home", {**os.environ, "TMPDIR": str(tmp_path), "CI": "1"}
    home.mkdir()
    (home / "old").write_text("")
    look = lambda: subprocess.run(
        [sys.executable, "-m", "tests.__residue__", tmp_path / "before"],
        env={**marked, "HOME": str(home), "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert look().returncode == 0, "it notes what is there"
    planted = Path(home, "new")
    planted.write_text("")
    with subprocess.Popen(["sleep", "1000"], env=marked) as sleeper:
        try:
            done = look()
        finally:
            sleeper.kill()
    lines = [line for line in done.stdout.splitlines() if str(planted) in line or f"process {sleeper.pid}:" in line]
    assert done.returncode == 1 and len(lines) == 2 and str(home / "old") not in done.stdout, done
