"""The fluid layer's clock: flows begin and end, and between two such events every rate is constant.
Each message has at most one event: the begin of its flow, or its end at its present rate. Events
are in an indexed heap, so a new rate moves the event and leaves no stale one. All events at one
picosecond cause one change of rates.
"""

import numpy as np

from softib.jit import kernel, table
from softib.jit.rows import Array, Rows, i8
from softib.sim.maxmin_kernels import enter, put, refill, take, touch
from softib.sim.validity_kernels import hand_on, judge, leave, meet

Traffic = table(
    "Traffic",
    "left last state start delay request forth answer began ended arrived completed awaited ready free "
    "qp_next kind queue position key line busy behind memory_ps behind_ps lag_ps completes_behind gap_ps "
    "lead_ps source gate_ps asks_ps parked qp last_qp",
)
"""Columns by message: ``left``, bytes on the wire that remain at ``last`` ps; ``state``; ``start``
and ``delay`` ps (of :class:`~softib.sim.messages.Messages`); ``request``, ``forth`` and ``answer``
ps (of :class:`~softib.sim.timing.Timing`); the four times of an outcome; ``awaited``, the number of
messages that it still waits for; ``ready`` ps, when the last of them was done; ``free`` ps, when
its queue pair is free; ``qp_next``, the next message of its queue pair; ``kind``; and the heap of
events: ``queue``, ``position``, ``key`` ps. A computation uses the processor ``line``, which is
busy until ``busy``. :mod:`softib.sim.fluid_tables` describes the order of a queue pair and the
message rate."""
Waits = table("Waits", "first to completion")
"""The messages that wait for message i are ``to[first[i]:first[i + 1]]``; ``completion`` is 1 if
they wait for its completion, 0 for its arrival."""
CLOCK = Rows(
    "Scalars of a run of the fluid layer.",
    i8("queued", "events", "Events that wait."),
    i8("now", "ps", "Time of the last event."),
    i8("finished", "messages", "Messages that ended."),
    i8("changes", "count", "Changes of rates."),
    i8("events", "count", "Events handled."),
    i8("judging", "flag", "Judge whether the layer's model holds."),
    i8("stop", "ps", "Time to stop at."),
    i8("pause", "count", "Changes of rates at which the kernel returns, so that its caller can report."),
)
Clock = table("Clock", {"clock": Array("", CLOCK)})

NOT_YET, QUEUED_STATE, SENDS, ENDED = range(4)
PLAIN, READ, COMPUTES = range(3)
"""Kinds of message. PLAIN: the requester sends the data. READ: the responder sends it. COMPUTES: no
data; the program computes."""
ADMITTED = -1
"""Value of ``gap_ps``: the message rate no longer delays the message."""
FOREVER = np.int64(1) << np.int64(62)


@kernel
def before(tr, a, b):
    """Compare two events: by time, then by row."""
    return tr.key[a] < tr.key[b] or (tr.key[a] == tr.key[b] and a < b)


@kernel
def rise(tr, at):
    """Move the event at ``at`` of the queue up to its place."""
    queue, position = tr.queue, tr.position
    i = queue[at]
    while at > 0:
        up = (at - 1) >> 1
        if not before(tr, i, queue[up]):
            break
        queue[at] = queue[up]
        position[queue[at]] = at
        at = up
    queue[at] = i
    position[i] = at


@kernel
def sink_event(tr, at, n):
    """Move the event at ``at`` of a queue of ``n`` down to its place."""
    queue, position = tr.queue, tr.position
    i = queue[at]
    while True:
        k = 2 * at + 1
        if k >= n:
            break
        if k + 1 < n and before(tr, queue[k + 1], queue[k]):
            k += 1
        if not before(tr, queue[k], i):
            break
        queue[at] = queue[k]
        position[queue[at]] = at
        at = k
    queue[at] = i
    position[i] = at


@kernel
def schedule(tr, ck, i, when):
    """Set the event of message i to ``when``, whether or not it had one."""
    if tr.position[i] < 0:
        n = ck.clock.queued
        tr.key[i] = when
        tr.queue[n] = i
        ck.clock.queued = n + 1
        rise(tr, n)
    elif when != tr.key[i]:
        earlier = when < tr.key[i]
        tr.key[i] = when
        if earlier:
            rise(tr, tr.position[i])
        else:
            sink_event(tr, tr.position[i], ck.clock.queued)


@kernel
def pop(tr, ck):
    """Take the first message out of the queue."""
    i = tr.queue[0]
    n = ck.clock.queued - 1
    ck.clock.queued = n
    tr.position[i] = -1
    if n > 0:
        tr.queue[0] = tr.queue[n]
        tr.position[tr.queue[0]] = 0
        sink_event(tr, 0, n)
    return i


