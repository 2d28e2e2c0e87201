"""MPI and verbs against measurements. What the data does not say is an assumption here: all hosts on one switch, cables of 2 m, ranks in blocks by host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

from bench.validation import runs
from bench.validation.data import host_names, imb_pingpong, measured, osu
from bench.validation.row import Row
from softib.workloads.mpi.cost import merged
from softib.workloads.parameters import Section

__all__ = ["ASSUMPTIONS", "SECTIONS", "rows"]

SECTIONS = ("openmpi", "tcp")
"""First words of the sections of parameters that these predictions take."""

Parameters = Mapping[str, Section]

ASSUMPTIONS = {
    "P1-QDR-CX2": "one switch; ConnectX-2; MTU 2048; the profile QDR of docs/simulate.md, fitted to this dataset, its bandwidths apart (no bar: shown)",
    "P3-EDR-UD-b2b": "one switch (measured: back to back); the profile EDR, fitted to this dataset; bandwidths (no bar): a send costs the processor what it does on abci-v",
    "P4-HDR-AzureHBv3": "one switch; 860 ns of the virtual machine's program; the profile HDR, fitted to this dataset; bandwidths (no bar): a send costs the processor what it does on azure-hbv3",
    "A-ABCI-vnode": "2 hosts on one switch, 2 EDR rails each; Open MPI 4.0.5, UCX 1.7",
    "abci2-anode-pt2pt": "2 hosts on one switch, 4 HDR rails each, of which UCX uses 2; Open MPI 4.0.5, UCX 1.9",
    "C-azure-cyclecloud-28pairs": "2 hosts on one switch, 1 HDR rail; medians of 28 pairs",
    "abci2-intra-vnode": "1 host of 4 ranks: shared memory alone",
    "abci2-intra-anode": "1 host of 4 or 8 ranks (1 node): shared memory alone",
    "A-ABCI-V(2xEDR)": "hosts on one pair of leaf switches, as their names say (abci2-larger), 4 ranks and 2 rails each, ranks in blocks; rules of Open MPI 4.0",
    "A-ABCI-A(4xHDR)": "2 hosts of one rack, on one switch, 8 ranks and 4 rails each, ranks in blocks; rules of Open MPI 4.0",
    "abci2-inter-anode": "the same on 4 and 8 hosts (originals of the same study), on leaf switches: NCCL's logs of the same jobs name the hosts, ABCI's user guide shows racks of five nodes A, "
    "and hosts are numbered through from a0001; so 3 and 1, and 4 and 4 hosts share a leaf switch, 20 m to the spine. That a rack has a leaf switch of its own for each of an adapter's ports "
    "is assumed, as racks of node V have them; it was so with these measurements in view, and 16 hosts of the study, which nobody had looked at then, say the same (docs/collectives.md)",
    "abci2-larger": "the same on 16 hosts A (5, 5, 5 and 1 of a rack) and 16 and 32 hosts V: racks of 34 hosts with four leaf switches of 36 ports, half of them up, so that each two have the "
    "two ports of 17 hosts (published: the rack and its switches; assumed: which 17); 14 and 2, 15 and 17 of these jobs' hosts. Nothing was fitted to these, and no bar was set",
    "abci2-bcast-vnode": "1 host of 4 ranks, and 2 to 32 hosts, as the all-reduces of the same study; to 512 KiB. Nothing was fitted to these, and no bar was set",
    "abci2-bcast-anode": "1 host of 4 or 8 ranks, and 2 to 16 hosts, as the all-reduces of the same study; to 512 KiB. Nothing was fitted to these, and no bar was set",
    "ofc-osu-edr": "2 hosts on one switch, 1 EDR rail; MVAPICH2 2.2, predicted with the default machine of Open MPI; not fitted to",
    "S1-SHArP2016-host": "128 hosts on one switch, 1 rank and 1 EDR rail each; recursive doubling; library, processors and ranks of a host are not said: machine abci-v, whose adapters are EDR too (docs/collectives.md has what else was tried)",
    "S1-SHArP2016-sharp": "128 hosts on a two-level fat tree of 16-port HDR switches (EDR ones have no aggregation nodes here), 1 rank each; 16 operations of 256 octets for 4 KiB",
    "fiu-imb-fdr": "2 hosts behind 3 store-and-forward switches at 1 Gb/s, frames of 1500: 30 ns a byte below one frame are four serialisations, and the plateau "
    "of 116.7 MB/s is that of 1 Gb/s, though the adapters are of 10 Gb/s; 50 us between interrupts, as Linux's drivers of Intel's adapters have it (not fitted)",
}
LEAF_HOSTS = {"a": 5, "g": 17}
"""Hosts in a row that share leaf switches, by the first letter of ABCI's host names: a rack of node A (its user guide, "ABCI system"), half a rack of node V (ASSUMPTIONS)."""
LARGER = (("anode", 16), ("vnode", 16), ("vnode", 32))
"""Jobs of the same study on more hosts than any that something was fitted to."""
BROADCASTS = (
    ("intra", "vnode", (4,)), ("inter", "vnode", (2, 4, 8, 16, 32)),
    ("intra", "anode", (4, 8)), ("inter", "anode", (2, 4, 8, 16)),
)  # fmt: skip
"""Runs of osu_bcast of the same study: where, node, hosts (inside one: ranks) of each job."""
BROADCAST_MOST = 512 << 10
"""Octets; beyond them single rows are up to ten times their neighbours."""
P2P = (
    ("A-ABCI-vnode", "abci-v", 2, "EDR", lambda: measured("A-ABCI-vnode", "osu_multi_lat"), lambda: measured("A-ABCI-vnode", "osu_mbw_mr")),
    ("C-azure-cyclecloud-28pairs", "azure-hbv3", 1, "HDR", lambda: measured("C-azure-cyclecloud-28pairs", "osu_latency_median"),
     lambda: measured("C-azure-cyclecloud-28pairs", "osu_bw_median")),
    ("abci2-anode-pt2pt", "abci-a", 4, "HDR", lambda: osu("abci2/pt2pt__inter_anode*prc.latency"), lambda: osu("abci2/pt2pt__inter_anode*prc.bandwidth")),
    ("ofc-osu-edr", "", 1, "EDR", lambda: osu("ofc-osu-edr/*latency__compute007.log"), lambda: ()),
)  # fmt: skip
"""Dataset, machine, rails, generation, latencies, bandwidths."""


