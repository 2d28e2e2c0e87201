"""What a program held is taken back when it ends, however it ends."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.live.serving import wait_for
from tests.preload.verbs.applications import A, Applications, B, empty, stop, wait_for_listener


@pytest.fixture
def fabric():
    made = Applications()
    yield made
    made.close()


@pytest.mark.stock
def test_a_program_that_ends_leaves_nothing(fabric, stock):
    port = next(fabric.ports)
    arguments = (stock("ib_send_bw"), "-n", "200", "-F", "-c", "UD", "-g", "-s", "1024", "-p", str(port))
    fabric.pair(arguments, (*arguments, "127.0.0.1"), tcp=port)
    assert wait_for(lambda: empty(fabric)), fabric.status()["verbs"]
    assert not list(Path(fabric.folder).rglob("wake-*"))


def kills(fabric, stock, times: int, seed: int) -> None:
    """Kill either end of a transfer at a random moment; the other one must end by itself or be idle, and nothing is left."""
    draws = random.Random(seed)
    kinds = ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw", "ib_send_bw -c UD")
    for i in range(times):
        name, *more = draws.choice(kinds).split()
        port = next(fabric.ports)
        arguments = (
            stock(name),
            *more,
            "-D",
            "20",
            "-F",
            "-p",
            str(port),
            "-u",
            "10",
            "-s",
            "8" if "atomic" in name else "4096",
        )
        one = fabric.begin(A, *arguments)
        wait_for_listener(port, one)
        two = fabric.begin(B, *arguments, "127.0.0.1")
        time.sleep(draws.uniform(0.6, 1.5))
        victim, survivor = (one, two) if i % 2 else (two, one)
        os.killpg(victim.pid, signal.SIGKILL)
        victim.wait()
        time.sleep(0.3)
        stop(survivor)
    assert wait_for(lambda: empty(fabric)), fabric.status()["verbs"]
    port = next(fabric.ports)
    arguments = (stock("ib_write_bw"), "-n", "100", "-F", "-p", str(port))
    fabric.pair(arguments, (*arguments, "127.0.0.1"), tcp=port)


@pytest.mark.stock
def test_killed_programs_leave_nothing(fabric, stock):
    kills(fabric, stock, 4, 1)


@pytest.mark.stock
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hundred_killed_programs_leave_nothing(fabric, stock):
    kills(fabric, stock, 100, 2)


@pytest.mark.stock
def test_a_survivor_is_notified_in_time(fabric, stock):
    """RETRY_EXC (12) within (retry_cnt + 1) * 4 * 4.096 us * 2**timeout of the peer's death (IBA 9.7.6.1.3), ten times that where
    others compute; the slow test of a thousand kills asks for it to the letter."""
    port, timeout = next(fabric.ports), 15
    arguments = (stock("ib_write_bw"), "-D", "200", "-F", "-p", str(port), "-u", str(timeout), "-s", "4096")
    one = fabric.begin(A, *arguments)
    wait_for_listener(port, one)
    two = fabric.begin(B, *arguments, "127.0.0.1")
    fabric.until_busy(B)
    os.killpg(one.pid, signal.SIGKILL)
    one.wait()
    began = time.monotonic()
    output = two.communicate(timeout=240)[0]
    took = time.monotonic() - began
    assert "status 12" in output, output
    period = 4.096e-6 * 2**timeout
    assert took < 10 * 8 * 4 * period, took
