"""The packet layer against csg-htsim, paired in one run: 1,024 hosts, three tiers, a permutation of 2 MB flows, 4 KB MTU, lossless, 400G.

    HTSIM=path/to/htsim/sim/datacenter python bench/sim_packet.py [--rounds N] [--radix R] [--size BYTES] [--grow]

Prints CPU seconds, completion times, data packets times links a second, and events a hop. Without HTSIM (csg-htsim 841d9e7, built with its own
Makefiles) its half is left out. Bar: at most a tenth of htsim's time, and 2.5 million packet hops a second on one core.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np

from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sim.messages import messages
from softib.sim.packet import PacketOptions, run

MATRIX = "connection_matrices/perm_1024n_1024c_0u_2000000b.cm"
SIZE = 2_000_000
"""Of htsim's matrix."""


def pairs(folder: Path | None, hosts: int) -> tuple[np.ndarray, np.ndarray]:
    """(sources, destinations): htsim's own permutation where it is there, else a drawn one."""
    if folder is not None and (folder / MATRIX).is_file() and hosts == 1024:
        found = re.findall(r"^(\d+)->(\d+)", (folder / MATRIX).read_text(), re.M)
        both = np.array(found, int)
        return both[:, 0], both[:, 1]
    order = np.random.default_rng(1).permutation(hosts)
    return order, np.roll(order, 1)


def htsim(folder: Path) -> tuple[float, np.ndarray]:
    """CPU seconds of htsim_roce and its completion times in microseconds."""
    command = [
        "./htsim_roce",
        "-nodes",
        "1024",
        "-tm",
        MATRIX,
        "-linkspeed",
        "400000",
        "-mtu",
        "4096",
        "-q",
        "100",
        "-paths",
        "64",
        "-strat",
        "ecmp_host",
        "-queue_type",
        "lossless_input",
        "-end",
        "1000",
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ends = [float(us) for us in re.findall(r"finished at ([\d.]+)", done.stdout)]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, np.array(ends)


def up(radix: int, metres: float = 0.0) -> Fabric:
    """A fat tree of three levels that its manager brought up."""
    fabric = generate("fat-tree", radix=radix, levels=3, generation="NDR")
    fabric.cable_length_m[:] = metres
    bring_up(fabric, "ftree")
    return fabric


def growth(radix: int, size: int, rounds: int) -> None:
    """What a packet hop costs in a network of ``radix`` beside one of 1,024 hosts, CPU in turn in one process, so that both see the same machine: tables included, and
    the loop alone (a run that is stopped at 1 ps subtracted)."""
    jobs = {}
    for r in (16, radix):
        fabric = up(r)
        src, dst = pairs(None, r**3 // 4)
        jobs[r] = fabric, messages(src, dst, size)
    took: dict[int, list[tuple[float, float]]] = {r: [] for r in jobs}
    for at in range(rounds + 1):
        for r, (fabric, sent) in jobs.items():
            began = time.process_time()
            run(fabric, sent, PacketOptions(until_ps=1))
            between = time.process_time()
            hops = run(fabric, sent).work["packet hops"]
            if at:  # the first round warms up
                whole, tables = time.process_time() - between, between - began
                took[r].append((whole / hops * 1e9, (whole - tables) / hops * 1e9))
    for what, which in (("tables included", 0), ("the loop alone", 1)):
        small, large = ([row[which] for row in took[r]] for r in (16, radix))
        ratios = [b / a for a, b in zip(small, large, strict=True)]
        print(
            f"{what}: {min(large):.0f} beside {min(small):.0f} ns a hop, {min(large) / min(small):.2f} x by the smallest; pair by pair "
            f"{', '.join(f'{x:.2f}' for x in ratios)}"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--radix", type=int, default=16, help="of the switches: 16 is 1,024 hosts, 56 is 43,904")
    parser.add_argument("--size", type=int, default=SIZE, help="bytes of each flow")
    parser.add_argument("--metres", type=float, default=0.0, help="length of each cable")
    parser.add_argument("--grow", action="store_true", help="the cost of a hop at --radix beside 1,024 hosts, in turn")
    given = parser.parse_args()
    if given.grow:
        growth(given.radix, given.size, given.rounds)
        return
    folder = (
        Path(os.environ["HTSIM"])
        if os.environ.get("HTSIM") and (given.radix, given.size, given.metres) == (16, SIZE, 0)
        else None
    )
    fabric = up(given.radix, given.metres)
    src, dst = pairs(folder, given.radix**3 // 4)
    run(fabric, messages(src[:2], dst[:2], 4096))  # kernels are compiled now
    ours, theirs, ends = [], [], np.zeros(0)
    for _ in range(given.rounds):
        began = time.process_time()
        out = run(fabric, messages(src, dst, given.size))
        ours.append(time.process_time() - began)
        if folder is not None:
            took, ends = htsim(folder)
            theirs.append(took)
    hops = out.work["packet hops"]
    us = out.arrived_ps / 1e6
    print(
        f"softib: CPU {min(ours):.2f} s (median {statistics.median(ours):.2f}); {hops:,} packet hops, {hops / min(ours) / 1e6:.2f} M a second; "
        f"{out.work['events'] / hops:.2f} events a hop; flows end at {np.percentile(us, 50):.1f} (median) to {us.max():.1f} us"
    )
    print(f"        peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    if theirs:
        print(f"htsim:  CPU {min(theirs):.2f} s; flows end at {np.percentile(ends, 50):.1f} to {ends.max():.1f} us")
        print(f"ratio of the fastest rounds: 1/{min(theirs) / min(ours):.1f}")


if __name__ == "__main__":
    main()
