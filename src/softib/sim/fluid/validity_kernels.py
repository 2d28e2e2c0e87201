"""Detection of fluid rates that a lossless network with credits cannot have; docs/simulate.md has
the rule.

A flow whose bottleneck is an output port of a switch fills the buffers of every link before it:
these links are **back-pressured**. Fluid rates hold as long as

* on a back-pressured link, no flow is faster than a flow that waits there for a later bottleneck; otherwise the faster
  flow's packets would wait behind packets of the slower one (head-of-line blocking);
* no flow passes two full ports that it shares with other flows; otherwise it would wait at both, and get a lower rate
  than flows that wait at one of them;
* the back-pressured inputs of a port that is a bottleneck, or back-pressured itself, have equal
  rates: switches serve input ports in turn, not flows;
* when a message begins to use a link, all bytes of the message before it have already left the link; this matters
  because fluid flows take no time along their path.
"""

import numpy as np

from softib.jit import kernel, table

Doubt = table(
    "Doubt",
    "found inside stamp slowest met visited brings waits tail_ps tail_of shared overlap_ps vague_ps "
    "ack_ps was moved nearest furthest spread_ps gap_wait_ps unlike "
    "bottleneck least_ps most_ps shared_at moved_by moved_at spread spread_at unlike_at",
)
"""``found`` int64[4]: ps, message, channel and reason of the first violation (-1: none). By channel: ``inside`` (1: a
switch sends on it), ``slowest``: Gb/s of the slowest flow that waits on it for a later bottleneck, ``met`` and
``visited`` (rounds), ``brings``: Gb/s that it brings to the port being checked, ``waits``: whether any of these flows
waits, ``tail_ps``: when the last byte of the last message reached its end, ``tail_of``: the first link of that message.
By message: ``shared``: other flows shared its bottleneck; ``overlap_ps``: how long it may have met the tail of an
earlier message, ``vague_ps``: uncertainty of its start, because the acknowledgements in its chain of dependencies may
have waited behind data packets, ``ack_ps`` each (half a packet at every second hop), ``was``: its last bottleneck,
``moved``: hops by which a shared bottleneck moved towards its sender, ``spread_ps``: difference in delay of the paths
that share its bottleneck (``nearest`` and ``furthest`` by channel), ``gap_wait_ps``: how long it waited for the message
rate of its adapter while other queue pairs sent, ``unlike``: the most serious reason (:data:`BLOCKED` and those below
it) why its rate may differ. By flow, since its first message began, with the last time in ps (-1: never):
``bottleneck`` of its last round, ``least_ps`` and ``most_ps`` delay of its messages, ``shared_at``, ``moved_by`` and
``moved_at``, ``spread`` and ``spread_at``, ``unlike_at`` (int64[flows, 4] by reason). A message gets them when it ends
(:func:`inherit`)."""

TWICE, UNEVEN, BLOCKED = 1, 2, 3
"""Reasons for a different rate, the most serious last."""
EVEN = 0.01
"""Rates that differ by less than this share count as equal."""


@kernel
def doubt_at(fl, do, now, i, c, reason):
    """Record ``reason``: flow i may have another rate than in the fluid layer. ``do.found`` keeps the first violation
    of the most serious kind."""
    do.unlike_at[i, reason] = now
    if do.found[0] < 0 or reason > do.found[3]:
        do.found[0], do.found[1], do.found[2], do.found[3] = now, fl.soonest[i], c, reason


@kernel
def forget(do, f):
    """Clear the values that earlier messages left in flow f, when its first message begins."""
    do.bottleneck[f] = -1
    do.least_ps[f] = np.int64(1) << np.int64(62)
    do.most_ps[f] = 0
    do.shared_at[f] = -1
    do.moved_at[f] = -1
    do.moved_by[f] = 0
    do.spread_at[f] = -1
    do.spread[f] = 0
    for reason in range(TWICE, BLOCKED + 1):
        do.unlike_at[f, reason] = -1


@kernel
def widen(do, f, forth_ps):
    """Widen the spread of flow f for a new message with this delay."""
    do.least_ps[f] = min(do.least_ps[f], forth_ps)
    do.most_ps[f] = max(do.most_ps[f], forth_ps)


