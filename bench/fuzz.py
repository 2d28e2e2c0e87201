"""Millions of mutants through the sockets of a running daemon: how fast, and whether it bears them.

    python bench/fuzz.py                     # five million, from four kinds of clients at once
    python bench/fuzz.py --count 100000 --seed 9
    python bench/fuzz.py --agents            # the same to the agents in process, under canaries

Sound requests must be answered or come back, the daemon must meet no bug of its own, and no column that is hardware may
change: anything else ends the run with exit status 1. Each round is a fabric of its own; figures are printed after each.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

ROUND = 250_000
SHARES = {"frames": 0.66, "devices": 0.18, "control": 0.13, "lines": 0.03}
PATIENCE_S = 3600.0


def sockets(count: int, seed: int) -> int:
    """A round through sockets; returns what was sent. Raises what a client found."""
    from tests.live.ibsim.fuzzing import Running, all_at_once, hardware

    with tempfile.TemporaryDirectory(prefix="softib-fuzz-") as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        running = Running("fuzz")
        before = hardware(running)
        told = all_at_once(running, {k: max(1, int(count * share)) for k, share in SHARES.items()}, seed, PATIENCE_S)
        after = hardware(running)
        running.stop()  # asserts that the daemon met no bug
    for name in SHARES:
        if not isinstance(told.get(name), int):
            raise AssertionError(f"{name}: {told.get(name, 'did not end')!r}")
    written = [name for name in before if before[name] != after[name]]
    if written:
        raise AssertionError(f"written: {written}")
    return sum(int(n) for n in told.values())  # type: ignore[arg-type]


def agents(count: int, seed: int) -> int:
    """A round in process."""
    from tests.agents.test_fuzz import fuzz

    return fuzz(seed, count, 2048, per_reset=20).sent


def main() -> int:
    """Run rounds until enough was sent."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--count", type=int, default=5_000_000, help="mutants in all")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--agents", action="store_true", help="no sockets: the agents in process")
    asked = words.parse_args()
    sent, began, seed, findings = 0, time.monotonic(), asked.seed, 0
    while sent < asked.count:
        size = min(ROUND, asked.count - sent)
        try:
            sent += agents(size, seed) if asked.agents else sockets(size, seed)
        except Exception as finding:
            findings += 1
            sent += size
            print(f"FOUND with seed {seed}: {finding}", flush=True)
        seed += 1
        passed = time.monotonic() - began
        print(
            f"{sent:,} of {asked.count:,} mutants, {passed:,.0f} s, {sent / passed:,.0f} a second, {findings} findings",
            flush=True,
        )
    return int(findings > 0)


if __name__ == "__main__":
    raise SystemExit(main())
