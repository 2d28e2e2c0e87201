"""Bring-up by stock OpenSM (``opensm -o``): wall time under our preload library against the stock one, same daemon, paired.

    python bench/umad_opensm.py [--radix 24] [--rounds 4] [--ibsim]

3,456 hosts and 720 switches with the default radix. Each run has a fabric of its own, fresh from power-on; the order
alternates between rounds. The bar is a ratio of 1.0 at most. ``--ibsim``: stock ibsim in each round too.
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

from live_opensm import cpu_s, on_ibsim, program
from softib.fabric.formats.registry import write
from softib.fabric.topologies.registry import generate

LIMIT_S = 900
SOFTIB = [sys.executable, "-m", "softib.cli.main"]


def opensm(folder: Path, more: list[str]) -> tuple[float, float, float]:
    """Seconds of ``opensm -o``, and the processor seconds of the daemon and of OpenSM meanwhile."""
    name = f"bench-{os.getpid()}"
    shutil.rmtree(folder / "cache", ignore_errors=True)  # else each run would start from the LIDs of the one before
    (folder / "cache").mkdir()
    log = folder / "osm.log"
    log.unlink(missing_ok=True)
    env = {**os.environ, "OSM_CACHE_DIR": str(folder / "cache"), "OSM_TMP_DIR": str(folder)}
    subprocess.run(
        [*SOFTIB, "up", str(folder / "net"), "--name", name, "--sm", "external", "--detach"],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    try:
        told = subprocess.run([*SOFTIB, "status", name, "--json"], check=True, capture_output=True, text=True).stdout
        daemon = json.loads(told)["fabrics"][0]["pid"]
        used, children = cpu_s(daemon), os.times()
        words = [*SOFTIB, "run", "--fabric", name, *more, "--"]
        # The shell takes the time, so that the start of `softib run` does not count.
        script = f"b=$(date +%s%N); {program('opensm')} -o -f {log} >/dev/null 2>&1; e=$(date +%s%N); echo $((e-b))"
        done = subprocess.run(
            [*words, "sh", "-c", script],
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
        after = os.times()
        used = cpu_s(daemon) - used
    finally:
        subprocess.run([*SOFTIB, "down", name], check=False, stderr=subprocess.DEVNULL)
    if "SUBNET UP" not in log.read_text():
        sys.exit(f"no SUBNET UP in {log}")
    own = after.children_user + after.children_system - children.children_user - children.children_system
    return int(done.stdout.split()[-1]) / 1e9, used, own


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--radix", type=int, default=24, help="of the three-level tree")
    arguments.add_argument("--rounds", type=int, default=4)
    arguments.add_argument("--ibsim", action="store_true", help="and against the stock library on stock ibsim")
    chosen = arguments.parse_args()
    fabric = generate("fat-tree", radix=chosen.radix, levels=3)
    kinds: dict[str, list[str]] = {"ours": [], "stock": ["--stock-preload"]}
    if chosen.ibsim:
        kinds["ibsim"] = []
    node, n = f"H-{int(fabric.node_guid[fabric.cas[0]]):016x}", fabric.sizes
    sizes = ["-N", str(n.nodes + 8), "-S", str(n.switches + 8), "-P", str(n.ports + 64)]
    took: dict[str, list[float]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory(prefix="softib-bench-") as name:
        folder = Path(name)
        write(fabric, folder / "net", "ibsim")
        print(f"{len(fabric.cas):,} hosts, {fabric.sizes.switches:,} switches; opensm -o, seconds", flush=True)
        for i in range(chosen.rounds):
            line = []
            for kind in list(kinds)[:: 1 if i % 2 == 0 else -1]:
                if kind == "ibsim":
                    seconds, server = on_ibsim(folder, sizes, node)
                    took[kind].append(seconds)
                    line.append(f"ibsim {seconds:.2f} (CPU: server {server:.2f})")
                    continue
                seconds, daemon, own = opensm(folder, kinds[kind])
                took[kind].append(seconds)
                line.append(f"{kind} {seconds:.2f} (CPU: daemon {daemon:.2f}, OpenSM {own:.2f})")
                time.sleep(0.5)
            print(f"round {i + 1}: {', '.join(line)}; ratio {took['ours'][-1] / took['stock'][-1]:.2f}", flush=True)
    for kind in list(kinds)[1:]:
        ratios = [a / b for a, b in zip(took["ours"], took[kind], strict=True)]
        best = min(took["ours"]) / min(took[kind])
        print(f"against {kind}: ratio of the best {best:.2f}, median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
