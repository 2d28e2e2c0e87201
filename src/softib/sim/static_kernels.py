"""Kernels of the static layer: flows follow forwarding tables and add their weight to every channel
that they use.

Channels are numbered as in :class:`softib.sim.static_network.Network`: switch links, then the
injection channel of each host, then the ejection channel of each host. ``chan_at[s, portnum]`` is the channel that
leaves switch ``s`` through ``portnum`` (-1 = none), ``chan_to[c]`` the switch at the end of channel ``c`` (-1 = a
host).

:func:`follow` also computes times: each message or computation begins when all its dependencies are done.
"""

import numpy as np

from softib.jit import kernel, table
from softib.sim.loggops_kernels import drop_first, push

Delays = table("Delays", "start think request sends forth answer")
"""Times in ps by message. ``start``: earliest start; ``think``: delay after its dependencies; ``request``: from its
start until its data leaves; ``sends``: from then until its last byte has left (-1: it has no path); ``forth``: from
then until that byte arrives; ``answer``: from then until the sender's completion."""

Waits = table("StaticWaits", "first to left ready")
"""By message: the messages ``to[first[i]:first[i + 1]]`` wait for i; ``left[i]``: the number of dependencies of i that
are not done; ``ready[i]``: when the last of them was done (ps; 0: none was)."""

Shared = table("StaticShared", "first channel link octets single ps_byte link_free short_free processor processor_free")
"""Serial resources. ``link[channel[first[i]:first[i + 1]]]`` are the links of message i, which puts ``octets[i]`` on
each at the link's ``ps_byte``; ``link_free``: the time until which a link is busy (ps, float64); ``short_free``: the
same for messages of a ``single`` packet. ``processor``: the processor of a computation, -1 for a message;
``processor_free``: the time until which it is busy."""


@kernel
def occupy(i, leaves, shared):
    """Occupy the links of message i from ``leaves`` on, after their earlier messages; return when the last link has
    carried the message. A message of a single packet waits only for others of a single packet, since queue pairs send
    their packets in turn."""
    end = float(leaves)
    for e in range(shared.first[i], shared.first[i + 1]):
        c = shared.link[shared.channel[e]]
        took = shared.octets[i] * shared.ps_byte[c]
        shared.link_free[c] = max(shared.link_free[c], float(leaves)) + took
        if shared.single[i]:
            shared.short_free[c] = max(shared.short_free[c], float(leaves)) + took
            end = max(end, shared.short_free[c])
        else:
            end = max(end, shared.link_free[c])
    return int(np.ceil(end - 1e-6))


@kernel
def follow(queue, waits, src, delays, shared, began, arrived, completed):
    """Compute in time order when each message and computation begins, arrives and completes; a
    message that waits for one that never arrives never begins."""
    for i in range(len(src)):
        if waits.left[i] == 0:
            push(queue, delays.start[i] if delays.start[i] > delays.think[i] else delays.think[i], i)
    while queue.n[0] > 0:
        now, i = queue.when[0], queue.what[0]
        drop_first(queue)
        if delays.sends[i] < 0:
            continue
        k = shared.processor[i]
        if k >= 0:
            now = max(now, shared.processor_free[k])
        began[i] = now
        leaves = now + delays.request[i]
        arrived[i] = max(leaves + delays.sends[i], occupy(i, leaves, shared)) + delays.forth[i]
        completed[i] = arrived[i] + delays.answer[i]
        if k >= 0:
            shared.processor_free[k] = arrived[i]
        for e in range(waits.first[i], waits.first[i + 1]):
            j = waits.to[e]
            waits.ready[j] = max(waits.ready[j], completed[i] if src[j] == src[i] else arrived[i])
            waits.left[j] -= 1
            if waits.left[j] == 0:
                push(queue, max(delays.start[j], waits.ready[j] + delays.think[j]), j)


Paths = table("Paths", "length channel")
"""By flow: the number of channels of its path (int32[flows]), and the channels (int32[flows, m]) of a path that has at
most m."""
Channels = table("Channels", "host_switch host_lid lft chan_at chan_to path")
"""Columns of a network (:class:`softib.sim.static_network.Network`) and a scratch array for
one path, int64[switches + 2]."""


@kernel
def links_of(net):
    """Return the number of switch-to-switch channels, which come before the hosts' injection
    channels."""
    return len(net.chan_to) - 2 * len(net.host_switch)


@kernel
def walk(net, source_switch, dlid, last, first):
    """Write the channels from ``first`` (an injection channel, -1 = omit it) to ``last``
    to ``net.path``; return their number, 0 = no
    route.
    ``net.path`` has room for the longest path without a loop, so a longer path has a loop.
    """
    lft, chan_at, chan_to, path = net.lft, net.chan_at, net.chan_to, net.path
    n = 0
    if first >= 0:
        path[0] = first
        n = 1
    s = source_switch
    while n < len(path):
        c = chan_at[s, lft[s, dlid]]
        if c < 0:
            return 0
        path[n] = c
        n += 1
        if c == last:
            return n
        s = chan_to[c]
        if s < 0:
            return 0
    return 0


@kernel
def add_flows(net, src, dst, weight, loads, paths):
    """Add ``weight[i % len(weight)]`` of flow i to ``loads`` along its path; return the number of flows without a path.

    ``paths``: :data:`Paths` out, or empty.
    """
    lost = 0
    host_switch, host_lid, path = net.host_switch, net.host_lid, net.path
    hosts, links = len(host_switch), links_of(net)
    w_n = len(weight)
    for i in range(len(src)):
        a, b = src[i], dst[i]
        n = walk(net, host_switch[a], host_lid[b], links + hosts + b, links + a)
        if n == 0:
            lost += 1
        w = weight[i % w_n]
        for j in range(n):
            loads[path[j]] += w
        if i < len(paths.length):
            paths.length[i] = n
            if n <= paths.channel.shape[1]:
                for j in range(n):
                    paths.channel[i, j] = path[j]
    return lost


