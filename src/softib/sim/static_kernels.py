# mypy: ignore-errors
"""Kernels of the static layer: flows walk forwarding tables and leave their weight on every channel they use.

Channels are numbered as in :class:`softib.sim.static_network.Network`: switch links, then the injection channel of
each host, then the ejection channel of each host. ``chan_at[s, portnum]`` is the channel that leaves switch ``s`` by
``portnum`` (-1 = none), ``chan_to[c]`` the switch it leads to (-1 = a host).
"""

from softib.jit import kernel


@kernel
def walk(source_switch, dlid, last, first, lft, chan_at, chan_to, path):
    """Channels from ``first`` (an injection channel, -1 = leave it out) to ``last`` in ``path``; their number, 0 = no route.

    ``path`` int64[switches + 2] holds the longest path there is; what does not end within it runs in a circle.
    """
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
def add_flows(src, dst, weight, host_switch, host_lid, links, lft, chan_at, chan_to, path, loads):
    """Add ``weight[i % len(weight)]`` of flow i to ``loads`` along its path; returns how many flows have no path."""
    lost = 0
    hosts = len(host_switch)
    w_n = len(weight)
    for i in range(len(src)):
        a, b = src[i], dst[i]
        n = walk(host_switch[a], host_lid[b], links + hosts + b, links + a, lft, chan_at, chan_to, path)
        if n == 0:
            lost += 1
        w = weight[i % w_n]
        for j in range(n):
            loads[path[j]] += w
    return lost


@kernel
def flow_shares(src, dst, weight, host_switch, host_lid, links, lft, chan_at, chan_to, path, loads, rate, share, worst):
    """Rate and worst channel of each flow when every channel is shared in proportion to weight.

    ``share[i]`` = weight × smallest rate/load on its path (0 without a path), ``worst[i]`` the channel where it is.
    """
    hosts = len(host_switch)
    w_n = len(weight)
    for i in range(len(src)):
        a, b = src[i], dst[i]
        n = walk(host_switch[a], host_lid[b], links + hosts + b, links + a, lft, chan_at, chan_to, path)
        best = 0.0
        at = -1
        for j in range(n):
            c = path[j]
            s = rate[c] / loads[c]
            if at < 0 or s < best:
                best = s
                at = c
        share[i] = best * weight[i % w_n]
        worst[i] = at


@kernel
def shift_loads(order, shifts, host_switch, host_lid, links, lft, chan_at, chan_to, path, loads):
    """``loads[k, c]`` += 1 for each flow order[i] → order[(i + shifts[k]) % n] over channel c; lost flows are returned."""
    n_hosts = len(order)
    hosts = len(host_switch)
    lost = 0
    for k in range(len(shifts)):
        row = loads[k]
        at = shifts[k] % n_hosts
        for i in range(n_hosts):
            a, b = order[i], order[at]
            at += 1
            if at == n_hosts:
                at = 0
            n = walk(host_switch[a], host_lid[b], links + hosts + b, links + a, lft, chan_at, chan_to, path)
            if n == 0:
                lost += 1
            for j in range(n):
                row[path[j]] += 1
    return lost


@kernel
def shift_shares(order, shifts, host_switch, host_lid, links, lft, chan_at, chan_to, path, loads, rate, full, mean):
    """``mean[k]`` = mean over the flows of shift k of (smallest rate/load on the path) / (best of both hosts)."""
    n_hosts = len(order)
    hosts = len(host_switch)
    for k in range(len(shifts)):
        row = loads[k]
        total = 0.0
        for i in range(n_hosts):
            a, b = order[i], order[(i + shifts[k]) % n_hosts]
            n = walk(host_switch[a], host_lid[b], links + hosts + b, links + a, lft, chan_at, chan_to, path)
            best = 0.0
            for j in range(n):
                s = rate[path[j]] / row[path[j]]
                if j == 0 or s < best:
                    best = s
            if n:
                total += best / min(full[a], full[b])
        mean[k] = total / n_hosts


@kernel
def all_to_all_loads(hosts_at, hosts_of_at, host_switch, host_lid, links, lft, chan_at, chan_to, path, loads):
    """One flow from every host to every other. ``hosts_at`` are the switches with hosts, ``hosts_of_at`` how many.

    Flows of one switch to one destination share their path, so this walks switches × hosts paths, not hosts².
    Returns the pairs without a path.
    """
    hosts = len(host_switch)
    lost = 0
    for b in range(hosts):
        for k in range(len(hosts_at)):
            s = hosts_at[k]
            w = hosts_of_at[k]
            if s == host_switch[b]:
                w -= 1
            if w == 0:
                continue
            n = walk(s, host_lid[b], links + hosts + b, -1, lft, chan_at, chan_to, path)
            if n == 0:
                lost += w
            for j in range(n):
                loads[path[j]] += w
    return lost
