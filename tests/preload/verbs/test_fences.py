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
    """Microseconds to the completion of the READ, and to what happened meanwhile: the WRITE's effect, or the change of the word that the second READ
    reads; the word that was moved."""
    done = subprocess.run(
        paced.arguments("run", "--node", "node-001", "--", program("fence"), *words),
        env=paced.env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    read, meanwhile, word = done.stdout.split()
    return float(read), float(meanwhile), int(word)


def told_in_time(paced, *words: str) -> int:
    """The word of a try in which something happened while the READ was under way: one without a processor at hand says nothing."""
    for _ in range(5):
        read, meanwhile, word = told(paced, *words)
        if meanwhile < READ_US < read:
            return word
    pytest.fail(f"five times nothing happened within {READ_US:.0f} us; the last: {meanwhile:.0f}, the READ {read:.0f}")


def test_a_write_behind_a_read_waits_for_it_with_a_fence_alone(paced):
    assert told_in_time(paced, "write", "0") == 7
    _, effect, word = told(paced, "write", "1")
    assert effect >= READ_US and word == 7


def test_a_read_behind_a_read_sees_what_the_responder_writes_meanwhile_with_a_fence_alone(paced):
    assert told_in_time(paced, "read", "0") == 0
    assert told_in_time(paced, "read", "1") == 9
