"""NCCL's collectives against nccl-tests, through ``softib simulate``.

Each dataset is a cluster: a fabric of rails, and the machine in one line of options, as a user describes it. ``default`` is the same without the line.

What the measurements do not say, and is assumed:

* N3 ran with NCCL_ALGO=RING (the job file says so). Nothing says that the other jobs set anything, so NCCL's model chooses there.
* All take the constants of NCCL 2.8.4, which ABCI states, to choose; the others are of the same years.
* N1, N3, superbench, deepops: DGX A100 (8 A100, 8 HDR adapters, processors of AMD). ABCI node V: 4 V100, 2 EDR adapters at the processors (its diagram); node A: 8 A100, 4 HDR adapters, Intel.
* The adapters' rates of ABCI's nodes are what osu_mbw_mr measured between GPUs there (node A: 4 and 8 pairs on all four).
* The networks are full, unloaded, and two switches deep; their share of a hop is in NCCL's constants.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from bench.validation.clusters import rails, simulated, using
from bench.validation.data import SHARED, measured
from bench.validation.row import Row
from softib.iba.rates import speed_named
from softib.workloads.nccl.constants import Collective
from softib.workloads.nccl.job import run_of
from softib.workloads.nccl.tuning import expected_us
from softib.workloads.parameters import Section
from softib.workloads.workload import parse

__all__ = ["ASSUMPTIONS", "SECTIONS", "Set", "bar_of", "baselines", "rows", "sets"]

SECTIONS = ("nccl",)
V = "machine=v100,gpus=4,gpudirect=phb,gpu-nic=81.6,nccl=2.8"
A = "machine=a100,cpu=intel,gpu-nic=77.92,nccl=2.8"
DGX = "machine=a100,nccl=2.8"


@dataclass(frozen=True)
class Set:
    """A dataset: ``nodes`` with ``adapters`` each of ``generation``; ``machine``: whose it is, for leaving machines out; ``line``: the machine as a user describes it;
    ``forced``: what the job set, which a user knows in any case; ``rows``: (collective, octets, us); ``held``: a bar and a fit are set to it."""

    name: str
    machine: str
    nodes: int
    adapters: int
    generation: str
    line: str
    rows: tuple[tuple[Collective, int, float], ...]
    forced: str = ""
    held: bool = False


ASSUMPTIONS = {
    "superbench": "1 DGX A100; the NCCL release is not stated; one process launches for all 8 GPUs",
    "deepops-4xDGXA100": "4 DGX A100, 8 HDR adapters each, as the text says; the NCCL release is not stated; two runs within 10 % of each other differ more at 128 MiB",
    "deepops-2xDGX1-RoCE": "2 DGX-1 with 2 adapters of 100 Gb/s; RoCE is predicted as InfiniBand of this rate; NCCL 2.5.6 there; rows from 8 MiB on, for every third smaller one stalls for 0.5 ms",
    "abci2-intra-nccl": "1 node A with 4 and 8 GPUs, 1 node V with 4; V100's rate of LL128 (512 KiB to 2 MiB there) is taken from A100, because no dataset states it",
}
COLLECTIVES = {
    "allreduce": Collective.ALL_REDUCE,
    "allgather": Collective.ALL_GATHER,
    "reducescatter": Collective.REDUCE_SCATTER,
    "alltoall": Collective.ALL_TO_ALL,
    "broadcast": Collective.BROADCAST,
}
_LINE = re.compile(
    r"^ +(\d+) +\d+ +float +(?:sum +)?(?P<root>0 +)?(?P<us>[\d.]+) +(?P<alg>[\d.]+) +(?P<bus>[\d.]+) ", re.M
)


def _log(name: str, collective: Collective = Collective.ALL_REDUCE, least: int = 1, factor: float = 0.0) -> tuple:
    """The rows of the one log ``data/NAME``, out of place; with ``factor`` only those whose bus bandwidth is that many times their algorithm bandwidth (within 1 %), so of
    tables of several clusters those of one. Of two runs of a size the last counts."""
    paths = sorted((SHARED / "data").glob(name))
    hits = _LINE.finditer(paths[0].read_text(encoding="utf-8")) if paths else ()
    seen = {
        int(h[1]): float(h["us"])
        for h in hits
        if int(h[1]) >= least and (not factor or abs(float(h["bus"]) / max(float(h["alg"]), 1e-9) / factor - 1) < 0.01)
    }
    return tuple((collective, size, us) for size, us in sorted(seen.items()))


def _file(dataset: str, nodes: int) -> tuple:
    found = measured(dataset, "nccl_allreduce")
    return tuple((Collective.ALL_REDUCE, size, us) for size, us, n in found if n == nodes)


@cache
def sets() -> tuple[Set, ...]:
    """All datasets that are there."""
    found = [
        Set("N1-AzureNDv4-2x8A100", "ndv4", 2, 8, "HDR", DGX, _file("N1-AzureNDv4-2x8A100", 2), held=True),
        Set("N3-DGXA100x2", "dgx-a100", 2, 8, "HDR", DGX, _file("N3-DGXA100x2", 2), "algorithm=ring", True),
        *(Set("A-ABCI-V(2xEDR)", "abci-v", n, 2, "EDR", V, _file("A-ABCI-V(2xEDR)", n), held=True) for n in (2, 4)),
        Set("A-ABCI-A(4xHDR)", "abci-a", 2, 4, "HDR", A, _file("A-ABCI-A(4xHDR)", 2), held=True),
    ]
    for n in (4, 8, 16):
        found.append(
            Set("abci2-anode-nccl", "abci-a", n, 4, "HDR", A, _log(f"abci2/*allreduce*inter_anode__job{n:02}*.nccl"))
        )
    for n in (8, 16, 32):
        found.append(
            Set("abci2-vnode-nccl", "abci-v", n, 2, "EDR", V, _log(f"abci2/*allreduce*inter_vnode__job{n:02}*.nccl"))
        )
    for kind, adapters, speed, line, gpus in (
        ("anode__job04", 4, "HDR", A, 4),
        ("anode__job08", 4, "HDR", A, 8),
        ("vnode__job04", 2, "EDR", V.replace("gpus=4,", ""), 4),
    ):
        log = _log(f"abci2/*allreduce*intra_{kind}*.nccl")
        found.append(Set("abci2-intra-nccl", f"abci-{kind[0]}", 1, adapters, speed, line, log, forced=f"gpus={gpus}"))
    for name, collective in COLLECTIVES.items():
        log = _log(f"superbench-logs/nccl_{name}.log", collective)
        found.append(Set("superbench", "superbench", 1, 8, "HDR", DGX, log, "per-process=8"))
    deepops = "deepops-logs/docs__{}.md"
    log = _log(deepops.format("slurm-cluster__slurm-perf-cluster"), least=1 << 20, factor=2 * 31 / 32)
    found.append(Set("deepops-4xDGXA100", "deepops-a100", 4, 8, "HDR", DGX, log))
    log = _log(deepops.format("k8s-cluster__roce-perf-k8s"), least=1 << 23, factor=2 * 15 / 16)
    found.append(Set("deepops-2xDGX1-RoCE", "deepops-v100", 2, 2, "EDR", "machine=v100,nccl=2.8", log))
    return tuple(s for s in found if s.rows)


def bar_of(size: int) -> float:
    """Largest error that is good, by octets."""
    if size >= 1 << 28:
        return 0.05
    return 0.10 if size > 1 << 26 else 0.20 if size >= 1 << 20 else 0.15


def _text(s: Set, collective: Collective, size: int, line: str) -> str:
    return ",".join([f"nccl-{collective}:{size}", *(x for x in (s.forced, line) if x)])


def baselines(s: Set, collective: Collective, size: int) -> tuple[float, float]:
    """us by datasheets alone (latency of an adapter pair and bandwidth of links, by the better of a ring and a tree), and by NCCL's own model of its choice."""
    names = tuple(f"node-{node} {nic}" for node in range(s.nodes) for nic in range(s.adapters))
    gbps = np.full(len(names), 4 * speed_named(s.generation).lane_data_gbps)
    job = parse(_text(s, collective, size, s.line)).jobs[0]
    run = run_of(job, names, np.arange(len(names)), gbps)  # type: ignore[arg-type]
    m, n = run.machine, run.machine.gpus * run.nodes
    rate = m.nics * m.nic_gbps / 8e-3 if s.nodes > 1 else m.gpu.nvlink_gbytes * 1e3
    if collective == Collective.ALL_TO_ALL and s.nodes > 1:
        rate *= n / (n - m.gpus)
    shares = {Collective.ALL_REDUCE: 2 * (n - 1) / n, Collective.BROADCAST: 1.0}.get(collective, (n - 1) / n)
    alpha = 0.6 + 2 * 0.13 if s.nodes > 1 else 0.5
    passes = 2 if collective == Collective.ALL_REDUCE else 1
    by_data = passes * (n - 1).bit_length() * alpha + shares * size / rate
    own = expected_us(collective, run.by, size, m, run.nodes, "2.8") if run.by.algorithm != "p2p" else by_data
    return by_data, own


