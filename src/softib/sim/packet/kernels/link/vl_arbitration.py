"""VL arbitration: the two tables of VLArbitrationTable and the limit of high priority (IBA 7.6.9).
An entry of a table is a VL and a weight in units of 64 bytes. A VL sends while some of its weight is left; if its last
packet exceeds the weight, the excess is not carried over. High priority sends first; if low priority waits, it gets its
turn when high priority has sent its limit.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import BLOCK

TABLE = 32
"""Number of entries in a block of VLArbitrationTable; each has two bytes."""
HIGH_BLOCK, LOW_BLOCK = 2, 0


@inner
def entry_vl(net, port, block, i):
    """Return the VL of entry ``i``."""
    return np.int64(net.vl_arb[port, block + i // TABLE, 2 * (i % TABLE)]) & 15


@inner
def entry_weight(net, port, block, i):
    """Return the weight of entry ``i`` in bytes."""
    return np.int64(net.vl_arb[port, block + i // TABLE, 2 * (i % TABLE) + 1]) * BLOCK


@inner
def next_of_table(net, state, port, block, cap, cursor, able):
    """Return the next VL of ``able`` (bits) in a table, -1 if the table serves none of them.
    ``cursor``: the table's row in ``State.arbitration``."""
    i = state.arbitration[cursor].entry
    if state.arbitration[cursor].left > 0 and able >> entry_vl(net, port, block, i) & 1:
        return entry_vl(net, port, block, i)
    for step in range(1, cap + 1):
        j = (i + step) % cap
        weight = entry_weight(net, port, block, j)
        if weight > 0 and able >> entry_vl(net, port, block, j) & 1:
            state.arbitration[cursor].entry = j
            state.arbitration[cursor].left = weight
            return entry_vl(net, port, block, j)
    return np.int64(-1)


@inner
def any_of(state, port, able):
    """Return the next VL of ``able`` in turn, for a port whose tables no manager has written."""
    for step in range(1, 17):
        vl = (state.arbitration[2 * port].entry + step) & 15
        if able >> vl & 1:
            state.arbitration[2 * port].entry = vl
            return vl
    return np.int64(-1)


@inner
def arbitrate(net, state, port, able):
    """Return the VL that sends next, among those with a packet and credits for it (bits, at least
    one); -1: no table serves any of them."""
    high_cap, low_cap, limit = net.rare[port].high_cap, net.rare[port].low_cap, net.rare[port].high_limit
    if high_cap == 0 and low_cap == 0:
        return any_of(state, port, able)
    state.arbiter[port].chosen = 1
    high = np.int64(-1)
    if high_cap > 0:
        high = next_of_table(net, state, port, HIGH_BLOCK, high_cap, 2 * port + 1, able)
    if high >= 0 and (limit < 0 or state.arbiter[port].high_sent <= limit):
        return high
    low = np.int64(-1)
    if low_cap > 0:
        low = next_of_table(net, state, port, LOW_BLOCK, low_cap, 2 * port, able)
    if low >= 0:
        state.arbiter[port].chosen = 0
        return low
    state.arbiter[port].high_sent = 0
    return high


@inner
def account(net, state, port, octets):
    """Account a packet sent by the VL that :func:`arbitrate` chose."""
    blocks = (octets + BLOCK - 1) // BLOCK * BLOCK
    if state.arbiter[port].chosen:
        state.arbitration[2 * port + 1].left -= blocks
        state.arbiter[port].high_sent += blocks
    else:
        state.arbitration[2 * port].left -= blocks
        state.arbiter[port].high_sent = 0
