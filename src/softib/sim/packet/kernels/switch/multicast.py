# mypy: ignore-errors
"""UD multicast: switches send one copy by each port of the group's mask in their MFT, but not back (IBA chapter 18).

A copy waits in the queue of its output and takes that link's credits; the packet keeps its place in the receive buffer until the last copy has
left, so that one slow member holds up what is behind. A channel adapter hands the packet to its queue pair of the group, if it is a
member; the sender gets none. Port 0 of a switch gets its copy as a packet for the switch itself. A packet for a group that a switch knows nothing
of is a PortRcvSwitchRelayError.
"""

import numpy as np

from softib.iba.smp import SwitchInfo
from softib.jit import inner
from softib.sim.packet.constants import (
    COPIES,
    COPY,
    ENTER,
    MULTICAST_LID,
    POSTED,
)
from softib.sim.packet.kernels.engine.events import push, word
from softib.sim.packet.kernels.engine.pools import blank_packet
from softib.sim.packet.kernels.link.credits import arm
from softib.sim.packet.kernels.switch.multicast_copies import one_less
from softib.sim.packet.kernels.switch.switch import NO_VL, offer, vl_of

MCAST_TOP_AT = SwitchInfo.mcast_fdb_top.byte
MOST = 30
"""Copies that one event makes: each takes a packet and an event from the pools."""


@inner
def in_mask(n, switch, mlid, num):
    """Does ``switch`` send packets for ``mlid`` by its port ``num``?"""
    row = mlid - MULTICAST_LID
    top = np.int64(n.switch_info[switch, MCAST_TOP_AT]) << 8 | n.switch_info[switch, MCAST_TOP_AT + 1]
    if top and mlid > top:  # MulticastFDBTop: the table ends there
        return False
    if row >= n.mft.shape[1] or num >> 4 >= n.mft.shape[2]:
        return False
    return np.int64(n.mft[switch, row, num >> 4]) >> (num & 15) & 1 != 0


@inner
def make_copies(n, s, port, k, now):
    """Make the next copies of packet ``k``, which came in by ``port``."""
    switch, base, mlid = n.port[port].switch, n.port[port].port_0, s.packet[k].dlid
    num, made = np.int64(s.packet[k].next), 0
    if num == 0:
        known = False
        for other in range(n.port[port].ports):
            known |= in_mask(n, switch, mlid, other)
        if not known:
            s.port[port].relay_errors += 1
        if port != base and in_mask(n, switch, mlid, np.int64(0)):
            copy_to_switch(s, port, k, now)
        num = np.int64(1)
    while num < n.port[port].ports and made < MOST:
        out = base + num
        if out != port and in_mask(n, switch, mlid, num):
            made += copy_to(n, s, port, out, k, now)
        num += 1
    if num < n.port[port].ports:
        s.packet[k].next = num
        push(s, now, word(port, COPIES, k))
    else:
        one_less(n, s, k, now)


@inner
def copy_to(n, s, port, out, k, now):
    """A copy of packet ``k`` waits for ``out``; returns 1, or 0 where ``out`` cannot send it."""
    if n.port[out].peer < 0:
        s.port[out].inactive += 1
        return 0
    if s.packet[k].octets > n.port[out].mtu:
        s.port[out].too_long += 1
        return 0
    vl = vl_of(n, port, out, s.packet[k].sl)
    if vl >= n.port[out].vls or vl == NO_VL:
        s.port[port].relay_errors += 1
        return 0
    copy = copy_of(s, k, now)
    offer(n, s, port, out, vl, copy, now)
    arm(s, out, max(now, s.port[out].free_at))
    return 1


@inner
def copy_of(s, k, now):
    """A copy of packet ``k``, which holds its place in the receive buffer."""
    copy = blank_packet(s)
    p, c = s.packet[k], s.packet[copy]
    c.stream = p.stream
    c.psn = p.psn
    c.octets = p.octets
    c.dlid = p.dlid
    c.sl = p.sl
    c.vl = p.vl
    c.came_in = p.came_in
    c.kind = p.kind
    c.marks = p.marks
    s.packet[copy].marks |= COPY
    s.packet[copy].behind = k
    s.packet[copy].tail = s.packet[k].tail
    s.packet[copy].entered = now
    s.packet[k].out += 1
    return copy


@inner
def copy_to_switch(s, port, k, now):
    """A copy of packet ``k``, which came in by ``port``, for port 0 of the switch: it is there when the packet is whole."""
    copy = copy_of(s, k, now)
    push(s, max(s.packet[copy].tail, now), word(port, ENTER, copy))


@inner
def delivered(n, s, port, m, t):
    """A packet of message ``m`` for a group is in the memory of the host of ``port`` at ``t``, if that is a member: what waits there for
    it may go on. Only rows of this member are written."""
    group = s.message[m].group - 1
    low, high = n.group_first[group], n.group_first[group + 1]
    while low < high:
        middle = (low + high) >> 1
        if n.group_port[middle] < port:
            low = middle + 1
        else:
            high = middle
    if low == n.group_first[group + 1] or n.group_port[low] != port:
        return
    row = s.message[m].delivery + low - n.group_first[group]
    s.delivery[row].times += 1
    if s.delivery[row].arrived >= 0:
        return
    s.delivery[row].arrived = t
    s.reg.last = max(s.reg.last, t)
    for i in range(s.arrival[m], s.arrival[m + 1]):
        d = s.after_arrival[i]
        if s.qp[s.message[d].qp].src == port:
            s.message[d].after = max(s.message[d].after, t)
            s.message[d].needs -= 1
            if s.message[d].needs == 0:
                at = max(s.message[d].start, s.message[d].after + s.message[d].delay)
                push(s, at, word(port, POSTED, d))
