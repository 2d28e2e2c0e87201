"""The static layer's network: directed channels, their rates, forwarding tables, and traffic patterns
as columns of source and destination hosts (rows of ``Network.hosts``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from softib.errors import InputError
from softib.plural import counted
from softib.routing.graph import SwitchGraph

__all__ = ["Network", "bisection_pairs", "crossing_pairs", "incast", "matrix", "ring", "sample_shifts", "shift"]


Flows = tuple[np.ndarray, np.ndarray]


def shift(order: np.ndarray, k: int) -> Flows:
    """Return the pattern in which host ``order[i]`` sends to ``order[(i + k) mod n]``: one step of a linear-shift
    all-to-all."""
    order = np.asarray(order, np.int64)
    return order, np.roll(order, -k)


def ring(order: np.ndarray, rail: np.ndarray | None = None) -> Flows:
    """Return the pattern in which each host sends to the next in ``order``; with ``rail`` (int[hosts]) every rail is a
    separate ring. Multi-rail collectives run one ring per rail, so that no step crosses rails.
    """
    order = np.asarray(order, np.int64)
    if rail is None:
        return shift(order, 1)
    rings = [order[rail[order] == r] for r in np.unique(rail)]
    return np.concatenate(rings), np.concatenate([np.roll(r, -1) for r in rings])


def bisection_pairs(hosts: np.ndarray, rng: np.random.Generator) -> Flows:
    """Return a random perfect matching between two random halves of ``hosts``; each pair sends in both directions. If
    the number of hosts is odd, one is left out.

    This is the pattern of effective bisection bandwidth: Hoefler, Schneider, Lumsdaine, "Multistage switches are not
    crossbars", CLUSTER 2008.
    """
    mixed = rng.permutation(np.asarray(hosts, np.int64))
    half = len(mixed) // 2
    a, b = mixed[:half], mixed[half : 2 * half]
    return np.concatenate([a, b]), np.concatenate([b, a])


def crossing_pairs(one: np.ndarray, other: np.ndarray, rng: np.random.Generator) -> Flows:
    """Return a random matching between two groups of hosts; each pair sends in both directions. If one group is larger,
    a random part of it is left out."""
    many = min(len(one), len(other))
    a, b = (rng.permutation(np.asarray(side, np.int64))[:many] for side in (one, other))
    return np.concatenate([a, b]), np.concatenate([b, a])


def incast(hosts: np.ndarray, target: int, k: int, rng: np.random.Generator) -> Flows:
    """Return flows to ``target`` from ``k`` other hosts, drawn at random."""
    others = np.asarray(hosts, np.int64)
    others = others[others != target]
    if not 1 <= k <= len(others):
        raise InputError(
            f"an incast of {k} senders is not possible with {counted(len(others), 'other host')}; use 1 to "
            f"{len(others)}"
        )
    return np.sort(rng.permutation(others)[:k]), np.full(k, target, np.int64)


def matrix(n_hosts: int, demand: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (source, destination, bytes) of a traffic matrix: dense ``[hosts, hosts]``, or a
    triple of
    columns.
    The diagonal and zero entries are omitted. Raises :class:`InputError` for a wrong shape, a host
    that does not exist, or a negative or non-finite entry.
    """
    if isinstance(demand, tuple):
        src, dst, size = (np.atleast_1d(np.asarray(c)) for c in demand)
        if not len(src) == len(dst) == len(size):
            raise InputError(
                f"the columns of the traffic matrix have {len(src)}, {len(dst)} and {counted(len(size), 'row')}; use "
                "columns of equal length"
            )
    else:
        dense = np.asarray(demand, np.float64)
        if dense.shape != (n_hosts, n_hosts):
            raise InputError(
                f"the traffic matrix has shape {dense.shape}; use ({n_hosts}, {n_hosts}), one row and column per host"
            )
        src, dst = np.nonzero(dense)
        size = dense[src, dst]
    size = size.astype(np.float64)
    if not np.isfinite(size).all() or (size < 0).any():
        raise InputError("a traffic matrix with a negative or non-finite number of bytes")
    if len(src) and (min(src.min(), dst.min()) < 0 or max(src.max(), dst.max()) >= n_hosts):
        raise InputError(
            f"a traffic matrix that names host {int(max(src.max(), dst.max()))}; hosts are 0 to {n_hosts - 1}"
        )
    keep = (src != dst) & (size > 0)
    return src[keep].astype(np.int64), dst[keep].astype(np.int64), size[keep]


def sample_shifts(n_hosts: int, at_most: int, rng: np.random.Generator) -> np.ndarray:
    """Return all shifts ``1 … n-1``, or ``at_most`` of them drawn without repetition, ascending."""
    every = np.arange(1, max(n_hosts, 1), dtype=np.int64)
    return every if len(every) <= at_most else np.sort(rng.choice(every, at_most, replace=False))


