"""Hooks of congestion controls: points in the transport at which packets of a queue pair can be
limited, measured or spread. By default they do nothing, and are absent from the machine code. A
:class:`~softib.sim.packet.congestion_control.CongestionControl` has kernels that replace them.
The first group is implemented by a congestion control; the second is where the transport
measures round trips for it (:mod:`~softib.sim.packet.kernels.congestion.round_trips`).
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import WINDOW_PACKETS

LOST_PACKETS = 256
"""A packet that is still missing when one this far after it arrives counts as lost, not as late."""


@inner
def window(net, state, stream):
    """Return how many packets of ``stream`` may be unacknowledged; below 1 the next one
    waits for the acknowledgement of the last."""
    return np.float64(WINDOW_PACKETS)


@inner
def acknowledged(net, state, stream, packets, rtt, host, hops, marked, now):
    """Handle an acknowledgement of ``stream``: ``packets`` more have arrived in order (0: one arrived
    out of order). ``rtt``: round trip without the receiver's part (ps); ``host``: the receiver's part
    (ps); ``hops``: switches on the path; ``marked``: a switch marked a packet."""


@inner
def lost(net, state, stream, timeouts, now):
    """Handle a retransmission of packets of ``stream``: after ``timeouts`` ACK timeouts in a row, or
    (0) a NAK."""


@inner
def within_window(net, state, q):
    """Return whether ``q`` may have one more packet in flight."""
    return True


@inner
def packet_sent(net, state, q, k, start, end):
    """Packet ``k`` of the requests of ``q`` is on the wire from ``start`` to ``end``."""


@inner
def data_arrived(net, state, q, k, in_memory, now):
    """Data packet ``k`` of ``q`` has fully arrived at the receiver, and is in memory at
    ``in_memory``."""


@inner
def ack_leaves(net, state, port, q, now):
    """``port`` has queued an acknowledgement of ``q``."""


@inner
def ack_arrived(net, state, q, k, before, now):
    """Acknowledgement ``k`` of ``q`` has arrived; all packets below PSN ``before`` were
    acknowledged earlier. Returns the port to check, -1 for none."""
    return np.int64(-1)


@inner
def is_overdue(net, state, port, q, ahead, now):
    """Return whether the packet that ``q`` expects counts as lost when one arrives ``ahead`` of it."""
    return ahead >= LOST_PACKETS
