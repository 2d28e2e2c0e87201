"""Distances between all pairs of switches, 64 sources at a time.

The search runs from every switch at the same time. ``front[v]`` is the set of sources (one bit
each) that reached ``v`` in the last step. One pass over the links moves 64 sources with one OR (the
multi-source BFS of Then et al., "The More the Merrier", VLDB 2014). 1,620 switches with 46,656
directed links take about 20 ms.
"""

import numpy as np

from softib.jit import kernel


@kernel(steps=lambda first, peer, hops, out: len(peer) * len(first) // 3)
def lowest_neighbour(first, peer, hops, out):
    """Write ``out[s, t]`` int32: of the links of ``s`` that lead nearer to ``t``, the one with the
    lowest port; -1 if there is none.

    hops uint8[n, n], 255 = not connected.
    """
    n = first.shape[0] - 1
    for s in range(n):
        for t in range(n):
            out[s, t] = -1
        for e in range(first[s + 1] - 1, first[s] - 1, -1):
            p = peer[e]
            for t in range(n):
                if (hops[s, t] != 255) & (hops[p, t] + 1 == hops[s, t]):
                    out[s, t] = e


@kernel(steps=lambda first, peer, hops, weight, via: len(peer) * len(first) // 2, rows=True)
def lightest_neighbours(first, peer, hops, weight, via):
    """Write ``via[s, t]`` int32: among the shortest paths from ``s`` to ``t``, the first link of the one
    with the smallest sum of ``weight`` (int64[links], equal in both directions of a cable); -1 if
    there is none."""
    n = first.shape[0] - 1
    total = np.empty(n, np.int64)
    via[:, :] = -1
    for t in range(n):
        by_hops = np.argsort(hops[:, t], kind="mergesort")
        total[t] = 0
        for s in by_hops:
            if hops[s, t] == 255 or s == t:
                continue
            for e in range(first[s], first[s + 1]):
                p = peer[e]
                if hops[p, t] + 1 == hops[s, t] and (via[s, t] < 0 or total[p] + weight[e] < total[s]):
                    total[s] = total[p] + weight[e]
                    via[s, t] = e


@kernel(steps=lambda links, via, end_switch, end_lid, end_lmc, end_port, cable, lft: 2 * len(lft) * len(end_lid))
def spread_cables(links, via, end_switch, end_lid, end_lmc, end_port, cable, lft):
    """Write the entries of all LIDs. Switch ``s`` forwards towards the peer of link ``via[s, t]``;
    destinations are distributed round robin over parallel cables.

    ``links`` is (first, peer, out_port). ``cable`` int32[ends] is the cable of an end's first LID
    (modulo the number of cables); its next LID (LMC) uses the next cable. lft uint8[n, LIDs] out.
    """
    first, peer, out_port = links.first, links.peer, links.out_port
    n = first.shape[0] - 1
    cables = np.empty(256, np.uint8)
    for s in range(n):
        neighbour = -1
        count = 0
        for i in range(end_lid.shape[0]):
            t = end_switch[i]
            if t == s:
                for o in range(1 << end_lmc[i]):
                    lft[s, end_lid[i] + o] = end_port[i]
                continue
            e = via[s, t]
            if e < 0:
                continue
            if peer[e] != neighbour:
                neighbour = peer[e]
                count = 0
                for f in range(first[s], first[s + 1]):
                    if peer[f] == neighbour:
                        cables[count] = out_port[f]
                        count += 1
            for o in range(1 << end_lmc[i]):
                lft[s, end_lid[i] + o] = cables[(cable[i] + o) % count]


@kernel(steps=lambda first, peer, use, hops: hops.size + 4 * len(peer) * (len(first) // 64 + 1))
def all_hops(first, peer, use, hops):
    """Write ``hops[s, t]``: the number of links on a shortest walk from switch ``s`` to ``t`` over the links with
    ``use`` set; 255 none.

    first int32[n+1], peer int32[links], use bool[links]; hops uint8[n, n] out. Walks longer than
    254 links count as none.
    """
    n = first.shape[0] - 1
    n_masks = (n + 63) // 64
    seen = np.zeros((n, n_masks), np.uint64)
    front = np.zeros((n, n_masks), np.uint64)
    for s in range(n):
        for t in range(n):
            hops[s, t] = 255
        hops[s, s] = 0
        seen[s, s >> 6] |= np.uint64(1) << np.uint64(s & 63)
        front[s, s >> 6] = seen[s, s >> 6]
    fresh = np.zeros((n, n_masks), np.uint64)
    for step in range(1, 255):
        moved = False
        for s in range(n):
            for w in range(n_masks):
                fresh[s, w] = 0
            # bits are targets; in `step`, s reaches the targets that its neighbours reached in
            # `step - 1`
            for e in range(first[s], first[s + 1]):
                if use[e]:
                    p = peer[e]
                    for w in range(n_masks):
                        fresh[s, w] |= front[p, w]
            for w in range(n_masks):
                fresh[s, w] &= ~seen[s, w]
        for s in range(n):
            for w in range(n_masks):
                bits = fresh[s, w]
                front[s, w] = bits
                if bits == 0:
                    continue
                moved = True
                seen[s, w] |= bits
                base = w * 64
                stop = min(64, n - base)
                for b in range(stop):
                    if (bits >> np.uint64(b)) & np.uint64(1):
                        hops[s, base + b] = step
        if not moved:
            break


@kernel(steps=lambda first, peer, down, order, hops, is_down: len(peer) * len(first) // 8)
def legal_hops(first, peer, down, order, hops, is_down):
    """Write up*/down* distances: those of paths that first go up any number of links, and then only
    down.

    A switch that has a path to ``t`` that only goes down must use it, because packets to ``t`` may come down to it from
    other switches. ``hops`` uint8[n, n]: on entry the distances of paths that only go down, on return those of legal
    paths, 255 = none. ``is_down`` bool[n, n] out: the path only goes down. ``order`` int32[n]: switches from the top
    down. ``down`` bool[links]: the link leads away from the top.
    """
    n = first.shape[0] - 1
    for s in range(n):
        for t in range(n):
            is_down[s, t] = hops[s, t] != 255
    best = np.empty(n, np.uint8)
    for i in range(n):
        s = order[i]
        for t in range(n):
            best[t] = 255
        for e in range(first[s], first[s + 1]):
            if not down[e]:
                p = peer[e]
                for t in range(n):
                    best[t] = min(best[t], hops[p, t])
        for t in range(n):
            if not is_down[s, t] and best[t] < 254:
                hops[s, t] = best[t] + 1


@kernel(steps=lambda first, peer, sources, rank: len(peer))
def rank_from(first, peer, sources, rank):
    """Write ``rank`` int32[n]: links to the nearest switch of ``sources`` (int32[k]); -1 if none is reachable."""
    n = first.shape[0] - 1
    queue = np.empty(n, np.int32)
    for s in range(n):
        rank[s] = -1
    tail = 0
    for i in range(sources.shape[0]):
        if rank[sources[i]] < 0:
            rank[sources[i]] = 0
            queue[tail] = sources[i]
            tail += 1
    head = 0
    while head < tail:
        s = queue[head]
        head += 1
        for e in range(first[s], first[s + 1]):
            p = peer[e]
            if rank[p] < 0:
                rank[p] = rank[s] + 1
                queue[tail] = p
                tail += 1


@kernel(steps=lambda hops, weight, out: hops.size)
def spines(hops, weight, out):
    """Find roots as OpenSM does: a switch is a root if more than 90 % of all CAs are at one distance
    from it, and no other distance has more than 5 %.

    hops uint8[n, n]; weight int64[n]: CAs on each switch; out bool[n].
    """
    n = hops.shape[0]
    total = 0
    for t in range(n):
        total += weight[t]
    bars = np.zeros(256, np.int64)
    for s in range(n):
        for h in range(256):
            bars[h] = 0
        for t in range(n):
            bars[hops[s, t]] += weight[t]
        high, low = 0, 0
        for h in range(64):
            if bars[h] > 0.9 * total:
                high += 1
            if bars[h] > 0.05 * total:
                low += 1
        out[s] = high == 1 and low == 1


@kernel(steps=lambda hops, weight, out: hops.size)
def distance_to_cas(hops, weight, out):
    """Write ``out`` int64[n]: for each switch, the sum of its hops to all CAs that it reaches."""
    n = hops.shape[0]
    for s in range(n):
        total = 0
        for t in range(n):
            if hops[s, t] != 255:
                total += weight[t] * hops[s, t]
        out[s] = total
