"""Exchanged switches, and cables that a topology has no place for: planted as lists of cables, named whole."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from softib.diags.check import check
from softib.diags.finding import Finding
from softib.fabric.topologies.registry import generate
from tests.diags.sites import Site, exchange, exchanged_racks, tree
from tests.extent import extent

DIRECT = {
    "torus": ("torus", {"dims": [4, 4], "hosts_per_switch": 2, "radix": 12}),
    "mesh": ("mesh", {"dims": [5, 4], "hosts_per_switch": 2, "radix": 12}),
    "hyperx": ("hyperx", {"dims": [4, 4], "hosts_per_switch": 2, "radix": 10}),
    "dragonfly": ("dragonfly", {"g": 9, "a": 4, "p": 2, "h": 2, "radix": 9}),
    "dragonfly+": ("dragonfly+", {"g": 5, "radix": 10, "l": 4, "s": 4, "p": 4, "h": 4}),
}
TREES = {
    "tree": lambda: tree(leaves=10, hosts=6, spines=8, parallel=1),
    "rails": lambda: Site.of(generate("rail-optimized", nodes=32, rails=4, radix=16)),
}


def _site(shape: str) -> Site:
    if shape in TREES:
        return TREES[shape]()
    kind, parameters = DIRECT[shape]
    return Site.of(generate(kind, **parameters))


def _switches(site: Site) -> list[str]:
    return [key for key, node in site.nodes.items() if node[0]]


def _places(site: Site, finding: Finding) -> set[tuple[str, int]]:
    return {(site.key_of[p.guid], p.portnum) for p in finding.where if p.portnum is not None}


@pytest.mark.parametrize("shape", [*DIRECT, *TREES])
def test_two_switches_in_each_others_place_are_one_finding(shape: str) -> None:
    clean = _site(shape)
    with_hosts = {key for key in _switches(clean) if clean.hosts_of(key)}
    alike = [p for p in combinations(_switches(clean), 2) if (p[0] in with_hosts) == (p[1] in with_hosts)]
    for pair in np.random.default_rng(29).permutation(alike)[: extent(1, 20)].tolist():
        site = clean.copy()
        truth = exchange(site, *pair)
        found = check(site.fabric())
        assert [f.code for f in found] == ["exchanged-switches"], (pair, [f.message for f in found])
        assert {*pair} <= {site.key_of[p.guid] for p in found[0].where} and truth.ports >= _places(site, found[0])
        assert len(_places(site, found[0])) >= 0.8 * len(truth.ports)


def test_three_switches_that_changed_places_in_turn_are_one_finding() -> None:
    site = Site.of(generate("torus", dims=[4, 6], hosts_per_switch=1, radix=12))
    a, b, c = (_switches(site)[n] for n in (2, 9, 17))
    exchange(site, a, b)
    exchange(site, b, c)
    (found,) = check(site.fabric())
    assert found.code == "exchanged-switches" and {site.key_of[p.guid] for p in found.where} == {a, b, c}


def test_racks_exchanged_below_their_leaves_are_no_exchange_of_switches() -> None:
    """The uplinks of both leaves are right."""
    site = TREES["tree"]()
    exchanged_racks(site, np.random.default_rng(3))
    assert [f.code for f in check(site.fabric())] == ["exchanged-leaves"]


@pytest.mark.parametrize("shape", DIRECT)
def test_a_cable_on_free_ports_of_a_direct_network_is_named(shape: str) -> None:
    clean = _site(shape)
    leaves = [key for key in _switches(clean) if clean.hosts_of(key)]
    pairs = np.random.default_rng(7).permutation(list(combinations(leaves, 2)))[: extent(2, 30)].tolist()
    for one, other in pairs:
        site = clean.copy()
        ends = (one, site.nodes[one][1]), (other, site.nodes[other][1])
        assert all(port in site.free(key) for key, port in ends)
        site.cables.append(ends)
        (found,) = check(site.fabric())
        assert found.code == "extra-cable" and _places(site, found) == set(ends), found.message
