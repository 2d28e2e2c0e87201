# mypy: ignore-errors
"""Which destinations may change their forwarding entries together, by the dependencies that their packets have meanwhile."""

import numpy as np

from softib.jit import inner, kernel
from softib.routing.order_kernels import ADDED, add_dependency

OLD, MIXED, NEW, PASSING = 0, 1, 2, 3
"""Kinds of dependencies: of the old table; of an old link to a switch that has changed; of the new table; of the new table behind such a switch alone."""


@inner
def dependencies(old, new, lid, at, peer, sources, seen, out):
    """Dependencies of packets for ``lid`` while its entries change destination outwards, into ``out`` int32[3, …]: (kind, held link, wanted link).

    ``at`` int32[switches, 256]: link row of a port, negative for none; ``sources``: switches with hosts; ``seen`` int8[switches] scratch. Returns how many.
    """
    n = 0
    seen[:] = 0
    for i in range(sources.shape[0]):
        s = sources[i]
        while not seen[s] & 1:
            seen[s] |= 1
            a = at[s, old[s, lid]]
            if a < 0:
                break
            t = peer[a]
            b = at[t, old[t, lid]]
            if b >= 0:
                out[0, n], out[1, n], out[2, n] = OLD, a, b
                n += 1
            if old[t, lid] != new[t, lid]:
                b = at[t, new[t, lid]]
                if b >= 0:
                    out[0, n], out[1, n], out[2, n] = MIXED, a, b
                    n += 1
            s = t
    for kind in (NEW, PASSING):
        for i in range(sources.shape[0] if kind == NEW else seen.shape[0]):
            s = sources[i] if kind == NEW else i
            if kind == PASSING and not seen[s] & 1:
                continue
            while not seen[s] & 2:
                seen[s] |= 2
                a = at[s, new[s, lid]]
                if a < 0:
                    break
                t = peer[a]
                b = at[t, new[t, lid]]
                if b >= 0:
                    out[0, n], out[1, n], out[2, n] = kind, a, b
                    n += 1
                s = t
    return n


@inner
def ordered(c, vl_state, degree):
    """Put the channels into a topological order; False where the dependencies that are present have a cycle. ``degree`` int32[links] is scratch."""
    links, node_at = c.peer.shape[0], vl_state.node_at
    degree[:] = 0
    for a in range(links):
        base, first = c.first[c.peer[a]], c.dep_first[a]
        for k in range(c.first[c.peer[a] + 1] - base):
            if vl_state.present[first + k] == ADDED:
                degree[base + k] += 1
    tail = 0
    for a in range(links):
        if degree[a] == 0:
            node_at[tail] = a
            tail += 1
    head = 0
    while head < tail:
        a = node_at[head]
        vl_state.place[a] = head
        head += 1
        base, first = c.first[c.peer[a]], c.dep_first[a]
        for k in range(c.first[c.peer[a] + 1] - base):
            if vl_state.present[first + k] == ADDED:
                degree[base + k] -= 1
                if degree[base + k] == 0:
                    node_at[tail] = base + k
                    tail += 1
    return tail == links


@inner
def take_away(c, vl_state, count, a, b):
    """One packet's dependency of link ``a`` on link ``b`` less."""
    dep = c.dep_first[a] + b - c.first[c.peer[a]]
    count[dep] -= 1
    if count[dep] == 0:
        vl_state.present[dep] = 0


@kernel
def start_counts(c, vl_state, count, tables, lids, at, sources):
    """Count the dependencies of ``tables`` uint8[switches, LIDs] into ``count`` int32[dependencies]; False where they have a cycle."""
    seen, out = np.zeros(tables.shape[0], np.int8), np.empty((3, 4 * tables.shape[0]), np.int32)
    for i in range(lids.shape[0]):
        n = dependencies(tables, tables, lids[i], at, c.peer, sources, seen, out)
        for e in range(n):
            if out[0, e] == OLD:
                dep = c.dep_first[out[1, e]] + out[2, e] - c.first[c.peer[out[1, e]]]
                count[dep] += 1
                vl_state.present[dep] = ADDED
    return ordered(c, vl_state, np.empty(c.peer.shape[0], np.int32))


@kernel
def one_stage(c, vl_state, count, old, new, lids, at, sources, number, stage):
    """Put those of ``lids`` whose ``stage`` (int32[lids]) is 0 into stage ``number`` as long as no cycle is closed by what has changed, what changes in
    this stage, and what has yet to change. Then what this stage's old entries alone needed is taken away. Returns how many it has."""
    seen, out = np.zeros(old.shape[0], np.int8), np.empty((3, 4 * old.shape[0]), np.int32)
    placed = 0
    for i in range(lids.shape[0]):
        if stage[i]:
            continue
        n, fits, e = dependencies(old, new, lids[i], at, c.peer, sources, seen, out), True, 0
        while fits and e < n:
            a, b = out[1, e], out[2, e]
            dep = c.dep_first[a] + b - c.first[c.peer[a]]
            if out[0, e] == OLD:
                pass
            elif count[dep] > 0 or add_dependency(c, vl_state, a, b) >= 0:
                count[dep] += 1
            else:
                fits = False
            e += 1
        if fits:
            stage[i] = number
            placed += 1
            continue
        for undone in range(e - 1):
            if out[0, undone] != OLD:
                take_away(c, vl_state, count, out[1, undone], out[2, undone])
    for i in range(lids.shape[0]):
        if stage[i] == number:
            n = dependencies(old, new, lids[i], at, c.peer, sources, seen, out)
            for e in range(n):
                if out[0, e] != NEW:
                    take_away(c, vl_state, count, out[1, e], out[2, e])
    return placed
