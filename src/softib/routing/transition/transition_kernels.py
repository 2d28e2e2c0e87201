"""Find destinations whose forwarding entries may change together, from the dependencies of their
packets during the change."""

import numpy as np

from softib.jit import inner, kernel, table
from softib.routing.transition.order_kernels import ADDED, add_dependency, put, take

OLD, MIXED, NEW, PASSING = 0, 1, 2, 3
"""Kinds of dependencies. OLD: within the old table. MIXED: from an old link to a link of the new
table, at a switch that has changed. NEW: within the new table. PASSING: within the new table, but
only after such a switch."""

Net = table("Net", "at peer out_port peer_port sl2vl vls switch port")
"""``at`` int32[switches, 256]: link row of a port, negative for none. ``peer``, ``out_port``,
``peer_port``: by link. ``sl2vl`` uint8[n or 1, in or 1, out or 1, 16]: VL by SL, 255 for none (a
dimension of 1 applies to every index). ``vls`` int64[1]: number of VLs of a link. ``switch``,
``port`` int32[sources]: where hosts send into the fabric."""
SlMasks = table("SlMasks", "before after end")
"""``before``, ``after`` uint16[n or 1, ends or 1]: bit k means that CAs of the switch send packets
of SL k to the end port, with the earlier SLs (``before``) or with the earlier and new ones
(``after``). ``end`` int32[lids]: the destination's column."""
Tables = table("Tables", "old new")
"""Forwarding tables uint8[switches, LIDs], before and after."""
Marks = table("Marks", "old new touched out")
"""Scratch: ``old``, ``new`` uint16[channels] zeros, ``touched`` int32[1 + 2 channels] (how many,
then which), ``out`` int32[3, dependencies of one LID]."""


@inner
def vl_of(net, e, s, came, sl):
    """Return the VL of packets of SL ``sl`` that came to switch ``s`` through port ``came`` and
    leave over link ``e``; -1 if they are dropped."""
    t = net.sl2vl
    vl = t[s if t.shape[0] > 1 else 0, came if t.shape[1] > 1 else 0, net.out_port[e] if t.shape[2] > 1 else 0, sl]
    return np.int64(-1) if vl == 255 else np.int64(vl)


@inner
def _mark(seen, touched, c, sl):
    """Return whether the channel was already visited with this SL. Mark it as visited."""
    bit = np.uint16(1 << sl)
    if seen[c] & bit:
        return True
    if seen[c] == 0:
        touched[0] += 1
        touched[touched[0]] = c
    seen[c] |= bit
    return False


@inner
def _channel(net, table, lid, s, came, sl):
    """Return the channel that a packet takes from switch ``s``, which it entered through port ``came``; -1: none."""
    e = net.at[s, table[s, lid]]
    if e < 0:
        return np.int64(-1)
    vls = net.vls[0]
    vl = vl_of(net, e, s, came, sl) if vls > 1 else np.int64(0)
    return np.int64(-1) if vl < 0 else np.int64(e * vls + vl)


@inner
def new_path(kind, lid, sl, s, came, held, new, net, marks, n):
    """Follow the new table from switch ``s``, which packets entered through port ``came`` and
    channel ``held`` (-1: from a host). With one VL, no packet is dropped. Returns the number of
    dependencies.
    """
    vls = net.vls[0]
    while True:
        c = _channel(net, new, lid, s, came, sl)
        if c < 0:
            return n
        e = c // vls
        if held >= 0:
            marks.out[0, n], marks.out[1, n], marks.out[2, n] = kind, held, c
            n += 1
        if _mark(marks.new, marks.touched, c, sl):
            return n
        kind = NEW if kind == NEW else PASSING
        held, came, s = c, np.int64(net.peer_port[e]), np.int64(net.peer[e])


@inner
def old_path(lid, sl, s, came, old, new, net, marks, n):
    """Follow the old table, and from each switch whose entry changes, the new table. Returns the
    number of dependencies."""
    held, vls = np.int64(-1), net.vls[0]
    while True:
        if held >= 0 and old[s, lid] != new[s, lid]:
            n = new_path(MIXED, lid, sl, s, came, held, new, net, marks, n)
        c = _channel(net, old, lid, s, came, sl)
        if c < 0:
            return n
        e = c // vls
        if held >= 0:
            marks.out[0, n], marks.out[1, n], marks.out[2, n] = OLD, held, c
            n += 1
        if _mark(marks.old, marks.touched, c, sl):
            return n
        held, came, s = c, np.int64(net.peer_port[e]), np.int64(net.peer[e])


