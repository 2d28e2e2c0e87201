"""Forwarding tables from distances: of the ports on best paths, each LID gets the least-loaded one,
as in OpenSM's ucast manager."""

import numpy as np

from softib.jit import kernel, table
from softib.routing.proof.verify_kernels import load_tile
from softib.routing.transition.order_kernels import lowest


@kernel(steps=lambda at, peer, lft, dest_lid, dest_end, end_switch, cas, load: 3 * len(cas) * len(dest_lid), rows=True)
def count_paths(at, peer, lft, dest_lid, dest_end, end_switch, cas, load):
    """Add to ``load[e]`` int64[links] the number of paths over link e from every CA to each destination LID (CA ends)
    except its own.

    cas int64[n]: number of CA ports on each switch. A walk ends when the table has no entry, or
    after n links in a loop.
    """
    n = cas.shape[0]
    tile = np.empty((64, n), np.uint8)
    for start in range(0, dest_lid.shape[0], 64):
        stop = min(start + 64, dest_lid.shape[0])
        load_tile(lft, dest_lid, start, stop, tile)
        for k in range(start, stop):
            ports = tile[k - start]
            for source in range(n):
                paths = cas[source] - (source == end_switch[dest_end[k]])
                if paths <= 0:
                    continue
                s = source
                for _ in range(n):
                    e = at[s, ports[s]]
                    if e < 0:
                        break
                    load[e] += paths
                    s = peer[e]


