"""Optional counters: PortXmitDataSL and PortRcvDataSL by SL, PortVLXmitWait by VL (IBA 16.1.4).
Only with ``opt[BY_SL]``."""

import numpy as np

from softib.jit import inner

VCRC = 2


@inner
def count_sent(net, state, port, row, k, start, end):
    """Packet ``k`` leaves by port VL ``row`` of ``port`` from ``start`` to ``end``."""
    state.by_sl[port, state.packet[k].sl].sent += (state.packet[k].octets - VCRC) // 4
    waits_no_longer(net, state, port, row, start)
    state.vl_wait[row].busy = end


@inner
def count_received(state, port, k):
    """Packet ``k`` came in by ``port``."""
    state.by_sl[port, state.packet[k].sl].received += (state.packet[k].octets - VCRC) // 4


@inner
def waits_no_longer(net, state, port, row, now):
    """Port VL ``row`` waited until ``now``: whole ticks count."""
    since = state.vl_wait[row].since
    if since:
        state.vl_wait[row].since = 0
        state.vl_wait[row].ticks += max(now - since + 1, np.int64(0)) // net.rare[port].tick_ps


@inner
def note_waiting(net, state, port, now):
    """VLs of ``port`` with data wait from now on, or from when their own packet has left."""
    for vl in range(net.opt.vls):
        row = port * net.opt.vls + vl
        if not state.port[port].ready >> vl & 1:
            state.vl_wait[row].since = 0
        elif state.vl_wait[row].since == 0:
            state.vl_wait[row].since = max(now, state.vl_wait[row].busy) + 1
