"""The owner of the memory copies, on order of its peers: ``engine/orders.c``."""

from __future__ import annotations

import subprocess

import pytest

from tests.preload.verbs.engine.engine_programs import SANITIZERS, program


@pytest.mark.parametrize("owner", ["sleep", pytest.param("poll", marks=pytest.mark.slow)])
@pytest.mark.parametrize("sanitizer", ["plain", *(pytest.param(name, marks=pytest.mark.slow) for name in SANITIZERS)])
def test_every_octet_arrives_and_the_dead_hold_nobody_up(folder, owner, sanitizer):
    flags = SANITIZERS.get(sanitizer, ("-O2",))
    done = subprocess.run(
        [program("orders", more=flags), folder, "1", "80", owner], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