@kernel
def posted_at(tr, i):
    """Return when the program posts message i, after all its dependencies."""
    return max(tr.start[i], tr.ready[i] + tr.delay[i])


@kernel
def one_less(tr, ck, i):
    """Count one dependency of message i as done; its data begins to leave when it is posted and its
    queue pair is free."""
    tr.awaited[i] -= 1
    if tr.awaited[i] == 0:
        schedule(tr, ck, i, max(posted_at(tr, i), tr.free[i]) + tr.request[i])
        tr.state[i] = QUEUED_STATE


@kernel
def release(tr, ck, i, when):
    """Record that a dependency of message i is done at ``when``."""
    tr.ready[i] = max(tr.ready[i], when)
    one_less(tr, ck, i)


@kernel
def next_of_queue_pair(tr, ck, i, when):
    """Free the queue pair of message i for the next one. The request of a READ that follows a READ
    was sent while the first one's data arrived."""
    k = tr.qp_next[i]
    if k >= 0:
        tr.free[k] = when - (tr.request[k] + tr.asks_ps[k] if tr.kind[i] == READ and tr.kind[k] == READ else 0)
        one_less(tr, ck, k)


@kernel
def finish(fl, li, ro, tr, ws, ck, do, i, now):
    """Record that the last byte of message i has left: set its arrival and completion, and release
    the messages that wait for either."""
    tr.state[i] = ENDED
    tr.ended[i] = now
    tr.left[i] = 0.0
    take(fl, li, ro, i)
    ck.clock.finished += 1
    arrived = now + tr.lag_ps[i] + tr.forth[i]
    tr.arrived[i] = in_order(tr, i, arrived)
    tr.completed[i] = (tr.arrived[i] if tr.kind[i] == READ else arrived) + tr.answer[i]
    if tr.parked[i] >= 0:
        schedule(tr, ck, tr.parked[i], now)
    k = tr.qp_next[i]
    if k >= 0:
        hand_on(do, i, k, False)
    if k >= 0 and not (tr.kind[i] == READ and tr.kind[k] != READ):
        next_of_queue_pair(tr, ck, i, now)
    for e in range(ws.first[i], ws.first[i + 1]):
        hand_on(do, i, ws.to[e], ws.completion[e])
        if not ws.completion[e]:
            release(tr, ck, ws.to[e], tr.arrived[i])
    complete(tr, ws, ck, i)


@kernel
def in_order(tr, i, arrived):
    """Return when message i is in memory: at ``arrived`` if it is alone, otherwise after the last
    packet of the previous message."""
    p = tr.behind[i]
    return arrived if p < 0 else max(arrived, tr.arrived[p] + tr.behind_ps[i])


@kernel
def complete(tr, ws, ck, i):
    """End message i: release the messages that wait for its completion. RC completes requests in
    the order in which they were posted (IBA 9.7.5.1). So a WRITE whose bytes left before the data
    of an earlier READ arrived waits for the READ, and both complete together."""
    while True:
        p = tr.completes_behind[i]
        if p >= 0:
            if tr.state[p] != ENDED:
                return
            tr.completed[i] = max(tr.completed[i], tr.completed[p])
        for e in range(ws.first[i], ws.first[i + 1]):
            if ws.completion[e]:
                release(tr, ck, ws.to[e], tr.completed[i])
        i = tr.qp_next[i]
        if i < 0 or tr.state[i] != ENDED or tr.completes_behind[i] < 0:
            return


@kernel
def may_leave(tr, ck, do, i, now):
    """Return whether the data of message i may begin to leave now. Otherwise move its event to a
    later time. That is the case if the adapter's message rate is the limit, or if only the request
    of a READ leaves now; the queue pair then continues with the next message. Responses follow the
    order of requests (IBA 9.7.5.1), so a READ waits for the READ before it."""
    if tr.gap_ps[i] > 0:
        port = tr.source[i]
        leaves = now - tr.request[i] + tr.lead_ps[i]
        waits = max(tr.gate_ps[port] - leaves, 0)
        tr.gate_ps[port] = leaves + waits + tr.gap_ps[i]
        tr.gap_ps[i] = ADMITTED
        if tr.last_qp[port] != tr.qp[i]:
            do.gap_wait_ps[i] = waits
        tr.last_qp[port] = tr.qp[i]
        if waits > 0:
            schedule(tr, ck, i, now + waits)
            return False
    if tr.asks_ps[i] > 0:
        next_of_queue_pair(tr, ck, i, now)
        schedule(tr, ck, i, now + tr.asks_ps[i])
        tr.asks_ps[i] = 0
        return False
    p = tr.behind[i]
    if p >= 0 and tr.state[p] != ENDED:
        tr.parked[p] = i
        return False
    return True


