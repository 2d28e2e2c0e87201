"""NCCL's all-reduce against nccl-tests on four clusters. ``python -m bench.validation.nccl`` prints the table; ``--fit`` fits, and leaves one dataset out.

What the measurements do not say, and is assumed:

* N3 ran with NCCL_ALGO=RING (the job file says so). Nothing says that N1 or the ABCI jobs set anything, so NCCL's model chooses there.
* All take the constants of NCCL 2.8.4, which ABCI states, to choose; N1 and N3 are of the same year.
* N1 and N3: 8 A100, 8 HDR adapters, one rail a GPU, processors of AMD. ABCI node V: 4 V100, 2 EDR adapters; node A: 8 A100, 4 HDR adapters, Intel.
* ABCI node V without LL128: ABCI's diagram of the node has its adapters at the processors, and NCCL allows LL128 behind PCIe switches alone.
* The adapters' rates of ABCI's nodes are what osu_mbw_mr measured between GPUs there (node A: 4 and 8 pairs on all four), and no share of a link.
* The networks are full, unloaded, and two switches deep; their share of a hop is in NCCL's constants.

The mechanisms (threads of a tree, channels before doubling, ``channel``, slices that are sent whole) were looked for with these measurements in view, which leaving one dataset out does not undo.

The runs on node A with 4, 8 and 16 nodes, and V with 8, 16 and 32, are in no fit: they are shown as what the model says of larger clusters.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.validation import data
from bench.validation.row import Row
from bench.validation.section_values import with_values
from softib.workloads.nccl.constants import Collective
from softib.workloads.nccl.law import predicted_us
from softib.workloads.nccl.machine import machine_of
from softib.workloads.nccl.tuning import choose
from softib.workloads.parameters import Section, section

__all__ = ["CLUSTERS", "FITTED", "bar_of", "fit", "held_out", "leave_one_out", "measured_in", "rows"]

SHARED = Path(os.environ.get("SOFTIB_SHARED", data.SHARED))
CLUSTERS = {
    "N1-AzureNDv4-2x8A100": ("ndv4", ""),
    "N3-DGXA100x2": ("dgx-a100", "ring"),
    "A-ABCI-V(2xEDR)": ("abci-v", ""),
    "A-ABCI-A(4xHDR)": ("abci-a", ""),
}
"""Machine, and algorithm where one was forced, of each dataset."""
FITTED = (
    "launch", "channel", "ll128_latency", "simple_latency", "ll_line", "ll_rate_v100", "ll_rate_a100", "ll128_rate", "nic_share",
)  # fmt: skip
PUBLISHED = {
    "launch": 12.0, "channel": 0.1, "ll128_latency": 1.0, "simple_latency": 1.0, "ll_line": 0.1, "ll_rate_v100": 39.0 / 12, "ll_rate_a100": 87.7 / 24, "ll128_rate": 16.9,
    "nic_share": 1.0,
}  # fmt: skip
"""Where a fit without a dataset begins, and what stays where no other dataset says more: NCCL's own constants, and osu_mbw_mr of one adapter."""
RELEASE = "2.8"
MOST = 1.5
"""Bars beyond which an error counts no more: a row that no mechanism explains must not draw the others."""
_LINE = re.compile(r"^ +(\d+) +\d+ +float +sum +([\d.]+) +([\d.]+) +([\d.]+) ")
_LARGER = {
    ("A-ABCI-A(4xHDR)", 4): "*inter_anode__job04*.nccl", ("A-ABCI-A(4xHDR)", 8): "*inter_anode__job08*.nccl",
    ("A-ABCI-A(4xHDR)", 16): "*inter_anode__job16*.nccl", ("A-ABCI-V(2xEDR)", 8): "*inter_vnode__job08*.nccl",
    ("A-ABCI-V(2xEDR)", 16): "*inter_vnode__job16*.nccl", ("A-ABCI-V(2xEDR)", 32): "*inter_vnode__job32*.nccl",
}  # fmt: skip


def bar_of(size: int) -> float:
    """Largest error that is good, by octets."""
    if size >= 1 << 28:
        return 0.05
    return 0.10 if size > 1 << 26 else 0.20 if size >= 1 << 20 else 0.15


def _row(dataset: str, size: int, nodes: int, measured: float, values: Section) -> Row:
    name, algorithm = CLUSTERS[dataset]
    machine = machine_of(name)
    by = choose(Collective.ALL_REDUCE, size, machine, nodes, algorithm=algorithm, release=RELEASE)
    predicted = predicted_us(Collective.ALL_REDUCE, by, size, machine, nodes, values)
    return Row(dataset, "nccl_allreduce", size, nodes, measured, predicted, "us", bar_of(size))


