"""Mutants through real sockets, several clients of each kind at once (``fuzzing``). Every sound request is answered or comes
back; nobody is disturbed; no MAD changes what is hardware.
"""

from __future__ import annotations

import pytest

from tests.live.ibsim.fuzzing import PARTS, all_at_once, control, devices, frames, lines


@pytest.mark.parametrize("part", PARTS, ids=lambda p: p.__name__)
def test_mutants_through_sockets(running, part):
    assert part(running, {frames: 4000, devices: 2000, lines: 500, control: 2000}[part], 1) > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_mutants_from_everybody_at_once(running):
    """All four kinds at the same time, each in a thread of its own."""
    shares = {"frames": 200_000, "devices": 60_000, "lines": 10_000, "control": 40_000}
    results = all_at_once(running, shares, 7, 500)
    print(results)
    assert all(isinstance(r, int) for r in results.values()) and len(results) == 4, results
