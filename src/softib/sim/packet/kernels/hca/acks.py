# mypy: ignore-errors
"""Packets without payload: acknowledgements and congestion notices, sent before the streams of their port."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.kernels.engine.pools import new_packet

ACK_OCTETS = 30
"""LRH 8, BTH 12, AETH 4, ICRC 4, VCRC 2 (IBA 5.2)."""


@inner
def control(n, s, port, stream, what, psn, dlid, vl):
    """Queue a packet of kind ``what`` about ``stream`` at ``port``. Returns the port."""
    k = new_packet(s, stream, psn, ACK_OCTETS, dlid, s.qp[stream >> 1].sl, what, 0)
    return before_streams(n, s, port, k, vl)


@inner
def before_streams(n, s, port, k, vl):
    """Queue packet ``k`` at end port ``port``: it is sent on ``vl`` before the streams. Returns the port."""
    row = port * n.opt.vls + vl
    if s.vl_more[row].control:
        s.packet[s.vl_more[row].last_control].next = k
    else:
        s.vl_more[row].control = k
    s.vl_more[row].last_control = k
    s.port[port].ready |= np.int64(1) << vl
    return port
