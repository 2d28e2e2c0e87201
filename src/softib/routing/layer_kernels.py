# mypy: ignore-errors
"""Paths on layers (VLs) so that no layer's dependencies have a cycle.

Paths are (source row, destination column): packets from switch ``source[i]`` to LID ``lid[j]`` on switch ``target[j]``; layer
uint8[sources, destinations], 255 = no path. ``routes`` holds ``lft`` and ``at`` as in :mod:`softib.routing.verify_kernels`.
"""

import numpy as np

from softib.jit import kernel, table
from softib.routing.order_kernels import BLOCKED, CYCLE, add_dependency, add_from_the_end, take

UNTRIED, PLACED, FAILED, NO_PATH = 0, 1, 2, 3
"""What became of the dependencies from a switch to the destination."""

Paths = table("Paths", "lft at source lid target")
"""What is laid on layers; see the module."""
SwitchPaths = table("SwitchPaths", "lft at peer peer_port sl2vl own end_first end lid lmc")
"""For paths to and from switches: tables, what a port leads to, links (int32[links], not by VL), ``sl2vl`` uint8[n or 1, in or 1, out or 1, 16];
``own`` int32[n]: the end of each switch (-1: it has no LID); ends ``end[end_first[s]:end_first[s + 1]]`` on each switch; LID and LMC of each end."""


@kernel
def follow(c, paths, i, j, path):
    """The channels of path (i, j) into ``path``; their number, -1 where it does not arrive."""
    s = paths.source[i]
    lid = paths.lid[j]
    target = paths.target[j]
    length = 0
    while s != target:
        e = paths.at[s, paths.lft[s, lid]]
        if e < 0 or length == path.shape[0]:
            return -1
        path[length] = c.canon[e]
        length += 1
        s = c.peer[e]
    return length


@kernel(steps=lambda c, vl_state, paths, number, wanted, layer, path, fresh: 4 * layer.size)
def first_fit(c, vl_state, paths, number, wanted, layer, path, fresh):
    """Put on layer ``number`` every path whose ``layer`` is ``wanted``, one after the other, that closes no cycle on it.

    Paths to a destination are a tree: what is behind a switch was tried with the first path that passes it. Dependencies are never taken away, so where that
    closed a cycle no path through the switch fits, and where it did not only what is before the switch is new. Returns how many paths are left.
    """
    left, n = 0, paths.lft.shape[0]
    node, state = np.empty(n, np.int32), np.empty(n, np.uint8)
    for j in range(paths.lid.shape[0]):
        lid, target = paths.lid[j], paths.target[j]
        for s in range(n):
            state[s] = UNTRIED
        state[target] = PLACED
        for i in range(paths.source.shape[0]):
            if layer[i, j] != wanted:
                continue
            s, length, becomes = paths.source[i], 0, UNTRIED
            while becomes == UNTRIED:
                becomes = state[s]
                if becomes == UNTRIED:
                    e = paths.at[s, paths.lft[s, lid]]
                    if e < 0 or length == n - 1:
                        becomes = NO_PATH
                        state[s] = NO_PATH
                    else:
                        path[length], node[length] = c.canon[e], s
                        length += 1
                        s = c.peer[e]
            last = length - 1
            if becomes == PLACED and length:
                more = 0
                if s != target:
                    path[length] = c.canon[paths.at[s, paths.lft[s, lid]]]
                    more = 1
                broken = add_from_the_end(c, vl_state, path, length + more, fresh)
                if broken >= 0:
                    becomes, last = FAILED, broken
            for k in range(last + 1):
                state[node[k]] = becomes
            if becomes == NO_PATH:
                layer[i, j] = 255
            elif becomes == PLACED:
                layer[i, j] = number
            else:
                left += 1
    return left


@kernel
def count_dependencies(c, paths, layer, number, count, path):
    """``count`` int64[dependencies] += paths of layer ``number`` over each."""
    for j in range(paths.lid.shape[0]):
        for i in range(paths.source.shape[0]):
            if layer[i, j] != number:
                continue
            length = follow(c, paths, i, j, path)
            if length < 0:
                layer[i, j] = 255
            for k in range(length - 1):
                a, b = path[k], path[k + 1]
                count[c.dep_first[a] + b - c.first[c.peer[a]]] += 1


@kernel
def break_cycles(c, paths, layer, number, count, path, colour, stack, at_child):
    """Move paths from layer ``number`` to the next until its dependencies have no cycle; returns how many were moved.

    A depth-first search; of each cycle that it meets the dependency with the fewest paths goes, with all of them (DFSSSP:
    J. Domke, T. Hoefler, W. Nagel, "Deadlock-Free Oblivious Routing for Arbitrary Topologies", IPDPS 2011, algorithm 2).
    ``count`` from :func:`count_dependencies`; colour uint8[links] zeros (0 new, 1 on the stack, 2 done); stack and at_child
    int32[links] scratch.
    """
    moved = 0
    first, peer, dep_first = c.first, c.peer, c.dep_first
    for root in range(peer.shape[0]):
        if colour[root]:
            continue
        colour[root] = 1
        stack[0] = root
        at_child[0] = 0
        depth = 1
        while depth:
            a = stack[depth - 1]
            v = peer[a]
            k = at_child[depth - 1]
            if k == first[v + 1] - first[v]:
                colour[a] = 2
                depth -= 1
                continue
            b = first[v] + k
            if count[dep_first[a] + k] == 0 or colour[b] == 2:
                at_child[depth - 1] += 1
                continue
            if colour[b] == 0:
                colour[b] = 1
                stack[depth] = b
                at_child[depth] = 0
                depth += 1
                continue
            # a cycle: from b on the stack to a and back
            weak_a, weak_b = a, b
            least = count[dep_first[a] + k]
            i = depth - 1
            while stack[i] != b:
                x, y = stack[i - 1], stack[i]
                n = count[dep_first[x] + y - first[peer[x]]]
                if n < least:
                    weak_a, weak_b, least = x, y, n
                i -= 1
            moved += _move(c, paths, layer, number, count, weak_a, weak_b, path)
            keep = depth
            for i in range(depth - 1):
                x, y = stack[i], stack[i + 1]
                if count[dep_first[x] + y - first[peer[x]]] == 0:
                    keep = i + 1
                    break
            for i in range(keep, depth):
                colour[stack[i]] = 0
            depth = keep
    return moved


