"""Load that the user's traffic matrix puts on the fabric: the bytes on each link, and the minimum time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from softib.analysis.prediction import busiest
from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.result import Result, also, key
from softib.sim import static
from softib.sim.static_network import Network
from softib.workloads.traffic_matrix import TrafficMatrix

if TYPE_CHECKING:
    from softib.analysis.endpoints import Endpoints
    from softib.routing.graph import SwitchGraph
    from softib.workloads.workload import Workload

__all__ = ["TimedLink", "Traffic", "matrix_of_workload", "traffic_of"]

SHOWN = 10


@dataclass(frozen=True)
class TimedLink(Result):
    """A link between switches, and the traffic that the matrix puts on it."""

    place: str
    peer: str
    load: float = field(metadata=key("bytes"))
    gbps: float

    @property
    @also()
    def time_us(self) -> float:
        """Return the minimum time in which the link sends these bytes."""
        return self.load * 8 / self.gbps / 1e3


def _us(ps: int) -> float:
    return ps / 1e6


@dataclass(frozen=True)
class Traffic(Result):
    """The user's traffic matrix."""

    path: str
    entries: int
    flows: int
    total_bytes: float = field(metadata=key("bytes"))
    unrouted: int
    """Number of flows without a path; all other figures exclude them."""
    time_ps: int = field(metadata=key("time_us", json=_us, type=float))
    """Time until the busiest channel has sent its bytes."""
    hosts_ps: int = field(metadata=key("hosts_us", json=_us, type=float))
    """This time if only the hosts' links were the limit."""
    busiest: list[TimedLink]
    """Links between switches that are busy longest."""

    @property
    @also(before="busiest")
    def relative(self) -> float:
        """Ratio of ``hosts_ps`` to ``time_ps``: 1 if the hosts' links are the limit, 0.5 if links between switches
        double the time."""
        return self.hosts_ps / self.time_ps if self.time_ps else 1.0


def traffic_of(fabric: Fabric, network: Network, matrix: TrafficMatrix) -> Traffic:
    """Return the figures of ``matrix`` on ``network``. Raises the errors of :func:`softib.sim.static.matrix_loads`."""
    loads = static.matrix_loads(network, matrix.demand)
    edge = np.zeros(len(loads.load))
    edge[network.n_links :] = loads.load[network.n_links :]
    return Traffic(
        matrix.path,
        matrix.entries,
        loads.flows,
        matrix.total,
        loads.unrouted,
        static.flow_time_ps(network, loads),
        static.flow_time_ps(network, static.Loads(edge, loads.flows, 0)),
        [TimedLink(b.place, b.peer, b.load, b.gbps) for b in busiest(fabric, network, loads.load, SHOWN)],
    )


def matrix_of_workload(
    workload: Workload, fabric: Fabric, graph: SwitchGraph, ends: Endpoints, seed: int
) -> TrafficMatrix:
    """Return the bytes of all messages of ``workload`` on ``fabric``, which has LIDs, by rows of ``ends``. Raises
    :class:`InputError` for messages that switches copy or reduce, since these are not pairs of hosts."""
    from softib.fabric.end_ports import end_ports
    from softib.sim.messages import Opcode
    from softib.workloads.hosts import hosts_of

    messages = workload.of_fabric(None).messages(hosts_of(fabric), seed).messages
    if messages.groups or messages.reductions:
        raise InputError(f"{workload.name}: switches copy or reduce its messages, so it has no traffic matrix")
    place = lambda node, number: node.astype(np.int64) << 8 | number
    rows = np.argsort(known := place(graph.end_node[ends.row], graph.end_portnum[ends.row]))
    ports = end_ports(fabric)
    row = rows[np.searchsorted(known[rows], place(fabric.port_node[ports], fabric.port_num[ports])) % len(rows)]
    sent = messages.opcode != Opcode.COMPUTE
    src, dst = row[messages.src[sent]], row[messages.dst[sent]]
    read = messages.opcode[sent] == Opcode.READ  # the bytes of a READ are those of its response
    src, dst = np.where(read, dst, src), np.where(read, src, dst)
    pairs, which = np.unique(src * len(ends.row) + dst, return_inverse=True)
    size = np.bincount(which, messages.size[sent], len(pairs))
    src, dst = np.divmod(pairs, len(ends.row))
    return TrafficMatrix(workload.name, (src, dst, size), len(pairs), float(size[src != dst].sum()))
