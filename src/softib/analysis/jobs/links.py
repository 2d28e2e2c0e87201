"""Jobs on a fabric: the links that each job may use, the jobs that share links, and the expected slowdown of each.
Because a job's traffic is unknown, any two of its hosts may communicate. As in collective libraries, adapter n of a
host sends to adapter n of the other host (rails).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.analysis.jobs.files import ScheduledJob
from softib.diags.view import adapter_of
from softib.fabric.end_ports import port_gbps
from softib.sim import static
from softib.sim.static_network import Network

if TYPE_CHECKING:
    from softib.fabric.model import Fabric
    from softib.routing.graph import SwitchGraph

__all__ = ["JobLinks", "JobOnFabric", "place_jobs"]

EVERY_PAIR = 512
"""Largest number of ports in a job's rail for which all pairs are examined. For more ports, only :data:`SHIFTS` shifts
are examined; they use all links that many pairs use."""
SHIFTS = 256
ROUNDS = 8
"""Number of random permutations of each job over which the slowdown is averaged."""


@dataclass(frozen=True)
class JobOnFabric:
    """A job. ``hosts``: its hosts on the fabric; ``missing``: hosts that the fabric does not have. ``ends``: rows of
    the network's hosts; ``rail``: the rail of each."""

    job: ScheduledJob
    hosts: tuple[str, ...]
    missing: tuple[str, ...]
    ends: np.ndarray
    rail: np.ndarray


@dataclass
class JobLinks:
    """``uses`` bool[jobs, channels]: whether the job's traffic may use the channel. ``port``
    int64[channels]: the fabric's port that sends into it."""

    fabric: Fabric
    network: Network
    jobs: tuple[JobOnFabric, ...]
    uses: np.ndarray
    port: np.ndarray
    row: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def shared(self) -> np.ndarray:
        """Return the number of jobs that may use each channel (int64[channels])."""
        return np.asarray(self.uses.sum(axis=0))

    def crossing(self, node_guid: int, portnum: int) -> list[str]:
        """Return the names of the jobs whose traffic may cross the cable of this port, in either direction."""
        channels = list(self.row.get((node_guid, portnum), ()))
        return [j.job.name for i, j in enumerate(self.jobs) if self.uses[i, channels].any()]

    def ports_of(self, job: int) -> list[tuple[str, int, int]]:
        """Return (host, NodeGUID, portnum) of each adapter port of the job."""
        f, out = self.fabric, []
        for port in self.port[self.network.n_links + self.jobs[job].ends].tolist():
            node = int(f.port_node[port])
            both = adapter_of(f.node_name(node))
            out.append((both[0] if both else f.node_name(node), int(f.node_guid[node]), int(f.port_num[port])))
        return out

    def links_of(self, job: int) -> list[str]:
        """Return every port that may send traffic of the job, for example ``leaf-3[40]``."""
        return [self.fabric.port_name(int(p)) for p in np.unique(self.port[self.uses[job]]).tolist()]

    def nodes_of(self, job: int) -> np.ndarray:
        """Return the rows of the nodes to which the job's ends belong (int64[n], ascending)."""
        ends = self.port[len(self.port) - self.network.n_hosts :][self.jobs[job].ends]
        return np.unique(self.fabric.port_node[self.fabric.port_peer[ends]].astype(np.int64))

    def cables_of(self, job: int) -> int:
        """Return the number of cables that the job may use, in either direction."""
        port = self.port[self.uses[job]]
        return len(np.unique(np.minimum(port, self.fabric.port_peer[port])))

    def sharing(self, job: int) -> dict[str, int]:
        """Return other job → number of links that both jobs may use (each direction of a cable counts), the largest
        number first."""
        count = (self.uses[:, self.uses[job]]).sum(axis=1)
        order = np.argsort(-count, kind="stable")
        return {self.jobs[j].job.name: int(count[j]) for j in order.tolist() if j != job and count[j]}

    def slowdown(self, slow_gbps: Mapping[tuple[int, int], float] | None = None) -> list[float]:
        """Return the expected slowdown of each job's messages, compared with the job running alone on a fabric without
        faults. All jobs send random permutations at once, and flows share every link evenly (static layer).
        ``slow_gbps``: (NodeGUID, portnum) → actual rate of this port and its peer.
        """
        rate = self._rates(slow_gbps or {})
        alone, together = np.zeros(len(self.jobs)), np.zeros(len(self.jobs))
        rng = np.random.default_rng(0)
        for _ in range(ROUNDS):
            flows = [_permutation(j, rng) for j in self.jobs]
            src, dst = (np.concatenate([f[i] for f in flows] or [np.zeros(0, np.int64)]) for i in (0, 1))
            owner = np.repeat(np.arange(len(flows)), [len(f[0]) for f in flows])
            for j, (a, b) in enumerate(flows):
                alone[j] += _mean_ps(self.network, a, b)
            slow = _with_rate(self.network, rate)
            got = static.flow_rates(slow, src, dst)[0] if len(src) else np.zeros(0)
            for j in range(len(flows)):
                rates = got[owner == j]
                together[j] += float(np.mean(1.0 / rates[rates > 0])) if (rates > 0).any() else 0.0
        return [float(t / a) if a > 0 else 1.0 for t, a in zip(together, alone, strict=True)]

    def _rates(self, slow: Mapping[tuple[int, int], float]) -> np.ndarray:
        rate = self.network.rate.copy()
        for place, gbps in slow.items():
            channels = list(self.row.get(place, ()))
            rate[channels] = np.minimum(rate[channels], max(gbps, 1e-9))
        return rate

    def to_json(self, slow_gbps: Mapping[tuple[int, int], float] | None = None) -> list[dict[str, Any]]:
        """Return one object per job: name, user, hosts, cables, sharing jobs, expected slowdown."""
        slower = self.slowdown(slow_gbps)
        return [
            {
                "job": j.job.name,
                "user": j.job.user,
                "hosts": list(j.hosts),
                "missing_hosts": list(j.missing),
                "cables": self.cables_of(i),
                "shared_with": self.sharing(i),
                "expected_slowdown": round(slower[i], 3),
            }
            for i, j in enumerate(self.jobs)
        ]


