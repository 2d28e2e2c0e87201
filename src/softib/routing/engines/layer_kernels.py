"""Assign paths to layers (VLs) such that the dependencies on each layer have no cycle. The paths
between two switches are assigned together, or each path separately."""

import numpy as np

from softib.jit import kernel, table
from softib.routing.transition.order_kernels import BLOCKED, CYCLE, add_dependency, add_from_the_end, take

UNTRIED, PLACED, FAILED, NO_PATH = 0, 1, 2, 3
"""State of the dependencies from a switch to the destination."""

Paths = table("Paths", "lft at first lid")
"""Tables uint8[n, LIDs], the peer of each port (int32[n, 256]), and the LIDs on each switch,
``lid[first[s]:first[s + 1]]``."""
SinglePaths = table("SinglePaths", "lft at source lid target")
"""The columns of :class:`Paths`, and paths (source row, destination column): packets from switch
``source[i]`` to LID ``lid[j]`` on switch ``target[j]``."""


@kernel(steps=lambda c, vl_state, paths, pairs, *rest: 20 * len(pairs) * (1 + 2 * len(paths.lid) // len(paths.lft)))
def place_pairs(c, vl_state, paths, pairs, number, layer, waits):
    """Assign to layer ``number`` every pair without a layer (switches ``pairs`` int32[m, 2]) whose
    paths close no cycle on it in either direction.

    ``layer`` uint8[n, n] in and out, 255: none. ``waits`` int32[2, w] is scratch for the paths of a
    pair. Returns the number of pairs without a layer.
    """
    left = 0
    for p in range(pairs.shape[0]):
        a, b = pairs[p, 0], pairs[p, 1]
        if layer[a, b] != 255:
            continue
        fits = not _blocked(c, vl_state, paths, a, b) and not _blocked(c, vl_state, paths, b, a)
        if fits:
            count = _add_paths(c, vl_state, paths, a, b, waits, 0)
            fits = count >= 0 and _add_paths(c, vl_state, paths, b, a, waits, count) >= 0
        if fits:
            layer[a, b] = layer[b, a] = number
        else:
            left += 1
    return left


@kernel
def _blocked(c, vl_state, paths, source, target):
    """Return whether a path from ``source`` to ``target`` needs a dependency that closes a cycle
    with those on the layer."""
    for k in range(paths.first[target], paths.first[target + 1]):
        s, before = source, -1
        for _ in range(paths.at.shape[0]):
            e = paths.at[s, paths.lft[s, paths.lid[k]]] if s != target else -1
            if e < 0:
                break
            here = c.canon[e]
            if before >= 0 and vl_state.present[c.dep_first[before] + here - c.first[c.peer[before]]] == BLOCKED:
                return True
            before, s = here, c.peer[e]
    return False


@kernel
def _add_paths(c, vl_state, paths, source, target, waits, count):
    """Add the dependencies of packets from ``source`` to ``target``. ``waits[:, :count]`` are the
    pair's new dependencies so far. Return their number after this path, or -1 if one would close a
    cycle; all of them are then removed. A dependency that closes a cycle by itself is BLOCKED,
    because dependencies of other pairs are never removed."""
    for k in range(paths.first[target], paths.first[target + 1]):
        s, before = source, -1
        for _ in range(paths.at.shape[0]):
            e = paths.at[s, paths.lft[s, paths.lid[k]]] if s != target else -1
            if e < 0:
                break
            here = c.canon[e]
            if before >= 0:
                dep = add_dependency(c, vl_state, before, here)
                if dep == CYCLE:
                    for i in range(count):
                        take(c, vl_state, waits[0, i], waits[1, i], 0)
                    dep = add_dependency(c, vl_state, before, here) if count else dep
                    take(c, vl_state, before, here, BLOCKED if dep == CYCLE else 0)
                    return -1
                if dep >= 0:
                    waits[0, count], waits[1, count] = before, here
                    count += 1
            before, s = here, c.peer[e]
    return count


@kernel
def first_fit(c, vl_state, paths, number, wanted, layer, path, fresh):
    """Assign each path whose ``layer`` is ``wanted`` to layer ``number`` if it closes no cycle
    there. Paths are assigned one after another.

    The paths to a destination form a tree, so the part after a switch was tried with the first path
    through this switch. Dependencies are never removed. So if that part closed a cycle, no path
    through the switch is possible; otherwise only the part before the switch is new. Returns the
    number of paths without a layer.
    """
    left, n = 0, paths.lft.shape[0]
    node, state = np.empty(n, np.int32), np.empty(n, np.uint8)
    for j in range(paths.lid.shape[0]):
        lid, target = paths.lid[j], paths.target[j]
        state[:] = UNTRIED
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
