"""Cycles of a directed graph given as CSR lists."""

import numpy as np

from softib.jit import kernel


@kernel(steps=lambda start, targets, alive, cycle: 4 * len(start) + len(targets))
def any_cycle(start, targets, alive, cycle):
    """Follow each node's first remaining successor until a node repeats. Write the cycle into
    ``cycle``; return its length."""
    n = start.shape[0] - 1
    position = np.full(n, -1, np.int32)
    c = 0
    while not alive[c]:
        c += 1
    length = 0
    while position[c] < 0:
        position[c] = length
        cycle[length] = c
        length += 1
        for i in range(start[c], start[c + 1]):
            if alive[targets[i]]:
                c = targets[i]
                break
    begin = position[c]
    for i in range(begin, length):
        cycle[i - begin] = cycle[i]
    return length - begin


def steps_of(start, targets, alive, cycle, length, budget):
    """Return the number of steps of :func:`shorten`. Each search visits all dependencies, or those
    of ``length`` iterations, and no search begins after ``budget`` steps."""
    nodes, dependencies = np.count_nonzero(alive), int(np.diff(start)[alive].sum())
    search = min(dependencies, (1 + dependencies // nodes) ** min(length, 16))
    return len(start) + min(nodes * search, budget + search)


@kernel(steps=steps_of)
def shorten(start, targets, alive, cycle, length, budget):
    """Find a shortest cycle: search from every remaining node, at most to the length of the
    shortest cycle so far.

    A node that was searched is removed from ``alive``, since no shorter cycle contains it. After
    ``budget`` steps over dependencies, the search stops and keeps the shortest cycle so far.
    Returns its length; ``cycle`` int32[nodes] in and out.
    """
    n = start.shape[0] - 1
    depth = np.full(n, -1, np.int32)
    parent = np.empty(n, np.int32)
    queue = np.empty(n, np.int32)
    steps = 0
    for root in range(n):
        if not alive[root] or steps > budget:
            continue
        depth[root] = 0
        queue[0] = root
        head, tail = 0, 1
        shorter = False
        while head < tail and not shorter:
            c = queue[head]
            head += 1
            if depth[c] + 1 >= length:
                break
            for i in range(start[c], start[c + 1]):
                t = targets[i]
                steps += 1
                if t == root:
                    length = depth[c] + 1
                    at = c
                    for k in range(length - 1, -1, -1):
                        cycle[k] = at
                        if at != root:
                            at = parent[at]
                    shorter = True
                    break
                if alive[t] and depth[t] < 0:
                    depth[t] = depth[c] + 1
                    parent[t] = c
                    queue[tail] = t
                    tail += 1
        for i in range(tail):
            depth[queue[i]] = -1
        alive[root] = False
        if length <= 2:
            break
    return length
