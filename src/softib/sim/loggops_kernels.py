"""Kernels of the LogGOPS model: operations of ranks in time order, with processors,
adapters, and messages with latency and bytes."""

from softib.jit import kernel, table
from softib.jit.rows import Array, Rows, i8

SEND, RECV, COMPUTE = range(3)

Program = table("LoggopsProgram", "rank kind size compute processor receive first to left ready ended pair")
"""Columns by operation: rank, kind, size in bytes, duration of a computation in ps, row of the processor.

* ``receive``: for a send its receive, for a receive its send (-1: none).
* ``to``: the operations ``to[first[i]:first[i + 1]]`` wait for i.
* ``left``: number of operations that each waits for (a receive also waits for its message).
* ``ready``: time when the last of them was done (ps). * ``ended``: time of its end (ps; -1: not yet).
* ``pair``: for a send, the row of :data:`Pairs`.
"""

Pairs = table("LoggopsPairs", "host_from host_to ps_octet small_ps next_ps mtu_ps answer_ps mtu local inline gap_ps")
"""By queue pair (ranks that send to each other; in recorded programs, also the tag): rows of both hosts; ps per byte on
the wire; additional ps of an inline message, of the first byte beyond that, and of a packet of ``mtu``; ps from the
arrival until the sender's completion; ``local``: both ranks are on one host. ``inline``: one element, the largest
payload posted with the request; ``gap_ps``: one element, the inverse of its message rate."""

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
"""A heap of events, ordered by time and number; ``n``: the number of events, in one element."""

Busy = table(
    "LoggopsBusy",
    "processor sends receives short_sends short_receives carried pair_sends pair_comes pair_receives",
)
"""Times (ps) until which each resource is busy. ``processor``: by rank. By host, for the adapter: ``sends`` and
``receives`` for all messages, ``short_sends`` and ``short_receives`` for messages of a single packet; ``carried``:
total ps that the adapter has received so far. By queue pair: rank of its sender, path of its last message, rank of its
receiver."""

ENVELOPE = 30
"""Bytes of a packet in addition to its payload: LRH, BTH, ICRC, VCRC, and padding on average (IBA 5.2)."""


@kernel
def groups(a, b, c, slots, representative, group):
    """Number the distinct (a, b, c) of rows in order of first appearance. ``group[i]`` is the
    number of row i; ``representative`` is the first row of each number. Returns the count.
    ``slots``: scratch array, filled with -1; its length is a power of two, at least twice the number of rows."""
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
def match(kind, rank, peer, tag, slots, representative, head, tail, next_of, met):
    """Match the k-th send with the k-th receive of the same source, target and tag: ``met[i]`` is set to the match of
    row i (-1: none). ``slots`` as in :func:`groups`; ``head`` (by group), ``tail`` and ``next_of`` (by row) are scratch
    arrays."""
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
            met[i] = first
            met[first] = i
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
    """Reverse a CSR list: ``to[begin[i]:begin[i + 1]]`` gets the ``value`` of each entry of ``needs`` that equals i, in
    order. ``begin`` starts as zeros and has two more elements than i has values."""
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
def push(queue, when, event):
    """Add an event."""
    at = queue.n[0]
    queue.n[0] = at + 1
    while at > 0:
        up = (at - 1) >> 1
        if queue.when[up] < when or (queue.when[up] == when and queue.what[up] < event):
            break
        queue.when[at] = queue.when[up]
        queue.what[at] = queue.what[up]
        at = up
    queue.when[at] = when
    queue.what[at] = event


@kernel
def drop_first(queue):
    """Remove the first event."""
    n = queue.n[0] - 1
    queue.n[0] = n
    when, event, at = queue.when[n], queue.what[n], 0
    while True:
        down = 2 * at + 1
        if down >= n:
            break
        other = down + 1
        if other < n and (
            queue.when[other] < queue.when[down]
            or (queue.when[other] == queue.when[down] and queue.what[other] < queue.what[down])
        ):
            down = other
        if when < queue.when[down] or (when == queue.when[down] and event < queue.what[down]):
            break
        queue.when[at] = queue.when[down]
        queue.what[at] = queue.what[down]
        at = down
    queue.when[at] = when
    queue.what[at] = event


@kernel
def one_less(program, queue, i, when):
    """Record that a dependency of i is done at ``when``."""
    if when > program.ready[i]:
        program.ready[i] = when
    program.left[i] -= 1
    if program.left[i] == 0:
        push(queue, program.ready[i], i)


@kernel
def ends(program, queue, i, when):
    """End operation i."""
    program.ended[i] = when
    for e in range(program.first[i], program.first[i + 1]):
        one_less(program, queue, program.to[e], when)


@kernel
def works(program, busy, i, now, ps):
    """Occupy the processor of i for ``ps``, from ``now`` or from when it is free; return the end."""
    k = program.processor[i]
    done = max(now, busy.processor[k]) + ps
    busy.processor[k] = done
    return done


