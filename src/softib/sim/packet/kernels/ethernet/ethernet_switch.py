# mypy: ignore-errors
"""Ethernet switches: one memory for all ports, a FIFO for each egress port and priority, drop-tail or priority flow control.

The priority of a frame is its service level (SL 0 to 7, as PCP or DSCP class). A frame is taken as a whole when its header is through the switch.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import (
    ARRIVE,
    END_PORT,
    ENTER,
    INACTIVE,
    RCV_ERRORS,
    RECEIVE,
    RELAY_ERRORS,
)
from softib.sim.packet.kernels.congestion.ecn import mark_ecn
from softib.sim.packet.kernels.engine.events import push, word
from softib.sim.packet.kernels.engine.pools import free_packet
from softib.sim.packet.kernels.ethernet.ecmp import next_hop
from softib.sim.packet.kernels.ethernet.pfc import came_in, dynamic_threshold, has_room, went_out
from softib.sim.packet.kernels.link.credits import blocks_of, put_on_wire, wire_ps
from softib.sim.packet.kernels.link.discards import corrupted, count_loss
from softib.sim.packet.kernels.switch.switch import take_first


@inner
def dropped(s, k, port, reason):
    """Packet ``k`` is lost for ``reason``, and ``port`` counts it. Returns -1."""
    count_loss(s, port, reason)
    free_packet(s, k)
    return np.int64(-1)


@inner
def arrive_ethernet(n, s, port, k, now):
    """The header of packet ``k``, which came in by ``port``, is through the switch. Returns the output port that it waits for, -1
    where there is none to look at."""
    octets = np.int64(s.packet[k].octets)
    if corrupted(n, s, port, octets, now):
        return dropped(s, k, port, RCV_ERRORS)
    s.port[port].rcv_octets += octets
    s.port[port].rcv_packets += 1
    out = next_hop(n, s, k, port, now)
    if out == n.port[port].port_0:  # for the switch itself
        push(s, max(s.packet[k].tail, now), word(port, ENTER, k))
        return np.int64(-1)
    if out < 0 or out == port:
        return dropped(s, k, port, RELAY_ERRORS)
    if n.port[out].peer < 0:
        return dropped(s, k, out, INACTIVE)
    vl = np.int64(s.packet[k].sl)
    row, into = out * n.opt.vls + vl, port * n.opt.vls + vl
    if n.ethernet.pfc:
        if not has_room(n, s, port, vl, octets):
            s.queue[into].headroom_drops += 1
            free_packet(s, k)
            return np.int64(-1)
    elif s.queue[row].egress + octets > (n.buffer[out].queue_most or dynamic_threshold(n, s, out)):
        s.queue[row].tail_drops += 1
        free_packet(s, k)
        return np.int64(-1)
    s.packet[k].came_in = port
    s.packet[k].vl = vl
    queue_changes(n, s, out, row, octets, now)
    mark_ecn(n, s, k, out, row, now)
    came_in(n, s, port, vl, octets, now)
    return join_queue(n, s, k, out, vl, row, now)


@inner
def queue_changes(n, s, out, row, octets, now):
    """The egress queue of port VL ``row`` grows (or shrinks) by ``octets``."""
    s.queue[row].queue_area += (s.queue[row].egress * (now - s.queue[row].queue_since)) >> 10
    s.queue[row].queue_since = now
    s.queue[row].egress += octets
    s.queue[n.port[out].port_0 * n.opt.vls].egress += octets  # the whole switch
    s.queue[row].peak_egress = max(s.queue[row].peak_egress, s.queue[row].egress)


@inner
def join_queue(n, s, k, out, vl, row, now):
    """Put packet ``k`` at the end of the FIFO of ``out`` and ``vl``: the queue that InfiniBand has for input 0 (port 0)."""
    voq = n.port[out].voq + vl
    s.packet[k].next = 0
    s.vl[row].queued += blocks_of(np.int64(s.packet[k].octets))
    if s.voq[voq].head:
        s.packet[s.voq[voq].tail].next = k
        s.voq[voq].tail = k
        return out
    s.voq[voq].head = k
    s.voq[voq].tail = k
    s.voq[voq].next = voq + 1
    s.vl[row].ring = voq + 1
    s.port[out].ready |= np.int64(1) << vl
    s.vl[row].head_since = now
    return out


@inner
def forward_ethernet(n, s, out, vl, row, voq, now):
    """Send the first packet of the queue. It may begin to leave before it has come in whole, but not faster than it comes in."""
    k = take_first(n, s, out, vl, row, voq, now)
    octets, came = np.int64(s.packet[k].octets), np.int64(s.packet[k].came_in)
    start = max(now, s.packet[k].tail - wire_ps(n, out, octets + n.opt.gap))
    put_on_wire(n, s, out, row, k, start)
    queue_changes(n, s, out, row, -octets, now)
    went_out(n, s, came, vl, octets, now)
    s.packet[k].next = 0
    cross_ethernet(n, s, out, vl, k, start)
    return octets


@inner
def cross_ethernet(n, s, out, vl, k, start):
    """Packet ``k`` is on the cable of ``out``: at a switch its header matters (its last octet where switches store and forward), at an end
    port its last octet."""
    peer = n.port[out].peer
    s.packet[k].came_in = peer
    s.packet[k].vl = vl
    if peer == out:  # port 0 of a switch sends into it
        push(s, start, word(peer, ARRIVE, k))
    elif n.port[out].next_kind == END_PORT:
        push(s, s.packet[k].tail, word(peer, RECEIVE, k))
    else:
        s.packet[k].tail += n.port[out].next_latency_ps
        t = start + n.port[out].delay_ps + n.port[out].next_latency_ps if n.ethernet.cut_through else s.packet[k].tail
        push(s, t, word(peer, ARRIVE, k))
