"""Sending at a port: collect the VLs with data and credits, arbitrate, send one packet."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import (
    BAD,
    END_PORT,
    HOQ_DISCARDS,
    RCV_ERRORS,
    STARVED,
)
from softib.sim.packet.kernels.engine.packet_log import log_lost, log_starved
from softib.sim.packet.kernels.hca.hca import first_stream, send_stream
from softib.sim.packet.kernels.hca.messages import stream_octets
from softib.sim.packet.kernels.link.credits import (
    arm,
    dropped_from_buffer,
    has_credit,
    note_waiting,
    put_on_wire,
    starve,
    take_credits,
    waits_from,
    waits_no_longer,
    waits_no_more,
)
from softib.sim.packet.kernels.link.discards import known_bad, lose
from softib.sim.packet.kernels.link.lifetime_limits import await_deadline, overdue_since
from softib.sim.packet.kernels.link.vl_arbitration import account, arbitrate
from softib.sim.packet.kernels.management.smi import VL15_READY, send_smp
from softib.sim.packet.kernels.switch.switch import cross, draw_first, first_voq, forward, leaves_input, take_first


@inner
def clear_overdue(net, state, port, vl, row, now):
    """Discard overdue packets at the head of port VL ``row`` of a switch; return the VOQ whose turn
    it then is, -1 if all are empty."""
    while state.vl[row].ring:
        voq = first_voq(state, row)
        k = np.int64(state.voq[voq].head)
        lost_at = now if net.opt.lossy and known_bad(state, k, now) else overdue_since(net, state, port, row, k, now)
        if lost_at < 0:
            return voq
        take_first(net, state, port, vl, row, voq, now)
        if state.vl[row].ring:
            state.vl[row].head_since = max(lost_at, state.packet[state.voq[first_voq(state, row)].head].entered)
        if net.watch_port.shape[0]:
            log_lost(net, state, port, k, RCV_ERRORS if state.packet[k].marks & BAD else HOQ_DISCARDS, now)
        leaves_input(net, state, k, dropped_from_buffer(net, state, state.packet[k].came_in, state.packet[k].tail, now))
        lose(state, k)
    if net.opt.by_sl:
        waits_no_longer(net, state, port, row, now)
    return np.int64(-1)


@inner
def send_control(net, state, port, vl, row, now):
    """Send the first of the packets that go ahead of the port's streams: acknowledgements, congestion notices, MADs."""
    k = state.vl_more[row].control
    following = state.packet[k].next
    state.vl_more[row].control = following
    if following == 0 and state.vl[row].ring == 0:
        state.port[port].ready &= ~(np.int64(1) << vl)
    state.packet[k].next = 0
    put_on_wire(net, state, port, row, k, now)
    cross(net, state, port, vl, k, now)
    return state.packet[k].octets


@inner
def next_octets(net, state, port, vl, row, now):
    """Return the size in bytes of the packet that VL ``vl`` of ``port`` would send, 0 for none."""
    if net.port[port].kind == END_PORT:
        if state.vl_more[row].control:
            return state.packet[state.vl_more[row].control].octets
        return stream_octets(state, first_stream(state, row))
    if net.opt.random:
        draw_first(state, port, row, now)
    voq = clear_overdue(net, state, port, vl, row, now)
    if voq < 0:
        return np.int64(0)
    return state.packet[state.voq[voq].head].octets


@inner
def able_vls(net, state, port, now):
    """Return the bit mask of VLs that have a packet and credits for it. The other VLs are checked
    again when their state changes."""
    able, left = np.int64(0), state.port[port].ready
    vl = np.int64(0)
    while left >> vl:
        if left >> vl & 1:
            row = port * net.opt.vls + vl
            take_credits(state, row, now)
            octets = next_octets(net, state, port, vl, row, now)
            if octets:
                if has_credit(state, row, octets):
                    able |= np.int64(1) << vl
                    state.vl[row].waits &= ~STARVED
                else:
                    starve(state, port, row)
                    if net.watch_port.shape[0]:
                        log_starved(net, state, port, vl, now)
                    if net.port[port].kind != END_PORT:
                        await_deadline(net, state, port, row, np.int64(state.voq[first_voq(state, row)].head))
        vl += 1
    return able


@inner
def send_of(net, state, port, vl, now):
    """Send a packet of ``vl``; return its size in bytes."""
    row = port * net.opt.vls + vl
    if net.port[port].kind == END_PORT:
        if state.vl_more[row].control:
            return send_control(net, state, port, vl, row, now)
        return send_stream(net, state, port, vl, row, now)
    return forward(net, state, port, vl, row, first_voq(state, row), now)


@inner
def look(net, state, port, now):
    """Send the packets that ``port`` can send now, and schedule the next attempt."""
    if state.port[port].ready == 0:
        return
    if state.port[port].free_at > now:
        arm(state, port, state.port[port].free_at)
        if net.opt.by_sl:
            note_waiting(net, state, port, now)
        return
    if state.port[port].ready & VL15_READY:
        send_smp(net, state, port, now)
        if state.port[port].ready:
            arm(state, port, state.port[port].free_at)
        return
    able = able_vls(net, state, port, now)
    vl = np.int64(-1)
    if able:
        vl = np.int64(0) if net.opt.vls == 1 else arbitrate(net, state, port, able)
    if vl >= 0:
        octets = send_of(net, state, port, vl, now)
        if net.opt.vls > 1:
            account(net, state, port, octets)
        if state.port[port].ready:
            arm(state, port, state.port[port].free_at)
    elif state.port[port].ready:
        waits_from(state, port, now)
    else:  # all waiting packets were overdue and are discarded
        waits_no_more(net, state, port, now)
    if net.opt.by_sl:
        note_waiting(net, state, port, now)


@inner
def looks(net, state, port, now):
    """Handle an event of :func:`~softib.sim.packet.kernels.link.credits.arm`. Of several pending events of a port, only
    the one at the recorded time has an effect."""
    if state.port[port].armed == now + 1:
        state.port[port].armed = 0
        look(net, state, port, now)
