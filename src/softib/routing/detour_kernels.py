"""Fill in entries for switches without a route to a destination, without closing a cycle of waiting channels."""

import numpy as np

from softib.jit import kernel
from softib.routing.proof.verify_kernels import ARRIVES, load_tile, resolve
from softib.routing.transition.order_kernels import ADDED, BLOCKED, CYCLE, add_dependency

MOST_COUNTED = 1 << 20


@kernel
def _add_dependencies_along(c, vl_state, outward, tree):
    """Add those dependencies of paths along the tree that close no cycle. The tree is bool[links],
    both directions of a cable. Dependencies at the first switches of ``outward`` are added
    first."""
    for v in outward:
        for b in range(c.first[v], c.first[v + 1]):
            if not tree[b]:
                continue
            for back in range(c.first[v], c.first[v + 1]):
                if tree[back] and back != b:
                    add_dependency(c, vl_state, c.reverse[back], b)


@kernel(steps=lambda links, routes, kept: len(routes.cas) * len(routes.dest_lid))
def copy_paths(links, routes, kept):
    """Copy the entries of ``routes.lft`` that packets of CAs use into ``kept`` uint8[n, LIDs]."""
    lft, at, cas, peer = routes.lft, routes.at, routes.cas, links.peer
    for k in range(routes.dest_lid.shape[0]):
        lid = routes.dest_lid[k]
        for source in range(cas.shape[0]):
            s = source
            while cas[source] and kept[s, lid] == 255 and lft[s, lid] != 255:
                kept[s, lid] = lft[s, lid]
                if at[s, lft[s, lid]] < 0:
                    break
                s = peer[at[s, lft[s, lid]]]


def steps_of(c, vl_state, links, routes, out_port, part, *rest):
    """Return the number of steps of :func:`fill_gaps`: for the tree, for each entry, and for each
    gap. (Gaps are not counted if the entries alone are too many for Python.)"""
    entries = len(part) * len(routes.dest_lid)
    gaps = np.count_nonzero(routes.lft[:, routes.dest_lid] == 255) if entries < MOST_COUNTED else entries
    return 40 * len(c.peer) + 3 * entries + 24 * gaps


