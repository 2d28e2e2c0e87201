"""In grids of a few switches a swap is named, or its cables are said to have no place; another swap never is. Before the coordinates in the
names decided, half of the swaps in a 4 × 2 torus were answered by the other exchange of plugs that makes a torus of the same sizes."""

from __future__ import annotations

import numpy as np
import pytest

from softib.diags.check import check
from softib.fabric.topologies.registry import generate
from tests.fabric.random_faults import random_swap

SWAPS = {"swapped-cables", "crossed-rails", "exchanged-switches", "misplaced-cable", "missing-cable"}


@pytest.mark.parametrize(("dims", "hosts"), (([4, 2], 1), ([5, 2], 3), ([2, 2, 2], 1), ([3, 3], 3)))
def test_the_planted_swap_and_no_other(dims: list[int], hosts: int) -> None:
    named = 0
    for seed in range(6):
        fabric = generate("torus", dims=dims, hosts_per_switch=hosts)
        tier = next(t for t in fabric.source.generator["tiers"] if "host" not in t)
        planted = frozenset(random_swap(fabric, np.random.default_rng(seed), tier=tier).where)
        every = check(fabric)
        findings = [f for f in every if f.code in SWAPS]
        assert all(frozenset(map(str, f.where)) == planted for f in findings), (seed, [f.message for f in findings])
        assert findings or "unjudged-cables" in {f.code for f in every}, (seed, planted)
        named += bool(findings)
    assert named >= 4


@pytest.mark.parametrize("dims", ([6, 2], [4, 4]))
def test_exchanged_switches_are_no_swaps(dims: list[int]) -> None:
    """Every cable of two switches is exchanged: no pair of cables is blamed."""
    fabric = generate("torus", dims=dims, hosts_per_switch=1)
    switches = np.flatnonzero(fabric.is_switch)[[0, 3]]
    fabric.node_desc[switches] = fabric.node_desc[switches[::-1]]
    assert [f.code for f in check(fabric)] == ["exchanged-switches"]
