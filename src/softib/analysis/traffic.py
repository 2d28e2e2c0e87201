"""What the user's own traffic matrix puts on the fabric: bytes on each link, and the least time
that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.analysis.prediction import Busy, busiest
from softib.fabric.model import Fabric
from softib.sim import static
from softib.sim.static_network import Network
from softib.workloads.traffic_matrix import TrafficMatrix

__all__ = ["Traffic", "traffic_json", "traffic_of"]

SHOWN = 10


@dataclass(frozen=True)
class Traffic:
    """``time_ps``: until the busiest channel has sent its bytes; ``hosts_ps``: the same if nothing
    but the hosts' own links limited it. ``busiest`` are the links between switches that are busy
    longest, their load in bytes; ``unrouted`` flows have no path, and are in no other figure."""

    path: str
    entries: int
    flows: int
    total_bytes: float
    unrouted: int
    time_ps: int
    hosts_ps: int
    busiest: list[Busy]

    @property
    def relative(self) -> float:
        """1: the hosts' own links are the limit; 0.5: links between switches make it take twice as
        long."""
        return self.hosts_ps / self.time_ps if self.time_ps else 1.0


def traffic_of(fabric: Fabric, network: Network, matrix: TrafficMatrix) -> Traffic:
    """Figures of ``matrix`` on ``network``. Raises :class:`InputError` as
    :func:`softib.sim.static.matrix_loads`."""
    found = static.matrix_loads(network, matrix.demand)
    edge = np.zeros(len(found.load))
    edge[network.n_links :] = found.load[network.n_links :]
    return Traffic(
        matrix.path,
        matrix.entries,
        found.flows,
        matrix.total,
        found.unrouted,
        static.flow_time_ps(network, found),
        static.flow_time_ps(network, static.Loads(edge, found.flows, 0)),
        busiest(fabric, network, found.load, SHOWN),
    )


def traffic_json(t: Traffic | None) -> dict[str, Any] | None:
    """As ``--json`` prints it."""
    if t is None:
        return None
    return {
        "path": t.path,
        "entries": t.entries,
        "flows": t.flows,
        "bytes": t.total_bytes,
        "unrouted": t.unrouted,
        "time_us": t.time_ps / 1e6,
        "hosts_us": t.hosts_ps / 1e6,
        "relative": t.relative,
        "busiest": [
            {"place": b.place, "peer": b.peer, "bytes": b.load, "gbps": b.gbps, "time_us": b.load * 8 / b.gbps / 1e3}
            for b in t.busiest
        ],
    }
