"""Events of a bucket in their order: by insertion where they are few, by digits of eight bits
(least significant first) where they are many."""

from softib.jit import inner

FEW = 48
"""Events that insertion sorts faster."""
DIGIT = 8


@inner
def insert_each(h, n):
    """Sort the ``n`` rows (time, what) of ``h``."""
    for i in range(1, n):
        t, what = h[i].time, h[i].what
        at = i
        while at > 0 and (h[at - 1].time > t or (h[at - 1].time == t and h[at - 1].what > what)):
            h[at].time = h[at - 1].time
            h[at].what = h[at - 1].what
            at -= 1
        h[at].time = t
        h[at].what = what


@inner
def varying(h, n, of_time):
    """The bits in which the times (else what the events are) of the ``n`` rows differ."""
    first = digits_of(h, 0, of_time)
    bits = first ^ first
    for i in range(1, n):
        bits |= digits_of(h, i, of_time) ^ first
    return bits


@inner
def digits_of(h, i, of_time):
    """What row ``i`` is sorted by: its time, or what the event is."""
    return h[i].time if of_time else h[i].what


@inner
def by_digit(h, to, digits, n, of_time, shift):
    """Put the ``n`` rows of ``h`` into ``to``, by eight bits of the time (else of what the event
    is); those of one digit stay in their order."""
    for d in range(1 << DIGIT):
        digits[d] = 0
    for i in range(n):
        digits[digits_of(h, i, of_time) >> shift & ((1 << DIGIT) - 1)] += 1
    before = digits[0] - digits[0]
    for d in range(1 << DIGIT):
        many = digits[d]
        digits[d] = before
        before += many
    for i in range(n):
        d = digits_of(h, i, of_time) >> shift & ((1 << DIGIT) - 1)
        at = digits[d]
        digits[d] = at + 1
        to[at].time = h[i].time
        to[at].what = h[i].what


@inner
def sort_due(state, n):
    """Sort the ``n`` events of ``State.due`` by time, those of one time by what they are."""
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