@kernel
def flow_shares(net, src, dst, loads, rate, paths, share, worst):
    """Compute rate and worst channel of each flow when the flows of every channel share it equally.
    ``share[i]`` = smallest rate/load on its path (0 without a path), ``worst[i]`` the
    channel with the smallest rate/load. ``paths``: :data:`Paths` of :func:`add_flows`, or empty.
    """
    host_switch, host_lid, path = net.host_switch, net.host_lid, net.path
    hosts, links = len(host_switch), links_of(net)
    for i in range(len(src)):
        a, b = src[i], dst[i]
        n = paths.length[i] if i < len(paths.length) else 0
        stored = i < len(paths.length) and n <= paths.channel.shape[1]
        if not stored:
            n = walk(net, host_switch[a], host_lid[b], links + hosts + b, links + a)
        best = 0.0
        at = -1
        for j in range(n):
            c = paths.channel[i, j] if stored else path[j]
            s = rate[c] / loads[c]
            if at < 0 or s < best:
                best = s
                at = c
        share[i] = best
        worst[i] = at


@kernel
def shift_loads(net, order, shifts, loads, rate, full, mean):
    """Add 1 to ``loads[k, c]`` for each flow order[i] → order[(i + shifts[k]) % n] over channel c; return the number of
    flows without a path.

    Unless ``mean`` is empty, a second walk computes ``mean[k]``: the mean, over the flows of shift k, of the smallest
    rate/load on the path, divided by the rate that the two hosts would have alone (``full``).
    """
    n_hosts = len(order)
    host_switch, host_lid, path = net.host_switch, net.host_lid, net.path
    hosts, links = len(host_switch), links_of(net)
    lost = 0
    for k in range(len(shifts)):
        row = loads[k]
        total = 0.0
        for second in range(2 if len(mean) else 1):
            at = shifts[k] % n_hosts
            for i in range(n_hosts):
                a, b = order[i], order[at]
                at += 1
                if at == n_hosts:
                    at = 0
                n = walk(net, host_switch[a], host_lid[b], links + hosts + b, links + a)
                if not second:
                    lost += n == 0
                    for j in range(n):
                        row[path[j]] += 1
                elif n:
                    best = rate[path[0]] / row[path[0]]
                    for j in range(1, n):
                        best = min(best, rate[path[j]] / row[path[j]])
                    total += best / min(full[a], full[b])
        if len(mean):
            mean[k] = total / n_hosts
    return lost


@kernel(steps=lambda net, hosts_at, hosts_of_at, loads: 2 * len(net.host_lid) * len(hosts_at))
def all_to_all_loads(net, hosts_at, hosts_of_at, loads):
    """Add one flow from every host to every other. ``hosts_at`` are the switches with
    hosts, ``hosts_of_at`` the number of hosts of each.

    Flows of one switch to one destination share their path, so this walks switches × hosts paths,
    not hosts². Returns the pairs without a path.
    """
    host_switch, host_lid, path = net.host_switch, net.host_lid, net.path
    hosts, links = len(host_switch), links_of(net)
    lost = 0
    for b in range(hosts):
        for k in range(len(hosts_at)):
            s = hosts_at[k]
            w = hosts_of_at[k]
            if s == host_switch[b]:
                w -= 1
            if w == 0:
                continue
            n = walk(net, s, host_lid[b], links + hosts + b, -1)
            if n == 0:
                lost += w
            for j in range(n):
                loads[path[j]] += w
    return lost


@kernel
def step_of(first, to, left, step, ready):
    """For each message, write the length of its longest chain of dependencies to ``step``. The messages
    ``to[first[i]:first[i + 1]]`` wait for i; ``left[i]`` is the number of dependencies of i, and is counted down to 0.
    Returns the number of messages that are not in a cycle and do not depend on one."""
    n = 0
    for i in range(len(left)):
        if left[i] == 0:
            ready[n] = i
            n += 1
    at = 0
    while at < n:
        i = ready[at]
        at += 1
        for e in range(first[i], first[i + 1]):
            k = to[e]
            step[k] = max(step[k], step[i] + 1)
            left[k] -= 1
            if left[k] == 0:
                ready[n] = k
                n += 1
    return n


@kernel
def busiest_share(first, channel, link, order, bounds, octets, ps_per_byte, loads, took):
    """Set ``took[i]`` to the time in ps that the busiest link of message i's path needs for the ``octets`` of all
    messages of its step, unless ``took[i]`` is already larger. Messages of step k are ``order[bounds[k]:bounds[k +
    1]]``; ``loads`` must be zeros by link, and is reset to zeros."""
    for k in range(len(bounds) - 1):
        for r in range(bounds[k], bounds[k + 1]):
            i = order[r]
            for e in range(first[i], first[i + 1]):
                loads[link[channel[e]]] += octets[i]
        for r in range(bounds[k], bounds[k + 1]):
            i = order[r]
            for e in range(first[i], first[i + 1]):
                c = link[channel[e]]
                took[i] = max(took[i], loads[c] * ps_per_byte[c])
        for r in range(bounds[k], bounds[k + 1]):
            i = order[r]
            for e in range(first[i], first[i + 1]):
                loads[link[channel[e]]] = 0.0
