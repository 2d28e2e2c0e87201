"""Congestion control (IBA annex A10), from the tables that class 0x21 programs.

A switch marks packets with FECN where more is queued for an output VL than its threshold allows; a
port that has no credits is a victim and marks only where VictimMask says so. The destination
answers with a packet that carries BECN. The source then raises the flow's CCTI, the index of the
table that says how long it waits after each packet, as a multiple of the packet's own time; a timer
lowers it again.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import CNP, FASTER, FECN
from softib.sim.packet.kernels.engine.events import push, word
from softib.sim.packet.kernels.hca.acks import control
from softib.sim.packet.kernels.link.credits import has_credit


@inner
def mark(net, state, k, out, row):
    """Packet ``k`` was queued for port VL ``row`` of ``out``: does the switch set its FECN bit?
    (annex A10, switches)"""
    threshold = net.marking[out].threshold
    octets = np.int64(state.packet[k].octets)
    if threshold == 0 or state.vl[row].queued < threshold or octets < net.marking[out].packet_size:
        return
    if not net.marking[out].victim and not has_credit(state, row, octets):
        return
    state.vl_more[row].mark += 1
    if state.vl_more[row].mark > net.marking[out].rate:
        state.vl_more[row].mark = 0
        state.packet[k].marks |= FECN
        state.port[out].marked += 1


@inner
def forward_notice(net, state, port, k):
    """A packet with FECN arrived at ``port``: a packet with BECN goes back. Returns the port to
    look at."""
    state.port[port].rcv_fecn += 1
    stream = np.int64(state.packet[k].stream)
    q = stream >> 1
    if stream & 1:  # a response: its sender is the destination of the requests
        lid = state.message[state.order[state.qp[q].first_message]].lid
        return control(net, state, port, stream, CNP, np.int64(0), lid, state.qp[q].out_vl)
    return control(net, state, port, stream, CNP, np.int64(0), state.qp[q].back_lid, state.qp[q].back_vl)


@inner
def backward(net, state, port, stream, now):
    """A packet with BECN arrived for the flow ``stream``: it waits longer after each packet (annex
    A10, channel adapters)."""
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
    """CCTI_Timer: the flow's CCTI falls by one, down to CCTI_Min."""
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
    """Time from the begin of a packet of ``stream`` to the next, in thousandths of the packet's
    own; 0: no limit."""
    return state.qp[stream >> 1].back_ps_packet if stream & 1 else state.qp[stream >> 1].ps_packet


@inner
def paced_until(net, state, stream, start, end):
    """When ``stream``, whose packet is on the wire from ``start`` to ``end``, may send again; 0
    where its CCTI does not slow it."""
    if net.opt.cc:
        delay = state.throttle[state.flow[stream]].delay
        if delay:
            return end + (end - start) * delay // 1000
    return np.int64(0)


@inner
def waits_until(net, state, stream, start, end):
    """When ``stream``, whose packet is on the wire from ``start`` to ``end``, may send again; 0
    where neither static rate nor congestion control slows it. A response's packets are slowed at
    their own sender, by what was noticed of the stream of responses."""
    gap = static_rate(state, stream)
    t = start + (end - start) * gap // 1000 if gap else np.int64(0)
    return max(t, paced_until(net, state, stream, start, end))


@inner
def no_pace(net, state, stream, start, end):
    """In place of :func:`paced_until`: nothing slows ``stream``."""
    return np.int64(0)


@inner
def no_notice(net, state, port, k):
    """In place of :func:`forward_notice`: the receiver sends no notice."""
    state.port[port].rcv_fecn += 1
    return np.int64(-1)


@inner
def not_noticed(net, state, port, stream, now):
    """In place of :func:`backward`: the sender ignores notices."""
    state.port[port].rcv_becn += 1
