"""How evenly our engines and stock OpenSM's use the links of the same fabrics, and the virtual lanes that they take.

    python bench/quality.py FOLDER [--workers N] [--json FILE] [--only TEXT]

FOLDER holds OpenSM's tables (``bench/quality_tables.py`` writes it). Needs neither OpenSM nor ibsim; one process a table, all processors.
Quality is the largest number of flows on a link between switches, each host sending to one other: as a mean over all shifts (host i of n to
host i + k, k = 1 … n - 1; hosts in the order of their PortGUIDs), and as a mean over random bisections (both directions): over the first
1,000 of a seed, and over all 20,000 of it. The last is paired: both sides' best engines have the same bisections, and told are the mean
difference and its standard error.
Only tables free of credit loops on the lanes that they use count; lash, dfsssp, nue and torus-2QoS of OpenSM are taken for free of them.
Prints a Markdown table: of each side the best engine by either figure, and the lanes of lash, dfsssp and nue.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from softib.routing.engine import ENGINES, RouteOptions, route
from softib.routing.graph import SwitchGraph
from softib.routing.lft_kernels import count_flows
from softib.routing.proof.credit_loops import has_credit_loop
from softib.routing.proof.reach import lost_pairs, port_map
from softib.routing.proof.verify import verify
from softib.routing.quality import most_flows_of_bisections

OURS = (*(e for e in ENGINES if e != "file"), "nue8")
BY_LANES = ("lash", "dfsssp", "nue", "nue8")
LANED = (*BY_LANES, "torus-2QoS")
BISECTIONS, PAIRED, SEED = 1000, 20000, 1


@dataclass(frozen=True)
class Task:
    file: Path
    side: str
    """softib or OpenSM"""
    engine: str


@dataclass(frozen=True)
class Result:
    fabric: str
    side: str
    engine: str
    shifts: float
    bisections: float
    error: float
    """standard error of ``bisections``, which are drawn; shifts are all of them"""
    paired: np.ndarray
    """int64[PAIRED]: the most flows of each bisection"""
    lanes: int
    flaw: str
    """why it does not count"""
    took_s: float


def graph_of(data: Any) -> SwitchGraph:
    columns = {f.name: data[f"graph_{f.name}"] for f in fields(SwitchGraph)}
    return SwitchGraph(**{k: v.item() if v.ndim == 0 else v for k, v in columns.items()})


def mean_of_shifts(g: SwitchGraph, lft: np.ndarray) -> float:
    """Mean over all shifts of the most flows on a link."""
    ends = np.flatnonzero(~g.end_is_switch)
    ends = ends[np.argsort(g.end_guid[ends])]
    at, lft = port_map(g), np.ascontiguousarray(lft, np.uint8)
    switch, lid = g.end_switch[ends], g.end_lid[ends].astype(np.int32)
    load = np.empty(len(g.peer), np.int64)

    def most(source: np.ndarray, dest: np.ndarray) -> int:
        load[:] = 0
        count_flows(at, g.peer, lft, switch[source], lid[dest], load)
        return int(load.max(initial=0))

    each = np.arange(len(ends))
    return float(np.mean([most(each, np.roll(each, -k)) for k in range(1, len(ends))]))


def measured(task: Task) -> Result:
    start = time.perf_counter()
    with np.load(task.file) as data:
        g, fabric = graph_of(data), str(data["fabric"])
        if task.side == "softib":
            lft, lanes, flaw = _ours(g, task.engine, str(data["torus_config"]))
        else:
            lft, lanes, flaw = _theirs(g, task.engine, data)
    shifts, paired = float("nan"), np.full(PAIRED, np.nan)
    if lft is not None:
        shifts, paired = mean_of_shifts(g, lft), most_flows_of_bisections(g, lft, PAIRED, SEED)
    first = paired[:BISECTIONS]
    error = float(np.std(first) / np.sqrt(len(first)))
    took = time.perf_counter() - start
    return Result(fabric, task.side, task.engine, shifts, float(np.mean(first)), error, paired, lanes, flaw, took)


def _ours(g: SwitchGraph, engine: str, config: str) -> tuple[np.ndarray | None, int, str]:
    vls = 8 if engine == "nue8" else 1
    r = route(g, engine.removesuffix("8"), RouteOptions(nue_max_num_vls=vls, torus_config=config))
    if r.engine != engine.removesuffix("8"):
        return None, 0, "refuses"
    loop, lost = verify(g, r.lft, r.path_sl, r.sl2vl).credit_loop, lost_pairs(g, r.lft)
    return r.lft, r.vls, "credit loop" if loop else f"{lost} pairs lost" if lost else ""


def _theirs(g: SwitchGraph, engine: str, data: Any) -> tuple[np.ndarray | None, int, str]:
    lanes = int(data[f"lanes_{engine}"]) or {"nue8": 8, "torus-2QoS": 2}.get(engine, 1)
    if engine in data["refused"]:
        return None, int(data[f"lanes_{engine}"]), "refuses"
    lft = np.full((g.n_switches, g.lft_size), 255, np.uint8)
    lft[:, g.end_lid] = data[f"lft_{engine}"]
    lost = verify(g, lft).ca_ca.lost
    loop = engine not in LANED and has_credit_loop(g, lft)
    return lft, lanes, "credit loop" if loop else f"{lost} pairs lost" if lost else ""


def tasks(folder: Path, only: str) -> Iterator[Task]:
    for file in sorted(folder.glob("*.npz"), key=lambda f: f.stat().st_size):
        with np.load(file) as data:
            fabric, config = str(data["fabric"]), str(data["torus_config"])
            theirs = [name.removeprefix("lanes_") for name in data.files if name.startswith("lanes_")]
        if only in fabric:
            yield from (Task(file, "OpenSM", e) for e in theirs)
            yield from (Task(file, "softib", e) for e in OURS if e != "torus-2QoS" or config)


def best(results: list[Result], figure: str) -> tuple[float, float, str]:
    """The least figure (to two digits), its standard error, and the engines that have it."""
    least = min(round(getattr(r, figure), 2) for r in results)
    found = [r for r in results if round(getattr(r, figure), 2) == least]
    return least, found[0].error if figure == "bisections" else 0.0, ", ".join(r.engine for r in found)


def difference(good: dict[str, list[Result]]) -> str:
    """Ours minus theirs over the same bisections, of the engine with the least mean on each side."""
    ours, theirs = (min(good[side], key=lambda r: float(np.mean(r.paired))) for side in ("softib", "OpenSM"))
    apart = ours.paired - theirs.paired
    error = float(np.std(apart) / np.sqrt(len(apart)))
    share = float(np.mean(apart) / np.mean(theirs.paired))
    return f"{np.mean(apart):+.3f} ± {error:.3f} ({share:+.2%}; {ours.engine}, {theirs.engine})"


def row(fabric: str, results: list[Result]) -> str:
    """A row of the table; a difference of drawn bisections is one only beyond the error (95 %)."""
    cells, verdicts = [], []
    good = {s: [r for r in results if r.side == s and not r.flaw] for s in ("softib", "OpenSM")}
    for figure in ("shifts", "bisections"):
        (mine, error, by), (other, their_error, with_) = (best(good[s], figure) for s in good)
        cells += [f"{mine:.2f} ({by})", f"{other:.2f} ({with_})"]
        share = mine / other - 1 if other else 0.0
        drawn = " (within the error)" if abs(mine - other) < 1.96 * np.hypot(error, their_error) else ""
        verdicts.append("equal" if mine == other else f"{abs(share):.1%} {'better' if share < 0 else 'worse'}{drawn}")
    lanes = []
    for engine in BY_LANES:
        pair = [next((r for r in results if r.side == s and r.engine == engine), None) for s in ("softib", "OpenSM")]
        if all(pair):
            a, b = (
                f"{r.lanes}" if r.flaw != "refuses" else f"refuses{f' ({r.lanes})' if r.lanes else ''}" for r in pair
            )
            lanes.append(f"{engine} {a} / {b}")
    return f"| {fabric} | " + " | ".join([*cells, difference(good), "; ".join(verdicts), ", ".join(lanes)]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    todo = list(tasks(args.folder, args.only))
    small = todo[0].file
    for t in (t for t in todo if t.file == small):  # compiles the kernels once, before processes share them
        measured(t)
    order = sorted(todo, key=lambda t: (-t.file.stat().st_size, t.engine not in ("dfsssp", "lash", "nue8")))
    results: list[Result] = []
    with ProcessPoolExecutor(args.workers, mp_context=get_context("fork")) as pool:
        for r in pool.map(measured, order):
            results.append(r)
            print(
                f"{r.fabric}: {r.side} {r.engine}: shifts {r.shifts:.3f}, bisections {r.bisections:.3f}, {r.lanes} VL, "
                f"{r.flaw or 'ok'}, {r.took_s:.1f} s",
                file=sys.stderr,
                flush=True,
            )
    if args.json:
        args.json.write_text(
            json.dumps([{k: v for k, v in vars(r).items() if k != "paired"} for r in results], indent=1) + "\n"
        )
    print(
        "| fabric | shifts: softib | OpenSM | bisections: softib | OpenSM | paired difference | | VLs: softib / OpenSM |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for fabric in sorted({r.fabric for r in results}):
        print(row(fabric, [r for r in results if r.fabric == fabric]), flush=True)


if __name__ == "__main__":
    main()
