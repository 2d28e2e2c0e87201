# mypy: ignore-errors
"""Counters on the wire: fields of 2 to 64 bits that saturate, found by a table of fields."""

import numpy as np

from softib.agents.kernels.big_endian import get16, get32, get64, inner, put16, put32, put64
from softib.iba.mad_offsets import DATA_AT

ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


@inner
def put_counter(m, offset, bits, value):
    """Write a counter of 2, 4, 8, 16, 32 or 64 bits, saturated."""
    at = DATA_AT + (offset >> 3)
    if bits == 64:
        put64(m, at, value)
        return
    top = (np.int64(1) << bits) - 1
    v = top if value > np.uint64(top) else np.int64(value)
    if bits == 32:
        put32(m, at, v)
    elif bits == 16:
        put16(m, at, v)
    else:
        shift = 8 - bits - (offset & 7)
        m[at] = (np.int64(m[at]) & ~(top << shift)) | (v << shift)


@inner
def get_counter(m, offset, bits):
    """The wire value of a counter of 2, 4, 8, 16, 32 or 64 bits."""
    at = DATA_AT + (offset >> 3)
    if bits == 64:
        return get64(m, at)
    if bits == 32:
        return np.uint64(get32(m, at))
    if bits == 16:
        return np.uint64(get16(m, at))
    return np.uint64((np.int64(m[at]) >> (8 - bits - (offset & 7))) & ((1 << bits) - 1))


@inner
def counted(counters, first, last, column):
    """Sum of a counter over ports, stopping at 2^64 - 1."""
    total = np.uint64(0)
    for port in range(first, last + 1):
        count = counters[port, column]
        total = ALL_ONES if count > ALL_ONES - total else total + count
    return total


@inner
def counters_of(counters, m, first, last, fields, begin, end, selected, is_set):
    """Get: the counters ``fields[begin:end]`` of ports ``first``…``last``, summed. Set: write those whose bit is in
    ``selected`` (bit 0 = the first field), then as Get."""
    for i in range(begin, end):
        offset, bits, column = fields[i, 0], fields[i, 1], fields[i, 2]
        if is_set and (selected >> np.uint64(i - begin)) & np.uint64(1):
            value = get_counter(m, offset, bits)
            for port in range(first, last + 1):
                counters[port, column] = value
        put_counter(m, offset, bits, counted(counters, first, last, column))
