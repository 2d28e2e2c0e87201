"""Losses of TCP (RFC 6675, 8985). ``State.segment`` has a value for each segment, beginning with
the first that is not acknowledged: the time when it was last sent, LOST, or SACKED (acknowledged selectively).

* Segments in the network are those that were sent and are neither lost nor acknowledged selectively (RFC 6675, pipe).
* A segment that was sent before one that arrived is lost: at once if three arrived or during a
  recovery, otherwise after a quarter of the shortest round trip (RFC 8985, 6.2). A loss halves window and threshold.
  Further losses do not halve them again until everything sent before the first loss has arrived (RFC 6675, 5).
* After two round trips without an acknowledgement, a segment is sent to provoke one: a new segment, or if there is
  none, the last one again (RFC 8985, 7).
* When the RTO expires, everything in flight counts as lost: the window becomes one segment, and the
  RTO is doubled (RFC 6298, 5.4 to 5.7).

If a lone segment is in flight, the probe also waits for the delay of an acknowledgement. An
acknowledgement names one block of segments: the block that contains the last segment to arrive.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import TIMER
from softib.sim.packet.kernels.engine.events import push_timer, word

ONE = 1000
"""One segment in the unit of the window (thousandths of a segment)."""
DUPLICATES = 3
"""A segment is lost if this number of segments beyond it have arrived (DupThresh)."""
LOST, SACKED = 0, -1
"""Values of ``State.segment`` that are not times."""
RTO, PROBE, REORDERED = 0, 1, 2
"""Purpose of a connection's timer."""


@inner
def slot(connection, psn):
    """Return the row of segment ``psn`` in ``State.segment``."""
    return connection.first_slot + (psn & connection.slots)


@inner
def in_network(state, q):
    """Return the number of segments in the network: sent, but neither acknowledged nor lost."""
    return state.qp[q].next_psn - state.rc[q].acked - state.tcp[q].sacked - state.tcp[q].lost


@inner
def next_lost(state, q, psn):
    """Return the first lost segment from ``psn`` on, plus 1; 0: none."""
    if state.tcp[q].lost == 0:
        return np.int64(0)
    while psn < state.qp[q].next_psn and state.segment[slot(state.tcp[q], psn)] != LOST:
        psn += 1
    return psn + 1 if psn < state.qp[q].next_psn else np.int64(0)


@inner
def selective(state, q, k, upto, now):
    """Record the segments that acknowledgement ``k`` adds. Returns whether any segment beyond
    ``upto`` has arrived."""
    connection, before = state.tcp[q], state.rc[q].acked
    latest = np.int64(0)
    if connection.sacked == 0 and connection.lost == 0:
        if upto > before:
            latest = state.segment[slot(connection, upto - 1)]
    else:
        for psn in range(before, upto):
            at = slot(connection, psn)
            latest = max(latest, state.segment[at])
            if state.segment[at] == SACKED:
                connection.sacked -= 1
            elif state.segment[at] == LOST:
                connection.lost -= 1
    block = np.int64(state.packet[k].behind)
    begin = upto + (block >> 16)
    for psn in range(begin, begin + (block & 0xFFFF)):
        at = slot(connection, psn)
        if state.segment[at] != SACKED:
            latest = max(latest, state.segment[at])
            if state.segment[at] == LOST:
                connection.lost -= 1
            state.segment[at] = SACKED
            connection.sacked += 1
    resent = connection.retransmit - 1
    if resent >= 0 and (resent < upto or state.segment[slot(connection, resent)] == SACKED):
        connection.retransmit = next_lost(state, q, max(upto, resent))
        connection.forced = 0
    if latest > connection.delivered:
        connection.delivered = latest
        connection.delivered_rtt = now + 1 - latest
    return connection.sacked > 0


