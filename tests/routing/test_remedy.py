"""GUID files for trees that are not pure: with them ftree fits, here and in stock OpenSM."""

from __future__ import annotations

import re

import numpy as np
import pytest

from softib.routing.engine import RouteOptions, route
from softib.routing.engines.ftree import remedy
from softib.routing.proof.verify import verify
from softib.routing.quality import balance
from tests.routing.fabrics import clos, kary_tree, ring, torus
from tests.routing.lab import changed
from tests.routing.stock_sm import ibsim, opensm

FLAWS = {
    "a cable fewer below": lambda: changed(kary_tree(3, 3, True), cut=(5,)),
    "a cable fewer above": lambda: changed(kary_tree(3, 3, True), cut=(len(kary_tree(3, 3, True).peer) // 2 - 2,)),
    "a management switch on a core": lambda: changed(kary_tree(3, 3, True), hung=[(36, 1)]),
    "a management switch on a spine of two levels": lambda: changed(clos(8, 4, 4), hung=[(9, 1)]),
    "a management switch below a leaf": lambda: changed(kary_tree(3, 3, True), hung=[(0, 2)]),
    "an empty switch on a core": lambda: changed(kary_tree(3, 3, True), hung=[(38, 0)]),
    "storage on a core and a cable fewer": lambda: changed(kary_tree(3, 3, True), hosts=(37,), cut=(9,)),
    "a leaf without hosts": lambda: changed(kary_tree(3, 3, True), empty=(2,), cut=(40,)),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_with_the_files_ftree_fits_and_carries_more(flaw):
    g = FLAWS[flaw]()
    found = remedy(g)
    assert found is not None
    alone = route(g, "ftree")
    assert alone.engine == "ftree" and (alone.lft == found.routing.lft).all(), "ours needs no files"
    again = route(g, "ftree", found.options)
    assert again.engine == "ftree" and (again.lft == found.routing.lft).all()
    proof = verify(g, again.lft)
    assert proof.unreachable == 0 and proof.deadlock_free
    assert balance(g, again.lft).most <= balance(g, route(g, "updn").lft).most
    assert set(found.options.root_guids) <= {int(x) for x in g.switch_guid}
    assert remedy(g, found.options) is None, "with the roots given there is nothing to mend"


@pytest.mark.stock
@pytest.mark.parametrize("flaw", FLAWS)
def test_stock_opensm_takes_the_same_files(flaw, stock, tmp_path):
    g = FLAWS[flaw]()
    found = remedy(g)
    words = []
    for option, guids in (("-a", found.options.root_guids), ("-G", found.options.io_guids)):
        if guids:
            (tmp_path / f"guids{option}").write_text("".join(f"{x:#018x}\n" for x in guids))
            words += [option, str(tmp_path / f"guids{option}")]
    with ibsim(stock("ibsim"), g, tmp_path) as env:
        log = opensm(stock("opensm"), env, tmp_path, "ftree", *words)
    assert re.findall(r"(\S+) tables configured on all switches", log)[-1] == "ftree", log[-800:]


@pytest.mark.parametrize("make", [lambda: clos(6, 3, 3), lambda: kary_tree(3, 3), lambda: ring(5), lambda: torus(3, 3)])
def test_whole_trees_and_what_is_no_tree_have_none(make):
    assert remedy(make()) is None


def test_what_is_named_already_stays():
    g = FLAWS["storage on a core and a cable fewer"]()
    storage = int(g.end_guid[np.flatnonzero(~g.end_is_switch & (g.end_switch == 37))][0])
    assert remedy(g).options.io_guids == (storage,)
    assert remedy(g, RouteOptions(io_guids=(storage,))).options.io_guids == (storage,)
