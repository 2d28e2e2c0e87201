"""Programs in ``programs/``: compiled against stock libibverbs, run on a node of a fabric."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

import pytest

from softib.preload import build
from tests.preload.verbs.applications import stop
from tests.scratch import scratch

PROGRAMS = Path(__file__).with_name("programs")

FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-rdynamic")
SANITIZE = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
    "-O1",
    "-Wno-format-truncation",
)
"""Without the warning that instrumented code gives where the plain one does not."""


@functools.cache
def program(name: str, folder: Path = PROGRAMS) -> str:
    """``programs/NAME.c``, or NAME.c of another folder, compiled once a test run against the system's libibverbs."""
    cc = build.compiler()
    if cc is None or build.missing_headers():
        pytest.skip("no C compiler, or libibverbs-dev is not installed")
    to = scratch("softib-programs-") / name
    done = subprocess.run(
        [*cc.split(), *FLAGS, "-o", str(to), str(folder / f"{name}.c"), "-libverbs", "-lpthread"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return str(to)


def run(apps, node: str, *arguments: str, limit_s: float = 240) -> str:
    done = subprocess.run(apps.on(node, *arguments), env=apps.env, capture_output=True, text=True, timeout=limit_s)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def output(program: subprocess.Popen) -> str:
    stop(program)
    return program.communicate()[0]
