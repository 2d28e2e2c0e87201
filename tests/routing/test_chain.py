"""A list of engines, as OpenSM's ``-R`` takes one: the first that makes tables of its own is taken."""

import pytest

from softib.errors import UnknownName
from softib.fabric.topologies.registry import generate
from softib.routing.engine import route
from softib.routing.verify import verify
from softib.scenario.bring_up import bring_up

CLEAN = [
    ("torus", {"dims": [4, 4]}, "updn"),
    ("mesh", {"dims": [3, 4]}, "updn"),
    ("hyperx", {"dims": [4, 4]}, "updn"),
    ("ring", {"switches": 6}, "updn"),
    ("dragonfly", {"a": 4, "p": 2, "h": 2, "g": 9}, "updn"),
    ("fat-tree", {"radix": 8, "levels": 3}, "ftree"),
]


@pytest.mark.parametrize("kind,params,taken", CLEAN, ids=[c[0] for c in CLEAN])
def test_the_default_list_leaves_no_clean_fabric_with_a_credit_loop(kind, params, taken):
    b = bring_up(generate(kind, **params), "ftree,updn")
    assert b.routing.engine == taken
    proof = verify(b.graph, b.routing.lft)
    assert proof.deadlock_free and not proof.unreachable
    if taken == "updn":
        assert any("ftree does not fit" in note for note in b.routing.notes), "the fallback is told"


def test_minhop_on_a_ring_would_have_had_one():
    b = bring_up(generate("ring", switches=6), "ftree")
    assert b.routing.engine == "minhop" and not verify(b.graph, b.routing.lft).deadlock_free


def test_the_last_of_a_list_stands_whatever_it_makes():
    graph = bring_up(generate("ring", switches=4)).graph
    assert route(graph, "ftree, minhop").engine == "minhop"


def test_an_unknown_engine_in_a_list_is_named():
    with pytest.raises(UnknownName, match="updown"):
        bring_up(generate("ring", switches=4), "ftree,updown")
