"""MPI and perftest against measurements, through ``softib simulate``: a fabric, a workload, and the hosts' costs in one line where they are described (``--hosts``).

What the data does not say is an assumption: all hosts on one switch, cables of 2 m, ranks in blocks by host.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from statistics import median
from typing import Any

import softib
from bench.validation.clusters import leaves, line, simulated, using
from bench.validation.data import SHARED, host_names, imb_pingpong, measured, osu
from bench.validation.row import Row
from softib.iba.rates import speed_named
from softib.workloads.parameters import Section

__all__ = ["ASSUMPTIONS", "HOSTS", "SECTIONS", "leaves_of", "rows"]

SECTIONS = ("openmpi",)
"""First words of the sections of parameters that these predictions take."""
HOSTS: dict[str, dict[str, Any]] = {
    "abci-v": {"copy_gbytes": 4.7},
    "abci-a": {"program_ns": 588, "copy_gbytes": 13.5},
    "azure-hbv3": {"program_ns": 860},
}
"""Machines as a user describes them. ``program_ns`` of Azure's virtual machines is perftest's (P4); of node A osu_latency's of 8 bytes; ``copy_gbytes`` what all-reduces inside a
host take."""
ASSUMPTIONS = {
    "P1-QDR-CX2": "one switch; ConnectX-2; MTU 2048",
    "P3-EDR-UD-b2b": "one switch (measured: back to back)",
    "P4-HDR-AzureHBv3": "one switch; a virtual machine",
    "A-ABCI-vnode": "2 hosts on one switch, 2 EDR rails each; Open MPI 4.0.5, UCX 1.7",
    "abci2-anode-pt2pt": "2 hosts on one switch, 4 HDR rails each, of which UCX uses 2; Open MPI 4.0.5, UCX 1.9",
    "C-azure-cyclecloud-28pairs": "2 hosts on one switch, 1 HDR rail; medians of 28 pairs",
    "lln-azure-64": "medians of the pairs of a job of 64 nodes of the same virtual machine",
    "abci2-intra-vnode": "1 host of 4 ranks: shared memory alone",
    "abci2-intra-anode": "1 host of 4 or 8 ranks: shared memory alone",
    "A-ABCI-V(2xEDR)": "hosts on one pair of leaf switches, as their names say, 4 ranks and 2 rails each, consecutive ranks on one host; algorithms chosen as in Open MPI 4.0",
    "A-ABCI-A(4xHDR)": "2 hosts of one rack, on one switch, 8 ranks and 4 rails each, consecutive ranks on one host; algorithms chosen as in Open MPI 4.0",
    "abci2-inter-anode": "the same on 4 and 8 hosts, on leaf switches of racks of five nodes (ABCI's user guide), 20 m to the spine",
    "ofc-osu-edr": "2 hosts on one switch, 1 EDR rail; MVAPICH2 2.2, predicted as Open MPI",
    "S1-SHArP2016-host": "128 hosts on one switch, 1 rank and 1 EDR rail each; recursive doubling; library, processors and ranks of a host are not said",
    "S1-SHArP2016-sharp": "128 hosts on a two-level fat tree of 16-port HDR switches (EDR ones have no aggregation nodes here), 1 rank each",
    "fiu-imb-fdr": "2 hosts behind 3 store-and-forward switches at 1 Gb/s, frames of 1500: 30 ns a byte below one frame are four serialisations, and the plateau of 116.7 MB/s is "
    "that of 1 Gb/s; 50 us between interrupts, as Linux's drivers of Intel's adapters have it; the stack of hosts of 2017 takes 14.5 us (described)",
    "gillon-ibwb": "ConnectX-2 to ConnectX-2 of one host, whose adapters share one processor's PCIe: PCIe 2.0 x8 of payloads of 128 bytes is not described",
}
LEAF_HOSTS = {"a": 5, "g": 17}
"""Hosts in a row that share leaf switches, by the first letter of ABCI's host names: a rack of node A (its user guide, "ABCI system"), half a rack of node V."""
Answer = Callable[[softib.Simulation], float]
US: Answer = lambda run: run.simulated_us
PERFTEST = {
    "ib_write_lat": ("latency", ""),
    "ib_read_lat": ("latency", ",opcode=read"),
    "ib_send_lat": ("latency", ",opcode=send"),
    "ib_send_lat_UD": ("latency", ",transport=ud"),
    "ib_write_bw": ("bandwidth", ""),
    "ib_send_bw": ("bandwidth", ",opcode=send"),
    "ib_send_bw_UD": ("bandwidth", ",transport=ud"),
}
"""Program → pattern and options."""