@inner
def recovered(connection, upto):
    """Handle the arrival of everything below ``upto``: end the recovery or the probe that waited for it. If only the
    probe replaced a lost segment, halve the window, as for any loss (RFC 8985, 7.4)."""
    if connection.recover and upto + 1 >= connection.recover:
        connection.recover = 0
        connection.timed_out = 0
    if connection.probe and upto + 1 >= connection.probe:
        if connection.probe_resent and upto + 1 > connection.probe and connection.recover == 0:
            connection.threshold = max(connection.window // 2, np.int64(2 * ONE))
            connection.window = connection.threshold
        connection.probe = 0


@inner
def detect(net, state, q, now):
    """Mark as lost the segments that were sent before one that arrived. Returns when the next
    decision is due, 0 for never."""
    connection, acked = state.tcp[q], state.rc[q].acked
    wait = connection.delivered_rtt
    if connection.recover == 0 and connection.sacked < DUPLICATES:
        wait += connection.least_rtt // 4
    due, lost = np.int64(0), connection.lost
    for psn in range(acked, state.qp[q].next_psn):
        at = slot(connection, psn)
        sent = state.segment[at]
        if sent <= LOST or sent >= connection.delivered:  # not a time, or not sent earlier
            continue
        if sent - 1 + wait <= now:
            state.segment[at] = LOST
            connection.lost += 1
        else:
            due = max(due, sent - 1 + wait)
    if connection.lost > lost:
        connection.retransmit = next_lost(state, q, acked)
        if connection.recover == 0:
            connection.threshold = max(
                min((state.qp[q].next_psn - acked) * ONE, connection.window) // 2, np.int64(2 * ONE)
            )
            connection.window = connection.threshold
            connection.recover = state.qp[q].next_psn + 1
            connection.probe = 0
            connection.forced = 1
    return due


@inner
def set_timer(state, q, at, timer):
    """Set the timer of ``q`` to expire at ``at`` (0: stop it)."""
    state.tcp[q].rto_at = at
    state.tcp[q].timer = timer
    if at and (state.rc[q].timed == 0 or at + 1 < state.rc[q].timed):
        state.rc[q].timed = at + 1
        push_timer(state, at, word(state.qp[q].src, TIMER, q))


@inner
def start_timer(net, state, q, now):
    """Start the timer for the segments that ``q`` has in flight: for a probe, if none is in flight
    and nothing is known to be missing (RFC 8985, 7.2), otherwise the RTO."""
    connection = state.tcp[q]
    flight = state.qp[q].next_psn - state.rc[q].acked
    if flight == 0:
        set_timer(state, q, np.int64(0), RTO)
        return
    after, timer = connection.rto, RTO
    if connection.srtt and connection.recover == 0 and connection.sacked == 0 and connection.probe == 0:
        quiet = 2 * connection.srtt
        if flight == 1:
            quiet += net.ethernet.delayed_ack_ps
        if quiet < after:
            after, timer = quiet, PROBE
    set_timer(state, q, now + after, timer)


@inner
def probe(net, state, q, now):
    """Send a segment to provoke an acknowledgement: a new one, or else the last again (RFC 8985,
    7.3)."""
    connection, at = state.tcp[q], state.qp[q].current_message
    ready = at < state.qp[q].end_message and state.message[state.order[at]].posted != 0
    connection.probe_resent = 0
    if not ready or state.qp[q].next_psn - state.rc[q].acked >= net.ethernet.window_most:
        connection.probe_resent = 1
        connection.retransmit = state.qp[q].next_psn
    connection.forced = 1
    connection.probe = state.qp[q].next_psn + 1
    start_timer(net, state, q, now)


@inner
def all_lost(net, state, q):
    """Handle an expired RTO: everything in flight counts as lost (RFC 6298, 5.4 to 5.7)."""
    connection, acked, end = state.tcp[q], state.rc[q].acked, state.qp[q].next_psn
    connection.timeouts += 1
    if connection.timed_out == 0:
        connection.threshold = max((end - acked) * ONE // 2, np.int64(2 * ONE))
    connection.window = ONE
    connection.rto = min(2 * connection.rto, net.ethernet.rto_max_ps)
    connection.lost = 0
    for psn in range(acked, end):
        if state.segment[slot(connection, psn)] != SACKED:
            state.segment[slot(connection, psn)] = LOST
            connection.lost += 1
    connection.retransmit = next_lost(state, q, acked)
    connection.recover = end + 1
    connection.timed_out = 1
    connection.probe = 0
    connection.forced = 0
    connection.rto_at = 0  # the timer starts with the segment sent now
