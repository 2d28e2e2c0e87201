"""Nanoseconds to resolve a way in C, microseconds to fold cells: ``python bench/verbs_fabric.py [RADIX]``.

Walks of random pairs in a three-level fat tree of RADIX-port switches (default 16: 1,024 hosts), cold tables after the
first round; folds of 10,000 cells of six links each way, all changed, and unchanged.
"""

from __future__ import annotations

import ctypes as ct
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.preload.verbs.fabric_library import Direction, Label, RouteKey, SharedFabricInC

from softib.agents.plane import AgentPlane
from softib.fabric.topologies.registry import generate
from softib.live.verbs.traffic import Traffic
from softib.scenario.bring_up import bring_up

PAIRS, CELLS = 100_000, 10_000


def walks(shared: SharedFabricInC, rng: np.random.Generator) -> None:
    f = shared.fabric
    ends = np.flatnonzero(~f.is_switch[f.port_node] & f.linked)
    a, z = rng.choice(ends, (2, PAIRS))
    lids = f.lid
    routes = (RouteKey * PAIRS)(
        *(RouteKey(port=int(p), dlid=int(lids[q]), pkey=0xFFFF) for p, q in zip(a, z, strict=True))
    )
    links = ct.c_uint64()
    took = [shared.library.probe_walk_many(shared.memory, routes, PAIRS, ct.byref(links)) for _ in range(5)]
    print(
        f"{len(ends)} hosts, {f.sizes.switches} switches, {links.value / PAIRS:.2f} links a way: "
        f"{1e9 * min(took) / PAIRS:.0f} ns a walk (first round {1e9 * took[0] / PAIRS:.0f})"
    )


def cells(shared: SharedFabricInC, folder: Path, rng: np.random.Generator) -> None:
    f, lib = shared.fabric, shared.library
    traffic = Traffic(folder / "traffic", AgentPlane(f).tables)
    mine, why = ct.c_void_p(), ct.create_string_buffer(256)
    assert lib.sv_cells_open(ct.byref(mine), str(folder / "traffic").encode(), 9, why, 256) == 0, why.value
    ends = np.flatnonzero(~f.is_switch[f.port_node] & f.linked)
    made = []
    begin = time.perf_counter()
    for _ in range(CELLS):
        a, z = (int(p) for p in rng.choice(ends, 2, replace=False))
        there, back = shared.walk(a, int(f.lid[z])), shared.walk(z, int(f.lid[a]))
        directions = (Direction * 2)(
            *(Direction(ct.addressof(p) + type(p).egress.offset, p.links, 0xFFFFFFFF, 0) for p in (there, back))
        )
        made.append(lib.sv_cell_new(mine, ct.byref(directions), ct.byref(Label())))
    print(f"{CELLS} cells made in {time.perf_counter() - begin:.1f} s (by ctypes)")
    for name in ("first", "again"):
        for cell in made:
            lib.probe_count(cell, 0, 1, 281)
            lib.probe_count(cell, 1, 1, 7)
        begin = time.perf_counter()
        assert traffic.fold(0) == CELLS
        print(f"fold of {CELLS} changed cells, {name}: {1e6 * (time.perf_counter() - begin):.0f} us")
    for name in ("looked at once more", "untouched"):
        begin = time.perf_counter()
        traffic.fold(0)
        print(f"fold of {CELLS} unchanged cells, {name}: {1e6 * (time.perf_counter() - begin):.0f} us")
    lib.probe_count_loop.argtypes = [ct.c_void_p, ct.c_uint64, ct.c_uint64]
    begin = time.perf_counter()
    lib.probe_count_loop(made[0], 10_000_000, 281)
    print(f"counting: {1e9 * (time.perf_counter() - begin) / 2e7:.2f} ns a message")


def main() -> None:
    radix = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    fabric = generate("fat-tree", radix=radix, levels=3)
    bring_up(fabric, "ftree")
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        shared = SharedFabricInC(Path(folder), fabric)
        walks(shared, rng)
        cells(shared, Path(folder), rng)


if __name__ == "__main__":
    main()
