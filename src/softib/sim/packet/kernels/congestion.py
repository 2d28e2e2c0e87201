# mypy: ignore-errors
"""Congestion control (IBA annex A10), from the tables that class 0x21 programs.

A switch marks packets with FECN where more is queued for an output VL than its threshold allows; a port that has no credits is a
victim and marks only where VictimMask says so. The destination answers with a packet that carries BECN. The source then raises
the flow's CCTI, the index of the table that says how long it waits after each packet, as a multiple of the packet's own time;
a timer lowers it again.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.kernels.control import control
from softib.sim.packet.kernels.events import push, word
from softib.sim.packet.kernels.links import has_credit
from softib.sim.packet.tables import (
    BACK_LID,
    BACK_VL,
    CC_INCREASE,
    CC_LIMIT,
    CC_MIN,
    CC_TIMER,
    CNP,
    F_CCTI,
    F_DELAY,
    F_ROW,
    F_TIMED,
    FASTER,
    FECN,
    FIRST_MESSAGE,
    FLAGS,
    M_LID,
    MARK,
    MARK_PACKET,
    MARK_RATE,
    MARK_THRESHOLD,
    MARK_VICTIM,
    MARKED,
    OCTETS,
    OUT_VL,
    QP,
    QUEUED,
    RCV_BECN,
    RCV_FECN,
    SL,
)  # fmt: skip


@inner
def mark(n, s, k, out, row):
    """Packet ``k`` was queued for port VL ``row`` of ``out``: does the switch set its FECN bit? (annex A10, switches)"""
    threshold = n.marking[out, MARK_THRESHOLD]
    octets = np.int64(s.packet[k, OCTETS])
    if threshold == 0 or s.vl[row, QUEUED] < threshold or octets < n.marking[out, MARK_PACKET]:
        return
    if not n.marking[out, MARK_VICTIM] and not has_credit(s, row, octets):
        return
    s.more[row, MARK] += 1
    if s.more[row, MARK] > n.marking[out, MARK_RATE]:
        s.more[row, MARK] = 0
        s.packet[k, FLAGS] |= FECN
        s.count[out, MARKED] += 1


@inner
def forward_notice(n, s, port, k):
    """A packet with FECN arrived at ``port``: a packet with BECN goes back. Returns the port to look at."""
    s.count[port, RCV_FECN] += 1
    stream = np.int64(s.packet[k, QP])
    q = stream >> 1
    if stream & 1:  # a response: its sender is the destination of the requests
        lid = s.message[s.order[s.qp[q, FIRST_MESSAGE]], M_LID]
        return control(n, s, port, stream, CNP, np.int64(0), lid, s.qp[q, OUT_VL])
    return control(n, s, port, stream, CNP, np.int64(0), s.qp[q, BACK_LID], s.qp[q, BACK_VL])


@inner
def backward(n, s, port, stream, now):
    """A packet with BECN arrived for the flow ``stream``: it waits longer after each packet (annex A10, channel adapters)."""
    s.count[port, RCV_BECN] += 1
    row = s.flow[stream, F_ROW]
    setting = n.throttling[port, s.qp[stream >> 1, SL]]
    raised = s.throttle[row, F_CCTI] + setting[CC_INCREASE]
    s.throttle[row, F_CCTI] = min(raised, setting[CC_LIMIT])
    s.throttle[row, F_DELAY] = n.cct[port, s.throttle[row, F_CCTI]]
    if s.throttle[row, F_TIMED] == 0 and setting[CC_TIMER] > 0:
        s.throttle[row, F_TIMED] = 1
        push(s, now + setting[CC_TIMER], word(port, FASTER, stream))


@inner
def timer_over(n, s, port, stream, now):
    """CCTI_Timer: the flow's CCTI falls by one, down to CCTI_Min."""
    row = s.flow[stream, F_ROW]
    setting = n.throttling[port, s.qp[stream >> 1, SL]]
    s.throttle[row, F_TIMED] = 0
    if s.throttle[row, F_CCTI] <= setting[CC_MIN]:
        return
    s.throttle[row, F_CCTI] -= 1
    s.throttle[row, F_DELAY] = n.cct[port, s.throttle[row, F_CCTI]]
    if s.throttle[row, F_CCTI] > setting[CC_MIN]:
        s.throttle[row, F_TIMED] = 1
        push(s, now + setting[CC_TIMER], word(port, FASTER, stream))