@inner
def old_dependencies(old, new, lids, i, net, sls, marks, n):
    """Write the dependencies of packets with the earlier SLs for ``lids[i]``, on the old table and
    from it to the new one, after the first ``n`` of ``marks.out``."""
    rows, column = sls.before.shape[0] > 1, np.int64(sls.end[i]) if sls.before.shape[1] > 1 else 0
    for k in range(net.switch.shape[0]):
        s = np.int64(net.switch[k])
        mask, sl = np.int64(sls.before[s if rows else 0, column]), 0
        while mask:
            if mask & 1:
                n = old_path(lids[i], sl, s, np.int64(net.port[k]), old, new, net, marks, n)
            mask >>= 1
            sl += 1
    for k in range(1, marks.touched[0] + 1):
        marks.old[marks.touched[k]] = 0
        marks.new[marks.touched[k]] = 0
    marks.touched[0] = 0
    return n


@inner
def dependencies(old, new, lids, i, net, sls, marks):
    """Write the dependencies of packets for ``lids[i]`` while its entries change destination
    outwards, into ``marks.out``: (kind, held channel, wanted channel).

    Packets of every SL in use walk from every source; a path is not followed beyond a channel that
    was visited with its SL. Returns how many.
    """
    n = 0
    rows, column = sls.after.shape[0] > 1, np.int64(sls.end[i]) if sls.after.shape[1] > 1 else 0
    for k in range(net.switch.shape[0]):
        s = np.int64(net.switch[k])
        mask, sl = np.int64(sls.after[s if rows else 0, column]), 0
        while mask:
            if mask & 1:
                n = new_path(NEW, lids[i], sl, s, np.int64(net.port[k]), np.int64(-1), new, net, marks, n)
            mask >>= 1
            sl += 1
    return old_dependencies(old, new, lids, i, net, sls, marks, n)


@inner
def ordered(c, vl_state, degree):
    """Put the channels into a topological order; return False if the present dependencies have a
    cycle. ``degree`` int32[links] is scratch."""
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
    """Remove one packet's dependency of link ``a`` on link ``b``."""
    dep = c.dep_first[a] + b - c.first[c.peer[a]]
    count[dep] -= 1
    if count[dep] == 0:
        take(c, vl_state, a, b, 0)


@kernel
def start_counts(c, vl_state, count, tables, lids, net, sls, marks):
    """Count the dependencies of ``tables`` uint8[switches, LIDs] with the earlier SLs into
    ``count`` int32[dependencies]; return False if they have a cycle."""
    for i in range(lids.shape[0]):
        n = old_dependencies(tables, tables, lids, i, net, sls, marks, 0)
        for e in range(n):
            a, b = marks.out[1, e], marks.out[2, e]
            count[c.dep_first[a] + b - c.first[c.peer[a]]] += 1
            put(c, vl_state, a, b)
    return ordered(c, vl_state, np.empty(c.peer.shape[0], np.int32))


@kernel
def one_stage(c, vl_state, count, tables, lids, net, sls, marks, number, stage):
    """Assign those of ``lids`` whose ``stage`` (int32[lids]) is 0 to stage ``number``, as long as
    no cycle closes among entries that have changed, that change in this stage, and that change
    later. Then remove the dependencies of the old entries of this stage. Returns the number of LIDs
    in this stage."""
    out = marks.out
    placed = 0
    for i in range(lids.shape[0]):
        if stage[i]:
            continue
        n, fits, e = dependencies(tables.old, tables.new, lids, i, net, sls, marks), True, 0
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
            n = dependencies(tables.old, tables.new, lids, i, net, sls, marks)
            for e in range(n):
                if out[0, e] != NEW:
                    take_away(c, vl_state, count, out[1, e], out[2, e])
    return placed


@kernel
def all_at_once(c, present, old, new, lids, net, sls, marks):
    """Mark every dependency while all ``lids`` change together: ``present`` uint8[dependencies] becomes 1."""
    for i in range(lids.shape[0]):
        n = dependencies(old, new, lids, i, net, sls, marks)
        for e in range(n):
            present[c.dep_first[marks.out[1, e]] + marks.out[2, e] - c.first[c.peer[marks.out[1, e]]]] = 1


@kernel
def lists(c, present, start, targets):
    """Write lists: channel ``a`` waits for ``targets[start[a]:start[a + 1]]``. If ``targets`` is
    empty, fill only ``start`` int64[channels + 1]."""
    total = 0
    for a in range(c.peer.shape[0]):
        start[a] = total
        base = c.first[c.peer[a]]
        for k in range(c.first[c.peer[a] + 1] - base):
            if present[c.dep_first[a] + k]:
                if targets.shape[0]:
                    targets[total] = base + k
                total += 1
    start[c.peer.shape[0]] = total
    return total
