"""Hooks of congestion controls: points in the transport at which packets of a queue pair can be
limited, measured or spread. By default they do nothing, and are absent from the machine code. A
:class:`~softib.sim.packet.congestion_control.CongestionControl` names kernels that take their
place. The first group is what a congestion control states; the second is where the transport
measures round trips for it (:mod:`~softib.sim.packet.kernels.congestion.round_trips`).
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import WINDOW_PACKETS

LOST_PACKETS = 256
"""A packet that is missing when one this far behind it arrives counts as lost, not as late."""


@inner
def window(net, state, stream):
    """Packets of ``stream`` that may be unacknowledged; below 1 the next one waits for the
    acknowledgement of the last."""
    return np.float64(WINDOW_PACKETS)


@inner
def acknowledged(net, state, stream, packets, rtt, host, hops, marked, now):
    """An acknowledgement of ``stream`` came back: ``packets`` more have arrived in order (0: one
    came out of order). ``rtt``: its round trip without the receiver's part (ps); ``host``: what the
    receiver took (ps); ``hops``: switches on its way; ``marked``: a switch marked a packet."""


@inner
def lost(net, state, stream, timeouts, now):
    """Packets of ``stream`` are sent again: after ``timeouts`` ACK timeouts in a row, or (0) a NAK."""


@inner
def within_window(net, state, q):
    """May ``q`` have one more packet under way?"""
    return True


@inner
def packet_sent(net, state, q, k, start, end):
    """Packet ``k`` of the requests of ``q`` is on the wire from ``start`` to ``end``."""


@inner
def data_arrived(net, state, q, k, in_memory, now):
    """Data packet ``k`` of ``q`` is whole at the receiver, and in memory at ``in_memory``."""


@inner
def ack_leaves(net, state, port, q, now):
    """``port`` has queued an acknowledgement of ``q``."""


@inner
def ack_arrived(net, state, q, k, before, now):
    """Acknowledgement ``k`` of ``q`` came back; ``before`` it, all packets below that PSN were
    acknowledged. Returns the port to look at, -1 for none."""
    return np.int64(-1)


@inner
def is_overdue(net, state, port, q, ahead, now):
    """A packet came ``ahead`` of the one that ``q`` expects: does that one count as lost?"""
    return ahead >= LOST_PACKETS
