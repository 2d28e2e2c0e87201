"""Full bisection by construction: whatever half of the hosts talks to the other half, every host gets its whole link."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.faults import inject
from softib.fabric.topologies.registry import generate

from .graphs import max_flow


def worst_halves(f, seeds=6):
    """Smallest flow between random halves and between the two ends of the host list, in hosts' links."""
    hosts = f.cas
    half = len(hosts) // 2
    orders = [hosts, *(np.random.default_rng(s).permutation(hosts) for s in range(seeds))]
    return min(max_flow(f, o[:half], o[half : 2 * half]) for o in orders), half


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("fat-tree", {"radix": 8, "levels": 2}),
        ("fat-tree", {"radix": 6, "levels": 3}),
        ("fat-tree", {"radix": 8, "hosts": 50}),
        ("fat-tree", {"radix": 8, "hosts": 77, "levels": 3}),
        ("fat-tree", {"radix": 12, "hosts": 30}),
        ("fat-tree", {"radix": 12, "levels": 2, "parallel": 3}),
        ("fat-tree", {"radix": 4, "levels": 4}),
        ("rail-optimized", {"nodes": 7, "rails": 4, "radix": 8}),
        ("rail-optimized", {"nodes": 20, "rails": 4, "radix": 8}),
    ],
)
def test_full_bisection(kind, params):
    flow, half = worst_halves(generate(kind, **params))
    assert flow == half


def test_oversubscribed_and_damaged_trees_have_less():
    f = generate("fat-tree", radix=12, levels=2, oversubscription=2)
    hosts = f.cas
    half = len(hosts) // 2
    assert max_flow(f, hosts[:half], hosts[half:]) == half // 2, "2:1 halves what the two ends can exchange"
    g = generate("fat-tree", radix=8, levels=2)
    inject.dead_switch(g, "spine-1")
    assert max_flow(g, g.cas[:16], g.cas[16:]) == 12, "one of four spines gone: three quarters left"
