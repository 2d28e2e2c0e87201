# mypy: ignore-errors
"""Optional counters: PortXmitDataSL and PortRcvDataSL by SL, PortVLXmitWait by VL (IBA 16.1.4). Only with ``opt[BY_SL]``."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.tables import LEVEL, OCTETS, OPT_VLS, READY, TICK, W_BUSY, W_SINCE, W_TICKS

VCRC = 2
SLS = 16


@inner
def count_sent(n, s, port, row, k, start, end):
    """Packet ``k`` leaves by port VL ``row`` of ``port`` from ``start`` to ``end``."""
    s.sl_count[port, s.packet[k, LEVEL]] += (s.packet[k, OCTETS] - VCRC) // 4
    waits_no_longer(n, s, port, row, start)
    s.vl_wait[row, W_BUSY] = end


@inner
def count_received(s, port, k):
    """Packet ``k`` came in by ``port``."""
    s.sl_count[port, SLS + s.packet[k, LEVEL]] += (s.packet[k, OCTETS] - VCRC) // 4


@inner
def waits_no_longer(n, s, port, row, now):
    """Port VL ``row`` waited until ``now``: whole ticks count."""
    since = s.vl_wait[row, W_SINCE]
    if since:
        s.vl_wait[row, W_SINCE] = 0
        s.vl_wait[row, W_TICKS] += max(now - since + 1, np.int64(0)) // n.rare[port, TICK]


@inner
def note_waiting(n, s, port, now):
    """VLs of ``port`` with data wait from now on, or from when their own packet has left."""
    for vl in range(n.opt[OPT_VLS]):
        row = port * n.opt[OPT_VLS] + vl
        if not s.ready[port, READY] >> vl & 1:
            s.vl_wait[row, W_SINCE] = 0
        elif s.vl_wait[row, W_SINCE] == 0:
            s.vl_wait[row, W_SINCE] = max(now, s.vl_wait[row, W_BUSY]) + 1
