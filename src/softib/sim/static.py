"""The static layer: the load of every link under a traffic pattern, and results that follow from the loads. It is the
fastest of the three layers, and models neither queues nor time: all flows of a pattern are active at once, and share
each channel equally. Its rates are upper bounds, which packets and credits can only lower.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.errors import InputError, LimitError
from softib.plural import counted, plural
from softib.sim import static_network as patterns
from softib.sim.static_messages import run
from softib.sim.static_network import Network

__all__ = [
    "SAMPLES",
    "Bisection",
    "Loads",
    "Network",
    "Shifts",
    "all_shifts",
    "all_to_all",
    "all_to_all_time_ps",
    "effective_bisection",
    "flow_rates",
    "flow_time_ps",
    "loads",
    "matrix_loads",
    "random_pairs_limit",
    "ring_step_ps",
    "run",
]


def random_pairs_limit(network: Network, partitions: Iterable[np.ndarray]) -> float:
    """Return an upper bound, from 0 to 1, of the mean relative rate of random pairs
    (:func:`softib.sim.static.effective_bisection`).

    Each of ``partitions`` (int64[switches], parts from 0) divides the hosts into parts. A flow
    between parts crosses a link that leaves its part, so these flows together get at most the
    capacity of those links; a flow within a part gets at most the rate of its hosts' links. Every
    host sends to every other with the same probability, and the limit is concave in the number of
    flows, so by Jensen's inequality it holds for the mean over draws. Returns the smallest limit of all partitions. It
    holds for all forwarding tables.
    """
    return min((_limit(network, np.asarray(part)) for part in partitions), default=1.0)


def _limit(network: Network, part: np.ndarray) -> float:
    n, links = network.n_hosts, network.n_links
    flows = 2 * (n // 2)
    if flows < 2:
        return 1.0
    graph, parts = network.graph, int(part.max(initial=0)) + 1
    leaves = part[network.link_owner] != part[graph.peer]
    room = np.bincount(part[network.link_owner[leaves]], network.rate[:links][leaves], parts).astype(np.float64)
    rates = np.unique(network.host_gbps)
    # Hosts of each part whose link has at least each rate: a pair's rate is that of the slower host.
    hosts_at_rate = np.stack(
        [np.bincount(part[network.host_switch[network.host_gbps >= r]], minlength=parts) for r in rates], axis=1
    )
    flows_per_pair = flows / (n * (n - 1))
    inside = float((hosts_at_rate[:, 0] * (hosts_at_rate[:, 0] - 1)).sum()) * flows_per_pair
    at_least = hosts_at_rate * (hosts_at_rate.sum(axis=0) - hosts_at_rate) * flows_per_pair
    crossing = at_least - np.concatenate([at_least[:, 1:], np.zeros((parts, 1))], axis=1)
    carried = 0.0
    for k, rate in enumerate(rates):  # the slowest first, because they fill their links with the fewest Gb/s
        taken = np.minimum(crossing[:, k] * rate, room)
        room -= taken
        carried += float(taken.sum() / rate)
    return min(1.0, (inside + carried) / flows)


PS_PER_S = 10**12
SAMPLES = 50
"""Number of random matchings for an effective bisection bandwidth. It is the same everywhere, so that the values of
different tables are comparable."""
MAX_BYTES = 8 << 30
"""Largest memory for the loads of shifts: 1,023 shifts of 1,024 hosts take 17 MB, but all shifts of 11,664 hosts would
take terabytes."""


@dataclass(frozen=True)
class Loads:
    """The load of a pattern on each channel (``load`` [channels]: flows, or bytes), and the
    number of flows without a path."""

    load: np.ndarray
    flows: int
    unrouted: int

    def busy(self, network: Network) -> np.ndarray:
        """Return the load per Gb/s of each channel, proportional to its busy time
        (float64[channels])."""
        return np.divide(self.load, network.rate, out=np.zeros(len(self.load)), where=network.rate > 0)


@dataclass(frozen=True)
class Shifts:
    """Loads of shift permutations: ``load`` int32[shifts, channels], ``shifts``: the shift distances,
    ``relative`` float64[shifts]."""

    shifts: np.ndarray
    load: np.ndarray
    relative: np.ndarray
    unrouted: int


@dataclass(frozen=True)
class Bisection:
    """Effective bisection bandwidth over random pairs.

    * ``relative``: mean over flows and samples of the flow's rate divided by the rate of its hosts' links.
    * ``spread``: standard deviation of the sample means.
    * ``gbps``: mean over samples of the sum over all flows of one direction (half of the flows).
    * ``full_gbps``: the value of ``gbps`` if flows shared no link inside the fabric.
    * ``load`` is the mean over samples of the flows on each channel (float64[channels]), ``worst`` the largest number
      in any sample, ``peak`` the numbers in the sample with the smallest rates.
    """

    samples: np.ndarray
    gbps: float
    full_gbps: float
    load: np.ndarray
    worst: np.ndarray
    peak: np.ndarray
    unrouted: int
    pairs: int

    @property
    def relative(self) -> float:
        """Return the mean over the samples."""
        return float(self.samples.mean()) if len(self.samples) else 0.0

    @property
    def spread(self) -> float:
        """Return the standard deviation of the samples."""
        return float(self.samples.std()) if len(self.samples) else 0.0


CHANNELS = 8
"""Paths of up to this number of channels (that of a tree of four tiers) are stored; longer paths are walked twice."""


def _paths(flows: int) -> Any:
    """Return arrays with room for the paths of ``flows`` flows."""
    from softib.sim.static_kernels import Paths

    return Paths(np.empty(flows, np.int32), np.empty((flows, CHANNELS + 1), np.int32))


def loads(network: Network, src: Any, dst: Any, weight: Any = None, paths: Any = None) -> Loads:
    """Return the loads of flows ``src[i] → dst[i]``: int64 numbers of flows, or float64 sums of ``weight``. The paths
    are written to ``paths``."""
    from softib.sim.static_kernels import add_flows

    src, dst = np.asarray(src, np.int64), np.asarray(dst, np.int64)
    each = np.ones(1, np.int64) if weight is None else np.asarray(weight, np.float64)
    total = np.zeros(network.n_channels, each.dtype)
    lost = add_flows(network.table, src, dst, each, total, _paths(0) if paths is None else paths)
    return Loads(total, len(src), int(lost))


def flow_rates(
    network: Network, src: Any, dst: Any, carried: Loads | None = None, paths: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (Gb/s, most limiting channel) of each flow if flows share each channel equally; (0, -1) for a flow without
    a path. ``carried`` and ``paths``: results of :func:`loads` for the same flows."""
    from softib.sim.static_kernels import flow_shares

    src, dst = np.asarray(src, np.int64), np.asarray(dst, np.int64)
    paths = _paths(len(src) if carried is None else 0) if paths is None else paths
    load = (carried or loads(network, src, dst, paths=paths)).load
    share, worst = np.zeros(len(src)), np.zeros(len(src), np.int64)
    flow_shares(network.table, src, dst, load, network.rate, paths, share, worst)
    return share, worst


