# mypy: ignore-errors
"""Lines of Prometheus' text format, written from columns: ``name{labels} value``."""

import numpy as np

from softib.jit import inner, kernel

NEWLINE, SPACE, ZERO, DOT, MINUS, PLUS, LETTER_E = 10, 32, 48, 46, 45, 43, 101
DIGITS = 9
"""Significant digits of a float."""
LARGEST, TEN, NOTHING = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(10), np.uint64(0)


@inner
def put_unsigned(out, at, value):
    """``value`` (uint64) in decimal digits at ``out[at]``; where it ended."""
    n, rest = 1, value // TEN
    while rest > NOTHING:
        n += 1
        rest //= TEN
    for i in range(n):
        out[at + n - 1 - i] = ZERO + np.int64(value % TEN)
        value //= TEN
    return at + n


@inner
def put_float(out, at, value):
    """A finite float as ``d.dddddddde-dd``; where it ended."""
    if value < 0:
        out[at] = MINUS
        at += 1
        value = -value
    if value == 0.0:
        out[at] = ZERO
        return at + 1
    exponent = 0
    while value >= 10.0:
        value /= 10.0
        exponent += 1
    while value < 1.0:
        value *= 10.0
        exponent -= 1
    whole = np.int64(value * 1e8 + 0.5)
    if whole >= 1000000000:
        whole //= 10
        exponent += 1
    for i in range(DIGITS):
        place = at + DIGITS - i if i < DIGITS - 1 else at
        out[place] = ZERO + whole % 10
        whole //= 10
    out[at + 1] = DOT
    at += DIGITS + 1
    out[at] = LETTER_E
    out[at + 1] = MINUS if exponent < 0 else PLUS
    exponent = abs(exponent)
    out[at + 2] = ZERO + exponent // 100
    out[at + 3] = ZERO + exponent // 10 % 10
    out[at + 4] = ZERO + exponent % 10
    return at + 5


@inner
def put_head(out, at, name, labels, begin, end):
    for i in range(len(name)):
        out[at + i] = name[i]
    at += len(name)
    for i in range(begin, end):
        out[at + i - begin] = labels[i]
    at += end - begin
    out[at] = SPACE
    return at + 1


@kernel(_nrt=False)
def write_counters(out, at, name, labels, offsets, rows, values, factor):
    """One line for each of ``rows``: ``name`` (uint8[k]), ``labels[offsets[r] : offsets[r + 1]]``, and ``values[r]`` (uint64) times ``factor``; where it ended.

    What does not fit in 64 bits after that stays at their largest value.
    """
    most = LARGEST // factor
    for i in range(len(rows)):
        r = rows[i]
        at = put_head(out, at, name, labels, offsets[r], offsets[r + 1])
        value = values[r]
        at = put_unsigned(out, at, value * factor if value <= most else LARGEST)
        out[at] = NEWLINE
        at += 1
    return at


@kernel(_nrt=False)
def write_gauges(out, at, name, labels, offsets, rows, values):
    """As :func:`write_counters`, with ``values`` float64, all finite."""
    for i in range(len(rows)):
        r = rows[i]
        at = put_head(out, at, name, labels, offsets[r], offsets[r + 1])
        at = put_float(out, at, values[r])
        out[at] = NEWLINE
        at += 1
    return at
