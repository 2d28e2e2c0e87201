"""How fast a GOAL trace is read and run: ``python bench/goal.py [--operations N] [--text]``.

A trace of its own, by its seed: ranks in a torus that compute and exchange with four neighbours, step after step. An *event* is an operation of the trace (send, receive or
computation). Each stage is given in seconds of CPU time of this process, machine code apart (a small trace runs first); memory is the peak of the process.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softib.workloads.schedule.schedule import Kind, Schedule

NEIGHBOURS = 4
OPERATIONS = 1 + 2 * NEIGHBOURS
"""Of a rank in a step: a computation, sends, receives."""


def trace(operations: int, side: int, seed: int) -> Schedule:
    """At least ``operations`` operations of ``side``² ranks. A computation waits for all of the step before, sends for the computation of theirs."""
    ranks = side * side
    steps = -(-operations // (ranks * OPERATIONS))
    rng = np.random.default_rng(seed)
    n = ranks * steps * OPERATIONS
    row = np.arange(n)
    rank, rest = np.divmod(row, steps * OPERATIONS)
    step, which = np.divmod(rest, OPERATIONS)
    x, y = rank % side, rank // side
    to = np.stack(
        [y * side + (x + 1) % side, y * side + (x - 1) % side, (y + 1) % side * side + x, (y - 1) % side * side + x]
    )
    kind = np.where(which == 0, Kind.COMPUTE, np.where(which <= NEIGHBOURS, Kind.SEND, Kind.RECV)).astype(np.uint8)
    side_of = np.where(which == 0, 0, (which - 1) % NEIGHBOURS)
    opposite = side_of ^ 1
    tag = np.where(kind == Kind.SEND, side_of, opposite)
    size = rng.choice([64, 1024, 8192, 65536], (steps, NEIGHBOURS))[
        step, np.where(kind == Kind.SEND, side_of, opposite)
    ]
    peer = np.where(which == 0, -1, to[side_of, row])
    compute = np.where(which == 0, rng.integers(1_000, 20_000, n) * 1000, 0)
    base = row - which
    count = np.where(which == 0, np.where(step > 0, OPERATIONS - 1, 0), np.where(which <= NEIGHBOURS, 1, 0))
    first = np.concatenate([[0], np.cumsum(count)])
    owner = np.repeat(row, count)
    nth = np.arange(first[-1]) - np.repeat(first[:-1], count)
    needs = np.where(which[owner] == 0, base[owner] - (OPERATIONS - 1) + nth, base[owner])
    return Schedule(
        "bench",
        ranks,
        rank.astype(np.int32),
        kind,
        peer.astype(np.int32),
        np.where(which == 0, 0, size),
        np.where(which == 0, 0, tag),
        compute,
        np.zeros(n, np.int32),
        first,
        needs,
        np.zeros(len(needs), bool),
    )


def timed(what: str, work: Callable[[], Any], operations: int, shown: bool = True) -> tuple[Any, float]:
    """What ``work`` gives, and its seconds of CPU time, which are printed."""
    began = time.process_time()
    found = work()
    took = time.process_time() - began
    if shown:
        print(f"{what:32} {took:7.2f} s  {operations / took / 1e6:7.2f} M events/s")
    return found, took


def once(operations: int, seed: int, text: bool, shown: bool) -> float:
    """One trace written, read and run; seconds of CPU time for reading and running."""
    import softib
    from softib.workloads.traces.forms import read_trace
    from softib.workloads.traces.goal import write_goal
    from softib.workloads.traces.goal_binary import write_binary

    side = 32 if operations > 100_000 else 4
    made = trace(operations, side, seed)
    fabric = softib.generate("fat-tree", radix=32, levels=3, hosts=side * side)
    with tempfile.TemporaryDirectory(prefix="softib-goal-") as folder:
        path = Path(folder) / ("t.goal" if text else "t.bin")
        if text:
            path.write_text(write_goal(made))
        else:
            path.write_bytes(write_binary(made))
        if shown:
            print(
                f"{len(made):,} operations of {made.ranks:,} ranks, {len(made.needs):,} dependencies, {path.stat().st_size:,} bytes of {'text' if text else 'binary'}"
            )
        del made
        program, reading = timed("reading", lambda: read_trace(path), operations, shown)
        found, running = timed("fabric, matching, running", lambda: softib.replay(fabric, program), operations, shown)
    if shown:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"{'together':32} {reading + running:7.2f} s  {operations / (reading + running) / 1e6:7.2f} M events/s; {found.simulated_us:,.0f} us of virtual time, peak {peak:.2f} GB"
        )
    return reading + running


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--operations", type=int, default=10_000_000)
    given.add_argument("--seed", type=int, default=1)
    given.add_argument("--text", action="store_true", help="GOAL text instead of binary")
    chosen = given.parse_args()
    once(2_000, chosen.seed, chosen.text, False)
    once(chosen.operations, chosen.seed, chosen.text, True)


if __name__ == "__main__":
    main()