def all_shifts(network: Network, order: Any = None, shifts: Any = None, rates: bool = True) -> Shifts:
    """Return the loads of every channel under shift permutations (default: all ``n-1`` of the hosts
    in order of their LIDs).

    ``rates=False`` leaves ``relative`` at zero, which saves a second walk of every flow. Raises
    :class:`LimitError` if the loads, 4 bytes per shift and channel, exceed :data:`MAX_BYTES`.
    """
    from softib.sim.static_kernels import shift_loads

    order = np.arange(network.n_hosts) if order is None else np.asarray(order, np.int64)
    which = np.arange(1, len(order), dtype=np.int64) if shifts is None else np.asarray(shifts, np.int64)
    if 4 * len(which) * network.n_channels > MAX_BYTES:
        raise LimitError(
            f"the loads of {counted(len(which), 'shift')} on {counted(network.n_channels, 'channel')} "
            f"take more than {MAX_BYTES >> 30} GiB;"
            f" sample at most {MAX_BYTES // (4 * network.n_channels):,} shifts"
        )
    load = np.zeros((len(which), network.n_channels), np.int32)
    relative = np.zeros(len(which))
    lost = shift_loads(
        network.table, order, which, load, network.rate, network.host_gbps, relative if rates else relative[:0]
    )
    return Shifts(which, load, relative, int(lost))


def all_to_all(network: Network) -> Loads:
    """Return the number of flows on each channel when every host sends to every other (int64)."""
    from softib.sim.static_kernels import all_to_all_loads

    n, links = network.n_hosts, network.n_links
    at, many = np.unique(network.host_switch, return_counts=True)
    total = np.zeros(network.n_channels, np.int64)
    lost = int(all_to_all_loads(network.table, at, many, total))
    # All flows of a host leave through its one injection channel; flows without a path are not sent.
    total[links : links + n] = n - 1 if not lost else _sent(network)
    return Loads(total, n * (n - 1), lost)


