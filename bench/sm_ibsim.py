"""Bring-up of a subnet on stock ibsim: ``softib sm run --once`` against stock ``opensm -o``, one after the other on the same netlist.

    python bench/sm_ibsim.py [--large] [--rounds 2]

3,456 hosts and 720 switches; ``--large``: 11,664 hosts and 1,620 switches. Each run has an ibsim of its own. The bar: half of
OpenSM's wall time at most. Told are wall and processor seconds of the manager from its start to its end (Python's start and the
loading of compiled kernels too; its bytecode is made before, as an installation does), ibsim's processor seconds meanwhile, and the MADs that were sent. OpenSM's MADs are counted by
its own console in a run that is not measured (``--no-mads`` leaves it out) and ends after ``--mads-limit`` seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import softib as softib_package
from softib.fabric.formats.registry import write
from softib.fabric.topologies.registry import generate
from softib.live.launch.preload import stock_library

sys.path.insert(0, str(Path(__file__).parent))
from live_opensm import LIMIT_S, cpu_s, program, wait_for_socket


class Run(NamedTuple):
    """Wall and processor seconds of a manager, processor seconds of ibsim, MADs sent (0: not counted)."""

    wall: float
    own: float
    ibsim: float
    mads: int = 0

    def __str__(self) -> str:
        sent = f", {self.mads:,} MADs" if self.mads else ""
        return f"{self.wall:.2f} s (CPU {self.own:.2f}, ibsim {self.ibsim:.2f}{sent})"


def children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def with_bytecode() -> dict[str, str]:
    """This environment, with softib's bytecode beside its sources, as an installation has it."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    package = str(Path(softib_package.__file__).parent)
    subprocess.run([sys.executable, "-m", "compileall", "-q", package], env=env, check=False)
    return env


