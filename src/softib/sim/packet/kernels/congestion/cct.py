"""The congestion control table of a channel adapter (IBA annex A10), programmed with class 0x21. A
packet with BECN (:mod:`~softib.sim.packet.kernels.congestion.fecn_becn`) increases the flow's CCTI,
the index into the table. The entry is the source's delay after each packet, as a multiple of the
packet's own time. A timer lowers the CCTI again.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import FASTER
from softib.sim.packet.kernels.engine.events import push, word


@inner
def backward(net, state, port, stream, now):
    """Handle a packet with BECN for the flow ``stream``: increase the delay after each of its
    packets (annex A10, channel adapters)."""
    state.port[port].rcv_becn += 1
    row = state.flow[stream]
    setting = net.throttling[port, state.qp[stream >> 1].sl]
    raised = state.throttle[row].ccti + setting.increase
    state.throttle[row].ccti = min(raised, setting.limit)
    state.throttle[row].delay = net.cct[port, state.throttle[row].ccti]
    if state.throttle[row].timed == 0 and setting.timer_ps > 0:
        state.throttle[row].timed = 1
        push(state, now + setting.timer_ps, word(port, FASTER, stream))


@inner
def timer_over(net, state, port, stream, now):
    """Handle CCTI_Timer: lower the flow's CCTI by one, down to CCTI_Min."""
    row = state.flow[stream]
    setting = net.throttling[port, state.qp[stream >> 1].sl]
    state.throttle[row].timed = 0
    if state.throttle[row].ccti <= setting.least:
        return
    state.throttle[row].ccti -= 1
    state.throttle[row].delay = net.cct[port, state.throttle[row].ccti]
    if state.throttle[row].ccti > setting.least:
        state.throttle[row].timed = 1
        push(state, now + setting.timer_ps, word(port, FASTER, stream))


@inner
def static_rate(state, stream):
    """Return the time from the start of a packet of ``stream`` to the start of the next, in thousandths of the packet's
    own time; 0: no limit."""
    return state.qp[stream >> 1].back_ps_packet if stream & 1 else state.qp[stream >> 1].ps_packet


@inner
def paced_until(net, state, stream, start, end):
    """Return when ``stream``, whose last packet is on the wire from ``start`` to ``end``, may send again; 0 if its CCTI
    does not delay it."""
    if net.opt.cc:
        delay = state.throttle[state.flow[stream]].delay
        if delay:
            return end + (end - start) * delay // 1000
    return np.int64(0)


@inner
def waits_until(net, state, stream, start, end):
    """Return when ``stream``, whose last packet is on the wire from ``start`` to ``end``, may send again; 0 if neither
    static rate nor congestion control delays it. Responses to READs are a stream too: notices for this stream delay
    their sender."""
    gap = static_rate(state, stream)
    t = start + (end - start) * gap // 1000 if gap else np.int64(0)
    return max(t, paced_until(net, state, stream, start, end))


@inner
def no_pace(net, state, stream, start, end):
    """Replaces :func:`paced_until` in runs in which no stream is delayed."""
    return np.int64(0)


@inner
def not_noticed(net, state, port, stream, now):
    """Replaces :func:`backward`: the sender ignores notices."""
    state.port[port].rcv_becn += 1
