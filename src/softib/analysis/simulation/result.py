"""The result of a run: times of messages and jobs, bytes and loads of ports."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.fabric.sharp_trees import inside_switches
from softib.sim.packet_sizes import packets_of, wire_octets
from softib.sim.paths import Plane
from softib.workloads.hosts import Hosts

if TYPE_CHECKING:
    from softib.fabric.model import Fabric
    from softib.scenario.failures import FailureRun
    from softib.sim.messages import Messages
    from softib.sim.outcome import Outcome
    from softib.sim.packet.congestion_control import CongestionControl
    from softib.workloads.workload import Workload
from typing import TYPE_CHECKING

from softib.fabric.counters import COUNTER_NAMES
from softib.fabric.faults.targets import port_at
from softib.iba.perf import PortCounters
from softib.plain_values import whole_number

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["JobTimes", "RunResult", "as_perfquery", "named_port", "names_of", "port_counters"]


HEX = {"counter_select": 4, "counter_select2": 2}
"""Fields that perfquery prints in hexadecimal → their number of digits."""
ACRONYMS = {"qp1": "QP1", "vl15": "VL15"}
WIDTH = 33
"""Column at which libibmad's dump prints a value."""


def named_port(fabric: Fabric, place: str) -> int:
    """Return the row of the port ``place``, for example ``leaf-1[3]`` or ``leaf-1:3``. Raises :class:`InputError` for a
    port that does not exist."""
    node, colon, number = place.rpartition(":")
    return port_at(fabric, f"{node}[{number}]" if colon and whole_number(number) is not None else place)


def port_counters(run: RunResult, place: str) -> dict[str, int]:
    """Return the fields of PortCounters of the port ``place``; a counter stops at its maximum. Raises
    :class:`InputError` for a port that does not exist."""
    port = named_port(run.fabric, place)
    row, fields = run.outcome.counters[port], PortCounters.fields
    counted = {
        n: min(int(row[n]), f.mask) if n in COUNTER_NAMES else 0 for n, f in fields.items() if not n.startswith("_")
    }
    return {**counted, "port_select": int(run.fabric.port_num[port])}


def as_perfquery(run: RunResult, place: str) -> str:
    """Return the counters as ``perfquery`` prints them (libibmad's ``mad_dump_perfcounters``)."""
    lines = []
    for name, value in port_counters(run, place).items():
        shown = f"0x{value:0{HEX[name]}x}" if name in HEX else str(value)
        lines.append(f"{label(name) + ':':.<{WIDTH}}{shown}")
    return "\n".join(lines)


def label(name: str) -> str:
    """Return the name of a counter as perfquery prints it: ``PortXmitData`` for ``port_xmit_data``."""
    return "".join(ACRONYMS.get(part, part[:1].upper() + part[1:]) for part in name.split("_"))


ETHERNET_OVERHEAD = 24.0
"""Bytes of a frame that PortXmitData does not count: FCS 4, preamble 8, gap 12."""
PERCENTILES = (50, 90, 99, 99.9)


@dataclass(frozen=True)
class JobTimes:
    """One job. ``began_ps``: start of its first message; ``ended_ps``: last completion at a sender (-1: not all
    messages completed); ``gbps``: its bytes divided by the time between the two."""

    name: str
    messages: int
    size: int
    began_ps: int
    ended_ps: int
    gbps: float


