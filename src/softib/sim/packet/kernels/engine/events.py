"""The event queue: a calendar of buckets, the sorted list of the current bucket's events, a heap for events added to
that bucket, a heap for distant events, and a heap for timeouts.

An event is (time, what). ``what`` is entity, kind and payload in one number, so the order of
simultaneous events does not depend on the order of insertion. Timeouts are separate: a network with
only timeouts left is at a standstill. A bucket with few events is sorted by insertion; a bucket
with many is sorted by digits of eight bits, lowest digit first.
"""

import numpy as np

from softib.jit import inner, prefetch
from softib.sim.packet.constants import BUCKETS, EVENTS_A_BLOCK, NEVER
from softib.sim.packet.kernels.engine.prefetching import CROWDED, fetch_first

FEW = 48
"""Largest number of events for which insertion sort is faster."""
DIGIT = 8


@inner
def insert_each(events, n):
    """Sort the ``n`` rows (time, what) of ``events``."""
    for i in range(1, n):
        t, event = events[i].time, events[i].what
        at = i
        while at > 0 and (events[at - 1].time > t or (events[at - 1].time == t and events[at - 1].what > event)):
            events[at].time = events[at - 1].time
            events[at].what = events[at - 1].what
            at -= 1
        events[at].time = t
        events[at].what = event


@inner
def varying(events, n, of_time):
    """Return the bits in which the times (or the event numbers) of the ``n`` rows differ."""
    first = digits_of(events, 0, of_time)
    bits = first ^ first
    for i in range(1, n):
        bits |= digits_of(events, i, of_time) ^ first
    return bits


@inner
def digits_of(events, i, of_time):
    """Return the sort key of row ``i``: its time, or its event number."""
    return events[i].time if of_time else events[i].what


@inner
def by_digit(events, to, digits, n, of_time, shift):
    """Put the ``n`` rows of ``events`` into ``to``, sorted by eight bits of the time (or of the
    event number); stable."""
    for d in range(1 << DIGIT):
        digits[d] = 0
    for i in range(n):
        digits[digits_of(events, i, of_time) >> shift & ((1 << DIGIT) - 1)] += 1
    before = digits[0] - digits[0]
    for d in range(1 << DIGIT):
        many = digits[d]
        digits[d] = before
        before += many
    for i in range(n):
        d = digits_of(events, i, of_time) >> shift & ((1 << DIGIT) - 1)
        at = digits[d]
        digits[d] = at + 1
        to[at].time = events[i].time
        to[at].what = events[i].what


@inner
def sort_due(state, n):
    """Sort the ``n`` events of ``State.due`` by time, then by event number."""
    if n <= FEW:
        insert_each(state.due, n)
        return
    events, times = varying(state.due, n, False), varying(state.due, n, True)
    away = False
    for place in range(16):
        of_time, shift = place >= 8, (place & 7) * DIGIT
        if (times if of_time else events) >> shift & ((1 << DIGIT) - 1):
            if away:
                by_digit(state.sorting, state.due, state.digits, n, of_time, shift)
            else:
                by_digit(state.due, state.sorting, state.digits, n, of_time, shift)
            away = not away
    if away:
        for i in range(n):
            state.due[i].time = state.sorting[i].time
            state.due[i].what = state.sorting[i].what


MASK = BUCKETS - 1
BITMAPS = BUCKETS // 64
FROM_DUE, FROM_HEAP, FROM_TIMERS = range(3)
CROWD = 1000
"""Number of events in a bucket above which prefetching for the next two buckets pays off."""


@inner
def word(entity, kind, payload):
    """Return the event number of entity (31 bits), kind (4) and payload (28)."""
    return np.int64(entity) << 32 | np.int64(kind) << 28 | np.int64(payload)


@inner
def heap_push(heap, n, t, event):
    """Put (t, what) into the heap of ``n`` entries."""
    i = n
    while i > 0:
        up = (i - 1) >> 1
        if heap[up].time < t or (heap[up].time == t and heap[up].what <= event):
            break
        heap[i].time = heap[up].time
        heap[i].what = heap[up].what
        i = up
    heap[i].time = t
    heap[i].what = event


@inner
def heap_pop(heap, n):
    """Remove the first of the heap's ``n`` entries, and store it in ``heap[n - 1]``."""
    first_t, first_what = heap[0].time, heap[0].what
    last = n - 1
    t, event = heap[last].time, heap[last].what
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            break
        if child + 1 < last and (
            heap[child + 1].time < heap[child].time
            or (heap[child + 1].time == heap[child].time and heap[child + 1].what < heap[child].what)
        ):
            child += 1
        if t < heap[child].time or (t == heap[child].time and event <= heap[child].what):
            break
        heap[i].time = heap[child].time
        heap[i].what = heap[child].what
        i = child
    heap[i].time = t
    heap[i].what = event
    heap[last].time = first_t
    heap[last].what = first_what


@inner
def into_bucket(state, b, t, event):
    """Put an event into bucket ``b`` of the calendar."""
    at = b & MASK
    e = state.bucket[at]
    many = state.event[e].count
    if many == EVENTS_A_BLOCK:
        block = state.reg.free_event
        following = state.event[block].next
        prefetch(state.event, following, 0)
        state.reg.free_event = following
        state.reg.spare_events -= 1
        state.event[block].next = e
        state.bucket[at] = block
        e, many = block, many - many
    state.event[e].time[many] = t
    state.event[e].what[many] = event
    state.event[e].count = many + 1
    state.used[at >> 6] |= np.uint64(1) << np.uint64(at & 63)
    state.reg.pending += 1