@kernel
def inherit(do, f, i, since):
    """Copy the reasons why flow f may have another rate to its message i, which began at ``since`` and ends now; only
    reasons found since then count. Amounts are the largest of the flow, so they may be those of an earlier message."""
    do.was[i] = do.bottleneck[f]
    do.shared[i] = do.shared_at[f] >= since
    if do.moved_at[f] > since:
        do.moved[i] = do.moved_by[f]
    if do.spread_at[f] >= since:
        do.spread_ps[i] = do.spread[f]
    for reason in range(TWICE, BLOCKED + 1):
        if do.unlike_at[f, reason] >= since:
            do.unlike[i] = reason


@kernel
def bottleneck_entry(fl, i):
    """Return the entry of flow i's path that is its bottleneck, or the first entry if it has none."""
    for e in range(fl.first[i], fl.first[i + 1]):
        if fl.channel[e] == fl.bottleneck[i]:
            return e
    return fl.first[i]


@kernel
def judge(fl, li, ro, do, now):
    """Check the flows that have new rates; ``do.found`` gets the first violation."""
    stamp = ro.size.stamp
    for k in range(ro.size.members):
        i = ro.members[k]
        if shared_link(li, fl.bottleneck[i]):
            share(fl, do, i, stamp, now)
            if full_twice(fl, li, do, i):
                doubt_at(fl, do, now, i, fl.bottleneck[i], TWICE)
        do.bottleneck[i] = fl.bottleneck[i]
        if do.inside[fl.bottleneck[i]]:
            for e in range(fl.first[i], bottleneck_entry(fl, i)):
                press(fl, li, do, fl.channel[e], stamp)
    for k in range(ro.size.members):
        i = ro.members[k]
        b = fl.bottleneck[i]
        if do.inside[b] and shared_link(li, b):
            do.spread[i] = max(do.spread[i], do.furthest[b] - do.nearest[b])
            do.spread_at[i] = now
        for e in range(fl.first[i], fl.first[i + 1]):
            u = fl.channel[e]
            if do.stamp[u] == stamp and fl.rate[i] > do.slowest[u] * (1 + EVEN):
                doubt_at(fl, do, now, i, u, BLOCKED)
    for k in range(ro.size.members):
        i = ro.members[k]
        if do.inside[fl.bottleneck[i]]:
            for e in range(fl.first[i] + 1, bottleneck_entry(fl, i) + 1):
                look_even(fl, li, do, fl.channel[e], stamp, now)


@kernel
def shared_link(li, c):
    """Return whether several messages use the link of channel c, on any VL."""
    g = li.group[c]
    if not li.several[g]:
        return li.flows[c] > 1
    flows, k = 0, li.link_head[g]
    while k >= 0:
        flows += li.flows[k]
        k = li.link_next[k]
    return flows > 1


@kernel
def full_twice(fl, li, do, i):
    """Return whether flow i passes a second full port, which it shares with flows that do not pass its bottleneck. Its
    packets wait at both ports, so it gets a lower rate than flows that wait at one."""
    b = fl.bottleneck[i]
    if not do.inside[b]:
        return False
    for e in range(fl.first[i], fl.first[i + 1]):
        c = fl.channel[e]
        if c != b and do.inside[c] and li.flows[c] > 1 and li.used[c] >= li.gbps[li.group[c]] * (1 - EVEN):
            if not same_flows(fl, li, b, c):
                return True
    return False


@kernel
def same_flows(fl, li, b, c):
    """Return whether channels b and c carry the same flows. Only the number of flows and the first few flows are
    compared."""
    if li.flows[b] != li.flows[c]:
        return False
    at, looked = li.head[c], 0
    while at >= 0 and looked < 8:
        i = fl.owner[at]
        passes = False
        for e in range(fl.first[i], fl.first[i + 1]):
            if fl.channel[e] == b:
                passes = True
        if not passes:
            return False
        at = fl.next[at]
        looked += 1
    return True


@kernel
def share(fl, do, i, stamp, now):
    """Record that flow i shares its bottleneck, with the spread of the paths' delays. Also record whether its previous
    bottleneck was later on the path: then the flow's bytes wait in the buffers in between."""
    b, before = fl.bottleneck[i], do.bottleneck[i]
    do.shared_at[i] = now
    if do.met[b] != stamp:
        do.met[b] = stamp
        do.nearest[b] = do.least_ps[i]
        do.furthest[b] = do.most_ps[i]
    do.nearest[b] = min(do.nearest[b], do.least_ps[i])
    do.furthest[b] = max(do.furthest[b], do.most_ps[i])
    if before >= 0 and before != b and do.inside[before]:
        here, there = 0, 0
        for e in range(fl.first[i], fl.first[i + 1]):
            if fl.channel[e] == b:
                here = e
            if fl.channel[e] == before:
                there = e
        if there > here:
            do.moved_by[i] = max(do.moved_by[i], there - here)
            do.moved_at[i] = now


