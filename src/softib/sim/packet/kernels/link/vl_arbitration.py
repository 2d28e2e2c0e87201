# mypy: ignore-errors
"""Which VL sends next: the two tables of VLArbitrationTable and the limit of high priority (IBA 7.6.9).

An entry of a table is a VL and a weight in units of 64 octets. A VL sends as long as something of the weight is left; what a
packet takes beyond it is not carried over. High priority sends first, until it has sent its limit while low priority waits.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import BLOCK

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
def next_of_table(n, s, port, block, cap, turn, able):
    """The VL of ``able`` (bits) that is next by a table, -1 where it names none of them. ``turn``: the row of ``State.arbitration``."""
    i = s.arbitration[turn].entry
    if s.arbitration[turn].left > 0 and able >> entry_vl(n, port, block, i) & 1:
        return entry_vl(n, port, block, i)
    for step in range(1, cap + 1):
        j = (i + step) % cap
        weight = entry_weight(n, port, block, j)
        if weight > 0 and able >> entry_vl(n, port, block, j) & 1:
            s.arbitration[turn].entry = j
            s.arbitration[turn].left = weight
            return entry_vl(n, port, block, j)
    return np.int64(-1)


@inner
def any_of(s, port, able):
    """The next of ``able`` in turn: of a port whose tables were never written."""
    for step in range(1, 17):
        vl = (s.arbitration[2 * port].entry + step) & 15
        if able >> vl & 1:
            s.arbitration[2 * port].entry = vl
            return vl
    return np.int64(-1)


@inner
def arbitrate(n, s, port, able):
    """The VL that sends next, of those with a packet and the credits for it (bits, at least one); -1: no table has one of them."""
    high_cap, low_cap, limit = n.rare[port].high_cap, n.rare[port].low_cap, n.rare[port].high_limit
    if high_cap == 0 and low_cap == 0:
        return any_of(s, port, able)
    s.arbiter[port].chosen = 1
    high = np.int64(-1)
    if high_cap > 0:
        high = next_of_table(n, s, port, HIGH_BLOCK, high_cap, 2 * port + 1, able)
    if high >= 0 and (limit < 0 or s.arbiter[port].high_sent <= limit):
        return high
    low = np.int64(-1)
    if low_cap > 0:
        low = next_of_table(n, s, port, LOW_BLOCK, low_cap, 2 * port, able)
    if low >= 0:
        s.arbiter[port].chosen = 0
        return low
    s.arbiter[port].high_sent = 0
    return high


@inner
def account(n, s, port, octets):
    """The VL that :func:`arbitrate` chose sent a packet."""
    blocks = (octets + BLOCK - 1) // BLOCK * BLOCK
    if s.arbiter[port].chosen:
        s.arbitration[2 * port + 1].left -= blocks
        s.arbiter[port].high_sent += blocks
    else:
        s.arbitration[2 * port].left -= blocks
        s.arbiter[port].high_sent = 0
