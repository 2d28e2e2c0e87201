"""A collective on the adapters of a fabric, as with NCCL's InfiniBand transport (``transport/net_ib``). Transfers
between nodes are messages on queue pairs. All other transfers are only computing time. Each connection of a channel
moves one chunk after another, so it is modelled as a queue pair, or, over NVLink, as a separate processor. A hop inside
a node takes its latency and the time of its bytes. A hop between nodes begins when the sender's proxy has posted it;
the delay until then is NCCL's latency of a hop minus the latency of the network. Its rate is at most that of the
channel (the static rate of its queue pair) and, if the fabric's links are faster than the machine's adapters, its share
of an adapter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from softib.errors import InputError
from softib.plural import counted, plural
from softib.sim.messages import Opcode
from softib.workloads.nccl.algorithms import P2P_WINDOW, plan_of
from softib.workloads.nccl.chunk_times import inside_us, sent_gbytes, slice_us
from softib.workloads.nccl.constants import Algorithm, Collective
from softib.workloads.nccl.flows import MOST_OCTETS, adapter_of, flows_of
from softib.workloads.nccl.law import (
    HEADERS,
    adapter_gbytes,
    hops_of,
    host_us,
    nic_gbytes,
    payload_of,
    predicted_us,
    rates_of,
    switched_us,
)
from softib.workloads.nccl.machine import Machine
from softib.workloads.nccl.plan import Plan
from softib.workloads.nccl.tuning import Choice
from softib.workloads.nccl.work import Work, work_of
from softib.workloads.parameters import Section
from softib.workloads.pattern import JobMessages

__all__ = ["Run", "chunk_part", "flow_part", "nodes_of", "part_of"]


@dataclass(frozen=True)
class Run:
    """A collective to run: ``adapters`` int64[nodes, nics], rows of the hosts. ``values``:
    parameters. ``link_gbps``: data rate of the fastest link of an adapter (infinite: unknown). If it exceeds the rate
    of the adapter, connections have static rates; otherwise the link limits them."""

    collective: Collective
    by: Choice
    size: int
    machine: Machine
    adapters: np.ndarray
    values: Section
    link_gbps: float = math.inf

    @property
    def adapter_gbytes(self) -> float:
        """Return GB/s of payload that an adapter of the machine carries for all its connections
        in one direction."""
        return adapter_gbytes(self.machine, self.values) * payload_of(self.by)

    @property
    def links_are_faster(self) -> bool:
        """Return whether the fabric's links are faster than the adapters."""
        return self.link_gbps / 8 * HEADERS > nic_gbytes(self.machine, self.values) * (1 + 1e-9)

    @property
    def nodes(self) -> int:
        """Return the number of nodes."""
        return len(self.adapters)

    @property
    def work(self) -> Work:
        """Return the division into channels and chunks."""
        return work_of(self.collective, self.by, self.size, self.machine, self.nodes)

    @property
    def host(self) -> np.ndarray:
        """Return the row of each rank's adapter."""
        nic = np.array([self.machine.nic_of(g) for g in range(self.machine.gpus)])
        return np.asarray(self.adapters[:, nic].reshape(-1))


def nodes_of(names: tuple[str, ...], rows: np.ndarray, nics: int | None) -> np.ndarray:
    """Return the adapters of each node (int64[nodes, nics]) among ``rows`` of the hosts. Adapters
    whose names begin with the same node (``node-001 mlx5_0``, ``node-001[2]``) belong to it; nodes
    with fewer adapters than others (management hosts) take no part. With ``nics``, a node is this
    number of consecutive rows. Raises :class:`InputError` if the rows are not whole nodes.
    """
    if nics is None:
        node = [names[int(r)].split(" ")[0].split("[")[0] for r in rows]
        members: dict[str, list[int]] = {}
        for name, row in zip(node, rows.tolist(), strict=True):
            members.setdefault(name, []).append(row)
        each = max(len(m) for m in members.values())
        return np.array([m for m in members.values() if len(m) == each], np.int64)
    if len(rows) < nics or len(rows) % nics:
        raise InputError(
            f"{counted(len(rows), 'adapter')} {plural(len(rows), 'is', 'are')} not whole nodes of {nics}; choose "
            f"hosts, or use another number of nics"
        )
    return np.asarray(rows.reshape(-1, nics), np.int64)


