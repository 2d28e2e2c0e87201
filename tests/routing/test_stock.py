"""Stock OpenSM on stock ibsim as the oracle: the same graph, its tables against ours."""

import re
from dataclasses import replace

import numpy as np
import pytest

from softib.iba.constants import LFT_NO_ROUTE
from softib.routing.engine import RouteOptions, route
from softib.routing.proof.verify import verify
from softib.routing.quality import balance
from tests.routing.brute import walk
from tests.routing.fabrics import kary_tree
from tests.routing.lab import GRAPHS, irregular
from tests.routing.stock_sm import ibsim, opensm, tables

pytestmark = pytest.mark.stock


TREES = ["clos", "22 leaves", "parallel cables", "3-ary 3 doubled", "4-ary 3"]


@pytest.fixture
def sm(stock, tmp_path):
    def run(g, engine, *more):
        with ibsim(stock("ibsim"), g, tmp_path) as env:
            log = opensm(stock("opensm"), env, tmp_path, engine, *more)
        lft, g = tables(tmp_path, g)
        return lft, g, log

    return run


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("lmc", [0, 2])
def test_minhop_tables_are_opensms_byte_for_byte(sm, name, lmc):
    lft, g, _ = sm(GRAPHS[name](), "minhop", "-l", str(lmc))
    if lmc:
        g = replace(g, end_lmc=np.where(g.end_is_switch, 0, lmc).astype(np.uint8), max_lid=with_lmc(g, lmc))
        lft = np.pad(lft, [(0, 0), (0, g.lft_size - lft.shape[1])], constant_values=255)
    assert (route(g, "minhop").lft == lft).all()


def with_lmc(g, lmc):
    top = g.end_lid.astype(int) + np.where(g.end_is_switch, 0, (1 << lmc) - 1)
    return int(top.max())


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("engine", ["updn", "dnup"])
def test_updn_and_dnup_send_cas_traffic_in_trees_as_opensm_does(sm, name, engine):
    lft, g, log = sm(GRAPHS[name](), engine)
    assert f"{engine} tables configured" in log
    ca = g.end_lid[~g.end_is_switch].astype(int)
    r = route(g, engine)
    assert (r.lft[:, ca] == lft[:, ca]).all()
    if name != "22 leaves":  # there OpenSM takes every switch for a root and cannot tell spines from leaves
        assert (r.lft == lft)[lft != LFT_NO_ROUTE].all()  # OpenSM leaves pairs of switches without a legal way out
    assert not verify(g, r.lft).switch_unreachable


@pytest.mark.parametrize("name", TREES)
def test_ftree_is_as_even_as_opensms(sm, name):
    lft, g, log = sm(GRAPHS[name](), "ftree")
    assert "ftree tables configured" in log
    r = route(g, "ftree")
    assert r.engine == "ftree"
    ours, theirs = balance(g, r.lft), balance(g, lft)
    assert ours.most <= theirs.most
    assert ours.destinations.max() <= theirs.destinations.max()
    assert verify(g, r.lft).hops == verify(g, lft).hops


@pytest.mark.parametrize("name", ["ring", "torus", "irregular a"])
@pytest.mark.parametrize("engine", ["updn", "ftree"])
def test_where_opensm_falls_back_to_minhop(sm, name, engine):
    """OpenSM's updn finds no roots there and its tables can deadlock; ours takes a root. ftree falls back like it, or takes detours."""
    lft, g, log = sm(GRAPHS[name](), engine)
    assert "minhop tables configured" in log
    assert verify(g, lft).credit_loop
    r = route(g, engine)
    if r.engine == "minhop":
        assert engine == "ftree" and (r.lft == lft).all()
    else:  # as a tree with detours, where that loads no link more than updn does
        proof = verify(g, r.lft)
        assert r.engine == engine and proof.ok and proof.switch_loop is None and not proof.switch_unreachable


@pytest.mark.parametrize("seed", range(4))
def test_with_the_same_roots_our_updn_is_no_longer_and_reaches_no_less(sm, tmp_path, seed):
    g = irregular(14, 16, 16, seed)
    guid = int(g.switch_guid[3])
    roots = tmp_path / "roots"
    roots.write_text(f"0x{guid:016x}\n")
    lft, g, log = sm(g, "updn", "-a", str(roots))
    assert "updn tables configured" in log
    r = route(g, "updn", RouteOptions(root_guids=(guid,)))
    ours, theirs = verify(g, r.lft), verify(g, lft)
    assert ours.ok and ours.unreachable <= theirs.unreachable


@pytest.mark.parametrize("name", ["ring", "torus", "irregular a", "irregular b"])
@pytest.mark.parametrize("engine", ["dfsssp", "lash"])
def test_no_more_vls_than_opensm(sm, name, engine):
    """Its log says how many it needs."""
    _, g, log = sm(GRAPHS[name](), engine, "-Q")
    needed = int(re.search(r"anes needed: (\d+)", log)[1])
    r = route(g, engine, RouteOptions(data_vls=needed))
    assert r.engine == engine and verify(g, r.lft, r.path_sl).ok and r.vls <= needed
    assert engine == "dfsssp" or verify(g, r.lft, r.path_sl).answer_loop is None, "lash's lanes hold both directions"


def test_hops_are_those_of_opensms_dump(sm, tmp_path):
    """``opensm.fdbs`` prints the hops from every switch to every LID: egress ports, as :class:`Proof` counts them."""
    lft, g, _ = sm(GRAPHS["irregular a"](), "minhop")
    rows = {int(x): s for s, x in enumerate(g.switch_guid)}
    seen = 0
    for line in (tmp_path / "opensm.fdbs").read_text().splitlines():
        if m := re.search(r"Switch 0x([0-9a-f]+)", line):
            s = rows[int(m[1], 16)]
        elif m := re.match(r"0x([0-9A-F]+) : (\d+)  : (\d+)", line):
            _, path = walk(g, lft, s, int(m[1], 16))
            assert len(path) == int(m[3])
            seen += 1
    assert seen == g.n_switches * len(g.end_lid)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["minhop", "updn"])
def test_tables_of_1024_hosts_are_opensms_byte_for_byte(sm, engine):
    lft, g, _ = sm(kary_tree(8, 3, True), engine)
    ours, ca = route(g, engine).lft, g.end_lid[~g.end_is_switch].astype(int)
    assert (ours[:, ca] == lft[:, ca]).all() and (ours == lft)[lft != LFT_NO_ROUTE].all()
    if engine == "minhop":
        assert (ours == lft).all()  # of updn's switches OpenSM leaves pairs without a legal way out
