"""softib's congestion controls of RoCE. All are compiled together, with the columns of all of them; at each hook, the
settings of the run select one.

With ``measures``, windows follow from measured round trips (Swift, packet spraying); otherwise senders have rates
(DCQCN, and "none", which is DCQCN without marks). Packets are sprayed if receivers reorder (``placement``).
"""

import numpy as np

from softib.jit import inner
from softib.jit.rows import Rows, i8
from softib.sim.packet.kernels.congestion import hooks, swift
from softib.sim.packet.kernels.congestion.cct import backward, not_noticed, paced_until
from softib.sim.packet.kernels.congestion.dcqcn import DCQCN, limited_until, notification_point, reaction_point
from softib.sim.packet.kernels.congestion.fecn_becn import forward_notice, no_notice
from softib.sim.packet.kernels.congestion.packet_spraying import sprayed_path
from softib.sim.packet.kernels.congestion.round_trips import (
    echo,
    is_missing_long,
    measure,
    note_arrival,
    repeat_missing,
    stamp,
    within_measured_window,
)
from softib.sim.packet.kernels.ethernet.ecmp import chosen_path, hashed_path
from softib.sim.packet.kernels.transport.retransmission import go_back, go_back_n

SETTINGS = Rows(
    "Settings of the congestion control of a RoCE run: DCQCN's and Swift's.",
    i8("measures", "flag", "Acknowledgements measure round trips, and Swift's windows apply."),
    *DCQCN.columns,
    *swift.SWIFT.columns,
)
FLOW = Rows("Flows of the congestion control of a RoCE run: DCQCN's and Swift's.", *DCQCN.flow, *swift.SWIFT.flow)

swift_lost, swift_paced_until = swift.lost, swift.paced_until
LOST_PACKETS = hooks.LOST_PACKETS


@inner
def either_lost(net, state, stream, timeouts, now):
    """Replaces :func:`~softib.sim.packet.kernels.congestion.hooks.lost`."""
    if net.cc.measures:
        swift_lost(net, state, stream, timeouts, now)


@inner
def either_paced_until(net, state, stream, start, end):
    """Replaces :func:`~softib.sim.packet.kernels.congestion.cct.paced_until`."""
    if net.cc.measures:
        return swift_paced_until(net, state, stream, start, end)
    return limited_until(net, state, stream, start, end)


@inner
def either_notice(net, state, port, k):
    """Replaces :func:`~softib.sim.packet.kernels.congestion.fecn_becn.forward_notice`."""
    if net.cc.measures:
        return no_notice(net, state, port, k)
    return notification_point(net, state, port, k)


@inner
def either_noticed(net, state, port, stream, now):
    """Replaces :func:`~softib.sim.packet.kernels.congestion.cct.backward`."""
    if net.cc.measures:
        not_noticed(net, state, port, stream, now)
    else:
        reaction_point(net, state, port, stream, now)


@inner
def either_path(net, state, k, switch, paths):
    """Replaces :func:`~softib.sim.packet.kernels.ethernet.ecmp.chosen_path`."""
    if net.opt.placement:
        return sprayed_path(net, state, k, switch, paths)
    return hashed_path(net, state, k, switch, paths)


@inner
def either_within_window(net, state, q):
    """Replaces :func:`~softib.sim.packet.kernels.congestion.hooks.within_window`."""
    return not net.cc.measures or within_measured_window(net, state, q)


@inner
def either_packet_sent(net, state, q, k, start, end):
    """Replaces :func:`~softib.sim.packet.kernels.congestion.hooks.packet_sent`."""
    if net.cc.measures:
        stamp(net, state, q, k, start, end)


@inner
def either_data_arrived(net, state, q, k, in_memory, now):
    """Replaces :func:`~softib.sim.packet.kernels.congestion.hooks.data_arrived`."""
    if net.cc.measures:
        note_arrival(net, state, q, k, in_memory, now)


@inner
def either_ack_leaves(net, state, port, q, now):
    """Replaces :func:`~softib.sim.packet.kernels.congestion.hooks.ack_leaves`."""
    if net.cc.measures:
        echo(net, state, port, q, now)


@inner
def either_ack_arrived(net, state, q, k, before, now):
    """Replaces :func:`~softib.sim.packet.kernels.congestion.hooks.ack_arrived`."""
    if net.cc.measures:
        return measure(net, state, q, k, before, now)
    return np.int64(-1)


@inner
def either_overdue(net, state, port, q, ahead, now):
    """Replaces :func:`~softib.sim.packet.kernels.congestion.hooks.is_overdue`."""
    if net.opt.placement:
        return is_missing_long(net, state, port, q, ahead, now)
    return ahead >= LOST_PACKETS


@inner
def either_go_back(net, state, q, now):
    """Replaces :func:`~softib.sim.packet.kernels.transport.retransmission.go_back`."""
    if net.opt.placement:
        return repeat_missing(net, state, q, now)
    return go_back_n(net, state, q, now)


REPLACED = {
    hooks.window: swift.window,
    hooks.acknowledged: swift.acknowledged,
    hooks.lost: either_lost,
    hooks.within_window: either_within_window,
    hooks.packet_sent: either_packet_sent,
    hooks.data_arrived: either_data_arrived,
    hooks.ack_leaves: either_ack_leaves,
    hooks.ack_arrived: either_ack_arrived,
    hooks.is_overdue: either_overdue,
    paced_until: either_paced_until,
    forward_notice: either_notice,
    backward: either_noticed,
    chosen_path: either_path,
    go_back: either_go_back,
}
"""For each kernel of the transport, the kernel that is compiled in its place."""
