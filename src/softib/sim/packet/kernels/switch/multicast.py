"""UD multicast: switches send one copy through each port of the group's mask in their MFT, except
the ingress port (IBA chapter 18). A copy waits in the queue of its output and uses that link's
credits. The packet keeps its place in the receive buffer until the last copy has left, so one slow
member delays later packets. A channel adapter that is a member of the group passes the packet to its queue pair for the
group; the sender does not get the packet. Port 0 of a switch gets its copy like any packet for the switch itself. A
packet for a group without an entry in the MFT is a PortRcvSwitchRelayError.
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
from softib.sim.packet.kernels.switch.switch import NO_VL, offer, one_less, vl_of

MCAST_TOP_AT = SwitchInfo.mcast_fdb_top.byte
MOST = 30
"""Maximum number of copies that one event makes, because each copy takes a packet and an event from the pools."""


@inner
def in_mask(net, switch, mlid, num):
    """Return whether ``switch`` sends packets for ``mlid`` through its port ``num``."""
    row = mlid - MULTICAST_LID
    top = np.int64(net.switch_info[switch, MCAST_TOP_AT]) << 8 | net.switch_info[switch, MCAST_TOP_AT + 1]
    if top and mlid > top:  # MulticastFDBTop: the table ends there
        return False
    if row >= net.mft.shape[1] or num >> 4 >= net.mft.shape[2]:
        return False
    return np.int64(net.mft[switch, row, num >> 4]) >> (num & 15) & 1 != 0


@inner
def make_copies(net, state, port, k, now):
    """Make the next copies of packet ``k``, which entered through ``port``."""
    switch, base, mlid = net.port[port].switch, net.port[port].port_0, state.packet[k].dlid
    num, copies = np.int64(state.packet[k].next), 0
    if num == 0:
        member = False
        for other in range(net.port[port].ports):
            member |= in_mask(net, switch, mlid, other)
        if not member:
            state.port[port].relay_errors += 1
        if port != base and in_mask(net, switch, mlid, np.int64(0)):
            copy_to_switch(state, port, k, now)
        num = np.int64(1)
    while num < net.port[port].ports and copies < MOST:
        out = base + num
        if out != port and in_mask(net, switch, mlid, num):
            copies += copy_to(net, state, port, out, k, now)
        num += 1
    if num < net.port[port].ports:
        state.packet[k].next = num
        push(state, now, word(port, COPIES, k))
    else:
        one_less(net, state, k, now)


@inner
def copy_to(net, state, port, out, k, now):
    """Queue a copy of packet ``k`` for ``out``; return 1, or 0 if ``out`` cannot send it."""
    if net.port[out].peer < 0:
        state.port[out].inactive += 1
        return 0
    if state.packet[k].octets > net.port[out].mtu:
        state.port[out].too_long += 1
        return 0
    vl = vl_of(net, port, out, state.packet[k].sl)
    if vl >= net.port[out].vls or vl == NO_VL:
        state.port[port].relay_errors += 1
        return 0
    copy = copy_of(state, k, now)
    offer(net, state, port, out, vl, copy, now)
    arm(state, out, max(now, state.port[out].free_at))
    return 1


@inner
def copy_of(state, k, now):
    """Return a copy of packet ``k``, which keeps its place in the receive buffer."""
    copy = blank_packet(state)
    packet, copied = state.packet[k], state.packet[copy]
    copied.stream = packet.stream
    copied.psn = packet.psn
    copied.octets = packet.octets
    copied.dlid = packet.dlid
    copied.sl = packet.sl
    copied.vl = packet.vl
    copied.came_in = packet.came_in
    copied.kind = packet.kind
    copied.marks = packet.marks
    state.packet[copy].marks |= COPY
    state.packet[copy].behind = k
    state.packet[copy].tail = state.packet[k].tail
    state.packet[copy].entered = now
    state.packet[k].out += 1
    return copy


@inner
def copy_to_switch(state, port, k, now):
    """Make a copy of packet ``k``, which entered through ``port``, for port 0 of the switch; it
    arrives when the packet has fully arrived."""
    copy = copy_of(state, k, now)
    push(state, max(state.packet[copy].tail, now), word(port, ENTER, copy))


@inner
def delivered(net, state, port, m, t):
    """Deliver a packet of message ``m`` for a group, in memory at ``t``, to the host of ``port`` if it
    is a member, and release the messages that wait for it there. Writes only rows of this member."""
    group = state.message[m].group - 1
    low, high = net.group_first[group], net.group_first[group + 1]
    while low < high:
        middle = (low + high) >> 1
        if net.group_port[middle] < port:
            low = middle + 1
        else:
            high = middle
    if low == net.group_first[group + 1] or net.group_port[low] != port:
        return
    row = state.message[m].delivery + low - net.group_first[group]
    state.delivery[row].times += 1
    if state.delivery[row].arrived >= 0:
        return
    state.delivery[row].arrived = t
    state.reg.last = max(state.reg.last, t)
    for i in range(state.arrival[m], state.arrival[m + 1]):
        d = state.after_arrival[i]
        if state.qp[state.message[d].qp].src == port:
            state.message[d].after = max(state.message[d].after, t)
            state.message[d].needs -= 1
            if state.message[d].needs == 0:
                at = max(state.message[d].start, state.message[d].after + state.message[d].delay)
                push(state, at, word(port, POSTED, d))
