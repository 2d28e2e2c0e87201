"""DCQCN (Zhu et al., SIGCOMM 2015): rate control of RoCEv2 queue pairs by ECN.

Notification point: a receiver answers marked packets of a flow with a CNP, at most one every CNP
interval. Reaction point: a CNP cuts the rate by alpha / 2 and raises alpha; without CNPs alpha
falls, timer and byte counter raise the rate: halfway back to the target (fast recovery), then the
target by R_AI (additive), then by R_HAI (hyper increase). The sender counts what was due when it
sends next or a CNP comes: the rate in between moves no packet.

A flow is a stream: a queue pair's requests, or its responses to READs, whose rate is kept too (what
sends them decides whether it obeys).
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
def notification_point(net, state, port, k):
    """A marked packet arrived at ``port``. Returns the port to look at, -1 where no CNP is due."""
    state.port[port].rcv_fecn += 1
    stream, now = np.int64(state.packet[k].stream), state.reg.now
    q = stream >> 1
    last = state.dcqcn[stream].cnp_sent
    if last and now + 1 - last < net.ethernet.cnp_ps:
        return np.int64(-1)
    state.dcqcn[stream].cnp_sent = now + 1
    if stream & 1:  # a response: its sender is the destination of the requests
        lid, vl = state.message[state.order[state.qp[q].first_message]].lid, state.qp[q].out_vl
    else:
        lid, vl = state.qp[q].back_lid, state.qp[q].back_vl
    control(net, state, port, stream, CNP, np.int64(0), lid, vl)
    state.packet[state.vl_more[port * net.opt.vls + vl].last_control].octets = CNP_OCTETS
    return port


@inner
def increase(net, state, stream, line):
    """A step of timer or byte counter: the rate rises."""
    c = state.dcqcn[stream]
    most, least = max(c.time_steps, c.byte_steps), min(c.time_steps, c.byte_steps)
    if least > net.ethernet.fast_recovery:
        c.rate_target = min(c.rate_target + net.ethernet.rate_hai, line)
    elif most >= net.ethernet.fast_recovery:
        c.rate_target = min(c.rate_target + net.ethernet.rate_ai, line)
    c.rate_now = (c.rate_now + c.rate_target + 1) >> 1
    if c.rate_now >= line:
        c.limited = 0


@inner
def catch_up(net, state, stream, line, now):
    """What timers did to ``stream`` until ``now``."""
    c = state.dcqcn[stream]
    while c.alpha > 0 and c.alpha_at <= now:
        c.alpha -= (c.alpha * net.ethernet.gain + MILLION - 1) // MILLION
        c.alpha_at += net.ethernet.alpha_ps
    while c.limited and c.rate_at <= now:
        c.time_steps += 1
        c.rate_at += net.ethernet.rate_ps
        increase(net, state, stream, line)


@inner
def reaction_point(net, state, port, stream, now):
    """A CNP arrived at ``port`` for the flow ``stream``: the rate falls."""
    state.port[port].rcv_becn += 1
    c, line = state.dcqcn[stream], net.buffer[port].line_kbps
    c.cnps += 1
    if c.cnps == 1:
        c.alpha = MILLION
        c.rate_now = line
    else:
        catch_up(net, state, stream, line, now)
    if not c.limited:
        c.rate_now = line
    c.limited = 1
    c.rate_target = c.rate_now
    c.rate_now = max(c.rate_now - c.rate_now * c.alpha // (2 * MILLION), net.ethernet.rate_min)
    c.alpha += (MILLION - c.alpha) * net.ethernet.gain // MILLION
    c.alpha_at = now + net.ethernet.alpha_ps
    c.rate_at = now + net.ethernet.rate_ps
    c.octets = 0
    c.byte_steps = 0
    c.time_steps = 0


@inner
def sender_of(state, stream):
    """The port that sends ``stream``."""
    return state.qp[stream >> 1].dst if stream & 1 else state.qp[stream >> 1].src


@inner
def limited_until(net, state, stream, start, end):
    """When ``stream`` may send again after a packet that was on the wire from ``start`` to ``end``;
    0 where DCQCN does not limit it."""
    c = state.dcqcn[stream]
    if not c.limited:
        return np.int64(0)
    line = net.buffer[sender_of(state, stream)].line_kbps
    catch_up(net, state, stream, line, start)
    octets = (end - start) * line // PS_KBPS
    c.octets += octets
    if c.limited and c.octets >= net.ethernet.byte_counter:
        c.octets -= net.ethernet.byte_counter
        c.byte_steps += 1
        increase(net, state, stream, line)
    return start + octets * PS_KBPS // c.rate_now if c.limited else np.int64(0)


@inner
def rate_limit(net, state, stream, start, end):
    """When ``stream`` may send again, 0 where nothing slows it: its static rate, and DCQCN's."""
    gap = static_rate(state, stream)
    t = start + (end - start) * gap // 1000 if gap else np.int64(0)
    return max(t, limited_until(net, state, stream, start, end))
