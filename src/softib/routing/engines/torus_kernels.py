"""Tables of a torus whose switches have been placed. Positions are x, y, z from 0. ``at`` int32[X,
Y, Z] is the switch at a position, -1 = none."""

import numpy as np

from softib.jit import kernel, table

Grid = table("Grid", "first peer radix wraps at position")
"""The links of the graph; ``radix`` int32[3] and ``wraps`` bool[3] of the axes; ``at`` int32[X, Y,
Z]: the switch at a position, -1 = none; and its inverse ``position`` int32[n, 3], -1 = not
placed."""


@kernel
def step(position, axis, sign, radix, wraps, out):
    """Write the position next to ``position`` int32[3] into ``out``; return False at the end of a mesh."""
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
    """Place every switch whose position follows from those already placed.

    Two rules apply to faces of the torus (loops of four switches). First: the switch opposite to
    ``p`` on a face is the only other neighbour that both its neighbours have in common. Second: the
    switch in line with ``p`` and ``q`` is the one remaining neighbour of ``q`` that has a neighbour
    in common with the switch next to ``q``. The second rule is used when the first places no more
    switches, since a ring of four switches has other loops of four. Finally, next to missing
    switches, a switch gets the only free position next to all its placed neighbours, if it has at
    least two of them.
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
                    opposite = -1
                    for e in range(first[u], first[u + 1]):
                        w = peer[e]
                        if w != s and w != opposite and position[w, 0] < 0 and _joined(first, peer, w, v):
                            opposite = w if opposite == -1 else -2
                    if opposite >= 0:
                        _put(at, position, opposite, o)
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
            straight = -1
            for e in range(first[u], first[u + 1]):
                w = peer[e]
                if w != straight and position[w, 0] < 0 and _runs_along(grid, w, u, q, a, r):
                    straight = w if straight == -1 else -2
            if straight >= 0:
                _put(at, position, straight, o)
                return True
    return False


@kernel
def _runs_along(grid, w, u, q, axis, r):
    """Return whether ``w`` shares an unplaced neighbour with a switch next to ``u`` (at ``q``) across
    ``axis``, on every other axis.

    A neighbour of ``u`` along another axis does not share one on that axis.
    """
    first, peer, radix, wraps, at, position = grid.first, grid.peer, grid.radix, grid.wraps, grid.at, grid.position
    axes, agree = 0, 0
    for b in range(3):
        if b == axis or radix[b] == 1:
            continue
        axes += 1
        decided, shared = False, False
        for sign in (-1, 1):
            if not step(q, b, sign, radix, wraps, r):
                continue
            v = at[r[0], r[1], r[2]]
            if v < 0:
                continue
            decided = True
            for e in range(first[w], first[w + 1]):
                x = peer[e]
                if x != u and position[x, 0] < 0 and _joined(first, peer, x, v):
                    shared = True
        if decided and not shared:
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


@kernel
def ring_links(grid, link):
    """Write ``link`` int32[n, 3, 2]: a link of each switch down (0) or up (1) each axis, -1 = none.
    Returns the links that do not join neighbours."""
    first, peer, radix, wraps, at, position = grid.first, grid.peer, grid.radix, grid.wraps, grid.at, grid.position
    n = position.shape[0]
    link[:, :, :] = -1
    o = np.empty(3, np.int32)
    strange = 0
    for s in range(n):
        for e in range(first[s + 1] - 1, first[s] - 1, -1):
            w = peer[e]
            decided = False
            if position[s, 0] >= 0 and position[w, 0] >= 0:
                for axis in range(3):
                    for up in range(2):
                        if step(position[s], axis, 2 * up - 1, radix, wraps, o) and at[o[0], o[1], o[2]] == w:
                            link[s, axis, up] = e
                            decided = True
            strange += not decided
    return strange


@kernel
def reach(radix, wraps, at, position, link, clear):
    """Write ``clear`` int32[n, 3, 2]: the number of steps that a packet can go down or up each ring
    before it reaches a missing switch."""
    n = position.shape[0]
    o, p = np.empty(3, np.int32), np.empty(3, np.int32)
    for s in range(n):
        for axis in range(3):
            for up in range(2):
                clear[s, axis, up] = 0
                if position[s, 0] < 0:
                    continue
                w = s
                for d in range(3):
                    p[d] = position[s, d]
                for k in range(radix[axis] - 1):
                    if link[w, axis, up] < 0:
                        break
                    step(p, axis, 2 * up - 1, radix, wraps, o)
                    for d in range(3):
                        p[d] = o[d]
                    w = at[p[0], p[1], p[2]]
                    clear[s, axis, up] += 1


@kernel
def steps_between(from_, to, axis, radix, wraps):
    """Return the signed number of steps along ``axis`` from position ``from_`` to ``to`` (int32[3])
    on a complete ring, in the shorter direction. If both directions are equally long, the direction
    is chosen such that both carry equal load.

    Both directions of a path should use the same cables of the ring, and so need the same SL. For
    half a ring, going up from odd coordinates and down from even ones achieves that if half a ring
    is odd. On a ring of four it does not. But there, only paths over half the ring wait for a link,
    and these close no cycle on one VL. In all other cases, the path crosses the dateline if the
    lower coordinate and the coordinates of both positions in later dimensions have an even sum.
    """
    a, b, half = from_[axis], to[axis], radix[axis] >> 1
    if not wraps[axis] or 2 * abs(b - a) < radix[axis]:
        return b - a
    around = b - a - radix[axis] if b > a else b - a + radix[axis]
    if 2 * abs(b - a) > radix[axis]:
        return around
    if half & 1 or half == 2:
        return half if a & 1 else -half
    over = min(a, b) & 1 ^ 1
    for later in range(axis + 1, 3):
        over ^= (from_[later] + to[later]) & 1
    return around if over else b - a


@kernel
def next_links(radix, wraps, at, position, link, clear, via):
    """Write ``via`` int32[n, n]: the link from each switch towards each other switch, in dimension
    order x, y, z; -1 = no path.

    Use the shorter direction of a ring, or the longer one if a switch is missing in the shorter. If
    switches are missing in both (the switch at the turn of the path), go towards the missing switch
    until it is the next step, and then continue in the next dimension.
    """
    n = position.shape[0]
    for s in range(n):
        for t in range(n):
            via[s, t] = -1
            if s == t or position[s, 0] < 0 or position[t, 0] < 0:
                continue
            for axis in range(3):
                a, b = position[s, axis], position[t, axis]
                if a == b:
                    continue
                up = steps_between(position[s], position[t], axis, radix, wraps)
                size = abs(up)
                direction = 1 if up > 0 else 0
                if clear[s, axis, direction] >= size:
                    via[s, t] = link[s, axis, direction]
                    break
                other = radix[axis] - size
                if wraps[axis] and clear[s, axis, 1 - direction] >= other:
                    via[s, t] = link[s, axis, 1 - direction]
                    break
                if not _corner_is_missing(at, position, s, t, axis):
                    break  # the ring is broken in both directions
                if size > 1 and clear[s, axis, direction] == size - 1:
                    via[s, t] = link[s, axis, direction]
                    break
                if size > 1 and other > 1 and clear[s, axis, 1 - direction] == other - 1 and wraps[axis]:
                    via[s, t] = link[s, axis, 1 - direction]
                    break
                # the next switch is missing: continue in the next dimension first


@kernel
def _corner_is_missing(at, position, s, t, axis):
    """Return whether the switch is missing at which a path from ``s`` to ``t`` would leave the ring
    of ``axis``."""
    x, y, z = position[s, 0], position[s, 1], position[s, 2]
    if axis == 0:
        x = position[t, 0]
    elif axis == 1:
        y = position[t, 1]
    else:
        z = position[t, 2]
    return at[x, y, z] < 0


@kernel
def dateline_sls(radix, wraps, position, sl):
    """Write ``sl`` uint8[n, n]: bit d is set if the path on a complete torus crosses the dateline
    of dimension d (on a ring of four: if it must)."""
    n = position.shape[0]
    for s in range(n):
        for t in range(n):
            bits = 0
            for axis in range(3):
                if position[s, 0] >= 0 and position[t, 0] >= 0:
                    a, b = position[s, axis], position[t, axis]
                    up = steps_between(position[s], position[t], axis, radix, wraps)
                    bits |= (a + up != b and not (radix[axis] == 4 and abs(up) == 2)) << axis
            sl[s, t] = bits
