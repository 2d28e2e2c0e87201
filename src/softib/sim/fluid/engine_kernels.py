"""The fluid layer's events: a message begins or ends, and between two events every rate is constant. Each message has
at most one event: its start, or its end at the present rate, if it is the first of its flow to end
(:mod:`softib.sim.fluid.flow_kernels`). All events of one picosecond, or of a short time where many flows send, cause
one change of rates.
"""

import numpy as np

from softib.jit import kernel, table
from softib.jit.rows import Array, Rows, i8
from softib.sim.fluid.event_kernels import pop, schedule
from softib.sim.fluid.flow_kernels import FOREVER, join, part, settle
from softib.sim.fluid.maxmin_kernels import enter, refill, touch
from softib.sim.fluid.validity_kernels import forget, hand_on, inherit, judge, leave, meet, widen

Traffic = table(
    "Traffic",
    "left up_to entered later sooner flow state start delay request forth answer began ended arrived completed awaited "
    "ready free qp_next kind queue position key line busy behind memory_ps behind_ps lag_ps completes_behind gap_ps "
    "lead_ps source gate_ps asks_ps parked qp last_qp",
)
"""By message: ``left`` bytes on the wire, its ``flow``, the service ``up_to`` which it sends and the
messages that end ``later`` and ``sooner`` in its flow, ``entered`` ps, ``state``, ``start`` and ``delay`` ps (of
:class:`~softib.sim.messages.Messages`), ``request``, ``forth`` and ``answer`` ps (of
:class:`~softib.sim.timing.Timing`), the four times of an outcome, ``awaited`` (number of messages that
it still waits for), ``ready`` ps (when the last of them was done), ``free`` ps (when its queue pair is
free), ``qp_next`` (the next of its queue pair), ``kind``, and the heap of events: ``queue``,
``position``, ``key`` ps. A computation uses the processor ``line``, which is busy until ``busy``. The remaining
columns, for the order of a queue pair's messages and for the message rate, come from :mod:`softib.sim.fluid.tables`."""
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
    i8("due", "ps", "Time of the next new rates."),
    i8("rated", "ps", "Time of the last new rates."),
    i8("exact", "flows", "Up to this number of flows, each begin and end changes the rates at once."),
    i8(
        "pause",
        "count",
        "Number of rate changes after which the kernel returns, so that its caller can report progress.",
    ),
)
Clock = table("Clock", {"clock": Array("", CLOCK)})

NOT_YET, QUEUED_STATE, SENDS, ENDED = range(4)
PLAIN, READ, COMPUTES = range(3)
"""Kinds: the requester sends the data; the responder sends it; no data, the program computes."""
OVERDUE = 1 / 1000
"""If more flows than ``exact`` send, rates are computed again only after this share of the shortest message's
duration."""
SHORT = 20 * 4096.0
"""Messages of fewer bytes count as this many bytes: packets take turns, which the fluid layer does not model
(:data:`softib.sim.fluid.engine.FEW_PACKETS`)."""
ADMITTED = -1
"""Value of ``gap_ps``: the message rate no longer delays the message."""


@kernel
def posted_at(tr, i):
    """Return when the program posts message i, after all its dependencies."""
    return max(tr.start[i], tr.ready[i] + tr.delay[i])


@kernel
def one_less(tr, ck, i):
    """Count one dependency of message i as done. After the last one, schedule the departure of its data for the time
    when it is posted and its queue pair is free."""
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
    """Free the queue pair of message i for its next message. If both are READs, the second one's request was sent while
    the data of the first arrived."""
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
    part(fl, li, ro, tr, ck, i, now)
    inherit(do, tr.flow[i], i, tr.entered[i])
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
    """Return when message i is in memory: at ``arrived``, but not before the last packet of the previous message is
    written."""
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
def begin(fl, li, ro, tr, ck, do, i, now):
    """Begin to send message i. If its queue pair was busy, the message was posted earlier."""
    tr.state[i] = SENDS
    tr.began[i] = posted_at(tr, i)
    tr.entered[i] = now
    p = tr.behind[i]
    if p >= 0:  # its first byte was fetched in the meantime, and leaves after the last byte of the previous message
        lead = tr.forth[p] - tr.memory_ps[p] - tr.forth[i] + tr.memory_ps[i]
        fetched = now if tr.kind[i] == READ or tr.gap_ps[i] == ADMITTED else tr.began[i]
        tr.lag_ps[i] = max(fetched, tr.ended[p] + tr.lag_ps[p] + lead) - now
    if fl.messages[tr.flow[i]] == 0:
        forget(do, tr.flow[i])
    join(fl, li, ro, tr, ck, i, now)
    widen(do, tr.flow[i], tr.forth[i])


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
def expected_ps(fl, li, tr, i):
    """Return the time that message i, which begins, would take if all messages on its fullest channel had equal
    shares."""
    f, least = tr.flow[i], np.inf
    for e in range(fl.first[f], fl.first[f + 1]):
        c = fl.channel[e]
        least = min(least, li.gbps[li.group[c]] / li.flows[c])
    return max(tr.left[i], SHORT) * 8000.0 / least