@kernel
def _move(c, paths, layer, number, count, a, b, path):
    """Move the paths of layer ``number`` that take channel ``b`` after ``a`` to the next layer."""
    u, v = c.owner[a], c.owner[b]
    moved = 0
    for j in range(paths.lid.shape[0]):
        if u == paths.target[j] or v == paths.target[j]:
            continue
        lid = paths.lid[j]
        e, f = paths.at[u, paths.lft[u, lid]], paths.at[v, paths.lft[v, lid]]
        if e < 0 or f < 0 or c.canon[e] != a or c.canon[f] != b:
            continue
        for i in range(paths.source.shape[0]):
            if layer[i, j] != number:
                continue
            length = follow(c, paths, i, j, path)
            hit = False
            for k in range(length - 1):
                hit |= path[k] == a and path[k + 1] == b
            if not hit:
                continue
            layer[i, j] = number + 1
            moved += 1
            for k in range(length - 1):
                x, y = path[k], path[k + 1]
                count[c.dep_first[x] + y - c.first[c.peer[x]]] -= 1
    return moved


@kernel
def place_pairs(c, vl_state, net, vls, sls, cas, path_sl):
    """SLs of requests from every switch (and its CAs, ``cas`` int64[n]) to every other switch, into ``path_sl`` uint8[n, ends] (in and out): first so that the requests
    close no cycle, then, where that is possible, the answers neither.

    Channels of ``c`` are ``link * vls + vl``. Returns the pairs that find none of the SLs 0 … ``sls`` - 1 for both.
    """
    n = cas.shape[0]
    waits = np.empty((2, 1024), np.int64)
    left = 0
    for answers in range(2):
        for s in range(n):
            end = net.own[s]
            if end < 0:
                continue
            for a in range(n):
                if a == s or net.end_first[a] == net.end_first[a + 1]:
                    continue
                found = -1
                for k in range(-1, sls):
                    sl = np.int64(path_sl[a, end]) if k < 0 else np.int64(k)
                    if sl >= sls or (k >= 0 and sl == path_sl[a, end]):
                        continue
                    ok, waits, count = _add_path(c, vl_state, net, a, s, end, sl, vls, waits, 0)
                    for i in range(net.end_first[a], net.end_first[a + 1]):
                        if ok and answers:
                            ok, waits, count = _add_path(c, vl_state, net, s, a, net.end[i], sl, vls, waits, count)
                    if ok:
                        found = sl
                        break
                    for i in range(count):
                        take(c, vl_state, waits[0, i], waits[1, i], 0)
                if found >= 0:
                    path_sl[a, end] = found
                left += answers and found < 0
                if cas[s] == 0 and answers:
                    for i in range(net.end_first[a], net.end_first[a + 1]):
                        if net.end[i] != net.own[a]:
                            path_sl[s, net.end[i]] = path_sl[a, end]
    return left


@kernel
def _add_path(c, vl_state, net, source, target, end, sl, vls, waits, count):
    """Add what packets of ``sl`` from switch ``source`` to all LIDs of ``end`` on ``target`` wait for. Returns (did it close no cycle, ``waits``, new ``count``): the
    dependencies that are new are ``waits[:, :count]``."""
    for lid in range(net.lid[end], net.lid[end] + (1 << net.lmc[end])):
        s, came, before = source, np.int64(0), np.int64(-1)
        for _ in range(net.at.shape[0]):
            if s == target:
                break
            port = net.lft[s, lid]
            e = net.at[s, port]
            if e < 0:
                break
            vl = net.sl2vl[s % net.sl2vl.shape[0], came % net.sl2vl.shape[1], port % net.sl2vl.shape[2], sl]
            if vl >= vls:
                return False, waits, count
            here = np.int64(e) * vls + vl
            if before >= 0:
                dep = add_dependency(c, vl_state, before, here)
                if dep == CYCLE:
                    if count == 0:
                        k = here - c.first[c.peer[before]]
                        vl_state.present[c.dep_first[before] + k] = BLOCKED
                    return False, waits, count
                if dep >= 0:
                    if count == waits.shape[1]:
                        more = np.empty((2, 2 * count), np.int64)
                        more[:, :count] = waits
                        waits = more
                    waits[0, count], waits[1, count] = before, here
                    count += 1
            before, s, came = here, net.peer[e], np.int64(net.peer_port[e])
    return True, waits, count