@kernel
def begin(fl, li, ro, tr, ck, i, now):
    """Begin the flow of message i; it was posted earlier if it had to wait for others of its queue pair."""
    tr.state[i] = SENDS
    tr.began[i] = posted_at(tr, i)
    tr.last[i] = now
    p = tr.behind[i]
    if p >= 0:  # its first byte leaves after the last one of the message before it, and was fetched meanwhile
        lead = tr.forth[p] - tr.memory_ps[p] - tr.forth[i] + tr.memory_ps[i]
        fetched = now if tr.kind[i] == READ or tr.gap_ps[i] == ADMITTED else tr.began[i]
        tr.lag_ps[i] = max(fetched, tr.ended[p] + tr.lag_ps[p] + lead) - now
    put(fl, li, ro, i)


@kernel
def compute(tr, ws, ck, do, i, now):
    """Begin computation i, which is ready, when its processor is free. Messages that wait for it
    continue when it ends."""
    tr.began[i] = max(now, tr.busy[tr.line[i]])
    over = tr.began[i] + tr.forth[i]
    tr.busy[tr.line[i]] = over
    tr.state[i] = ENDED
    tr.ended[i] = over
    tr.arrived[i] = over
    tr.completed[i] = over
    ck.clock.finished += 1
    for e in range(ws.first[i], ws.first[i + 1]):
        hand_on(do, i, ws.to[e], True)
        release(tr, ck, ws.to[e], over)


@kernel
def settle(fl, ro, tr, ck, now):
    """Give the round's flows their new rates: update the rest of each flow and the event of its end."""
    for k in range(ro.size.members):
        i = ro.members[k]
        old, new = fl.rate[i], fl.fresh[i]
        if abs(new - old) <= 1e-12 * old and tr.position[i] >= 0:
            continue
        tr.left[i] = max(tr.left[i] - old * (now - tr.last[i]) / 8000.0, 0.0)
        tr.last[i] = now
        fl.rate[i] = new
        ck.clock.changes += 1
        when = FOREVER
        if new > 0.0:
            when = now + max(np.int64(np.ceil(tr.left[i] * 8000.0 / new - 1e-6)), 1)
        schedule(tr, ck, i, when)


@kernel
def advance(fl, li, ro, tr, ws, ck, do, until):
    """Run until ``until`` messages have ended or ``pause`` changes of rates were made (returns 0),
    until nothing more happens (returns 1), or until the next event is after ``stop`` (returns
    2)."""
    while ck.clock.queued > 0:
        now = tr.key[tr.queue[0]]
        if now >= FOREVER:
            return 1
        if ck.clock.finished >= until or ck.clock.changes >= ck.clock.pause:
            return 0
        if now > ck.clock.stop:
            return 2
        ck.clock.now = now
        ro.size.stamp += 1
        ro.size.members = 0
        ended = 0
        while ck.clock.queued > 0 and tr.key[tr.queue[0]] == now:
            i = pop(tr, ck)
            ck.clock.events += 1
            if tr.state[i] == SENDS:
                finish(fl, li, ro, tr, ws, ck, do, i, now)
                leave(fl, do, i, tr.arrived[i])
                tr.queue[len(tr.queue) - 1 - ended] = (
                    i  # the other end of the queue has room: each message has at most one event
                )
                ended += 1
            elif tr.kind[i] == COMPUTES:
                compute(tr, ws, ck, do, i, now)
            elif may_leave(tr, ck, do, i, now):
                begin(fl, li, ro, tr, ck, i, now)
                meet(fl, do, i, now + tr.forth[i])
                enter(fl, ro, i)
        for k in range(ended):
            touch(fl, li, ro, tr.queue[len(tr.queue) - 1 - k])
        if ro.size.members == 0 or ro.size.sending == 0:
            continue
        refill(fl, li, ro)
        settle(fl, ro, tr, ck, now)
        if ck.clock.judging:
            judge(fl, li, ro, do, now)
    return 1


@kernel
def load_events(tr, rows, when):
    """Put the first events, sorted by time and row, into the queue; a sorted list is a heap."""
    for k in range(len(rows)):
        tr.queue[k] = rows[k]
        tr.position[rows[k]] = k
        tr.key[rows[k]] = when[k]
    return len(rows)
