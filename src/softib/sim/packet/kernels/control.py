# mypy: ignore-errors
"""Packets without payload: acknowledgements and congestion notices, sent before the streams of their port."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.kernels.pools import new_packet
from softib.sim.packet.tables import (
    CONTROL,
    LAST_CONTROL,
    NEXT,
    OPT_VLS,
    READY,
    SL,
)  # fmt: skip

ACK_OCTETS = 30
"""LRH 8, BTH 12, AETH 4, ICRC 4, VCRC 2 (IBA 5.2)."""


@inner
def control(n, s, port, stream, what, psn, dlid, vl):
    """Queue a packet of kind ``what`` about ``stream`` at ``port``. Returns the port."""
    k = new_packet(s, stream, psn, ACK_OCTETS, dlid, s.qp[stream >> 1, SL], what, 0)
    return before_streams(n, s, port, k, vl)


@inner
def before_streams(n, s, port, k, vl):
    """Queue packet ``k`` at end port ``port``: it is sent on ``vl`` before the streams. Returns the port."""
    row = port * n.opt[OPT_VLS] + vl
    if s.more[row, CONTROL]:
        s.packet[s.more[row, LAST_CONTROL], NEXT] = k
    else:
        s.more[row, CONTROL] = k
    s.more[row, LAST_CONTROL] = k
    s.ready[port, READY] |= np.int64(1) << vl
    return port
