"""Losses of packets and their counters: bit errors, no route (IBA 16.1.3.5, chapter 18)."""

import math

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import BAD, INACTIVE, RCV_ERRORS, RELAY_ERRORS, SMP
from softib.sim.packet.kernels.engine.packet_log import log_lost
from softib.sim.packet.kernels.engine.pools import free_packet
from softib.sim.packet.kernels.engine.rng import draw
from softib.sim.packet.kernels.link.credits import dropped_from_buffer, grant


@inner
def corrupted(net, state, port, octets, now):
    """Return whether a packet received at ``port`` has a bit error. The probability is 1 - exp(-(a
    + b L)) for L bytes, where a and b belong to the port."""
    a, b = net.loss[port].packet, net.loss[port].byte
    if a == 0.0 and b == 0.0:
        return False
    return draw(state, port, now) < -math.expm1(-(a + b * octets))


@inner
def count_loss(state, port, reason):
    """Count a packet lost at ``port`` for ``reason``."""
    if reason == RCV_ERRORS:
        state.port[port].rcv_errors += 1
    elif reason == RELAY_ERRORS:
        state.port[port].relay_errors += 1
    elif reason == INACTIVE:
        state.port[port].inactive += 1
    else:
        state.port[port].too_long += 1


@inner
def discard(net, state, k, port, reason, now):
    """Drop packet ``k`` for ``reason``, and count it at ``port``. Returns -1."""
    count_loss(state, port, reason)
    return drop(net, state, k, port, reason, now)


@inner
def drop(net, state, k, port, reason, now):
    """Drop packet ``k`` at ``port`` for ``reason``, with the MAD that it may carry. Its buffer space becomes free when
    it has fully arrived. Returns -1."""
    if net.watch_port.shape[0]:
        log_lost(net, state, port, k, reason, now)
    came_in = state.packet[k].came_in
    free_at = dropped_from_buffer(net, state, came_in, state.packet[k].tail, now)
    grant(net, state, came_in, state.packet[k].vl, state.packet[k].octets, free_at)
    lose(state, k)
    return np.int64(-1)


@inner
def lose_mad(state, k):
    """Free packet ``k``, which carries a MAD, and the MAD's row."""
    row = np.int64(state.packet[k].psn)
    state.mad_row[row].next = state.mads.free
    state.mads.free = row
    state.mads.spare += 1
    state.mads.lost += 1
    free_packet(state, k)


@inner
def lose(state, k):
    """Free packet ``k``, and the MAD that it may carry."""
    if state.packet[k].kind >= SMP:
        lose_mad(state, k)
    else:
        free_packet(state, k)


@inner
def check(net, state, port, k, now):
    """Check packet ``k``, which arrived at ``port``: count it if it is marked as bad or was damaged
    on the last link."""
    if state.packet[k].marks & BAD:
        state.rare_count[port].remote_errors += 1
    elif corrupted(net, state, port, state.packet[k].octets, now):
        state.packet[k].marks |= BAD
        state.port[port].rcv_errors += 1


@inner
def known_bad(state, k, now):
    """Return whether packet ``k``, which waits in a switch, has fully arrived and is bad."""
    return state.packet[k].marks & BAD != 0 and state.packet[k].tail <= now


@inner
def refuse(net, state, port, k, now):
    """Drop packet ``k``, fully arrived at end port ``port`` and bad: its buffer is free. Returns -1."""
    if state.packet[k].came_in == port:  # port 0 of a switch: the ingress port has counted it
        state.port[port].rcv_octets += state.packet[k].octets
        state.port[port].rcv_packets += 1
    return drop(net, state, k, port, RCV_ERRORS, now)
