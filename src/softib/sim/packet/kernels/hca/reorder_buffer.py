"""Packets that come out of order and are placed where they belong, as receivers of adaptively
routed traffic do."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import ASKS_ACK, WINDOW_PACKETS


@inner
def keep(state, row, psn, flags):
    """Packet ``psn`` came ahead of others and is in its place: two bits say so, and whether it asks
    for an acknowledgement."""
    at = psn & (WINDOW_PACKETS - 1)
    state.place[row, at >> 6] |= np.uint64(1) << np.uint64(at & 63)
    if flags & ASKS_ACK:
        state.place[row, (WINDOW_PACKETS + at) >> 6] |= np.uint64(1) << np.uint64(at & 63)


@inner
def kept(state, row, psn):
    """Has packet ``psn`` come already?"""
    at = psn & (WINDOW_PACKETS - 1)
    return state.place[row, at >> 6] >> np.uint64(at & 63) & np.uint64(1) != 0


@inner
def forget(state, row, psn):
    """Packet ``psn`` is no longer ahead of others. Returns 1 if it asked for an acknowledgement,
    else 0."""
    at = psn & (WINDOW_PACKETS - 1)
    bit = np.uint64(1) << np.uint64(at & 63)
    state.place[row, at >> 6] &= ~bit
    wants_ack = state.place[row, (WINDOW_PACKETS + at) >> 6] & bit != 0
    state.place[row, (WINDOW_PACKETS + at) >> 6] &= ~bit
    return np.int64(wants_ack)
