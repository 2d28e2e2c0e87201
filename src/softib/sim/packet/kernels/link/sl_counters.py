# mypy: ignore-errors
"""Optional counters: PortXmitDataSL and PortRcvDataSL by SL, PortVLXmitWait by VL (IBA 16.1.4). Only with ``opt[BY_SL]``."""

import numpy as np

from softib.jit import inner

VCRC = 2


@inner
def count_sent(n, s, port, row, k, start, end):
    """Packet ``k`` leaves by port VL ``row`` of ``port`` from ``start`` to ``end``."""
    s.by_sl[port, s.packet[k].sl].sent += (s.packet[k].octets - VCRC) // 4
    waits_no_longer(n, s, port, row, start)
    s.vl_wait[row].busy = end


@inner
def count_received(s, port, k):
    """Packet ``k`` came in by ``port``."""
    s.by_sl[port, s.packet[k].sl].received += (s.packet[k].octets - VCRC) // 4


@inner
def waits_no_longer(n, s, port, row, now):
    """Port VL ``row`` waited until ``now``: whole ticks count."""
    since = s.vl_wait[row].since
    if since:
        s.vl_wait[row].since = 0
        s.vl_wait[row].ticks += max(now - since + 1, np.int64(0)) // n.rare[port].tick_ps


@inner
def note_waiting(n, s, port, now):
    """VLs of ``port`` with data wait from now on, or from when their own packet has left."""
    for vl in range(n.opt.vls):
        row = port * n.opt.vls + vl
        if not s.port[port].ready >> vl & 1:
            s.vl_wait[row].since = 0
        elif s.vl_wait[row].since == 0:
            s.vl_wait[row].since = max(now, s.vl_wait[row].busy) + 1
