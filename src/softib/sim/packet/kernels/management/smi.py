# mypy: ignore-errors
"""Management packets on the wire: subnet management interfaces, VL15, and MADs on data VLs (IBA 14.2.1, 14.2.2; chapters 7, VL15, and 13).

SMPs travel on VL15: no flow control, ahead of all other VLs (7.6.9), dropped where a port's VL15 buffer is full (VL15Dropped, 16.1.3.5).
Directed ones visit the management processor of each switch on their way, which writes the return path; LID-routed ones follow
the forwarding table, cut through. Everything else is a packet of a data VL, with credits. A device has one processor, which
takes MADs one after another. What has reached its destination waits in ``State.inbox`` until the caller of the loop
answers it.
"""

import numpy as np

from softib.iba.constants import RESPONSE_BIT, Method
from softib.iba.mad_offsets import METHOD_AT
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
from softib.sim.packet.kernels.management.directed_route import directed, first_hop, next_hop, passes_on
from softib.sim.packet.kernels.switch.forwarding import by_table

MAD_OCTETS = 290
"""LRH 8, BTH 12, DETH 8, MAD 256, ICRC 4, VCRC 2 (IBA 5.2, chapter 13)."""
TRAP, TRAP_REPRESS, RESPONSE = int(Method.TRAP), int(Method.TRAP_REPRESS), RESPONSE_BIT
VL15_READY = 1 << VL15


@inner
def new_mad_packet(s, row, what, dlid, level):
    """A packet for the MAD in ``row``."""
    k = new_packet(s, 0, row, MAD_OCTETS, dlid, level, what, 0)
    s.mads.sent += 1
    return k


@inner
def on_vl15(n, s, out, k):
    """Packet ``k`` waits for VL15 of ``out``. Where that link is down it is lost, and ``out`` counts it. Returns the port to look at, -1
    for none."""
    if n.wire[out] < 0:
        s.port[out].inactive += 1
        leave_buffer(s, k)
        lose_mad(s, k)
        return np.int64(-1)
    s.packet[k].next = 0
    if s.smi[out].head:
        s.packet[s.smi[out].last].next = k
    else:
        s.smi[out].head = k
    s.smi[out].last = k
    s.port[out].ready |= VL15_READY
    return np.int64(out)


@inner
def leave_buffer(s, k):
    """Packet ``k`` leaves the VL15 receive buffer of the port that it came in by; its VL says whether it is in one."""
    if s.packet[k].vl == VL15:
        s.smi[s.packet[k].came_in].held -= 1
        s.packet[k].vl = 0


@inner
def send_smp(n, s, port, now):
    """Send the first packet that waits for VL15 of ``port``: it has priority over all data VLs and needs no credits (IBA 7.6.9; chapter 7, flow control)."""
    k = s.smi[port].head
    following = np.int64(s.packet[k].next)
    s.smi[port].head = following
    if following == 0:
        s.port[port].ready &= ~np.int64(VL15_READY)
    s.packet[k].next = 0
    octets = np.int64(s.packet[k].octets)
    start = max(now, s.packet[k].tail - wire_ps(n, port, octets))
    leave_buffer(s, k)
    end = start + wire_ps(n, port, octets + n.opt.gap + s.port[port].debt)
    s.port[port].debt = 0
    s.port[port].free_at = end
    s.packet[k].tail = end + n.port[port].delay_ps
    s.port[port].xmit_octets += octets
    s.port[port].xmit_packets += 1
    waits_no_more(n, s, port, start)
    if n.watch_port.shape[0]:
        log_sent(n, s, port, VL15, k, now, start, end)
    peer = np.int64(n.wire[port])
    s.packet[k].came_in = peer
    at = s.packet[k].tail
    if n.port[peer].switch >= 0:
        s.packet[k].tail += n.port[peer].latency_ps
        at = s.packet[k].tail
        if not directed(s.mad[s.packet[k].psn]):
            at = start + n.port[port].delay_ps + n.port[peer].latency_ps
    push_timer(s, at, word(peer, MANAGE, k))


