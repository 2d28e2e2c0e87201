"""A simulated run over time, as rows of heat maps: loads and queues of the busiest ports, and loads of tiers of
links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softib.plural import counted

if TYPE_CHECKING:
    from softib.analysis.simulation.result import RunResult
    from softib.fabric.model import Fabric
    from softib.sim.outcome import Samples

__all__ = ["Heat", "link_tiers", "loads_of_ports", "loads_of_tiers", "queues_of_ports"]

PORTS = 24


@dataclass(frozen=True)
class Heat:
    """Rows of a heat map. ``value`` float64[rows, intervals]; ``peak``: the label of each row's
    largest value."""

    names: tuple[str, ...]
    value: np.ndarray
    peak: tuple[str, ...]


def loads_of_ports(run: RunResult, samples: Samples) -> Heat:
    """Return the :data:`PORTS` ports with the highest load, the busiest first."""
    f, load = run.fabric, samples.load(run.gbps)
    can = run.gbps * max(samples.end_ps, 1) / 8e3
    mean = np.divide(samples.octets.sum(axis=0), can, out=np.zeros(len(can)), where=can > 0)
    order = np.lexsort((np.arange(len(mean)), -np.round(mean, 6)))[:PORTS]
    order = order[mean[order] > 0]
    names = tuple(f"{f.port_name(int(p))} to {f.port_name(int(f.port_peer[p]))}" for p in order)
    return Heat(names, load[:, order].T, tuple(f"{v:.0%} of the run" for v in mean[order]))


def queues_of_ports(run: RunResult, samples: Samples) -> Heat | None:
    """Return the :data:`PORTS` VLs of ports with the longest queues, longest first; None if there are no queues. Values
    are relative to the longest of all queues."""
    if samples.queued is None or not samples.queued.any():
        return None
    intervals, ports, vls = samples.queued.shape
    flat = samples.queued.reshape(intervals, ports * vls)
    most = flat.max(axis=0)
    order = np.lexsort((np.arange(len(most)), -flat.sum(axis=0), -most))[:PORTS]
    order = order[most[order] > 0]
    f = run.fabric
    names = tuple(f"{f.port_name(int(p) // vls)} VL {int(p) % vls}" for p in order)
    return Heat(names, flat[:, order].T / most.max(), tuple(f"{int(most[p]) / 1024:,.0f} KiB" for p in order))


def link_tiers(fabric: Fabric) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the row of each port in the heat map (-1 without a link), and the names of the rows. The rows are the
    links from hosts to switches; then those between switches, by their distance from hosts; then those from switches to
    hosts."""
    f = fabric
    peer = np.maximum(f.port_peer, 0)
    switch = f.is_switch[f.port_node]
    rank = _ranks(f)
    a, b = rank[f.port_node], rank[f.port_node[peer]]
    kind = np.where(~switch, 0, np.where(~switch[peer], 1 << 20, 1 + a * 256 + b))
    kind = np.where(f.port_peer >= 0, kind, -1)
    kinds = np.unique(kind[kind >= 0])
    names = tuple(_tier_name(int(k)) for k in kinds)
    row = np.where(kind >= 0, np.searchsorted(kinds, np.maximum(kind, 0)), -1)
    return row, names


def _tier_name(kind: int) -> str:
    if kind == 0:
        return "hosts to switches"
    if kind == 1 << 20:
        return "switches to hosts"
    low, high = (kind - 1) // 256, (kind - 1) % 256
    return f"tier {low} to tier {high}"


def _ranks(f: Fabric) -> np.ndarray:
    """Return the number of links from each node to the nearest host (int64[nodes]; hosts 0, leaves 1)."""
    rank = np.where(f.is_switch, 255, 0).astype(np.int64)
    linked = np.flatnonzero(f.port_peer >= 0)
    a, b = f.port_node[linked], f.port_node[f.port_peer[linked]]
    for _ in range(254):
        new = rank.copy()
        np.minimum.at(new, a, rank[b] + 1)
        new[~f.is_switch] = 0
        if (new == rank).all():
            break
        rank = new
    return np.minimum(rank, 255)


def loads_of_tiers(run: RunResult, samples: Samples) -> Heat:
    """Return the mean load over time of each tier's links; links that carried nothing do not count."""
    row, names = link_tiers(run.fabric)
    load = samples.load(run.gbps)
    used = (row >= 0) & (samples.octets.sum(axis=0) > 0)
    value = np.zeros((len(names), len(load)))
    for k in range(len(names)):
        of = used & (row == k)
        if of.any():
            value[k] = load[:, of].mean(axis=1)
    count = [int((used & (row == k)).sum()) for k in range(len(names))]
    keep = [k for k in range(len(names)) if count[k]]
    return Heat(tuple(names[k] for k in keep), value[keep], tuple(f"{counted(count[k], 'link')}" for k in keep))
