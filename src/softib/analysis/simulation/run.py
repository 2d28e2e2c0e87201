"""A run of a workload on a fabric: what ran, how long everything took, and which ports were the limit, by cause."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.analysis.simulation.messages import MAX_SL, with_groups, with_reductions, with_stated_sls
from softib.errors import InputError, UnknownName
from softib.fabric.sharp_trees import inside_switches
from softib.sim.paths import WHY, Plane, Scale, packets_of, wire_octets
from softib.sim.socket_reads import without_reads
from softib.workloads.hosts import Hosts, hosts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from softib.analysis.routed import Routed
    from softib.fabric.model import Fabric
    from softib.scenario.failures import FailureRun
    from softib.sim.messages import Messages
    from softib.sim.outcome import Outcome
    from softib.sim.paths import Laid
    from softib.workloads.workload import Workload

__all__ = ["LAYERS", "Ask", "JobTimes", "Simulated", "message_row", "run_layer", "run_messages", "simulated"]

LAYERS = ("static", "fluid", "packet")
ETHERNET_OVERHEAD = 24.0
"""Octets of a frame that PortXmitData does not count: FCS 4, preamble 8, gap 12."""
PERCENTILES = (50, 90, 99, 99.9)


@dataclass(frozen=True)
class Ask:
    """What a run writes down beside its outcome. ``samples``: loads and queues over time, every ``sample_ps`` (0: about a hundredth of the
    run); packet layer: frames of ``ports`` (rows), the timeline of ``trace`` (a row, or ``SOURCE->DESTINATION#n``, the n-th from 1 on).
    ``jobs_apart``: each job gets a service level of its own, and with it a VL as the fabric's tables map it. ``scale``: the fabric is slower or faster (fluid and static
    layers)."""

    samples: bool = False
    sample_ps: int = 0
    ports: tuple[int, ...] = ()
    trace: str | int | None = None
    jobs_apart: bool = False
    scale: Scale | None = None


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
    ``failures``: what failed meanwhile, and what the manager did; ``of_tables``: why another engine than the one that was asked for made the tables, and which hosts they do not know."""

    plane: Plane
    hosts: Hosts
    workload: Workload
    messages: Messages
    jobs: tuple[str, ...]
    outcome: Outcome
    engine: str
    seed: int
    notes: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    failures: FailureRun | None = None
    of_tables: tuple[str, ...] = ()

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
        return names_of(self.plane, self.hosts)

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
        on_cable = (gbps > 0) & ~self._inside
        return np.divide(self.octets * 8e3, gbps * end, out=np.zeros(len(gbps)), where=on_cable)

    @property
    def _inside(self) -> np.ndarray:
        """Ports of the links between switches and their aggregation nodes, where these reduce: inside the switch, and no limit (bool[ports])."""
        f = self.fabric
        return inside_switches(f) if self.messages.reduces.any() else np.zeros(f.sizes.ports, bool)


def run_layer(layer: str) -> Any:
    """``run`` of a layer. Raises :class:`UnknownName`."""
    import importlib

    if layer not in LAYERS:
        raise UnknownName("layer of the simulator", layer, LAYERS)
    return importlib.import_module(f"softib.sim.{layer}").run


