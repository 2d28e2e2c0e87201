"""rdma-core 44's own test suite, as Debian packs it."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.preload.verbs.applications import Applications

SUITE = Path("/usr/share/doc/rdma-core/tests")


PYTHON = "/usr/bin/python3"


RUNNER = Path(__file__).with_name("suite_runner.py")


PASSED = 148


def suite_in(folder: Path) -> Path:
    """The suite, unpacked in ``folder``; skips where it is not installed."""
    if not SUITE.is_dir() or subprocess.run([PYTHON, "-c", "import pyverbs"], capture_output=True).returncode:
        pytest.skip("python3-pyverbs and the suite in /usr/share/doc/rdma-core are not installed")
    shutil.copytree(SUITE, folder / "tests")
    for packed in (folder / "tests").glob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    return folder


def results_on(apps: Applications, node: str, folder: Path) -> list[list]:
    """How each test ended on ``node``: its name, ``passed``, ``skipped`` or ``failed``, and why."""
    done = subprocess.run(
        apps.on(node, PYTHON, str(RUNNER)),
        env=apps.env,
        cwd=suite_in(folder),
        capture_output=True,
        text=True,
        timeout=200,
    )
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["tests.')]
    assert rows, done.stderr
    return rows
