"""A list of engines, as OpenSM's ``-R`` takes one: the first that makes tables of its own is taken."""

import pytest

from softib.errors import UnknownName
from softib.fabric.topologies.registry import generate
from softib.routing.engine import DEFAULT_ENGINE, WITHOUT_LANES, route
from softib.routing.proof.verify import verify
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
def test_without_lanes_no_clean_fabric_has_a_credit_loop(kind, params, taken):
    b = bring_up(generate(kind, **params), WITHOUT_LANES)
    assert b.routing.engine == taken
    proof = verify(b.graph, b.routing.lft)
    assert proof.deadlock_free and not proof.unreachable
    if taken == "updn":
        assert any(n.startswith("ftree: ") and n.endswith("tried the next engine") for n in b.routing.notes), (
            "the fallback is told"
        )


@pytest.mark.parametrize("kind,params,taken", CLEAN, ids=[c[0] for c in CLEAN])
def test_by_default_neither_requests_nor_answers_make_a_loop(kind, params, taken):
    """And every note is there once: what does not fit, with its reason in the same line."""
    b = bring_up(generate(kind, **params), DEFAULT_ENGINE)
    proof = verify(b.graph, b.routing.lft, b.routing.path_sl, b.routing.sl2vl)
    assert proof.ok and proof.answer_loop is None and proof.switch_loop is None
    notes = b.report.notes
    assert len(set(notes)) == len(notes)
    about = [n for n in notes if n.startswith("ftree")]
    assert taken == "ftree" or (len(about) == 1 and about[0].endswith("; tried the next engine"))
    assert (b.routing.path_sl is None) == (not any("SL of the path record" in n for n in notes))


def test_minhop_on_a_ring_would_have_had_one():
    b = bring_up(generate("ring", switches=6), "ftree")
    assert b.routing.engine == "minhop" and not verify(b.graph, b.routing.lft).deadlock_free


def test_the_last_of_a_list_stands_whatever_it_makes():
    graph = bring_up(generate("ring", switches=4)).graph
    assert route(graph, "ftree, minhop").engine == "minhop"


def test_an_unknown_engine_in_a_list_is_named():
    with pytest.raises(UnknownName, match="updown"):
        bring_up(generate("ring", switches=4), "ftree,updown")
