# mypy: ignore-errors
"""DCQCN (Zhu et al., SIGCOMM 2015): rate control of RoCEv2 queue pairs by ECN.

Notification point: a receiver answers marked packets of a flow with a CNP, at most one every CNP interval. Reaction point: a CNP cuts the rate
by alpha / 2 and raises alpha; without CNPs alpha falls, timer and byte counter raise the rate: halfway back to the target (fast
recovery), then the target by R_AI (additive), then by R_HAI (hyper increase). The sender counts what was due when it sends next or a
CNP comes: the rate in between moves no packet.

A flow is a stream: a queue pair's requests, or its responses to READs, whose rate is kept too (what sends them decides whether it obeys).
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import CNP, MILLION
from softib.sim.packet.kernels.congestion.congestion_control import static_rate
from softib.sim.packet.kernels.hca.acks import control

CNP_OCTETS = 78
"""Ethernet 14 and FCS 4, IPv4 20, UDP 8, BTH 12, 16 reserved, ICRC 4 (IBA annex A17.9.3)."""
PS_KBPS = 8_000_000_000
"""Octets * this / rate in kb/s are ps."""


@inner
def notification_point(n, s, port, k):
    """A marked packet arrived at ``port``. Returns the port to look at, -1 where no CNP is due."""
    s.port[port].rcv_fecn += 1
    stream, now = np.int64(s.packet[k].stream), s.reg.now
    q = stream >> 1
    last = s.dcqcn[stream].cnp_sent
    if last and now + 1 - last < n.ethernet.cnp_ps:
        return np.int64(-1)
    s.dcqcn[stream].cnp_sent = now + 1
    if stream & 1:  # a response: its sender is the destination of the requests
        lid, vl = s.message[s.order[s.qp[q].first_message]].lid, s.qp[q].out_vl
    else:
        lid, vl = s.qp[q].back_lid, s.qp[q].back_vl
    control(n, s, port, stream, CNP, np.int64(0), lid, vl)
    s.packet[s.vl_more[port * n.opt.vls + vl].last_control].octets = CNP_OCTETS
    return port


@inner
def increase(n, s, stream, line):
    """A step of timer or byte counter: the rate rises."""
    c = s.dcqcn[stream]
    most, least = max(c.time_steps, c.byte_steps), min(c.time_steps, c.byte_steps)
    if least > n.ethernet.fast_recovery:
        c.rate_target = min(c.rate_target + n.ethernet.rate_hai, line)
    elif most >= n.ethernet.fast_recovery:
        c.rate_target = min(c.rate_target + n.ethernet.rate_ai, line)
    c.rate_now = (c.rate_now + c.rate_target + 1) >> 1
    if c.rate_now >= line:
        c.limited = 0


@inner
def catch_up(n, s, stream, line, now):
    """What timers did to ``stream`` until ``now``."""
    c = s.dcqcn[stream]
    while c.alpha > 0 and c.alpha_at <= now:
        c.alpha -= (c.alpha * n.ethernet.gain + MILLION - 1) // MILLION
        c.alpha_at += n.ethernet.alpha_ps
    while c.limited and c.rate_at <= now:
        c.time_steps += 1
        c.rate_at += n.ethernet.rate_ps
        increase(n, s, stream, line)


@inner
def reaction_point(n, s, port, stream, now):
    """A CNP arrived at ``port`` for the flow ``stream``: the rate falls."""
    s.port[port].rcv_becn += 1
    c, line = s.dcqcn[stream], n.buffer[port].line_kbps
    c.cnps += 1
    if c.cnps == 1:
        c.alpha = MILLION
        c.rate_now = line
    else:
        catch_up(n, s, stream, line, now)
    if not c.limited:
        c.rate_now = line
    c.limited = 1
    c.rate_target = c.rate_now
    c.rate_now = max(c.rate_now - c.rate_now * c.alpha // (2 * MILLION), n.ethernet.rate_min)
    c.alpha += (MILLION - c.alpha) * n.ethernet.gain // MILLION
    c.alpha_at = now + n.ethernet.alpha_ps
    c.rate_at = now + n.ethernet.rate_ps
    c.octets = 0
    c.byte_steps = 0
    c.time_steps = 0


@inner
def sender_of(s, stream):
    """The port that sends ``stream``."""
    return s.qp[stream >> 1].dst if stream & 1 else s.qp[stream >> 1].src


@inner
def limited_until(n, s, stream, start, end):
    """When ``stream`` may send again after a packet that was on the wire from ``start`` to ``end``; 0 where DCQCN does not limit it."""
    c = s.dcqcn[stream]
    if not c.limited:
        return np.int64(0)
    line = n.buffer[sender_of(s, stream)].line_kbps
    catch_up(n, s, stream, line, start)
    octets = (end - start) * line // PS_KBPS
    c.octets += octets
    if c.limited and c.octets >= n.ethernet.byte_counter:
        c.octets -= n.ethernet.byte_counter
        c.byte_steps += 1
        increase(n, s, stream, line)
    return start + octets * PS_KBPS // c.rate_now if c.limited else np.int64(0)


@inner
def rate_limit(n, s, stream, start, end):
    """When ``stream`` may send again, 0 where nothing slows it: its static rate, and DCQCN's."""
    gap = static_rate(s, stream)
    t = start + (end - start) * gap // 1000 if gap else np.int64(0)
    return max(t, limited_until(n, s, stream, start, end))
