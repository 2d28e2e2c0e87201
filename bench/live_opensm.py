"""Bring-up by stock OpenSM (``opensm -o``): wall time on our server against stock ibsim, same netlist, paired.

    python bench/live_opensm.py [--large] [--rounds 2]

3,456 hosts and 720 switches; ``--large``: 11,664 hosts and 1,620 switches. The bar is a ratio of 1.0 at most. Every other round
begins with ibsim. OpenSM's own processor time is told too: where it differs, the machine was faster or slower meanwhile. Its
busiest thread computes routes, whoever serves; what is left of the wall time, "rest", is what a server can change.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from softib.fabric.formats.registry import write
from softib.fabric.topologies.registry import generate
from softib.live.launch.preload import stock_library

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
LIMIT_S = 900


def program(name: str) -> str:
    found = shutil.which(name, path=PATH)
    if found is None:
        sys.exit(f"{name} is not installed")
    return found


def cpu_s(pid: int) -> float:
    """Seconds of processor time of a process so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Run(NamedTuple):
    """Seconds of ``opensm -o`` until the subnet is up and it left; processor seconds of the server meanwhile, and its own."""

    wall: float
    server: float
    own: float
    routes: float  # processor seconds of OpenSM's busiest thread

    @property
    def rest(self) -> float:
        return self.wall - self.routes

    def __str__(self) -> str:
        return (
            f"{self.wall:.2f} (rest {self.rest:.2f}; CPU: server {self.server:.2f}, OpenSM {self.own:.2f}, "
            f"its busiest thread {self.routes:.2f})"
        )


def busiest_thread_s(pid: int) -> float:
    """User seconds of the thread that had most; 0 where the process is gone."""
    most = 0
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            most = max(most, int(stat.read_text().rpartition(")")[2].split()[11]))
    return most / os.sysconf("SC_CLK_TCK")


def watched(process: subprocess.Popen) -> float:
    """Waits for its end; the busiest thread's seconds as last seen, at most half a second before."""
    until, seen = time.monotonic() + LIMIT_S, 0.0
    while True:
        try:
            process.wait(0.5)
            return seen
        except subprocess.TimeoutExpired:
            seen = max(seen, busiest_thread_s(process.pid))
        if time.monotonic() > until:
            process.kill()
            sys.exit(f"opensm did not end within {LIMIT_S} s")


def children_s() -> float:
    """Processor seconds of the programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def opensm(folder: Path, sockname: str, node: str, server: int) -> Run:
    """One bring-up. Exits where it fails."""
    log, cache = folder / "osm.log", folder / "cache"
    log.unlink(missing_ok=True)
    # Without a cache of its own each run would start from the LIDs of the one before.
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir()
    env = {
        **os.environ,
        "IBSIM_SOCKNAME": sockname,
        "SIM_HOST": node,
        "LD_PRELOAD": str(stock_library()),
        "OSM_CACHE_DIR": str(cache),
        "OSM_TMP_DIR": str(folder),
    }
    began, used, own = time.perf_counter(), cpu_s(server), children_s()
    process = subprocess.Popen(
        [program("opensm"), "-o", "-f", str(log)],
        env=env,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    routes = watched(process)
    if process.returncode:
        sys.exit(f"opensm ended with {process.returncode}, see {log}")
    took, used, own = time.perf_counter() - began, cpu_s(server) - used, children_s() - own
    if "SUBNET UP" not in log.read_text():
        sys.exit(f"no SUBNET UP in {log}")
    return Run(took, used, own, routes)


def wait_for_socket(name: str, process: subprocess.Popen) -> None:
    until = time.monotonic() + 120
    while f"@{name}:ctl" not in Path("/proc/net/unix").read_text():
        if process.poll() is not None or time.monotonic() > until:
            sys.exit(f"{name} did not open its socket")
        time.sleep(0.05)


def on_ibsim(folder: Path, sizes: list[str], node: str) -> Run:
    name = f"softib-bench-{os.getpid()}"
    sim = subprocess.Popen(
        [program("ibsim"), "-s", "-n", *sizes, str(folder / "net")],
        cwd=folder,
        stdin=subprocess.PIPE,
        env={**os.environ, "IBSIM_SOCKNAME": name},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_socket(name, sim)
        return opensm(folder, name, node, sim.pid)
    finally:
        sim.kill()
        sim.wait()


def sockname_of(name: str) -> str:
    """The base name of the fabric's sockets: with another runtime directory it ends in a hash of that."""
    words = [sys.executable, "-m", "softib.cli.main", "status", "--json"]
    told = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    found = [one["sockname"] for one in (told if isinstance(told, list) else told["fabrics"]) if one["name"] == name]
    return str(found[0])


def on_softib(folder: Path, node: str) -> Run:
    name = f"bench-{os.getpid()}"
    up = subprocess.Popen(
        [sys.executable, "-m", "softib.cli.main", "up", str(folder / "net"), "--name", name, "--sm", "external"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert up.stderr is not None
        if "ready" not in up.stderr.readline():
            sys.exit("softib up failed")
        return opensm(folder, sockname_of(name), node, up.pid)
    finally:
        up.terminate()
        up.wait()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--large", action="store_true")
    arguments.add_argument("--radix", type=int, help="another three-level tree")
    arguments.add_argument("--rounds", type=int, default=2)
    chosen = arguments.parse_args()
    fabric = generate("fat-tree", radix=chosen.radix or (36 if chosen.large else 24), levels=3)
    node = f"H-{int(fabric.node_guid[fabric.cas[0]]):016x}"
    s = fabric.sizes
    sizes = ["-N", str(s.nodes + 8), "-S", str(s.switches + 8), "-P", str(s.ports + 64)]
    with tempfile.TemporaryDirectory(prefix="softib-bench-") as name:
        folder = Path(name)
        write(fabric, folder / "net", "ibsim")
        print(
            f"{len(fabric.cas):,} hosts, {s.switches:,} switches, {s.cables:,} cables; opensm -o, seconds", flush=True
        )
        rounds = []
        for i in range(chosen.rounds):
            both = {"softib": lambda: on_softib(folder, node), "ibsim": lambda: on_ibsim(folder, sizes, node)}
            print(f"round {i + 1}: ", end="", flush=True)
            told = {}
            for name_of in sorted(both, reverse=i % 2 == 0):
                told[name_of] = both[name_of]()
                print(f"{name_of} {told[name_of]}", end=", ", flush=True)
            rounds.append((told["softib"], told["ibsim"]))
            print(f"ratio {rounds[-1][0].wall / rounds[-1][1].wall:.2f}", flush=True)
    best = min(a.wall for a, _ in rounds) / min(b.wall for _, b in rounds)
    whole = statistics.median(a.wall / b.wall for a, b in rounds)
    rest = statistics.median(a.rest / b.rest for a, b in rounds)
    print(f"ratio of the best {best:.2f}, median ratio {whole:.2f} (bar: 1.0 at most), of the rest {rest:.2f}")


if __name__ == "__main__":
    main()
