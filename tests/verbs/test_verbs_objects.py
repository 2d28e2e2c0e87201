"""What several processes share: imported regions and device memory, XRC targets. The programs are in ``programs/``."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

import pytest

from softib.preload import build
from tests.verbs.applications import A

PROGRAMS = Path(__file__).with_name("programs")
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror")


@functools.cache
def program(name: str) -> str:
    """``programs/NAME.c``, compiled once a test run against the system's libibverbs."""
    cc = build.compiler()
    if cc is None or build.missing_headers():
        pytest.skip("no C compiler, or libibverbs-dev is not installed")
    to = Path(tempfile.mkdtemp(prefix="softib-programs-")) / name
    done = subprocess.run([*cc.split(), *FLAGS, "-o", str(to), str(PROGRAMS / f"{name}.c"), "-libverbs", "-lpthread"],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return str(to)


def run(apps, node: str, *words: str, limit_s: float = 60) -> str:
    done = subprocess.run(apps.on(node, *words), env=apps.env, capture_output=True, text=True, timeout=limit_s)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("scene", ("regions", "memory", "target"))
def test_another_process_uses_what_it_imports(apps, scene):
    """By the descriptor of the context, passed through a socket; XRC by the domain's file."""
    assert run(apps, A, program("imports"), scene) == "ok\n"
