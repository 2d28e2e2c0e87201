"""Kernels of the LogGOPS model: operations of ranks in the order of time, with processors,
adapters, and messages that take latency and octets."""

from softib.jit import kernel, table
from softib.jit.rows import Array, Rows, i8

SEND, RECV, COMPUTE = range(3)

Program = table("LoggopsProgram", "rank kind size compute processor receive first to left ready ended pair")
"""Columns by operation: rank, kind, octets, ps of a computation, row of the processor; ``receive``
of a send its receive, of a receive its send (-1); ``to[first[i]:first[i + 1]]`` wait for i;
``left`` for how many each waits (a receive also for its message), ``ready`` ps when the last of
them was there, ``ended`` ps (-1: not yet). ``pair``: of a send the row of :data:`Pairs`."""

Pairs = table("LoggopsPairs", "host_from host_to ps_octet small_ps next_ps mtu_ps answer_ps mtu local inline gap_ps")
"""By queue pair (ranks that send to each other; recorded programs: and a tag): rows of hosts, ps of
an octet on the wire, ps beside it of what is inline, of an octet more and of a packet of ``mtu``,
ps from the arrival until the sender knows; ``local``: both on one host. ``inline``: one element,
the most octets that an adapter is handed with the request; ``gap_ps``: one element, the inverse of
its message rate."""

COSTS = Rows(
    "What operations cost.",
    i8("send_ps", "ps", "Processor time of a send."),
    i8("receive_ps", "ps", "Processor time of a receive."),
    i8("memory_ps", "ps", "Time until a rank of the same host sees a message."),
    i8("memory_bytes_ps", "ps/1000 bytes", "Processor time to write to a rank of the same host."),
    i8("acknowledged", "flag", "Sends end when they are acknowledged."),
)
Costs = table("LoggopsCosts", {"of": Array("", COSTS), "eager": Array("1", "int64", "bytes", "Eager limit.")})

Queue = table("LoggopsQueue", "when what n")
"""A heap of events by time and number; ``n``: one element."""

Busy = table(
    "LoggopsBusy",
    "processor sends receives short_sends short_receives carried pair_sends pair_comes pair_receives",
)
"""Until when (ps): processors of ranks; both directions of the adapters of hosts, for all messages
and for those of a single packet (``carried``: ps for which each has received so far); of queue
pairs the sender, the last message's way, and the receiver."""

ENVELOPE = 30
"""Octets of a packet beside its payload: LRH, BTH, ICRC, VCRC, and padding on average (IBA 5.2)."""


@kernel
def groups(a, b, c, slots, representative, group):
    """``group[i]``: the number of the row's (a, b, c), in the order of the first of each, which is
    ``representative``; how many there are. ``slots``: -1, twice as many as rows at least, a power
    of two."""
    n, mask = 0, len(slots) - 1
    for i in range(len(a)):
        key = (a[i] * 0x9E3779B1 + b[i] * 0x85EBCA77 + c[i] * 0xC2B2AE3D) & 0x7FFFFFFFFFFFFFFF
        at = (key ^ (key >> 29)) & mask
        while True:
            g = slots[at]
            if g < 0:
                slots[at] = n
                representative[n] = i
                group[i] = n
                n += 1
                break
            r = representative[g]
            if a[r] == a[i] and b[r] == b[i] and c[r] == c[i]:
                group[i] = g
                break
            at = (at + 1) & mask
    return n


@kernel
def match(kind, rank, peer, tag, slots, representative, head, tail, next_of, found):
    """k-th send with k-th receive of the same source, target and tag: ``found[i]`` is the other of
    row i (-1: none). ``slots`` as in :func:`groups`; ``head`` and ``next_of``: room, by group and
    row."""
    n, mask = 0, len(slots) - 1
    for i in range(len(kind)):
        if kind[i] == COMPUTE:
            continue
        a, b = rank[i], peer[i]
        if kind[i] == RECV:
            a, b = b, a
        key = (a * 0x9E3779B1 + b * 0x85EBCA77 + tag[i] * 0xC2B2AE3D) & 0x7FFFFFFFFFFFFFFF
        at = (key ^ (key >> 29)) & mask
        g = -1
        while g < 0:
            g = slots[at]
            if g < 0:
                g = n
                slots[at] = g
                representative[g] = i
                head[g] = -1
                n += 1
            else:
                r = representative[g]
                same = rank[r] == a and peer[r] == b if kind[r] == SEND else rank[r] == b and peer[r] == a
                if not same or tag[r] != tag[i]:
                    g = -1
                    at = (at + 1) & mask
        first = head[g]
        if first >= 0 and kind[first] != kind[i]:
            found[i] = first
            found[first] = i
            head[g] = next_of[first]
        else:
            if first < 0:
                head[g] = i
            else:
                next_of[tail[g]] = i
            tail[g] = i
            next_of[i] = -1