@kernel
def press(fl, li, do, u, stamp):
    """Find the slowest flow that waits on the back-pressured link u for a later bottleneck."""
    if do.stamp[u] == stamp:
        return
    do.stamp[u] = stamp
    do.slowest[u] = np.inf
    at = li.head[u]
    while at >= 0:
        if waits_beyond(fl, do, at):
            do.slowest[u] = min(do.slowest[u], fl.rate[fl.owner[at]])
        at = fl.next[at]


@kernel
def waits_beyond(fl, do, entry):
    """Return whether the flow of this entry has its bottleneck at a later port."""
    i = fl.owner[entry]
    return do.inside[fl.bottleneck[i]] and bottleneck_entry(fl, i) > entry


@kernel
def look_even(fl, li, do, x, stamp, now):
    """Check whether the inputs that port x back-pressures have equal rates; if not, mark the flows of x. Each port is
    checked once per round."""
    if not do.inside[x] or do.visited[x] == stamp:
        return
    do.visited[x] = stamp
    at = li.head[x]
    while at >= 0:
        if at > fl.first[fl.owner[at]]:
            u = fl.channel[at - 1]
            do.brings[u] = 0.0
            do.waits[u] = 0
        at = fl.next[at]
    at = li.head[x]
    while at >= 0:
        if at > fl.first[fl.owner[at]]:
            u = fl.channel[at - 1]
            do.brings[u] += fl.rate[fl.owner[at]] * fl.messages[fl.owner[at]]
            if waits_beyond(fl, do, at - 1):
                do.waits[u] = 1
        at = fl.next[at]
    least, most = np.inf, 0.0
    at = li.head[x]
    while at >= 0:
        if at > fl.first[fl.owner[at]]:
            u = fl.channel[at - 1]
            if do.waits[u]:
                least = min(least, do.brings[u])
            most = max(most, do.brings[u])
        at = fl.next[at]
    if most > least * (1 + EVEN):
        at = li.head[x]
        while at >= 0:
            doubt_at(fl, do, now, fl.owner[at], x, UNEVEN)
            at = fl.next[at]


@kernel
def meet(fl, do, f, i, head_ps):
    """Check whether message i of flow f, which begins, meets the tail of another sender's message on its links. Its
    first byte reaches the end of its path at ``head_ps``."""
    first = fl.channel[fl.first[f]]
    for e in range(fl.first[f], fl.first[f + 1]):
        c = fl.channel[e]
        if do.inside[c] and do.tail_of[c] >= 0 and do.tail_of[c] != first:
            do.overlap_ps[i] = max(do.overlap_ps[i], do.tail_ps[c] + do.vague_ps[i] - head_ps)


@kernel
def hand_on(do, i, k, by_completion):
    """Pass the uncertainty of message i on to message k, which begins because of it, plus the uncertainty of an
    acknowledgement in between."""
    do.vague_ps[k] = max(do.vague_ps[k], do.vague_ps[i] + (do.ack_ps[i] if by_completion else 0))


@kernel
def leave(fl, do, i, tail_ps):
    """Record that the last byte of a message of flow i reaches the end of its path at ``tail_ps``."""
    first = fl.channel[fl.first[i]]
    for e in range(fl.first[i], fl.first[i + 1]):
        c = fl.channel[e]
        if tail_ps >= do.tail_ps[c]:
            do.tail_ps[c] = tail_ps
            do.tail_of[c] = first


@kernel
def gather_doubts(order, first, needs, before, off, delay):
    """Write the possible delay of each message to ``delay`` (ps): its own possible error (``off``), plus the largest
    possible delay of its dependencies and of the previous message on its queue pair (``before``). ``order``: messages
    by the time at which they began."""
    for k in range(len(order)):
        i = order[k]
        most = 0.0
        for e in range(first[i], first[i + 1]):
            most = max(most, delay[needs[e]])
        if before[i] >= 0:
            most = max(most, delay[before[i]])
        delay[i] = off[i] + most
    return delay