def simulated(
    found: Routed, workload: Workload, layer: str, *, engine: str, seed: int = 0,
    options: Mapping[str, Any] | None = None, progress: Callable[[int, int, int], None] | None = None,
    ask: Ask | None = None,
) -> Simulated:  # fmt: skip
    """Run ``workload`` on a fabric that has LIDs and tables (``engine`` says whose). ``options``: fields of
    :class:`~softib.sim.packet.PacketOptions`, for the packet layer. ``ask``: what to write down beside the outcome.

    Raises :class:`InputError` where the workload does not fit: fewer hosts than it takes, a destination that no path leads to.
    """
    run_layer(layer)
    if workload.faults and layer != "packet":
        raise InputError(f"only the packet layer knows faults at a time, not {layer}; add --layer packet")
    fabric, ask = found.fabric, ask or Ask()
    plane, hosts = Plane(fabric, scale=ask.scale, aggregates=workload.reduces), hosts_of(fabric)
    if len(hosts) < 2:
        raise InputError(f"{fabric.name or 'the fabric'} has {len(hosts)} hosts with an address; traffic takes two")
    made, jobs = workload.messages(hosts, seed)
    made.check(len(plane.ends))
    made = with_reductions(found, plane, made, layer)
    if (options or {}).get("network") == "tcp":
        made = without_reads(made)
    made = with_stated_sls(found, plane, made)
    made = with_groups(found, plane, made, layer)
    if ask.jobs_apart:
        made = replace(made, sl=(made.job % (MAX_SL + 1)).astype(np.int8))
    frame = Simulated(
        plane, hosts, workload, made, jobs, _NOTHING, engine, seed, [], dict(options or {}), of_tables=_of_tables(found)
    )
    if workload.faults:
        return _failing(frame, found, made, ask, progress)
    return run_messages(frame, made, layer, ask, progress)


def _of_tables(found: Routed) -> tuple[str, ...]:
    """What a run has to say of its tables."""
    part = found.part
    fallback = part.notes if part.tables not in ("", part.engine) else ()
    absent = part.ports_without_lid
    return (*fallback, *([f"{absent:,} cabled host ports have no LID and take no part"] if absent else []))


def _failing(
    like: Simulated, found: Routed, made: Messages, ask: Ask, progress: Callable[[int, int, int], None] | None
) -> Simulated:
    """``made`` while the workload's faults happen."""
    from softib.analysis.simulation.failing import run_failing
    from softib.sim.packet import PacketOptions

    shown = None if progress is None else lambda now_ps, done, of: progress(done, of, now_ps)
    sample_ps = ask.sample_ps or (_interval_ps(like.plane, made, like.plane.lay(made)) if ask.samples else 0)
    watched = _watched(like.plane, like.hosts, made, like.plane.lay(made), ask)
    wanted = PacketOptions(seed=like.seed, sample_ps=sample_ps, **watched, **like.options)
    failures = run_failing(found, like.workload, made, wanted, shown)
    if more := _on_other_ports(failures.outcome, wanted):
        failures = run_failing(found, like.workload, made, more, shown)
    outcome = failures.outcome
    return replace(like, messages=made, outcome=outcome, notes=[*like.of_tables, *outcome.notes], failures=failures)


_NOTHING: Any = None


def run_messages(
    like: Simulated, made: Messages, layer: str, ask: Ask, progress: Callable[[int, int, int], None] | None = None
) -> Simulated:
    """``made`` on the fabric and with the options of ``like``, by ``layer``. Raises :class:`InputError` where a message has no path."""
    run, plane, hosts, fabric = run_layer(layer), like.plane, like.hosts, like.fabric
    laid = plane.lay(made)
    if laid.why.any():
        row = int(np.argmax(laid.why != 0))
        a, b = (fabric.node_name(int(fabric.port_node[plane.ends[side[row]]])) for side in (made.src, made.dst))
        n = int((laid.why != 0).sum())
        raise InputError(f"{n:,} of {len(made):,} messages have no path, such as {a} to {b}: {WHY[int(laid.why[row])]}")
    sample_ps = ask.sample_ps or (_interval_ps(plane, made, laid) if ask.samples else 0)
    if layer == "packet":
        watched = _watched(plane, hosts, made, laid, ask)
        shown = None if progress is None else lambda now_ps, done, of: progress(done, of, now_ps)
        from softib.sim.packet import PacketOptions

        wanted = PacketOptions(seed=like.seed, sample_ps=sample_ps, **watched, **like.options)
        outcome = run(fabric, made, wanted, progress=shown)
        if more := _on_other_ports(outcome, wanted):
            outcome = run(fabric, made, more, progress=shown)
    elif layer == "fluid":
        outcome = run(plane, made, progress=progress, sample_ps=sample_ps)
    else:
        outcome = run(plane, made)
        if progress is not None:
            progress(len(made), len(made), outcome.end_ps)
    if layer != "packet" and (made.receives > 0).any():
        outcome.valid = False
        outcome.why_not += ("receives are counted by the packet layer alone: here there is always one",)
    return replace(like, messages=made, outcome=outcome, notes=[*like.of_tables, *outcome.notes], failures=None)


