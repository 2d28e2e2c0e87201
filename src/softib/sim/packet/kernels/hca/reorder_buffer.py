"""Records of packets that arrived out of order and were placed in memory directly, as receivers of adaptively routed
traffic do."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import ASKS_ACK, WINDOW_PACKETS


@inner
def keep(state, row, psn, flags):
    """Record in two bits that packet ``psn`` arrived early and was placed, and whether it requests
    an acknowledgement."""
    at = psn & (WINDOW_PACKETS - 1)
    state.place[row, at >> 6] |= np.uint64(1) << np.uint64(at & 63)
    if flags & ASKS_ACK:
        state.place[row, (WINDOW_PACKETS + at) >> 6] |= np.uint64(1) << np.uint64(at & 63)


@inner
def kept(state, row, psn):
    """Return whether packet ``psn`` has already arrived."""
    at = psn & (WINDOW_PACKETS - 1)
    return state.place[row, at >> 6] >> np.uint64(at & 63) & np.uint64(1) != 0


@inner
def forget(state, row, psn):
    """Remove the record of packet ``psn``. Returns 1 if it requested an acknowledgement, otherwise 0."""
    at = psn & (WINDOW_PACKETS - 1)
    bit = np.uint64(1) << np.uint64(at & 63)
    state.place[row, at >> 6] &= ~bit
    wants_ack = state.place[row, (WINDOW_PACKETS + at) >> 6] & bit != 0
    state.place[row, (WINDOW_PACKETS + at) >> 6] &= ~bit
    return np.int64(wants_ack)
