# mypy: ignore-errors
"""Explicit congestion notification: a switch marks packets by the length of the egress queue that they join (RFC 3168, RED).

Below Kmin none is marked, from Kmax on every one, between them a share that grows to Pmax (Zhu et al., SIGCOMM 2015, section 3.1). What is
drawn is a hash of packet, port and time, so it does not depend on the order of events elsewhere.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.ethernet_tables import ECN, ECN_MARKED, EGRESS, K_MAX, K_MIN, MILLION, P_MAX, SEED
from softib.sim.packet.kernels.rng import mixed
from softib.sim.packet.tables import DATA, FECN, FLAGS, PSN, QP, READ_RESPONSE, WHAT


@inner
def drawn(n, s, k, out, now):
    """A number below a million."""
    z = mixed(np.uint64(now) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(out + 1))
    z = mixed(
        z ^ np.uint64(s.packet[k, QP]) << np.uint64(32) ^ np.uint64(s.packet[k, PSN]) ^ np.uint64(n.ethernet[SEED])
    )
    return np.int64(z >> np.uint64(33)) % MILLION


@inner
def mark_ecn(n, s, k, out, row, now):
    """Packet ``k`` was queued at port VL ``row`` of ``out``: is its CE codepoint set?"""
    queued, least = s.queue[row, EGRESS], n.buffer[out, K_MIN]
    if not n.ethernet[ECN] or queued <= least:
        return
    what = s.packet[k, WHAT]
    if what != DATA and what != READ_RESPONSE:  # acknowledgements and CNPs are not ECN-capable
        return
    span = n.buffer[out, K_MAX] - least
    if queued < least + span and drawn(n, s, k, out, now) >= n.ethernet[P_MAX] * (queued - least) // span:
        return
    s.packet[k, FLAGS] |= FECN
    s.queue[row, ECN_MARKED] += 1
