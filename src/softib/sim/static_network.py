"""What the static layer sees: directed channels, their rates, and the forwarding tables that choose
among them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError
from softib.plural import counted
from softib.routing.graph import SwitchGraph

if TYPE_CHECKING:
    pass

__all__ = ["Network"]


@dataclass(frozen=True)
class Network:
    """A routed graph as channels.

    Channel ``c`` is, for ``L`` directed switch links (rows of the graph's CSR list) and ``H``
    hosts: ``0 … L-1`` the links, ``L … L+H-1`` the injection channel (host → switch) of each host,
    ``L+H … L+2H-1`` its ejection channel. A *host* is an end port of a channel adapter: a node with
    one HCA a rail is several hosts.
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
        """Make the channels of ``graph`` routed by ``lft`` (uint8[switches, LIDs], 255 = no route).

        ``hosts`` are rows of ``graph.end_*`` (default: every port of a host, ascending by LID).
        ``link_gbps`` is a rate, or one per row of the graph's links; ``host_gbps`` a rate, or one
        per row of ``end_*``. Raises :class:`InputError` where the table does not cover the LIDs.
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
        """Directed switch-to-switch channels."""
        return len(self.graph.peer)

    @property
    def n_hosts(self) -> int:
        """Hosts (CA ports)."""
        return len(self.hosts)

    @property
    def n_channels(self) -> int:
        """All directed channels."""
        return len(self.rate)

    @cached_property
    def link_owner(self) -> np.ndarray:
        """Switch that each switch link leaves (int32[L])."""
        return np.repeat(np.arange(self.graph.n_switches, dtype=np.int32), np.diff(self.graph.first))

    @property
    def host_gbps(self) -> np.ndarray:
        """Rate of each host's own link (float64[H])."""
        return self.rate[self.n_links : self.n_links + self.n_hosts]

    @cached_property
    def table(self) -> Any:
        """What every kernel takes first, with room for one path: kernels of one network run one at
        a time."""
        from softib.sim.static_kernels import Channels

        # One channel a switch, injection and ejection: the 63 hops of IBA 14.2.1.2 bind directed routes alone.
        path = np.empty(self.graph.n_switches + 2, np.int64)
        return Channels(self.host_switch, self.host_lid, self.lft, self.chan_at, self.chan_to, path)

    def path(self, source: int, destination: int) -> np.ndarray:
        """Channels from host ``source`` to host ``destination`` (empty = no route)."""
        from softib.sim.static_kernels import walk

        net, links = self.table, self.n_links
        last = links + self.n_hosts + destination
        n = walk(net, int(self.host_switch[source]), int(self.host_lid[destination]), last, links + source)
        return np.asarray(net.path[:n]).copy()