@kernel
def on_wire(pairs, k, size):
    """Return the time in ps of ``size`` bytes at the rate of pair k."""
    packets = max((size + pairs.mtu[k] - 1) // pairs.mtu[k], 1)
    return int((size + packets * ENVELOPE) * pairs.ps_octet[k])


@kernel
def other_ps(pairs, k, size):
    """Return the time in ps of a message of ``size`` bytes in addition to its time on the wire."""
    if size <= pairs.inline[0]:
        return pairs.small_ps[k]
    share = (min(size, pairs.mtu[k]) - pairs.inline[0]) / max(pairs.mtu[k] - pairs.inline[0], 1)
    return int(pairs.next_ps[k] + share * (pairs.mtu_ps[k] - pairs.next_ps[k]))


@kernel
def inject(program, pairs, costs, queue, busy, i, now):
    """Start to send message i when the adapter is free and its queue pair has sent its earlier
    messages; it arrives later. A message of a single packet waits only for other such messages,
    because queue pairs send their packets in turn."""
    k = program.pair[i]
    host, wire = pairs.host_from[k], on_wire(pairs, k, program.size[i])
    took = max(wire, pairs.gap_ps[0])
    began = max(now, busy.sends[host])
    busy.sends[host] = began + took
    if program.size[i] <= pairs.mtu[k]:
        began = max(now, busy.short_sends[host])
        busy.short_sends[host] = began + took
    if program.size[i] <= costs.eager[0]:  # larger messages are READs of the receiver's queue pair
        began = max(began, busy.pair_sends[k])
        busy.pair_sends[k] = began + wire
    if began > now:
        push(queue, began, 3 * len(program.rank) + i)
    else:
        leaves(program, pairs, costs, queue, busy, i, now)


@kernel
def leaves(program, pairs, costs, queue, busy, i, now):
    """Handle the departure of message i's first byte. Set ``ready`` to the time of arrival (or, if later, the time when
    the receiver has received earlier messages) minus the present ``carried``."""
    k = program.pair[i]
    host, comes = pairs.host_to[k], now + other_ps(pairs, k, program.size[i])
    program.ready[i] = max(comes, busy.receives[host]) - busy.carried[host]
    there = comes + on_wire(pairs, k, program.size[i])
    if program.size[i] <= costs.eager[0]:
        there = max(there, busy.pair_comes[k] + 1)
        busy.pair_comes[k] = there
    push(queue, there, len(program.rank) + i)


@kernel
def run(program, pairs, costs, queue, busy):
    """Run until no event is left; return the number of operations that have ended, and the time of the last end."""
    n, done, last = len(program.rank), 0, 0
    for i in range(n):
        if program.left[i] == 0:
            push(queue, 0, i)
    while queue.n[0] > 0:
        now, event = queue.when[0], queue.what[0]
        drop_first(queue)
        i = event % n
        end = -1
        if event >= 3 * n:  # the adapter has sent the messages before i
            leaves(program, pairs, costs, queue, busy, i, now)
        elif event >= 2 * n:  # the processor has passed message i to the adapter
            inject(program, pairs, costs, queue, busy, i, now)
        elif event >= n:  # message i arrives at the adapter
            end = arrive(program, pairs, costs, queue, busy, i, now)
            done += 1 if end >= 0 else 0
        elif program.kind[i] == COMPUTE:
            end = works(program, busy, i, now, program.compute[i])
            ends(program, queue, i, end)
            done += 1
        elif program.kind[i] == SEND:
            end = send(program, pairs, costs, queue, busy, i, now)
            done += 1 if end >= 0 else 0
        elif (
            program.size[program.receive[i]] > costs.eager[0] and not pairs.local[program.pair[program.receive[i]]]
        ):  # rendezvous: the receiver fetches the message with a READ
            k = program.pair[program.receive[i]]
            push(queue, now + other_ps(pairs, k, 1), 2 * n + program.receive[i])
        else:
            end = works(program, busy, i, now, costs.of.receive_ps)
            ends(program, queue, i, end)
            done += 1
        last = max(last, end)
    return done, last


@kernel
def send(program, pairs, costs, queue, busy, i, now):
    """Begin send i; return when it ends, or -1 if that is not known yet."""
    n, k = len(program.rank), program.pair[i]
    writes = program.size[i] * costs.of.memory_bytes_ps // 1000 if pairs.local[k] else 0
    end = works(program, busy, i, now, costs.of.send_ps + writes)
    if pairs.local[k]:
        one_less(program, queue, program.receive[i], end + costs.of.memory_ps)
    elif program.size[i] > costs.eager[0]:
        one_less(program, queue, program.receive[i], end + other_ps(pairs, k, 1))
        return -1
    else:
        if end == now:
            inject(program, pairs, costs, queue, busy, i, now)
        else:
            push(queue, end, 2 * n + i)
        if costs.of.acknowledged:
            return -1
    ends(program, queue, i, end)
    return end


@kernel
def received(program, busy, host, i, now, took):
    """Return when the adapter of ``host`` has received message i. Its last byte arrives at ``now``, and it needs the
    link for ``took``. The link is never idle while data arrives. So the message is complete when the link has carried
    all bytes since the message's first one, and at the latest ``took`` after all bytes before its last one."""
    busy.carried[host] += took
    there = max(now, min(program.ready[i] + busy.carried[host], max(busy.receives[host], now - took) + took))
    busy.receives[host] = max(busy.receives[host], there)
    return there


@kernel
def arrive(program, pairs, costs, queue, busy, i, now):
    """Handle the arrival of message i at its receiver's adapter. The adapter receives messages one after another, but
    interleaves messages of a single packet; messages of a queue pair stay in order. Return the time at which this
    arrival completes the send; -1 if the send was already complete (eager, unacknowledged)."""
    k, r = program.pair[i], program.receive[i]
    host, took = pairs.host_to[k], on_wire(pairs, k, program.size[i])
    there = received(program, busy, host, i, now, took)
    if program.size[i] <= pairs.mtu[k]:
        there = max(busy.short_receives[host], now - took) + took
        busy.short_receives[host] = there
    if program.size[i] > costs.eager[0]:
        ends(program, queue, r, works(program, busy, r, there, costs.of.receive_ps))
        ends(program, queue, i, there + other_ps(pairs, k, 1))
        return program.ended[i]
    there = max(there, busy.pair_receives[k] + took)
    busy.pair_receives[k] = there
    one_less(program, queue, r, there)
    if costs.of.acknowledged:
        ends(program, queue, i, there + pairs.answer_ps[k])
        return program.ended[i]
    return -1
