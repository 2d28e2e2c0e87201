"""A program that polls in vain lets its peer run where it may be waiting for the same processor."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.preload.verbs.applications import A, B
from tests.preload.verbs.c_programs import program, run


def test_a_processor_is_given_away_to_another_poller_alone(apps):
    """At every look (500 polls) before which a peer polled there, and once: a look does not depend on when the scheduler let the peer run.
    Never where no peer can be waiting, whatever else runs, and never while there is work."""
    alone, rounds, together, busy = map(int, run(apps, A, program("idle_polls")).split())
    assert alone <= 8 and busy <= 8 and (rounds, together) == (50, 50)


@pytest.mark.slow
@pytest.mark.stock
@pytest.mark.skipif(shutil.which("taskset") is None, reason="taskset is not installed")
def test_two_polling_programs_on_one_processor_answer_each_other(apps, stock):
    """The scheduler is the oracle: a program that never yields keeps the processor for a slice, and 300 round trips would be 600 slices."""
    port, one = str(next(apps.ports)), ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    words = [*one, stock("ib_send_lat"), "-s", "8", "-n", "300", "-p", port]
    _, said = apps.pair(words, [*words, "127.0.0.1"], int(port), nodes=(A, B))
    row = next(line.split() for line in said.splitlines() if line.split()[:2] == ["8", "300"])
    assert float(row[4]) < 4000, f"typical latency {row[4]} us; 9,000 and more where nobody yields"