@kernel
def may_wait(fl, ro, tr, ck, before, expected):
    """Return the time in ps for which the last rates may be kept without a new computation. It is 0 for up to ``exact``
    flows. Otherwise it is a small part of the time of the fastest message concerned. These are the messages that begin
    (duration ``expected``) and the next message to end in each flow that is in the round from row ``before`` on."""
    if ro.size.sending <= ck.clock.exact:
        return 0
    for k in range(before, ro.size.members):
        f = ro.members[k]
        if fl.messages[f] > 0 and fl.rate[f] > 0.0:
            expected = min(expected, max(tr.left[fl.soonest[f]], SHORT) * 8000.0 / fl.rate[f])
    return np.int64(min(expected, 1e15) * OVERDUE)


@kernel
def new_rates(fl, li, ro, tr, ck, do, now):
    """Compute the rates of the round's flows, and of all other flows that these rates affect."""
    ck.clock.due = FOREVER
    ck.clock.rated = now
    sending = 0
    for k in range(ro.size.members):
        if fl.messages[ro.members[k]] > 0:  # other flows have ended since they entered the round
            ro.members[sending] = ro.members[k]
            sending += 1
    ro.size.members = sending
    if sending == 0:
        return
    refill(fl, li, ro)
    settle(fl, ro, tr, ck, now)
    if ck.clock.judging:
        judge(fl, li, ro, do, now)


@kernel
def step(fl, li, ro, tr, ws, ck, do, now):
    """Handle all events at ``now``."""
    if ck.clock.due >= FOREVER:
        ro.size.stamp += 1
        ro.size.members = 0
    before, ended, expected = ro.size.members, 0, np.inf
    while ck.clock.queued > 0 and tr.key[tr.queue[0]] == now:
        i = pop(tr, ck)
        ck.clock.events += 1
        if tr.state[i] == SENDS:
            finish(fl, li, ro, tr, ws, ck, do, i, now)
            leave(fl, do, tr.flow[i], tr.arrived[i])
            tr.queue[len(tr.queue) - 1 - ended] = (
                i  # the unused end of the queue has room, since each message has at most one event
            )
            ended += 1
        elif tr.kind[i] == COMPUTES:
            compute(tr, ws, ck, do, i, now)
        elif may_leave(tr, ck, do, i, now):
            begin(fl, li, ro, tr, ck, do, i, now)
            meet(fl, do, tr.flow[i], i, now + tr.forth[i])
            enter(fl, ro, tr.flow[i])
            if ro.size.sending > ck.clock.exact:
                expected = min(expected, expected_ps(fl, li, tr, i))
    for k in range(ended):
        touch(fl, li, ro, tr.flow[tr.queue[len(tr.queue) - 1 - k]])
    if ro.size.members > 0:
        due = ck.clock.rated + may_wait(fl, ro, tr, ck, before, expected)
        ck.clock.due = min(ck.clock.due, max(now, due))


@kernel
def advance(fl, li, ro, tr, ws, ck, do, until):
    """Run until ``until`` messages have ended or rates have changed ``pause`` times (returns 0), no event is left
    (returns 1), or the next event is after ``stop`` (returns 2)."""
    while True:
        event = tr.key[tr.queue[0]] if ck.clock.queued > 0 else FOREVER
        now = min(event, ck.clock.due)
        if now >= FOREVER:
            return 1
        if ck.clock.finished >= until or ck.clock.changes >= ck.clock.pause:
            return 0
        if now > ck.clock.stop:
            return 2
        ck.clock.now = now
        if event > ck.clock.due:
            new_rates(fl, li, ro, tr, ck, do, now)
        else:
            step(fl, li, ro, tr, ws, ck, do, now)


@kernel
def load_events(tr, rows, when):
    """Put the first events into the queue. They are sorted by time and row, and a sorted list is a heap."""
    for k in range(len(rows)):
        tr.queue[k] = rows[k]
        tr.position[rows[k]] = k
        tr.key[rows[k]] = when[k]
    return len(rows)
