"""Lost answers: the requester sends again after its timer, and the responder executes nothing twice (IBA 9.7.5.1.1)."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.preload.verbs.engine.engine_programs import FOLDERS, SANITIZERS, program


def play(folder, count: int, seed: int, *flags: str) -> None:
    done = subprocess.run(
        [program("acks", FOLDERS, flags), folder, str(seed), str(count)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    waited = int(re.search(r"late (\d+)", done.stdout)[1]) / count
    lost = 1 - 0.98 * 0.8  # the request, or its answer
    assert abs(waited - lost) < 6 * (lost * (1 - lost) / count) ** 0.5, waited


def test_six_hundred(folder):
    play(folder, 600, 3, *SANITIZERS["address"])


@pytest.mark.slow
def test_twenty_thousand(folder):
    play(folder, 20_000, 5, "-O2")
