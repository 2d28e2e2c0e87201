# mypy: ignore-errors
"""Congestion control (IBA annex A10), from the tables that class 0x21 programs.

A switch marks packets with FECN where more is queued for an output VL than its threshold allows; a port that has no credits is a
victim and marks only where VictimMask says so. The destination answers with a packet that carries BECN. The source then raises
the flow's CCTI, the index of the table that says how long it waits after each packet, as a multiple of the packet's own time;
a timer lowers it again.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import CNP, FASTER, FECN
from softib.sim.packet.kernels.engine.events import push, word
from softib.sim.packet.kernels.hca.acks import control
from softib.sim.packet.kernels.link.credits import has_credit


@inner
def mark(n, s, k, out, row):
    """Packet ``k`` was queued for port VL ``row`` of ``out``: does the switch set its FECN bit? (annex A10, switches)"""
    threshold = n.marking[out].threshold
    octets = np.int64(s.packet[k].octets)
    if threshold == 0 or s.vl[row].queued < threshold or octets < n.marking[out].packet_size:
        return
    if not n.marking[out].victim and not has_credit(s, row, octets):
        return
    s.vl_more[row].mark += 1
    if s.vl_more[row].mark > n.marking[out].rate:
        s.vl_more[row].mark = 0
        s.packet[k].marks |= FECN
        s.port[out].marked += 1


@inner
def forward_notice(n, s, port, k):
    """A packet with FECN arrived at ``port``: a packet with BECN goes back. Returns the port to look at."""
    s.port[port].rcv_fecn += 1
    stream = np.int64(s.packet[k].stream)
    q = stream >> 1
    if stream & 1:  # a response: its sender is the destination of the requests
        lid = s.message[s.order[s.qp[q].first_message]].lid
        return control(n, s, port, stream, CNP, np.int64(0), lid, s.qp[q].out_vl)
    return control(n, s, port, stream, CNP, np.int64(0), s.qp[q].back_lid, s.qp[q].back_vl)


@inner
def backward(n, s, port, stream, now):
    """A packet with BECN arrived for the flow ``stream``: it waits longer after each packet (annex A10, channel adapters)."""
    s.port[port].rcv_becn += 1
    row = s.flow[stream]
    setting = n.throttling[port, s.qp[stream >> 1].sl]
    raised = s.throttle[row].ccti + setting.increase
    s.throttle[row].ccti = min(raised, setting.limit)
    s.throttle[row].delay = n.cct[port, s.throttle[row].ccti]
    if s.throttle[row].timed == 0 and setting.timer_ps > 0:
        s.throttle[row].timed = 1
        push(s, now + setting.timer_ps, word(port, FASTER, stream))


@inner
def timer_over(n, s, port, stream, now):
    """CCTI_Timer: the flow's CCTI falls by one, down to CCTI_Min."""
    row = s.flow[stream]
    setting = n.throttling[port, s.qp[stream >> 1].sl]
    s.throttle[row].timed = 0
    if s.throttle[row].ccti <= setting.least:
        return
    s.throttle[row].ccti -= 1
    s.throttle[row].delay = n.cct[port, s.throttle[row].ccti]
    if s.throttle[row].ccti > setting.least:
        s.throttle[row].timed = 1
        push(s, now + setting.timer_ps, word(port, FASTER, stream))


@inner
def static_rate(s, stream):
    """Time from the begin of a packet of ``stream`` to the next, in thousandths of the packet's own; 0: no limit."""
    return s.qp[stream >> 1].back_ps_packet if stream & 1 else s.qp[stream >> 1].ps_packet


@inner
def waits_until(n, s, stream, start, end):
    """When ``stream``, whose packet is on the wire from ``start`` to ``end``, may send again; 0 where nothing slows it. A response's
    packets are slowed at their own sender, by what was noticed of the stream of responses."""
    gap = static_rate(s, stream)
    t = start + (end - start) * gap // 1000 if gap else np.int64(0)
    if n.opt.cc:
        delay = s.throttle[s.flow[stream]].delay
        if delay:
            t = max(t, end + (end - start) * delay // 1000)
    return t
