"""Hooks of congestion controls: functions that the transport calls to limit, measure or spread the packets of a queue
pair. By default they do nothing, and are not in the machine code. A
:class:`~softib.sim.packet.congestion_control.CongestionControl` replaces the first three (:func:`window`,
:func:`acknowledged`, :func:`lost`). softib replaces the others for congestion controls that need round trips
(:mod:`~softib.sim.packet.kernels.congestion.round_trips`).
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import WINDOW_PACKETS

LOST_PACKETS = 256
"""A missing packet counts as lost when a packet arrives whose PSN is at least this much larger."""


@inner
def window(net, state, stream):
    """Return the number of packets of ``stream`` that may be unacknowledged. Below 1, the next packet waits for the
    acknowledgement of the last one."""
    return np.float64(WINDOW_PACKETS)


@inner
def acknowledged(net, state, stream, packets, rtt, host, hops, marked, now):
    """Handle an acknowledgement of ``stream``: ``packets`` further packets have arrived in order
    (0: one arrived out of order). ``rtt``: round trip without the receiver's part (ps); ``host``:
    the receiver's part (ps); ``hops``: switches on the path; ``marked``: a switch marked a
    packet."""


@inner
def lost(net, state, stream, timeouts, now):
    """Handle a retransmission of packets of ``stream``: after ``timeouts`` consecutive ACK
    timeouts, or after a NAK (``timeouts`` is 0)."""


@inner
def within_window(net, state, q):
    """Return whether ``q`` may have one more packet in flight."""
    return True


@inner
def packet_sent(net, state, q, k, start, end):
    """Handle the departure of request packet ``k`` of ``q``, which is on the wire from ``start`` to ``end``."""


@inner
def data_arrived(net, state, q, k, in_memory, now):
    """Handle the complete arrival of data packet ``k`` of ``q`` at the receiver; the packet is in memory at
    ``in_memory``."""


@inner
def ack_leaves(net, state, port, q, now):
    """Handle an acknowledgement of ``q`` that ``port`` has queued."""


@inner
def ack_arrived(net, state, q, k, before, now):
    """Handle the arrival of acknowledgement ``k`` of ``q``; all packets below PSN ``before`` were acknowledged earlier.
    Return the port to check, -1 for none."""
    return np.int64(-1)


@inner
def is_overdue(net, state, port, q, ahead, now):
    """Return whether the packet that ``q`` expects counts as lost now that the packet ``ahead`` positions after it has
    arrived."""
    return ahead >= LOST_PACKETS
