"""Links that go down and come up, and switches that lose their power, between two events (IBA
chapter 7, link states; 16.1.3.5).

A pulled cable loses the packets on it; the receiver never gets them completely. The sending port discards the packets
that wait for it and those that arrive for it later (PortXmitDiscards, as for an inactive port). Packets that have fully
arrived continue. When the link is up again, credits restart: the receiver grants the free space of its buffer. If the
head of a cut-through packet has already left the next switch when the cable is pulled, the packet continues as a whole;
this is at most one packet per direction. A change writes only rows of the two nodes at the link.
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
from softib.sim.packet.kernels.switch.switch import copy_leaves, first_voq, leaves_input, take_first

DOWN, DEAD = 1, 2
"""Changes of a port: its link goes down; its node loses its power."""
KIND_BITS = 15 << 28


@inner
def of_switch(net, port):
    """Return whether ``port`` is an external port of a switch."""
    return net.port[port].kind == SWITCH_PORT


@inner
def cut_event(net, state, event, change, now):
    """Return ``event``, or, if its packet is on a pulled cable or in a switch without power, the event that removes
    this packet."""
    entity, kind, k = event >> 32, event >> 28 & 15, event & 0xFFFFFFF
    if change[entity] == 0 or (
        kind != ARRIVE and kind != RECEIVE and kind != ENTER and kind != MANAGE and kind != AGENT
    ):
        return event
    if state.packet[k].marks & CUT or (kind == ENTER and state.packet[k].marks & COPY):
        return event
    if change[entity] == DOWN:
        if kind == AGENT:
            return event
        latency = np.int64(net.port[entity].latency_ps) if of_switch(net, entity) else np.int64(0)
        if state.packet[k].tail - latency <= now:
            return event
    state.packet[k].marks |= CUT
    state.smi[entity].cut += 1
    if kind == AGENT:
        return event
    if net.watch_port.shape[0]:
        log_lost(net, state, entity, k, INACTIVE, now)
    return event & ~np.int64(KIND_BITS) | np.int64(MANAGE) << 28


@inner
def cut_events(net, state, change, now):
    """Update all pending events: those of lost packets become removals."""
    for b in range(BUCKETS):
        e = state.bucket[b]
        while e:
            for i in range(state.event[e].count):
                state.event[e].what[i] = cut_event(net, state, state.event[e].what[i], change, now)
            e = state.event[e].next
    for i in range(state.reg.due_at, state.reg.due_n):  # the order of due events may change, so they go to the heap
        state.heap[state.reg.heap_n].time = state.due[i].time
        state.heap[state.reg.heap_n].what = state.due[i].what
        state.reg.heap_n += 1
    state.reg.due_at = state.reg.due_n
    for i in range(state.reg.heap_n):
        state.heap[i].what = cut_event(net, state, state.heap[i].what, change, now)
    for i in range(state.reg.later_n):
        state.later[i].what = cut_event(net, state, state.later[i].what, change, now)
    for i in range(state.reg.timer_n):
        state.timer[i].what = cut_event(net, state, state.timer[i].what, change, now)
    for i in range(state.reg.heap_n):  # the event number decides the order among events of one time
        heap_push(state.heap, i, state.heap[i].time, state.heap[i].what)
    for i in range(state.reg.later_n):
        heap_push(state.later, i, state.later[i].time, state.later[i].what)
    for i in range(state.reg.timer_n):
        heap_push(state.timer, i, state.timer[i].time, state.timer[i].what)


@inner
def voq_of(net, came_in, out, vl):
    """Return the queue of input ``came_in`` for ``vl`` of ``out``, two ports of one switch."""
    vls = net.opt.vls
    return np.int64(net.port[out].voq) + np.int64(net.port[came_in].num) * vls + vl


@inner
def unlink_last(net, state, out, vl, voq):
    """Remove the last packet of ``voq`` and return it."""
    row = out * net.opt.vls + vl
    k = np.int64(state.voq[voq].tail)
    state.vl[row].queued -= blocks_of(state.packet[k].octets)
    at = np.int64(state.voq[voq].head)
    if at != k:
        while state.packet[at].next != k:
            at = np.int64(state.packet[at].next)
        state.packet[at].next = 0
        state.voq[voq].tail = at
        return k
    state.voq[voq].head = 0
    before = state.vl[row].ring - 1
    while state.voq[before].next - 1 != voq:
        before = np.int64(state.voq[before].next) - 1
    if before == voq:
        state.vl[row].ring = 0
        state.port[out].ready &= ~(np.int64(1) << vl)
    else:
        state.voq[before].next = state.voq[voq].next
        if state.vl[row].ring == voq + 1:
            state.vl[row].ring = before + 1
    return k


@inner
def cut_arriving(net, state, port, now):
    """Drop the packet that was arriving at switch port ``port``, with its head already in a queue."""
    base = np.int64(net.port[port].port_0)
    for out in range(base, base + net.port[port].ports):
        for vl in range(net.opt.vls):
            voq = voq_of(net, port, out, vl)
            if state.voq[voq].head and state.packet[state.voq[voq].tail].tail - net.port[port].latency_ps > now:
                k = unlink_last(net, state, out, vl, voq)
                if state.packet[k].marks & COPY:
                    copy_leaves(net, state, k, now)
                if net.watch_port.shape[0]:
                    log_lost(net, state, port, k, INACTIVE, now)
                lose(state, k)
                state.smi[port].cut += 1


@inner
def flush(net, state, port, dead, now):
    """Discard the packets that wait for ``port`` of a switch (PortXmitDiscards; a switch without
    power does not count)."""
    for vl in range(net.opt.vls):
        row = port * net.opt.vls + vl
        while state.vl[row].ring:
            k = take_first(net, state, port, vl, row, first_voq(state, row), now)
            state.packet[k].next = 0
            leaves_input(net, state, k, max(now, state.packet[k].tail))
            if dead:
                state.smi[port].cut += 1
            else:
                state.port[port].inactive += 1
            if net.watch_port.shape[0]:
                log_lost(net, state, port, k, INACTIVE, now)
            lose(state, k)


@inner
def flush_vl15(net, state, port, dead):
    """Discard the packets on VL15 that wait for ``port`` of a switch."""
    while state.smi[port].head:
        k = state.smi[port].head
        state.smi[port].head = state.packet[k].next
        leave_buffer(state, k)
        if dead:
            state.smi[port].cut += 1
        else:
            state.port[port].inactive += 1
        lose_mad(state, k)
    state.port[port].ready &= ~np.int64(VL15_READY)


@inner
def no_credits(net, state, port):
    """Remove credits and flow-control packets of ``port``; an end port needs none for packets that
    it discards."""
    for vl in range(net.opt.vls):
        row = port * net.opt.vls + vl
        while state.vl[row].credits:
            forget_credit(state, row, np.int64(state.vl[row].credits))
        state.vl[row].first_blocks = 0
        state.vl[row].second_blocks = 0
        state.vl[row].fctbs = 0
        state.vl[row].fccl = WINDOW if net.port[port].kind == END_PORT else 0
        state.vl[row].waits &= ~STARVED
    state.port[port].debt = 0
    state.arbiter[port].drained = 0


@kernel
def links_down(net, state, change, now):
    """Take down, at ``now``, the links of the ports marked in ``change`` (uint8[ports]): DOWN, or
    DEAD for a node without power. ``Net.port`` and ``Net.wire`` must no longer have peers for these
    ports."""
    cut_events(net, state, change, now)
    for port in range(len(change)):
        if change[port] and of_switch(net, port):
            cut_arriving(net, state, port, now)
    for port in range(len(change)):
        if change[port] == 0:
            continue
        if of_switch(net, port):
            flush(net, state, port, change[port] == DEAD, now)
        flush_vl15(net, state, port, change[port] == DEAD)
        if net.port[port].peer != port:
            no_credits(net, state, port)
        if change[port] == DEAD:
            state.smi[port].busy = 0
        if state.port[port].ready:
            arm(state, port, now)


@inner
def held_blocks(net, state, port, vl):
    """Return the number of blocks that packets hold in the receive buffer of ``vl`` of switch port
    ``port``; copies of one multicast packet count once."""
    held = np.int64(0)
    base = np.int64(net.port[port].port_0)
    for marks in range(2):  # the first pass marks the packets whose copies wait, the second pass removes the marks
        for out in range(base, base + net.port[port].ports):
            for level in range(net.opt.vls):
                k = np.int64(state.voq[voq_of(net, port, out, level)].head)
                while k:
                    held += (
                        blocks_of(state.packet[k].octets)
                        if holds_place(state, k, marks) and state.packet[k].vl == vl
                        else 0
                    )
                    k = np.int64(state.packet[k].next)
    return held


@inner
def holds_place(state, k, marks):
    """Return whether packet ``k`` counts as buffer space. Of several copies of one packet only the first one visited
    counts; in the second pass, which removes the marks, none counts."""
    if state.packet[k].marks & COPY == 0:
        return marks == 0
    whole = state.packet[k].behind
    first = marks == 0 and state.packet[whole].behind == 0
    state.packet[whole].behind = 1 - marks
    return first


@kernel
def link_up(net, state, port, now):
    """Bring up the link of ``port`` for data at ``now``: its peer grants the free space of its
    receive buffers (IBA chapter 7, flow control)."""
    no_credits(net, state, port)
    peer = np.int64(net.port[port].peer)
    for vl in range(net.opt.vls):
        held = held_blocks(net, state, peer, vl) if of_switch(net, peer) else np.int64(0)
        state.vl[port * net.opt.vls + vl].fccl = net.rare[peer].blocks - held
    if state.port[port].ready:
        arm(state, port, now)


@kernel
def post_mad(net, state, port, row, dlid, level, vl, now):
    """Send the MAD in ``row`` from end port ``port``: on VL15 (``vl`` 15, or -1: to itself by LID)
    or on data VL ``vl``."""
    if vl < 0 or vl == 15:
        look = post_smp(net, state, port, row, dlid, vl < 0, now)
    else:
        look = post_gmp(net, state, port, row, dlid, level, vl)
    if look >= 0:
        arm(state, look, now)
