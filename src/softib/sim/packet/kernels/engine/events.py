# mypy: ignore-errors
"""What happens when: a calendar of buckets, the sorted list of what the bucket of now had, a heap for what is added to it, a heap for what is far, one for timeouts.

An event is (time, what); ``what`` is entity, kind and payload in one number, so events of one time have an order that does not
depend on who put them there first. Timeouts wait apart: a network in which nothing but timeouts is left stands still.
"""

import numpy as np

from softib.jit import inner, prefetch
from softib.sim.packet.constants import BUCKETS, EVENTS_A_BLOCK, NEVER
from softib.sim.packet.kernels.engine.prefetching import CROWDED, fetch_first
from softib.sim.packet.kernels.engine.sorting import sort_due

MASK = BUCKETS - 1
BITMAPS = BUCKETS // 64
FROM_DUE, FROM_HEAP, FROM_TIMERS = range(3)
CROWD = 1000
"""Events that are worth it to look for the buckets after the next."""


@inner
def word(entity, kind, payload):
    """The number of an event's entity (31 bits), kind (4) and payload (28)."""
    return np.int64(entity) << 32 | np.int64(kind) << 28 | np.int64(payload)


@inner
def heap_push(h, n, t, what):
    """Put (t, what) into the heap of ``n`` entries."""
    i = n
    while i > 0:
        up = (i - 1) >> 1
        if h[up].time < t or (h[up].time == t and h[up].what <= what):
            break
        h[i].time = h[up].time
        h[i].what = h[up].what
        i = up
    h[i].time = t
    h[i].what = what


@inner
def heap_pop(h, n):
    """Take the first of ``n`` entries away; it is in ``h[n - 1]`` then."""
    first_t, first_what = h[0].time, h[0].what
    last = n - 1
    t, what = h[last].time, h[last].what
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            break
        if child + 1 < last and (
            h[child + 1].time < h[child].time
            or (h[child + 1].time == h[child].time and h[child + 1].what < h[child].what)
        ):
            child += 1
        if t < h[child].time or (t == h[child].time and what <= h[child].what):
            break
        h[i].time = h[child].time
        h[i].what = h[child].what
        i = child
    h[i].time = t
    h[i].what = what
    h[last].time = first_t
    h[last].what = first_what


@inner
def into_bucket(s, b, t, what):
    """Put an event into bucket ``b`` of the calendar."""
    at = b & MASK
    e = s.bucket[at]
    many = s.event[e].count
    if many == EVENTS_A_BLOCK:
        block = s.reg.free_event
        following = s.event[block].next
        prefetch(s.event, following, 0)
        s.reg.free_event = following
        s.reg.spare_events -= 1
        s.event[block].next = e
        s.bucket[at] = block
        e, many = block, many - many
    s.event[e].time[many] = t
    s.event[e].what[many] = what
    s.event[e].count = many + 1
    s.used[at >> 6] |= np.uint64(1) << np.uint64(at & 63)
    s.reg.pending += 1


@inner
def push(s, t, what):
    """Let ``what`` happen at ``t``."""
    b = t >> s.reg.width
    ahead = b - s.reg.bucket
    if ahead <= 0:
        heap_push(s.heap, s.reg.heap_n, t, what)
        s.reg.heap_n += 1
    elif ahead < BUCKETS:
        into_bucket(s, b, t, what)
    else:
        heap_push(s.far, s.reg.far_n, t, what)
        s.reg.far_n += 1


@inner
def push_timer(s, t, what):
    """Let a timeout happen at ``t``."""
    heap_push(s.timer, s.reg.timer_n, t, what)
    s.reg.timer_n += 1


@inner
def lowest_bit(x):
    """Number of the lowest bit of ``x`` (uint64, not 0)."""
    at = np.int64(0)
    for half in (32, 16, 8, 4, 2, 1):
        if x & ((np.uint64(1) << np.uint64(half)) - np.uint64(1)) == 0:
            x >>= np.uint64(half)
            at += half
    return at


