"""The loops of fat-tree routing, as described in :mod:`softib.routing.engines.ftree`.

``lft`` uint8[n, LIDs]: 255 = no entry yet; ``taken`` int64[n, 256]: number of entries of each
switch by port; ``lids`` uint16[dests]: LIDs of the destinations. ``up`` bool[links]: the link leads
towards the top (total order: rank, then index); ``place`` int32[n]: position in that order, top
first.
"""

import numpy as np

from softib.jit import kernel


@kernel(
    steps=lambda first, peer, reverse, rank, place, leaf, keep, load, chain: (
        len(leaf) * (len(peer) // len(rank)) * chain.shape[1]
    )
)
def climb(first, peer, reverse, rank, place, leaf, keep, load, chain):
    """Choose the main path of each destination in turn. It goes from the leaf up to the top, over
    the least-loaded link of each switch.

    leaf int32[m]: switch of each destination. keep int32[m]: the destination's row of ``chain``, or
    -1 for a host that is missing on a leaf (it is routed too, so that the others stay aligned).
    ``load`` int64[links] counts the main paths that come *down* each link; the count is at the row
    of the link's lower end. chain int32[dests, levels] out: the links of each path, -1 = none. If
    several links have the same load, use the one whose upper switch has the least-loaded link down,
    otherwise the first in the order.
    """
    n = rank.shape[0]
    least = np.empty(n, np.int64)
    for s in range(n):
        least[s] = _least_down(first, peer, reverse, rank, load, s)
    for i in range(leaf.shape[0]):
        s = leaf[i]
        level = 0
        while True:
            best = -1
            for e in range(first[s], first[s + 1]):
                above = peer[e]
                if rank[above] >= rank[s] or (best >= 0 and load[e] > load[best]):
                    continue
                if (
                    best < 0
                    or load[e] < load[best]
                    or least[above] < least[peer[best]]
                    or (least[above] == least[peer[best]] and place[above] < place[peer[best]])
                ):
                    best = e
            if best < 0:
                break
            load[best] += 1
            least[peer[best]] = _least_down(first, peer, reverse, rank, load, peer[best])
            if keep[i] >= 0:
                chain[keep[i], level] = best
            level += 1
            s = peer[best]


@kernel
def _least_down(first, peer, reverse, rank, load, s):
    """Return the number of paths on the least-loaded link down of ``s`` (counts are at the rows of
    the lower ends)."""
    least = np.int64(1) << 62
    for e in range(first[s], first[s + 1]):
        if rank[peer[e]] > rank[s]:
            least = min(least, load[reverse[e]])
    return least


@kernel(
    steps=lambda first, peer, out_port, reverse, up, leaf_switch, leaf_first, lids, taken, lft: (
        len(lft) * len(lids) + len(leaf_switch) * len(peer)
    )
)
def fill_down(first, peer, out_port, reverse, up, leaf_switch, leaf_first, lids, taken, lft):
    """For each destination, give every switch that has a path that only goes down to its leaf, and
    no entry yet, the least-loaded link down.

    Destinations ``lids[leaf_first[g]:leaf_first[g + 1]]`` are on ``leaf_switch[g]``.
    """
    n = first.shape[0] - 1
    dist = np.full(n, -1, np.int32)
    queue = np.empty(n, np.int32)
    candidates = np.empty(256, np.int32)
    back = np.empty(n, np.int32)
    load = np.zeros(peer.shape[0], np.int64)
    goes_on = _any_link(first, up, True)
    for g in range(leaf_switch.shape[0]):
        tail = _search(first, peer, reverse, up, True, goes_on, leaf_switch[g], dist, queue, back)
        for k in range(1, tail):
            s = queue[k]
            if back[s] < 0:
                count = _links_nearer(first, peer, up, False, s, dist, candidates)
                for i in range(leaf_first[g], leaf_first[g + 1]):
                    if lft[s, lids[i]] == 255:
                        port = out_port[_take(candidates, count, load)]
                        lft[s, lids[i]] = port
                        taken[s, port] += 1
                continue
            port, filled = out_port[back[s]], 0
            for i in range(leaf_first[g], leaf_first[g + 1]):
                if lft[s, lids[i]] == 255:
                    lft[s, lids[i]] = port
                    filled += 1
            load[back[s]] += filled
            taken[s, port] += filled
        for k in range(tail):
            dist[queue[k]] = -1


@kernel
def _any_link(first, up, direction):
    """Return bool[n]: whether a switch has a link with ``up == direction``."""
    has = np.zeros(first.shape[0] - 1, np.bool_)
    for s in range(has.shape[0]):
        for e in range(first[s], first[s + 1]):
            has[s] |= up[e] == direction
    return has


@kernel
def _search(first, peer, reverse, up, direction, goes_on, start, dist, queue, back):
    """Search breadth-first from ``start`` over links with ``up == direction``: ``queue``, ``dist``
    (-1 before), and in ``back`` the link of a switch that leads one step back (-1: several do).
    Returns the number of switches."""
    dist[start] = 0
    queue[0] = start
    head, tail = 0, 1
    while head < tail:
        s = queue[head]
        head += 1
        if not goes_on[s]:
            continue
        further = dist[s] + 1
        for e in range(first[s], first[s + 1]):
            if up[e] != direction:
                continue
            p = peer[e]
            if dist[p] < 0:
                dist[p] = further
                back[p] = reverse[e]
                queue[tail] = p
                tail += 1
            elif dist[p] == further:
                back[p] = -1
    return tail


@kernel
def _links_nearer(first, peer, up, direction, s, dist, links):
    """Write the links of ``s`` with ``up == direction`` that lead one step back, ascending, into
    ``links``; return their number."""
    count = 0
    for e in range(first[s], first[s + 1]):
        if up[e] == direction and dist[peer[e]] >= 0 and dist[peer[e]] + 1 == dist[s]:
            links[count] = e
            count += 1
    return count


@kernel(
    steps=lambda first, peer, out_port, reverse, up, through, dest_first, lids, taken, lft: (
        len(lft) * len(lids) + len(through) * len(peer)
    )
)
def fill_up(first, peer, out_port, reverse, up, through, dest_first, lids, taken, lft):
    """For each switch on a main path, let all switches below it that have no entry yet send packets
    up to it, on the least-loaded shortest path.

    ``through`` int32[k]: main-path switches from the lowest rank up; the destinations whose main
    path goes through ``through[g]`` are ``lids[dest_first[g]:dest_first[g + 1]]``.
    """
    n, most = first.shape[0] - 1, through.shape[0]
    dist = np.full(n, -1, np.int32)
    queue = np.empty(n, np.int32)
    back = np.empty(n, np.int32)
    candidates = np.empty(256, np.int32)
    load = np.zeros(peer.shape[0], np.int64)
    away = np.zeros((n, most), np.uint16)  # switches on the way to each of ``through``, 0 = not below it
    only = np.empty((n, most), np.int32)  # the first of these, -1 = several
    goes_on = _any_link(first, up, False)
    for g in range(most):
        tail = _search(first, peer, reverse, up, False, goes_on, through[g], dist, queue, back)
        for k in range(tail):
            s = queue[k]
            away[s, g] = dist[s] + 1
            only[s, g] = back[s] if k else -1
            dist[s] = -1
    for s in range(n):
        for g in range(most):
            if away[s, g] < 2:
                continue
            if only[s, g] < 0:
                count = _links_up(first, peer, up, s, away, g, candidates)
                for i in range(dest_first[g], dest_first[g + 1]):
                    if lft[s, lids[i]] == 255:
                        port = out_port[_take(candidates, count, load)]
                        lft[s, lids[i]] = port
                        taken[s, port] += 1
                continue
            port, filled = out_port[only[s, g]], 0
            for i in range(dest_first[g], dest_first[g + 1]):
                if lft[s, lids[i]] == 255:
                    lft[s, lids[i]] = port
                    filled += 1
            taken[s, port] += filled


@kernel
def _links_up(first, peer, up, s, away, g, links):
    """Write the links up of ``s`` that lead one step nearer to ``g``, ascending, into ``links``;
    return their number."""
    count = 0
    for e in range(first[s], first[s + 1]):
        if up[e] and away[peer[e], g] and away[peer[e], g] + 1 == away[s, g]:
            links[count] = e
            count += 1
    return count


@kernel
def _take(candidates, count, load):
    """Return the least-loaded of ``count`` links, the first on a tie, and add one to its load."""
    best = candidates[0]
    for k in range(1, count):
        if load[candidates[k]] < load[best]:
            best = candidates[k]
    load[best] += 1
    return best
