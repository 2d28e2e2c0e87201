"""The law: a formula for the time of a collective on an idle network. It is the sum of launch time, the hops of one
piece of data (filling and draining the pipeline), and the chunks, one after another, at the rate of a channel. NCCL's
tuning model has the same form, but lacks launch and host overhead, the division into chunks and channels (a small
collective uses few of them), each channel's share of a NIC, and the time in which LL checks its flags. The parameters
are in section ``nccl`` of ``parameters.yaml``.
"""

from __future__ import annotations

from dataclasses import dataclass

from softib.workloads.nccl.constants import RELEASES, Algorithm, Collective, Protocol
from softib.workloads.nccl.gpudirect import dma_share, dma_us
from softib.workloads.nccl.machine import Machine
from softib.workloads.nccl.tuning import NVLS_SHARE, Choice, steps_of
from softib.workloads.nccl.work import LL128_OCTETS, LL_OCTETS, Work, work_of
from softib.workloads.parameters import Section

__all__ = [
    "BROADCAST_THREADS",
    "SLICES",
    "SWITCHED",
    "Hops",
    "adapter_gbytes",
    "busiest_gbytes",
    "filled_us",
    "held_octets",
    "hops_of",
    "host_us",
    "line_us",
    "nic_gbytes",
    "nic_share",
    "payload_of",
    "predicted_us",
    "rates_of",
    "split",
    "switched_us",
    "threads_gbytes",
]

ORDER = tuple(Protocol)
SWITCHED = (Algorithm.NVLS, Algorithm.NVLS_TREE, Algorithm.COLLNET)
"""Algorithms in which switches reduce."""
LEAST_LINES = 512
"""Bytes that 64 threads move at once; this is the smallest number of threads with LL."""
LL_AMD = 22.5 / 39.0
"""LL bandwidth between nodes with AMD processors, divided by that with Intel processors (NCCL's llMaxBws for two
nodes)."""
BROADCAST_THREADS = 192 / 640
"""In a tree with LL or LL128, the share of a channel's threads that send results down the tree while the others reduce
(NCCL_LL128_SPLIT, src/include/devcomm.h of 2.8.4). At the root, all threads do both."""
SLICES = 2
"""Slices of a chunk of a ring with Simple (ALLREDUCE_CHUNKSTEPS over
ALLREDUCE_SLICESTEPS, src/include/collectives.h)."""
HEADERS = 4096 / 4178
"""Ratio of a packet's payload to its bytes on the wire at a path MTU of 4096: LRH 8, BTH 12, RETH 16,
ICRC 4, VCRC 2 and 40 of the first packet of a message."""


@dataclass(frozen=True)
class Hops:
    """Latencies in µs: ``launch`` until the first data is sent, ``inside`` of a hop over NVLink, ``across`` of a hop
    over the network."""

    launch: float
    inside: float
    across: float


def nic_gbytes(m: Machine, v: Section) -> float:
    """Return the GB/s of payload between GPUs and one NIC in one direction, limited by the link or the path through
    PCIe."""
    wire = m.nic_gbps / 8 * HEADERS
    if m.gpu_nic_gbps:
        return min(wire, m.gpu_nic_gbps / 8)
    return min(wire, dma_share(m.gpudirect, v) * m.nic_gbps / 8)


def adapter_gbytes(m: Machine, v: Section) -> float:
    """Return GB/s of payload that all channels of one NIC reach together: a share of the link's rate, or the measured
    rate between GPUs."""
    return nic_gbytes(m, v) * (1.0 if m.gpu_nic_gbps else v["nic_share"])