@inner
def at_port(n, s, port, k, now):
    """A packet on VL15 has come to ``port``. Returns the port to look at, -1 for none."""
    if s.packet[k].marks & CUT:
        removed(s, k)
        return np.int64(-1)
    octets = np.int64(s.packet[k].octets)
    if corrupted(n, s, port, octets, now):
        s.port[port].rcv_errors += 1
        lose_mad(s, k)
        return np.int64(-1)
    s.port[port].rcv_octets += octets
    s.port[port].rcv_packets += 1
    if s.smi[port].held >= n.management.buffers:
        s.smi[port].dropped += 1
        lose_mad(s, k)
        return np.int64(-1)
    s.smi[port].held += 1
    s.packet[k].vl = VL15
    m = s.mad[s.packet[k].psn]
    if n.port[port].switch < 0 or directed(m):
        to_processor(n, s, port, k, now)
        return np.int64(-1)
    out = by_table(n, port, np.int64(s.packet[k].dlid))
    if out == n.port[port].port_0:
        to_processor(n, s, port, k, now)
        return np.int64(-1)
    if out < 0 or out == port:
        s.port[port].relay_errors += 1
        leave_buffer(s, k)
        lose_mad(s, k)
        return np.int64(-1)
    return on_vl15(n, s, out, k)


@inner
def removed(s, k):
    """The event of a packet that was cut: it is no more. (It was counted when it was cut.)"""
    if s.packet[k].kind >= SMP:
        lose_mad(s, k)
    else:
        free_packet(s, k)


@inner
def for_client(m):
    """Is it for a program at an adapter, not for the adapter's agent?"""
    return m[METHOD_AT] & RESPONSE or m[METHOD_AT] == TRAP or m[METHOD_AT] == TRAP_REPRESS


@inner
def to_processor(n, s, port, k, now):
    """Packet ``k``, which came in by ``port`` (a row; where it begins, the end port itself), waits for the node's management processor."""
    end = np.int64(n.port[port].port_0) if n.port[port].switch >= 0 else port
    m = s.mad[s.packet[k].psn]
    here = max(now, s.packet[k].tail)
    if n.port[port].switch < 0 and for_client(m):
        push_timer(s, here, word(end, AGENT, k))
        return
    takes = n.management.agent_ps
    if directed(m) and passes_on(m):
        takes = n.management.forward_ps
    done = max(here, s.smi[end].busy) + takes
    s.smi[end].busy = done
    push_timer(s, done, word(end, AGENT, k))


@inner
def processed(n, s, end, k, now):
    """The management processor behind ``end`` is done with packet ``k``: it goes on, or waits in the inbox. Returns the port to look at,
    -1 for none."""
    if s.packet[k].marks & CUT:
        removed(s, k)
        return np.int64(-1)
    m = s.mad[s.packet[k].psn]
    if s.packet[k].kind == SMP and directed(m):
        out = next_hop(n, m, np.int64(s.packet[k].came_in))
        if out >= 0:
            return on_vl15(n, s, out, k)
        if out < -1:
            leave_buffer(s, k)
            lose_mad(s, k)
            return np.int64(-1)
    leave_buffer(s, k)
    s.inbox[s.mads.inbox] = k
    s.mads.inbox += 1
    return np.int64(-1)


@inner
def post_smp(n, s, port, row, dlid, to_self, now):
    """The end port ``port`` sends the SMP in ``row``; ``to_self``: it is for that port itself. Returns the port to look at, -1 for none."""
    k = new_mad_packet(s, row, SMP, dlid, 0)
    s.packet[k].came_in = port
    s.packet[k].vl = 0
    s.packet[k].tail = now
    m = s.mad[row]
    out = np.int64(-1)
    if directed(m):
        out = first_hop(n, m, port)
    elif not to_self:
        out = np.int64(port) if n.port[port].switch < 0 else by_table(n, port, dlid)
        out = np.int64(-2) if out < 0 else out
        if out == n.port[port].port_0 and n.port[port].switch >= 0:
            out = np.int64(-1)
    if out >= 0:
        return on_vl15(n, s, out, k)
    if out < -1:
        lose_mad(s, k)
        return np.int64(-1)
    to_processor(n, s, port, k, now)
    return np.int64(-1)


@inner
def post_gmp(n, s, port, row, dlid, level, vl):
    """The end port ``port`` sends the MAD in ``row`` on a data VL, before its streams. Returns the port to look at."""
    k = new_mad_packet(s, row, GMP, dlid, level)
    return before_streams(n, s, port, k, vl)


@inner
def gmp_arrived(n, s, port, k, now):
    """A MAD on a data VL is whole at end port ``port``; its buffer is free already."""
    s.packet[k].vl = 0
    s.packet[k].came_in = port
    s.packet[k].tail = now
    to_processor(n, s, port, k, now)
