"""Management packets on the wire: subnet management interfaces, VL15, and MADs on data VLs (IBA
14.2.1, 14.2.2; chapters 7, VL15, and 13).

SMPs travel on VL15: without flow control, ahead of all other VLs (7.6.9), and dropped if a port's
VL15 buffer is full (VL15Dropped, 16.1.3.5). The management processor of each switch on the path
processes directed SMPs and writes the return path. LID-routed SMPs follow the forwarding tables, and switches forward
them cut-through. All other MADs are packets of a data VL, with credits. A device has one processor, which handles MADs
one after another. A MAD at its destination waits in ``State.inbox`` until the caller of the loop answers it.
"""

import numpy as np

from softib.iba.constants import DR_DIRECTION, RESPONSE_BIT, Method, MgmtClass
from softib.iba.smp import (
    CLASS_AT,
    DR_DLID_AT,
    DR_SLID_AT,
    HOP_COUNT_AT,
    HOP_POINTER_AT,
    INITIAL_PATH_AT,
    METHOD_AT,
    RETURN_PATH_AT,
    STATUS_AT,
)
from softib.jit import inner
from softib.sim.packet.constants import (
    AGENT,
    CUT,
    GMP,
    MANAGE,
    SMP,
    VL15,
)
from softib.sim.packet.kernels.engine.events import push_timer, word
from softib.sim.packet.kernels.engine.packet_log import log_sent
from softib.sim.packet.kernels.engine.pools import free_packet, new_packet
from softib.sim.packet.kernels.hca.acks import before_streams
from softib.sim.packet.kernels.link.credits import waits_no_more, wire_ps
from softib.sim.packet.kernels.link.discards import corrupted, lose_mad
from softib.sim.packet.kernels.switch.switch import by_table

SUBN_DR = int(MgmtClass.SUBN_DR)
DIRECTION = DR_DIRECTION >> 8
"""Bit in the first byte of the status: the SMP is a response on its return path (IBA 14.2.2)."""


@inner
def directed(mad):
    """Return whether the SMP ``mad`` is directed."""
    return mad[CLASS_AT] == SUBN_DR


@inner
def permissive(mad, at):
    """Return whether the LID at ``at`` of the SMP is the permissive LID."""
    return mad[at] == 0xFF and mad[at + 1] == 0xFF


@inner
def passes_on(mad):
    """Return whether a directed SMP at a switch must be forwarded: its outbound or return path has hops
    left."""
    hops, at = np.int64(mad[HOP_COUNT_AT]), np.int64(mad[HOP_POINTER_AT])
    if mad[STATUS_AT] & DIRECTION:
        return at > 1
    return at < hops


@inner
def next_hop(net, mad, came_in):
    """Update the hop pointer and the return path of a directed SMP that entered a node through ``came_in``. Return the
    port through which it leaves; -1: it is at its destination; -2: its path is invalid (IBA 14.2.2)."""
    hops, at = np.int64(mad[HOP_COUNT_AT]), np.int64(mad[HOP_POINTER_AT])
    if mad[STATUS_AT] & DIRECTION:
        if at <= 1:
            mad[HOP_POINTER_AT] = 0
            return np.int64(-1)
        mad[HOP_POINTER_AT] = at - 1
        num = np.int64(mad[RETURN_PATH_AT + at - 1])
    else:
        if not permissive(mad, DR_SLID_AT) or not permissive(mad, DR_DLID_AT) or at > hops:
            return np.int64(-2)
        if at:
            mad[RETURN_PATH_AT + at] = net.port[came_in].num
        mad[HOP_POINTER_AT] = at + 1
        if at == hops:
            return np.int64(-1)
        num = np.int64(mad[INITIAL_PATH_AT + at + 1])
    if net.port[came_in].switch < 0 or num < 1 or num >= net.port[came_in].ports:
        return np.int64(-2)
    return np.int64(net.port[came_in].port_0) + num


