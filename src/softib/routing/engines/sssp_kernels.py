"""Single-source shortest paths, where the weight of a link is its number of paths so far: the loops
of sssp and dfsssp."""

import numpy as np

from softib.jit import kernel

RECENT = 3.0
"""Additional weight for paths of the latest destinations (bench/quality.py: 1 to 10 differ little)."""
NOT_TAKEN = 255


@kernel
def shortest_links(first, peer, target, hops, order, link_first, links):
    """Find all links on shortest paths to switch ``target``: the breadth-first order, and for each
    switch its links one hop nearer.

    hops int32[n], order int32[n], link_first int32[n + 1], links int32[all] out, rows of the latter
    two in the order. Returns the number of switches that reach ``target``.
    """
    hops[:] = -1
    hops[target] = 0
    order[0] = target
    head, tail = 0, 1
    filled = 0
    link_first[0] = 0
    while head < tail:
        s = order[head]
        for e in range(first[s], first[s + 1]):
            p = peer[e]
            if hops[p] < 0:
                hops[p] = hops[s] + 1
                order[tail] = p
                tail += 1
            elif hops[p] + 1 == hops[s]:
                links[filled] = e
                filled += 1
        head += 1
        link_first[head] = filled
    return tail


@kernel
def _choose(order, reached, link_first, links, links_of, row, dist, weight, recent, lately):
    """Let each of the ``reached`` switches use the link with the least weight to the target
    ``order[0]``. Return the number of switches whose link changed."""
    first, peer = links_of.first, links_of.peer
    changed = 0
    for k in range(1, reached):
        s = order[k]
        best = links[link_first[k]]
        least = dist[peer[best]] + weight[best] + lately * recent[best]
        for j in range(link_first[k] + 1, link_first[k + 1]):
            e = links[j]
            d = dist[peer[e]] + weight[e] + lately * recent[e]
            if d < least:
                best, least = e, d
        dist[s] = least
        changed += row[s] != best - first[s]
        row[s] = best - first[s]
    return changed


@kernel(
    steps=lambda links_of, dests, cas, repeated, window, weight, recent, taken: len(dests.lid) * len(links_of.peer),
    rows=True,
)
def spread_paths(links_of, dests, cas, repeated, window, weight, recent, taken):
    """Choose the shortest paths of least weight to each destination, and add them to the weights.
    Returns the number of changed entries.

    * ``links_of`` is a LegalHops-like pair (first, peer).
    * ``dests`` is (switch, first, end, counted, lid, lmc) as in :data:`~softib.routing.lft_kernels.Destinations`,
      with groups of one switch each. All shortest paths have the same number of links, so the smallest sum of weights
      decides; on a tie, the lowest port.
    * ``cas`` int64[n]: CA ports on each switch.
    * ``dests.counted``: how many times the paths to an end of the group count.
    * ``repeated``: ``taken`` and the weights are those of the previous pass; each destination's paths are removed and
      chosen again.

    ``taken`` uint8[LIDs, n] out: the link that a switch uses (``first[s] + taken[lid, s]``),
    :data:`NOT_TAKEN` for none. There is one row per LID: the kernel proceeds by destination, and a
    column of a forwarding table would cost a cache miss for every switch.

    The weight of a link is the number of paths over it, ``weight`` float64[links] (whole numbers),
    plus RECENT times the number of paths of the latest destinations, ``recent`` float64[links].
    With each destination, ``recent`` decreases by 1 / ``window`` (0: it is not used).
    """
    first, peer = links_of.first, links_of.peer
    n = first.shape[0] - 1
    hops = np.empty(n, np.int32)
    order = np.empty(n, np.int32)
    link_first = np.empty(n + 1, np.int32)
    links = np.empty(peer.shape[0], np.int32)
    dist = np.zeros(n, np.float64)
    flow = np.zeros(n, np.float64)
    growth = 1.0 if window <= 1 else window / (window - 1.0)
    scale = 1.0  # the current value is recent[e] / scale: as the scale grows, earlier paths lose weight
    most, changed = 0, 0
    for i in range(dests.lmc.shape[0]):
        most = max(most, 1 << dests.lmc[i])
    for offset in range(most):
        for g in range(dests.switch.shape[0]):
            target = dests.switch[g]
            reached = shortest_links(first, peer, target, hops, order, link_first, links)
            times = np.float64(dests.counted[g])
            for i in range(dests.first[g], dests.first[g + 1]):
                end = dests.end[i]
                if offset >= 1 << dests.lmc[end]:
                    continue
                row = taken[dests.lid[end] + offset]
                if repeated and times:
                    _lift(order, reached, links_of, row, times, cas, flow, weight)
                lately = RECENT / scale if window > 0 else 0.0
                dist[target] = 0.0
                changed += _choose(order, reached, link_first, links, links_of, row, dist, weight, recent, lately)
                if times == 0:
                    continue
                scale *= growth
                for k in range(reached):
                    flow[order[k]] = times * cas[order[k]]
                for k in range(reached - 1, 0, -1):
                    s = order[k]
                    e = first[s] + row[s]
                    weight[e] += flow[s]
                    recent[e] += scale * flow[s]
                    flow[peer[e]] += flow[s]
                if scale > 1e100:
                    recent /= scale
                    scale = 1.0
    recent /= scale
    return changed


@kernel
def _lift(order, reached, links_of, row, times, cas, flow, weight):
    """Subtract the paths along ``row`` (of every switch) from ``weight``."""
    for k in range(reached):
        flow[order[k]] = times * cas[order[k]]
    for k in range(reached - 1, 0, -1):
        s = order[k]
        e = links_of.first[s] + row[s]
        weight[e] -= flow[s]
        flow[links_of.peer[e]] += flow[s]


@kernel(steps=lambda links_of, taken, lft: 2 * taken.size // 5)
def to_ports(links_of, taken, lft):
    """Write forwarding tables ``lft`` uint8[n, LIDs] from ``taken`` of :func:`spread_paths`, in
    tiles; unused entries stay."""
    for lid in range(0, taken.shape[0], 64):
        for s in range(taken.shape[1]):
            for d in range(lid, min(lid + 64, taken.shape[0])):
                if taken[d, s] != NOT_TAKEN:
                    lft[s, d] = links_of.out_port[links_of.first[s] + taken[d, s]]
