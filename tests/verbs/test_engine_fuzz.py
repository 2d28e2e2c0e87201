"""Random programs of posting, polling, breaking and destroying, under sanitizers."""

from __future__ import annotations

import pytest

from tests.verbs.test_engine import folder, run

__all__ = ["folder"]


def fuzz(folder, sanitizer, seed, seconds):
    words = run("fuzz", sanitizer, folder, seed, seconds).split()
    posted, received, lives = int(words[0]), int(words[2]), int(words[4])
    assert posted > 500 and received > 100 and lives > 20, words


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_a_second(folder, sanitizer):
    fuzz(folder, sanitizer, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_ten_seconds(folder, sanitizer):
    fuzz(folder, sanitizer, 2, 10)