@inner
def first_hop(net, mad, port):
    """Return the port through which a directed SMP leaves the node of its sender ``port`` (-1: it
    is for that node; -2: its path is invalid). A response follows the return path."""
    hops = np.int64(mad[HOP_COUNT_AT])
    if mad[STATUS_AT] & DIRECTION:
        mad[HOP_POINTER_AT] = hops
        num = np.int64(mad[RETURN_PATH_AT + hops])
    else:
        mad[HOP_POINTER_AT] = min(hops, 1)
        num = np.int64(mad[INITIAL_PATH_AT + 1])
    if hops == 0:
        return np.int64(-1)
    if net.port[port].switch < 0:
        return np.int64(port) if num == net.port[port].num else np.int64(-2)
    if num < 1 or num >= net.port[port].ports:
        return np.int64(-2)
    return np.int64(net.port[port].port_0) + num


MAD_OCTETS = 290
"""Bytes of a MAD's packet: LRH 8, BTH 12, DETH 8, MAD 256, ICRC 4, VCRC 2 (IBA 5.2, chapter 13)."""
TRAP, TRAP_REPRESS, RESPONSE = int(Method.TRAP), int(Method.TRAP_REPRESS), RESPONSE_BIT
VL15_READY = 1 << VL15


@inner
def new_mad_packet(state, row, kind, dlid, level):
    """Allocate a packet for the MAD in ``row``."""
    k = new_packet(state, 0, row, MAD_OCTETS, dlid, level, kind, 0)
    state.mads.sent += 1
    return k


@inner
def on_vl15(net, state, out, k):
    """Queue packet ``k`` for VL15 of ``out``. If that link is down, the packet is lost and ``out``
    counts it. Returns the port to check, -1 for none."""
    if net.wire[out] < 0:
        state.port[out].inactive += 1
        leave_buffer(state, k)
        lose_mad(state, k)
        return np.int64(-1)
    state.packet[k].next = 0
    if state.smi[out].head:
        state.packet[state.smi[out].last].next = k
    else:
        state.smi[out].head = k
    state.smi[out].last = k
    state.port[out].ready |= VL15_READY
    return np.int64(out)


@inner
def leave_buffer(state, k):
    """Remove packet ``k`` from the VL15 receive buffer of its ingress port, if its column ``vl`` says that it is
    there."""
    if state.packet[k].vl == VL15:
        state.smi[state.packet[k].came_in].held -= 1
        state.packet[k].vl = 0


@inner
def send_smp(net, state, port, now):
    """Send the first packet in the VL15 queue of ``port``: VL15 has priority over all data VLs and
    needs no credits (IBA 7.6.9; chapter 7, flow control)."""
    k = state.smi[port].head
    following = np.int64(state.packet[k].next)
    state.smi[port].head = following
    if following == 0:
        state.port[port].ready &= ~np.int64(VL15_READY)
    state.packet[k].next = 0
    octets = np.int64(state.packet[k].octets)
    start = max(now, state.packet[k].tail - wire_ps(net, port, octets))
    leave_buffer(state, k)
    end = start + wire_ps(net, port, octets + net.opt.gap + state.port[port].debt)
    state.port[port].debt = 0
    state.port[port].free_at = end
    state.packet[k].tail = end + net.port[port].delay_ps
    state.port[port].xmit_octets += octets
    state.port[port].xmit_packets += 1
    waits_no_more(net, state, port, start)
    if net.watch_port.shape[0]:
        log_sent(net, state, port, VL15, k, now, start, end)
    peer = np.int64(net.wire[port])
    state.packet[k].came_in = peer
    at = state.packet[k].tail
    if net.port[peer].switch >= 0:
        state.packet[k].tail += net.port[peer].latency_ps
        at = state.packet[k].tail
        if not directed(state.mad[state.packet[k].psn]):
            at = start + net.port[port].delay_ps + net.port[peer].latency_ps
    push_timer(state, at, word(peer, MANAGE, k))


