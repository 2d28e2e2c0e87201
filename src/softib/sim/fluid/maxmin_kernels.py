"""Max-min fair rates by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2), for the
flows that a change affects.

A channel is one VL of one link. The VLs of a link share its rate in proportion to their weights in the VL arbitration
tables (IBA 7.6.9), as in generalised processor sharing (Parekh and Gallager 1993). The share that a VL does not use
goes to the others. The flows of one VL share equally. Rates are max-min fair if and only if each flow has a
**bottleneck**: a channel that is full and on which no flow is faster. :func:`refill` starts with the flows that a
change affects and computes their rates while all others keep theirs. It then adds the flows that lost their bottleneck
by this, until every flow has one.
"""

import numpy as np

from softib.jit import kernel, table
from softib.jit.rows import Array, Rows, i8

Flows = table(
    "Flows",
    "first channel owner next prev rate fresh bottleneck slot member frozen messages served last soonest final",
)
"""A flow is the set of messages that send on one path; ``messages`` is their number. By flow (``first``, ``rate`` Gb/s
of each message, ``fresh``: the new one, ``bottleneck``, ``slot`` in ``Round.sending``, ``member``: the round that it is
in, ``frozen``; ``served`` to ``final``: :mod:`~softib.sim.fluid.flow_kernels`, bytes that each message got by ``last``
ps, the messages that end first and last) and by entry of their paths (``channel``, ``owner``, ``next`` and ``prev`` in
the list of a channel's flows)."""
Links = table(
    "Links", "head flows group link_next link_head gbps several high low high_share marked open used only heap level"
)
"""By channel: ``head`` of the list of its flows, the number of their messages (``flows``), ``group`` (its link),
``link_next`` (next channel of the link), weights ``high`` and ``low``, and the fields written by a round (``marked``:
the round that reached it, ``open`` messages without a rate, ``used`` Gb/s, ``only`` one of its flows, a heap of
channels by ``level``). By link: ``link_head``, ``gbps``, ``several`` (more than one channel), ``high_share`` of the
high-priority table when both have data."""
SIZE = Rows(
    "Scalars of a round of new rates.",
    i8("members", "flows", "Flows of the round."),
    i8("channels", "channels", "Channels of the round."),
    i8("stamp", "number", "Number of the round."),
    i8("sending", "flows", "All flows that send."),
)
Round = table(
    "Round",
    {
        "sending": Array("flows", "int32", "flow", "All flows that send."),
        "members": Array("flows", "int32", "flow", "Flows of the round."),
        "channels": Array("channels", "int32", "channel", "Channels of the round."),
        "size": Array("", SIZE),
    },
)

SAME = 1e-9
"""Rates that differ by less than this are equal."""


@kernel
def put(fl, li, ro, i):
    """Count a message of flow i that begins. The first message adds the flow to the lists of its channels."""
    fl.messages[i] += 1
    for e in range(fl.first[i], fl.first[i + 1]):
        li.flows[fl.channel[e]] += 1
    if fl.messages[i] > 1:
        return
    fl.slot[i] = ro.size.sending
    ro.sending[ro.size.sending] = i
    ro.size.sending += 1
    fl.rate[i] = 0.0
    fl.bottleneck[i] = -1
    for e in range(fl.first[i], fl.first[i + 1]):
        c = fl.channel[e]
        h = li.head[c]
        fl.next[e] = h
        fl.prev[e] = -1
        if h >= 0:
            fl.prev[h] = e
        li.head[c] = e


@kernel
def take(fl, li, ro, i):
    """Count a message of flow i that ends. The last message removes the flow from the lists of its channels."""
    fl.messages[i] -= 1
    for e in range(fl.first[i], fl.first[i + 1]):
        li.flows[fl.channel[e]] -= 1
    if fl.messages[i] > 0:
        return
    ro.size.sending -= 1
    last = ro.sending[ro.size.sending]
    ro.sending[fl.slot[i]] = last
    fl.slot[last] = fl.slot[i]
    for e in range(fl.first[i], fl.first[i + 1]):
        c, before, after = fl.channel[e], fl.prev[e], fl.next[e]
        if before >= 0:
            fl.next[before] = after
        else:
            li.head[c] = after
        if after >= 0:
            fl.prev[after] = before


