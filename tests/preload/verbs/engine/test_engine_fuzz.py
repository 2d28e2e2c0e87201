"""Random programs of posting, polling, breaking and destroying, under sanitizers."""

from __future__ import annotations

import pytest

from tests.preload.verbs.engine.engine_programs import run


def fuzz(folder, sanitizer, seed, seconds):
    counts = run("fuzz", sanitizer, folder, seed, seconds).split()
    posted, received, lives = int(counts[0]), int(counts[2]), int(counts[4])
    assert posted > 500 and received > 100 and lives > 20, counts


@pytest.mark.parametrize("sanitizer", ["address", pytest.param("thread", marks=pytest.mark.slow)])
def test_a_second(folder, sanitizer):
    fuzz(folder, sanitizer, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_ten_seconds(folder, sanitizer):
    fuzz(folder, sanitizer, 2, 10)


def many_processes(folder, seed, seconds, limit_s=180.0):
    counts = run("many_processes", "address", folder, seed, seconds, limit_s=limit_s).split()
    posted, good, bad, kills = (int(counts[i]) for i in (0, 2, 4, 6))
    assert posted > 100 * seconds and good > 10 * seconds and bad > 10 * seconds and kills > seconds, counts


def test_processes_that_do_anything_and_are_killed(folder):
    """Nobody crashes or hangs, no octet changes outside the regions that may be written, every status is a right one."""
    many_processes(folder, 1, 3)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", (2, 3))
def test_processes_that_do_anything_for_a_minute(folder, seed):
    many_processes(folder, seed, 60, 300)