@inner
def at_port(net, state, port, k, now):
    """Handle a packet on VL15 that reached ``port``. Returns the port to check, -1 for none."""
    if state.packet[k].marks & CUT:
        removed(state, k)
        return np.int64(-1)
    octets = np.int64(state.packet[k].octets)
    if corrupted(net, state, port, octets, now):
        state.port[port].rcv_errors += 1
        lose_mad(state, k)
        return np.int64(-1)
    state.port[port].rcv_octets += octets
    state.port[port].rcv_packets += 1
    if state.smi[port].held >= net.management.buffers:
        state.smi[port].dropped += 1
        lose_mad(state, k)
        return np.int64(-1)
    state.smi[port].held += 1
    state.packet[k].vl = VL15
    m = state.mad[state.packet[k].psn]
    if net.port[port].switch < 0 or directed(m):
        to_processor(net, state, port, k, now)
        return np.int64(-1)
    out = by_table(net, port, np.int64(state.packet[k].dlid))
    if out == net.port[port].port_0:
        to_processor(net, state, port, k, now)
        return np.int64(-1)
    if out < 0 or out == port:
        state.port[port].relay_errors += 1
        leave_buffer(state, k)
        lose_mad(state, k)
        return np.int64(-1)
    return on_vl15(net, state, out, k)


@inner
def removed(state, k):
    """Free a packet that was cut off. (It was counted when it was cut off.)"""
    if state.packet[k].kind >= SMP:
        lose_mad(state, k)
    else:
        free_packet(state, k)


@inner
def for_client(mad):
    """Return whether the MAD is for a program at an adapter, not for the adapter's agent."""
    return mad[METHOD_AT] & RESPONSE or mad[METHOD_AT] == TRAP or mad[METHOD_AT] == TRAP_REPRESS


@inner
def to_processor(net, state, port, k, now):
    """Queue packet ``k``, which entered through ``port`` (at its source: the end port itself), for
    the node's management processor."""
    end = np.int64(net.port[port].port_0) if net.port[port].switch >= 0 else port
    m = state.mad[state.packet[k].psn]
    here = max(now, state.packet[k].tail)
    if net.port[port].switch < 0 and for_client(m):
        push_timer(state, here, word(end, AGENT, k))
        return
    takes = net.management.agent_ps
    if directed(m) and passes_on(m):
        takes = net.management.forward_ps
    done = max(here, state.smi[end].busy) + takes
    state.smi[end].busy = done
    push_timer(state, done, word(end, AGENT, k))


@inner
def processed(net, state, end, k, now):
    """Handle packet ``k``, which the management processor of ``end`` has finished: forward it, or
    put it into the inbox. Returns the port to check, -1 for none."""
    if state.packet[k].marks & CUT:
        removed(state, k)
        return np.int64(-1)
    m = state.mad[state.packet[k].psn]
    if state.packet[k].kind == SMP and directed(m):
        out = next_hop(net, m, np.int64(state.packet[k].came_in))
        if out >= 0:
            return on_vl15(net, state, out, k)
        if out < -1:
            leave_buffer(state, k)
            lose_mad(state, k)
            return np.int64(-1)
    leave_buffer(state, k)
    state.inbox[state.mads.inbox] = k
    state.mads.inbox += 1
    return np.int64(-1)


@inner
def post_smp(net, state, port, row, dlid, to_self, now):
    """Send the SMP in ``row`` from end port ``port``; ``to_self``: to that port itself.
    Returns the port to check, -1 for none."""
    k = new_mad_packet(state, row, SMP, dlid, 0)
    state.packet[k].came_in = port
    state.packet[k].vl = 0
    state.packet[k].tail = now
    m = state.mad[row]
    out = np.int64(-1)
    if directed(m):
        out = first_hop(net, m, port)
    elif not to_self:
        out = np.int64(port) if net.port[port].switch < 0 else by_table(net, port, dlid)
        out = np.int64(-2) if out < 0 else out
        if out == net.port[port].port_0 and net.port[port].switch >= 0:
            out = np.int64(-1)
    if out >= 0:
        return on_vl15(net, state, out, k)
    if out < -1:
        lose_mad(state, k)
        return np.int64(-1)
    to_processor(net, state, port, k, now)
    return np.int64(-1)


@inner
def post_gmp(net, state, port, row, dlid, level, vl):
    """Send the MAD in ``row`` from end port ``port`` on a data VL, ahead of its streams. Returns the
    port to check."""
    k = new_mad_packet(state, row, GMP, dlid, level)
    return before_streams(net, state, port, k, vl)


@inner
def gmp_arrived(net, state, port, k, now):
    """Handle a MAD on a data VL, fully arrived at end port ``port``; its buffer is already free."""
    state.packet[k].vl = 0
    state.packet[k].came_in = port
    state.packet[k].tail = now
    to_processor(net, state, port, k, now)
