"""rdma-core 44's own test suite, as Debian packs it."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest

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
