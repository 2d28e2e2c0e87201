"""Cycles of a directed graph given as bit rows or CSR lists."""

import numpy as np

from softib.jit import kernel


@kernel(steps=lambda needs, base, vls, start, targets: 10 * needs.size)
def bits_to_lists(needs, base, vls, start, targets):
    """Channel lists of the bit rows of ``needs``: channel c = link * vls + vl waits for
    ``targets[start[c]:start[c+1]]``.

    ``base`` int32[links]: first link of the switch at its other end. With an empty ``targets`` only
    ``start`` (int64[channels + 1]) is filled.
    """
    total = 0
    for c in range(needs.shape[0]):
        start[c] = total
        origin = np.int64(base[c // vls]) * vls
        for w in range(needs.shape[1]):
            bits = needs[c, w]
            k = 64 * w
            while bits:
                if bits & np.uint64(1):
                    if targets.shape[0]:
                        targets[total] = origin + k
                    total += 1
                bits >>= np.uint64(1)
                k += 1
    start[needs.shape[0]] = total
    return total


@kernel(steps=lambda start, targets, alive: 4 * len(start) + 2 * len(targets), rows=True)
def core(start, targets, alive):
    """Nodes that remain when those without a living successor or predecessor are removed again and
    again.

    alive bool[nodes] out. Any is left if and only if the graph has a cycle. Returns the number left.
    """
    n = start.shape[0] - 1
    out_degree = np.zeros(n, np.int64)
    in_degree = np.zeros(n, np.int64)
    for c in range(n):
        out_degree[c] = start[c + 1] - start[c]
        for i in range(start[c], start[c + 1]):
            in_degree[targets[i]] += 1
    back_start = np.zeros(n + 1, np.int64)
    for c in range(n):
        back_start[c + 1] = back_start[c] + in_degree[c]
    fill = back_start[:n].copy()
    back = np.empty(targets.shape[0], np.int32)
    for c in range(n):
        for i in range(start[c], start[c + 1]):
            back[fill[targets[i]]] = c
            fill[targets[i]] += 1
    queue = np.empty(n, np.int32)
    tail = 0
    left = n
    for c in range(n):
        alive[c] = out_degree[c] > 0 and in_degree[c] > 0
        if not alive[c]:
            queue[tail] = c
            tail += 1
    head = 0
    while head < tail:
        c = queue[head]
        head += 1
        left -= 1
        for i in range(start[c], start[c + 1]):
            t = targets[i]
            in_degree[t] -= 1
            if alive[t] and in_degree[t] == 0:
                alive[t] = False
                queue[tail] = t
                tail += 1
        for i in range(back_start[c], back_start[c + 1]):
            t = back[i]
            out_degree[t] -= 1
            if alive[t] and out_degree[t] == 0:
                alive[t] = False
                queue[tail] = t
                tail += 1
    return left


@kernel(steps=lambda start, targets, alive, cycle: 4 * len(start) + len(targets))
def any_cycle(start, targets, alive, cycle):
    """Follow first living successors until a node repeats: a cycle, into ``cycle``; returns its
    length."""
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


@kernel
def shorten(start, targets, alive, cycle, length, budget):
    """A shortest cycle: a search from every living node, none deeper than the best so far.

    A node that was searched is struck from ``alive``, since no shorter cycle runs through it. Gives
    up after ``budget`` steps over dependencies and keeps the best. Returns the length; ``cycle``
    int32[nodes] in and out.
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
        found = False
        while head < tail and not found:
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
                    found = True
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
