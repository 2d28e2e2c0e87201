# mypy: ignore-errors
"""Links that go down and come up, and switches that lose their power, between two events (IBA chapter 7, link states; 16.1.3.5).

A cable that is pulled loses what is on it; the receiver never sees it whole. The port that faces it discards what waits for it and what still
comes for it (PortXmitDiscards, as of an inactive port). What has come in whole goes on. When the link is up again credits begin anew:
the receiver grants what its buffer has free. A packet that cuts through, and whose head has left the next switch when its tail is
cut off, goes on whole: at most one a direction. All rows of a change are those of the two nodes at the link.
"""

import numpy as np

from softib.jit import inner, kernel
from softib.sim.packet.constants import (
    AGENT,
    ARRIVE,
    BUCKETS,
    COPY,
    CUT,
    END_PORT,
    ENTER,
    INACTIVE,
    MANAGE,
    RECEIVE,
    STARVED,
    SWITCH_PORT,
    WINDOW,
)
from softib.sim.packet.kernels.engine.events import heap_push
from softib.sim.packet.kernels.engine.packet_log import log_lost
from softib.sim.packet.kernels.link.credits import arm, blocks_of, forget_credit
from softib.sim.packet.kernels.link.discards import lose, lose_mad
from softib.sim.packet.kernels.management.smi import VL15_READY, leave_buffer, post_gmp, post_smp
from softib.sim.packet.kernels.switch.multicast_copies import copy_leaves
from softib.sim.packet.kernels.switch.switch import first_voq, leaves_input, take_first

DOWN, DEAD = 1, 2
"""What happens to a port: its link goes down; its node loses its power."""
KIND_BITS = 15 << 28


@inner
def of_switch(n, port):
    """Is ``port`` an external port of a switch?"""
    return n.port[port].kind == SWITCH_PORT


@inner
def cut_event(n, s, what, change, now):
    """The event ``what``, or what becomes of it: a packet on a cable that is pulled, or in a switch without power, is gone."""
    entity, kind, k = what >> 32, what >> 28 & 15, what & 0xFFFFFFF
    if change[entity] == 0 or (
        kind != ARRIVE and kind != RECEIVE and kind != ENTER and kind != MANAGE and kind != AGENT
    ):
        return what
    if s.packet[k].marks & CUT or (kind == ENTER and s.packet[k].marks & COPY):
        return what
    if change[entity] == DOWN:
        if kind == AGENT:
            return what
        latency = np.int64(n.port[entity].latency_ps) if of_switch(n, entity) else np.int64(0)
        if s.packet[k].tail - latency <= now:
            return what
    s.packet[k].marks |= CUT
    s.smi[entity].cut += 1
    if kind == AGENT:
        return what
    if n.watch_port.shape[0]:
        log_lost(n, s, entity, k, INACTIVE, now)
    return what & ~np.int64(KIND_BITS) | np.int64(MANAGE) << 28


@inner
def cut_events(n, s, change, now):
    """All events that wait: those of packets that are gone say so."""
    for b in range(BUCKETS):
        e = s.bucket[b]
        while e:
            for i in range(s.event[e].count):
                s.event[e].what[i] = cut_event(n, s, s.event[e].what[i], change, now)
            e = s.event[e].next
    for i in range(s.reg.due_at, s.reg.due_n):  # the order of those that are due may change, so they go to the heap
        s.heap[s.reg.heap_n].time = s.due[i].time
        s.heap[s.reg.heap_n].what = s.due[i].what
        s.reg.heap_n += 1
    s.reg.due_at = s.reg.due_n
    for i in range(s.reg.heap_n):
        s.heap[i].what = cut_event(n, s, s.heap[i].what, change, now)
    for i in range(s.reg.far_n):
        s.far[i].what = cut_event(n, s, s.far[i].what, change, now)
    for i in range(s.reg.timer_n):
        s.timer[i].what = cut_event(n, s, s.timer[i].what, change, now)
    for i in range(s.reg.heap_n):  # what an event is decides its place among those of its time
        heap_push(s.heap, i, s.heap[i].time, s.heap[i].what)
    for i in range(s.reg.far_n):
        heap_push(s.far, i, s.far[i].time, s.far[i].what)
    for i in range(s.reg.timer_n):
        heap_push(s.timer, i, s.timer[i].time, s.timer[i].what)


@inner
def voq_of(n, came_in, out, vl):
    """The queue of input ``came_in`` for ``vl`` of ``out``, two ports of one switch."""
    vls = n.opt.vls
    return np.int64(n.port[out].voq) + np.int64(n.port[came_in].num) * vls + vl


@inner
def unlink_last(n, s, out, vl, voq):
    """Take the last packet out of ``voq``. Returns it."""
    row = out * n.opt.vls + vl
    k = np.int64(s.voq[voq].tail)
    s.vl[row].queued -= blocks_of(s.packet[k].octets)
    at = np.int64(s.voq[voq].head)
    if at != k:
        while s.packet[at].next != k:
            at = np.int64(s.packet[at].next)
        s.packet[at].next = 0
        s.voq[voq].tail = at
        return k
    s.voq[voq].head = 0
    before = s.vl[row].ring - 1
    while s.voq[before].next - 1 != voq:
        before = np.int64(s.voq[before].next) - 1
    if before == voq:
        s.vl[row].ring = 0
        s.port[out].ready &= ~(np.int64(1) << vl)
    else:
        s.voq[before].next = s.voq[voq].next
        if s.vl[row].ring == voq + 1:
            s.vl[row].ring = before + 1
    return k


