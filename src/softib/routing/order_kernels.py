# mypy: ignore-errors
"""Dependencies between channels, added one at a time as long as they close no cycle.

The order is kept topological as dependencies come (D. Pearce, P. Kelly, "A dynamic topological sort algorithm for directed
acyclic graphs", ACM J. Experimental Algorithmics 11, 2007): a dependency that agrees with it costs one comparison.
"""

import numpy as np

from softib.jit import kernel, table

Channels = table("Channels", "first peer reverse owner dep_first canon")
"""Directed links between switches as channels; ``owner`` int32[links]: the switch that sends. Dependency ``dep_first[a] + k`` is that
of link ``a`` on the k-th link of the switch at its other end. ``canon`` int32[links]: the channel that stands for a link."""
VlState = table("VlState", "present place node_at fwd bwd mark keys")
"""One VL: ``present`` uint8[dependencies] (0, ADDED, or BLOCKED: not to be tried again); ``place`` int32[links] of each channel in the order and its inverse ``node_at``;
``fwd``, ``bwd``, ``keys`` int32[links] and ``mark`` uint8[links] (zeros) are scratch."""

CYCLE = -1
ADDED, BLOCKED = 1, 2


@kernel
def add_dependency(c, vl_state, a, b):
    """Let channel ``a`` wait for ``b``. Returns the dependency's number if it is new, -2 if it was there, CYCLE if it would
    close a cycle (nothing is changed then)."""
    dep = c.dep_first[a] + b - c.first[c.peer[a]]
    if vl_state.present[dep] == ADDED:
        return np.int64(-2)
    if vl_state.present[dep] == BLOCKED:
        return np.int64(CYCLE)
    upper, lower = vl_state.place[a], vl_state.place[b]
    if upper > lower:
        ahead = _ahead(c, vl_state, a, b, upper)
        if ahead < 0:
            return np.int64(CYCLE)
        behind = _behind(c, vl_state, a, lower)
        _reorder(vl_state, ahead, behind)
    vl_state.present[dep] = ADDED
    return np.int64(dep)


@kernel
def _ahead(c, vl_state, a, b, upper):
    """Channels before place ``upper`` that ``b`` leads to, into ``fwd``; -1 if ``a`` is one of them."""
    fwd, mark, place = vl_state.fwd, vl_state.mark, vl_state.place
    fwd[0] = b
    mark[b] = 1
    head, tail = 0, 1
    found = False
    while head < tail and not found:
        x = fwd[head]
        head += 1
        v = c.peer[x]
        base = c.dep_first[x] - c.first[v]
        for y in range(c.first[v], c.first[v + 1]):
            if vl_state.present[base + y] == ADDED:
                if y == a:
                    found = True
                    break
                if mark[y] == 0 and place[y] < upper:
                    mark[y] = 1
                    fwd[tail] = y
                    tail += 1
    for i in range(tail):
        mark[fwd[i]] = 0
    return -1 if found else tail


@kernel
def _behind(c, vl_state, a, lower):
    """Channels after place ``lower`` that lead to ``a``, into ``bwd``."""
    bwd, mark, place = vl_state.bwd, vl_state.mark, vl_state.place
    bwd[0] = a
    mark[a] = 1
    head, tail = 0, 1
    while head < tail:
        x = bwd[head]
        head += 1
        u = c.owner[x]
        k = x - c.first[u]
        for e in range(c.first[u], c.first[u + 1]):
            y = c.reverse[e]
            if mark[y] == 0 and place[y] > lower and vl_state.present[c.dep_first[y] + k] == ADDED:
                mark[y] = 1
                bwd[tail] = y
                tail += 1
    for i in range(tail):
        mark[bwd[i]] = 0
    return tail


@kernel
def _reorder(vl_state, ahead, behind):
    """Give the places of both sets to those behind first, then to those ahead, each in their order so far."""
    fwd, bwd, keys, place, node_at = vl_state.fwd, vl_state.bwd, vl_state.keys, vl_state.place, vl_state.node_at
    b = np.empty(behind, np.int32)
    f = np.empty(ahead, np.int32)
    for i in range(behind):
        b[i] = place[bwd[i]]
    for i in range(ahead):
        f[i] = place[fwd[i]]
    b.sort()
    f.sort()
    for i in range(behind):
        keys[i] = node_at[b[i]]
    for i in range(ahead):
        keys[behind + i] = node_at[f[i]]
    i, j = 0, 0
    for k in range(behind + ahead):
        if j == ahead or (i < behind and b[i] < f[j]):
            at = b[i]
            i += 1
        else:
            at = f[j]
            j += 1
        place[keys[k]] = at
        node_at[at] = keys[k]


@kernel
def add_from_the_end(c, vl_state, path, length, fresh):
    """Add the dependencies of a path (channels ``path[:length]``), the last one first, all or none. Returns -1 where they are added, else the place of the
    first channel whose dependency closes a cycle with those behind it.

    A dependency that alone closes a cycle is BLOCKED from then on: dependencies are never taken away again.
    """
    for i in range(length - 2, -1, -1):
        if vl_state.present[c.dep_first[path[i]] + path[i + 1] - c.first[c.peer[path[i]]]] == BLOCKED:
            return i
    count = 0
    for i in range(length - 2, -1, -1):
        dep = add_dependency(c, vl_state, path[i], path[i + 1])
        if dep == CYCLE:
            for k in range(count):
                vl_state.present[fresh[k]] = 0
            if count:
                dep = add_dependency(c, vl_state, path[i], path[i + 1])
            if dep >= 0:
                vl_state.present[dep] = 0
            else:
                vl_state.present[c.dep_first[path[i]] + path[i + 1] - c.first[c.peer[path[i]]]] = BLOCKED
            return i
        if dep >= 0:
            fresh[count] = dep
            count += 1
    return -1
