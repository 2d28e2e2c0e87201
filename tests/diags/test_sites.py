"""Faults in sites of the forms that people build, planted by lists of cables (``sites.py``): how many are named.

The floor of each cell is what was measured with five seeds; where names and places tell nothing the floor is 0, and nothing
false may be said.
"""

from __future__ import annotations

import pytest

from softib.diags.check import check
from tests.diags.sites import SITES, recall

NAMED = ["names", "one-number", "racks", "nameless", "serials-in-order"]
"""Sites whose hosts are numbered in the order of their places."""
HOSTS = [
    "dead host",
    "hosts turned by a port",
    "hosts moved up a port",
    "two hosts swapped at a leaf",
    "exchanged hosts",
    "exchanged racks",
]
TELLS_NOTHING = {("serials", "exchanged hosts"), ("serials", "exchanged racks")}
"""Serial numbers in no order: a host in another's place is a host like it in a place like it."""


@pytest.mark.parametrize("site", SITES)
def test_a_clean_site_has_no_finding_about_its_cables(site: str) -> None:
    assert {f.code for f in check(SITES[site]().fabric())} <= {"unnamed-nodes"}


@pytest.mark.parametrize("fault", HOSTS)
@pytest.mark.parametrize("site", [*NAMED, "serials"])
def test_hosts_out_of_place_are_named(site: str, fault: str) -> None:
    found = recall(site, fault, range(2))
    assert not found.stray, found.stray
    if (site, fault) not in TELLS_NOTHING:
        assert found.named == found.planted, found.missed


@pytest.mark.parametrize("site", ["serials", "serials-in-order"])
def test_a_lost_adapter_of_hosts_without_separators_is_named(site: str) -> None:
    found = recall(site, "lost adapter", range(3))
    assert found.named == found.planted == 3 and not found.stray, found.missed


@pytest.mark.parametrize("fault", ["leaf to leaf", "spine to spine", "two leaf to leaf"])
@pytest.mark.parametrize("site", ["names", "nameless", "serials"])
def test_a_cable_within_a_tier_is_named(site: str, fault: str) -> None:
    found = recall(site, fault, range(3))
    assert found.named == found.planted and not found.stray, (found.missed, found.stray)
