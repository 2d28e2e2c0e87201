"""A ring by its steady state, fill and drain equals every step of every rank."""

from __future__ import annotations

import numpy as np
import pytest

from softib.workloads.nccl.steady import enumerated_us, period_of, ring_us


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("loops", [1, 9])
def test_64_ranks_as_every_step_of_every_rank(seed: int, loops: int) -> None:
    """The bar: within 1e-9, for nodes that are alike and for hops that all differ."""
    rng = np.random.default_rng(seed)
    alike = seed % 2 == 0
    busy, late = (
        np.tile(x, 8) if alike else x
        for x in (rng.uniform(1, 50, 8 if alike else 64), rng.uniform(0, 30, 8 if alike else 64))
    )
    assert period_of(busy, late) == (8 if alike else 64)
    every = enumerated_us(busy, late, 126, loops)
    assert ring_us(busy, late, 126, loops) == pytest.approx(every, rel=1e-9)


def test_equal_hops_take_every_step_in_turn() -> None:
    """By hand: 2(n-1) steps of a hop that is busy 3 us and arrives 2 us later, all ranks in step."""
    assert ring_us(np.full(16, 3.0), np.full(16, 2.0), 30) == pytest.approx(30 * 5.0, rel=1e-12)


def test_a_slow_hop_is_the_limit() -> None:
    """One hop of 100 us and no latency elsewhere: its 30 chunks one after another, and the chain before it fills meanwhile."""
    busy = np.ones(16)
    busy[5] = 100.0
    assert 3000 <= ring_us(busy, np.zeros(16), 30) <= 3000 + 30


def test_many_ranks_take_no_longer_to_answer() -> None:
    """16,384 ranks in nodes of 8 that are alike: only the ranks of one node are run, and turns are counted."""
    busy, late = np.tile(np.linspace(1, 2, 8), 2048), np.tile(np.linspace(3, 4, 8), 2048)
    small = ring_us(busy[:64], late[:64], 126)
    large = ring_us(busy, late, 2 * 16383)
    assert large / (2 * 16383) == pytest.approx(small / 126, rel=0.05)
