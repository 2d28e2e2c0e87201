"""torus-2QoS against its manual pages: torus-2QoS(8) and torus-2QoS.conf(5)."""

import itertools

import numpy as np
import pytest

from softib.routing.engine import RouteOptions, route
from softib.routing.engines.minhop import DoesNotFit
from softib.routing.engines.torus import recognise
from softib.routing.engines.torus_config import parse
from softib.routing.proof.verify import verify
from tests.routing.engines.torus_lab import Lab


def proof(lab, r):
    return verify(lab.graph, r.lft, r.path_sl, r.sl2vl)


WHOLE = {
    "6x5": (6, 5, 1),
    "4x4x4": (4, 4, 4),
    "3x3x3": (3, 3, 3),
    "5x4x3": (5, 4, 3),
    "1x4x5": (1, 4, 5),
    "2x5x6": (2, 5, 6),
    "8x1x3": (8, 1, 3),
    "8x4x1": (8, 4, 1),
    "16x1x4": (16, 1, 4),
    "12x8x1": (12, 8, 1),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_torus_takes_two_vls_and_the_order_of_dimensions(name):
    lab = Lab(*WHOLE[name])
    r = lab.routed()
    p = proof(lab, r)
    assert p.ok and p.vls <= 2 == r.vls
    assert p.answer_loop is None and p.switch_loop is None, (
        "a connection has one SL both ways, and switches answer on the request's"
    )
    rng = np.random.default_rng(1)
    for a, b in rng.integers(0, len(lab.position), (60, 2)):
        hops = lab.path(r, lab.position[a], lab.position[b])
        axes = [next(d for d in range(3) if p[d] != q[d]) for p, q in itertools.pairwise(hops)]
        assert axes == sorted(axes)
        short = [
            min((y - x) % n, (x - y) % n) for x, y, n in zip(lab.position[a], lab.position[b], lab.radix, strict=True)
        ]
        assert len(axes) == sum(short)
        crossed = sum(
            {
                1 << d
                for d, (p, q) in zip(axes, itertools.pairwise(hops), strict=True)
                if abs(p[d] - q[d]) > 1 or (lab.radix[d] == 2 and p[d] > q[d])
            }
        )
        for d, (x, y) in enumerate(zip(lab.position[a], lab.position[b], strict=True)):
            if lab.radix[d] == 4 and abs(x - y) == 2:
                crossed &= ~(1 << d)  # either way round, and nothing waits for a link but such paths
        if 2 not in lab.radix:
            assert r.sl(a, int(np.flatnonzero((lab.graph.end_switch == b) & ~lab.graph.end_is_switch)[0])) == crossed, (
                "sl |= path_crosses_dateline(d) << d"
            )


def test_vls_by_the_law_of_the_manual():
    lab = Lab(4, 5, 3)
    r, t = lab.routed(), recognise(lab.graph, parse(lab.config()))
    g = lab.graph
    cdir = np.full(r.sl2vl.shape[:2], -1)
    for s in range(g.n_switches):
        for e in range(g.first[s], g.first[s + 1]):
            cdir[s, g.out_port[e]] = np.flatnonzero(t.position[g.peer[e]] != t.position[s])[0]
    for s, i, o, sl in np.random.default_rng(2).integers(0, [*r.sl2vl.shape], (500, 4)):
        to, came = cdir[s, o], cdir[s, i]
        vl = (sl >> 3) if to < 0 else (sl >> to & 1) | (2 if came > to else 0) | (sl >> 3 << 2)
        assert r.sl2vl[s, i, o, sl] == vl
    assert r.end_sl2vl.tolist() == [0] * 8 + [1] * 8


def test_a_broken_ring_is_taken_the_other_way_with_the_same_sl():
    """The manual's 6x5 example: S at (1, 1), D at (3, 3)."""
    whole, broken = Lab(6, 5, 1), Lab(6, 5, 1, cut=[((1, 1, 0), (2, 1, 0))])
    a, b = whole.routed(), broken.routed()
    assert whole.path(a, (1, 1, 0), (3, 3, 0)) == [(1, 1, 0), (2, 1, 0), (3, 1, 0), (3, 2, 0), (3, 3, 0)]
    assert broken.path(b, (1, 1, 0), (3, 3, 0)) == [
        (1, 1, 0),
        (0, 1, 0),
        (5, 1, 0),
        (4, 1, 0),
        (3, 1, 0),
        (3, 2, 0),
        (3, 3, 0),
    ]
    assert (a.path_sl == b.path_sl).all() and proof(broken, b).ok


@pytest.mark.parametrize(
    "missing, around",
    [
        ([(3, 1, 0)], [(1, 1, 0), (2, 1, 0), (2, 2, 0), (3, 2, 0), (3, 3, 0)]),
        ([(3, 1, 0), (3, 2, 0)], [(1, 1, 0), (2, 1, 0), (2, 2, 0), (2, 3, 0), (3, 3, 0), (3, 4, 0)]),
    ],
)
def test_a_missing_switch_is_passed_by_an_early_turn(missing, around):
    """The manual's examples S-n-I-r-D and S-n-q-I-u-D."""
    lab = Lab(6, 6, 1, missing=missing)
    r = lab.routed()
    assert lab.path(r, around[0], around[-1]) == around
    p = proof(lab, r)
    assert p.ok and r.vls == 4 and p.vls > 2, "the hop after the illegal turn has VLs of its own"


@pytest.mark.parametrize("missing", [[(2, 2, 2)], [(0, 0, 1)], [(4, 4, 4)]])
def test_any_one_switch_of_a_3d_torus_may_fail(missing):
    lab = Lab(5, 5, 5, missing=missing)
    assert proof(lab, lab.routed(origin=(1, 1, 1))).ok


def test_a_ring_in_pieces_is_refused():
    lab = Lab(6, 6, 1, cut=[((1, 1, 0), (2, 1, 0)), ((3, 1, 0), (4, 1, 0))])
    r = route(lab.graph, "torus-2QoS", RouteOptions(torus_config=lab.config()))
    assert r.engine == "minhop" and "without a path" in r.notes[-1]


def test_a_mesh_needs_no_dateline():
    lab = Lab(4, 5, 1, wraps=(0, 0, 0))
    r = lab.routed()
    assert proof(lab, r).ok and not r.path_sl.any()


def test_parallel_cables_share_the_hosts_of_a_switch():
    lab = Lab(5, 5, 1, hosts=4, parallel=2)
    r = lab.routed()
    lids = lab.graph.end_lid[(lab.graph.end_switch == lab.at[1, 0, 0]) & ~lab.graph.end_is_switch].astype(int)
    assert sorted(np.unique(r.lft[lab.at[0, 0, 0], lids], return_counts=True)[1]) == [2, 2]
    assert lab.routed(more="port_order 12 11 10 9\n").lft.tolist() != r.lft.tolist()


def test_the_dateline_of_another_seed_stays_in_its_place():
    lab = Lab(6, 5, 1)
    a = lab.routed()
    b = lab.routed(origin=(2, 1, 0), more="x_dateline -2\ny_dateline -1\n")
    assert (a.path_sl == b.path_sl).all() and (a.lft == b.lft).all()


def test_the_first_seed_that_is_whole_is_taken():
    lab = Lab(6, 5, 1)
    gone = "torus 6 5 1\nxp_link 0x900 0x1\nyp_link 0x900 0x2\nnext_seed\n"
    text = gone + lab.config().split("\n", 2)[2]
    assert route(lab.graph, "torus-2QoS", RouteOptions(torus_config=text)).engine == "torus-2QoS"


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "no torus-2QoS.conf is given"),
        ("# nothing\n", "names no torus or mesh"),
        ("torus 3 4\n", "line 1: a word is missing"),
        ("xp_link 1 2\n", "names no torus or mesh"),
        ("torus 3 x 1\n", "names no torus or mesh of three radixes"),
        ("torus 3 3 1\n\nxq_link 1 2\n", "line 3: unknown keyword"),
        ("torus 3 3 1\nxp_link 1\n", "line 2: a word is missing"),
        ("torus 3 3 1\nxp_link 1 0x%s\n", "seed 1 has no link along y"),
        ("torus 3 3 1\nxp_link 1 2\nyp_link 2 3\n", "should begin at one switch"),
        ("torus 0 3 1\n", "names no torus or mesh of three radixes"),
        ("torus 6 5 1\nxp_link 1 6\n", "no link along y"),
        ("torus 3 5 1\nxp_link 1 6\nyp_link 1 2\n", "have no position"),
    ],
)
def test_what_is_wrong_with_a_configuration_is_told_in_one_line(text, reason):
    import re

    r = route(Lab(6, 5, 1).graph, "torus-2QoS", RouteOptions(torus_config=text))
    assert r.engine == "minhop" and re.search(reason, r.notes[-1]) and "\n" not in r.notes[-1]