def rows(
    parameters: Mapping[str, Section] | None = None,
    only: Collection[str] = (),
    every: int = 1,
    defaults: bool = False,
    held: bool = False,
) -> list[Row]:
    """Every comparison; of the datasets ``only`` where some are named, of each every n-th size; ``defaults``: with the answers without a description, and baselines; ``held``:
    those with a bar alone."""
    with using(parameters):
        return list(_rows(only, every, defaults, held))


def _rows(only: Collection[str], every: int, defaults: bool, held: bool) -> Iterator[Row]:
    for s in sets():
        if (only and s.name not in only) or (held and not s.held):
            continue
        fabric = rails(s.nodes, s.adapters, s.generation)
        for collective, size, us in s.rows[::every]:
            answer = simulated(fabric, _text(s, collective, size, s.line)).simulated_us
            bar = bar_of(size) if s.held else 0.0
            row = Row(s.name, f"nccl {collective}", size, s.nodes, us, answer, "us", bar, s.machine)
            if defaults:
                plain = simulated(fabric, _text(s, collective, size, "")).simulated_us
                row = row._replace(default=plain, baselines=baselines(s, collective, size))
            yield row


def main() -> None:
    """Print each dataset's errors."""
    from bench.validation.table import summary_lines

    print("\n".join(summary_lines(rows(defaults=True))))


if __name__ == "__main__":
    main()
