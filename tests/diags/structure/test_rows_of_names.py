"""Rows of names of different length, and rows that begin where the site begins to count, have no absent member."""

from __future__ import annotations

import random

import pytest

from softib.diags.check import check
from tests.diags.sites import Site, tree

RACKS, FIRST = 8, 3


def racks(hosts: list[int], *, across: bool = False) -> Site:
    """Rack r with ``hosts[r - 3]`` hosts ``r03n01`` …; ``across``: ``cn001`` … through all racks."""
    s = tree(len(hosts), 0, 6, 3, radix=40, leaf="ibsw-r{:02d}", spine="ibcore{}")
    n = 0
    for k, count in enumerate(hosts):
        s.nodes[f"leaf{k}"] = (True, 40, f"ibsw-r{k + FIRST:02d}")
        for i in range(count):
            n += 1
            s.nodes[f"host{k}.{i}"] = (False, 1, f"cn{n:03d}" if across else f"r{k + FIRST:02d}n{i + 1:02d}")
            s.cables.append(((f"leaf{k}", i + 1), (f"host{k}.{i}", 1)))
    return s


def absent(s: Site) -> list[tuple[str, str]]:
    return [(f.code, f.message) for f in check(s.fabric()) if f.code.startswith("absent")]


@pytest.mark.parametrize("across", [False, True])
def test_racks_filled_to_different_heights_lack_no_host(across: bool) -> None:
    rng = random.Random(7)
    for _ in range(40):
        hosts = [rng.choice([18, 18, 18, 17, 16, 12, 9]) for _ in range(RACKS)]
        assert absent(racks(hosts, across=across)) == [], hosts


@pytest.mark.parametrize("across", [False, True])
def test_a_host_within_the_run_of_its_rack_is_absent(across: bool) -> None:
    for i in range(1, 11):
        s = racks([18, 18, 17, 12, 18, 18, 18, 18], across=across)
        name = s.nodes[f"host3.{i}"][2]
        s.without({f"host3.{i}"})
        ((code, message),) = absent(s)
        assert code == "absent-host" and message.startswith(f"{name} is absent"), message


@pytest.mark.parametrize("start", [0, 1, 2])
@pytest.mark.parametrize("spines", [3, 4])
def test_no_switch_is_absent_before_the_site_begins_to_count(start: int, spines: int) -> None:
    """The leaves have as many free ports as one more spine would take."""
    s = tree(8, 20, spines, 4, radix=20 + 4 * (spines + 1), leaf="leaf-{}", spine="spine-{}")
    for k in range(8):
        s.nodes[f"leaf{k}"] = (*s.nodes[f"leaf{k}"][:2], f"leaf-{k + start}")
    for m in range(spines):
        s.nodes[f"spine{m}"] = (*s.nodes[f"spine{m}"][:2], f"spine-{m + start}")
    # The free ports are in front of the first spine.
    s.replug({(f"leaf{k}", p): (f"leaf{k}", p + 4) for k in range(8) for p in range(21, 21 + 4 * spines)})
    assert absent(s) == []
    later = s.copy()
    for m in range(spines):
        later.nodes[f"spine{m}"] = (*s.nodes[f"spine{m}"][:2], f"spine-{m + start + 1}")
    for _, message in absent(later):
        assert message.startswith(f"spine-{start} is absent")