@dataclass(frozen=True)
class Set:
    """A dataset of one benchmark: ``fabric`` and ``text`` (the workload for a size), ``hosts`` described, what the answer is of one or several runs, and (size, value)."""

    name: str
    metric: str
    machine: str
    nodes: int
    unit: str
    generation: str
    fabric: Callable[[], softib.Fabric]
    text: Callable[[int], str]
    rows: tuple[tuple[int, float], ...]
    hosts: Mapping[str, Any] = field(default_factory=dict)
    bar: float = 0.0
    windows: bool = False
    answer: Answer = US
    options: Mapping[str, Any] = field(default_factory=dict)

    def predicted(self, size: int, hosts: Mapping[str, Any]) -> float:
        """The answer for one size."""
        size = max(size, 1)
        if not self.windows:
            return self.answer(simulated(self.fabric(), self.text(size), hosts=hosts, **self.options))
        one, two = (
            simulated(self.fabric(), f"{self.text(size)},iterations={n}", hosts=hosts).simulated_us for n in (1, 2)
        )
        return 64 * size / (two - one)

    def alpha_beta(self, size: int) -> float:
        """By data sheets alone: a pair of adapters and a switch (0.73 us), and links."""
        gbps = 4 * speed_named(self.generation).lane_data_gbps
        if self.unit != "us":
            return math.nan
        n = max(self.nodes, 2)
        rounds = 2 * (n - 1).bit_length() if "allreduce" in self.metric else 1
        octets = size * (2 if "allreduce" in self.metric else 1)
        return rounds * 0.73 + octets * 8e-3 / gbps


@cache
def sets() -> tuple[Set, ...]:
    """All datasets that are there."""
    return tuple(s for part in (_pairs, _allreduces, _sharp, _perftest, _sockets) for s in part() if s.rows)


def _pairs() -> Iterator[Set]:
    """osu_latency and osu_bw."""
    lln = _of_pairs()
    for name, machine, rails, speed, latencies, bandwidths, bar in (
        (
            "A-ABCI-vnode",
            "abci-v",
            2,
            "EDR",
            measured("A-ABCI-vnode", "osu_multi_lat"),
            measured("A-ABCI-vnode", "osu_mbw_mr"),
            0.08,
        ),
        (
            "C-azure-cyclecloud-28pairs",
            "azure-hbv3",
            1,
            "HDR",
            measured("C-azure-cyclecloud-28pairs", "osu_latency_median"),
            measured("C-azure-cyclecloud-28pairs", "osu_bw_median"),
            0.08,
        ),
        (
            "abci2-anode-pt2pt",
            "abci-a",
            4,
            "HDR",
            osu("abci2/pt2pt__inter_anode*prc.latency"),
            osu("abci2/pt2pt__inter_anode*prc.bandwidth"),
            0.08,
        ),
        ("ofc-osu-edr", "ofc", 1, "EDR", osu("ofc-osu-edr/*latency__compute007.log"), (), 0.08),
        ("lln-azure-64", "azure-hbv3", 1, "HDR", lln["Latency"], lln["Bandwidth"], 0.0),
    ):
        fabric = lambda rails=rails, speed=speed: leaves(2 * rails, speed)
        plain = lambda found: tuple((row[0], row[1]) for row in found)
        common: dict[str, Any] = {"hosts": HOSTS.get(machine, {}), "bar": bar}
        text = lambda what, rails=rails: lambda size: f"mpi-{what}:{size},rails={rails},version=4.0"
        half: Answer = lambda run: run.simulated_us / 2
        yield Set(
            name,
            "osu_latency",
            machine,
            2,
            "us",
            speed,
            fabric,
            text("latency"),
            plain(latencies),
            answer=half,
            **common,
        )
        yield Set(
            name,
            "osu_bw",
            machine,
            2,
            "MB/s",
            speed,
            fabric,
            text("bandwidth"),
            plain(bandwidths),
            windows=True,
            **common,
        )


