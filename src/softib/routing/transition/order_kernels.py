"""Dependencies between channels. Each is added only if it closes no cycle.

The order of the channels stays topological when dependencies are added (D. Pearce, P. Kelly, "A
dynamic topological sort algorithm for directed acyclic graphs", ACM J. Experimental Algorithmics
11, 2007). A dependency that agrees with the order costs one comparison; any other costs two
searches. The searches process the links of a switch in words of 64. The channels that they find are
put in order with bit masks, because sorting took as long as the searches.
"""

import numpy as np

from softib.jit import kernel, table

Channels = table("Channels", "first peer reverse owner dep_first canon")
"""Directed links between switches as channels. ``owner`` int32[links]: the switch that sends.
Dependency ``dep_first[a] + k`` is that of link ``a`` on the k-th link of the switch at its other
end. ``canon`` int32[links]: the channel that represents a link."""
VlState = table("VlState", "present place node_at fwd bwd keys ahead behind seen bits")
"""One VL. ``present`` uint8[dependencies]: 0, ADDED, or BLOCKED (not to be tried again). ``place``
int32[links]: position of each channel in the order; ``node_at`` is its inverse.

ADDED dependencies are stored again in two forms for the searches. ``ahead`` uint64[links, words]:
bit k of a link means that it waits for the k-th link of the switch at its other end. ``behind``
uint64[links, words]: bit k means that the reverse of the k-th link of the sending switch waits for
this link. :func:`put` and :func:`take` keep all three consistent. ``fwd``, ``bwd``, ``keys``
int32[links], ``seen`` uint64[switches, words] and ``bits`` uint64[links / 64 + 1] (zeros) are
scratch."""

CYCLE = -1
ADDED, BLOCKED = 1, 2


@kernel
def put(c, vl_state, a, b):
    """Make channel ``a`` wait for ``b`` from now on, even if that closes a cycle."""
    v = c.peer[a]
    k, r = b - c.first[v], c.reverse[a] - c.first[v]
    vl_state.present[c.dep_first[a] + k] = ADDED
    vl_state.ahead[a, k >> 6] |= np.uint64(1) << np.uint64(k & 63)
    vl_state.behind[b, r >> 6] |= np.uint64(1) << np.uint64(r & 63)


@kernel
def take(c, vl_state, a, b, left):
    """Remove the dependency of channel ``a`` on ``b``. Its state becomes ``left``: 0, or
    BLOCKED."""
    v = c.peer[a]
    k, r = b - c.first[v], c.reverse[a] - c.first[v]
    vl_state.present[c.dep_first[a] + k] = left
    vl_state.ahead[a, k >> 6] &= ~(np.uint64(1) << np.uint64(k & 63))
    vl_state.behind[b, r >> 6] &= ~(np.uint64(1) << np.uint64(r & 63))


@kernel
def take_number(c, vl_state, dep):
    """Remove dependency number ``dep`` of :func:`add_dependency`."""
    low, high = 0, c.peer.shape[0]  # the last channel whose dep_first is not above dep
    while high - low > 1:
        middle = (low + high) >> 1
        if c.dep_first[middle] <= dep:
            low = middle
        else:
            high = middle
    take(c, vl_state, low, c.first[c.peer[low]] + dep - c.dep_first[low], 0)


@kernel
def add_dependency(c, vl_state, a, b):
    """Make channel ``a`` wait for ``b``. Returns the dependency's number if it is new, -2 if it
    exists, CYCLE if it would close a cycle (then nothing changes)."""
    dep = c.dep_first[a] + b - c.first[c.peer[a]]
    if vl_state.present[dep] == ADDED:
        return np.int64(-2)
    if vl_state.present[dep] == BLOCKED:
        return np.int64(CYCLE)
    if vl_state.place[a] > vl_state.place[b] and not _put_before(c, vl_state, a, b):
        return np.int64(CYCLE)
    put(c, vl_state, a, b)
    return np.int64(dep)


