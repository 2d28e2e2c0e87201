"""Acknowledgements that measure: the round trip of a packet, the receiver's part of it, switches on
the way, and marks. And receivers that take packets in any order.

A data packet carries the time at which it began to leave. Its acknowledgement echoes that time, moved
by what the receiver took, and how long the receiver took (as the timestamps of Swift, SIGCOMM 2020,
section 3.4). Each switch counts up the hops of a packet (its TTL). Marks come back as ECN echo.

Where packets take different paths, one that comes ahead of others is placed and acknowledged at once.
One that is missing for ``reorder_us`` counts as lost, and is the only one that is sent again; an
acknowledgement that then stops at another hole asks for that one (as partial acknowledgements, RFC
6582). A queue pair has at most as many packets under way as the receiver's bitmap has bits.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import ANSWER, ECN_ECHO, FECN, WINDOW_PACKETS
from softib.sim.packet.kernels.congestion.cct import waits_until
from softib.sim.packet.kernels.congestion.hooks import acknowledged, lost, window
from softib.sim.packet.kernels.engine.events import push, word
from softib.sim.packet.kernels.hca.hca import activate, not_before
from softib.sim.packet.kernels.hca.messages import RC, READ_OP
from softib.sim.packet.kernels.transport.retransmission import skip_to, step_out

LONGEST_NS = (1 << 31) - 1


@inner
def within_measured_window(net, state, q):
    """May ``q`` have one more packet under way? Unreliable services have no acknowledgements, and READs
    a limit of their own."""
    if state.qp[q].service != RC or state.message[state.order[state.qp[q].current_message]].opcode >= READ_OP:
        return True
    most = window(net, state, 2 * q)
    if net.opt.placement:
        most = min(most, np.float64(WINDOW_PACKETS))
    return state.qp[q].next_psn - state.rc[q].acked < max(most, 1.0)


@inner
def stamp(net, state, q, k, start, end):
    """Packet ``k`` of ``q`` carries the time at which it begins to leave. After a missing packet was
    sent again, the requests go on where they were."""
    trip = state.round_trip[q]
    state.packet[k].entered = start
    state.packet[k].out = 0
    trip.sent = start
    trip.left = end
    if trip.resume:
        if trip.resume > state.qp[q].next_psn:
            skip_to(state, q, trip.resume)
        trip.resume = 0


@inner
def note_arrival(net, state, q, k, in_memory, now):
    """What the next acknowledgement of ``q`` says of packet ``k``."""
    trip = state.round_trip[q]
    trip.stamp = state.packet[k].entered + 1
    trip.came = now
    trip.written = in_memory
    if state.packet[k].marks & FECN:
        trip.marked = 1


@inner
def echo(net, state, port, q, now):
    """The acknowledgement of ``q`` that ``port`` has just queued says what was noted."""
    trip = state.round_trip[q]
    k = state.vl_more[port * net.opt.vls + state.qp[q].back_vl].last_control
    state.packet[k].entered = -1
    state.packet[k].out = 0
    if trip.stamp:
        state.packet[k].entered = trip.stamp - 1 + now - trip.came
        state.packet[k].behind = min((max(trip.written, now) - trip.came) // 1000, np.int64(LONGEST_NS))
        if trip.marked:
            state.packet[k].marks |= ECN_ECHO
        trip.stamp = 0
        trip.marked = 0


@inner
def measure(net, state, q, k, before, now):
    """Acknowledgement ``k`` of ``q`` came back. Returns the port to look at, -1 for none."""
    trip = state.round_trip[q]
    acked, sent = state.rc[q].acked, state.packet[k].entered
    packets = max(acked - before, np.int64(0))
    if sent >= 0:
        host, hops = np.int64(state.packet[k].behind) * 1000, np.int64(state.packet[k].out)
        marked = state.packet[k].marks & ECN_ECHO != 0
        acknowledged(net, state, 2 * q, packets, now - sent, host, hops, marked, now)
    if packets and trip.resume:
        skip_to(state, q, max(trip.resume, acked))
        trip.resume = 0
    if packets and acked < trip.recover:
        repeat_first(state, q)
    if state.rc[q].rnr_tries == 0:
        state.qp[q].not_before = waits_until(net, state, 2 * q, trip.sent, trip.left)
    if state.qp[q].in_ring and not 0 <= not_before(net, state, q) <= now:
        step_out(net, state, q)
    return activate(net, state, q, now)


@inner
def repeat_first(state, q):
    """The next packet of ``q`` is the first that is not acknowledged; those after it have come, or
    are on their way."""
    trip = state.round_trip[q]
    trip.resume = state.qp[q].next_psn
    skip_to(state, q, state.rc[q].acked)
    state.resent[state.order[state.qp[q].current_message]] += 1


@inner
def repeat_missing(net, state, q, now):
    """Send the first packet again that is not acknowledged (takes the place of going back to it).
    Returns the port to look at."""
    if state.rc[q].acked < state.qp[q].next_psn:
        state.round_trip[q].recover = state.qp[q].next_psn
        lost(net, state, 2 * q, state.rc[q].tries, now)
        repeat_first(state, q)
        state.rc[q].reads_out = max(state.rc[q].reads_out - 1, 0)
    state.rc[q].progress = now
    return activate(net, state, q, now)


@inner
def is_missing_long(net, state, port, q, ahead, now):
    """A packet came ``ahead`` of the one that ``q`` expects, and is acknowledged: does that one count
    as lost?"""
    trip = state.round_trip[q]
    expected = state.rc[q].expected
    if trip.hole != expected + 1:
        trip.hole = expected + 1
        trip.hole_since = now
    state.rc[q].unacked = 1
    push(state, now + net.opt.ack_delay_ps, word(port, ANSWER, q))
    return now - trip.hole_since > net.ethernet.reorder_ps
