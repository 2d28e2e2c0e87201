"""Round trips: acknowledgements that return four measurements to the sender: the round trip of a packet, the part of it
spent in the receiver, the number of switches on the path, and marks. Also receivers that accept packets in any order.

A data packet carries the time at which it began to leave. Its acknowledgement echoes that time,
shifted by the receiver's delay, and also carries that delay (like the timestamps of Swift, SIGCOMM
2020, section 3.4). Each switch increments the hop count of a packet (its TTL). Marks are returned
as ECN echo.

If packets take different paths, a packet that arrives before earlier ones is placed and
acknowledged at once. A packet that has been missing for ``reorder_us`` counts as lost, and only
that packet is resent. An acknowledgement that then stops at another missing packet requests that
one (like partial acknowledgements, RFC 6582). A queue pair has at most as many packets in flight as
bits in the receiver's bitmap.
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
    """Return whether ``q`` may have one more packet in flight. Unreliable services have no
    acknowledgements, and READs have a separate limit."""
    if state.qp[q].service != RC or state.message[state.order[state.qp[q].current_message]].opcode >= READ_OP:
        return True
    most = window(net, state, 2 * q)
    if net.opt.placement:
        most = min(most, np.float64(WINDOW_PACKETS))
    return state.qp[q].next_psn - state.rc[q].acked < max(most, 1.0)


@inner
def stamp(net, state, q, k, start, end):
    """Store in packet ``k`` of ``q`` the time at which it begins to leave. If this packet is a resent one, continue the
    requests at the previous position."""
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
    """Store the values of packet ``k`` that the next acknowledgement of ``q`` reports."""
    trip = state.round_trip[q]
    trip.stamp = state.packet[k].entered + 1
    trip.came = now
    trip.written = in_memory
    if state.packet[k].marks & FECN:
        trip.marked = 1


@inner
def echo(net, state, port, q, now):
    """Write the stored values into the acknowledgement of ``q`` that ``port`` has just queued."""
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
    """Handle acknowledgement ``k`` of ``q``. Returns the port to check, -1 for none."""
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
    """Set the next packet of ``q`` to the first unacknowledged one; later packets have arrived or are in flight."""
    trip = state.round_trip[q]
    trip.resume = state.qp[q].next_psn
    skip_to(state, q, state.rc[q].acked)
    state.resent[state.order[state.qp[q].current_message]] += 1


@inner
def repeat_missing(net, state, q, now):
    """Resend only the first unacknowledged packet (instead of go-back-N). Returns the port to check."""
    if state.rc[q].acked < state.qp[q].next_psn:
        state.round_trip[q].recover = state.qp[q].next_psn
        lost(net, state, 2 * q, state.rc[q].tries, now)
        repeat_first(state, q)
        state.rc[q].reads_out = max(state.rc[q].reads_out - 1, 0)
    state.rc[q].progress = now
    return activate(net, state, q, now)


@inner
def is_missing_long(net, state, port, q, ahead, now):
    """Return whether the packet that ``q`` expects counts as lost now that the packet ``ahead`` positions after it has
    arrived and is acknowledged."""
    trip = state.round_trip[q]
    expected = state.rc[q].expected
    if trip.hole != expected + 1:
        trip.hole = expected + 1
        trip.hole_since = now
    state.rc[q].unacked = 1
    push(state, now + net.opt.ack_delay_ps, word(port, ANSWER, q))
    return now - trip.hole_since > net.ethernet.reorder_ps
