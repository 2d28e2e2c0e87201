"""Latency under load, from the packet layer: some pairs of a round exchange short messages while
the others send in both directions at full rate. A short message waits for the packet that occupies a shared link; on an
overloaded link, it waits for all packets in the buffers before it. Only relevant load is simulated: flows that share a
link with the measured paths, directly or through other flows.
"""

from __future__ import annotations

import numpy as np

from softib.analysis.acceptance.expected_pairs import Expectation, Paths
from softib.fabric.model import Fabric
from softib.iba.smp import PortInfo
from softib.sim import packet
from softib.sim.messages import messages
from softib.sim.packet.options import PacketOptions

__all__ = ["latency_under_load_us"]

US = 10**6
SETTLED_PS, EVERY_PS, PROBES = 20 * US, 2 * US, 16
"""Short messages of a pair: start time of the first (buffers are full long before that), interval between two, and
number in each direction."""
END_PS = SETTLED_PS + (PROBES + 4) * EVERY_PS
SPEED_FIELDS = (
    PortInfo.link_width_active,
    PortInfo.link_speed_active,
    PortInfo.link_speed_ext_active,
    PortInfo.link_speed_ext2_active,
)


def latency_under_load_us(
    e: Expectation, source: np.ndarray, target: np.ndarray, part: np.ndarray, size: int
) -> np.ndarray:
    """Return half the round-trip time of ``size`` bytes in microseconds for each pair (float64; NaN without a path):
    the median of :data:`PROBES` messages in each direction. ``source`` and ``target`` are row numbers in :class:`Ends`,
    the measured ports of ``e``. The pairs of a ``part`` are measured while the pairs of the other parts send the
    load."""
    out = e.latency_us(source, target, size)
    fabric = _as_built(e)
    for number in np.unique(part).tolist():
        measured = np.flatnonzero((part == number) & np.isfinite(out))
        others = np.flatnonzero((part != number) & np.isfinite(out))
        met, load = _that_meet(e, source, target, measured, others)
        if len(met) and len(load):
            out[met] += _wait_us(e, fabric, (source[met], target[met]), (source[load], target[load]), size)
    return out


def _both(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([a, b]), np.concatenate([b, a])


def _that_meet(
    e: Expectation, source: np.ndarray, target: np.ndarray, probes: np.ndarray, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of ``probes`` that share a link with the load, and the pairs of ``others``
    that affect them."""
    probe = _links(e, source[probes], target[probes])
    load = _links(e, source[others], target[others])
    on_load = np.zeros(len(e.gbps), bool)
    on_load[load.port] = True
    met = _any(probe, on_load)
    reached = np.zeros(len(e.gbps), bool)
    reached[probe.port[np.repeat(met, np.diff(probe.first))]] = True
    chosen = np.zeros(len(others), bool)
    while True:
        grown = _any(load, reached)
        if np.array_equal(grown, chosen):
            return probes[met], others[chosen]
        chosen = grown
        reached[load.port[np.repeat(chosen, np.diff(load.first))]] = True


def _links(e: Expectation, a: np.ndarray, b: np.ndarray) -> Paths:
    """Return the links of both directions of each pair."""
    there, back = e.paths(a, b), e.paths(b, a)
    pair = np.concatenate([np.repeat(np.arange(len(a)), np.diff(p.first)) for p in (there, back)])
    order = np.argsort(pair, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(pair, minlength=len(a)))]).astype(np.int64)
    return Paths(first, np.concatenate([there.port, back.port])[order])


def _any(paths: Paths, marked: np.ndarray) -> np.ndarray:
    """Return whether each pair has a ``marked`` link."""
    hits = np.concatenate([[0], np.cumsum(marked[paths.port])])
    return np.asarray(hits[paths.first[1:]] > hits[paths.first[:-1]])


def _wait_us(
    e: Expectation, fabric: Fabric, pairs: tuple[np.ndarray, np.ndarray], load: tuple[np.ndarray, np.ndarray], size: int
) -> np.ndarray:
    """Return the additional time in µs that a message of each of ``pairs`` takes under ``load``: the mean of both
    directions."""
    a, b = _both(*pairs)
    x, y = _both(*load)
    octets = int(float(e.gbps.max()) * 1e9 / 8 * END_PS / 1e12)
    begin = np.tile(SETTLED_PS + np.arange(PROBES) * EVERY_PS, len(a))
    probes = messages(np.repeat(e.row[a], PROBES), np.repeat(e.row[b], PROBES), size, start_ps=begin)
    both = messages(
        np.concatenate([probes.src, e.row[x]]),
        np.concatenate([probes.dst, e.row[y]]),
        np.concatenate([probes.size, np.full(len(x), octets)]),
        start_ps=np.concatenate([begin, np.zeros(len(x), np.int64)]),
    )
    took = [
        packet.run(fabric, m, PacketOptions(until_ps=END_PS)).arrived_ps[: len(begin)] - begin for m in (both, probes)
    ]
    extra = np.maximum(took[0], 0) - took[1]
    extra[took[0] <= 0] = END_PS - begin[took[0] <= 0]  # still in transit at the end: its latency is at least this
    middle = np.median(extra.reshape(-1, PROBES), axis=1) / US
    return np.asarray(middle[: len(pairs[0])] + middle[len(pairs[0]) :]) / 2


def _as_built(e: Expectation) -> Fabric:
    """Return a copy of the fabric in which every link has the usual rate of its kind."""
    slow = np.flatnonzero(e.plane.gbps < e.gbps)
    if not len(slow):
        return e.fabric
    built = e.fabric.copy()
    for rate in np.unique(e.gbps[slow]).tolist():
        rows = slow[e.gbps[slow] == rate]
        model = int(np.flatnonzero((e.plane.gbps == rate) & (e.gbps == rate))[0])
        for one in SPEED_FIELDS:
            one.set(built.port_info, np.full(len(rows), one.get(built.port_info[[model]])[0]), rows)
        built.port_mlnx_speed[rows] = built.port_mlnx_speed[model]
    return built
