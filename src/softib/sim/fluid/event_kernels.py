"""The queue of the fluid layer's events: an indexed heap in columns of the messages, so that a new
rate moves an event instead of leaving a stale one."""

from softib.jit import kernel


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
    """Set the time of message i's event to ``when``; add the event if there is none."""
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
def cancel(tr, ck, i):
    """Remove the event of message i, if it has one."""
    at = tr.position[i]
    if at < 0:
        return
    n = ck.clock.queued - 1
    ck.clock.queued = n
    tr.position[i] = -1
    if at < n:
        k = tr.queue[n]
        tr.queue[at] = k
        tr.position[k] = at
        rise(tr, at)
        sink_event(tr, tr.position[k], n)
