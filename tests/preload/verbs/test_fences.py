"""What a READ under way keeps waiting: only requests with ``IBV_SEND_FENCE`` (IBA 10.8.3.3; a READ is executed when its request arrives)."""

from __future__ import annotations

import subprocess

import pytest

from tests.preload.verbs.applications import Applications
from tests.preload.verbs.c_programs import program

pytestmark = pytest.mark.stock

FABRIC = """name: two-adapters
generation: SDR
topology: {kind: rail-optimized, nodes: 4, rails: 2, radix: 8, ufm: false}
faults: [{kind: slow-link, cable: "node-001 mlx5_0[1]", lanes: 1, speed: SDR}]
"""
READ_US = (16 << 20) / 0.25e9 * 1e6
"""16 MiB at 2 Gb/s, without headers: 67 ms; the copy itself takes a fifth of it at most on a slow machine."""


@pytest.fixture(scope="module")
def paced():
    fabric = Applications(FABRIC, "--pace")
    yield fabric
    fabric.close()


def told(paced, *words: str) -> tuple[float, float, int]:
    """Microseconds to the completion of the READ, and to the effect of what was posted behind it; the word that this one moved."""
    done = subprocess.run(
        paced.arguments("run", "--node", "node-001", "--", program("fence"), *words),
        env=paced.env, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    read, effect, word = done.stdout.split()
    return float(read), float(effect), int(word)


def test_a_write_behind_a_read_waits_for_it_with_a_fence_alone(paced):
    seen = []  # on a busy machine a try in which nobody got a processor in time says nothing; one that did not wait says all
    while not any(effect < READ_US < read for read, effect, _ in seen):
        assert len(seen) < 5, seen
        seen.append(told(paced, "write", "0"))
        assert seen[-1][2] == 7
    read, effect, word = told(paced, "write", "1")
    assert effect >= READ_US and word == 7


def test_a_read_behind_a_read_sees_what_the_responder_writes_meanwhile_with_a_fence_alone(paced):
    assert told(paced, "read", "0")[2] == 0
    assert told(paced, "read", "1")[2] == 9
