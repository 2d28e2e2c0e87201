"""The engine alone, between two processes that are threads of one: its laws under sanitizers."""

from __future__ import annotations

import pytest

from tests.preload.verbs.engine.engine_programs import SANITIZERS, run

SCENES = ("rc", "rnr", "lost", "refused", "atomics", "uc", "ud", "srq", "xrc", "flush", "drain", "dereg", "states")


THREADED = ("rc", "rnr", "srq", "dereg")
"""Scenes that the thread sanitizer sees in the default run too."""
LAWS = [
    pytest.param(scene, sanitizer, marks=pytest.mark.slow if sanitizer == "thread" and scene not in THREADED else ())
    for scene in SCENES
    for sanitizer in SANITIZERS
]


@pytest.mark.parametrize(("scene", "sanitizer"), LAWS)
def test_law(folder, scene, sanitizer):
    assert run("laws", sanitizer, folder, scene) == "ok\n"


@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("scene", ("matching", "phases", "rendezvous", "model", "race"))
def test_tag_matching(folder, scene, sanitizer):
    """Against the rules of ibv_post_srq_ops(3), and against a list that is plainly searched."""
    assert run("tags", sanitizer, folder, scene, files=("abi/tags.c",)) == "ok\n"


@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("scene", ("wqes", "purge", "destroy", "disconnect", "inherits", "members"))
def test_queue(folder, scene, sanitizer):
    """WQEs are freed by polling; reset, destroy and leaving a group while others send and poll."""
    assert run("queues", sanitizer, folder, scene) == "ok\n"


@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("scene", ("post", "timer"))
def test_local_requests_and_dereg(folder, scene, sanitizer):
    """The own process's requests, too, are out of a region when dereg returns: of another thread, and of the timer's."""
    assert run("quiesce", sanitizer, folder, scene, 30) == "ok\n"


def test_a_rendezvous_ends_when_its_sender_is_killed(folder):
    """Between the match and the FIN; at the moments that matter most, and at any."""
    assert run("orphans", "address", folder, 1, 3, files=("abi/tags.c",)) == "ok\n"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_rendezvous_end_when_their_senders_are_killed(folder):
    assert run("orphans", "address", folder, 2, 500, limit_s=800, files=("abi/tags.c",)) == "ok\n"


def test_placement_is_a_copy_at_every_length_and_alignment():
    assert run("placement", "address") == "ok\n"