def _with_rate(network: Network, rate: np.ndarray) -> Network:
    from dataclasses import replace

    return replace(network, rate=rate)


def _mean_ps(network: Network, src: np.ndarray, dst: np.ndarray) -> float:
    """Return the mean time per byte of all flows: the mean of 1 / rate."""
    if not len(src):
        return 0.0
    rate = static.flow_rates(network, src, dst)[0]
    return float(np.mean(1.0 / rate[rate > 0])) if (rate > 0).any() else 0.0


def _permutation(job: JobOnFabric, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return a random cyclic permutation for each rail of a job, so that no port sends to itself."""
    src, dst = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for rail in np.unique(job.rail).tolist():
        ends = rng.permutation(job.ends[job.rail == rail])
        if len(ends) > 1:
            src.append(ends)
            dst.append(np.roll(ends, -1))
    return np.concatenate(src), np.concatenate(dst)


def place_jobs(fabric: Fabric, graph: SwitchGraph, lft: np.ndarray, jobs: Sequence[ScheduledJob]) -> JobLinks:
    """Find the jobs' hosts on a routed fabric, and the links that their traffic may take.

    A host is found by the name of a node, or by the part before the adapter (``node-1`` of ``node-1
    mlx5_0``), with or without domain.
    """
    links = fabric.port(graph.switch_node[graph.link_switch], graph.out_port.astype(np.int64))
    chosen = np.flatnonzero(graph.end_is_compute)
    eject = fabric.port(graph.switch_node[graph.end_switch], graph.end_port.astype(np.int64))
    all_rates = port_gbps(fabric)
    network = Network.build(
        graph, lft[:, : graph.lft_size], chosen, np.maximum(all_rates[links], 1e-9), np.maximum(all_rates[eject], 1e-9)
    )
    eject = eject[chosen]
    port = np.concatenate([links, fabric.port_peer[eject], eject]).astype(np.int64)
    placed = _placed(fabric, fabric.port_node[fabric.port_peer[eject]], jobs)
    uses = np.zeros((len(placed), network.n_channels), bool)
    for j, job in enumerate(placed):
        src, dst = _pairs(job)
        if len(src):
            uses[j] = static.loads(network, src, dst).load > 0
    return JobLinks(fabric, network, placed, uses, port, _rows(fabric, port))


def _rows(fabric: Fabric, port: np.ndarray) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return the channels of both directions of each port's cable, by (NodeGUID, portnum)."""
    channel = np.full(fabric.sizes.ports, -1, np.int64)
    channel[port] = np.arange(len(port))
    out: dict[tuple[int, int], tuple[int, ...]] = {}
    guid = fabric.node_guid[fabric.port_node]
    for p in port.tolist():
        both = (channel[p], channel[fabric.port_peer[p]])
        out[int(guid[p]), int(fabric.port_num[p])] = tuple(int(c) for c in both if c >= 0)
    return out


def _placed(fabric: Fabric, node: np.ndarray, jobs: Sequence[ScheduledJob]) -> tuple[JobOnFabric, ...]:
    """Return the jobs with their hosts on the fabric. ``node``: the node of each of the network's hosts."""
    ends: dict[str, list[int]] = {}
    rails: list[str] = []
    for end, n in enumerate(node.tolist()):
        name = fabric.node_name(int(n))
        host, adapter = adapter_of(name) or (name, "")
        rails.append(adapter)
        for alias in dict.fromkeys((name, host, host.partition(".")[0])):
            ends.setdefault(alias, []).append(end)
    rail_of = (
        np.unique(np.array(rails, object).astype(str), return_inverse=True)[1].reshape(-1)
        if rails
        else np.zeros(0, np.int64)
    )
    out = []
    for job in jobs:
        ends_of_host = {h: ends.get(h) or ends.get(h.partition(".")[0]) or [] for h in job.hosts}
        rows = np.array(sorted({e for rows_of_host in ends_of_host.values() for e in rows_of_host}), np.int64)
        here = tuple(h for h in job.hosts if ends_of_host[h])
        out.append(JobOnFabric(job, here, tuple(h for h in job.hosts if not ends_of_host[h]), rows, rail_of[rows]))
    return tuple(out)


def _pairs(job: JobOnFabric) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of each rail, or the pairs of some shifts."""
    src, dst = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for rail in np.unique(job.rail).tolist():
        ends = job.ends[job.rail == rail]
        n = len(ends)
        shifts = np.arange(1, n) if n <= EVERY_PAIR else np.unique(np.linspace(1, n - 1, SHIFTS).astype(np.int64))
        for s in shifts.tolist():
            src.append(ends)
            dst.append(np.roll(ends, -s))
    return np.concatenate(src), np.concatenate(dst)
