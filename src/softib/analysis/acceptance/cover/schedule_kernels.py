"""Kernels of the cover schedule: pairs whose routes share no link, chosen destination by destination,
and the loads of flows that adaptive routing spreads.

Channels are those of :class:`softib.sim.static_network.Network`.
"""

import numpy as np

from softib.jit import inner, kernel, table

FULL = 0.999
"""Share of a flow's rate that must be free on each link of its route."""

Cover = table("Cover", "rate need room carried queue first next leaves stamp gain low room_low stack")
"""By channel: ``rate`` and required load (``need``, 0 if proven) in Gb/s; ``room`` left in this
round, and load ``carried`` in it. By switch of ``leaves``: its hosts ``queue[first[s]:first[s +
1]]``; those from ``next[s]`` on have no flow yet. By switch, for the route to the current
destination (``stamp``): number of links that it would prove (``gain``, -1: none or blocked), its
slowest link (``low``), and the smallest room (``room_low``). ``stack``: room for one route."""

Spread = table("Spread", "group_of first channel flow here there")
"""Adaptive routing. ``group_of``: by switch and LID (-1: only the forwarding table).
``channel[first[g]:first[g + 1]]``: the channels of group ``g``. ``flow`` float64[switches] zeros,
and ``here`` and ``there`` int64 with room for four times the switches, are scratch arrays."""


@inner
def worth(c, need, carried):
    """Return the value of a flow over channel ``c``. Channels that are already partly loaded have the highest value."""
    if carried[c] >= need[c]:
        return np.int64(0)
    return np.int64(2) if carried[c] > 0 else np.int64(1)


@inner
def reach(net, t, s, dlid, last, mark):
    """Fill gain, low and room_low of switch ``s`` and of all switches on its route to ``dlid``."""
    n = 0
    at = np.int64(s)
    gain, low, room = np.int64(-1), 0.0, 0.0
    while n < len(t.stack):
        if t.stamp[at] == mark:
            gain, low, room = t.gain[at], t.low[at], t.room_low[at]
            break
        t.stack[n] = at
        n += 1
        t.stamp[at] = mark
        t.gain[at] = -1  # the route has a loop here
        c = net.chan_at[at, net.lft[at, dlid]]
        if c < 0:
            break
        if c == last:
            gain, low, room = np.int64(0), 1e30, 1e30
            break
        at = np.int64(net.chan_to[c])
        if at < 0:
            break
    for i in range(n - 1, -1, -1):
        at = t.stack[i]
        if gain >= 0:
            c = net.chan_at[at, net.lft[at, dlid]]
            gain += worth(c, t.need, t.carried)
            low, room = min(low, t.rate[c]), min(room, t.room[c])
            t.gain[at], t.low[at], t.room_low[at] = gain, low, room
        else:
            t.gain[at] = -1


@inner
def sender(t, s, d):
    """Return the position in the queue of the next host of switch ``s`` that can send to ``d``; -1: none."""
    for i in range(t.next[s], min(t.next[s] + 2, t.first[s + 1])):
        if t.queue[i] != d:
            return np.int64(i)
    return np.int64(-1)


@kernel
def fill_round(net, t, order, most, source):
    """For each destination ``d`` in ``order``, choose the sender whose route proves the most links and has room on all
    of them, and write it to ``source[d]`` (-1: none). A flow that proves more than ``most`` links is not chosen (0: no
    limit)."""
    hosts = len(net.host_switch)
    links = len(net.chan_to) - 2 * hosts
    flows = 0
    for k in range(len(order)):
        d = order[k]
        last, dlid = np.int64(links + hosts + d), np.int64(net.host_lid[d])
        best, best_gain, best_low = np.int64(-1), np.int64(0), 0.0
        for j in range(len(t.leaves)):
            s = np.int64(t.leaves[(j + k) % len(t.leaves)])
            i = sender(t, s, d)
            if i < 0:
                continue
            reach(net, t, s, dlid, last, k + 1)
            if t.gain[s] < 0:
                continue
            into = np.int64(links + t.queue[i])
            gain = t.gain[s] + worth(into, t.need, t.carried)
            low = min(t.low[s], t.rate[into])
            if gain > best_gain and t.room_low[s] >= FULL * low and (most == 0 or gain <= most):
                best, best_gain, best_low = i, gain, low
        if best < 0:
            continue
        h = t.queue[best]
        s = np.int64(net.host_switch[h])
        t.queue[best], t.queue[t.next[s]] = t.queue[t.next[s]], h
        t.next[s] += 1
        source[d] = h
        flows += 1
        c = np.int64(links + h)
        while True:
            t.room[c] -= best_low
            t.carried[c] += best_low
            if c == last:
                break
            s = np.int64(net.chan_to[c])
            c = np.int64(net.chan_at[s, net.lft[s, dlid]])
    return flows


@kernel
def spread(net, t, src, dst, factor, rate, load):
    """Add to ``load`` the load of each flow ``src[i] → dst[i]`` on each channel, at the rate of its host. A switch
    spreads a LID over the channels of its group in proportion to their rates (:data:`Spread`). ``factor``: for each
    channel, the share of its load that it passes on. Return the number of flows that do not arrive."""
    group_of, group_first, group_channel = t.group_of, t.first, t.channel
    flow, here, there = t.flow, t.here, t.there
    hosts = len(net.host_switch)
    links = len(net.chan_to) - 2 * hosts
    lost = 0
    for i in range(len(src)):
        into, last = np.int64(links + src[i]), np.int64(links + hosts + dst[i])
        dlid = np.int64(net.host_lid[dst[i]])
        amount = min(rate[into], rate[last])
        load[into] += amount
        n, arrived = 1, 0.0
        here[0] = net.host_switch[src[i]]
        flow[here[0]] = amount * factor[into]
        for _ in range(64):
            m = 0
            for k in range(n):
                s = here[k]
                moved = flow[s]
                flow[s] = 0.0
                g = group_of[s, dlid]
                static = np.int64(net.chan_at[s, net.lft[s, dlid]])
                a, b = (group_first[g], group_first[g + 1]) if g >= 0 else (0, 1)
                total = 0.0
                for e in range(a, b):
                    total += rate[group_channel[e] if g >= 0 else static] if g >= 0 or static >= 0 else 0.0
                if total <= 0:
                    continue
                for e in range(a, b):
                    c = np.int64(group_channel[e]) if g >= 0 else static
                    share = moved * rate[c] / total
                    load[c] += share
                    if c == last:
                        arrived += share
                        continue
                    to = np.int64(net.chan_to[c])
                    if to < 0:
                        continue
                    if flow[to] == 0.0:
                        there[m] = to
                        m += 1
                    flow[to] += share * factor[c]
            n = m
            for k in range(n):
                here[k] = there[k]
            if n == 0:
                break
        for k in range(n):
            flow[here[k]] = 0.0
        lost += arrived <= 0
    return lost
