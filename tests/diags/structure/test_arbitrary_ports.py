"""Trees whose cables are plugged into arbitrary ports: no port number has a rule, and the table of links is even."""

from __future__ import annotations

import random

import pytest

from softib.diags.check import check
from softib.fabric.model import Fabric
from tests.diags.sites import Site

SEEDS = 20
SHAPES = {"10 leaves": (10, 6, 3, 18, 36), "16 leaves": (16, 8, 2, 16, 36), "6 leaves": (6, 3, 4, 20, 36)}
"""Leaves, spines, cables from each leaf to each spine, hosts of a leaf, ports of a switch."""


def arbitrary(seed: int, shape: str = "10 leaves", *, hosts_in_order: bool = False) -> Site:
    leaves, spines, parallel, hosts, radix = SHAPES[shape]
    rng, s = random.Random(seed), Site()
    for i in range(leaves):
        s.nodes[f"leaf{i}"] = (True, radix, f"ufm-sw{i + 1:02d}")
    for j in range(spines):
        s.nodes[f"spine{j}"] = (True, radix, f"top{j + 1}")
    ports = {key: rng.sample(range(1, radix + 1), radix) for key in s.nodes}
    for i in range(leaves):
        own = ports[f"leaf{i}"]
        if hosts_in_order:
            own[:] = [p for p in own if p > hosts] + list(range(hosts, 0, -1))
        for j in range(spines):
            for _ in range(parallel):
                port = own.pop(0) if hosts_in_order else own.pop()
                s.cables.append(((f"leaf{i}", port), (f"spine{j}", ports[f"spine{j}"].pop())))
        for h in range(hosts):
            s.nodes[f"host{i}.{h}"] = (False, 1, f"node{i * hosts + h + 1:04d} HCA-1")
            s.cables.append(((f"leaf{i}", own.pop()), (f"host{i}.{h}", 1)))
    return s


def between(s: Site, leaf: str, spine: str) -> int:
    return next(k for k, (a, c) in enumerate(s.cables) if (a[0], c[0]) == (leaf, spine))


def findings(fabric: Fabric) -> list[tuple[str, str]]:
    return [(f.code, f.message) for f in check(fabric)]


@pytest.mark.parametrize("hosts_in_order", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "seeds", [range(6), pytest.param(range(6, SEEDS), marks=pytest.mark.slow)], ids=("first", "others")
)
def test_healthy_trees_have_no_finding(shape: str, hosts_in_order: bool, seeds: range) -> None:
    for seed in seeds:
        assert findings(arbitrary(seed, shape, hosts_in_order=hosts_in_order).fabric()) == [], seed


def test_a_missing_cable_is_the_only_finding() -> None:
    for seed in range(10):
        s = arbitrary(seed)
        del s.cables[between(s, "leaf2", "spine1")]
        ((code, message),) = findings(s.fabric())
        assert code == "missing-uplinks", seed
        assert message.startswith("ufm-sw03: 17 uplinks, the others of its kind have 18; fewer to top2"), seed


def test_a_swap_names_its_two_leaves_and_both_spines() -> None:
    """Which of the three cables of a bundle is in the wrong port cannot be known."""
    for seed in range(10):
        s = arbitrary(seed)
        k, m = between(s, "leaf2", "spine1"), between(s, "leaf6", "spine4")
        s.cables[k], s.cables[m] = (s.cables[k][0], s.cables[m][1]), (s.cables[m][0], s.cables[k][1])
        assert findings(s.fabric()) == [
            ("uneven-spines", "ufm-sw03: more links than its kind to top5, fewer to top2"),
            ("uneven-spines", "ufm-sw07: more links than its kind to top2, fewer to top5"),
        ], seed
