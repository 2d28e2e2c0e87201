"""Where rates of flows cannot be what a lossless network with credits gives: docs/simulate.md has
the rule.

A flow whose bottleneck is an output port of a switch fills the buffers of every link before it:
these links are **back-pressured**. Fluid rates hold as long as

* on a back-pressured link no flow is faster than one that waits there for a bottleneck further on:
  it would wait behind packets that wait (head-of-line blocking);
* no flow has two shared ports that are full: it would wait at both, and get less than flows that
  wait at one of them;
* the back-pressured inputs of a port that is a bottleneck, or back-pressured itself, bring it equal
  rates: switches serve input ports in turn, not flows;
* a message that comes behind another one over the same link finds that one's bytes gone from it:
  fluid flows need no time along their path.
"""

import numpy as np

from softib.jit import kernel, table

Doubt = table(
    "Doubt",
    "found inside stamp slowest met visited brings waits tail_ps tail_of shared overlap_ps vague_ps "
    "ack_ps was moved forth_ps nearest furthest spread_ps gap_wait_ps unlike",
)
"""``found`` int64[4]: ps, message, channel and reason of the first violation (-1: none). By
channel: ``inside`` (1: a switch sends on it), the ``slowest`` Gb/s of a flow that waits on it for
another, ``met`` and ``visited`` (rounds), Gb/s that it ``brings`` to the port that is looked at,
``waits`` (whether a flow that it brings waits), ``tail_ps`` when the last byte of the last message
came to its end, ``tail_of`` the first link of that one. By message: ``shared``: it had others with
it at its bottleneck; ``overlap_ps``: how long it may have met the tail of one before it,
``vague_ps``: how far its begin is unsure, because acknowledgements that it waited for, and those
waited for before, may have stood behind data packets, ``ack_ps`` each (half a packet at every
second hop), ``was``: its last bottleneck, ``moved``: hops by which a shared bottleneck came nearer
to its sender, ``forth_ps`` its path's time, ``spread_ps``: by how much the paths of those that
share its bottleneck differ (``nearest`` and ``furthest`` by channel), ``gap_wait_ps``: how long it
waited for the message rate of its adapter while other queue pairs send, ``unlike``: the gravest
reason (:data:`BLOCKED` and those below it) for which its rate may be another one."""

TWICE, UNEVEN, BLOCKED = 1, 2, 3
"""Reasons for another rate, the gravest last."""
EVEN = 0.01
"""Rates that differ by less count as even."""


@kernel
def doubt_at(do, now, i, c, reason):
    """Flow i may have another rate than the fluid's; the first of the gravest doubts is remembered."""
    do.unlike[i] = max(do.unlike[i], reason)
    if do.found[0] < 0 or reason > do.found[3]:
        do.found[0], do.found[1], do.found[2], do.found[3] = now, i, c, reason


@kernel
def bottleneck_entry(fl, i):
    """Entry of flow i's path at which its bottleneck is; the first is its own link."""
    for e in range(fl.first[i], fl.first[i + 1]):
        if fl.channel[e] == fl.bottleneck[i]:
            return e
    return fl.first[i]


@kernel
def judge(fl, li, ro, do, now):
    """Look at the flows that have new rates; ``do.found`` gets the first doubt."""
    stamp = ro.size.stamp
    for k in range(ro.size.members):
        i = ro.members[k]
        if shared_link(li, fl.bottleneck[i]):
            share(fl, do, i, stamp)
            if full_twice(fl, li, do, i):
                doubt_at(do, now, i, fl.bottleneck[i], TWICE)
        do.was[i] = fl.bottleneck[i]
        if do.inside[fl.bottleneck[i]]:
            for e in range(fl.first[i], bottleneck_entry(fl, i)):
                press(fl, li, do, fl.channel[e], stamp)
    for k in range(ro.size.members):
        i = ro.members[k]
        b = fl.bottleneck[i]
        if do.inside[b] and shared_link(li, b):
            do.spread_ps[i] = max(do.spread_ps[i], do.furthest[b] - do.nearest[b])
        for e in range(fl.first[i], fl.first[i + 1]):
            u = fl.channel[e]
            if do.stamp[u] == stamp and fl.rate[i] > do.slowest[u] * (1 + EVEN):
                doubt_at(do, now, i, u, BLOCKED)
    for k in range(ro.size.members):
        i = ro.members[k]
        if do.inside[fl.bottleneck[i]]:
            for e in range(fl.first[i] + 1, bottleneck_entry(fl, i) + 1):
                look_even(fl, li, do, fl.channel[e], stamp, now)