@kernel(steps=steps_of, rows=True)
def fill_gaps(c, vl_state, links, routes, out_port, part, tree, whole, whole_paths, left):
    """Fill the gaps in ``routes.lft`` (255 = no entry) for the destinations of ``routes``, in their
    order.

    First, the dependencies along ``tree`` (switches from its root on, bool[links]) are added. A
    switch without an entry then looks at its links to switches with an entry. It uses a link that
    needs no new dependency; of several such links, the one to which the fewest LIDs of CAs were
    assigned so far. If there is none, it uses a link whose new dependency closes no cycle. ``part``
    int[n]: switches connected by cables have the same number. ``whole_paths``: if False, all
    dependencies of existing entries are in ``vl_state``; if True, those on the rest of a path must
    be added too. ``left`` int64[2] counts the (switch, LID) pairs that stay without an entry, and
    those of them whose switch has CAs. ``whole``: stop at the first destination with such a pair.
    """
    _add_dependencies_along(c, vl_state, tree[0], tree[1])
    lft, end_switch, peer = routes.lft, links.end_switch, c.peer
    n = part.shape[0]
    load = np.zeros(peer.shape[0], np.int64)
    state, dist = np.empty(n, np.uint8), np.empty(n, np.int32)
    stack, order, taken, past = (
        np.empty(n + 1, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.full(n, -1, np.int32),
    )
    gap = np.empty(n, np.int32)
    tile = np.empty((64, n), np.uint8)
    begin = settled = 0
    target = -1
    for k in range(routes.dest_lid.shape[0]):
        if k & 63 == 0:
            load_tile(lft, routes.dest_lid, k, min(k + 64, routes.dest_lid.shape[0]), tile)
        ports = tile[k & 63]
        lid, end = routes.dest_lid[k], routes.dest_end[k]
        last, target = target, end_switch[end]
        # the switches that were gaps for the previous destination, with their new entries
        for i in range(begin, settled):
            past[i] = order[i]
        past_begin, past_end = begin, settled
        before = taken.copy()
        settled, missing = _arrivals(ports, routes.at, peer, end, target, part, (state, dist, stack), taken, order, gap)
        begin = settled
        if links.end_is_switch[end]:
            for i in range(past_begin, past_end):
                u = past[i]
                a = before[u]
                v = peer[a]
                if u != target and taken[u] < 0 and _waits(c, vl_state, a, v, target, taken, whole_paths):
                    settled = _settle(u, a, settled, order, taken)
            if last >= 0 and last != target and taken[last] < 0:
                a = _least_loaded(c, vl_state, last, target, taken, load, whole_paths)
                if a >= 0:
                    settled = _settle(last, a, settled, order, taken)
        counted = not links.end_is_switch[end]
        spreads = True
        while settled - begin < missing:
            before_pass = settled
            for i in range(missing):
                u = gap[i]
                if taken[u] >= 0:
                    continue
                if spreads:
                    a = _least_loaded(c, vl_state, u, target, taken, load, whole_paths)
                else:
                    a = _first_possible(c, vl_state, u, target, taken, whole_paths)
                if a >= 0:
                    settled = _settle(u, a, settled, order, taken)
                    load[a] += counted
                    if not spreads:
                        break
            if settled == before_pass and not spreads:
                break
            spreads = settled > before_pass
        for i in range(begin, settled):
            lft[order[i], lid] = out_port[taken[order[i]]]
        left[0] += missing - (settled - begin)
        if settled - begin < missing:
            for i in range(missing):
                left[1] += routes.cas[gap[i]] > 0 and taken[gap[i]] < 0
        if whole and left[0]:
            return


@kernel
def _arrivals(ports, at, peer, end, target, part, scratch, taken, order, gap):
    """Divide the switches connected with ``target`` by whether their packets for ``end`` arrive. If
    they arrive, write the switch's link to ``taken``, and the switch to ``order`` after ``target``.
    If not, write it to ``gap``. Return both numbers."""
    state, dist, stack = scratch
    state[:] = 0
    taken[:] = -1
    order[0] = target
    settled, missing = 1, 0
    for s in range(part.shape[0]):
        if part[s] != part[target] or s == target:
            continue
        if state[s] == 0:
            link = at[s, ports[s]]
            if link >= 0 and state[peer[link]] != 0:  # same outcome as the switch ahead
                state[s] = state[peer[link]]
            else:
                resolve(s, ports, at, peer, end, state, dist, stack)
        if state[s] == ARRIVES:
            taken[s] = at[s, ports[s]]
            order[settled] = s
            settled += 1
        else:
            gap[missing] = s
            missing += 1
    return settled, missing


@_arrivals.in_python
def _arrivals_by_doubling(ports, at, peer, end, target, part, scratch, taken, order, gap):
    """Do the same as :func:`_arrivals` for all switches at once. After k iterations, the outcome is
    known up to 2 ** k links ahead."""
    every = np.arange(len(part))
    link = at[every, ports]
    ahead = np.where(link >= 0, peer[np.maximum(link, 0)], every) if len(peer) else every
    for _ in range(int(len(part)).bit_length()):
        ahead = ahead[ahead]
    wanted = (part == part[target]) & (every != target)
    arrives = link[ahead] == -2 - end
    taken[:] = np.where(wanted & arrives, link, -1)
    here, others = np.flatnonzero(wanted & arrives), np.flatnonzero(wanted & ~arrives)
    order[0], order[1 : len(here) + 1], gap[: len(others)] = target, here, others
    return len(here) + 1, len(others)


@kernel
def _settle(u, a, settled, order, taken):
    taken[u] = a
    order[settled] = u
    return settled + 1


@kernel
def _waits(c, vl_state, a, v, target, taken, whole_paths):
    """Return whether packets on link ``a`` to switch ``v`` can continue without a new dependency.
    With ``whole_paths``, the whole path to the target must need none."""
    while v != target:
        b = taken[v]
        if b < 0 or vl_state.present[c.dep_first[a] + b - c.first[v]] != ADDED:
            return False
        if not whole_paths:
            break
        a, v = b, c.peer[b]
    return True


@kernel
def _first_possible(c, vl_state, u, target, taken, whole_paths):
    """Return a link of ``u`` on which packets can continue if a dependency that closes no cycle is
    added; -1 if there is none."""
    for a in range(c.first[u], c.first[u + 1]):
        v = c.peer[a]
        if taken[v] < 0:
            continue
        if add_dependency(c, vl_state, a, taken[v]) == CYCLE:
            vl_state.present[c.dep_first[a] + taken[v] - c.first[v]] = BLOCKED
        elif not whole_paths or _add_rest(c, vl_state, v, target, taken):
            return a
    return -1


@kernel
def _add_rest(c, vl_state, v, target, taken):
    """Add the dependencies of the path from ``v`` on; return False if one closes a cycle."""
    while v != target:
        a, v = taken[v], c.peer[taken[v]]
        if v != target and add_dependency(c, vl_state, a, taken[v]) == CYCLE:
            return False
    return True


@kernel
def _least_loaded(c, vl_state, u, target, taken, load, whole_paths):
    """Return the least-loaded link of ``u`` among those on which packets can continue; -1 if there is none."""
    best = -1
    for a in range(c.first[u], c.first[u + 1]):
        if (best < 0 or load[a] < load[best]) and _waits(c, vl_state, a, c.peer[a], target, taken, whole_paths):
            best = a
    return best


@_least_loaded.in_python
def _least_loaded_by_columns(c, vl_state, u, target, taken, load, whole_paths):
    """Like :func:`_least_loaded`, for all links of ``u`` at once."""
    links = slice(c.first[u], c.first[u + 1])
    to, dependency = c.peer[links], c.dep_first[links]
    on = _follow(c, vl_state, dependency, to, target, taken)
    for k in np.flatnonzero(on) if whole_paths else ():
        on[k] = _waits.python(c, vl_state, links.start + k, to[k], target, taken, True)
    able = on.nonzero()[0]
    return int(links.start + able[load[links][able].argmin()]) if len(able) else -1


def _follow(c, vl_state, dependency, to, target, taken):
    """Do the same as :func:`_waits` for links to the switches ``to``, but check only the next
    link."""
    after = taken[to]
    on = vl_state.present.take(dependency + after - c.first[to], mode="clip") == ADDED
    on &= after >= 0
    on |= to == target
    return on
