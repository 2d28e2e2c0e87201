"""Programs in ``tests/preload/verbs/hostile``: stock verbs, compiled against the system's libibverbs and librdmacm."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

import pytest

from softib.preload import build
from tests.scratch import scratch

HERE = Path(__file__).parents[1] / "hostile"
FLAGS = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror")


@functools.cache
def hostile(name: str, more: tuple[str, ...] = ()) -> Path:
    """``hostile/NAME*.c``, compiled once a test run; skips where that cannot be."""
    cc = build.compiler()
    if cc is None or build.missing_headers():
        pytest.skip("no C compiler, or libibverbs-dev and librdmacm-dev are not installed")
    to = scratch("softib-hostile-") / name
    sources = [*map(str, sorted(HERE.glob(f"{name}*.c"))), str(HERE / "peers.c")]
    done = subprocess.run(
        [*cc.split(), *FLAGS, *more, "-o", str(to), *sources, "-libverbs", "-lrdmacm", "-lpthread"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return to