def hops_of(by: Choice, m: Machine, nodes: int, v: Section, channels: int = 1) -> Hops:
    """Return the latencies of one hop (NCCL's constants, times a measured factor), and the launch time with
    ``channels`` channels."""
    i = ORDER.index(by.protocol)
    a = Algorithm.RING if by.algorithm == Algorithm.P2P else by.algorithm
    r = RELEASES["2.8"] if a in RELEASES["2.8"].base else RELEASES["2.30"]
    scale = 1.0 if by.protocol == Protocol.LL else v["latency"]
    inside, across = r.nvlink[a][i] * scale, r.net[a][i] * scale
    if (
        a == Algorithm.TREE and by.protocol == Protocol.SIMPLE
    ):  # the constants of 2.8.4 include a chunk of 256 KiB; later ones do not
        inside, across = (RELEASES["2.30"].nvlink[a][i] * scale, RELEASES["2.30"].net[a][i] * scale)
    if nodes > 1 and by.protocol == Protocol.LL:
        inside *= r.ll_nvlink
    across += dma_us(m.gpudirect, v)
    launch = v["launch_volta" if m.gpu.index == 0 else "launch"]
    return Hops(launch + r.base[a][i] + (channels - 1) * v["channel"], inside, across)


def rates_of(by: Choice, m: Machine, nodes: int, work: Work, v: Section) -> tuple[float, float]:
    """Return two rates of one channel in GB/s of payload: inside a node (limited by its threads and its share of
    NVLink), and between nodes (also limited by its share of a NIC)."""
    if by.algorithm == Algorithm.P2P:  # every channel serves the peers one after another
        return m.gpu.nvlink_gbytes, min(m.gpu.nvlink_gbytes, adapter_gbytes(m, v))
    threads = threads_gbytes(by, m, nodes, v) * (BROADCAST_THREADS if split(by) else 1.0)
    payload = payload_of(by)
    inside = min(threads, m.gpu.nvlink_gbytes * payload / work.channels) if m.gpus > 1 else threads
    if by.algorithm in SWITCHED:
        inside = min(inside, _switched_gbytes(by, m) / work.channels)
    if nodes == 1:
        return inside, inside
    return inside, min(inside, nic_share(by, m, work, v))


def line_us(by: Choice, size: int, m: Machine, nodes: int, v: Section) -> float:
    """Return the time in µs that the data of a step of a ring takes with LL, in addition to the latency."""
    if by.protocol != Protocol.LL or by.algorithm != Algorithm.RING:
        return 0.0
    return v["ll_line"] * min(1.0, size / (ranks_of(by, m, nodes) * LEAST_LINES))


def split(by: Choice) -> bool:
    """Return whether some threads of a tree reduce while others pass results down."""
    return by.algorithm == Algorithm.TREE and by.protocol != Protocol.SIMPLE and not by.serial


def threads_gbytes(by: Choice, m: Machine, nodes: int, v: Section) -> float:
    """Return GB/s of payload that all threads of a channel move. The values by GPU come from NCCL's tables: for LL,
    llMaxBws inside a node; for LL128, a share of perChMaxRingLL128Bws; for Simple, perChMaxTreeBws inside a node."""
    r, gpu = RELEASES["2.30"], m.gpu.index
    if by.protocol == Protocol.LL:
        return r.ll_max[gpu][0] / m.gpu.channels * (LL_AMD if m.amd and nodes > 1 else 1.0)
    return v["ll128_share"] * r.ll128_bw[gpu] if by.protocol == Protocol.LL128 else r.tree_bw[gpu][0]


def filled_us(octets: float, share: float, by: Choice, m: Machine, nodes: int, work: Work, v: Section) -> float:
    """Return the time in µs in which the share ``share`` of a channel's threads fills a slice of ``octets`` bytes for
    the proxy. The time is in addition to the latency of a hop; with LL128 this latency already includes the data that
    the threads hold."""
    held = work.threads * share * LL128_OCTETS if by.protocol == Protocol.LL128 else 0.0
    return max(0.0, octets - held) / (threads_gbytes(by, m, nodes, v) * share * 1e3)