@inner
def push(state, t, event):
    """Schedule ``event`` at ``t``."""
    b = t >> state.reg.width
    ahead = b - state.reg.bucket
    if ahead <= 0:
        heap_push(state.heap, state.reg.heap_n, t, event)
        state.reg.heap_n += 1
    elif ahead < BUCKETS:
        into_bucket(state, b, t, event)
    else:
        heap_push(state.later, state.reg.later_n, t, event)
        state.reg.later_n += 1


@inner
def push_timer(state, t, event):
    """Schedule a timeout at ``t``."""
    heap_push(state.timer, state.reg.timer_n, t, event)
    state.reg.timer_n += 1


@inner
def lowest_bit(x):
    """Return the index of the lowest set bit of ``x`` (uint64, not 0)."""
    at = np.int64(0)
    for half in (32, 16, 8, 4, 2, 1):
        if x & ((np.uint64(1) << np.uint64(half)) - np.uint64(1)) == 0:
            x >>= np.uint64(half)
            at += half
    return at


@inner
def next_used(state, b):
    """Return the first bucket after ``b`` that has events. There must be one."""
    at = (b + 1) & MASK
    w = at >> 6
    bits = state.used[w] >> np.uint64(at & 63)
    if bits:
        return b + 1 + lowest_bit(bits)
    step = 64 - (at & 63)
    for i in range(1, BITMAPS + 1):
        bits = state.used[(w + i) & (BITMAPS - 1)]
        if bits:
            return b + 1 + step + 64 * (i - 1) + lowest_bit(bits)
    return b


@inner
def send_scouts(state, b):
    """Start prefetching for the two buckets after ``b``, if the data of all events exceeds the caches."""
    state.reg.first_scout = 0
    state.reg.second_scout = 0
    state.reg.next_block = 0
    if state.reg.pending > CROWD:
        following = next_used(state, b)
        if state.reg.due_n >= CROWDED:
            state.reg.next_block = state.bucket[following & MASK]
            prefetch(state.event, state.reg.next_block, 0)
            return
        state.reg.second_scout = state.bucket[following & MASK] << 2
        state.reg.first_scout = state.bucket[next_used(state, following) & MASK] << 2


@inner
def load(net, state, b):
    """Make ``b`` the current bucket: move its events, sorted, to ``State.due``. Events that are added to it later go to
    the heap."""
    state.reg.bucket = b
    while state.reg.later_n > 0 and (state.later[0].time >> state.reg.width) - b < BUCKETS:
        heap_pop(state.later, state.reg.later_n)
        last = state.reg.later_n - 1
        state.reg.later_n = last
        push(state, state.later[last].time, state.later[last].what)
    at = b & MASK
    e = state.bucket[at]
    state.bucket[at] = 0
    state.used[at >> 6] &= ~(np.uint64(1) << np.uint64(at & 63))
    many = np.int64(0)
    while e:
        following = state.event[e].next
        prefetch(state.event, following, 0)
        for i in range(state.event[e].count):
            state.due[many].time = state.event[e].time[i]
            state.due[many].what = state.event[e].what[i]
            many += 1
        state.event[e].next = state.reg.free_event
        state.reg.free_event = e
        state.reg.spare_events += 1
        e = following
    state.reg.pending -= many
    sort_due(state, many)
    state.reg.due_at = 0
    state.reg.due_n = many
    fetch_first(net, state)
    send_scouts(state, b)


@inner
def advance(net, state):
    """Make the next bucket with events the current one. Return False if only timeouts are left."""
    while state.reg.heap_n == 0 and state.reg.due_at == state.reg.due_n:
        if state.reg.pending > 0:
            load(net, state, next_used(state, state.reg.bucket))
        elif state.reg.later_n > 0:
            load(net, state, state.later[0].time >> state.reg.width)
        else:
            return False
    return True


@inner
def first_of(state):
    """Return (source, time, event number) of the next event; the source is FROM_DUE, FROM_HEAP or
    FROM_TIMERS, the time NEVER if there is none."""
    source, t, event = FROM_TIMERS, np.int64(NEVER), np.int64(state.timer[0].what)
    if state.reg.timer_n > 0:
        t = state.timer[0].time
    if state.reg.heap_n > 0 and (state.heap[0].time < t or (state.heap[0].time == t and state.heap[0].what <= event)):
        source, t, event = FROM_HEAP, state.heap[0].time, state.heap[0].what
    at = state.reg.due_at
    if at < state.reg.due_n and (state.due[at].time < t or (state.due[at].time == t and state.due[at].what <= event)):
        source, t, event = FROM_DUE, state.due[at].time, state.due[at].what
    return source, t, event


@inner
def take_first_of(state, source):
    """Remove the next event from ``source``, as :func:`first_of` returned it."""
    if source == FROM_DUE:
        state.reg.due_at += 1
    elif source == FROM_HEAP:
        heap_pop(state.heap, state.reg.heap_n)
        state.reg.heap_n -= 1
    else:
        heap_pop(state.timer, state.reg.timer_n)
        state.reg.timer_n -= 1
