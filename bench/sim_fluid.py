"""The fluid layer against SimGrid (Debian's libsimgrid-dev) on the same job, in turn in the same run; and an all-to-all of 11,664 hosts.

    python bench/sim_fluid.py [--rounds N] [--big]

The job: a fat tree 3;16,8,8;1,8,8;1,1,1 (1,024 hosts), shifts 1 to 8 of 1 MB from every host, each shift when the one before has arrived
everywhere: 8,192 flows. SimGrid sends them with Comm::sendto_async and waits for all (``sim_fluid/simgrid_shifts.cpp``: the clock runs from the
first send to the last wait). Ours is asked twice: as phases with a barrier (:mod:`softib.sim.fluid.phases`, the bar), and as messages
that wait for each other, event by event (:func:`softib.sim.fluid.run`), which is what any other workload takes. CPU seconds of each: what else
runs on the machine hardly counts; the best of the rounds is compared. Bars: phases at least 40 times as fast; ``--big``: below 60 s.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sim import fluid
from softib.sim.fluid.phases import shift_phases
from softib.sim.messages import Messages, messages
from softib.sim.paths import Plane

SOURCE = Path(__file__).with_suffix("") / "simgrid_shifts.cpp"
HOSTS, SHIFTS, SIZE = 1024, np.arange(1, 9), 1_000_000
FACTOR, BIG_S = 40, 60.0


def simgrid(folder: Path) -> Path | None:
    """The built program; None where SimGrid or a compiler is not here."""
    if shutil.which("g++") is None or not Path("/usr/include/simgrid/s4u.hpp").exists():
        return None
    program = folder / "shifts"
    subprocess.run(["g++", "-O2", "-std=c++17", str(SOURCE), "-lsimgrid", "-o", str(program)], check=True)
    return program


def chained() -> Messages:
    """Every host sends its next shift when its message before has completed: here all end at once, as behind a barrier."""
    src = np.tile(np.arange(HOSTS), len(SHIFTS))
    dst = (src + np.repeat(SHIFTS, HOSTS)) % HOSTS
    first = np.concatenate([np.zeros(HOSTS, int), np.arange(len(src) - HOSTS + 1)])
    return messages(src, dst, SIZE, qp=np.arange(len(src)), first=first, needs=np.arange(len(src) - HOSTS))


def cpu_s(call) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def compare(rounds: int) -> bool:
    """Print the figures of each; is the bar met?"""
    fabric = generate("fat-tree", m=(16, 8, 8), w=(1, 8, 8), p=(1, 1, 1))
    bring_up(fabric, "ftree")
    plane, job = Plane(fabric), chained()
    calls = {"phases": lambda: shift_phases(plane, SIZE, shifts=SHIFTS), "events": lambda: fluid.run(plane, job)}
    for call in calls.values():
        call()  # compiled, and the fabric's columns made: SimGrid's platform stands before its clock runs, too
    took: dict[str, list[float]] = {"simgrid": [], **{name: [] for name in calls}}
    with tempfile.TemporaryDirectory() as name:
        program = simgrid(Path(name))
        for _ in range(rounds):
            if program:
                done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
                took["simgrid"].append(json.loads(done.stdout.splitlines()[-1])["cpu_s"])
            for which, call in calls.items():
                took[which].append(cpu_s(call))
    flows = HOSTS * len(SHIFTS)
    for which, seconds in took.items():
        if seconds:
            print(
                f"{which}: {min(seconds) * 1e3:.2f} ms of CPU at best, median {np.median(seconds) * 1e3:.2f}: {flows / min(seconds):,.0f} flows/s"
            )
    if not took["simgrid"]:
        print("SimGrid is not here (apt-get install libsimgrid-dev g++): no comparison")
        return True
    ratio = {n: min(took["simgrid"]) / min(took[n]) for n in calls}
    print(
        f"the best of each: phases {ratio['phases']:.0f} times as fast (bar {FACTOR}), events {ratio['events']:.0f} times"
    )
    return ratio["phases"] >= FACTOR


def big() -> bool:
    """11,664 hosts, 11,663 phases."""
    fabric = generate("fat-tree", radix=36, levels=3)
    bring_up(fabric, "ftree")
    shift_phases(fabric, SIZE, shifts=[1])
    began = time.process_time(), time.perf_counter()
    found = shift_phases(fabric, SIZE)
    cpu, wall = time.process_time() - began[0], time.perf_counter() - began[1]
    print(
        f"{len(found.shifts) + 1:,} hosts, {len(found.shifts):,} phases, {found.flows:,} flows: {cpu:.1f} s of CPU, {wall:.1f} s (bar {BIG_S:.0f}); "
        f"virtual time {found.end_ps / 1e12:.6f} s, at most {found.most.max()} flows on a link, {found.enumerated} phases run by messages"
    )
    return cpu < BIG_S


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--big", action="store_true", help="11,664 hosts too")
    options = parser.parse_args()
    good = compare(options.rounds)
    if options.big:
        good &= big()
    sys.exit(not good)