def _of_pairs() -> dict[str, tuple[tuple[int, float], ...]]:
    """Medians over the pairs of Azure's other job."""
    seen: dict[str, dict[int, list[float]]] = {"Latency": {}, "Bandwidth": {}}
    for path in sorted((SHARED / "data" / "lln-azure-osu").glob("*cpu__size64*")):
        for part in path.read_text(encoding="utf-8", errors="replace").split("# OSU MPI ")[1:]:
            of = seen.get(part.split(" ", 1)[0], {})
            for size, value in re.findall(r"^(\d+) +([\d.]+) *$", part, re.M):
                of.setdefault(int(size), []).append(float(value))
    return {kind: tuple((size, median(v)) for size, v in of.items()) for kind, of in seen.items()}


def _allreduces() -> Iterator[Set]:
    """osu_allreduce of ABCI's nodes V (4 ranks, 2 rails) and A (8 ranks, 4 rails)."""
    v, a = ("abci-v", 4, 2, "EDR"), ("abci-a", 8, 4, "HDR")
    of = lambda name, nodes: tuple((s, t) for s, t, n in measured(name, "osu_allreduce_cpu") if n == nodes)
    file = lambda pattern: osu(f"abci2/allreduce__{pattern}*.mpi-cpu")
    runs = [
        ("abci2-intra-vnode", v, 1, 4, file("intra_vnode__job04")),
        *(("abci2-intra-anode", a, 1, each, file(f"intra_anode__job{each:02}")) for each in (4, 8)),
        *(("A-ABCI-V(2xEDR)", v, n, 4, of("A-ABCI-V(2xEDR)", n)) for n in (2, 4, 8)),
        ("A-ABCI-A(4xHDR)", a, 2, 8, of("A-ABCI-A(4xHDR)", 2)),
        *(("abci2-inter-anode", a, n, 8, file(f"inter_anode__job{n:02}")) for n in (4, 8)),
    ]
    for name, (machine, _, rails, speed), nodes, each, data in runs:
        node = "vnode" if machine == "abci-v" else "anode"
        parts = leaves_of(host_names(f"abci2/allreduce__inter_{node}__job{nodes:02}*.nccl")) if nodes > 1 else ()
        counts = tuple(n * rails for n in parts)
        fabric = lambda ports=nodes * rails, speed=speed, counts=counts: leaves(ports, speed, counts)
        text = lambda size, each=each, rails=rails: (
            f"mpi-allreduce:{size},ranks-per-host={each},rails={rails},version=4.0"
        )
        yield Set(name, "osu_allreduce", machine, nodes, "us", speed, fabric, text, data, HOSTS[machine], 0.15)


