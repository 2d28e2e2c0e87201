"""Uplinks exchanged between leaves of director fabrics whose leaves have no names: found by what the four nodes miss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softib.diags.check import check
from softib.diags.finding import Finding
from softib.diags.structure.recognise import recognise
from softib.fabric.faults.inject import remove_cable, swap_cables
from softib.fabric.formats.registry import read
from softib.fabric.model import Fabric
from tests.fabric.formats.cabling.director import Made, director_fabric, rename

UNNAMED = "Quantum Mellanox Technologies"
TREE = {"swapped-cables", "missing-uplinks", "uneven-spines", "missing-cable", "misplaced-cable"}


def unnamed_director(rng: np.random.Generator, gaps: int = 0) -> Made:
    """Two directors, leaves with the maker's name, the uplinks of every third leaf in an order of their own."""
    made = director_fabric(leaves=20, directors=2, cards=5, adapters=4)
    f = made.fabric
    leaves = np.flatnonzero(f.is_switch)[:20].tolist()
    for leaf in leaves:
        rename(f, leaf, UNNAMED)
        own = rng.permutation([f.port(leaf, p) for p in range(21, 41)])[:10]
        for a, b in zip(own[0::2].tolist(), own[1::2].tolist(), strict=True):
            if leaf % 3 == 0:
                swap_cables(f, a, b)
    for leaf in rng.permutation(leaves)[:gaps].tolist():
        remove_cable(f, f"{f.node_guid[leaf]:#018x}[{int(rng.integers(21, 41))}]")
    return made


def uplinks(f: Fabric) -> list[tuple[int, int]]:
    """(leaf's port, director's port) as cabled now."""
    leaves = np.flatnonzero(f.is_switch)[:20].tolist()
    ports = [int(f.port(leaf, p)) for leaf in leaves for p in range(21, 41)]
    return [(p, int(f.port_peer[p])) for p in ports if f.port_peer[p] >= 0]


def where(findings: list[Finding]) -> list[set[tuple[int, int | None]]]:
    return [{(p.guid, p.portnum) for p in x.where} for x in findings if x.code == "swapped-cables"]


def named(f: Fabric) -> list[tuple[str, set[tuple[int, int | None]]]]:
    return [(x.code, {(p.guid, p.portnum) for p in x.where}) for x in check(f) if x.code in TREE]


def places(f: Fabric, ports: list[int]) -> set[tuple[int, int | None]]:
    return {(int(f.node_guid[f.port_node[p]]), int(f.port_num[p])) for p in ports}


def draw(f: Fabric, rng: np.random.Generator) -> list[int]:
    cables = uplinks(f)
    while True:
        (a, b), (c, d) = (cables[int(i)] for i in rng.integers(len(cables), size=2))
        if len({int(f.port_node[p]) for p in (a, b, c, d)}) == 4:
            return [a, b, c, d]


@pytest.mark.parametrize("seed", range(8))
def test_an_exchange_is_named_beside_missing_uplinks(seed: int) -> None:
    """The removed cable is named with both ports: those that it had in the same fabric without a gap."""
    rng = np.random.default_rng(seed)
    f = unnamed_director(rng, gaps=1).fabric
    (lost,) = set(uplinks(unnamed_director(np.random.default_rng(seed)).fabric)) - set(uplinks(f))
    missing = [("missing-cable", places(f, list(lost)))]
    assert named(f) == missing
    ends = draw(f, rng)
    swap_cables(f, ends[0], ends[2])
    assert sorted(named(f)) == [*missing, ("swapped-cables", places(f, ends))]


@pytest.mark.parametrize("seed", range(6))
def test_gaps_alone_are_no_exchange(seed: int) -> None:
    f = unnamed_director(np.random.default_rng(100 + seed), gaps=6).fabric
    assert where(check(f)) == []


def test_a_moved_uplink_is_no_exchange() -> None:
    """One leaf with a link too many to one chip and one too few to another has no partner."""
    rng = np.random.default_rng(5)
    f = unnamed_director(rng).fabric
    a, b, c, _ = draw(f, rng)
    swap_cables(f, a, c)
    remove_cable(f, f.port_name(b))
    assert where(check(f)) == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("file", ["hk-examples/Topo.6_CS8500.txt", "hk-examples/Topo6_CS7500.txt"])
def test_real_director_fabrics_with_a_planted_exchange(shared_data: Path, file: str, seed: int) -> None:
    """Of 200 random exchanges 199 are named on the first and 200 on the second; a few of them here."""
    if not (shared_data / file).is_file():
        pytest.skip(f"{file} is not among the real files")
    f = read(shared_data / file).fabric
    rng = np.random.default_rng(seed)
    rank = recognise(f).rank[f.port_node]
    low = np.flatnonzero((f.port_peer >= 0) & (rank == 1) & (rank[f.port_peer] == 2))
    up = [(int(p), int(f.port_peer[p])) for p in low]
    assert where(check(f)) == []
    while True:
        (a, b), (c, d) = (up[int(i)] for i in rng.integers(len(up), size=2))
        if len({int(f.port_node[p]) for p in (a, b, c, d)}) == 4:
            break
    swap_cables(f, a, c)
    assert where(check(f)) == [places(f, [a, b, c, d])]
