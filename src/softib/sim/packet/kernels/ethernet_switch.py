# mypy: ignore-errors
"""Ethernet switches: one memory for all ports, a FIFO for each egress port and priority, drop-tail or priority flow control.

The priority of a frame is its service level (SL 0 to 7, as PCP or DSCP class). A frame is taken as a whole when its header is through the switch.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.ethernet_tables import (
    CUT_THROUGH,
    EGRESS,
    HEADROOM_DROPS,
    PEAK_EGRESS,
    PFC,
    QUEUE_AREA,
    QUEUE_MOST,
    QUEUE_SINCE,
    TAIL_DROPS,
)
from softib.sim.packet.kernels.discards import corrupted
from softib.sim.packet.kernels.ecmp import next_hop
from softib.sim.packet.kernels.ecn import mark_ecn
from softib.sim.packet.kernels.events import push, word
from softib.sim.packet.kernels.links import blocks_of, put_on_wire, wire_ps
from softib.sim.packet.kernels.pfc import came_in, dynamic_threshold, has_room, went_out
from softib.sim.packet.kernels.pools import free_packet
from softib.sim.packet.kernels.switch import take_first
from softib.sim.packet.tables import (
    ARRIVE,
    BASE,
    DELAY,
    END_PORT,
    ENTER,
    GAP,
    HEAD_SINCE,
    IN,
    INACTIVE,
    LEVEL,
    NEXT,
    NEXT_KIND,
    NEXT_LATENCY,
    OCTETS,
    OPT_VLS,
    PEER,
    Q_HEAD,
    Q_NEXT,
    Q_TAIL,
    QUEUED,
    RCV_ERRORS,
    RCV_OCTETS,
    RCV_PACKETS,
    READY,
    RECEIVE,
    RELAY_ERRORS,
    RING,
    TAIL,
    VL,
    VOQ,
)


@inner
def dropped(s, k, port, column):
    """Packet ``k`` is lost, and ``port`` counts it."""
    s.count[port, column] += 1
    free_packet(s, k)
    return np.int64(-1)


@inner
def arrive_ethernet(n, s, port, k, now):
    """The header of packet ``k``, which came in by ``port``, is through the switch. Returns the output port that it waits for, -1
    where there is none to look at."""
    octets = np.int64(s.packet[k, OCTETS])
    if corrupted(n, s, port, octets, now):
        return dropped(s, k, port, RCV_ERRORS)
    s.count[port, RCV_OCTETS] += octets
    s.count[port, RCV_PACKETS] += 1
    out = next_hop(n, s, k, port, now)
    if out == n.port[port, BASE]:  # for the switch itself
        push(s, max(s.when[k, TAIL], now), word(port, ENTER, k))
        return np.int64(-1)
    if out < 0 or out == port:
        return dropped(s, k, port, RELAY_ERRORS)
    if n.port[out, PEER] < 0:
        return dropped(s, k, out, INACTIVE)
    vl = np.int64(s.packet[k, LEVEL])
    row, into = out * n.opt[OPT_VLS] + vl, port * n.opt[OPT_VLS] + vl
    if n.ethernet[PFC]:
        if not has_room(n, s, port, vl, octets):
            s.queue[into, HEADROOM_DROPS] += 1
            free_packet(s, k)
            return np.int64(-1)
    elif s.queue[row, EGRESS] + octets > (n.buffer[out, QUEUE_MOST] or dynamic_threshold(n, s, out)):
        s.queue[row, TAIL_DROPS] += 1
        free_packet(s, k)
        return np.int64(-1)
    s.packet[k, IN] = port
    s.packet[k, VL] = vl
    queue_changes(n, s, out, row, octets, now)
    mark_ecn(n, s, k, out, row, now)
    came_in(n, s, port, vl, octets, now)
    return join_queue(n, s, k, out, vl, row, now)


@inner
def queue_changes(n, s, out, row, octets, now):
    """The egress queue of port VL ``row`` grows (or shrinks) by ``octets``."""
    s.queue[row, QUEUE_AREA] += (s.queue[row, EGRESS] * (now - s.queue[row, QUEUE_SINCE])) >> 10
    s.queue[row, QUEUE_SINCE] = now
    s.queue[row, EGRESS] += octets
    s.queue[n.port[out, BASE] * n.opt[OPT_VLS], EGRESS] += octets  # the whole switch
    s.queue[row, PEAK_EGRESS] = max(s.queue[row, PEAK_EGRESS], s.queue[row, EGRESS])


@inner
def join_queue(n, s, k, out, vl, row, now):
    """Put packet ``k`` at the end of the FIFO of ``out`` and ``vl``: the queue that InfiniBand has for input 0 (port 0)."""
    voq = n.port[out, VOQ] + vl
    s.packet[k, NEXT] = 0
    s.vl[row, QUEUED] += blocks_of(np.int64(s.packet[k, OCTETS]))
    if s.voq[voq, Q_HEAD]:
        s.packet[s.voq[voq, Q_TAIL], NEXT] = k
        s.voq[voq, Q_TAIL] = k
        return out
    s.voq[voq, Q_HEAD] = k
    s.voq[voq, Q_TAIL] = k
    s.voq[voq, Q_NEXT] = voq + 1
    s.vl[row, RING] = voq + 1
    s.ready[out, READY] |= np.int64(1) << vl
    s.vl_time[row, HEAD_SINCE] = now
    return out


@inner
def forward_ethernet(n, s, out, vl, row, voq, now):
    """Send the first packet of the queue. It may begin to leave before it has come in whole, but not faster than it comes in."""
    k = take_first(n, s, out, vl, row, voq, now)
    octets, came = np.int64(s.packet[k, OCTETS]), np.int64(s.packet[k, IN])
    start = max(now, s.when[k, TAIL] - wire_ps(n, out, octets + n.opt[GAP]))
    put_on_wire(n, s, out, row, k, start)
    queue_changes(n, s, out, row, -octets, now)
    went_out(n, s, came, vl, octets, now)
    s.packet[k, NEXT] = 0
    cross_ethernet(n, s, out, vl, k, start)
    return octets


@inner
def cross_ethernet(n, s, out, vl, k, start):
    """Packet ``k`` is on the cable of ``out``: at a switch its header matters (its last octet where switches store and forward), at an end
    port its last octet."""
    peer = n.port[out, PEER]
    s.packet[k, IN] = peer
    s.packet[k, VL] = vl
    if peer == out:  # port 0 of a switch sends into it
        push(s, start, word(peer, ARRIVE, k))
    elif n.port[out, NEXT_KIND] == END_PORT:
        push(s, s.when[k, TAIL], word(peer, RECEIVE, k))
    else:
        s.when[k, TAIL] += n.port[out, NEXT_LATENCY]
        t = start + n.port[out, DELAY] + n.port[out, NEXT_LATENCY] if n.ethernet[CUT_THROUGH] else s.when[k, TAIL]
        push(s, t, word(peer, ARRIVE, k))
