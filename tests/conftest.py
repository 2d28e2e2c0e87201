"""Fixtures that every room's tests share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.scratch import remove_all

# The default run is the same every time, on any machine; `make test-all` looks for new examples (profile "search").
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("search"), derandomize=True)
settings.load_profile("same")

ROOT = Path(__file__).resolve().parent.parent


def find_shared_data() -> Path | None:
    """The folder of real files: ``$SOFTIB_DATA``, or ``shared/data`` beside a parent of the repository."""
    told = os.environ.get("SOFTIB_DATA")
    candidates = [Path(told)] if told else [p / "shared" / "data" for p in ROOT.parents]
    return next((c for c in candidates if (c / "COUNTS.tsv").is_file()), None)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real fabric files, read in place; the test skips where they are absent."""
    found = find_shared_data()
    if found is None:
        pytest.skip("the folder of real files (shared/data, or $SOFTIB_DATA) is absent")
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


def pytest_sessionfinish() -> None:
    """In the workers too: what their tests made ends with them."""
    remove_all()
