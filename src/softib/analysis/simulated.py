"""A run of a workload on a fabric: what ran, how long everything took, and which ports were the limit, by cause."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError, UnknownName
from softib.sim.messages import PATH_SL
from softib.sim.paths import WHY, Plane, packets_of, wire_octets
from softib.workloads.hosts import Hosts, hosts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from softib.analysis.routed import Routed
    from softib.fabric.model import Fabric
    from softib.scenario.failures import FailureRun
    from softib.sim.messages import Messages
    from softib.sim.outcome import Outcome
    from softib.workloads.workload import Workload

__all__ = ["LAYERS", "JobTimes", "Simulated", "run_layer", "simulated"]

LAYERS = ("static", "fluid", "packet")
MAX_SL = 15
ETHERNET_OVERHEAD = 24.0
"""Octets of a frame that PortXmitData does not count: FCS 4, preamble 8, gap 12."""
PERCENTILES = (50, 90, 99, 99.9)


@dataclass(frozen=True)
class JobTimes:
    """One job: ``began_ps`` of its first message, ``ended_ps`` of its last completion (-1: not all completed), ``gbps`` of its bytes over
    that time."""

    name: str
    messages: int
    size: int
    began_ps: int
    ended_ps: int
    gbps: float


@dataclass
class Simulated:
    """``messages`` on ``fabric`` and their ``outcome``; ``jobs`` are the names behind ``messages.job``, ``engine`` made the tables;
    ``failures``: what failed meanwhile, and what the manager did."""

    plane: Plane
    hosts: Hosts
    workload: Workload
    messages: Messages
    jobs: tuple[str, ...]
    outcome: Outcome
    engine: str
    seed: int
    notes: list[str] = field(default_factory=list)
    failures: FailureRun | None = None

    @property
    def fabric(self) -> Fabric:
        """The fabric with the tables that the run took."""
        return self.plane.fabric

    @property
    def ok(self) -> bool:
        """Did every message complete, and nothing deadlock?"""
        return self.outcome.done and not self.outcome.deadlock

    @cached_property
    def names(self) -> np.ndarray:
        """Name of each end port (object[ends])."""
        found = np.array([self.fabric.node_name(int(n)) for n in self.fabric.port_node[self.plane.ends]], object)
        found[self.hosts.end] = self.hosts.name
        return found

    @property
    def took_ps(self) -> np.ndarray:
        """From the begin of each message to its arrival (int64; -1: it did not arrive, or is a computation)."""
        o = self.outcome
        return np.where((o.arrived_ps >= 0) & ~self.messages.computes, o.arrived_ps - o.began_ps, -1)

    def percentiles_ps(self) -> dict[str, float]:
        """Latencies of the messages that arrived: ``p50``, ``p90``, ``p99``, ``p99.9``, ``min``, ``max``, ``mean``."""
        took = self.took_ps[self.took_ps >= 0]
        if not len(took):
            return {}
        named = {f"p{q:g}": float(v) for q, v in zip(PERCENTILES, np.percentile(took, PERCENTILES), strict=True)}
        return {"min": float(took.min()), **named, "max": float(took.max()), "mean": float(took.mean())}

    def slowest(self, n: int = 10) -> np.ndarray:
        """Rows of the messages with the longest latency, the longest first."""
        return np.argsort(-self.took_ps, kind="stable")[: min(n, int((self.took_ps >= 0).sum()))]

    def job_times(self) -> list[JobTimes]:
        """Each job's time and rate."""
        found = []
        o, m = self.outcome, self.messages
        for k, name in enumerate(self.jobs):
            rows = m.job == k
            size = int(m.size[rows & ~m.computes].sum())
            began = int(o.began_ps[rows & (o.began_ps >= 0)].min(initial=np.iinfo(np.int64).max))
            done = bool((o.completed_ps[rows] >= 0).all())
            last = int(o.arrived_ps[rows].max(initial=-1))
            gbps = size * 8e3 / (last - began) if done and last > began else 0.0
            ended = int(o.completed_ps[rows].max(initial=-1)) if done else -1
            found.append(
                JobTimes(
                    name,
                    int((rows & ~m.computes).sum()),
                    size,
                    began if (o.began_ps[rows] >= 0).any() else -1,
                    ended,
                    gbps,
                )
            )
        return found

    @cached_property
    def octets(self) -> np.ndarray:
        """Octets of payload's packets that each port sent (float64[ports]); of Ethernet all that took time on its link."""
        if self.outcome.port_figures:
            c = self.outcome.counters
            return c["port_xmit_data"] * 4.0 + c["port_xmit_pkts"] * ETHERNET_OVERHEAD
        laid, m = self.plane.lay(self.messages), self.messages
        size = np.where(self.outcome.arrived_ps >= 0, wire_octets(m, packets_of(m, laid.mtu)), 0.0)
        return np.bincount(
            laid.port[laid.channel] >> 4, np.repeat(size, np.diff(laid.first)), minlength=self.fabric.sizes.ports
        )

    @property
    def gbps(self) -> np.ndarray:
        """Rate of each port's link in this run (float64[ports])."""
        return self.outcome.port_figures.get("gbps", self.plane.gbps)

    @cached_property
    def load(self) -> np.ndarray:
        """Share of the run in which each port's link was busy (float64[ports])."""
        gbps, end = self.gbps, max(self.outcome.end_ps, 1)
        return np.divide(self.octets * 8e3, gbps * end, out=np.zeros(len(gbps)), where=gbps > 0)