def part_of(run: Run, detail: str = "auto") -> JobMessages:
    """Return the messages of ``run``: one flow per connection (``detail`` ``auto`` or ``flows``), otherwise every
    chunk."""
    if detail == "chunks" and _largest(run) > MOST_OCTETS:
        raise InputError(
            f"nccl-{run.collective}: a rank sends {_largest(run):,} bytes to another, which is more than one message; "
            f"use detail=flows"
        )
    if _over_trees(run):
        return _tree_part(run)
    return _launched(run, chunk_part(run)) if detail == "chunks" else flow_part(run)


def _over_trees(run: Run) -> bool:
    """Return whether the collective uses reductions in the switches between nodes."""
    return run.nodes > 1 and (
        run.by.algorithm == Algorithm.COLLNET or (run.by.algorithm == Algorithm.NVLS and run.machine.sharp)
    )


def _tree_part(run: Run) -> JobMessages:
    """Return an all-reduce over the aggregation tree of each rail, each with an equal share of the bytes. It begins
    after the launch, the transfers over NVLink, and the latency of the whole operation, which in the law includes the
    latency of the network. The rate from a GPU to its adapter is at most the rate of all its channels together."""
    m, v, work = run.machine, run.values, run.work
    _, across = rates_of(run.by, m, run.nodes, work, v)
    rate = min(across * max(1, -(-work.channels // m.nics)), adapter_gbytes(m, v))
    took = predicted_us(run.collective, run.by, run.size, m, run.nodes, v)
    start = max(0.0, took - run.size / m.nics / (rate * 1e3))
    none = np.zeros(0, np.int64)
    return JobMessages(
        none,
        none,
        none,
        none,
        start_ps=round(start * 1e6),
        rate_gbps=rate * 8,
        reduces=run.adapters.T.copy(),
        streams=True,
    )


def _launched(run: Run, part: JobMessages) -> JobMessages:
    """Return ``part``, delayed so that it does not end before the collective is launched on all GPUs of a process.
    (While a process launches a collective, its GPUs run the previous one.)"""
    host = host_us(run.collective, run.machine, run.nodes, run.values)
    if run.machine.per_process == 1:
        return part
    n, first = len(part.src), int(run.adapters[0, 0])
    wide = lambda column, value: np.append(np.broadcast_to(np.asarray(column), n), value)
    return replace(
        part,
        src=np.append(part.src, first),
        dst=np.append(part.dst, first),
        size=wide(part.size, 1),
        qp=np.append(part.qp, part.qp.max(initial=0) + 1),
        start_ps=wide(part.start_ps, 0),
        opcode=wide(part.opcode, int(Opcode.COMPUTE)),
        delay_ps=wide(part.delay_ps, round(host * 1e6)),
        rate_gbps=wide(part.rate_gbps, 0.0),
    )


def _largest(run: Run) -> int:
    """Return the size in bytes of the largest transfer. (Sends and receives are not divided into chunks here.)"""
    if run.by.algorithm != Algorithm.P2P:
        return 0
    return run.size // (run.machine.gpus * run.nodes) if run.collective == Collective.ALL_TO_ALL else run.size


def chunk_part(run: Run) -> JobMessages:
    """Return a message for every transfer."""
    work = run.work
    plan = plan_of(run.collective, run.by, run.size, run.machine, run.nodes, work)
    v, m = run.values, run.machine
    hops, (inside, across) = hops_of(run.by, m, run.nodes, v, work.channels), rates_of(run.by, m, run.nodes, work, v)
    payload, connection = payload_of(run.by), sent_gbytes(run)
    host = np.concatenate([run.host, _of_switches(run, plan)])
    node = np.concatenate([np.arange(plan.ranks) // m.gpus, np.full(plan.extra, -1)])
    reduced = (plan.src >= plan.ranks) | (plan.dst >= plan.ranks)
    net = (node[plan.src] != node[plan.dst]) & ~reduced
    tree = reduced & (np.maximum(plan.src, plan.dst) >= plan.ranks + (run.nodes if plan.extra > m.nics else 0))
    rank = np.where(plan.src < plan.ranks, plan.src, plan.dst)
    src = np.where(net, adapter_of(run, plan.src, plan.channel), host[rank])
    dst = np.where(net, adapter_of(run, plan.dst, plan.channel), src)
    rate = np.where(tree, across, inside)
    wait = max(0.0, hops.across - v["wire"]) + slice_us(run, plan)
    delay = np.round(np.where(net, wait, inside_us(run, plan, rate)) * 1e6).astype(np.int64)
    size = np.where(net, np.maximum(np.round(plan.octets / payload), 1), 1).astype(np.int64)
    key = (plan.channel * (plan.ranks + plan.extra) + plan.src) * (plan.ranks + plan.extra) + plan.dst
    qp = np.unique(key * 2 + net, return_inverse=True)[1]
    sent = np.full(len(plan), connection)
    if run.links_are_faster:
        sent[net] = np.minimum(connection, _fair_gbytes(run, src[net], dst[net], qp[net], plan.octets[net]))
    waits = np.repeat(np.arange(len(plan)), np.diff(plan.first))
    start = np.where(np.diff(plan.first) == 0, round((hops.launch + switched_us(run.by, m, run.nodes, hops)) * 1e6), 0)
    return JobMessages(
        src,
        dst,
        size,
        qp,
        waits,
        plan.needs,
        start_ps=start,
        opcode=np.where(net, int(Opcode.WRITE), int(Opcode.COMPUTE)),
        delay_ps=delay,
        rate_gbps=np.where(net, sent / payload * 8, 0.0),
    )


def _fair_gbytes(run: Run, src: np.ndarray, dst: np.ndarray, qp: np.ndarray, octets: np.ndarray) -> np.ndarray:
    """Return GB/s of payload of each transfer's connection. If the links are faster than the adapter, the adapter's
    rate is divided among its connections in proportion to their bytes. For sends and receives, of which a GPU has a few
    in flight, the shares are equal."""
    m = run.machine
    if run.by.algorithm == Algorithm.P2P:
        at_once = 1  # in send-recv, only the last GPU of a node sends to the next node
        if run.collective == Collective.ALL_TO_ALL:
            at_once = min(P2P_WINDOW, m.gpus * (run.nodes - 1)) * max(1, -(-m.gpus // m.nics))
        return np.full(len(src), run.adapter_gbytes / at_once)
    both = [np.bincount(side, octets)[side] for side in (src, dst)]  # load of the adapter at each end
    return np.asarray(run.adapter_gbytes * np.bincount(qp, octets)[qp] / np.maximum(*both))


def _of_switches(run: Run, plan: Plan) -> np.ndarray:
    """Return a host for each switch that reduces. It only fills the column: a switch has no host, and its transfers are
    computing time of the GPUs."""
    return np.full(plan.extra, int(run.adapters[0, 0]))


def flow_part(run: Run) -> JobMessages:
    """Return one flow for each pair of adapters that exchange data, with all bytes between them.
    If there are no connections between nodes (one node, or switches that reduce), return a single
    computation with the law's time."""
    flows = flows_of(run)
    if not len(flows.src):
        first = np.full(1, int(run.adapters[0, 0]))
        delay = np.full(1, round(flows.begin_us * 1e6))
        return JobMessages(
            first, first, 1, np.zeros(1, np.int64), opcode=np.full(1, int(Opcode.COMPUTE)), delay_ps=delay
        )
    return JobMessages(
        flows.src,
        flows.dst,
        flows.size,
        flows.connection,
        start_ps=round(flows.begin_us * 1e6),
        rate_gbps=flows.rate_gbps,
    )