def _across_us(octets: int, hops: int, by: Choice, m: Machine, nodes: int, work: Work, v: Section) -> float:
    """Return the total time in µs of one chunk on its ``hops`` between nodes: the threads fill its slices, and the NIC
    transmits them. The proxy sends a slice only when it is complete, so the threads and the NIC work one after
    the other. With LL and LL128, a chunk is one slice; with Simple, a ring's chunk has two slices. In a split tree the
    slice is filled by the reducing threads on the way up, by all threads at the root, and by the sending threads on the
    way down."""
    if hops == 0:
        return 0.0
    nic = nic_share(by, m, work, v)
    if by.protocol == Protocol.SIMPLE:
        slices, threads = SLICES if by.algorithm == Algorithm.RING else 1, threads_gbytes(by, m, nodes, v)
        return hops * octets * (1 / min(threads, nic) + 1 / (slices * max(threads, nic))) / 1e3
    shares = [1.0] * hops
    if split(by):
        depth = hops // 2
        shares = [1 - BROADCAST_THREADS] * depth + [1.0] + [BROADCAST_THREADS] * (depth - 1)
    return sum(filled_us(octets, s, by, m, nodes, work, v) for s in shares) + hops * octets / (nic * 1e3)


def _inside_octets(by: Choice, work: Work, hops: int) -> int:
    """Return the number of bytes of one chunk that pass its ``hops`` inside nodes one after another. Usually every hop
    passes the whole chunk. In a tree, LL128 forwards line by line, and LL forwards the data that all threads hold."""
    first = work.chunks[0][0]
    if by.algorithm != Algorithm.TREE or by.protocol == Protocol.SIMPLE:
        return hops * first
    piece = min(first, held_octets(by, work))
    return hops * piece + first - piece


def held_octets(by: Choice, work: Work) -> int:
    """Return the number of bytes held at once by the threads that send results down a tree; a hop forwards data in
    units of this size. Return 0 with LL128, because the latency of a hop includes these bytes."""
    if by.protocol == Protocol.LL128:
        return 0
    return round(work.threads * LL_OCTETS * (BROADCAST_THREADS if split(by) else 1.0))


def switched_us(by: Choice, m: Machine, nodes: int, hops: Hops) -> float:
    """Return the latency in µs of an operation in switches that reduce; there, pieces of data do not wait for each
    other. 0 for other algorithms."""
    if by.algorithm not in SWITCHED:
        return 0.0
    (inside, across), _, _ = _shape(Collective.ALL_REDUCE, by, m, nodes)
    return inside * hops.inside + (0.0 if by.algorithm == Algorithm.NVLS_TREE else across * hops.across)


def _switched_gbytes(by: Choice, m: Machine) -> float:
    """Return GB/s of a collective over NVLink. NVLS: a GPU sends all its data to the
    NVSwitch, receives 1/n of the sum, returns that and receives the whole sum, at NCCL's
    efficiency. CollNet: each GPU sends all parts except its own to the GPUs of the other adapters, and receives the
    results from them."""
    if by.algorithm == Algorithm.COLLNET:
        return m.gpu.nvlink_gbytes * m.gpus / max(2 * (m.gpus - 1), 1)
    return m.gpu.nvlink_gbytes * NVLS_SHARE[m.gpu.index] / (1 + 1 / m.gpus)


