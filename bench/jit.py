"""What the two accelerators of compiling (softib.jit.accelerators) each pay for.

    python bench/jit.py [--modes plain tables units both] [--jobs up report agents]

Each job in each mode, with an empty cache and again with what it kept; an interpreter and a cache of its own each. Columns:
wall-clock and CPU seconds of all its processes cold and warm (CPU is what compares on a shared machine), files and KiB in the
cache. ``agents``: the bring-up's MADs of 128 hosts in batches of 64 and alone, microseconds a MAD (median of five), which is what the
calls of kernels with tables cost. ``trial``: what finding out costs, once for an installation.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cold_start import COMMANDS, ROOT, cpu, once

MODES = ("plain", "tables", "units", "both")
ROUNDS = 5


def agents() -> None:
    """Print microseconds a MAD: Get(PortInfo) of every port of 128 hosts, in batches and alone."""
    import numpy as np

    from agents import fat_tree, paths, smps
    from softib.agents.plane import AgentPlane

    f = fat_tree(8)
    sender = int(f.port(0, 1))
    plane = AgentPlane(f)
    path, hops = paths(f, sender)
    rows = np.flatnonzero(f.linked)
    ports = smps(f.port_node[rows], path, hops, 1, 0x15, f.port_num[rows].astype(int))
    parts = [ports[i : i + 64] for i in range(0, len(ports), 64)]
    one = ports[:1]
    plane.send(one, sender)
    batches, singles = [], []
    for _ in range(ROUNDS):
        began = time.process_time()
        for part in parts:
            plane.send(part, sender)
        batches.append((time.process_time() - began) / len(ports) * 1e6)
        began = time.process_time()
        for _ in range(2000):
            plane.send(one, sender)
        singles.append((time.process_time() - began) / 2000 * 1e6)
    print(f"{statistics.median(batches):.2f} {statistics.median(singles):.1f}")


def environment(mode: str, folder: Path) -> dict[str, str]:
    """Of a process with this mode and a cache in ``folder``; no mode: the trial decides."""
    env = {
        **os.environ,
        "SOFTIB_CACHE_DIR": str(folder / "cache"),
        "XDG_RUNTIME_DIR": str(folder),
        "PYTHONPATH": str(ROOT / "src"),
    }
    return {**env, "SOFTIB_JIT": mode} if mode else {n: v for n, v in env.items() if n != "SOFTIB_JIT"}


def run(job: str, mode: str) -> None:
    """Print one line."""
    folder = Path(tempfile.mkdtemp(prefix="softib-jit-"))
    env, figures = environment(mode, folder), ""
    try:
        times = []
        for i in range(2):
            if job in COMMANDS:
                times.append(once(job, env, folder))
            else:
                before, began = cpu(), time.perf_counter()
                done = subprocess.run(
                    [sys.executable, __file__, "--agents"], env=env, check=True, capture_output=True, text=True
                )
                times.append((time.perf_counter() - began, cpu() - before))
                figures = done.stdout.strip()
            if not i:
                files = [p for p in (folder / "cache").rglob("*") if p.is_file() and p.suffix != ".lock"]
                size = sum(p.stat().st_size for p in files) // 1024
        (cold, cold_cpu), (warm, warm_cpu) = times
        print(
            f"{job:8}{mode:8}{cold:8.1f}{cold_cpu:8.1f}{warm:8.2f}{warm_cpu:8.2f}{len(files):7}{size:8}  {figures}",
            flush=True,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def trial() -> None:
    """Print CPU seconds of finding out, and of reading what was found out."""
    program = (
        "import os, numba\nfrom softib.jit import accelerators as a, identity\nidentity.environment()\n"
        "t = sum(os.times()[:4])\na.accelerators()\nprint(sum(os.times()[:4]) - t)"
    )
    folder = Path(tempfile.mkdtemp(prefix="softib-jit-"))
    try:
        first, then = (
            float(
                subprocess.run(
                    [sys.executable, "-c", program],
                    env=environment("", folder),
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
            )
            for _ in range(2)
        )
        print(f"trial: {first:.2f} CPU s once, {then * 1000:.0f} ms then")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--jobs", nargs="+", default=["up", "report", "agents"], choices=[*COMMANDS, "agents"])
    parser.add_argument("--agents", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.agents:
        return agents()
    trial()
    print(
        f"{'':16}{'cold s':>8}{'CPU s':>8}{'warm s':>8}{'CPU s':>8}{'files':>7}{'KiB':>8}  us a MAD in batches, alone"
    )
    for job in options.jobs:
        for mode in options.modes:
            run(job, mode)
    return None


if __name__ == "__main__":
    main()
