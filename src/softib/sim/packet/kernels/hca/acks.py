"""Packets without payload: acknowledgements and congestion notices, sent ahead of the streams of
their port."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.kernels.engine.pools import new_packet

ACK_OCTETS = 30
"""Bytes of an acknowledgement: LRH 8, BTH 12, AETH 4, ICRC 4, VCRC 2 (IBA 5.2)."""


@inner
def control(net, state, port, stream, kind, psn, dlid, vl):
    """Queue a packet of kind ``kind`` for ``stream`` at ``port``. Returns the port."""
    k = new_packet(state, stream, psn, ACK_OCTETS, dlid, state.qp[stream >> 1].sl, kind, 0)
    return before_streams(net, state, port, k, vl)


@inner
def before_streams(net, state, port, k, vl):
    """Queue packet ``k`` at end port ``port`` on ``vl``, ahead of the streams. Returns the port."""
    row = port * net.opt.vls + vl
    if state.vl_more[row].control:
        state.packet[state.vl_more[row].last_control].next = k
    else:
        state.vl_more[row].control = k
    state.vl_more[row].last_control = k
    state.port[port].ready |= np.int64(1) << vl
    return port
