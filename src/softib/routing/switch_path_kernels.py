"""Tables in which all LIDs of a switch's ends take the same switches, and spread over parallel
cables alone."""

import numpy as np

from softib.jit import kernel


@kernel(steps=lambda first, peer, hops, out: len(peer) * len(first) // 3)
def lowest_neighbour(first, peer, hops, out):
    """``out[s, t]`` int32: the link of ``s`` with the lowest port that is nearer to ``t``, -1 where
    there is none.

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
    """``via[s, t]`` int32: the link of ``s`` on the path to ``t`` with the least sum of ``weight``
    (int64[links], both directions of a cable alike) among the shortest, -1 where there is none."""
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
    """Entries of all LIDs: on switch ``s`` towards the switch that link ``via[s, t]`` leads to,
    over its cables in turn.

    ``links`` (first, peer, out_port); ``cable`` int32[ends]: which cable the first LID of an end
    takes (modulo their number), the next LID (LMC) the next. lft uint8[n, LIDs] out.
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
