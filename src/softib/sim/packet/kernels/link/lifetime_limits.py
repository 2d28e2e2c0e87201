"""Limits of a packet's lifetime: HOQLife at the head of an output queue, VLStallCount, and the switch's
LifeTimeValue (IBA chapter 18, 14.2.5.4 and 14.2.5.6)."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import DISCARDED, STALLED
from softib.sim.packet.kernels.link.credits import arm

LIFE_UNIT_PS, FOREVER = 4_096_000, 19
"""HOQLife and LifeTimeValue: 4.096 us times 2^n; above 19 no limit (IBA 14.2.5.4, 14.2.5.6)."""
STALLED_TIMES_HOQ = 8
"""A stalled VL discards arriving packets for eight times HOQLife (VLStallCount, IBA chapter 18)."""


@inner
def overdue_since(net, state, port, row, k, now):
    """Return when packet ``k``, at the head of port VL ``row`` of a switch, should have been
    discarded, and count it; -1 if it is not overdue. A port with a busy link checks only when the
    link is free. An overdue packet counts as discarded at its deadline, and the next packet counts
    as being at the head from then on.
    """
    if state.vl[row].waits & STALLED:
        if state.vl_more[row].stalled > now:
            state.port[port].hoq_discards += 1
            return now
        state.vl[row].waits &= ~STALLED
    since = state.vl[row].head_since
    hoq = np.int64(net.port[port].hoq)
    if hoq <= FOREVER and now - since >= LIFE_UNIT_PS << hoq:
        head_of_queue_discard(net, state, port, row, since + (LIFE_UNIT_PS << hoq), LIFE_UNIT_PS << hoq)
        return since + (LIFE_UNIT_PS << hoq)
    life = np.int64(net.port[port].life)
    if life <= FOREVER and now - state.packet[k].entered >= LIFE_UNIT_PS << life:
        state.port[port].life_discards += 1
        return max(since, state.packet[k].entered + (LIFE_UNIT_PS << life))
    return np.int64(-1)


@inner
def head_of_queue_discard(net, state, port, row, at, hoq_ps):
    """Count a discard by HOQLife. The VL stalls after VLStallCount discards without a packet sent in between."""
    state.port[port].hoq_discards += 1
    state.vl[row].waits |= DISCARDED
    state.vl_more[row].stalls += 1
    if net.rare[port].stall_count and state.vl_more[row].stalls >= net.rare[port].stall_count:
        state.vl_more[row].stalls = 0
        state.vl_more[row].stalled = at + STALLED_TIMES_HOQ * hoq_ps
        state.vl[row].waits |= STALLED


@inner
def ends_discards(state, row):
    """Reset the count of consecutive HOQLife discards of port VL ``row``, because it sends a packet."""
    if state.vl[row].waits & DISCARDED:
        state.vl[row].waits &= ~DISCARDED
        state.vl_more[row].stalls = 0


@inner
def await_deadline(net, state, port, row, k):
    """Schedule a check of ``port`` at the deadline of the packet at the head of port VL ``row``."""
    hoq, life = np.int64(net.port[port].hoq), np.int64(net.port[port].life)
    if hoq <= FOREVER:
        arm(state, port, state.vl[row].head_since + (LIFE_UNIT_PS << hoq))
    if life <= FOREVER:
        arm(state, port, state.packet[k].entered + (LIFE_UNIT_PS << life))
