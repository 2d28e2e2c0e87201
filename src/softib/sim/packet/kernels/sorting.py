# mypy: ignore-errors
"""Events of a bucket in their order: by insertion where they are few, by digits of eight bits (least significant first) where they are many."""

from softib.jit import inner

FEW = 48
"""Events that insertion sorts faster."""
DIGIT = 8


@inner
def insert_each(h, n):
    """Sort the ``n`` rows (time, what) of ``h``."""
    for i in range(1, n):
        t, what = h[i, 0], h[i, 1]
        at = i
        while at > 0 and (h[at - 1, 0] > t or (h[at - 1, 0] == t and h[at - 1, 1] > what)):
            h[at, 0] = h[at - 1, 0]
            h[at, 1] = h[at - 1, 1]
            at -= 1
        h[at, 0] = t
        h[at, 1] = what


@inner
def varying(h, n, column):
    """The bits of ``column`` in which the ``n`` rows differ."""
    first = h[0, column]
    bits = first ^ first
    for i in range(1, n):
        bits |= h[i, column] ^ first
    return bits


@inner
def by_digit(h, to, digits, n, column, shift):
    """Put the ``n`` rows of ``h`` into ``to``, by eight bits of ``column``; those of one digit stay in their order."""
    for d in range(1 << DIGIT):
        digits[d] = 0
    for i in range(n):
        digits[h[i, column] >> shift & ((1 << DIGIT) - 1)] += 1
    before = digits[0] - digits[0]
    for d in range(1 << DIGIT):
        many = digits[d]
        digits[d] = before
        before += many
    for i in range(n):
        d = h[i, column] >> shift & ((1 << DIGIT) - 1)
        at = digits[d]
        digits[d] = at + 1
        to[at, 0] = h[i, 0]
        to[at, 1] = h[i, 1]


@inner
def sort_due(s, n):
    """Sort the ``n`` events of ``State.due`` by time, those of one time by what they are."""
    if n <= FEW:
        insert_each(s.due, n)
        return
    of_what, of_time = varying(s.due, n, 1), varying(s.due, n, 0)
    away = False
    for place in range(16):
        column, shift = 1 - (place >> 3), (place & 7) * DIGIT
        if (of_time if column == 0 else of_what) >> shift & ((1 << DIGIT) - 1):
            if away:
                by_digit(s.sorting, s.due, s.digits, n, column, shift)
            else:
                by_digit(s.due, s.sorting, s.digits, n, column, shift)
            away = not away
    if away:
        for i in range(n):
            s.due[i, 0] = s.sorting[i, 0]
            s.due[i, 1] = s.sorting[i, 1]
