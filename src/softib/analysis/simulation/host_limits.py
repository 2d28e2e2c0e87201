"""Limits of messages outside the fabric: the PCIe link of an adapter, and the rates at which hosts send."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.analysis.simulation.victim_flows import queue_wait_ps
from softib.sim.messages import NO_LIMIT
from softib.sim.packet_sizes import packets_of, wire_octets

if TYPE_CHECKING:
    from softib.analysis.simulation.result import RunResult

__all__ = ["covered_ps", "pcie_limit", "rate_limit"]

BELOW = 0.95
"""A message does not fill a link if its rate is below this share of the link's rate."""
MOSTLY = 0.9
"""The limit of messages is their own rate if sending their bytes at this rate takes at least this share of their
time."""
FILLED = 0.9
"""If messages fill a link up to this share of its rate while they are under way, the link is their limit. NCCL reaches
94 % of a link's rate."""
IN_USE = 0.5
"""PCIe limits a port if, averaged over the run, at least this share of the PCIe link's rate is used."""


def pcie_limit(run: RunResult, rows: np.ndarray, whose: str) -> tuple[str, str, tuple[str, ...]] | None:
    """Return cause, remedy and changes (none) if PCIe limits a host of each of the messages ``rows``; else None."""
    m, plane, f = run.messages, run.plane, run.fabric
    ends = np.stack([plane.ends[m.src[rows]], f.port_peer[plane.ends[m.dst[rows]]]])
    gbps, pcie = plane.gbps[ends], plane.link_gbps[ends]
    limits = (pcie < BELOW * gbps) & (run.load[ends] * gbps >= IN_USE * pcie)
    if not limits.any(axis=0).all():
        return None
    return (
        f"{whose}: PCIe of the adapters carries {pcie[limits].min():.4g} Gb/s, the links {gbps[limits].max():.4g} Gb/s",
        "nothing in the fabric: more or faster PCIe lanes",
        (),
    )


def covered_ps(begin: np.ndarray, end: np.ndarray) -> int:
    """Return the time in ps that is covered by at least one of the intervals from ``begin`` to ``end``."""
    order = np.argsort(begin, kind="stable")
    begin, latest = begin[order], np.maximum.accumulate(end[order])
    before = np.concatenate([[0], latest[:-1]])
    return int(np.maximum(latest - np.maximum(begin, before), 0).sum())


def rate_limit(run: RunResult, port: int, rows: np.ndarray, whose: str) -> tuple[str, str, tuple[str, ...]] | None:
    """Return cause, remedy and changes (none) if the messages ``rows`` are sent at rates of their own (a static rate,
    or the rate of an NCCL connection) that do not fill the link of ``port``; otherwise None."""
    m, o, plane = run.messages, run.outcome, run.plane
    sent = rows[o.arrived_ps[rows] >= 0]
    in_flight_ps = covered_ps(o.began_ps[sent], o.arrived_ps[sent])
    if run.octets[port] * 8e3 >= FILLED * plane.gbps[port] * in_flight_ps:
        return None
    laid = plane.lay(m)
    rate = m.rate_gbps[rows].astype(float)
    took = (run.took_ps - queue_wait_ps(run))[rows]
    link = np.minimum.reduceat(plane.gbps[laid.port >> 4][laid.channel], laid.first[rows])
    limited = (rate != NO_LIMIT) & (rate < BELOW * link) & (took > 0)
    if not limited.any():
        return None
    octets = wire_octets(m, packets_of(m, laid.mtu))[rows]
    sends = octets[limited] * 8e3 / rate[limited]
    if sends.sum() < MOSTLY * took[took > 0].sum():
        return None
    static = all(run.workload.jobs[k].rate for k in np.unique(m.job[rows]) if k < len(run.workload.jobs))
    remedy = "a higher static rate" if static else "faster GPUs, processors or adapters in the nodes"
    return (
        f"{whose}: messages are sent at their own rate, up to {rate[limited].max():.4g} Gb/s each on a link of "
        f"{link[limited].max():.4g} Gb/s",
        f"nothing in the fabric: {remedy}",
        (),
    )