@kernel(steps=lambda at, lft, dest_lid, load: len(lft) * len(dest_lid) // 2)
def count_destinations(at, lft, dest_lid, load):
    """Add to ``load[e]`` int64[links] the number of destination LIDs that the link's switch sends through it."""
    for s in range(lft.shape[0]):
        for k in range(dest_lid.shape[0]):
            if dest_lid[k] < lft.shape[1]:
                e = at[s, lft[s, dest_lid[k]]]
                if e >= 0:
                    load[e] += 1


@kernel
def count_flows(at, peer, lft, switch, lid, load):
    """Add to ``load[e]`` int64[links] the number of flows over link e; flow i is from ``switch[i]`` to LID
    ``lid[i]``."""
    for i in range(switch.shape[0]):
        s = switch[i]
        for _ in range(at.shape[0]):
            e = at[s, lft[s, lid[i]]]
            if e < 0:
                break
            load[e] += 1
            s = peer[e]


MOST = np.int64(1) << 62
LegalHops = table("LegalHops", "first peer out_port down hops is_down")
"""Links as in :class:`~softib.routing.graph.SwitchGraph`; ``down``, ``hops`` and ``is_down`` as in
:class:`~softib.routing.tables.Distances`."""
Destinations = table("Destinations", "switch first end counted lid lmc port")
"""Groups of ends on one switch: ends ``end[first[g]:first[g + 1]]`` are on ``switch[g]``.
``counted`` bool[groups]: whether the group adds to the loads (in OpenSM, switches' own LIDs do
not). Per end: base ``lid`` and ``lmc`` (int64), and the egress ``port`` of its switch."""


@kernel
def candidate_masks(legal, s, byte_masks, masks):
    """Set bit k of ``masks[k // 64, t]`` if the k-th link of ``s`` is on a best legal path to
    switch ``t``.

    masks uint64[4, n] out; byte_masks uint8[n] is scratch. One pass over a row of ``hops`` per
    link, byte by byte, so that the compiler generates vector code; a byte of the masks holds eight
    links.
    """
    first, peer, down, hops, is_down = legal.first, legal.peer, legal.down, legal.hops, legal.is_down
    n = hops.shape[0]
    mine, mine_down = hops[s], is_down[s]
    masks[: (first[s + 1] - first[s] + 63) // 64, :] = 0
    for begin in range(first[s], first[s + 1], 8):
        byte_masks[:] = 0
        for e in range(begin, min(begin + 8, first[s + 1])):
            bit = np.uint8(1 << (e - begin))
            theirs, theirs_down = hops[peer[e]], is_down[peer[e]]
            for t in range(n):
                best = (theirs[t] < 254) & (np.uint8(theirs[t] + 1) == mine[t])
                legal_here = (mine_down[t] & theirs_down[t]) if down[e] else (not mine_down[t])
                byte_masks[t] |= bit * np.uint8(best & legal_here)
        k = begin - first[s]
        row, shift = masks[k >> 6], np.uint64(k & 63)
        for t in range(n):
            row[t] |= np.uint64(byte_masks[t]) << shift


@candidate_masks.in_python
def _candidate_masks_by_rows(legal, s, byte_masks, masks):
    """Like :func:`candidate_masks`, for all links of ``s`` at once."""
    links = slice(legal.first[s], legal.first[s + 1])
    peers, hops, is_down = legal.peer[links], legal.hops, legal.is_down.astype(bool)
    down = legal.down[links].astype(bool)[:, None]
    legal_here = np.where(down, is_down[s] & is_down[peers], ~is_down[s])
    on = (hops[peers] < 254) & (hops[peers] + np.uint8(1) == hops[s]) & legal_here
    packed = np.zeros((8 * ((len(on) + 63) // 64), hops.shape[0]), np.uint8)
    packed[: (len(on) + 7) // 8] = np.packbits(on, axis=0, bitorder="little")
    fields = np.ascontiguousarray(packed.T).view("<u8").T
    masks[: len(fields)] = fields


@kernel
def _same_masks(t, n_masks, masks, last):
    same = True
    for w in range(n_masks):
        same &= masks[w, t] == last[w]
    return same


@kernel
def _only_candidate(t, n_masks, masks):
    """Return the bit in the masks of ``t`` if there is exactly one, otherwise -1."""
    only = np.int64(-1)
    for w in range(n_masks):
        bits = masks[w, t]
        if bits == 0:
            continue
        if only >= 0 or bits & (bits - np.uint64(1)):
            return np.int64(-1)
        only = 64 * w + lowest(bits)
    return only


@kernel
def candidate_list(t, base, n_masks, masks, last, out_port, links, ports, count):
    """Write the links in the masks of ``t``, ascending, into ``links`` and their ports into
    ``ports``; return their number.

    ``last`` uint64[4] holds the masks from which the ``count`` entries of ``links`` were made.
    Adjacent destinations often have the same masks, and ``links`` then stays valid.
    """
    if _same_masks(t, n_masks, masks, last):
        return count
    count = 0
    for w in range(n_masks):
        bits = masks[w, t]
        last[w] = bits
        k = base + 64 * w
        while bits:
            if bits & np.uint64(1):
                links[count] = k
                ports[count] = out_port[k]
                count += 1
            bits >>= np.uint64(1)
            k += 1
    return count


@kernel(steps=lambda legal, dests, taken, lft: 4 * len(lft) * len(dests.lid), rows=True)
def least_loaded(legal, dests, taken, lft):
    """Write tables for LMC 0: each LID in turn gets the port with the fewest LIDs so far; on a tie, the lowest port.

    ``LegalHops`` gives the candidates, and :data:`Destinations` the order of LIDs. lft uint8[n,
    lids] in and out: entries other than 255 stay. ``taken`` int64[n, 256]: number of LIDs of
    counted groups that already have an entry, by its port; int64[0, 256] if none has one.
    """
    n = legal.first.shape[0] - 1
    masks, byte_masks = np.zeros((4, n), np.uint64), np.empty(n, np.uint8)
    lids = np.empty(dests.end.shape[0], np.uint16)
    for i in range(lids.shape[0]):
        lids[i] = dests.lid[dests.end[i]]
    counted = 0
    for g in range(dests.switch.shape[0]):
        if dests.counted[g]:
            counted += dests.first[g + 1] - dests.first[g]
    load = np.zeros(256, np.int64)  # by port
    for s in range(n):
        candidate_masks(legal, s, byte_masks, masks)
        load[:] = 0
        left = counted
        if taken.shape[0]:
            for p in range(256):
                load[p] = taken[s, p]
                left -= load[p]
        if left:
            _fill_counted(legal, dests, s, masks, lids, load, lft[s])
        _fill_uncounted(legal, dests, s, masks, lids, load, lft[s])


@kernel
def _fill_counted(legal, dests, s, masks, lids, load, row):
    """Fill ``row`` of switch ``s`` for the groups that add to ``load``.

    In each round, every candidate with the least load gets one LID. A candidate that was passed
    over cannot have the least load again in that round, and the smallest load among such candidates
    is the least load of the next round. While all candidates have the same load, each round uses
    every candidate once; ``load`` is increased by the ``steps`` of these rounds when they end.
    """
    first = legal.first[s]
    n_masks = (legal.first[s + 1] - first + 63) // 64
    links, ports, last = np.empty(256, np.int32), np.empty(256, np.uint8), np.zeros(4, np.uint64)
    count = steps = 0
    k = -1  # index of the next candidate in this round, -1 at its beginning
    least = following = highest = MOST
    switch, begins, counted, out_port = dests.switch, dests.first, dests.counted, legal.out_port
    for g in range(switch.shape[0]):
        t = switch[g]
        if t == s or not counted[g]:
            continue
        lo, hi = begins[g], begins[g + 1]
        while lo < hi and row[lids[lo]] != 255:
            lo += 1
        if lo == hi:
            continue
        only = _only_candidate(t, n_masks, masks)
        if only >= 0 or not _same_masks(t, n_masks, masks, last):
            steps, k = _add_shares(ports, count, steps, load), -1
        if only >= 0:
            port = out_port[first + only]
            for i in range(lo, hi):
                if row[lids[i]] == 255:
                    row[lids[i]] = port
                    load[port] += 1
            continue
        if k < 0:
            count = candidate_list(t, first, n_masks, masks, last, out_port, links, ports, count)
        if count == 0:
            continue
        if k < 0:
            k, following, highest = count, load[_least_of(ports, count, load)], np.int64(-1)
            for j in range(count):
                highest = max(highest, load[ports[j]])
        i = lo
        while i < hi and not steps:
            lid = lids[i]
            i += 1
            if row[lid] != 255:
                continue
            equal = False
            while True:
                if k == count:
                    equal = following == highest
                    k, least, following = 0, following, MOST
                port = ports[k]
                k += 1
                if load[port] == least:
                    break
                following = min(following, load[port])
            row[lid] = port
            if equal:
                steps = 1
            else:
                load[port] += 1
                following = min(following, load[port])
                highest = max(highest, load[port])
        for j in range(i, hi):
            lid = lids[j]
            free = np.int64(row[lid] == 255)
            k *= k < count
            row[lid] = ports[k] if free else row[lid]
            k += free
            steps += free
    _add_shares(ports, count, steps, load)


@kernel
def _add_shares(ports, count, steps, load):
    """Add the LIDs of ``steps`` over the first ``count`` of ``ports`` to ``load``. Returns 0."""
    if steps:
        for j in range(count):
            load[ports[j]] += steps // count + (j < steps % count)
    return 0


@kernel
def _fill_uncounted(legal, dests, s, masks, lids, load, row):
    """Fill ``row`` of switch ``s`` for the groups that do not add to ``load``, and for the ends on
    ``s`` itself. All groups with the same candidates use the same port, which is cached for some of
    them."""
    first = legal.first[s]
    n_masks = (legal.first[s + 1] - first + 63) // 64
    links, ports = np.empty(256, np.int32), np.empty(256, np.uint8)
    of_masks, chosen = np.zeros((64, 4), np.uint64), np.full(64, 255, np.uint8)
    switch, begins, counted, out_port = dests.switch, dests.first, dests.counted, legal.out_port
    for g in range(switch.shape[0]):
        t = switch[g]
        if t != s and counted[g]:
            continue
        lo, hi = begins[g], begins[g + 1]
        if t == s:
            for i in range(lo, hi):
                if row[lids[i]] == 255:
                    row[lids[i]] = dests.port[dests.end[i]]
            continue
        memo = (masks[0, t] * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(58)
        if masks[0, t] != of_masks[memo, 0] or (n_masks > 1 and not _same_masks(t, n_masks, masks, of_masks[memo])):
            only = _only_candidate(t, n_masks, masks)
            if only >= 0:
                chosen[memo] = out_port[first + only]
                for w in range(n_masks):
                    of_masks[memo, w] = masks[w, t]
            else:
                count = candidate_list(t, first, n_masks, masks, of_masks[memo], out_port, links, ports, 0)
                chosen[memo] = _least_of(ports, count, load) if count else 255
        port = chosen[memo]
        for i in range(lo, hi):
            if row[lids[i]] == 255:
                row[lids[i]] = port


@kernel
def _least_of(ports, count, load):
    """Return the one of the first ``count`` of ``ports`` with the least ``load``, the first on a tie."""
    best = ports[0]
    for k in range(1, count):
        if load[ports[k]] < load[best]:
            best = ports[k]
    return best


@kernel
def least_loaded_lmc(legal, dests, system, lft):
    """Like :func:`least_loaded` for LMC > 0: the LIDs of one port are spread over systems, then
    switches, then cables.

    All base LIDs are routed first, then all second LIDs, and so on. A port's later LID uses a link
    to a system (chassis, ``system`` int32[n]) that has none of the port's LIDs; otherwise to a
    switch that has none; otherwise the least-loaded link; otherwise the link to the switch with the
    fewest of the port's LIDs. If several links remain, use the next one after the port of the
    previous LID.
    """
    first, out_port = legal.first, legal.out_port
    group_switch, group_first, group_end, counted = dests.switch, dests.first, dests.end, dests.counted
    end_lid, end_lmc, end_port = dests.lid, dests.lmc, dests.port
    n = first.shape[0] - 1
    load = np.zeros(256, np.int64)
    links = np.empty(256, np.int32)
    ports = np.empty(256, np.uint8)
    link_of_port = np.empty(256, np.int32)
    masks, byte_masks = np.zeros((4, n), np.uint64), np.empty(n, np.uint8)
    last = np.zeros(4, np.uint64)
    most = 0
    for i in range(end_lmc.shape[0]):
        most = max(most, 1 << end_lmc[i])
    for s in range(n):
        load[:] = 0
        last[:] = 0
        count = 0
        n_masks = (first[s + 1] - first[s] + 63) // 64
        candidate_masks(legal, s, byte_masks, masks)
        base = first[s]
        link_of_port[:] = -1
        for e in range(first[s], first[s + 1]):
            link_of_port[out_port[e]] = e
        for offset in range(most):
            for g in range(group_switch.shape[0]):
                t = group_switch[g]
                count = candidate_list(t, base, n_masks, masks, last, out_port, links, ports, count)
                for i in range(group_first[g], group_first[g + 1]):
                    end = group_end[i]
                    if offset >= 1 << end_lmc[end]:
                        continue
                    lid = end_lid[end] + offset
                    if t == s:
                        lft[s, lid] = end_port[end]
                        continue
                    if count == 0:
                        continue
                    e = _spread(legal, system, s, end_lid[end], offset, links[:count], link_of_port, load, lft)
                    lft[s, lid] = out_port[e]
                    if counted[g]:
                        load[e - base] += 1


@kernel
def _spread(legal, system, s, base_lid, offset, links, link_of_port, load, lft):
    """Return the link of ``links`` for LID ``base_lid + offset`` of one port (see :func:`least_loaded_lmc`)."""
    peer, out_port = legal.peer, legal.out_port
    base, count = legal.first[s], len(links)
    start = 0
    if offset:
        last = lft[s, base_lid + offset - 1]
        while start < count and out_port[links[start]] <= last:
            start += 1
    best, best_class, best_load, best_used = links[0], 9, np.int64(0), 0
    for k in range(count):
        e = links[(start + k) % count]
        same_system, same_switch = 0, 0
        for o in range(offset):
            before = link_of_port[lft[s, base_lid + o]]
            if before >= 0:
                same_switch += peer[before] == peer[e]
                same_system += system[peer[before]] == system[peer[e]]
        kind = 0 if same_system == 0 else (1 if same_switch == 0 else 2)
        used = same_switch if kind == 2 else 0
        weight = load[e - base]
        if kind < best_class or (
            kind == best_class and (weight < best_load or (weight == best_load and used < best_used))
        ):
            best, best_class, best_load, best_used = e, kind, weight, used
    return best
