"""Completion channels: no wake-up is lost, and what poll(2) calls readable has an event."""

from __future__ import annotations

import re

import pytest

from tests.preload.verbs.applications import A
from tests.preload.verbs.c_programs import program, run


def events(apps, scene: str, rounds: int, limit_s: float = 100) -> int:
    return int(
        re.fullmatch(r"ok (\d+) events\n", run(apps, A, program("events"), scene, str(rounds), limit_s=limit_s))[1]
    )


@pytest.mark.parametrize("scene", ("any", "solicited"))
def test_two_processes_wake_each_other(apps, scene):
    """Arm, poll once more, sleep; some armings are served without sleep, so their events are fetched later."""
    assert events(apps, scene, 1500) > 500


def test_more_events_than_a_socket_takes(apps):
    assert events(apps, "many", 50) == 2000


@pytest.mark.parametrize("n", (40, 2048))
def test_more_asynchronous_events_than_a_socket_takes(apps, n):
    """Raised by a process that is gone when they are read: each comes once, in its order; 2,048 is what a process keeps."""
    assert run(apps, A, program("async_events"), str(n)) == f"ok {n} events\n"


@pytest.mark.slow
@pytest.mark.timeout(1900)
@pytest.mark.parametrize("scene", ("any", "solicited"))
def test_two_processes_wake_each_other_a_million_times(apps, scene):
    assert events(apps, scene, 1_000_000, 1800) > 400_000