@kernel
def enter(fl, ro, i):
    """Add flow i to the round: it gets a new rate."""
    if fl.member[i] != ro.size.stamp:
        fl.member[i] = ro.size.stamp
        ro.members[ro.size.members] = i
        ro.size.members += 1


@kernel
def enter_all(fl, li, ro, c, bound):
    """Add the flows of channel c to the round; with ``bound``, only the flows whose bottleneck is c."""
    e = li.head[c]
    while e >= 0:
        i = fl.owner[e]
        if not bound or fl.bottleneck[i] == c:
            enter(fl, ro, i)
        e = fl.next[e]


@kernel
def touch(fl, li, ro, i):
    """Add to the round the flows that shared the bottleneck of a message that has ended; on a link with several VLs,
    all flows."""
    for e in range(fl.first[i], fl.first[i + 1]):
        c = fl.channel[e]
        g = li.group[c]
        if li.several[g]:
            k = li.link_head[g]
            while k >= 0:
                enter_all(fl, li, ro, k, False)
                k = li.link_next[k]
        else:
            enter_all(fl, li, ro, c, True)


@kernel
def less(li, a, b):
    """Compare two channels of the heap: by level, then by number."""
    return li.level[a] < li.level[b] or (li.level[a] == li.level[b] and a < b)


@kernel
def sink(li, at, n):
    """Move entry ``at`` of the heap of ``n`` channels down to its place."""
    heap = li.heap
    c = heap[at]
    while True:
        k = 2 * at + 1
        if k >= n:
            break
        if k + 1 < n and less(li, heap[k + 1], heap[k]):
            k += 1
        if not less(li, heap[k], c):
            break
        heap[at] = heap[k]
        at = k
    heap[at] = c


@kernel
def level_of(li, c):
    """Return the rate in Gb/s that each open message of channel c would get at this point."""
    g = li.group[c]
    if not li.several[g]:
        return max(li.gbps[g] - li.used[c], 0.0) / li.open[c]
    room, high, low = li.gbps[g], 0.0, 0.0
    k = li.link_head[g]
    while k >= 0:
        if li.open[k] > 0:
            high += li.high[k]
            low += li.low[k]
        else:
            room -= li.used[k]
        k = li.link_next[k]
    share = li.high_share[g]
    if low == 0.0:
        share = 1.0
    elif high == 0.0:
        share = 0.0
    part = 0.0
    if high > 0.0:
        part += share * li.high[c] / high
    if low > 0.0:
        part += (1.0 - share) * li.low[c] / low
    return max(room * part - li.used[c], 0.0) / li.open[c]


@kernel
def gather(fl, li, ro):
    """Collect the channels of the round's flows: on each, the number of these flows and the rate
    that all other flows use. For a link with several VLs, all of its flows are included."""
    stamp, members = ro.size.stamp, ro.members
    ro.size.channels = 0
    k = 0
    while k < ro.size.members:
        i = members[k]
        fl.frozen[i] = 0
        for e in range(fl.first[i], fl.first[i + 1]):
            c = fl.channel[e]
            if li.marked[c] != stamp:
                reach(fl, li, ro, c)
            li.open[c] += fl.messages[i]
            li.only[c] = i
        k += 1
    for k in range(ro.size.channels):
        c = ro.channels[k]
        if li.open[c] < li.flows[c]:
            e = li.head[c]
            while e >= 0:
                i = fl.owner[e]
                if fl.member[i] != stamp:
                    li.used[c] += fl.rate[i] * fl.messages[i]
                e = fl.next[e]


@kernel
def reach(fl, li, ro, c):
    """Add channel c to the round, and all channels of its link if that has several VLs."""
    stamp, g = ro.size.stamp, li.group[c]
    k = li.link_head[g] if li.several[g] else c
    while k >= 0:
        if li.marked[k] != stamp:
            li.marked[k] = stamp
            li.open[k] = 0
            li.used[k] = 0.0
            ro.channels[ro.size.channels] = k
            ro.size.channels += 1
        if not li.several[g]:
            break
        enter_all(fl, li, ro, k, False)
        k = li.link_next[k]