def _sent(network: Network) -> np.ndarray:
    """Return the number of flows that each host can send in an all-to-all with missing paths (int64[hosts])."""
    sent = np.zeros(network.n_hosts, np.int64)
    every = np.arange(network.n_hosts)
    for at in np.unique(network.host_switch):
        here = np.flatnonzero(network.host_switch == at)
        # Hosts of one switch reach the same destinations; flows of a host to itself do not count.
        _, worst = flow_rates(network, np.full(network.n_hosts, here[0]), every)
        reached = worst >= 0
        sent[here] = reached.sum() - reached[here]
    return sent


def matrix_loads(network: Network, demand: Any) -> Loads:
    """Return the bytes on each channel (float64) under a traffic matrix, dense or (source,
    destination, bytes) columns."""
    src, dst, size = patterns.matrix(network.n_hosts, demand)
    return loads(network, src, dst, size) if len(src) else Loads(np.zeros(network.n_channels), 0, 0)


def effective_bisection(
    network: Network, samples: int = SAMPLES, seed: int = 0, halves: tuple[Any, Any] | None = None
) -> Bisection:
    """Return the effective bisection bandwidth over ``samples`` random matchings (Hoefler, Schneider,
    Lumsdaine, CLUSTER 2008).

    If all links have the same rate, ``relative`` is the mean over flows of 1 / (largest number of flows on a link of
    the path). With ``halves`` (two arrays of hosts), pairs are drawn between these two halves instead of random halves;
    this measures the traffic across a given cut.
    """
    rng = np.random.default_rng(seed)
    pool = np.arange(network.n_hosts)
    if halves is not None:
        many = min(len(halves[0]), len(halves[1]))
        pool = np.concatenate([np.asarray(side, np.int64)[:many] for side in halves])
    relative = np.zeros(samples)
    gbps = full = 0.0
    total, worst, lost = np.zeros(network.n_channels), np.zeros(network.n_channels, np.int64), 0
    peak, lowest = worst, np.inf
    for i in range(samples if len(pool) > 1 else 0):
        src, dst = patterns.crossing_pairs(*halves, rng) if halves else patterns.bisection_pairs(pool, rng)
        paths = _paths(len(src))
        carried = loads(network, src, dst, paths=paths)
        rate, _ = flow_rates(network, src, dst, carried, paths)
        best = np.minimum(network.host_gbps[src], network.host_gbps[dst])
        relative[i] = float(np.divide(rate, best, out=np.zeros(len(rate)), where=best > 0).mean())
        gbps, full = gbps + rate.sum() / 2, full + best.sum() / 2
        total += carried.load
        np.maximum(worst, carried.load, out=worst)
        lost += carried.unrouted
        if relative[i] < lowest:
            peak, lowest = carried.load, relative[i]
    many = max(samples, 1)
    return Bisection(relative, gbps / many, full / many, total / many, worst, peak, lost, len(pool) // 2)


def flow_time_ps(network: Network, carried: Loads, size_bytes: float = 1.0) -> int:
    """Return the time until the busiest channel has sent its ``load × size_bytes`` (picoseconds): a
    lower bound for the pattern. Raises :class:`InputError` if a channel of unknown rate carries
    traffic.
    """
    unknown = int(np.count_nonzero((carried.load > 0) & (network.rate <= 0)))
    if unknown:
        raise InputError(
            f"{counted(unknown, 'channel')} {plural(unknown, 'carries', 'carry')} traffic and "
            f"{plural(unknown, 'has', 'have')} no rate; give every link one"
        )
    busiest = float(carried.busy(network).max(initial=0.0))
    return round(busiest * size_bytes * 8 * (PS_PER_S / 1e9))


def ring_step_ps(network: Network, size_bytes: int, order: Any = None, rail: np.ndarray | None = None) -> int:
    """Return the time of one step of a ring allreduce of ``size_bytes`` per host: each host sends a
    1/n part to the next, all at once.

    ``n`` is the number of hosts in the (longest) ring. With ``rail``, each rail has a separate ring, which reduces a
    share of the bytes. A whole allreduce is ``2 (n - 1)`` steps (Thakur, Rabenseifner, Gropp 2005).
    """
    order = np.arange(network.n_hosts) if order is None else np.asarray(order, np.int64)
    if len(order) < 2:
        return 0
    src, dst = patterns.ring(order, rail)
    keep = src != dst
    n = len(order) if rail is None else int(np.unique(rail[order], return_counts=True)[1].max())
    return flow_time_ps(network, loads(network, src[keep], dst[keep]), size_bytes / n)


def all_to_all_time_ps(network: Network, size_bytes: int, carried: Loads | None = None) -> int:
    """Return the time of an all-to-all in which every host sends ``size_bytes`` to every other,
    limited only by links."""
    return flow_time_ps(network, carried or all_to_all(network), size_bytes)