@kernel(shared=True, _nrt=False)
def _put_before(c, vl_state, a, b):
    """Move channel ``a``, whose place is after ``b``, to a place before it. Channels between them
    that lead to ``a``, or that ``b`` leads to, move too. Return False and change nothing if ``b``
    leads to ``a``."""
    ahead = _ahead(c, vl_state, a, b, vl_state.place[a])
    if ahead < 0:
        return False
    behind = _behind(c, vl_state, a, vl_state.place[b])
    _reorder(vl_state, ahead, behind)
    return True


@kernel
def lowest(bits):
    """Return the index of the lowest set bit: the number of bits below it."""
    below = (bits & (~bits + np.uint64(1))) - np.uint64(1)
    below -= (below >> np.uint64(1)) & np.uint64(0x5555555555555555)
    below = (below & np.uint64(0x3333333333333333)) + ((below >> np.uint64(2)) & np.uint64(0x3333333333333333))
    below = (below + (below >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((below * np.uint64(0x0101010101010101)) >> np.uint64(56))


@lowest.in_python
def _lowest(bits):
    number = int(bits)
    return (number & -number).bit_length() - 1


@kernel
def _ahead(c, vl_state, a, b, upper):
    """Collect the channels before place ``upper`` that ``b`` leads to, into ``fwd``; return -1 if
    ``a`` is one of them."""
    fwd, seen, place, wanted = vl_state.fwd, vl_state.seen, vl_state.place, c.owner[a]
    k = a - c.first[wanted]
    fwd[0] = b
    start = c.owner[b]
    seen[start, (b - c.first[start]) >> 6] |= np.uint64(1) << np.uint64((b - c.first[start]) & 63)
    head, tail = 0, 1
    reached = False
    while head < tail and not reached:
        x = fwd[head]
        head += 1
        v = c.peer[x]
        reached = v == wanted and (vl_state.ahead[x, k >> 6] >> np.uint64(k & 63)) & np.uint64(1) != 0
        for w in range(seen.shape[1]):
            bits = vl_state.ahead[x, w] & ~seen[v, w]
            seen[v, w] |= bits
            while bits:
                y = c.first[v] + 64 * w + lowest(bits)
                bits &= bits - np.uint64(1)
                if place[y] < upper:
                    fwd[tail] = y
                    tail += 1
    seen[start] = 0
    for i in range(head):
        seen[c.peer[fwd[i]]] = 0
    return -1 if reached else tail


@_ahead.in_python
def _ahead_by_integers(c, vl_state, a, b, upper):
    """Do the same as :func:`_ahead`, with the links of a switch as one Python integer."""
    fwd, place, first, peer, wanted = vl_state.fwd, vl_state.place, c.first, c.peer, c.owner[a]
    k, start = int(a - first[wanted]), c.owner[b]
    fwd[0] = b
    seen = {start: 1 << int(b - first[start])}
    head, tail = 0, 1
    while head < tail:
        x = fwd[head]
        head += 1
        v = peer[x]
        links, visited = _row(vl_state.ahead, x), seen.get(v, 0)
        seen[v] = links | visited
        for y in _numbers(links & ~visited, int(first[v])):
            if place[y] < upper:
                fwd[tail] = y
                tail += 1
        if v == wanted and links >> k & 1:
            return -1
    return tail


def _row(masks, x):
    """Return row ``x`` of ``masks`` uint64[n, words] as an integer."""
    bits = masks.item(x, 0)
    for w in range(1, masks.shape[1]):
        bits |= masks.item(x, w) << 64 * w
    return bits


def _numbers(bits, begin):
    """Return ``begin`` plus the index of each set bit of an integer, ascending."""
    while bits:
        low = bits & -bits
        bits ^= low
        yield begin + low.bit_length() - 1


@kernel
def _behind(c, vl_state, a, lower):
    """Collect the channels after place ``lower`` that lead to ``a``, into ``bwd``."""
    bwd, seen, place = vl_state.bwd, vl_state.seen, vl_state.place
    bwd[0] = a
    start = c.peer[a]
    k = c.reverse[a] - c.first[start]
    seen[start, k >> 6] |= np.uint64(1) << np.uint64(k & 63)
    head, tail = 0, 1
    while head < tail:
        x = bwd[head]
        head += 1
        u = c.owner[x]
        for w in range(seen.shape[1]):
            bits = vl_state.behind[x, w] & ~seen[u, w]
            seen[u, w] |= bits
            while bits:
                y = c.reverse[c.first[u] + 64 * w + lowest(bits)]
                bits &= bits - np.uint64(1)
                if place[y] > lower:
                    bwd[tail] = y
                    tail += 1
    seen[start] = 0
    for i in range(head):
        seen[c.owner[bwd[i]]] = 0
    return tail


@_behind.in_python
def _behind_by_integers(c, vl_state, a, lower):
    """Do the same as :func:`_behind`, with the links of a switch as one Python integer."""
    bwd, place, first, owner, reverse, start = vl_state.bwd, vl_state.place, c.first, c.owner, c.reverse, c.peer[a]
    bwd[0] = a
    seen = {start: 1 << int(reverse[a] - first[start])}
    head, tail = 0, 1
    while head < tail:
        x = bwd[head]
        head += 1
        u = owner[x]
        links, visited = _row(vl_state.behind, x), seen.get(u, 0)
        seen[u] = links | visited
        for at in _numbers(links & ~visited, int(first[u])):
            y = reverse[at]
            if place[y] > lower:
                bwd[tail] = y
                tail += 1
    return tail


@kernel
def _reorder(vl_state, ahead, behind):
    """Distribute the places of both sets again: first to the channels in ``behind``, then to those
    in ``ahead``, each in their previous order."""
    fwd, bwd, keys, place, node_at, bits = (
        vl_state.fwd,
        vl_state.bwd,
        vl_state.keys,
        vl_state.place,
        vl_state.node_at,
        vl_state.bits,
    )
    first, last = place[fwd[0]] >> 6, place[bwd[0]] >> 6
    filled = _in_order(vl_state, bwd, behind, first, last, 0)
    filled = _in_order(vl_state, fwd, ahead, first, last, filled)
    _set_bits(vl_state, bwd, behind)
    _set_bits(vl_state, fwd, ahead)
    k = 0
    for w in range(first, last + 1):
        word = bits[w]
        bits[w] = 0
        while word:
            at = 64 * w + lowest(word)
            word &= word - np.uint64(1)
            place[keys[k]] = at
            node_at[at] = keys[k]
            k += 1


@_reorder.in_python
def _reorder_by_sorting(vl_state, ahead, behind):
    """Sort the channels by their places."""
    place, node_at, keys = vl_state.place, vl_state.node_at, vl_state.keys
    channels = []
    for those, count in ((vl_state.bwd, behind), (vl_state.fwd, ahead)):
        channels += sorted(those[:count].tolist(), key=place.__getitem__)
    ranks = sorted(place[channel] for channel in channels)
    for i, (channel, at) in enumerate(zip(channels, ranks, strict=True)):
        keys[i] = node_at[at] = channel
        place[channel] = at


@kernel
def _set_bits(vl_state, channels, count):
    for i in range(count):
        at = vl_state.place[channels[i]]
        vl_state.bits[at >> 6] |= np.uint64(1) << np.uint64(at & 63)


@kernel
def _in_order(vl_state, channels, count, first, last, filled):
    """Write ``channels[:count]``, whose places are in words ``first`` to ``last``, to ``keys`` from
    ``filled`` on, sorted by place; return the new end."""
    _set_bits(vl_state, channels, count)
    for w in range(first, last + 1):
        word = vl_state.bits[w]
        vl_state.bits[w] = 0
        while word:
            vl_state.keys[filled] = vl_state.node_at[64 * w + lowest(word)]
            word &= word - np.uint64(1)
            filled += 1
    return filled


@kernel
def add_from_the_end(c, vl_state, path, length, fresh):
    """Add the dependencies of a path (channels ``path[:length]``), the last first: either all or
    none. Returns -1 if they were added, otherwise the index of the first channel whose dependency
    closes a cycle with those after it.

    A dependency that closes a cycle by itself is BLOCKED from then on, because dependencies are never removed.
    """
    for i in range(length - 2, -1, -1):
        if vl_state.present[c.dep_first[path[i]] + path[i + 1] - c.first[c.peer[path[i]]]] == BLOCKED:
            return i
    count = 0
    for i in range(length - 2, -1, -1):
        dep = add_dependency(c, vl_state, path[i], path[i + 1])
        if dep == CYCLE:
            for k in range(count):
                take(c, vl_state, path[fresh[k]], path[fresh[k] + 1], 0)
            if count:
                dep = add_dependency(c, vl_state, path[i], path[i + 1])
            if dep >= 0:
                take(c, vl_state, path[i], path[i + 1], 0)
            else:
                vl_state.present[c.dep_first[path[i]] + path[i + 1] - c.first[c.peer[path[i]]]] = BLOCKED
            return i
        if dep >= 0:
            fresh[count] = i
            count += 1
    return -1


@kernel(steps=lambda c, vl_state, needs: len(needs) // 2 + int(np.bitwise_count(needs).sum()) // 3)
def put_all(c, vl_state, needs):
    """Fill an empty VL with the dependencies ``needs`` (uint64[links, words], bit k: the k-th link
    of the switch at the link's end), and order the channels so that each precedes those it waits
    for. Returns the number of channels that have a place in that order: all, unless there is a
    cycle.
    """
    n = needs.shape[0]
    waiting = np.zeros(n, np.int32)
    for a in range(n):
        start = c.first[c.peer[a]]
        r = c.reverse[a] - start
        for w in range(needs.shape[1]):
            bits = needs[a, w]
            vl_state.ahead[a, w] = bits
            while bits:
                k = 64 * w + lowest(bits)
                bits &= bits - np.uint64(1)
                vl_state.present[c.dep_first[a] + k] = ADDED
                vl_state.behind[start + k, r >> 6] |= np.uint64(1) << np.uint64(r & 63)
                waiting[start + k] += 1
    order = vl_state.node_at
    tail = 0
    for a in range(n):
        if waiting[a] == 0:
            order[tail] = a
            tail += 1
    head = 0
    while head < tail:
        a = order[head]
        vl_state.place[a] = head
        head += 1
        for w in range(needs.shape[1]):
            bits = needs[a, w]
            while bits:
                b = c.first[c.peer[a]] + 64 * w + lowest(bits)
                bits &= bits - np.uint64(1)
                waiting[b] -= 1
                if waiting[b] == 0:
                    order[tail] = b
                    tail += 1
    return tail


@put_all.in_python
def _put_all_by_columns(c, vl_state, needs):
    """Do the same as :func:`put_all`, with all arrays except the order as columns."""
    first, peer, reverse = np.asarray(c.first), np.asarray(c.peer), np.asarray(c.reverse)
    masks = np.ascontiguousarray(needs, "<u8")
    a, k = np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little").nonzero()
    begin = first[peer[a]]
    b, r = begin + k, (reverse[a] - begin).astype(np.uint64)
    vl_state.ahead[:] = needs
    np.asarray(vl_state.present)[np.asarray(c.dep_first)[a] + k] = ADDED
    np.bitwise_or.at(vl_state.behind, (b, r >> np.uint64(6)), np.uint64(1) << (r & np.uint64(63)))
    waiting = np.bincount(b, minlength=len(needs)).tolist()
    waits_for, ends = b.tolist(), np.bincount(a, minlength=len(needs)).cumsum().tolist()
    order = [channel for channel, count in enumerate(waiting) if not count]
    for channel in order:  # the order grows during this loop
        for other in waits_for[ends[channel - 1] if channel else 0 : ends[channel]]:
            waiting[other] -= 1
            if not waiting[other]:
                order.append(other)
    ordered = np.array(order, np.int32)
    np.asarray(vl_state.node_at)[: len(ordered)] = ordered
    np.asarray(vl_state.place)[ordered] = np.arange(len(ordered))
    return len(ordered)