@dataclass(frozen=True)
class Network:
    """A routed graph as channels.

    Channel ``c`` is, for ``L`` directed switch links (rows of the graph's CSR list) and ``H``
    hosts: ``0 … L-1`` the links, ``L … L+H-1`` the injection channel (host → switch) of each host,
    ``L+H … L+2H-1`` its ejection channel. A *host* is an end port of a channel adapter: a node with
    one HCA per rail is several hosts.
    """

    graph: SwitchGraph
    lft: np.ndarray  # uint8[switches, ≥ max LID + 1]
    hosts: np.ndarray  # int32[H] rows of graph.end_*
    host_switch: np.ndarray  # int32[H]
    host_lid: np.ndarray  # int64[H] base LID
    chan_at: np.ndarray  # int32[switches, 256]
    chan_to: np.ndarray  # int32[L + 2H] switch at its other end, -1 = a host
    rate: np.ndarray  # float64[L + 2H] Gb/s of data

    @classmethod
    def build(
        cls,
        graph: SwitchGraph,
        lft: np.ndarray,
        hosts: Any = None,
        link_gbps: Any = 1.0,
        host_gbps: Any = 1.0,
    ) -> Network:
        """Return the channels of ``graph`` routed with ``lft`` (uint8[switches, LIDs], 255 = no route).

        ``hosts`` are rows of ``graph.end_*`` (default: every port of a host, ascending by LID).
        ``link_gbps`` is a rate, or one per row of the graph's links; ``host_gbps`` a rate, or one
        per row of ``end_*``. Raises :class:`InputError` if the table does not cover the LIDs.
        """
        if lft.shape[0] != graph.n_switches or lft.shape[1] <= graph.max_lid:
            raise InputError(
                f"a forwarding table of {counted(lft.shape[0], 'switch')} × "
                f"{counted(lft.shape[1], 'LID')} cannot route "
                f"{counted(graph.n_switches, 'switch')} and LIDs up to {graph.max_lid}"
            )
        chosen = np.flatnonzero(graph.end_is_compute) if hosts is None else np.asarray(hosts)
        chosen = chosen.astype(np.int32)
        links, n = len(graph.peer), len(chosen)
        chan_at = np.full((max(graph.n_switches, 1), 256), -1, np.int32)
        owner = graph.link_switch
        chan_at[owner, graph.out_port] = np.arange(links)
        at, port = graph.end_switch[chosen], graph.end_port[chosen]
        chan_at[at, port] = links + n + np.arange(n)
        rate = np.empty(links + 2 * n)
        rate[:links] = link_gbps
        rate[links : links + n] = rate[links + n :] = np.broadcast_to(host_gbps, (len(graph.end_lid),))[chosen]
        return cls(
            graph=graph,
            lft=np.ascontiguousarray(lft, np.uint8),
            hosts=chosen,
            host_switch=at.astype(np.int32),
            host_lid=graph.end_lid[chosen].astype(np.int64),
            chan_at=chan_at,
            chan_to=np.concatenate([graph.peer, at, np.full(n, -1)]).astype(np.int32),
            rate=rate,
        )

    @property
    def n_links(self) -> int:
        """Return the number of directed switch-to-switch channels."""
        return len(self.graph.peer)

    @property
    def n_hosts(self) -> int:
        """Return the number of hosts (CA ports)."""
        return len(self.hosts)

    @property
    def n_channels(self) -> int:
        """Return the number of all directed channels."""
        return len(self.rate)

    @cached_property
    def link_owner(self) -> np.ndarray:
        """Return the switch that each switch link leaves (int32[L])."""
        return np.repeat(np.arange(self.graph.n_switches, dtype=np.int32), np.diff(self.graph.first))

    @property
    def host_gbps(self) -> np.ndarray:
        """Return the rate of each host's link (float64[H])."""
        return self.rate[self.n_links : self.n_links + self.n_hosts]

    @cached_property
    def table(self) -> Any:
        """Return the first argument of every kernel, with a scratch array for one path: kernels of
        one network must run one at a time."""
        from softib.sim.static_kernels import Channels

        # One channel per switch, injection and ejection: the limit of 63 hops in IBA 14.2.1.2 applies
        # only to directed routes.
        path = np.empty(self.graph.n_switches + 2, np.int64)
        return Channels(self.host_switch, self.host_lid, self.lft, self.chan_at, self.chan_to, path)

    def path(self, source: int, destination: int) -> np.ndarray:
        """Return the channels from host ``source`` to host ``destination`` (empty = no route)."""
        from softib.sim.static_kernels import walk

        net, links = self.table, self.n_links
        last = links + self.n_hosts + destination
        n = walk(net, int(self.host_switch[source]), int(self.host_lid[destination]), last, links + source)
        return np.asarray(net.path[:n]).copy()
