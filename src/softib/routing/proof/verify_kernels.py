"""Walk the tree of each destination, and collect the dependencies between channels.

``at`` int32[n, 256] is the peer of a switch's port: a link row (>= 0), an end port (``-2 - end``),
or no peer (-1). ``state`` of a switch for one destination: 0 unknown, 1 arrives, 2 dead end, 3
loop, 4 delivered to another end.
"""

import numpy as np

from softib.jit import kernel, table

Links = table("Links", "first peer peer_port end_switch end_port end_is_switch")
"""Links and ends as in :class:`~softib.routing.graph.SwitchGraph`."""
Routes = table("Routes", "lft at dest_lid dest_end cas")
"""Forwarding tables uint8[n, LIDs], the peer of each port, every destination LID and its end, and
``cas`` int64[n]: number of CA ports on each switch."""
VlMaps = table("VlMaps", "switch port row count group_of_end path_sl sl2vl")
"""Sources, in groups whose packets have the same SLs and VLs. A group is ``count`` CA ports (0: the
switch itself) that send into port ``port`` of ``switch`` with the SLs in ``row`` of ``path_sl``
(uint8[rows, ends] or [1, 1]; 255: no traffic). ``group_of_end`` int32[ends] is -1 for a switch's
own port. ``sl2vl`` is uint8[n or 1, in or 1, out or 1, 16]."""

ARRIVES, DEAD, LOOP, WRONG, ON_STACK = 1, 2, 3, 4, 9
NO_PATH = 255


@kernel
def load_tile(lft, lids, start, stop, tile):
    """Set ``tile[k, s] = lft[s, lids[start + k]]``; LIDs beyond the table have no route."""
    n, width = lft.shape
    for s in range(n):
        for k in range(start, stop):
            tile[k - start, s] = lft[s, lids[k]] if lids[k] < width else 255


@load_tile.in_python
def _load_tile(lft, lids, start, stop, tile):
    wanted = lids[start:stop]
    tile[: len(wanted)] = np.where(wanted < lft.shape[1], lft.take(wanted, axis=1, mode="clip"), 255).T


@kernel
def resolve(s, ports, at, peer, end, state, dist, stack):
    """Find the outcome of a packet to ``end`` that is on switch ``s``. Write it into ``state`` and
    ``dist`` of every switch on the path.

    ``dist`` is the number of remaining egress ports (OpenSM's "hops": 1 if the CA is on this
    switch, 0 if the switch itself is the destination).
    """
    depth = 0
    while True:
        if state[s] == ON_STACK:
            result, hops = LOOP, 0
            break
        if state[s] != 0:
            result, hops = state[s], dist[s]
            break
        state[s] = ON_STACK
        stack[depth] = s
        depth += 1
        to = at[s, ports[s]]
        if to >= 0:
            s = peer[to]
        else:
            # port 0 delivers to the switch itself: no egress
            hops = -1 if ports[s] == 0 else 0
            result = DEAD if to == -1 else (ARRIVES if -2 - to == end else WRONG)
            break
    while depth:
        depth -= 1
        hops += 1
        state[stack[depth]] = result
        dist[stack[depth]] = hops