@inner
def cut_arriving(n, s, port, now):
    """The packet that was coming in by switch port ``port``, with its head in a queue already, is lost."""
    base = np.int64(n.port[port].port_0)
    for out in range(base, base + n.port[port].ports):
        for vl in range(n.opt.vls):
            voq = voq_of(n, port, out, vl)
            if s.voq[voq].head and s.packet[s.voq[voq].tail].tail - n.port[port].latency_ps > now:
                k = unlink_last(n, s, out, vl, voq)
                if s.packet[k].marks & COPY:
                    copy_leaves(n, s, k, now)
                if n.watch_port.shape[0]:
                    log_lost(n, s, port, k, INACTIVE, now)
                lose(s, k)
                s.smi[port].cut += 1


@inner
def flush(n, s, port, dead, now):
    """What waits for ``port`` of a switch is discarded: PortXmitDiscards; of a switch without power nobody counts."""
    for vl in range(n.opt.vls):
        row = port * n.opt.vls + vl
        while s.vl[row].ring:
            k = take_first(n, s, port, vl, row, first_voq(s, row), now)
            s.packet[k].next = 0
            leaves_input(n, s, k, max(now, s.packet[k].tail))
            if dead:
                s.smi[port].cut += 1
            else:
                s.port[port].inactive += 1
            if n.watch_port.shape[0]:
                log_lost(n, s, port, k, INACTIVE, now)
            lose(s, k)


@inner
def flush_vl15(n, s, port, dead):
    """The same of VL15."""
    while s.smi[port].head:
        k = s.smi[port].head
        s.smi[port].head = s.packet[k].next
        leave_buffer(s, k)
        if dead:
            s.smi[port].cut += 1
        else:
            s.port[port].inactive += 1
        lose_mad(s, k)
    s.port[port].ready &= ~np.int64(VL15_READY)


@inner
def no_credits(n, s, port):
    """Credits and flow-control packets of ``port`` are no more; an end port needs none for what it discards."""
    for vl in range(n.opt.vls):
        row = port * n.opt.vls + vl
        while s.vl[row].credits:
            forget_credit(s, row, np.int64(s.vl[row].credits))
        s.vl[row].first_blocks = 0
        s.vl[row].second_blocks = 0
        s.vl[row].fctbs = 0
        s.vl[row].fccl = WINDOW if n.port[port].kind == END_PORT else 0
        s.vl[row].waits &= ~STARVED
    s.port[port].debt = 0
    s.arbiter[port].drained = 0


@kernel
def links_down(n, s, change, now):
    """The links of the ports that ``change`` (uint8[ports]) marks have gone down at ``now``: DOWN, or DEAD of a node without power. ``Net.port``
    and ``Net.wire`` have no peers for them any more."""
    cut_events(n, s, change, now)
    for port in range(len(change)):
        if change[port] and of_switch(n, port):
            cut_arriving(n, s, port, now)
    for port in range(len(change)):
        if change[port] == 0:
            continue
        if of_switch(n, port):
            flush(n, s, port, change[port] == DEAD, now)
        flush_vl15(n, s, port, change[port] == DEAD)
        if n.port[port].peer != port:
            no_credits(n, s, port)
        if change[port] == DEAD:
            s.smi[port].busy = 0
        if s.port[port].ready:
            arm(s, port, now)


@inner
def held_blocks(n, s, port, vl):
    """Blocks of packets that wait in the receive buffer of ``vl`` of switch port ``port``; copies of one multicast packet have one place."""
    held = np.int64(0)
    base = np.int64(n.port[port].port_0)
    for marks in range(2):  # marks the packets whose copies wait, and takes the marks away
        for out in range(base, base + n.port[port].ports):
            for level in range(n.opt.vls):
                k = np.int64(s.voq[voq_of(n, port, out, level)].head)
                while k:
                    held += blocks_of(s.packet[k].octets) if holds_place(s, k, marks) and s.packet[k].vl == vl else 0
                    k = np.int64(s.packet[k].next)
    return held


@inner
def holds_place(s, k, marks):
    """Is the place of packet ``k`` in its receive buffer to be counted? Of copies that of the first that is met; in the second round of none."""
    if s.packet[k].marks & COPY == 0:
        return marks == 0
    whole = s.packet[k].behind
    first = marks == 0 and s.packet[whole].behind == 0
    s.packet[whole].behind = 1 - marks
    return first


@kernel
def link_up(n, s, port, now):
    """The link of ``port`` carries data from ``now`` on: its peer grants what its receive buffers have free (IBA chapter 7, flow control)."""
    no_credits(n, s, port)
    peer = np.int64(n.port[port].peer)
    for vl in range(n.opt.vls):
        held = held_blocks(n, s, peer, vl) if of_switch(n, peer) else np.int64(0)
        s.vl[port * n.opt.vls + vl].fccl = n.rare[peer].blocks - held
    if s.port[port].ready:
        arm(s, port, now)


@kernel
def post_mad(n, s, port, row, dlid, level, vl, now):
    """The end port ``port`` sends the MAD in ``row``: on VL15 (``vl`` 15, or -1: to itself by LID) or on data VL ``vl``."""
    if vl < 0 or vl == 15:
        look = post_smp(n, s, port, row, dlid, vl < 0, now)
    else:
        look = post_gmp(n, s, port, row, dlid, level, vl)
    if look >= 0:
        arm(s, look, now)