def nic_share(by: Choice, m: Machine, work: Work, v: Section) -> float:
    """Return the GB/s of payload in a channel's share of its NIC."""
    return adapter_gbytes(m, v) * payload_of(by) / max(1, -(-work.channels // m.nics))


def busiest_gbytes(collective: Collective, by: Choice, m: Machine, nodes: int, work: Work, v: Section) -> float:
    """Return GB/s of payload of a connection between nodes while all connections of the busiest NIC are active. In a
    tree, the busiest NIC sends to two children and receives from two."""
    return min(rates_of(by, m, nodes, work, v)[1], nic_share(by, m, work, v) / _shape(collective, by, m, nodes)[2])


def predicted_us(
    collective: Collective, by: Choice, size: int, machine: Machine, nodes: int, values: Section | None = None
) -> float:
    """Return the predicted time in µs of a collective of ``size`` bytes on ``nodes`` machines. ``size`` is counted as
    in nccl-tests: for all-gather and reduce-scatter it is that of the whole vector."""
    v = machine.values if values is None else values
    work = work_of(collective, by, size, machine, nodes)
    hops, (inside, across) = hops_of(by, machine, nodes, v, work.channels), rates_of(by, machine, nodes, work, v)
    host = host_us(collective, machine, nodes, v)
    if by.algorithm == Algorithm.P2P:
        return max(host, _pairs_us(collective, size, machine, nodes, hops, (inside, across)))
    path, moved, _ = _shape(collective, by, machine, nodes)
    busiest = across if nodes == 1 else busiest_gbytes(collective, by, machine, nodes, work, v)
    latency = path[0] * hops.inside + path[1] * hops.across + sum(path) * line_us(by, size, machine, nodes, v)
    first = work.chunks[0][0]
    filled = _across_us(first, path[1], by, machine, nodes, work, v)
    fill = max(_inside_octets(by, work, path[0]) / inside + filled * 1e3, moved * first / busiest)
    rest = moved * (sum(octets * loops for octets, loops in work.chunks) - first) / busiest
    return max(host, hops.launch + latency + (fill + rest) / 1e3)


def host_us(collective: Collective, machine: Machine, nodes: int, values: Section | None = None) -> float:
    """Return the processor time in µs in which a process launches a collective on all its GPUs, one after another
    (``machine.per_process``). If programs launch collectives back to back, as nccl-tests does, the GPUs run one
    collective while the processor launches the next, so a collective takes the longer of the two times."""
    v = machine.values if values is None else values
    peers = (
        machine.gpus * nodes if collective == Collective.ALL_TO_ALL else 1 if collective == Collective.SEND_RECV else 0
    )
    return machine.per_process * (v["host_launch"] + 2 * peers * v["host_pair"])


def _pairs_us(
    collective: Collective, size: int, m: Machine, nodes: int, hops: Hops, rates: tuple[float, float]
) -> float:
    """Return the time in µs of sends and receives, limited by an adapter and a GPU's NVLinks."""
    n = m.gpus * nodes
    one = size if collective == Collective.SEND_RECV else size / n
    remote = (n - m.gpus) if collective == Collective.ALL_TO_ALL else min(nodes - 1, 1) / m.gpus
    local = (m.gpus - 1) if collective == Collective.ALL_TO_ALL else min(m.gpus - 1, 1)
    each = max(1.0, m.gpus / m.nics) if collective == Collective.ALL_TO_ALL else m.gpus
    latency = hops.across if nodes > 1 else hops.inside
    return hops.launch + latency + max(one * remote * each / (rates[1] * 1e3), one * local / (rates[0] * 1e3))


def payload_of(by: Choice) -> float:
    """Return the share of payload in the bytes on a connection."""
    return (0.5, 0.9375, 1.0)[ORDER.index(by.protocol)]


def ranks_of(by: Choice, m: Machine, nodes: int) -> int:
    """Return the number of shares into which a ring divides data; 1 for a tree."""
    return m.gpus * nodes if by.algorithm == Algorithm.RING else 1


def _shape(collective: Collective, by: Choice, m: Machine, nodes: int) -> tuple[tuple[int, int], float, float]:
    """Return three values: (hops inside nodes, hops between nodes) of one chunk; number of chunks that a connection
    carries for each chunk of a loop; number of connections that share a channel's part of the busiest NIC."""
    ranks, a = m.gpus * nodes, by.algorithm
    between = 0 if nodes == 1 else nodes - 1
    depth = max(nodes - 1, 0).bit_length()
    if a == Algorithm.RING:
        steps = steps_of(collective, ranks)
        rounds = 2 if collective == Collective.ALL_REDUCE else 1
        moved = 1.0 if collective == Collective.BROADCAST else float(steps)
        return (steps - rounds * between, rounds * between), moved, 1.0
    if a in (Algorithm.TREE, Algorithm.NVLS_TREE):
        inside = 2 * (m.gpus - 1) if a == Algorithm.TREE else 1
        passes = 2.0 if by.serial else 1.0
        return (inside, 2 * depth), passes, (1.0 if nodes <= 2 else 2.0) / passes
    if a == Algorithm.COLLNET:
        return (2 * min(1, m.gpus - 1), 1), 1.0, 1.0
    if a == Algorithm.NVLS:  # NCCL's constants are for the whole operation
        return (1, min(nodes - 1, 1)), 1.0, 1.0
    return (0, max(1, (ranks - 1).bit_length())), float(ranks - 1), 1.0