def test_cables_that_fit_in_nowhere_are_counted():
    """A radix too large makes a column of holes: the cables across them join no neighbours."""
    lab = Lab(6, 5, 1)
    r = route(lab.graph, "torus-2QoS", RouteOptions(torus_config="torus 7 5 1\nxp_link 1 6\nyp_link 1 2\n"))
    assert any("5 cables join no neighbours" in n for n in r.notes) and proof(lab, r).ok


def test_the_manuals_example_is_read():
    text = """# Look for a 2D (since x radix is one) 4x5 torus.
torus 1 4 5
yp_link 0x200000 0x200005  # sw @ y=0,z=0 -> sw @ y=1,z=0
ym_link 0x200000 0x20000f  # sw @ y=0,z=0 -> sw @ y=3,z=0
zp_link 0x200000 0x200001  # sw @ y=0,z=0 -> sw @ y=0,z=1
next_seed
yp_link 0x20000b 0x200010  # the manual forgets its ym_link, without which OpenSM refuses a ring of four (ERR 4E26)
zp_link 0x20000b 0x20000c
y_dateline -2  # Move the dateline for this seed
z_dateline -1
port_order 7 10 8 11 9 12 25 28 26 29 27 30
"""
    with pytest.raises(DoesNotFit, match="seed 2 has no ym_link"):
        parse(text)
    config = parse(text.replace("zp_link 0x20000b", "ym_link 0x20000b 0x200006\nzp_link 0x20000b"))
    assert config.radix == [1, 4, 5] and config.wraps == [False, True, True] and len(config.seeds) == 2
    assert config.seeds[0].links[1, -1] == (0x200000, 0x20000F) and config.seeds[1].dateline == [0, -2, -1]
    assert config.port_order[:3] == [7, 10, 8]
    links = "\nxp_link 1 2\nyp_link 1 3\nzp_link 1 4"
    assert parse("mesh 3T 4 5" + links).wraps == parse("torus 3 4M 5M" + links).wraps == [True, False, False], (
        "the manual's two ways to say it"
    )
    with pytest.raises(DoesNotFit):
        parse("hypercube 2 2 2")
