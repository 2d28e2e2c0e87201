"""Kernel of :mod:`softib.diags.capacity.cuts`: the method of Fiduccia and Mattheyses, which makes a cut narrower by
moving one switch at a time.
"""

from softib.jit import kernel, table

Switches = table("Switches", "first peer weight hosts dues")
"""``first``, ``peer``, ``weight``: CSR list of each switch's neighbours, and the capacity to each. ``hosts``: number of
hosts of each switch. ``dues[k]``: cost of ``k`` excess hosts on a side.
"""
Scratch = table("Scratch", "gain locked moved")
"""``gain``: capacity by which the cut shrinks if a switch moves. ``locked``: whether a switch moved in this pass.
``moved``: the moved switches in their order.
"""


@kernel
def off_balance(low, high, count):
    """Return the number of hosts that must change sides if ``count`` of them are on the first side."""
    if count > high:
        return count - high
    if count < low:
        return low - count
    return 0


@kernel
def set_gains(t, side, gain):
    """Compute for each switch the capacity by which the cut shrinks if the switch changes its side. Return twice the
    capacity of the cut.
    """
    first, peer, weight = t.first, t.peer, t.weight
    cut = 0.0
    for v in range(len(side)):
        g = 0.0
        for e in range(first[v], first[v + 1]):
            if side[peer[e]] == side[v]:
                g -= weight[e]
            else:
                g += weight[e]
                cut += weight[e]
        gain[v] = g
    return cut


@kernel
def move(t, v, side, gain):
    """Move switch ``v`` to the other side and update the gains of its neighbours."""
    first, peer, weight = t.first, t.peer, t.weight
    side[v] = 1 - side[v]
    gain[v] = -gain[v]
    for e in range(first[v], first[v + 1]):
        if side[peer[e]] == side[v]:
            gain[peer[e]] -= 2 * weight[e]
        else:
            gain[peer[e]] += 2 * weight[e]


@kernel(steps=lambda t, low, high, patience, passes, side, scratch: 4 * min(len(side), patience) * len(side))
def narrow(t, low, high, patience, passes, side, scratch):
    """Reduce the cost of the cut ``side`` (uint8[switches], changed in place) of the :data:`Switches` ``t``. Return the
    cost.

    The cost is the capacity across the cut plus ``t.dues[k]`` for ``k`` excess hosts on one side. A pass repeatedly
    moves the switch whose move costs least, even if the cut gets worse, but each switch at most once. It then restores
    the best cut that occurred.
    """
    hosts, dues = t.hosts, t.dues
    gain, locked, moved = scratch.gain, scratch.locked, scratch.moved
    n = len(side)
    cut = set_gains(t, side, gain) / 2
    count = 0
    for v in range(n):
        count += hosts[v] * side[v]
    best = cut + dues[off_balance(low, high, count)]
    for _ in range(passes):
        for v in range(n):
            locked[v] = 0
        kept = 0
        moves = 0
        start = best
        while moves < n and moves - kept < patience:
            chosen = -1
            lowest = 0.0
            for v in range(n):
                if locked[v] == 0:
                    change = hosts[v] * (1 - 2 * side[v])
                    cost = cut - gain[v] + dues[off_balance(low, high, count + change)]
                    if chosen < 0 or cost < lowest - 1e-9:
                        chosen = v
                        lowest = cost
            cut -= gain[chosen]
            count += hosts[chosen] * (1 - 2 * side[chosen])
            move(t, chosen, side, gain)
            locked[chosen] = 1
            moved[moves] = chosen
            moves += 1
            if lowest < best - 1e-9:
                best = lowest
                kept = moves
        for i in range(moves - 1, kept - 1, -1):
            v = moved[i]
            cut -= gain[v]
            count += hosts[v] * (1 - 2 * side[v])
            move(t, v, side, gain)
        if best > start - 1e-9:
            break
    return best
