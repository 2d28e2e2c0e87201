"""Our engines beside stock OpenSM's on the same fabrics: time to compute routes, and VLs (bench/quality.py: how even the links are).

    python bench/routing_opensm.py [FABRIC[:ENGINE] …]      # default: all of FABRICS

OpenSM runs on ibsim. Its time is that from "building routing" to "tables configured" in its log (-D 0x07): tables alone, no MADs. Told are wall clock and
the CPU time of all its threads between the two (sampled every 10 ms), and the ratio is that of CPU times: on a busy machine the wall clock says little.
Ours is the CPU time of ``route`` with compiled kernels, the best of five, half of them before and half after OpenSM's. VLs of OpenSM are those its log names.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.routing.engines.torus_lab import Lab
from tests.routing.fabrics import kary_tree
from tests.routing.stock_sm import ibsim

from bench.live_opensm import cpu_s
from softib.fabric.topologies.registry import generate
from softib.routing.engine import RouteOptions, Routing, route
from softib.routing.graph import SwitchGraph
from softib.routing.proof.verify import verify
from softib.scenario.bring_up import bring_up

OPENSM, IBSIM = "/usr/sbin/opensm", "/usr/bin/ibsim"
TREE, CYCLIC = (
    ("minhop", "updn", "dnup", "ftree", "dfsssp", "lash", "nue"),
    ("lash", "dfsssp", "nue", "dor", "updn", "minhop"),
)
PATIENCE_S = 300.0


def made(kind: str, **parameters: Any) -> SwitchGraph:
    return bring_up(generate(kind, **parameters), "minhop").graph


class Torus:
    """A torus and, for torus-2QoS, its configuration."""

    def __init__(self, *radix: int, **more: Any):
        self.lab = Lab(*radix, **more)
        self.config = self.lab.config()

    def __call__(self) -> SwitchGraph:
        return self.lab.graph


FABRICS: dict[str, tuple[Callable[[], SwitchGraph], tuple[str, ...]]] = {
    "fat tree 1,944": (lambda: made("fat-tree", radix=36, levels=3, hosts=1944), TREE),
    "fat tree 3,456": (lambda: kary_tree(12, 3, True), TREE),
    "torus 8x8x8": (Torus(8, 8, 8, hosts=2), ("torus-2QoS", *CYCLIC)),
    "torus 16x16": (Torus(16, 16, 1, hosts=4), ("torus-2QoS", *CYCLIC)),
    "dragonfly 1,056": (lambda: made("dragonfly", a=8, p=4, h=4, g=33), CYCLIC),
}


@contextmanager
def opensm(g: SwitchGraph, engine: str, config: str = "") -> Iterator[tuple[Path, np.ndarray]]:
    """The folder of one run of OpenSM on ibsim (its log and dumps), and its processor time: float64[samples, 2], (seconds of the day, CPU s)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "torus.conf").write_text(config)
        log = folder / "log"
        with ibsim(IBSIM, g, folder) as env:
            words = ["-R", f"{engine},no_fallback", "-D", "0x07", "-f", log, "--dump_files_dir", folder, "-Q"]
            words += ["--torus_config", folder / "torus.conf"] if config else []
            env = {**env, "OSM_TMP_DIR": name, "OSM_CACHE_DIR": name}
            sm = subprocess.Popen(
                [OPENSM, *map(str, words)],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                samples = _wait(log, sm)
            finally:
                sm.kill()
                sm.wait()
        yield folder, samples


def _wait(log: Path, sm: subprocess.Popen[bytes]) -> np.ndarray:
    end, samples = time.monotonic() + PATIENCE_S, []
    while time.monotonic() < end and sm.poll() is None:
        time.sleep(0.01)
        now = time.time()
        at = time.localtime(now)
        samples.append((at.tm_hour * 3600 + at.tm_min * 60 + at.tm_sec + now % 1, cpu_s(sm.pid)))
        if len(samples) % 20 == 0 and log.exists():
            with log.open("rb") as f:
                f.seek(max(0, log.stat().st_size - 20_000))
                if re.search(rb"SUBNET UP|No routing engine able", f.read()):
                    break
    return np.array(samples)


def seconds(line: str) -> float:
    found = re.search(r"(\d\d):(\d\d):(\d\d) (\d{6})", line)
    assert found
    h, m, s, us = map(int, found.groups())
    return h * 3600 + m * 60 + s + us / 1e6


def their_time(log: str, samples: np.ndarray) -> tuple[float | None, float, str]:
    """(wall s, CPU s, VLs or why not) of OpenSM's log and its :func:`samples <opensm>`."""
    begin = re.search(r".*building routing with.*", log)
    end = re.search(r".*tables configured on all switches.*", log)
    lanes = re.search(r"Virtual Lanes needed: (\d+)|Lanes needed: (\d+)", log)
    vls = next((x for x in lanes.groups() if x), "") if lanes else ""
    if not begin or (not end and "No routing engine able" not in log):
        return None, 0.0, f"no tables in {PATIENCE_S:.0f} s"
    if not end:
        return None, 0.0, f"refuses{f', {vls} VLs' if vls else ''}"
    first, last = seconds(begin[0]), seconds(end[0])
    cpu = np.interp([first, last], samples[:, 0], samples[:, 1])
    return last - first, float(cpu[1] - cpu[0]), vls


def ours(g: SwitchGraph, engine: str, options: RouteOptions, runs: int = 3) -> tuple[float, Routing]:
    took = []
    for _ in range(runs):
        start = time.process_time()
        r = route(g, engine, options)
        took.append(time.process_time() - start)
    return min(took), r


def print_times(names: list[str]) -> None:
    for name in names or FABRICS:
        name, _, only = name.partition(":")
        make, engines = FABRICS[name]
        g = make()
        config = getattr(make, "config", "")
        options = RouteOptions(torus_config=config)
        print(f"{name}: {g.n_switches} switches, {np.count_nonzero(~g.end_is_switch)} CA ports", flush=True)
        for engine in [only] if only else engines:
            mine, r = ours(g, engine, options)
            p = verify(g, r.lft, r.path_sl, r.sl2vl)
            with opensm(g, engine, config) as (folder, samples):
                wall, cpu, vls = their_time((folder / "log").read_text(errors="replace"), samples)
            mine = min(mine, ours(g, engine, options, 2)[0])
            ratio = f"{mine / cpu:6.3f}" if wall and cpu else "     -"
            text = f"{cpu:7.3f} s CPU, {wall:7.3f} s wall" if wall else "      -"
            print(
                f"  {engine:11} softib {mine:8.3f} s, {r.vls} VL ({r.engine}{'' if p.ok else ', not free of loops'})   "
                f"OpenSM {text} {vls:12} ratio {ratio}",
                flush=True,
            )


if __name__ == "__main__":
    print_times(sys.argv[1:])
