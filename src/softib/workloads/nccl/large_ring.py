"""A ring on adapters of a fabric, of any size: what each link carries by the fabric's tables, each hop's rate from that, and the ring's steps on these.

In the steady state every hop of a channel carries one chunk after another, so the rate of a hop is the least of its channel's and of the shares of the
links on its path: a link serves the flows on it evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softib.sim.messages import messages
from softib.workloads.nccl.constants import Collective, busbw_factor
from softib.workloads.nccl.law import hops_of, payload_of, rates_of
from softib.workloads.nccl.steady import ring_us
from softib.workloads.nccl.tuning import steps_of

if TYPE_CHECKING:
    from softib.sim.paths import Plane
    from softib.workloads.nccl.placing import Run

__all__ = ["LargeRing", "large_ring"]


@dataclass(frozen=True)
class LargeRing:
    """``took_us`` in all; ``hop_gbytes``: GB/s of the slowest and of the fastest hop between nodes; ``steps`` of each loop."""

    took_us: float
    busbw_gbytes: float
    hop_gbytes: tuple[float, float]
    steps: int
    loops: int


def large_ring(run: Run, plane: Plane, ends: np.ndarray) -> LargeRing:
    """The ring ``run`` on the fabric of ``plane``; ``ends``: rows of the end ports of the hosts."""
    m, v, work, nodes = run.machine, run.values, run.work, run.nodes
    n = m.gpus * nodes
    inside, across = rates_of(run.by, m, nodes, work, v)
    hops = hops_of(run.by, m, nodes, v, work.channels)
    rails = min(work.channels, m.nics)
    of_rail = np.arange(work.channels) % m.nics
    src, dst = run.adapters[:, :rails].T, np.roll(run.adapters[:, :rails], -1, axis=0).T
    rate = (
        _shares(plane, ends[src.reshape(-1)], ends[dst.reshape(-1)]).reshape(rails, nodes)
        * payload_of(run.by)
        * v["nic_share"]
    )
    on_rail = np.bincount(of_rail, minlength=rails)[:rails]
    steps = steps_of(run.collective, n)
    worst = 0.0
    for rail in range(rails):
        hop = np.minimum(across, rate[rail] / on_rail[rail])
        took = 0.0
        for octets, loops in work.chunks:
            busy = np.full(n, octets / (inside * 1e3))
            latency = np.full(n, hops.inside)
            busy[m.gpus - 1 :: m.gpus] = octets / (hop * 1e3)
            latency[m.gpus - 1 :: m.gpus] = hops.across
            took += ring_us(busy, latency, steps, loops)
        worst = max(worst, took)
    worst += hops.launch
    bus = (
        run.size
        / (worst * 1e3)
        * busbw_factor(Collective.ALL_REDUCE if run.collective == Collective.ALL_REDUCE else run.collective, n)
    )
    return LargeRing(worst, bus, (float(min(rate.min(), across)), float(min(rate.max(), across))), steps, work.loops)


def _shares(plane: Plane, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """GB/s of payload that each flow has: the least of its links' rates over the flows on them."""
    laid = plane.lay(messages(src, dst, 1 << 20))
    flows = np.bincount(laid.port >> 4, minlength=len(plane.gbps))
    share = plane.gbps[laid.port >> 4] / np.maximum(flows[laid.port >> 4], 1)
    lengths = np.diff(laid.first)
    least = np.minimum.reduceat(np.append(share, np.inf), np.minimum(laid.first[:-1], len(share)))
    from softib.workloads.nccl.law import HEADERS

    return np.where(lengths > 0, least, np.inf) / 8 * HEADERS