def rows(parameters: Parameters, only: Collection[str] = (), every: int = 1) -> list[Row]:
    """Every comparison with ``parameters`` (section by name); of the datasets ``only`` where some are named, and of each every n-th size."""
    return list(_rows(parameters, only, every))


def _machine(p: Parameters, name: str) -> Section:
    return merged(p["openmpi"], p[f"openmpi-{name}"]) if name else p["openmpi"]


def _rows(p: Parameters, only: Collection[str], every: int) -> Iterator[Row]:
    wanted = lambda name: not only or name in only
    for dataset, machine, rails, speed, latencies, bandwidths in P2P:
        if wanted(dataset):
            s, bar = _machine(p, machine), 0.08 if machine in ("abci-v", "azure-hbv3") else 0.0
            for size, value, *_ in latencies()[::every]:
                yield Row(dataset, "osu_latency", size, 2, value, runs.latency_us(size, rails, speed, s), "us", bar)
            for size, value, *_ in bandwidths()[::every]:
                yield Row(dataset, "osu_bw", size, 2, value, runs.bandwidth_mb_s(size, rails, speed, s), "MB/s", bar)
    for dataset, nodes, data, predict, bar in _allreduces(p):
        if wanted(dataset):
            for size, value in data[::every]:
                yield Row(dataset, "osu_allreduce", size, nodes, value, predict(size), "us", bar)
    for dataset, nodes, data, predict in _bcasts(p):
        if wanted(dataset):
            for size, value in data[::every]:
                yield Row(dataset, "osu_bcast", size, nodes, value, predict(size), "us", 0.0)
    if wanted("S1-SHArP2016-host"):
        s = _machine(p, "abci-v")
        for size, value, nodes in measured("S1-SHArP2016-host", "allreduce"):
            us = runs.allreduce_us(size, nodes, 1, 1, "EDR", s, algorithm="recursive-doubling")
            yield Row("S1-SHArP2016-host", "allreduce", size, nodes, value, us, "us", 0.15)
    if wanted("S1-SHArP2016-sharp"):
        for size, value, nodes in measured("S1-SHArP2016-sharp", "allreduce"):
            us = runs.sharp_us(size, _machine(p, "")["sharp_operation"])
            yield Row("S1-SHArP2016-sharp", "allreduce", size, nodes, value, us, "us", 0.15)
    yield from _others(p, wanted, every)


