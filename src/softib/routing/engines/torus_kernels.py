"""Tables of a torus whose switches are placed. Positions are x, y, z from 0; ``at`` int32[X, Y, Z]
is the switch there, -1 = none."""

import numpy as np

from softib.jit import kernel
from softib.routing.engines.torus_placement_kernels import step


@kernel
def ring_links(grid, link):
    """``link`` int32[n, 3, 2]: a link of each switch down (0) or up (1) each axis, -1 = none.
    Returns links that join no neighbours."""
    first, peer, radix, wraps, at, position = grid.first, grid.peer, grid.radix, grid.wraps, grid.at, grid.position
    n = position.shape[0]
    link[:, :, :] = -1
    o = np.empty(3, np.int32)
    strange = 0
    for s in range(n):
        for e in range(first[s + 1] - 1, first[s] - 1, -1):
            w = peer[e]
            known = False
            if position[s, 0] >= 0 and position[w, 0] >= 0:
                for axis in range(3):
                    for up in range(2):
                        if step(position[s], axis, 2 * up - 1, radix, wraps, o) and at[o[0], o[1], o[2]] == w:
                            link[s, axis, up] = e
                            known = True
            strange += not known
    return strange


@kernel
def reach(radix, wraps, at, position, link, clear):
    """``clear`` int32[n, 3, 2] out: how many steps a packet can go down or up each ring before it
    meets a hole."""
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
    """Signed steps along ``axis`` from position ``from_`` to ``to`` (int32[3]) on a whole ring, the
    shorter way; half round so that both ways carry alike.

    Both directions of a path take the same cables of the ring, and so need the same SL. Half round,
    up from an odd coordinate and down from an even one does that where half a ring is odd. On a
    ring of four it does not, but only paths half round wait for a link there, and these close no
    cycle on one VL. Else over the dateline where the lower coordinate and those of both positions
    in later dimensions have an even sum.
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
    """``via`` int32[n, n]: the link from each switch towards each, dimension order x, y, z; -1 = no
    path.

    The short way round a ring, the long way where that meets a hole. Where both do (the switch at
    which the path would turn is missing), on in the next dimension as soon as the hole is the next
    step, or else towards it.
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
                    break  # the ring is in pieces
                if size > 1 and clear[s, axis, direction] == size - 1:
                    via[s, t] = link[s, axis, direction]
                    break
                if size > 1 and other > 1 and clear[s, axis, 1 - direction] == other - 1 and wraps[axis]:
                    via[s, t] = link[s, axis, 1 - direction]
                    break
                # the hole is next: this dimension waits, the next one goes on


@kernel
def _corner_is_missing(at, position, s, t, axis):
    """Is there no switch where a path from ``s`` would leave the ring of ``axis`` for ``t``?"""
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
    """``sl`` uint8[n, n]: bit d is set where the path on a whole torus crosses the dateline of
    dimension d (on a ring of four: where it has to)."""
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