def rows(parameters: Section | None = None) -> list[Row]:
    """The comparisons with ``measured.csv``, with these parameters of section ``nccl`` or those of the file."""
    values = section("nccl") if parameters is None else parameters
    with (SHARED / "reference" / "measured.csv").open(encoding="utf-8") as file:
        found = [r for r in csv.DictReader(file) if r["metric"] == "nccl_allreduce" and r["dataset"] in CLUSTERS]
    return [_row(r["dataset"], int(r["size_bytes"]), int(r["nodes"]), float(r["value"]), values) for r in found]


def held_out(parameters: Section | None = None) -> list[Row]:
    """The comparisons with runs that no parameter was fitted to: larger ones of ABCI."""
    values = section("nccl") if parameters is None else parameters
    found = []
    for (dataset, nodes), name in _LARGER.items():
        for path in sorted((SHARED / "data" / "abci2").glob(name)):
            found += [_row(dataset, size, nodes, us, values) for size, us in measured_in(path)]
    return found


def measured_in(path: Path, factor: float = 0.0) -> list[tuple[int, float]]:
    """(octets, µs) of each row of a log of all_reduce_perf, out of place; with ``factor`` only rows whose bus bandwidth is so many times their algorithm bandwidth (within
    1 %), so of tables of several clusters those of one."""
    hits = [hit for line in path.read_text(encoding="utf-8").splitlines() if (hit := _LINE.match(line))]
    return [
        (int(h[1]), float(h[2]))
        for h in hits
        if not factor or abs(float(h[4]) / max(float(h[3]), 1e-9) / factor - 1) < 0.01
    ]


def error(r: Row) -> float:
    """Of a prediction, as a share of the measurement."""
    return r.predicted / r.measured - 1


def fit(start: Section, without: str = "") -> Section:
    """Parameters :data:`FITTED` with as many rows as possible within their bars, and among those with the smallest squares of errors over bars (:func:`_cost`), by
    trying factors on one after another."""
    values = start
    cost = _cost(values, without)
    step = 0.2
    while step > 0.004:
        better = False
        for name in FITTED:
            for factor in (1 + step, 1 / (1 + step)):
                tried = with_values(values, **{name: _within(name, values[name] * factor)})
                if (found := _cost(tried, without)) < cost - 1e-9:
                    values, cost, better = tried, found, True
        step = step if better else step / 2
    return values


def _within(name: str, value: float) -> float:
    return min(value, 1.0) if name == "nic_share" else value


def _cost(values: Section, without: str) -> float:
    """How many rows miss their bars, and below one the mean square of errors over bars, each at most :data:`MOST`: the bars are what is asked, and no exponent is chosen."""
    over = [abs(error(r)) / r.bar for r in rows(values) if r.dataset != without]
    return sum(x > 1 for x in over) + sum(min(x / MOST, 1.0) ** 2 for x in over) / (len(over) + 1)


def leave_one_out() -> dict[str, list[Row]]:
    """The rows of each dataset, with parameters that were fitted without it, from :data:`PUBLISHED` on."""
    start = with_values(section("nccl"), **PUBLISHED)
    return {name: [r for r in rows(fit(start, name)) if r.dataset == name] for name in CLUSTERS}


def _summary(name: str, found: Iterable[Row]) -> str:
    listed = list(found)
    errors = [abs(error(r)) for r in listed]
    good = sum(e <= r.bar for e, r in zip(errors, listed, strict=True))
    return f"{name:28} {len(listed):4} rows, {good:4} within their bars, mean {sum(errors) / len(errors):6.1%}, worst {max(errors):6.1%}"


def main(arguments: list[str]) -> int:
    """Print the table."""
    for r in rows() + held_out():
        mark = "" if abs(error(r)) <= r.bar else f"  over {r.bar:.0%}"
        print(
            f"{r.dataset:22} {r.nodes:2} nodes {r.size:>13,} B {r.measured:10.1f} us {r.predicted:10.1f} us {error(r):+7.1%}{mark}"
        )
    for name in CLUSTERS:
        print(_summary(name, [r for r in rows() if r.dataset == name]))
    for name, nodes in _LARGER:
        if larger := [r for r in held_out() if (r.dataset, r.nodes) == (name, nodes)]:
            print(_summary(f"{name}, {nodes} nodes (held out)", larger))
    if "--fit" in arguments:
        found = fit(section("nccl"))
        print({name: round(found[name], 4) for name in FITTED})
        for name, left in leave_one_out().items():
            print("without it:", _summary(name, left))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
