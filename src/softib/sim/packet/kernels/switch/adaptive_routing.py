"""Adaptive routing: among the ports of a LID's group, a switch uses the one with the shortest queue.

The manager's tables give each LID a state and a group (:mod:`softib.iba.vendor.ar`). FREE: the switch chooses for each
packet. BOUNDED: a flow keeps its port until it pauses for the ageing time. STATIC, or an empty group: only the
forwarding table is used. Ties are broken by a hash of the packet, so that packets spread over the ports.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import BOUND_SLOTS
from softib.sim.packet.kernels.link.credits import has_credit

BOUNDED, FREE, STATIC = 0, 1, 2
STATE_SHIFT, GROUP_MASK = 14, 0x0FFF
BLOCK = 64
REPAIR = 20
"""Bit of ``ar_on``: a port that is down is replaced by another one of the LID's group."""
NO_CREDIT = 1 << 30
"""Penalty in bytes for a port without credits: it is chosen only if all others lack credits too."""


@inner
def backlog(net, state, port, row, octets, now):
    """Return the number of bytes ahead of a new packet at ``port``, queued or on the wire."""
    ahead = state.vl[row].queued * BLOCK
    busy = state.port[port].free_at - now
    if busy > 0:
        ahead += busy * 1000 // net.port[port].fs
    if not has_credit(state, row, octets):
        ahead += NO_CREDIT
    return ahead


@inner
def least(net, state, k, base, group, vl, now):
    """Return the portnum of ``group`` with the smallest backlog, -1 if none of its links is up."""
    octets, vls = np.int64(state.packet[k].octets), net.opt.vls
    begin = (np.int64(state.packet[k].stream) * 7919 + state.packet[k].psn) & 0xFF
    best, best_ahead = np.int64(-1), np.int64(0)
    for i in range(256):
        num = (begin + i) & 0xFF
        if not group[num >> 6] >> np.uint64(num & 63) & np.uint64(1):
            continue
        port = base + num
        if net.port[port].peer < 0:
            continue
        ahead = backlog(net, state, port, port * vls + vl, octets, now)
        if best < 0 or ahead < best_ahead:
            best, best_ahead = num, ahead
            if ahead == 0:
                break
    return best


@inner
def choose(net, state, k, switch, base, static, vl, now):
    """Return the port number through which packet ``k`` leaves ``switch``. ``static``: the port number in the
    forwarding table; ``vl``: the packet's VL."""
    num = wanted(net, state, k, switch, base, static, vl, now)
    if net.port[base + num].peer < 0 and net.ar_on[switch] >> REPAIR & 1:  # local repair: another port of the group
        group = np.int64(net.ar_lft[switch, state.packet[k].dlid]) & GROUP_MASK
        other = least(net, state, k, base, net.ar_group[switch, group], vl, now) if group else np.int64(-1)
        return other if other >= 0 else num
    return num


@inner
def wanted(net, state, k, switch, base, static, vl, now):
    """Return the portnum through which packet ``k`` would leave if all links were up."""
    entry = np.int64(net.ar_lft[switch, state.packet[k].dlid])
    mode, group = entry >> STATE_SHIFT, entry & GROUP_MASK
    if group == 0 or mode >= STATIC:
        return static
    enabled = net.ar_on[switch]
    if not enabled >> state.packet[k].sl & 1 or enabled >> (16 + state.qp[state.packet[k].stream >> 1].service) & 1:
        return static
    if mode == FREE:
        num = least(net, state, k, base, net.ar_group[switch, group], vl, now)
        return num if num >= 0 else static
    flow = np.int64(state.packet[k].stream)
    slot = state.bound[switch, (flow * 2654435761 >> 8) & (BOUND_SLOTS - 1)]
    if slot.flow >> 8 == flow + 1 and (net.ageing[switch] == 0 or now - slot.sent_at < net.ageing[switch]):
        num = slot.flow & 0xFF
    else:
        num = least(net, state, k, base, net.ar_group[switch, group], vl, now)
        if num < 0:
            return static
    slot.flow = (flow + 1) << 8 | num
    slot.sent_at = now
    return num