@kernel
def cannot_bind(fl, li, c):
    """Return whether channel c has only one open flow, and the flow's first channel never allows it a higher rate than
    c."""
    if li.open[c] != fl.messages[li.only[c]] or li.several[li.group[c]]:
        return False
    first = fl.channel[fl.first[li.only[c]]]
    g = li.group[first]
    if first == c or li.several[g]:
        return False
    return li.gbps[g] - li.used[first] <= li.gbps[li.group[c]] - li.used[c]


@kernel
def fill(fl, li, ro):
    """Compute the rates of the round's flows (``fresh``): repeatedly, the channel with the lowest
    level fixes the rates of its flows."""
    n = 0
    for k in range(ro.size.channels):
        c = ro.channels[k]
        if li.open[c] > 0 and not cannot_bind(fl, li, c):
            li.level[c] = level_of(li, c)
            li.heap[n] = c
            n += 1
    for k in range(n // 2 - 1, -1, -1):
        sink(li, k, n)
    while n > 0:
        c = li.heap[0]
        if li.open[c] > 0:
            level = level_of(li, c)
            if level > li.level[c] * (1 + 1e-12):  # fixing the flows of other channels can only raise a level
                li.level[c] = level
                sink(li, 0, n)
                continue
            bind(fl, li, ro, c, level)
        n -= 1
        li.heap[0] = li.heap[n]
        sink(li, 0, n)


@kernel
def bind(fl, li, ro, c, level):
    """Give the open flows of channel c the rate ``level``."""
    stamp = ro.size.stamp
    e = li.head[c]
    while e >= 0:
        i = fl.owner[e]
        if fl.member[i] == stamp and fl.frozen[i] == 0:
            fl.frozen[i] = 1
            fl.fresh[i] = level
            fl.bottleneck[i] = c
            for k in range(fl.first[i], fl.first[i + 1]):
                d = fl.channel[k]
                li.used[d] += level * fl.messages[i]
                li.open[d] -= fl.messages[i]
        e = fl.next[e]


@kernel
def broken(fl, li, ro):
    """Add the flows outside the round that no longer have a bottleneck, or that have more than their share of a full
    channel; return whether there were any."""
    stamp, before = ro.size.stamp, ro.size.members
    for k in range(ro.size.channels):
        c = ro.channels[k]
        most, bound, others = 0.0, np.inf, 0
        e = li.head[c]
        while e >= 0:
            i = fl.owner[e]
            if fl.member[i] == stamp:
                most = max(most, fl.fresh[i])
                if fl.bottleneck[i] == c:
                    bound = min(bound, fl.fresh[i])
            else:
                others += 1
            e = fl.next[e]
        if others == 0:
            continue
        full = li.used[c] >= li.gbps[li.group[c]] * (1 - SAME)
        e = li.head[c]
        while e >= 0:
            i = fl.owner[e]
            if fl.member[i] != stamp:
                lost = fl.bottleneck[i] == c and (not full or most > fl.rate[i] * (1 + SAME))
                if lost or fl.rate[i] > bound * (1 + SAME):
                    enter(fl, ro, i)
            e = fl.next[e]
    return ro.size.members > before


@kernel
def refill(fl, li, ro):
    """Compute new rates (``fresh``) after a change, for the flows of the round and all others that it
    affects."""
    while True:
        sending = ro.size.sending
        if 2 * ro.size.members > sending > ro.size.members:
            for k in range(sending):
                enter(fl, ro, ro.sending[k])
        restamp(fl, ro)
        gather(fl, li, ro)
        fill(fl, li, ro)
        if ro.size.members == sending or not broken(fl, li, ro):
            return


@kernel
def restamp(fl, ro):
    """Start a new round with the same members, so that the previous round's marks on channels become invalid."""
    ro.size.stamp += 1
    for k in range(ro.size.members):
        fl.member[ro.members[k]] = ro.size.stamp
