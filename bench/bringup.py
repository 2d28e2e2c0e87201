"""Bring-up of a three-level fat tree of 36-port switches: ours in process against stock OpenSM on stock ibsim.

    python bench/bringup.py --hosts 11664 --engine minhop --engine ftree

Both read the same netlist, in turns, in one run. OpenSM: start to exit of ``opensm -o`` on an ibsim that has loaded the
netlist (a fresh one each time, so that every port is in INIT). Ours: first MAD to last port ACTIVE, the file read and
the kernels compiled. Printed: every measurement, medians, their ratio. ``--cpu`` counts our CPU time instead, which a busy
machine prolongs less.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from softib.fabric.formats.registry import read, write
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.constants import PortState
from softib.scenario.bring_up import bring_up

RADIX = 36
PRELOAD = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
STOCK_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def ours(fabric: Fabric, engine: str, clock=time.perf_counter_ns) -> tuple[float, dict[str, float]]:
    """Seconds of ``clock``, and seconds by phase."""
    fabric = fabric.copy()  # as it was read: nothing configured, every link in INIT
    begin = clock()
    result = bring_up(fabric, engine, clock_ps=lambda: clock() * 1000)
    seconds = (clock() - begin) / 1e9
    if result.report.problems or not (fabric.port_state[fabric.linked] == PortState.ACTIVE).all():
        sys.exit(f"our bring-up failed: {result.report.problems[:3]}")
    phases = {**result.report.phase_s, "MADs": result.report.sent}
    return seconds, phases


def opensm(netlist: Path, fabric: Fabric, engine: str) -> float:
    """Seconds from the start of ``opensm -o`` to its exit, on an ibsim of its own."""
    ibsim, program = (shutil.which(p, path=STOCK_PATH) for p in ("ibsim", "opensm"))
    if not ibsim or not program:
        sys.exit("ibsim and opensm are needed (Debian: ibsim-utils, opensm); --no-stock measures ours alone")
    name = f"softib-bench-{os.getpid()}-{time.monotonic_ns()}"
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "IBSIM_SOCKNAME": name, "OSM_CACHE_DIR": folder, "OSM_TMP_DIR": folder}
        s = fabric.sizes
        size = ["-N", str(s.nodes + 8), "-S", str(s.switches + 8), "-P", str(s.ports + 64)]
        sim = subprocess.Popen(
            [ibsim, "-s", "-n", *size, str(netlist)],
            env=env,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while f"@{name}:ctl" not in Path("/proc/net/unix").read_text():
                if sim.poll() is not None:
                    sys.exit("ibsim ended while it read the netlist")
                time.sleep(0.1)
            host = f"H-{int(fabric.node_guid[fabric.cas[0]]):016x}"
            log = Path(folder) / "opensm.log"
            begin = time.perf_counter()
            run = subprocess.run(
                [program, "-o", "-R", engine, "-f", str(log)],
                cwd=folder,
                capture_output=True,
                env={**env, "LD_PRELOAD": PRELOAD, "SIM_HOST": host},
            )
            seconds = time.perf_counter() - begin
            if run.returncode or "SUBNET UP" not in log.read_text(errors="replace"):
                sys.exit(f"opensm failed: {run.stdout[-500:]!r}")
            return seconds
        finally:
            sim.kill()
            sim.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--hosts", type=int, default=11664, help="hosts of the tree, at most 11664 (default) of radix 36"
    )
    parser.add_argument("--radix", type=int, default=RADIX, help="ports of a switch (56 holds 43,904 hosts)")
    parser.add_argument("--engine", action="append", help="routing engine; may be repeated (default minhop and ftree)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the median counts")
    parser.add_argument("--no-stock", action="store_true", help="measure ours alone")
    parser.add_argument("--cpu", action="store_true", help="CPU seconds of ours; implies --no-stock")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        netlist = Path(folder) / "net"
        write(
            generate("fat-tree", radix=options.radix, levels=3, hosts=options.hosts, generation="HDR"), netlist, "ibsim"
        )
        fabric = read(netlist).fabric
        print(f"{fabric}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        for engine in options.engine or ["minhop", "ftree"]:
            bring_up(generate("fat-tree", radix=4, levels=3), engine)  # compiles
            clock = time.process_time_ns if options.cpu else time.perf_counter_ns
            stock = not (options.no_stock or options.cpu)
            results.append(measure(netlist, fabric, engine, options.runs, stock, clock))
    if options.json:
        print(json.dumps({"hosts": options.hosts, "switches": fabric.sizes.switches, "results": results}, indent=1))


def measure(netlist: Path, fabric: Fabric, engine: str, runs: int, stock: bool, clock) -> dict[str, object]:
    """Both sides in turns."""
    mine, theirs, phases = [], [], {}
    for _ in range(runs):
        if stock:
            theirs.append(opensm(netlist, fabric, engine))
        seconds, phases = ours(fabric, engine, clock)
        mine.append(seconds)
    by_phase = ", ".join(f"{k} {v:.3f}" if k != "MADs" else f"{v:,} MADs" for k, v in phases.items())
    print(f"{engine}: ours {', '.join(f'{s:.3f}' for s in mine)} s ({by_phase})", file=sys.stderr)
    result: dict[str, object] = {
        "engine": engine,
        "ours_s": mine,
        "ours_median_s": statistics.median(mine),
        "phases": phases,
    }
    if stock:
        ratio = statistics.median(theirs) / statistics.median(mine)
        result |= {"opensm_s": theirs, "opensm_median_s": statistics.median(theirs), "ratio": ratio}
        print(
            f"{engine}: OpenSM on ibsim {', '.join(f'{s:.1f}' for s in theirs)} s; ratio of the medians {ratio:.0f}",
            file=sys.stderr,
        )
    return result


if __name__ == "__main__":
    main()
