"""Measurements that no parameter was fitted to, and for which no bar was set: other clusters, larger ones, other collectives."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from statistics import median

from bench.validation import nccl, runs
from bench.validation.data import SHARED
from bench.validation.row import Row
from softib.workloads.mpi.cost import machine
from softib.workloads.nccl.constants import Collective
from softib.workloads.nccl.law import predicted_us
from softib.workloads.nccl.machine import machine_of
from softib.workloads.nccl.tuning import choose
from softib.workloads.parameters import Section, section

__all__ = ["ASSUMPTIONS", "SECTIONS", "rows"]

SECTIONS = ()
ASSUMPTIONS = {
    "superbench": "1 DGX A100 (8 A100-SXM4-40GB); constants of NCCL 2.8.4, though the release is not said; one process launches for all 8 GPUs; processor time of a launch is that of its rows of 0 octets (not compared), of a channel that of its rows of 128 to 512 KiB, of a send or receive that of its small all-to-alls (fitted: 29 rows); rings in several orders, for only LL128 broadcasts as fast as 1 to 512 MiB do there",
    "deepops-4xDGXA100": "4 DGX A100, 8 HDR adapters each, as the text says; NCCL's model chooses (2.8.4; the release is not said); two runs within 10 % of each other differ more at 128 MiB",
    "deepops-2xDGX1-RoCE": "2 DGX-1 of 8 V100 with 2 adapters of 100 Gb/s; RoCE is predicted as InfiniBand of this rate; NCCL 2.5.6 there, 2.8.4 here; rows from 8 MiB on, for every third smaller one stalls for 0.5 ms",
    "abci2-intra-nccl": "1 node A with 4 and 8 GPUs, 1 node V with 4; V100's rate of LL128 (512 KiB to 2 MiB there) is taken from A100, for no dataset tells it",
    "abci2-anode-nccl": "ABCI's node A, 4, 8 and 16 nodes, as the fitted 2",
    "abci2-vnode-nccl": "ABCI's node V, 8, 16 and 32 nodes, as the fitted 2 and 4",
    "lln-azure-64": "medians of the pairs of a job of 64 nodes of the virtual machine that was fitted in another job",
    "gillon-ibwb": "ConnectX-2 to ConnectX-2 of one host: the profile QDR, though both adapters share one processor's PCIe, which is not modelled",
}
COLLECTIVES = {
    "allreduce": Collective.ALL_REDUCE, "allgather": Collective.ALL_GATHER, "reducescatter": Collective.REDUCE_SCATTER, "alltoall": Collective.ALL_TO_ALL,
    "broadcast": Collective.BROADCAST,
}  # fmt: skip
DEEPOPS = (
    ("deepops-4xDGXA100", "docs__slurm-cluster__slurm-perf-cluster.md", machine_of("dgx-a100"), 4, 1 << 20),
    (
        "deepops-2xDGX1-RoCE",
        "docs__k8s-cluster__roce-perf-k8s.md",
        machine_of("abci-v").but(gpus=8, nic_gbps=100.0, nic_gbytes=""),
        2,
        1 << 23,
    ),
)
"""Dataset, file, machine, nodes, smallest size."""
INSIDE = (
    ("*intra_anode__job04*.nccl", "abci-a", 4),
    ("*intra_anode__job08*.nccl", "abci-a", 8),
    ("*intra_vnode__job04*.nccl", "abci-v", 4),
)
"""Logs, machine and GPUs of all-reduces inside one node of ABCI."""
_LINE = re.compile(r"^ +(\d+) +\d+ +float +(?:sum +)?(?P<root>0 +)?([\d.]+) +[\d.]+ +[\d.]+ +N/A ", re.M)
_PAIR = re.compile(r"^(\d+) +([\d.]+) *$", re.M)


def rows(parameters: Mapping[str, Section], only: Collection[str] = (), every: int = 1) -> list[Row]:
    """All of them; ``parameters`` are those of the file."""
    return [r for r in _rows() if not only or r.dataset in only][::every]


def _rows() -> Iterator[Row]:
    values, node = section("nccl"), machine_of("dgx-a100").but(per_process=8, same_channels=False)
    for name, collective in COLLECTIVES.items():
        path = SHARED / "data" / "superbench-logs" / f"nccl_{name}.log"
        for size, _, us in _LINE.findall(path.read_text(encoding="utf-8")) if path.is_file() else ():
            if int(size):
                by = choose(collective, int(size), node, 1, release=nccl.RELEASE)
                predicted = predicted_us(collective, by, int(size), node, 1, values)
                yield Row("superbench", f"nccl_{name}", int(size), 1, float(us), predicted, "us", 0.0)
    for dataset, name, node, nodes, least in DEEPOPS:
        path = SHARED / "data" / "deepops-logs" / name
        seen = dict(nccl.measured_in(path, 2 * (node.gpus * nodes - 1) / (node.gpus * nodes))) if path.is_file() else {}
        for size, us in sorted(seen.items()):
            if size >= least:
                by = choose(Collective.ALL_REDUCE, size, node, nodes, release=nccl.RELEASE)
                predicted = predicted_us(Collective.ALL_REDUCE, by, size, node, nodes, values)
                yield Row(dataset, "nccl_allreduce", size, nodes, us, predicted, "us", 0.0)
    for pattern, name, gpus in INSIDE:
        for path in sorted((SHARED / "data" / "abci2").glob(pattern)):
            inner = machine_of(name).but(gpus=gpus)
            for size, us in nccl.measured_in(path):
                by = choose(Collective.ALL_REDUCE, size, inner, 1, release=nccl.RELEASE)
                predicted = predicted_us(Collective.ALL_REDUCE, by, size, inner, 1, values)
                yield Row(
                    "abci2-intra-nccl", f"nccl_allreduce {gpus} {inner.gpu.name}", size, 1, us, predicted, "us", 0.0
                )
    for r in nccl.held_out():
        name = "abci2-vnode-nccl" if "V" in r.dataset.split("-")[-1] else "abci2-anode-nccl"
        yield r._replace(dataset=name, bar=0.0)
    yield from _pairs()
    yield from _gillon()


def _pairs() -> Iterator[Row]:
    """Latency and bandwidth of Azure's HB v3 in another job than the fitted one."""
    for path in sorted((SHARED / "data" / "lln-azure-osu").glob("*cpu__size64*")):
        found: dict[tuple[str, int], list[float]] = {}
        for part in path.read_text(encoding="utf-8", errors="replace").split("# OSU MPI ")[1:]:
            kind = part.split(" ", 1)[0]
            for size, value in _PAIR.findall(part) if kind in ("Latency", "Bandwidth") else ():
                found.setdefault((kind, int(size)), []).append(float(value))
        s = machine("azure-hbv3")
        for (kind, size), seen in found.items():
            if kind == "Latency":
                yield Row(
                    "lln-azure-64", "osu_latency", size, 2, median(seen), runs.latency_us(size, 1, "HDR", s), "us", 0.0
                )
            else:
                yield Row(
                    "lln-azure-64", "osu_bw", size, 2, median(seen), runs.bandwidth_mb_s(size, 1, "HDR", s), "MB/s", 0.0
                )


def _gillon() -> Iterator[Row]:
    from bench.validation.verbs_bandwidth import write_mib_s

    path = SHARED / "data" / "gillon-ibwb" / "ib_write_bw_measurements.txt"
    seen = re.findall(r"^ +(\d+) +\d+ +[\d.]+ +([\d.]+)\s+[\d.]+ *$", path.read_text(), re.M) if path.is_file() else ()
    for size, value in sorted({(int(s), float(v)) for s, v in seen}):
        yield Row("gillon-ibwb", "ib_write_bw", size, 1, value, write_mib_s(size, "QDR"), "MiB/s", 0.0)