@kernel(
    steps=lambda links, routes, counts, hist, failures, cut_off: 5 * len(routes.cas) * len(routes.dest_lid), rows=True
)
def walk_all(links, routes, counts, hist, failures, cut_off):
    """Walk from every source to every destination LID. Returns the number of rows of ``failures`` in use.

    ``cut_off`` int64[n] counts the CA LIDs that packets sent by each switch do not reach.

    counts int64[4, 5]: by kind (0 CA→CA, 1 CA→switch, 2 switch→switch, 3 switch→CA) and state. hist
    int64[4, n + 2]: pairs that arrive, by hops. failures int32[m, 5]: (kind, switch, end, lid,
    state); each kind gets at most a quarter of the rows.
    """
    peer, end_switch, end_is_switch = links.peer, links.end_switch, links.end_is_switch
    lft, at, dest_lid, dest_end, cas = routes.lft, routes.at, routes.dest_lid, routes.dest_end, routes.cas
    n = cas.shape[0]
    tile = np.empty((64, n), np.uint8)
    state = np.empty(n, np.uint8)
    dist = np.empty(n, np.int32)
    stack = np.empty(n + 1, np.int32)
    used = 0
    room = np.full(4, failures.shape[0] // 4, np.int64)
    for start in range(0, dest_lid.shape[0], 64):
        stop = min(start + 64, dest_lid.shape[0])
        load_tile(lft, dest_lid, start, stop, tile)
        for k in range(start, stop):
            end = dest_end[k]
            state[:] = 0
            ports = tile[k - start]
            to_switch = end_is_switch[end]
            for s in range(n):
                if state[s] == 0:
                    resolve(s, ports, at, peer, end, state, dist, stack)
                outcome = state[s]
                pairs = cas[s]
                if not to_switch and s == end_switch[end]:
                    pairs -= 1
                for side in range(2):
                    # side 0: packets of the CAs on s; side 1: packets of s itself
                    if side:
                        pairs = np.int64(not to_switch or s != end_switch[end])
                    kind = (2 if to_switch else 3) if side else (1 if to_switch else 0)
                    counts[kind, outcome] += pairs
                    if outcome == ARRIVES:
                        hist[kind, dist[s]] += pairs
                        continue
                    cut_off[s] += kind == 3
                    if pairs and room[kind]:
                        room[kind] -= 1
                        used = _note(failures, used, kind, s, end, dest_lid[k], outcome)
    return used


@kernel(steps=lambda links, routes, onward, arrived: 2 * len(arrived) * len(routes.cas), rows=True)
def arrivals(links, routes, onward, arrived):
    """Write ``arrived`` int64[destinations]: the number of CAs whose packets arrive at each destination
    LID; a CA does not send to itself.

    ``onward`` int32[n, ports]: the switch to which a port leads, ``-2 - end`` for an end port, -1
    for none. This table is smaller than ``routes.at``, so that it stays in the processor's cache.
    """
    end_switch, end_is_switch = links.end_switch, links.end_is_switch
    lft, dest_lid, dest_end, cas = routes.lft, routes.dest_lid, routes.dest_end, routes.cas
    n, width = onward.shape
    tile = np.empty((64, n), np.uint8)
    state = np.empty(n, np.uint8)
    stack = np.empty(n + 1, np.int32)
    for start in range(0, dest_lid.shape[0], 64):
        stop = min(start + 64, dest_lid.shape[0])
        load_tile(lft, dest_lid, start, stop, tile)
        for k in range(start, stop):
            end = dest_end[k]
            state[:] = 0
            pairs = np.int64(0)
            for source in range(n):
                if cas[source] == 0:
                    continue
                s = source
                depth = 0
                result = state[s]
                while result == 0:
                    state[s] = ON_STACK
                    stack[depth] = s
                    depth += 1
                    port = tile[k - start, s]
                    s = onward[s, port] if port < width else -1
                    if s < 0:
                        result = ARRIVES if -2 - s == end else DEAD
                    else:
                        result = state[s]
                if result == ON_STACK:
                    result = LOOP
                while depth:
                    depth -= 1
                    state[stack[depth]] = result
                if result == ARRIVES:
                    pairs += cas[source] - (source == end_switch[end] and not end_is_switch[end])
            arrived[k] = pairs


@kernel
def _note(failures, used, kind, switch, end, lid, outcome):
    failures[used, 0] = kind
    failures[used, 1] = switch
    failures[used, 2] = end
    failures[used, 3] = lid
    failures[used, 4] = outcome
    return used + 1


@kernel(steps=lambda links, routes, used, needs: 3 * len(routes.cas) * len(routes.dest_lid), rows=True)
def depend(links, routes, used, needs):
    """Collect the dependencies between links on the paths of all CAs to all destinations, with all
    traffic on one VL.

    used bool[links] out: the path of some CA uses the link. needs uint64[links, w] out: bit k = a
    packet on this link waits for the k-th link of the switch at its other end.
    """
    first, peer, end_switch, end_is_switch = links.first, links.peer, links.end_switch, links.end_is_switch
    lft, at, dest_lid, dest_end, cas = routes.lft, routes.at, routes.dest_lid, routes.dest_end, routes.cas
    n = cas.shape[0]
    tile = np.empty((64, n), np.uint8)
    seen = np.empty(n, np.bool_)
    for start in range(0, dest_lid.shape[0], 64):
        stop = min(start + 64, dest_lid.shape[0])
        load_tile(lft, dest_lid, start, stop, tile)
        for k in range(start, stop):
            end = dest_end[k]
            ports = tile[k - start]
            seen[:] = False
            for source in range(n):
                sources = cas[source]
                if source == end_switch[end] and not end_is_switch[end]:
                    sources -= 1
                if sources <= 0:
                    continue
                s = source
                before = -1
                while True:
                    e = at[s, ports[s]]
                    if e < 0:
                        break
                    if before >= 0:
                        local = e - first[s]
                        needs[before, local >> 6] |= np.uint64(1) << np.uint64(local & 63)
                    if seen[s]:
                        break
                    seen[s] = True
                    used[e] = True
                    before = e
                    s = peer[e]


@kernel
def depend_vl(links, routes, maps, vls, used, needs, dropped):
    """Do the same as :func:`depend`, with the SL of each path and any SL2VL mapping. Channels are
    ``link * vls + vl``.

    used bool[channels]; needs uint64[channels, w] out: bit ``k * vls + vl``. A VL of ``vls`` or
    higher (15 means discard, IBA 7.6.6) ends the path, even on the last link to a CA. dropped
    int64[2, n + 2] out counts, by hops, the pairs (to CAs, to switches) whose packets would
    otherwise arrive. For one destination, a walk stops at a link that another walk with the same SL
    and VL has already used.
    """
    first, peer, peer_port = links.first, links.peer, links.peer_port
    end_is_switch = links.end_is_switch
    lft, at, dest_lid, dest_end = routes.lft, routes.at, routes.dest_lid, routes.dest_end
    path_sl, sl2vl = maps.path_sl, maps.sl2vl
    n = lft.shape[0]
    tile = np.empty((64, n), np.uint8)
    stamp = np.full((peer.shape[0], 16), -1, np.int32)
    seen = np.zeros((peer.shape[0], 16), np.uint16)
    bad = np.zeros((peer.shape[0], 16), np.uint16)
    trail_link = np.empty(n * 16 + 1, np.int32)
    trail_vl = np.empty(n * 16 + 1, np.uint8)
    for start in range(0, dest_lid.shape[0], 64):
        stop = min(start + 64, dest_lid.shape[0])
        load_tile(lft, dest_lid, start, stop, tile)
        for k in range(start, stop):
            end = dest_end[k]
            ports = tile[k - start]
            for a in range(maps.switch.shape[0]):
                pairs = maps.count[a] - (maps.group_of_end[end] == a)
                if pairs == 0 and maps.count[a]:
                    continue
                sl = path_sl[maps.row[a], end % path_sl.shape[1]]
                if sl == NO_PATH:
                    continue
                sl &= 15
                s, came = maps.switch[a], maps.port[a]
                before = np.int64(-1)
                depth = 0
                lost = False
                while True:
                    e = at[s, ports[s]]
                    if e == -1 or ports[s] == 0:
                        break
                    row = sl2vl[s % sl2vl.shape[0], came % sl2vl.shape[1], ports[s] % sl2vl.shape[2]]
                    vl = np.int64(row[sl])
                    if vl >= vls:
                        lost = _hops_to(s, ports, at, peer, end) >= 0
                        break
                    if e < 0:
                        break
                    channel = np.int64(e) * vls + vl
                    used[channel] = True
                    if before >= 0:
                        local = (e - first[s]) * vls + vl
                        needs[before, local >> 6] |= np.uint64(1) << np.uint64(local & 63)
                    if stamp[e, sl] != k:
                        stamp[e, sl] = k
                        seen[e, sl] = 0
                        bad[e, sl] = 0
                    mark = np.uint16(1 << vl)
                    if seen[e, sl] & mark:
                        lost = (bad[e, sl] & mark) != 0
                        break
                    seen[e, sl] |= mark
                    trail_link[depth], trail_vl[depth] = e, vl
                    depth += 1
                    before = channel
                    s, came = peer[e], peer_port[e]
                if lost:
                    dropped[1 if end_is_switch[end] else 0, _hops_to(maps.switch[a], ports, at, peer, end)] += pairs
                    for i in range(depth):
                        bad[trail_link[i], sl] |= np.uint16(1 << trail_vl[i])


@kernel
def _hops_to(s, ports, at, peer, end):
    """Return the hops (egress ports) of a packet from ``s`` to ``end`` in the tables, -1 if it does not arrive."""
    for hops in range(ports.shape[0] + 1):
        to = at[s, ports[s]]
        if to < 0:
            return hops + (ports[s] != 0) if -2 - to == end else -1
        s = peer[to]
    return -1
