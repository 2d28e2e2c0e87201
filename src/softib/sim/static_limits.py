"""What the wiring allows random pairs, whatever the routing: a limit by cuts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from softib.sim.static_network import Network

__all__ = ["random_pairs_limit"]


def random_pairs_limit(network: Network, partitions: Iterable[np.ndarray]) -> float:
    """Upper bound of the mean relative rate of random pairs
    (:func:`softib.sim.static.effective_bisection`), 0 to 1.

    Each of ``partitions`` (int64[switches], parts from 0) parts the hosts. A flow from a part to
    another crosses a link that leaves the part, so these flows together get no more than the
    capacity of those links; a flow within a part gets no more than its hosts' own links carry.
    Every host sends to every other with the same probability, and the limit is concave in the
    number of flows, so by Jensen's inequality it holds for the mean over draws. The least of all
    partitions is returned; nothing is assumed about the tables.
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
    # Hosts of each part whose link carries at least each rate: a pair's rate is that of the slower of the two.
    hosts_at_rate = np.stack(
        [np.bincount(part[network.host_switch[network.host_gbps >= r]], minlength=parts) for r in rates], axis=1
    )
    flows_per_pair = flows / (n * (n - 1))
    inside = float((hosts_at_rate[:, 0] * (hosts_at_rate[:, 0] - 1)).sum()) * flows_per_pair
    at_least = hosts_at_rate * (hosts_at_rate.sum(axis=0) - hosts_at_rate) * flows_per_pair
    crossing = at_least - np.concatenate([at_least[:, 1:], np.zeros((parts, 1))], axis=1)
    carried = 0.0
    for k, rate in enumerate(rates):  # the slowest first: they fill their links with the fewest Gb/s
        taken = np.minimum(crossing[:, k] * rate, room)
        room -= taken
        carried += float(taken.sum() / rate)
    return min(1.0, (inside + carried) / flows)
