"""The search of nue: shortest paths to one destination on the graph of channels, which never close
a cycle of dependencies."""

import numpy as np

from softib.jit import kernel, table
from softib.routing.transition.order_kernels import BLOCKED, CYCLE, add_dependency, take_number

Tree = table("Tree", "taken order dist stamp candidates fresh")
"""Paths to one destination. ``taken`` int32[n]: the link from each switch (-1 = none yet);
``order`` int32[n]: the switches in the order in which they were settled; ``dist`` int64[n]: the sum
of link loads on each path; ``stamp`` int32[n] (-1) and ``candidates`` int32[n] are scratch;
``fresh`` int64[n]: the dependencies that were added."""


@kernel(steps=lambda c, vl_state, tree: len(vl_state.present))
def add_tree(c, vl_state, tree):
    """Add the dependencies of all paths along the tree (tree bool[links], both directions of a cable) to this VL."""
    for a in range(tree.shape[0]):
        if not tree[a]:
            continue
        v = c.peer[a]
        for b in range(c.first[v], c.first[v + 1]):
            if tree[b] and b != c.reverse[a]:
                add_dependency(c, vl_state, a, b)


@kernel
def along_tree(c, tree, weight, target, taken, order, dist):
    """Settle the switches of the tree along its links (see :func:`search`); return their number."""
    order[0] = target
    head, settled = 0, 1
    while head < settled:
        v = order[head]
        head += 1
        for e in range(c.first[v], c.first[v + 1]):
            u = c.peer[e]
            if tree[e] and u != target and taken[u] < 0:
                taken[u] = c.reverse[e]
                dist[u] = dist[v] + weight[c.reverse[e]]
                order[settled] = u
                settled += 1
    return settled


@kernel
def search(c, vl_state, target, weight, settled, t):
    """Find for every switch the first link of a path to ``target``. Write it into ``taken``
    int32[n] (-1 = none). ``order`` receives the switches in the order in which they were settled.

    The search proceeds level by level of hops. Of its links to switches that were settled on
    earlier levels, a switch takes the one with the smallest sum of weights whose dependency on the
    next link closes no cycle. This dependency stays. A dependency that would close a cycle is never
    tried again on this VL. The first ``settled`` switches of ``order`` (beginning with the target)
    are already settled. Returns (number of settled switches, number of added dependencies, which
    are in ``fresh``).
    """
    first, peer, dep_first, present = c.first, c.peer, c.dep_first, vl_state.present
    taken, order, dist, stamp, candidates, fresh = t.taken, t.order, t.dist, t.stamp, t.candidates, t.fresh
    added, low, level = 0, 0, 0
    while low < settled:
        high = settled
        level += 1
        count = 0
        for i in range(low, high):
            v = order[i]
            for e in range(first[v], first[v + 1]):
                u = peer[e]
                if u != target and taken[u] < 0 and stamp[u] != level:
                    stamp[u] = level
                    candidates[count] = u
                    count += 1
        for i in range(count):
            u = candidates[i]
            while True:
                best = -1
                least = np.int64(0)
                for a in range(first[u], first[u + 1]):
                    v = peer[a]
                    on = taken[v]
                    if v != target and (on < 0 or stamp[v] == level):
                        continue
                    d = dist[v] + weight[a]
                    if (best < 0 or d < least) and (v == target or present[dep_first[a] + on - first[v]] != BLOCKED):
                        best, least = a, d
                if best < 0:
                    stamp[u] = level - 1  # not settled: others on this level must not use it
                    break
                v = peer[best]
                if v != target:
                    dep = add_dependency(c, vl_state, best, taken[v])
                    if dep == CYCLE:
                        present[dep_first[best] + taken[v] - first[v]] = BLOCKED
                        continue
                    if dep >= 0:
                        fresh[added] = dep
                        added += 1
                taken[u] = best
                dist[u] = least
                order[settled] = u
                settled += 1
                break
        low = high
    for i in range(settled):
        stamp[order[i]] = -1
    return settled, added


@kernel(steps=lambda c, vl_state, t, links, dests, needs, cas, weight, lft: len(dests) * len(c.peer))
def route_part(c, vl_state, t, links, dests, needs, cas, weight, lft):
    """Write the entries for the end ports of one VL. Returns (destinations that needed the tree,
    destinations that some CA cannot reach).

    ``links``: (tree bool[links], out_port uint8[links]). ``dests`` int64[d, 4]: (switch, base LID,
    LMC, egress port of the switch) of each, in order. ``needs``: (counted bool[d]: whether their
    paths add to ``weight`` int64[links]; sources int32[d]: the number of switches with CAs in their
    part of the fabric).
    """
    n = cas.shape[0]
    taken, order, dist, stamp, fresh = t.taken, t.order, t.dist, t.stamp, t.fresh
    flow = np.zeros(n, np.int64)
    tree, out_port = links
    counted, sources = needs
    by_tree, lost = 0, 0
    most = 0
    for d in range(dests.shape[0]):
        most = max(most, 1 << dests[d, 2])
    # all base LIDs first, so that they are distributed independently of later LIDs
    for step in range(most * dests.shape[0]):
        offset, d = step // dests.shape[0], step % dests.shape[0]
        if offset >= 1 << dests[d, 2]:
            continue
        target, lid = dests[d, 0], dests[d, 1] + offset
        dist[target] = 0
        order[0] = target
        for s in range(n):
            taken[s] = -1
        settled, added = search(c, vl_state, target, weight, 1, t)
        if _sources(order, settled, cas) < sources[d]:
            for i in range(added):
                take_number(c, vl_state, fresh[i])
            for s in range(n):
                taken[s], stamp[s] = -1, -1
            settled = along_tree(c, tree, weight, target, taken, order, dist)
            settled, added = search(c, vl_state, target, weight, settled, t)
            by_tree += 1
            lost += _sources(order, settled, cas) < sources[d]
        lft[target, lid] = dests[d, 3]
        for k in range(1, settled):
            lft[order[k], lid] = out_port[taken[order[k]]]
        if not counted[d]:
            continue
        for k in range(settled):
            flow[order[k]] = cas[order[k]]
        for k in range(settled - 1, 0, -1):
            s = order[k]
            weight[taken[s]] += flow[s]
            flow[c.peer[taken[s]]] += flow[s]
    return by_tree, lost


@kernel
def _sources(order, settled, cas):
    sources = 0
    for k in range(settled):
        sources += cas[order[k]] > 0
    return sources
