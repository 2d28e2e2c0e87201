# mypy: ignore-errors
"""What happens when: a calendar of buckets, the sorted list of what the bucket of now had, a heap for what is added to it, a heap for what is far, one for timeouts.

An event is (time, what); ``what`` is entity, kind and payload in one number, so events of one time have an order that does not
depend on who put them there first. Timeouts wait apart: a network in which nothing but timeouts is left stands still.
"""

import numpy as np

from softib.jit import inner, prefetch
from softib.sim.packet.kernels.ahead import CROWDED, fetch_first
from softib.sim.packet.kernels.sorting import sort_due
from softib.sim.packet.tables import (
    BUCKETS,
    CURRENT,
    DUE_AT,
    DUE_N,
    E_COUNT,
    E_FIRST,
    E_MANY,
    E_NEXT,
    FIRST_SCOUT,
    FREE_EVENT,
    HEAP_N,
    LATER_N,
    NEVER,
    NEXT_BLOCK,
    PENDING,
    SECOND_SCOUT,
    SPARE_EVENTS,
    TIMER_N,
    WIDTH,
)  # fmt: skip

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
        if h[up, 0] < t or (h[up, 0] == t and h[up, 1] <= what):
            break
        h[i, 0] = h[up, 0]
        h[i, 1] = h[up, 1]
        i = up
    h[i, 0] = t
    h[i, 1] = what


@inner
def heap_pop(h, n):
    """Take the first of ``n`` entries away; it is in ``h[n - 1]`` then."""
    first_t, first_what = h[0, 0], h[0, 1]
    last = n - 1
    t, what = h[last, 0], h[last, 1]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            break
        if child + 1 < last and (
            h[child + 1, 0] < h[child, 0] or (h[child + 1, 0] == h[child, 0] and h[child + 1, 1] < h[child, 1])
        ):
            child += 1
        if t < h[child, 0] or (t == h[child, 0] and what <= h[child, 1]):
            break
        h[i, 0] = h[child, 0]
        h[i, 1] = h[child, 1]
        i = child
    h[i, 0] = t
    h[i, 1] = what
    h[last, 0] = first_t
    h[last, 1] = first_what


@inner
def into_bucket(s, b, t, what):
    """Put an event into bucket ``b`` of the calendar."""
    at = b & MASK
    e = s.bucket[at]
    many = s.event[e, E_COUNT]
    if many == E_MANY:
        block = s.reg[FREE_EVENT]
        following = s.event[block, E_NEXT]
        prefetch(s.event, following, 0)
        s.reg[FREE_EVENT] = following
        s.reg[SPARE_EVENTS] -= 1
        s.event[block, E_NEXT] = e
        s.bucket[at] = block
        e, many = block, many - many
    s.event[e, E_FIRST + 2 * many] = t
    s.event[e, E_FIRST + 2 * many + 1] = what
    s.event[e, E_COUNT] = many + 1
    s.used[at >> 6] |= np.uint64(1) << np.uint64(at & 63)
    s.reg[PENDING] += 1


@inner
def push(s, t, what):
    """Let ``what`` happen at ``t``."""
    b = t >> s.reg[WIDTH]
    ahead = b - s.reg[CURRENT]
    if ahead <= 0:
        heap_push(s.heap, s.reg[HEAP_N], t, what)
        s.reg[HEAP_N] += 1
    elif ahead < BUCKETS:
        into_bucket(s, b, t, what)
    else:
        heap_push(s.far, s.reg[LATER_N], t, what)
        s.reg[LATER_N] += 1


@inner
def push_timer(s, t, what):
    """Let a timeout happen at ``t``."""
    heap_push(s.timer, s.reg[TIMER_N], t, what)
    s.reg[TIMER_N] += 1


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
    s.reg[FIRST_SCOUT] = 0
    s.reg[SECOND_SCOUT] = 0
    s.reg[NEXT_BLOCK] = 0
    if s.reg[PENDING] > CROWD:
        following = next_used(s, b)
        if s.reg[DUE_N] >= CROWDED:
            s.reg[NEXT_BLOCK] = s.bucket[following & MASK]
            prefetch(s.event, s.reg[NEXT_BLOCK], 0)
            return
        s.reg[SECOND_SCOUT] = s.bucket[following & MASK] << 2
        s.reg[FIRST_SCOUT] = s.bucket[next_used(s, following) & MASK] << 2


@inner
def load(n, s, b):
    """Make ``b`` the current bucket: its events are due, in their order. Those that come to it later go to the heap."""
    s.reg[CURRENT] = b
    while s.reg[LATER_N] > 0 and (s.far[0, 0] >> s.reg[WIDTH]) - b < BUCKETS:
        heap_pop(s.far, s.reg[LATER_N])
        last = s.reg[LATER_N] - 1
        s.reg[LATER_N] = last
        push(s, s.far[last, 0], s.far[last, 1])
    at = b & MASK
    e = s.bucket[at]
    s.bucket[at] = 0
    s.used[at >> 6] &= ~(np.uint64(1) << np.uint64(at & 63))
    many = np.int64(0)
    while e:
        following = s.event[e, E_NEXT]
        prefetch(s.event, following, 0)
        for i in range(s.event[e, E_COUNT]):
            s.due[many, 0] = s.event[e, E_FIRST + 2 * i]
            s.due[many, 1] = s.event[e, E_FIRST + 2 * i + 1]
            many += 1
        s.event[e, E_NEXT] = s.reg[FREE_EVENT]
        s.reg[FREE_EVENT] = e
        s.reg[SPARE_EVENTS] += 1
        e = following
    s.reg[PENDING] -= many
    sort_due(s, many)
    s.reg[DUE_AT] = 0
    s.reg[DUE_N] = many
    fetch_first(n, s)
    send_scouts(s, b)


@inner
def advance(n, s):
    """Have the next events due; False when there are none (timeouts aside)."""
    while s.reg[HEAP_N] == 0 and s.reg[DUE_AT] == s.reg[DUE_N]:
        if s.reg[PENDING] > 0:
            load(n, s, next_used(s, s.reg[CURRENT]))
        elif s.reg[LATER_N] > 0:
            load(n, s, s.far[0, 0] >> s.reg[WIDTH])
        else:
            return False
    return True


@inner
def first_of(s):
    """(where the next event is, its time, what it is): FROM_DUE, FROM_HEAP or FROM_TIMERS; its time is NEVER where there is none."""
    source, t, what = FROM_TIMERS, np.int64(NEVER), np.int64(s.timer[0, 1])
    if s.reg[TIMER_N] > 0:
        t = s.timer[0, 0]
    if s.reg[HEAP_N] > 0 and (s.heap[0, 0] < t or (s.heap[0, 0] == t and s.heap[0, 1] <= what)):
        source, t, what = FROM_HEAP, s.heap[0, 0], s.heap[0, 1]
    at = s.reg[DUE_AT]
    if at < s.reg[DUE_N] and (s.due[at, 0] < t or (s.due[at, 0] == t and s.due[at, 1] <= what)):
        source, t, what = FROM_DUE, s.due[at, 0], s.due[at, 1]
    return source, t, what


@inner
def take_first_of(s, source):
    """Take the next event away, which is in ``source``."""
    if source == FROM_DUE:
        s.reg[DUE_AT] += 1
    elif source == FROM_HEAP:
        heap_pop(s.heap, s.reg[HEAP_N])
        s.reg[HEAP_N] -= 1
    else:
        heap_pop(s.timer, s.reg[TIMER_N])
        s.reg[TIMER_N] -= 1
