"""Switches placed on a torus: from some that are placed to all that follow. Positions are x, y, z
from 0; ``at`` int32[X, Y, Z] is the switch there, -1 = none."""

import numpy as np

from softib.jit import kernel, table

__all__ = ["Grid", "place", "step"]

Grid = table("Grid", "first peer radix wraps at position")
"""The graph's links; ``radix`` int32[3] and ``wraps`` bool[3] of the axes; ``at`` int32[X, Y, Z]:
the switch at a place, -1 = none, and its inverse ``position`` int32[n, 3], -1 = not placed."""


@kernel
def step(position, axis, sign, radix, wraps, out):
    """The position next to ``position`` int32[3] into ``out``; False at the end of a mesh."""
    for d in range(3):
        out[d] = position[d]
    k = position[axis] + sign
    if k < 0 or k >= radix[axis]:
        if not wraps[axis]:
            return False
        k = (k + radix[axis]) % radix[axis]
    out[axis] = k
    return True


@kernel
def _joined(first, peer, a, b):
    for e in range(first[a], first[a + 1]):
        if peer[e] == b:
            return True
    return False


@kernel
def place(grid):
    """Place every switch that follows from those placed.

    Two rules, on faces of the torus (loops of four switches): the switch opposite to ``p`` on a
    face is the one more neighbour that both its neighbours have; the switch straight on from ``p``
    over ``q`` is the one neighbour of ``q`` left that shares one with the switch beside ``q``. The
    second waits until the first has no more to say, since a ring of four switches has other loops
    of four. Last, beside holes: a switch takes the one free place next to all its neighbours that
    have places, two at least.
    """
    position = grid.position
    n = position.shape[0]
    p, q, r, o = np.empty(3, np.int32), np.empty(3, np.int32), np.empty(3, np.int32), np.empty(3, np.int32)
    while True:
        changed = False
        for s in range(n):
            if position[s, 0] >= 0:
                for d in range(3):
                    p[d] = position[s, d]
                changed |= _opposite(grid, s, p, q, r, o)
        if changed:
            continue
        for s in range(n):
            if position[s, 0] >= 0 and not changed:
                for d in range(3):
                    p[d] = position[s, d]
                changed = _straight(grid, s, p, q, r, o)
        for s in range(n):
            if not changed and position[s, 0] < 0:
                changed = _between(grid, s, q, r, o)
        if not changed:
            break


@kernel
def _opposite(grid, s, p, q, r, o):
    first, peer, radix, wraps, at, position = grid.first, grid.peer, grid.radix, grid.wraps, grid.at, grid.position
    changed = False
    for a in range(3):
        for b in range(a + 1, 3):
            if radix[a] == 1 or radix[b] == 1:
                continue
            for sign_a in (-1, 1):
                for sign_b in (-1, 1):
                    if not step(p, a, sign_a, radix, wraps, q) or not step(p, b, sign_b, radix, wraps, r):
                        continue
                    u, v = at[q[0], q[1], q[2]], at[r[0], r[1], r[2]]
                    if u < 0 or v < 0 or not step(q, b, sign_b, radix, wraps, o) or at[o[0], o[1], o[2]] >= 0:
                        continue
                    found = -1
                    for e in range(first[u], first[u + 1]):
                        w = peer[e]
                        if w != s and w != found and position[w, 0] < 0 and _joined(first, peer, w, v):
                            found = w if found == -1 else -2
                    if found >= 0:
                        _put(at, position, found, o)
                        changed = True
    return changed


@kernel
def _straight(grid, s, p, q, r, o):
    first, peer, radix, wraps, at, position = grid.first, grid.peer, grid.radix, grid.wraps, grid.at, grid.position
    for a in range(3):
        if radix[a] == 1:
            continue
        for sign in (-1, 1):
            if not step(p, a, sign, radix, wraps, q) or not step(q, a, sign, radix, wraps, o):
                continue
            u = at[q[0], q[1], q[2]]
            if u < 0 or at[o[0], o[1], o[2]] >= 0:
                continue
            found = -1
            for e in range(first[u], first[u + 1]):
                w = peer[e]
                if w != found and position[w, 0] < 0 and _runs_along(grid, w, u, q, a, r):
                    found = w if found == -1 else -2
            if found >= 0:
                _put(at, position, found, o)
                return True
    return False


@kernel
def _runs_along(grid, w, u, q, axis, r):
    """Does ``w`` share a neighbour that is not placed with a switch beside ``u`` (at ``q``) across
    ``axis``, on every other axis?

    A neighbour of ``u`` along another axis does not on that one.
    """
    first, peer, radix, wraps, at, position = grid.first, grid.peer, grid.radix, grid.wraps, grid.at, grid.position
    axes, agree = 0, 0
    for b in range(3):
        if b == axis or radix[b] == 1:
            continue
        axes += 1
        known, shared = False, False
        for sign in (-1, 1):
            if not step(q, b, sign, radix, wraps, r):
                continue
            v = at[r[0], r[1], r[2]]
            if v < 0:
                continue
            known = True
            for e in range(first[w], first[w + 1]):
                x = peer[e]
                if x != u and position[x, 0] < 0 and _joined(first, peer, x, v):
                    shared = True
        if known and not shared:
            return False
        agree += shared
    return agree > 0 or axes == 0


@kernel
def _between(grid, s, q, r, o):
    first, peer, radix, wraps, at, position = grid.first, grid.peer, grid.radix, grid.wraps, grid.at, grid.position
    placed = 0
    for e in range(first[s], first[s + 1]):
        placed += position[peer[e], 0] >= 0
    if placed < 2:
        return False
    spots = 0
    for e in range(first[s], first[s + 1]):
        u = peer[e]
        if position[u, 0] < 0:
            continue
        for axis in range(3):
            for sign in (-1, 1):
                if radix[axis] == 1 or not step(position[u], axis, sign, radix, wraps, q) or at[q[0], q[1], q[2]] >= 0:
                    continue
                adjacent, neighbours = 0, 0
                for f in range(first[s], first[s + 1]):
                    v = peer[f]
                    if position[v, 0] < 0:
                        continue
                    adjoins = False
                    for b in range(3):
                        for direction in (-1, 1):
                            if step(q, b, direction, radix, wraps, r) and at[r[0], r[1], r[2]] == v:
                                adjoins = True
                    adjacent += adjoins
                    neighbours += v != u
                if adjacent < placed or neighbours == 0:
                    continue
                if spots == 0:
                    for d in range(3):
                        o[d] = q[d]
                    spots = 1
                elif o[0] != q[0] or o[1] != q[1] or o[2] != q[2]:
                    return False
    if spots:
        _put(at, position, s, o)
    return spots > 0


@kernel
def _put(at, position, switch, o):
    at[o[0], o[1], o[2]] = switch
    for d in range(3):
        position[switch, d] = o[d]