def run_layer(layer: str) -> Any:
    """``run`` of a layer. Raises :class:`UnknownName`."""
    import importlib

    if layer not in LAYERS:
        raise UnknownName("layer of the simulator", layer, LAYERS)
    return importlib.import_module(f"softib.sim.{layer}").run


def with_stated_sls(found: Routed, plane: Plane, made: Messages) -> Messages:
    """``made`` with the SLs that the manager of ``found`` states for their paths, where they name none themselves."""
    table = found.path_sl
    if table is None or not (made.sl == PATH_SL).any():
        return made
    graph, lid = found.graph, found.fabric.lid[plane.ends]
    row = np.minimum(np.searchsorted(graph.end_lid, lid), len(graph.end_lid) - 1)
    known = graph.end_lid[row] == lid
    if len(table) == 1:
        source = np.zeros(len(row), np.int64)
    else:
        source = row if len(table) == len(graph.end_lid) else graph.end_switch[row]
    stated = table[source[made.src], row[made.dst]]
    usable = known[made.src] & known[made.dst] & (stated <= MAX_SL) & (made.sl == PATH_SL)
    return replace(made, sl=np.where(usable, stated, made.sl).astype(np.int8))


def simulated(
    found: Routed, workload: Workload, layer: str, *, engine: str, seed: int = 0,
    options: Mapping[str, Any] | None = None, progress: Callable[[int, int, int], None] | None = None,
) -> Simulated:  # fmt: skip
    """Run ``workload`` on a fabric that has LIDs and tables (``engine`` says whose). ``options``: fields of
    :class:`~softib.sim.packet.PacketOptions`, for the packet layer.

    Raises :class:`InputError` where the workload does not fit: fewer hosts than it takes, a destination that no path leads to.
    """
    run = run_layer(layer)
    if workload.faults and layer != "packet":
        raise InputError(f"only the packet layer knows faults at a time, not {layer}; add --layer packet")
    failures: FailureRun | None = None
    fabric = found.fabric
    plane, hosts = Plane(fabric), hosts_of(fabric)
    if len(hosts) < 2:
        raise InputError(f"{fabric.name or 'the fabric'} has {len(hosts)} hosts with an address; traffic takes two")
    made, jobs = workload.messages(hosts, seed)
    made.check(len(plane.ends))
    made = with_stated_sls(found, plane, made)
    laid = plane.lay(made)
    if laid.why.any():
        row = int(np.argmax(laid.why != 0))
        a, b = (fabric.node_name(int(fabric.port_node[plane.ends[side[row]]])) for side in (made.src, made.dst))
        n = int((laid.why != 0).sum())
        raise InputError(f"{n:,} of {len(made):,} messages have no path, such as {a} to {b}: {WHY[int(laid.why[row])]}")
    if layer == "packet":
        shown = None if progress is None else lambda now_ps, done, of: progress(done, of, now_ps)
        from softib.sim.packet import PacketOptions

        wanted = PacketOptions(seed=seed, **(options or {}))
        if workload.faults:
            from softib.analysis.failing import run_failing

            failures = run_failing(found, workload, made, wanted, shown)
            outcome = failures.outcome
        else:
            outcome = run(fabric, made, wanted, progress=shown)
    elif layer == "fluid":
        outcome = run(plane, made, progress=progress)
    else:
        outcome = run(plane, made)
    return Simulated(plane, hosts, workload, made, jobs, outcome, engine, seed, list(outcome.notes), failures)
