# mypy: ignore-errors
"""DCQCN (Zhu et al., SIGCOMM 2015): rate control of RoCEv2 queue pairs by ECN.

Notification point: a receiver answers marked packets of a flow with a CNP, at most one every CNP interval. Reaction point: a CNP cuts the rate
by alpha / 2 and raises alpha; without CNPs alpha falls, timer and byte counter raise the rate: halfway back to the target (fast
recovery), then the target by R_AI (additive), then by R_HAI (hyper increase). The sender counts what was due when it sends next or a
CNP comes: the rate in between moves no packet.

A flow is a queue pair's requests. Answers to READs are marked and counted but not slowed.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.ethernet_tables import (
    ALPHA,
    ALPHA_AT,
    ALPHA_PS,
    BYTE_COUNTER,
    BYTE_STEPS,
    BYTES,
    CNP_PS,
    CNP_SENT,
    CNPS,
    FAST_RECOVERY,
    GAIN,
    LIMITED,
    LINE_KBPS,
    MILLION,
    RATE_AI,
    RATE_AT,
    RATE_HAI,
    RATE_MIN,
    RATE_NOW,
    RATE_PS,
    RATE_TARGET,
    TIME_STEPS,
)
from softib.sim.packet.kernels.control import control
from softib.sim.packet.tables import (
    BACK_LID,
    BACK_VL,
    CNP,
    LAST_CONTROL,
    NOT_BEFORE,
    NOW,
    OCTETS,
    OPT_VLS,
    PS_PACKET,
    QP,
    RCV_BECN,
    RCV_FECN,
    SRC,
)

CNP_OCTETS = 78
"""Ethernet 14 and FCS 4, IPv4 20, UDP 8, BTH 12, 16 reserved, ICRC 4 (IBA annex A17.9.3)."""
PS_KBPS = 8_000_000_000
"""Octets * this / rate in kb/s are ps."""


@inner
def notification_point(n, s, port, k):
    """A marked packet arrived at ``port``. Returns the port to look at, -1 where no CNP is due."""
    s.count[port, RCV_FECN] += 1
    stream, now = np.int64(s.packet[k, QP]), s.reg[NOW]
    q = stream >> 1
    last = s.connection[q, CNP_SENT]
    if stream & 1 or (last and now + 1 - last < n.ethernet[CNP_PS]):
        return np.int64(-1)
    s.connection[q, CNP_SENT] = now + 1
    control(n, s, port, stream, CNP, np.int64(0), s.qp[q, BACK_LID], s.qp[q, BACK_VL])
    s.packet[s.more[port * n.opt[OPT_VLS] + s.qp[q, BACK_VL], LAST_CONTROL], OCTETS] = CNP_OCTETS
    return port


@inner
def increase(n, s, q, line):
    """A step of timer or byte counter: the rate rises."""
    c = s.connection[q]
    most, least = max(c[TIME_STEPS], c[BYTE_STEPS]), min(c[TIME_STEPS], c[BYTE_STEPS])
    if least > n.ethernet[FAST_RECOVERY]:
        c[RATE_TARGET] = min(c[RATE_TARGET] + n.ethernet[RATE_HAI], line)
    elif most >= n.ethernet[FAST_RECOVERY]:
        c[RATE_TARGET] = min(c[RATE_TARGET] + n.ethernet[RATE_AI], line)
    c[RATE_NOW] = (c[RATE_NOW] + c[RATE_TARGET] + 1) >> 1
    if c[RATE_NOW] >= line:
        c[LIMITED] = 0


@inner
def catch_up(n, s, q, line, now):
    """What timers did to queue pair ``q`` until ``now``."""
    c = s.connection[q]
    while c[ALPHA] > 0 and c[ALPHA_AT] <= now:
        c[ALPHA] -= (c[ALPHA] * n.ethernet[GAIN] + MILLION - 1) // MILLION
        c[ALPHA_AT] += n.ethernet[ALPHA_PS]
    while c[LIMITED] and c[RATE_AT] <= now:
        c[TIME_STEPS] += 1
        c[RATE_AT] += n.ethernet[RATE_PS]
        increase(n, s, q, line)


@inner
def reaction_point(n, s, port, stream, now):
    """A CNP arrived at ``port`` for the flow ``stream``: the rate falls."""
    s.count[port, RCV_BECN] += 1
    q = stream >> 1
    c, line = s.connection[q], n.buffer[port, LINE_KBPS]
    c[CNPS] += 1
    if c[CNPS] == 1:
        c[ALPHA] = MILLION
        c[RATE_NOW] = line
    else:
        catch_up(n, s, q, line, now)
    if not c[LIMITED]:
        c[RATE_NOW] = line
    c[LIMITED] = 1
    c[RATE_TARGET] = c[RATE_NOW]
    c[RATE_NOW] = max(c[RATE_NOW] - c[RATE_NOW] * c[ALPHA] // (2 * MILLION), n.ethernet[RATE_MIN])
    c[ALPHA] += (MILLION - c[ALPHA]) * n.ethernet[GAIN] // MILLION
    c[ALPHA_AT] = now + n.ethernet[ALPHA_PS]
    c[RATE_AT] = now + n.ethernet[RATE_PS]
    c[BYTES] = 0
    c[BYTE_STEPS] = 0
    c[TIME_STEPS] = 0


@inner
def rate_limit(n, s, q, start, end):
    """When ``q`` may send again after a packet that was on the wire from ``start`` to ``end``: its static rate, and DCQCN's."""
    gap = s.qp[q, PS_PACKET]
    if gap:
        s.qp[q, NOT_BEFORE] = start + (end - start) * gap // 1000
    c = s.connection[q]
    if not c[LIMITED]:
        return
    line = n.buffer[s.qp[q, SRC], LINE_KBPS]
    catch_up(n, s, q, line, start)
    octets = (end - start) * line // PS_KBPS
    c[BYTES] += octets
    if c[LIMITED] and c[BYTES] >= n.ethernet[BYTE_COUNTER]:
        c[BYTES] -= n.ethernet[BYTE_COUNTER]
        c[BYTE_STEPS] += 1
        increase(n, s, q, line)
    if c[LIMITED]:
        s.qp[q, NOT_BEFORE] = max(s.qp[q, NOT_BEFORE], start + octets * PS_KBPS // c[RATE_NOW])
