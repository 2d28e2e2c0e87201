"""Hooks of congestion controls: points in the transport at which packets of a queue pair can be
limited, measured or spread. By default the hooks do nothing and do not appear in the machine code.
A :class:`~softib.sim.packet.congestion_control.CongestionControl` has kernels that replace them. A
congestion control implements the hooks of the first group. At those of the second group, the transport measures round
trips for it (:mod:`~softib.sim.packet.kernels.congestion.round_trips`).
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import WINDOW_PACKETS

LOST_PACKETS = 256
"""A packet counts as lost, not late, if it is still missing when a packet this far after it arrives."""


@inner
def window(net, state, stream):
    """Return how many packets of ``stream`` may be unacknowledged. Below 1, the next packet waits
    for the acknowledgement of the last one."""
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
    """Return whether the packet that ``q`` expects counts as lost when a packet ``ahead`` of it arrives."""
    return ahead >= LOST_PACKETS