def _allreduces(
    p: Parameters,
) -> Iterator[tuple[str, int, tuple[tuple[int, float], ...], Callable[[int], float], float]]:
    """(dataset, nodes, (size, µs), prediction, bar) of each run of osu_allreduce."""
    v, a = _machine(p, "abci-v"), _machine(p, "abci-a")
    on = lambda hosts, each, s: partial(
        runs.allreduce_us, hosts=hosts, each=each, rails=2 if s is v else 4, speed="EDR" if s is v else "HDR", s=s,
        leaves=leaves_of(host_names(f"abci2/allreduce__inter_{'vnode' if s is v else 'anode'}__job{hosts:02}*.nccl")),
    )  # fmt: skip
    yield "abci2-intra-vnode", 1, osu("abci2/allreduce__intra_vnode__job04*.mpi-cpu"), on(1, 4, v), 0.0
    for each in (4, 8):
        yield "abci2-intra-anode", 1, osu(f"abci2/allreduce__intra_anode__job{each:02}*.mpi-cpu"), on(1, each, a), 0.0
    for nodes in (2, 4, 8):
        data = tuple((s, t) for s, t, n in measured("A-ABCI-V(2xEDR)", "osu_allreduce_cpu") if n == nodes)
        yield "A-ABCI-V(2xEDR)", nodes, data, on(nodes, 4, v), 0.15
    data = tuple((s, t) for s, t, _ in measured("A-ABCI-A(4xHDR)", "osu_allreduce_cpu"))
    yield "A-ABCI-A(4xHDR)", 2, data, on(2, 8, a), 0.15
    for nodes in (4, 8):
        yield (
            "abci2-inter-anode",
            nodes,
            osu(f"abci2/allreduce__inter_anode__job{nodes:02}*.mpi-cpu"),
            on(nodes, 8, a),
            0.15,
        )
    for node, nodes in LARGER:
        data = osu(f"abci2/allreduce__inter_{node}__job{nodes:02}*.mpi-cpu")
        yield "abci2-larger", nodes, data, on(nodes, 8, a) if node == "anode" else on(nodes, 4, v), 0.0


def _bcasts(p: Parameters) -> Iterator[tuple[str, int, tuple[tuple[int, float], ...], Callable[[int], float]]]:
    """(dataset, nodes, (size, µs), prediction) of each run of osu_bcast."""
    for where, node, jobs in BROADCASTS:
        each, rails, speed, s = (
            (4, 2, "EDR", _machine(p, "abci-v")) if node == "vnode" else (8, 4, "HDR", _machine(p, "abci-a"))
        )
        for job in jobs:
            file = f"abci2/bcast__{where}_{node}__job{job:02}*"
            hosts, ranks = (1, job) if where == "intra" else (job, each)
            leaves = leaves_of(host_names(f"{file}.nccl")) if hosts > 1 else ()
            predict = partial(runs.bcast_us, hosts=hosts, each=ranks, rails=rails, speed=speed, s=s, leaves=leaves)
            data = tuple((size, us) for size, us in osu(f"{file}.mpi-cpu") if size <= BROADCAST_MOST)
            yield f"abci2-bcast-{node}", hosts, data, predict


def leaves_of(names: Collection[str]) -> tuple[int, ...]:
    """How many of the hosts of these names (``a0021``) sit on each leaf switch, in their order; nothing where one switch has them all."""
    counts = Counter((name[0], (int(name[1:]) - 1) // LEAF_HOSTS[name[0]]) for name in names)
    return tuple(counts.values()) if len(counts) > 1 else ()


def _others(p: Parameters, wanted: Callable[[str], bool], every: int) -> Iterator[Row]:
    from bench.validation.tcp import tcp_us
    from bench.validation.verbs import verbs_rows
    from bench.validation.verbs_bandwidth import bandwidth_rows

    for dataset in ("P1-QDR-CX2", "P3-EDR-UD-b2b", "P4-HDR-AzureHBv3"):
        if wanted(dataset):
            yield from verbs_rows(dataset)
            yield from bandwidth_rows(dataset, p)
    if wanted("fiu-imb-fdr"):
        for size, value in imb_pingpong("fiu-imb-fdr/INFINIBAND__BENCHMARK_RESULTS__eth_infi_std__2017-10-22-eths")[
            1::every
        ]:
            us = tcp_us(size, p["tcp-fiu"]["receive"])
            yield Row("fiu-imb-fdr", "IMB PingPong", size, 2, value, us, "us", 0.15)