@kernel
def shared_link(li, c):
    """Have several flows the link of channel c, on whatever VLs?"""
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
    """Is another port full that flow i shares, with others than at its bottleneck? Its packets wait
    at both, and get less than those of flows that wait at one."""
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
    """Do the flows of channel c pass b, too? As many, and the first few of them do."""
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
def share(fl, do, i, stamp):
    """Flow i shares its bottleneck: with flows of what paths, and had it one further on before, so
    that its bytes wait in buffers between?"""
    b, before = fl.bottleneck[i], do.was[i]
    do.shared[i] = 1
    if do.met[b] != stamp:
        do.met[b] = stamp
        do.nearest[b] = do.forth_ps[i]
        do.furthest[b] = do.forth_ps[i]
    do.nearest[b] = min(do.nearest[b], do.forth_ps[i])
    do.furthest[b] = max(do.furthest[b], do.forth_ps[i])
    if before >= 0 and before != b and do.inside[before]:
        here, there = 0, 0
        for e in range(fl.first[i], fl.first[i + 1]):
            if fl.channel[e] == b:
                here = e
            if fl.channel[e] == before:
                there = e
        do.moved[i] = max(do.moved[i], there - here)


@kernel
def press(fl, li, do, u, stamp):
    """Link u is back-pressured: the slowest of the flows that wait on it for a bottleneck further
    on."""
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
    """Has the flow of this entry its bottleneck at a port further on?"""
    i = fl.owner[entry]
    return do.inside[fl.bottleneck[i]] and bottleneck_entry(fl, i) > entry


@kernel
def look_even(fl, li, do, x, stamp, now):
    """Do the inputs of port x that are back-pressured by it bring it equal rates? If not, its flows
    are in doubt. Each port is looked at once a round."""
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
            do.brings[u] += fl.rate[fl.owner[at]]
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
            doubt_at(do, now, fl.owner[at], x, UNEVEN)
            at = fl.next[at]


@kernel
def meet(fl, do, i, head_ps):
    """Flow i begins, and its first byte comes to the end of its path at ``head_ps``: is the tail
    of another sender's message still on its links?"""
    first = fl.channel[fl.first[i]]
    for e in range(fl.first[i], fl.first[i + 1]):
        c = fl.channel[e]
        if do.inside[c] and do.tail_of[c] >= 0 and do.tail_of[c] != first:
            do.overlap_ps[i] = max(do.overlap_ps[i], do.tail_ps[c] + do.vague_ps[i] - head_ps)


@kernel
def hand_on(do, i, k, by_completion):
    """Message k begins because of message i: what is unsure of the one is of the other, and more
    where an acknowledgement stands between."""
    do.vague_ps[k] = max(do.vague_ps[k], do.vague_ps[i] + (do.ack_ps[i] if by_completion else 0))


@kernel
def leave(fl, do, i, tail_ps):
    """The last byte of flow i comes to the end of its path at ``tail_ps``."""
    first = fl.channel[fl.first[i]]
    for e in range(fl.first[i], fl.first[i + 1]):
        c = fl.channel[e]
        if tail_ps >= do.tail_ps[c]:
            do.tail_ps[c] = tail_ps
            do.tail_of[c] = first


@kernel
def gather_doubts(order, first, needs, before, off, delay):
    """ps by which each message may be delay: what it may be off, and the latest of those that it
    waits for. ``order``: by time of begin."""
    for k in range(len(order)):
        i = order[k]
        most = 0.0
        for e in range(first[i], first[i + 1]):
            most = max(most, delay[needs[e]])
        if before[i] >= 0:
            most = max(most, delay[before[i]])
        delay[i] = off[i] + most
    return delay
