"""Lines of Prometheus' text format, written from columns: ``name{labels} value``."""

import numpy as np

from softib.jit import inner, kernel

NEWLINE, SPACE, ZERO, DOT, MINUS, PLUS, LETTER_E = 10, 32, 48, 46, 45, 43, 101
DIGITS = 9
"""Significant digits of a float."""
LARGEST, TEN, NOTHING = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(10), np.uint64(0)


@inner
def put_unsigned(out, at, value):
    """Write ``value`` (uint64) in decimal digits at ``out[at]``. Return the end of the text."""
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
    """Write a finite float as ``d.dddddddde-dd``. Return the end of the text."""
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
    """Write ``name``, ``labels[begin:end]`` and a space at ``out[at]``. Return the end of the text."""
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
    """Write one line for each of ``rows``: ``name`` (uint8[k]), ``labels[offsets[r] : offsets[r +
    1]]``, and ``values[r]`` (uint64) times ``factor``. Return the end of the text.

    Values that exceed 64 bits are replaced by the largest value.
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
    """Write lines like :func:`write_counters`, with ``values`` float64, all finite."""
    for i in range(len(rows)):
        r = rows[i]
        at = put_head(out, at, name, labels, offsets[r], offsets[r + 1])
        at = put_float(out, at, values[r])
        out[at] = NEWLINE
        at += 1
    return at


@inner
def put_text(out, at, text):
    """Write ``text`` at ``out[at]``. Return the end of the text."""
    for i in range(len(text)):
        out[at + i] = text[i]
    return at + len(text)


@kernel(_nrt=False)
def write_histograms(out, at, name, labels, offsets, rows, bins, last, pieces):
    """Write a Prometheus histogram for each of ``rows``: cumulative counts of ``bins`` (uint64[n, b]) up to bin
    ``last[r]``, +Inf, the sum of bin numbers, and the count. Return the end of the text.

    ``pieces``: ``_bucket``, ``_sum``, ``_count``, ``,le="``, ``"}``, ``+Inf`` as uint8 arrays.
    """
    bucket, total, count, bound, close, infinite = pieces
    for i in range(len(rows)):
        r = rows[i]
        begin, end = offsets[r], offsets[r + 1]
        seen, weight = NOTHING, NOTHING
        for k in range(last[r] + 2):
            at = put_text(out, put_text(out, at, name), bucket)
            at = put_text(out, at, labels[begin : end - 1])
            at = put_text(out, at, bound)
            if k <= last[r]:
                seen += bins[r, k]
                weight += np.uint64(k) * bins[r, k]
                at = put_unsigned(out, at, np.uint64(k))
            else:
                at = put_text(out, at, infinite)
            at = put_text(out, at, close)
            out[at] = SPACE
            at = put_unsigned(out, at + 1, seen)
            out[at] = NEWLINE
            at += 1
        for j in range(2):
            at = put_text(out, put_text(out, at, name), total if j == 0 else count)
            at = put_text(out, at, labels[begin:end])
            out[at] = SPACE
            at = put_unsigned(out, at + 1, weight if j == 0 else seen)
            out[at] = NEWLINE
            at += 1
    return at
