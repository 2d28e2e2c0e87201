"""Fixtures that every room's tests share."""

from __future__ import annotations

import gc
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from softib.jit.store import cache_dir
from tests.minutes import TOO_MUCH, Minutes
from tests.scratch import remove_all

# The default run is the same every time, on any machine; `make test-all` looks for new examples (profile "search").
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("search"), derandomize=True)
settings.load_profile("same")

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"

if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    # The thousands of programs that tests start would each compile softib's modules again: half a second for a daemon.
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(cache_dir().parent / "bytecode"))


ORDER = (
    "live/ibsim/test_hostile.py",  # compiles what answers MADs
    "cm",
    "iba",
    "mad",
    "routing",  # need none of that, so the other worker need not wait for it
    "sim/packet/kernels/ethernet/test_roce.py",  # compiles the packet layer's loops of Ethernet
    "sm",
    "sim/packet/test_oracles.py",  # and that of InfiniBand
    "scenario",
    "workloads",
    "preload",
    "live",
    "api",
    "sim",
    "monitor",
    "web",
    "analysis",
    "render",
    "fabrics",
    "diags",
    "docs",
    "cli",
    "agents",
    "fabric",  # many small files: both workers end together
)
"""In which order two workers take files of tests, with an empty cache of kernels: a unit is compiled by one process while others that
need it wait, so the largest begin early and apart. What is not named comes before the last two."""


def rank(path: Path) -> int:
    """Where a file of tests stands in :data:`ORDER`; the longest name that fits counts."""
    inside = path.relative_to(TESTS).as_posix()
    fits = [name for name in ORDER if inside == name or inside.startswith(f"{name}/")]
    return ORDER.index(max(fits, key=len)) if fits else len(ORDER) - 2


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect the tests without searches for garbage, and leave the tests themselves (half a million objects) out of later ones: a third of
    the time of collecting."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in :data:`ORDER`; the tests of each stay as they are."""
    items.sort(key=lambda item: rank(item.path))


def find_shared_data() -> Path | None:
    """The folder of real files: ``$SOFTIB_DATA``, ``shared/data`` beside a parent of the repository, or what ``make real-data`` fetched."""
    told = os.environ.get("SOFTIB_DATA")
    candidates = [Path(told)] if told else [*(p / "shared" / "data" for p in ROOT.parents), ROOT / "real-data"]
    return next((c for c in candidates if (c / "COUNTS.tsv").is_file()), None)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real fabric files, read in place; the test skips where they are absent."""
    found = find_shared_data()
    if found is None:
        pytest.skip("the real files are absent (make real-data fetches them)")
    return found


@pytest.fixture(scope="session")
def stock():
    """``stock("opensm")`` is the program's path; the test skips where it is not installed."""

    def find(program: str) -> str:
        path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if path is None:
            pytest.skip(f"{program} is not installed")
        return path

    return find


@pytest.fixture(scope="session")
def jsonschema():
    """The library; the test skips without it. Its grammars of addresses take seconds, which not every worker shall pay."""
    return pytest.importorskip("jsonschema")


MINUTES = Minutes()
JUDGED = "SOFTIB_TEST_BUDGETS" in os.environ
"""Set by ``make test``: only its tests have budgets. With other versions of libraries (``make oldest``, ``make pythons``) they take longer."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item):
    """Count the test's processor time."""
    with MINUTES.measured(item.path):
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    """A worker has ended: its minutes."""
    MINUTES.add(getattr(node, "workeroutput", {}).get("minutes", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In the workers too: what their tests made ends with them. A package far above its budget fails the run."""
    remove_all()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["minutes"] = dict(MINUTES)
    elif JUDGED and MINUTES.above(TOO_MUCH) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter) -> None:
    """Skips by reason, and packages above their budget, a line each."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", ())
    )
    for reason, times in sorted(reasons.items()):
        terminalreporter.write_line(f"SKIPPED [{times}] {reason}")
    failed = MINUTES.above(TOO_MUCH)
    for line in MINUTES.above(1.0) if JUDGED else ():
        terminalreporter.write_line(f"{'FAILED BY ITS BUDGET' if line in failed else 'OVER BUDGET'}: {line}")
