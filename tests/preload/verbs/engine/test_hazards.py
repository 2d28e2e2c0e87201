"""What was taken away is not written to any more, whatever becomes of the writer; and messages arrive in order."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.preload.verbs.engine.engine_programs import FOLDERS, program


def play(folder, what: str, seed: int, rounds: int, limit_s: float = 240) -> None:
    done = subprocess.run(
        [program("hazards", FOLDERS, ("-O2",)), folder, what, str(seed), str(rounds)],
        capture_output=True,
        text=True,
        timeout=limit_s,
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_nobody_copies_after_a_revocation(folder):
    """Half of the writers are killed in the middle of a copy, with the reference in their hands."""
    play(folder, "revoke", 1, 25)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nobody_copies_after_a_thousand_revocations(folder):
    play(folder, "revoke", 2, 1000, 500)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two processors: one writes while the other looks")
def test_the_last_word_comes_last(folder):
    play(folder, "order", 1, 10_000)


@pytest.mark.slow
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two processors: one writes while the other looks")
def test_the_last_word_comes_last_a_million_times(folder):
    play(folder, "order", 2, 1_000_000, 110)
