"""Ethernet switches: one memory for all ports, a FIFO for each egress port and priority, drop-tail
or priority flow control.

The priority of a frame is its service level (SL 0 to 7, as PCP or DSCP class). A switch accepts a
frame as a whole when its header has passed.

The clocks of switches and hosts deviate by up to 100 millionths (IEEE 802.3), so their frames follow each other
slightly faster or slower than at the nominal rate. As with real devices, the arrivals of a host's frames at a full
queue therefore drift slowly relative to the departures from it.
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
def dropped(state, k, port, reason):
    """Drop packet ``k`` for ``reason``, and count it at ``port``. Returns -1."""
    count_loss(state, port, reason)
    free_packet(state, k)
    return np.int64(-1)


@inner
def arrive_ethernet(net, state, port, k, now):
    """Handle packet ``k``, which entered through ``port`` and whose header has passed the switch.
    Returns the output port that it waits for, -1 if no port must be checked."""
    octets = np.int64(state.packet[k].octets)
    if corrupted(net, state, port, octets, now):
        return dropped(state, k, port, RCV_ERRORS)
    state.port[port].rcv_octets += octets
    state.port[port].rcv_packets += 1
    state.packet[k].out += 1
    out = next_hop(net, state, k, port, now)
    if out == net.port[port].port_0:  # the packet is for the switch itself
        push(state, max(state.packet[k].tail, now), word(port, ENTER, k))
        return np.int64(-1)
    if out < 0 or out == port:
        return dropped(state, k, port, RELAY_ERRORS)
    if net.port[out].peer < 0:
        return dropped(state, k, out, INACTIVE)
    vl = np.int64(state.packet[k].sl)
    row, into = out * net.opt.vls + vl, port * net.opt.vls + vl
    if net.ethernet.pfc:
        if not has_room(net, state, port, vl, octets):
            state.queue[into].headroom_drops += 1
            free_packet(state, k)
            return np.int64(-1)
    elif state.queue[row].egress + octets > (net.buffer[out].queue_most or dynamic_threshold(net, state, out)):
        state.queue[row].tail_drops += 1
        free_packet(state, k)
        return np.int64(-1)
    state.packet[k].came_in = port
    state.packet[k].vl = vl
    queue_changes(net, state, out, row, octets, now)
    mark_ecn(net, state, k, out, row, now)
    came_in(net, state, port, vl, octets, now)
    return join_queue(net, state, k, out, vl, row, now)


@inner
def queue_changes(net, state, out, row, octets, now):
    """Change the length of the egress queue of port VL ``row`` by ``octets``."""
    state.queue[row].queue_area += (state.queue[row].egress * (now - state.queue[row].queue_since)) >> 10
    state.queue[row].queue_since = now
    state.queue[row].egress += octets
    state.queue[net.port[out].port_0 * net.opt.vls].egress += octets  # port 0: sum over the switch
    state.queue[row].peak_egress = max(state.queue[row].peak_egress, state.queue[row].egress)


@inner
def join_queue(net, state, k, out, vl, row, now):
    """Put packet ``k`` at the end of the FIFO of ``out`` and ``vl``. The row of this FIFO is the virtual output queue
    that InfiniBand would use for packets from port 0."""
    voq = net.port[out].voq + vl
    state.packet[k].next = 0
    state.vl[row].queued += blocks_of(np.int64(state.packet[k].octets))
    if state.voq[voq].head:
        state.packet[state.voq[voq].tail].next = k
        state.voq[voq].tail = k
        return out
    state.voq[voq].head = k
    state.voq[voq].tail = k
    state.voq[voq].next = voq + 1
    state.vl[row].ring = voq + 1
    state.port[out].ready |= np.int64(1) << vl
    state.vl[row].head_since = now
    return out


@inner
def forward_ethernet(net, state, out, vl, row, voq, now):
    """Send the first packet of the queue. It may begin to leave before it has fully arrived, but
    not faster than it arrives."""
    k = take_first(net, state, out, vl, row, voq, now)
    octets, came = np.int64(state.packet[k].octets), np.int64(state.packet[k].came_in)
    start = max(now, state.packet[k].tail - wire_ps(net, out, octets + net.opt.gap))
    put_on_wire(net, state, out, row, k, start)
    queue_changes(net, state, out, row, -octets, now)
    went_out(net, state, came, vl, octets, now)
    state.packet[k].next = 0
    cross_ethernet(net, state, out, vl, k, start)
    return octets


@inner
def cross_ethernet(net, state, out, vl, k, start):
    """Schedule the arrival of packet ``k``, which is on the cable of ``out``: at a switch, that of its header (with
    store and forward, that of its last byte); at an end port, that of its last byte."""
    peer = net.port[out].peer
    clock_error(net, state, out, out * net.opt.vls + vl, np.int64(state.packet[k].octets))
    state.packet[k].came_in = peer
    state.packet[k].vl = vl
    if peer == out:  # port 0 of a switch sends into the switch
        push(state, start, word(peer, ARRIVE, k))
    elif net.port[out].next_kind == END_PORT:
        push(state, state.packet[k].tail, word(peer, RECEIVE, k))
    else:
        state.packet[k].tail += net.port[out].next_latency_ps
        t = (
            start + net.port[out].delay_ps + net.port[out].next_latency_ps
            if net.ethernet.cut_through
            else state.packet[k].tail
        )
        push(state, t, word(peer, ARRIVE, k))


@inner
def clock_error(net, state, out, row, octets):
    """Correct the time between a frame of ``octets`` bytes and the next one for the clock error of the sending
    device."""
    owed = (octets + net.opt.gap) * net.port[out].fs * net.buffer[out].clock_ppb // 1_000_000_000
    owed += state.queue[row].clock_fs
    state.queue[row].clock_fs = owed % 1000
    state.port[out].free_at += owed // 1000