class Ibsim:
    """Stock ibsim with ``folder/net``, for one manager."""

    def __init__(self, folder: Path, sizes: list[str], node: str):
        self.folder = folder
        self.name = f"softib-bench-{os.getpid()}-{time.monotonic_ns() % 10**6}"
        self.env = {
            **with_bytecode(),
            "IBSIM_SOCKNAME": self.name,
            "SIM_HOST": node,
            "LD_PRELOAD": str(stock_library()),
            "OSM_CACHE_DIR": str(folder / "cache"),
            "OSM_TMP_DIR": str(folder),
        }
        (folder / "cache").mkdir(exist_ok=True)
        for old in (folder / "cache").iterdir():
            old.unlink()  # else each run would start from the LIDs of the one before
        plain = {**os.environ, "IBSIM_SOCKNAME": self.name}
        self.sim = subprocess.Popen(
            [program("ibsim"), "-s", "-n", *sizes, str(folder / "net")],
            cwd=folder,
            env=plain,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Ibsim:
        wait_for_socket(self.name, self.sim)
        return self

    def __exit__(self, *_: object) -> None:
        self.sim.kill()
        self.sim.wait()

    def run(self, words: list[str]) -> tuple[Run, str]:
        """One manager from its start to its end, and what it printed."""
        served, own, began = cpu_s(self.sim.pid), children_s(), time.perf_counter()
        done = subprocess.run(words, env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=LIMIT_S)
        wall = time.perf_counter() - began
        if done.returncode:
            sys.exit(f"{words[0]} ended with {done.returncode}: {done.stderr[-500:]}")
        return Run(wall, children_s() - own, cpu_s(self.sim.pid) - served), done.stdout


def softib(ibsim: Ibsim) -> Run:
    run, printed = ibsim.run(
        [sys.executable, "-m", "softib.cli.main", "sm", "run", "--once", "--json", "--engine", "minhop"]
    )
    told = json.loads(printed)
    if told["state"] != "MASTER" or told["problems"]:
        sys.exit(f"softib sm run: {told['state']}, {told['problems'][:3]}")
    return run._replace(mads=sum(told["mads"].values()) + told["retries"])


def opensm(ibsim: Ibsim) -> Run:
    log = ibsim.folder / "osm.log"
    log.unlink(missing_ok=True)
    run, _ = ibsim.run([program("opensm"), "-o", "-f", str(log)])
    if "SUBNET UP" not in log.read_text():
        sys.exit(f"no SUBNET UP in {log}")
    return run


def opensm_mads(ibsim: Ibsim, limit_s: float) -> int:
    """QP0 MADs that OpenSM says it sent until SUBNET UP; 0 where it was not there, or its console said nothing, after ``limit_s`` seconds."""
    log = ibsim.folder / "osm.log"
    log.unlink(missing_ok=True)
    words = [program("opensm"), "--console", "local", "-s", "0", "-d2", "-f", str(log)]  # -d2: it flushes its log
    said = ibsim.folder / "console"
    with said.open("w") as out:
        osm = subprocess.Popen(
            words,
            env=ibsim.env,
            cwd=ibsim.folder,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    assert osm.stdin is not None
    until = time.monotonic() + limit_s

    def waited_for(words: str, file: Path) -> bool:
        while osm.poll() is None and time.monotonic() < until:
            if file.exists() and words in file.read_text(errors="replace"):
                return True
            time.sleep(0.2)
        return False

    try:
        if waited_for("SUBNET UP", log):
            osm.stdin.write("status\n")
            osm.stdin.flush()
            waited_for("QP0 MADs sent", said)
    finally:
        osm.kill()
        osm.wait()
        osm.stdin.close()
    found = re.search(r"QP0 MADs sent\s*:\s*(\d+)", said.read_text(errors="replace"))
    return int(found.group(1)) if found else 0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--large", action="store_true")
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--no-mads", action="store_true")
    arguments.add_argument(
        "--mads-limit", type=float, default=180, help="seconds that OpenSM has in the run that counts its MADs"
    )
    chosen = arguments.parse_args()
    fabric = generate("fat-tree", radix=36 if chosen.large else 24, levels=3)
    node = f"H-{int(fabric.node_guid[fabric.cas[0]]):016x}"
    s = fabric.sizes
    sizes = ["-N", str(s.nodes + 8), "-S", str(s.switches + 8), "-P", str(s.ports + 64)]
    with tempfile.TemporaryDirectory(prefix="softib-bench-") as name:
        folder = Path(name)
        write(fabric, folder / "net", "ibsim")
        print(f"{len(fabric.cas):,} hosts, {s.switches:,} switches, {s.cables:,} cables on stock ibsim", flush=True)
        if not chosen.no_mads:
            with Ibsim(folder, sizes, node) as sim:
                mads = opensm_mads(sim, chosen.mads_limit)
            missed = f"OpenSM did not say SUBNET UP and its MADs within {chosen.mads_limit:g} s: they are not counted"
            print(f"OpenSM sends {mads:,} MADs of QP0" if mads else missed, flush=True)
        rounds = []
        for i in range(chosen.rounds):
            both = {"softib": softib, "OpenSM": opensm}
            told: dict[str, Run] = {}
            print(f"round {i + 1}: ", end="", flush=True)
            for who in sorted(both, reverse=i % 2 == 0):
                with Ibsim(folder, sizes, node) as sim:
                    told[who] = both[who](sim)
                print(f"{who} {told[who]}", end=", ", flush=True)
            rounds.append((told["softib"], told["OpenSM"]))
            ours, theirs = rounds[-1]
            print(
                f"ratio of wall {ours.wall / theirs.wall:.2f}, of all CPU {(ours.own + ours.ibsim) / (theirs.own + theirs.ibsim):.2f}",
                flush=True,
            )
    wall = statistics.median(a.wall / b.wall for a, b in rounds)
    cpu = statistics.median((a.own + a.ibsim) / (b.own + b.ibsim) for a, b in rounds)
    print(f"median ratio of wall {wall:.2f} (bar: 0.5 at most), of processor time {cpu:.2f}")


if __name__ == "__main__":
    main()