@kernel
def turned(needs, value, begin, to):
    """``to[begin[i]:begin[i + 1]]``: ``value`` of the entries of ``needs`` that are i, in their
    order. ``begin`` has two elements of 0 more than there are i."""
    n = len(begin) - 2
    for e in range(len(needs)):
        begin[needs[e] + 2] += 1
    for i in range(n):
        begin[i + 2] += begin[i + 1]
    for e in range(len(needs)):
        i = needs[e] + 1
        to[begin[i]] = value[e]
        begin[i] += 1


@kernel
def push(q, when, what):
    """A new event."""
    at = q.n[0]
    q.n[0] = at + 1
    while at > 0:
        up = (at - 1) >> 1
        if q.when[up] < when or (q.when[up] == when and q.what[up] < what):
            break
        q.when[at] = q.when[up]
        q.what[at] = q.what[up]
        at = up
    q.when[at] = when
    q.what[at] = what


@kernel
def drop_first(q):
    """The first event is taken out."""
    n = q.n[0] - 1
    q.n[0] = n
    when, what, at = q.when[n], q.what[n], 0
    while True:
        down = 2 * at + 1
        if down >= n:
            break
        other = down + 1
        if other < n and (
            q.when[other] < q.when[down] or (q.when[other] == q.when[down] and q.what[other] < q.what[down])
        ):
            down = other
        if when < q.when[down] or (when == q.when[down] and what < q.what[down]):
            break
        q.when[at] = q.when[down]
        q.what[at] = q.what[down]
        at = down
    q.when[at] = when
    q.what[at] = what


@kernel
def one_less(p, q, i, when):
    """Something that i waits for happens at ``when``."""
    if when > p.ready[i]:
        p.ready[i] = when
    p.left[i] -= 1
    if p.left[i] == 0:
        push(q, p.ready[i], i)


@kernel
def ends(p, q, i, when):
    """Operation i has ended."""
    p.ended[i] = when
    for e in range(p.first[i], p.first[i + 1]):
        one_less(p, q, p.to[e], when)


@kernel
def works(p, busy, i, now, ps):
    """The processor of i is taken for ``ps``, from ``now`` on or when it is free; when it is done."""
    k = p.processor[i]
    done = max(now, busy.processor[k]) + ps
    busy.processor[k] = done
    return done


