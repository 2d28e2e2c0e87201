"""Spanning trees of multicast groups over the switch graph."""

from softib.jit import kernel


@kernel(_nrt=False)
def breadth_first(first, peer, root, hops, parent, queue):
    """Write ``hops`` int32[switches] from ``root`` (-1: not reached), and ``parent``: the link (row
    of the graph) over which each switch was reached from the nearer switch (-1 at the root).
    ``queue`` int32[switches] is scratch."""
    for s in range(len(hops)):
        hops[s], parent[s] = -1, -1
    hops[root] = 0
    queue[0] = root
    n, at = 1, 0
    while at < n:
        s = queue[at]
        at += 1
        for e in range(first[s], first[s + 1]):
            p = peer[e]
            if hops[p] < 0:
                hops[p], parent[p] = hops[s] + 1, e
                queue[n] = p
                n += 1


@kernel(_nrt=False)
def mark_tree(parent, source_of, out_port, peer_port, members, masks, marked):
    """Mark the ports of the tree that joins ``members`` (int32[k], switches) to the root of ``parent``.

    ``source_of`` int32[links]: the switch at the beginning of a link; ``masks`` uint16[switches, 16] gets the ports
    at both ends; ``marked`` bool[switches] is scratch and marks switches of the tree.
    """
    for i in range(len(members)):
        s = members[i]
        while not marked[s]:
            marked[s] = True
            e = parent[s]
            if e < 0:
                break
            up, here = out_port[e], peer_port[e]
            masks[s, here >> 4] |= 1 << (here & 15)
            s = source_of[e]
            masks[s, up >> 4] |= 1 << (up & 15)


@kernel(_nrt=False)
def mark_ancestors(first, peer, position, members, count, seen, queue):
    """Write ``count`` int32[switches]: for each switch, how many of ``members`` (int32[k],
    switches) are the switch itself or are below it, over links that only lead up (to a smaller
    ``position``). ``seen`` int32[switches], filled with -1, and ``queue`` int32[switches] are
    scratch."""
    for i in range(len(members)):
        queue[0] = members[i]
        seen[members[i]] = i
        n, at = 1, 0
        while at < n:
            s = queue[at]
            at += 1
            count[s] += 1
            for e in range(first[s], first[s + 1]):
                p = peer[e]
                if position[p] < position[s] and seen[p] != i:
                    seen[p] = i
                    queue[n] = p
                    n += 1


@kernel(_nrt=False)
def descend(first, peer, row, position, root, parent, queue):
    """Write ``parent`` int32[switches]: the link (``row``) over which each switch is reached first
    from ``root`` when all links lead down; -1: none."""
    for s in range(len(parent)):
        parent[s] = -1
    queue[0] = root
    n, at = 1, 0
    while at < n:
        s = queue[at]
        at += 1
        for e in range(first[s], first[s + 1]):
            p = peer[e]
            if position[p] > position[s] and parent[p] < 0:
                parent[p] = row[e]
                queue[n] = p
                n += 1


@kernel(_nrt=False)
def mark_bends(first, peer, row, position, reverse, roots, offset, marked, parent, queue):
    """Mark the turns of the trees that lead down from each of ``roots`` (int32[k], see
    :func:`descend`): packets go up such a tree and down it.

    ``row`` int32[links]: row of the graph; ``reverse`` int32[links]: the link in the other
    direction. ``marked`` uint8[turns]: 1 for each turn that a tree uses. The turn from link e into
    the i-th link that leaves ``peer[e]`` has index ``offset[e] + i``. ``offset`` int64[links].
    ``parent`` and ``queue`` int32[switches] are scratch.
    """
    for r in range(len(roots)):
        descend(first, peer, row, position, roots[r], parent, queue)
        for s in range(len(parent)):
            if parent[s] < 0 and s != roots[r]:
                continue
            for out in range(first[s], first[s + 1]):
                if parent[peer[out]] != row[out] and parent[s] != row[reverse[out]]:
                    continue
                for other in range(first[s], first[s + 1]):
                    if other != out and (parent[peer[other]] == row[other] or parent[s] == row[reverse[other]]):
                        into = reverse[other]
                        marked[offset[into] + out - first[s]] = 1
