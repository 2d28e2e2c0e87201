# mypy: ignore-errors
"""Which VL sends next: the two tables of VLArbitrationTable and the limit of high priority (IBA 7.6.9).

An entry of a table is a VL and a weight in units of 64 octets. A VL sends as long as something of the weight is left; what a
packet takes beyond it is not carried over. High priority sends first, until it has sent its limit while low priority waits.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.tables import (
    BLOCK,
    CHOSEN,
    HIGH_AT,
    HIGH_CAP,
    HIGH_LEFT,
    HIGH_LIMIT,
    HIGH_SENT,
    LOW_AT,
    LOW_CAP,
    LOW_LEFT,
)  # fmt: skip

TABLE = 32
"""Entries of a block of VLArbitrationTable, two octets each."""
HIGH_BLOCK, LOW_BLOCK = 2, 0


@inner
def entry_vl(n, port, block, i):
    """VL of entry ``i`` of the table that begins with ``block``."""
    return np.int64(n.vl_arb[port, block + i // TABLE, 2 * (i % TABLE)]) & 15


@inner
def entry_weight(n, port, block, i):
    """Its weight in octets."""
    return np.int64(n.vl_arb[port, block + i // TABLE, 2 * (i % TABLE) + 1]) * BLOCK


@inner
def next_of_table(n, s, port, block, cap, at, left, able):
    """The VL of ``able`` (bits) that is next by a table, -1 where it names none of them. ``at`` and ``left`` are columns of the
    port's state."""
    i = s.arb[port, at]
    if s.arb[port, left] > 0 and able >> entry_vl(n, port, block, i) & 1:
        return entry_vl(n, port, block, i)
    for step in range(1, cap + 1):
        j = (i + step) % cap
        weight = entry_weight(n, port, block, j)
        if weight > 0 and able >> entry_vl(n, port, block, j) & 1:
            s.arb[port, at] = j
            s.arb[port, left] = weight
            return entry_vl(n, port, block, j)
    return np.int64(-1)


@inner
def any_of(s, port, able):
    """The next of ``able`` in turn: of a port whose tables were never written."""
    for step in range(1, 17):
        vl = (s.arb[port, LOW_AT] + step) & 15
        if able >> vl & 1:
            s.arb[port, LOW_AT] = vl
            return vl
    return np.int64(-1)


@inner
def arbitrate(n, s, port, able):
    """The VL that sends next, of those with a packet and the credits for it (bits, at least one); -1: no table has one of them."""
    high_cap, low_cap, limit = n.rare[port, HIGH_CAP], n.rare[port, LOW_CAP], n.rare[port, HIGH_LIMIT]
    if high_cap == 0 and low_cap == 0:
        return any_of(s, port, able)
    s.arb[port, CHOSEN] = 1
    high = np.int64(-1)
    if high_cap > 0:
        high = next_of_table(n, s, port, HIGH_BLOCK, high_cap, HIGH_AT, HIGH_LEFT, able)
    if high >= 0 and (limit < 0 or s.arb[port, HIGH_SENT] <= limit):
        return high
    low = np.int64(-1)
    if low_cap > 0:
        low = next_of_table(n, s, port, LOW_BLOCK, low_cap, LOW_AT, LOW_LEFT, able)
    if low >= 0:
        s.arb[port, CHOSEN] = 0
        return low
    s.arb[port, HIGH_SENT] = 0
    return high


@inner
def account(n, s, port, octets):
    """The VL that :func:`arbitrate` chose sent a packet."""
    blocks = (octets + BLOCK - 1) // BLOCK * BLOCK
    if s.arb[port, CHOSEN]:
        s.arb[port, HIGH_LEFT] -= blocks
        s.arb[port, HIGH_SENT] += blocks
    else:
        s.arb[port, LOW_LEFT] -= blocks
        s.arb[port, HIGH_SENT] = 0
