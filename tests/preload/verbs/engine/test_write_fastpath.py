"""A small write to where the last one went takes a short way: it must come to the same as the long one, whatever has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.preload.verbs.engine.engine_programs import run


def outcomes(folder, seed: int, steps: int, path: str) -> tuple[str, int]:
    """All that was seen of ``steps`` writes, and how many of them could go the short way."""
    directory = Path(folder, path)  # keys begin anew
    directory.mkdir()
    *seen, repeated = run("write_fastpath", "address", directory, seed, steps, path).split()
    return " ".join(seen), int(repeated)


@pytest.mark.parametrize("seed", (1, 2))
def test_the_fast_path_comes_to_the_same_as_the_general_one(folder, seed, steps=3000):
    short, often = outcomes(folder, seed, steps, "short")
    assert often > steps // 4  # else nothing is said about the short way
    assert outcomes(folder, seed, steps, "long") == (short, 0)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_does_so_in_many_more_cases(folder):
    test_the_fast_path_comes_to_the_same_as_the_general_one(folder, 3, 100_000)