@dataclass
class RunResult:
    """The outcome of ``messages`` on ``fabric``. ``jobs``: names for ``messages.job``. ``engine``:
    the engine that computed the tables. ``failures``: faults and the manager's reaction.
    ``of_tables``: notes about tables from an engine other than the requested one, and about hosts without a route.
    ``of_workload``: notes about assumptions of the jobs."""

    plane: Plane
    hosts: Hosts
    workload: Workload
    messages: Messages
    jobs: tuple[str, ...]
    outcome: Outcome
    engine: str
    seed: int
    options: dict[str, Any] = field(default_factory=dict)
    failures: FailureRun | None = None
    of_tables: tuple[str, ...] = ()
    of_workload: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """The notes on the tables, the workload and the outcome."""
        return [*self.of_tables, *self.of_workload, *self.outcome.notes]

    @property
    def fabric(self) -> Fabric:
        """The fabric with the tables that the run used."""
        return self.plane.fabric

    @property
    def congestion_control(self) -> CongestionControl:
        """The congestion control of a run over RoCE."""
        from softib.sim.packet.options import ethernet_options

        return ethernet_options(self.options.get("ethernet", {})).control

    @property
    def ok(self) -> bool:
        """Return whether every message completed, without a deadlock."""
        return self.outcome.done and not self.outcome.deadlock

    @cached_property
    def names(self) -> np.ndarray:
        """The name of each end port (object[ends])."""
        return names_of(self.plane, self.hosts)

    @property
    def took_ps(self) -> np.ndarray:
        """The time in ps from the start of each message to its arrival (int64; -1: not arrived, or a computation)."""
        o = self.outcome
        return np.where((o.arrived_ps >= 0) & ~self.messages.computes, o.arrived_ps - o.began_ps, -1)

    def percentiles_ps(self) -> dict[str, float]:
        """Return latencies of the messages that arrived: ``p50``, ``p90``, ``p99``, ``p99.9``,
        ``min``, ``max``, ``mean``."""
        took = self.took_ps[self.took_ps >= 0]
        if not len(took):
            return {}
        named = {f"p{q:g}": float(v) for q, v in zip(PERCENTILES, np.percentile(took, PERCENTILES), strict=True)}
        return {"min": float(took.min()), **named, "max": float(took.max()), "mean": float(took.mean())}

    def slowest(self, n: int = 10) -> np.ndarray:
        """Return the rows of the ``n`` messages with the longest latencies, the longest first."""
        return np.argsort(-self.took_ps, kind="stable")[: min(n, int((self.took_ps >= 0).sum()))]

    def job_times(self) -> list[JobTimes]:
        """Return each job's time and rate."""
        times = []
        o, m = self.outcome, self.messages
        for k, name in enumerate(self.jobs):
            rows = m.job == k
            size = int(m.size[rows & ~m.computes].sum())
            began = int(o.began_ps[rows & (o.began_ps >= 0)].min(initial=np.iinfo(np.int64).max))
            done = bool((o.completed_ps[rows] >= 0).all())
            ended = int(o.completed_ps[rows].max(initial=-1)) if done else -1
            gbps = size * 8e3 / (ended - began) if ended > began else 0.0
            times.append(
                JobTimes(
                    name,
                    int((rows & ~m.computes).sum()),
                    size,
                    began if (o.began_ps[rows] >= 0).any() else -1,
                    ended,
                    gbps,
                )
            )
        return times

    @cached_property
    def octets(self) -> np.ndarray:
        """The number of bytes that each port sent in packets of messages (float64[ports]); for Ethernet, all bytes that
        took time on the link."""
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
        """The rate of each port's link in Gb/s in this run (float64[ports])."""
        return self.outcome.port_figures.get("gbps", self.plane.gbps)

    @cached_property
    def load(self) -> np.ndarray:
        """The share of the run in which each port's link was busy (float64[ports])."""
        gbps, end = self.gbps, max(self.outcome.end_ps, 1)
        on_cable = (gbps > 0) & ~self._inside
        return np.divide(self.octets * 8e3, gbps * end, out=np.zeros(len(gbps)), where=on_cable)

    @property
    def _inside(self) -> np.ndarray:
        """Return whether each port is on the link between a switch and its aggregation node, in a run that uses
        aggregation nodes (bool[ports]). Such links are inside the switch and do not limit the run."""
        f = self.fabric
        return inside_switches(f) if self.messages.reduces.any() else np.zeros(f.sizes.ports, bool)


def names_of(plane: Plane, hosts: Hosts) -> np.ndarray:
    """The name of each end port (object[ends])."""
    f = plane.fabric
    names = np.array([f.node_name(int(n)) for n in f.port_node[plane.ends]], object)
    names[hosts.end] = hosts.name
    return names