@kernel
def on_wire(pairs, k, size):
    """ps of ``size`` octets at the rate of pair k."""
    packets = max((size + pairs.mtu[k] - 1) // pairs.mtu[k], 1)
    return int((size + packets * ENVELOPE) * pairs.ps_octet[k])


@kernel
def other_ps(pairs, k, size):
    """ps of a message of ``size`` octets beside its time on the wire."""
    if size <= pairs.inline[0]:
        return pairs.small_ps[k]
    share = (min(size, pairs.mtu[k]) - pairs.inline[0]) / max(pairs.mtu[k] - pairs.inline[0], 1)
    return int(pairs.next_ps[k] + share * (pairs.mtu_ps[k] - pairs.next_ps[k]))


@kernel
def inject(p, pairs, costs, q, busy, i, now):
    """The adapter begins to send message i when it is free, and its queue pair has sent what came
    before; it arrives later. One of a single packet waits for others of a single packet alone:
    queue pairs send their packets in turn."""
    k = p.pair[i]
    host, wire = pairs.host_from[k], on_wire(pairs, k, p.size[i])
    took = max(wire, pairs.gap_ps[0])
    began = max(now, busy.sends[host])
    busy.sends[host] = began + took
    if p.size[i] <= pairs.mtu[k]:
        began = max(now, busy.short_sends[host])
        busy.short_sends[host] = began + took
    if p.size[i] <= costs.eager[0]:  # others are READs of the receiver's queue pair
        began = max(began, busy.pair_sends[k])
        busy.pair_sends[k] = began + wire
    if began > now:
        push(q, began, 3 * len(p.rank) + i)
    else:
        leaves(p, pairs, costs, q, busy, i, now)


@kernel
def leaves(p, pairs, costs, q, busy, i, now):
    """The first octet of message i leaves. ``ready`` is from here on when it comes in, or later
    when the receiver has had what came before, less ``carried`` of now."""
    k = p.pair[i]
    host, comes = pairs.host_to[k], now + other_ps(pairs, k, p.size[i])
    p.ready[i] = max(comes, busy.receives[host]) - busy.carried[host]
    there = comes + on_wire(pairs, k, p.size[i])
    if p.size[i] <= costs.eager[0]:
        there = max(there, busy.pair_comes[k] + 1)
        busy.pair_comes[k] = there
    push(q, there, len(p.rank) + i)


@kernel
def run(p, pairs, costs, q, busy):
    """Until nothing happens any more; how many operations have ended, and when the last did."""
    n, done, last = len(p.rank), 0, 0
    for i in range(n):
        if p.left[i] == 0:
            push(q, 0, i)
    while q.n[0] > 0:
        now, what = q.when[0], q.what[0]
        drop_first(q)
        i = what % n
        end = -1
        if what >= 3 * n:  # the adapter has sent what was before message i
            leaves(p, pairs, costs, q, busy, i, now)
        elif what >= 2 * n:  # the processor has handed message i over
            inject(p, pairs, costs, q, busy, i, now)
        elif what >= n:  # it comes in
            end = arrive(p, pairs, costs, q, busy, i, now)
            done += 1 if end >= 0 else 0
        elif p.kind[i] == COMPUTE:
            end = works(p, busy, i, now, p.compute[i])
            ends(p, q, i, end)
            done += 1
        elif p.kind[i] == SEND:
            end = send(p, pairs, costs, q, busy, i, now)
            done += 1 if end >= 0 else 0
        elif (
            p.size[p.receive[i]] > costs.eager[0] and not pairs.local[p.pair[p.receive[i]]]
        ):  # announced: the receiver READs it
            k = p.pair[p.receive[i]]
            push(q, now + other_ps(pairs, k, 1), 2 * n + p.receive[i])
        else:
            end = works(p, busy, i, now, costs.of.receive_ps)
            ends(p, q, i, end)
            done += 1
        last = max(last, end)
    return done, last


@kernel
def send(p, pairs, costs, q, busy, i, now):
    """Send i begins; when it has ended, -1: later."""
    n, k = len(p.rank), p.pair[i]
    writes = p.size[i] * costs.of.memory_bytes_ps // 1000 if pairs.local[k] else 0
    end = works(p, busy, i, now, costs.of.send_ps + writes)
    if pairs.local[k]:
        one_less(p, q, p.receive[i], end + costs.of.memory_ps)
    elif p.size[i] > costs.eager[0]:
        one_less(p, q, p.receive[i], end + other_ps(pairs, k, 1))
        return -1
    else:
        if end == now:
            inject(p, pairs, costs, q, busy, i, now)
        else:
            push(q, end, 2 * n + i)
        if costs.of.acknowledged:
            return -1
    ends(p, q, i, end)
    return end


@kernel
def received(p, busy, host, i, now, took):
    """When the adapter of ``host`` has message i, whose last octet comes in ``now`` and which needs
    the link for ``took``. While something comes in the link is never idle, so the message is there
    when the link has carried all that came since its first octet, and at the latest ``took`` after
    all that came before its last."""
    busy.carried[host] += took
    there = max(now, min(p.ready[i] + busy.carried[host], max(busy.receives[host], now - took) + took))
    busy.receives[host] = max(busy.receives[host], there)
    return there


@kernel
def arrive(p, pairs, costs, q, busy, i, now):
    """Message i comes in at the adapter of its receiver, one after another, single packets between
    them, those of a queue pair in their order; when its send has ended, -1: before."""
    k, r = p.pair[i], p.receive[i]
    host, took = pairs.host_to[k], on_wire(pairs, k, p.size[i])
    there = received(p, busy, host, i, now, took)
    if p.size[i] <= pairs.mtu[k]:
        there = max(busy.short_receives[host], now - took) + took
        busy.short_receives[host] = there
    if p.size[i] > costs.eager[0]:
        ends(p, q, r, works(p, busy, r, there, costs.of.receive_ps))
        ends(p, q, i, there + other_ps(pairs, k, 1))
        return p.ended[i]
    there = max(there, busy.pair_receives[k] + took)
    busy.pair_receives[k] = there
    one_less(p, q, r, there)
    if costs.of.acknowledged:
        ends(p, q, i, there + pairs.answer_ps[k])
        return p.ended[i]
    return -1
