"""Explicit congestion notification: a switch marks packets depending on the length of their egress
queue (RFC 3168, RED). Below Kmin no packet is marked, from Kmax on every packet is; between them,
the marked share grows to Pmax (Zhu et al., SIGCOMM 2015, section 3.1). The random number is a hash
of packet, port and time, so it does not depend on the order of events elsewhere.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import DATA, FECN, MILLION, READ_RESPONSE
from softib.sim.packet.kernels.engine.rng import mixed


@inner
def drawn(net, state, k, out, now):
    """Return a pseudo-random integer from 0 to 999,999."""
    z = mixed(np.uint64(now) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(out + 1))
    z = mixed(
        z
        ^ np.uint64(state.packet[k].stream) << np.uint64(32)
        ^ np.uint64(state.packet[k].psn)
        ^ np.uint64(net.ethernet.seed)
    )
    return np.int64(z >> np.uint64(33)) % MILLION


@inner
def mark_ecn(net, state, k, out, row, now):
    """Decide whether to set the CE codepoint of packet ``k``, queued at port VL ``row`` of ``out``."""
    queued, least = state.queue[row].egress, net.buffer[out].k_min
    if not net.ethernet.ecn or queued <= least:
        return
    kind = state.packet[k].kind
    if kind != DATA and kind != READ_RESPONSE:  # acknowledgements and CNPs are not ECN-capable
        return
    span = net.buffer[out].k_max - least
    if queued < least + span and drawn(net, state, k, out, now) >= net.ethernet.p_max * (queued - least) // span:
        return
    state.packet[k].marks |= FECN
    state.queue[row].ecn_marked += 1