@inner
def next_used(s, b):
    """The first bucket after ``b`` that has events; there is one."""
    at = (b + 1) & MASK
    w = at >> 6
    bits = s.used[w] >> np.uint64(at & 63)
    if bits:
        return b + 1 + lowest_bit(bits)
    step = 64 - (at & 63)
    for i in range(1, BITMAPS + 1):
        bits = s.used[(w + i) & (BITMAPS - 1)]
        if bits:
            return b + 1 + step + 64 * (i - 1) + lowest_bit(bits)
    return b


@inner
def send_scouts(s, b):
    """Memory is fetched for the two buckets after ``b``, where there are so many events that caches do not hold what they touch."""
    s.reg.first_scout = 0
    s.reg.second_scout = 0
    s.reg.next_block = 0
    if s.reg.pending > CROWD:
        following = next_used(s, b)
        if s.reg.due_n >= CROWDED:
            s.reg.next_block = s.bucket[following & MASK]
            prefetch(s.event, s.reg.next_block, 0)
            return
        s.reg.second_scout = s.bucket[following & MASK] << 2
        s.reg.first_scout = s.bucket[next_used(s, following) & MASK] << 2


@inner
def load(n, s, b):
    """Make ``b`` the current bucket: its events are due, in their order. Those that come to it later go to the heap."""
    s.reg.bucket = b
    while s.reg.far_n > 0 and (s.far[0].time >> s.reg.width) - b < BUCKETS:
        heap_pop(s.far, s.reg.far_n)
        last = s.reg.far_n - 1
        s.reg.far_n = last
        push(s, s.far[last].time, s.far[last].what)
    at = b & MASK
    e = s.bucket[at]
    s.bucket[at] = 0
    s.used[at >> 6] &= ~(np.uint64(1) << np.uint64(at & 63))
    many = np.int64(0)
    while e:
        following = s.event[e].next
        prefetch(s.event, following, 0)
        for i in range(s.event[e].count):
            s.due[many].time = s.event[e].time[i]
            s.due[many].what = s.event[e].what[i]
            many += 1
        s.event[e].next = s.reg.free_event
        s.reg.free_event = e
        s.reg.spare_events += 1
        e = following
    s.reg.pending -= many
    sort_due(s, many)
    s.reg.due_at = 0
    s.reg.due_n = many
    fetch_first(n, s)
    send_scouts(s, b)


@inner
def advance(n, s):
    """Have the next events due; False when there are none (timeouts aside)."""
    while s.reg.heap_n == 0 and s.reg.due_at == s.reg.due_n:
        if s.reg.pending > 0:
            load(n, s, next_used(s, s.reg.bucket))
        elif s.reg.far_n > 0:
            load(n, s, s.far[0].time >> s.reg.width)
        else:
            return False
    return True


@inner
def first_of(s):
    """(where the next event is, its time, what it is): FROM_DUE, FROM_HEAP or FROM_TIMERS; its time is NEVER where there is none."""
    source, t, what = FROM_TIMERS, np.int64(NEVER), np.int64(s.timer[0].what)
    if s.reg.timer_n > 0:
        t = s.timer[0].time
    if s.reg.heap_n > 0 and (s.heap[0].time < t or (s.heap[0].time == t and s.heap[0].what <= what)):
        source, t, what = FROM_HEAP, s.heap[0].time, s.heap[0].what
    at = s.reg.due_at
    if at < s.reg.due_n and (s.due[at].time < t or (s.due[at].time == t and s.due[at].what <= what)):
        source, t, what = FROM_DUE, s.due[at].time, s.due[at].what
    return source, t, what


@inner
def take_first_of(s, source):
    """Take the next event away, which is in ``source``."""
    if source == FROM_DUE:
        s.reg.due_at += 1
    elif source == FROM_HEAP:
        heap_pop(s.heap, s.reg.heap_n)
        s.reg.heap_n -= 1
    else:
        heap_pop(s.timer, s.reg.timer_n)
        s.reg.timer_n -= 1