def _interval_ps(plane: Plane, m: Messages, laid: Laid) -> int:
    """A hundredth of the time that the busiest link needs at least; the run takes as long or longer."""
    octets = wire_octets(m, packets_of(m, laid.mtu))
    load = np.bincount(laid.port[laid.channel] >> 4, np.repeat(octets, np.diff(laid.first)), minlength=len(plane.gbps))
    busy_ps = np.divide(load * 8e3, plane.gbps, out=np.zeros(len(load)), where=plane.gbps > 0)
    return max(int(busy_ps.max(initial=0.0)) // 100, 1000)


def message_row(text: str | int, names: np.ndarray, m: Messages) -> int:
    """The row of the message that ``text`` means: a number, or ``SOURCE->DESTINATION#n``. Raises :class:`InputError`, one line."""
    word = str(text).strip()
    if word.isdigit():
        if int(word) >= len(m):
            raise InputError(f"there is no message {int(word):,}: the workload has {len(m):,}, numbered from 0")
        return int(word)
    ends, _, number = word.partition("#")
    source, arrow, target = (part.strip() for part in ends.partition("->"))
    if not arrow or (number and not number.isdigit()):
        raise InputError(
            f"{word!r} is no message: write its number, or SOURCE->DESTINATION, or SOURCE->DESTINATION#2 for the second one"
        )
    for name in (source, target):
        if not (names == name).any():
            raise UnknownName("host", name, [str(n) for n in names])
    rows = np.flatnonzero((names[m.src] == source) & (names[m.dst] == target))
    nth = int(number or 1)
    if not 1 <= nth <= len(rows):
        raise InputError(f"{source} sends {len(rows):,} messages to {target}; there is no number {nth}")
    return int(rows[nth - 1])


def _watched(plane: Plane, hosts: Hosts, m: Messages, laid: Laid, ask: Ask) -> dict[str, Any]:
    """``watch_ports`` and ``watch_messages`` of :class:`~softib.sim.packet.PacketOptions`."""
    if ask.trace is None:
        return {"watch_ports": _with_peers(plane, ask.ports)}
    row = message_row(ask.trace, names_of(plane, hosts), m)
    ports = set(_with_peers(plane, ask.ports)) | set(
        (laid.port[laid.channel[laid.first[row] : laid.first[row + 1]]] >> 4).tolist()
    )
    return {"watch_ports": tuple(sorted(ports)), "watch_messages": (row,)}


def _with_peers(plane: Plane, ports: tuple[int, ...]) -> tuple[int, ...]:
    """``ports`` and the other ends of their cables, ascending."""
    peer = plane.fabric.port_peer
    return tuple(sorted({p for port in ports for p in (port, int(peer[port])) if p >= 0}))


def _on_other_ports(outcome: Outcome, wanted: Any) -> Any | None:
    """Where a traced message's packets took ports that were not watched (acknowledgements, adaptive routing, a manager that re-routes): options for the same
    run once more, watching these too. It is the same to the bit."""
    from softib.sim.packet.timeline import ports_of_message

    more: set[int] = set()
    for row in wanted.watch_messages:
        more |= ports_of_message(outcome.log, row) - set(wanted.watch_ports)
    return replace(wanted, watch_ports=tuple(sorted({*wanted.watch_ports, *more}))) if more else None


def names_of(plane: Plane, hosts: Hosts) -> np.ndarray:
    """Name of each end port (object[ends])."""
    f = plane.fabric
    found = np.array([f.node_name(int(n)) for n in f.port_node[plane.ends]], object)
    found[hosts.end] = hosts.name
    return found