def leaves_of(names: Collection[str]) -> tuple[int, ...]:
    """How many of the hosts of these names (``a0021``) sit on each leaf switch, in their order; nothing where one switch has them all."""
    counts = Counter((name[0], (int(name[1:]) - 1) // LEAF_HOSTS[name[0]]) for name in names)
    return tuple(counts.values()) if len(counts) > 1 else ()


@cache
def _aggregating() -> softib.Fabric:
    return softib.generate("fat-tree", radix=16, levels=2, generation="HDR", aggregation_nodes=True)


def _sharp() -> Iterator[Set]:
    data = lambda name: tuple((s, t) for s, t, _ in measured(name, "allreduce"))
    ring = lambda size: f"mpi-allreduce:{size},algorithm=recursive-doubling"
    fabric = lambda: leaves(128, "EDR")
    yield Set(
        "S1-SHArP2016-host", "allreduce", "sharp", 128, "us", "EDR", fabric, ring, data("S1-SHArP2016-host"), {}, 0.15
    )
    text = lambda size: f"mpi-allreduce:{size},algorithm=sharp"
    name = "S1-SHArP2016-sharp"
    yield Set(
        name,
        "allreduce",
        "sharp",
        128,
        "us",
        "HDR",
        _aggregating,
        text,
        data(name),
        {},
        0.15,
        options={"layer": "packet"},
    )


def _perftest() -> Iterator[Set]:
    for name, machine, speed, hosts in (
        ("P1-QDR-CX2", "p1", "QDR", {}),
        ("P3-EDR-UD-b2b", "p3", "EDR", {}),
        ("P4-HDR-AzureHBv3", "azure-hbv3", "HDR", HOSTS["azure-hbv3"]),
    ):
        fabric = lambda speed=speed: leaves(2, speed, mtu=2048 if speed == "QDR" else 4096)
        for metric, (pattern, more) in PERFTEST.items():
            data = tuple((s, t) for s, t, _ in measured(name, metric))
            yield _perftest_set(name, metric, machine, speed, fabric, pattern, more, data, hosts)
    path = SHARED / "data" / "gillon-ibwb" / "ib_write_bw_measurements.txt"
    found = re.findall(r"^ +(\d+) +\d+ +[\d.]+ +([\d.]+)\s+[\d.]+ *$", path.read_text(), re.M) if path.is_file() else ()
    data = tuple(sorted({(int(s), float(v)) for s, v in found}))
    two = lambda: leaves(2, "QDR")
    yield _perftest_set("gillon-ibwb", "ib_write_bw", "gillon", "QDR", two, "bandwidth", "", data, {}, bar=0.0)


def _perftest_set(
    name: str,
    metric: str,
    machine: str,
    generation: str,
    fabric: Callable[[], softib.Fabric],
    pattern: str,
    more: str,
    data: tuple[tuple[int, float], ...],
    hosts: Mapping[str, Any],
    bar: float = 0.10,
) -> Set:
    """Latencies have a bar; bandwidths have one where they are a plateau (from 64 KiB on)."""
    latency = pattern == "latency"
    n = lambda size: 200 if latency else max(min(1000, (256 << 20) // size), 8)
    text = lambda size: f"{pattern}:{size},iterations={n(size)}{more}"
    key = "latency_us" if latency else "mib_s"
    answer: Answer = lambda run: float(run.to_json()["jobs"][0]["perftest"][key])
    unit, options = ("us", {}) if latency else ("MiB/s", {"layer": "packet"})
    return Set(
        name,
        metric,
        machine,
        2,
        unit,
        generation,
        fabric,
        text,
        data,
        hosts,
        bar if latency else 0.0,
        False,
        answer,
        options,
    )


def _sockets() -> Iterator[Set]:
    """Intel's PingPong over TCP: half of a round trip."""
    data = imb_pingpong("fiu-imb-fdr/INFINIBAND__BENCHMARK_RESULTS__eth_infi_std__2017-10-22-eths")[1:]
    network = "tcp,gbps=1,receive_us=14.5,interrupt_us=50"
    text = lambda size: f"incast:{size},senders=1,hosts=0-1"
    arrived: Answer = lambda run: run.percentiles_us["max"]
    options = {"layer": "packet", "network": network}
    yield Set(
        "fiu-imb-fdr",
        "IMB PingPong",
        "fiu",
        2,
        "us",
        "EDR",
        lambda: line(3),
        text,
        data,
        {},
        0.15,
        answer=arrived,
        options=options,
    )


def rows(
    parameters: Mapping[str, Section] | None = None,
    only: Collection[str] = (),
    every: int = 1,
    defaults: bool = False,
    hosts: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Row]:
    """Every comparison, with other ``parameters``; of the datasets ``only`` where some are named, of each every n-th size; ``defaults``: with the answers without a
    description, and baselines; ``hosts``: other descriptions of machines, as a fit tries them."""
    with using(parameters):
        return list(_rows(only, every, defaults, hosts or {}))


def _rows(only: Collection[str], every: int, defaults: bool, other: Mapping[str, Mapping[str, Any]]) -> Iterator[Row]:
    for s in sets():
        if only and s.name not in only:
            continue
        hosts = other.get(s.machine, s.hosts)
        for size, value in s.rows[::every]:
            found = s.predicted(size, hosts)
            row = Row(s.name, s.metric, size, s.nodes, value, found, s.unit, s.bar, s.machine)
            if defaults:
                plain = s.predicted(size, {}) if hosts else found
                row = row._replace(default=plain, baselines=(s.alpha_beta(size),))
            yield row
