# mypy: ignore-errors
"""A port looks what it can send: VLs with data and credits, arbitration among them, one packet."""

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
from softib.sim.packet.kernels.hca.hca import send_stream
from softib.sim.packet.kernels.hca.packet_sizes import stream_octets
from softib.sim.packet.kernels.hca.streams import first_stream
from softib.sim.packet.kernels.link.credits import (
    arm,
    dropped_from_buffer,
    has_credit,
    put_on_wire,
    starve,
    take_credits,
    waits_from,
    waits_no_more,
)
from softib.sim.packet.kernels.link.discards import await_deadline, known_bad, lose, overdue_since
from softib.sim.packet.kernels.link.sl_counters import note_waiting, waits_no_longer
from softib.sim.packet.kernels.link.vl_arbitration import account, arbitrate
from softib.sim.packet.kernels.management.smi import VL15_READY, send_smp
from softib.sim.packet.kernels.switch.switch import cross, draw_first, first_voq, forward, leaves_input, take_first


@inner
def clear_overdue(n, s, port, vl, row, now):
    """Discard what is overdue at the head of port VL ``row`` of a switch; the VOQ whose turn it is then, -1 when it is empty."""
    while s.vl[row].ring:
        voq = first_voq(s, row)
        k = np.int64(s.voq[voq].head)
        lost_at = now if n.opt.lossy and known_bad(s, k, now) else overdue_since(n, s, port, row, k, now)
        if lost_at < 0:
            return voq
        take_first(n, s, port, vl, row, voq, now)
        if s.vl[row].ring:
            s.vl[row].head_since = max(lost_at, s.packet[s.voq[first_voq(s, row)].head].entered)
        if n.watch_port.shape[0]:
            log_lost(n, s, port, k, RCV_ERRORS if s.packet[k].marks & BAD else HOQ_DISCARDS, now)
        leaves_input(n, s, k, dropped_from_buffer(n, s, s.packet[k].came_in, s.packet[k].tail, now))
        lose(s, k)
    if n.opt.by_sl:
        waits_no_longer(n, s, port, row, now)
    return np.int64(-1)


@inner
def send_control(n, s, port, vl, row, now):
    """Send the first of the port's own acknowledgements."""
    k = s.vl_more[row].control
    following = s.packet[k].next
    s.vl_more[row].control = following
    if following == 0 and s.vl[row].ring == 0:
        s.port[port].ready &= ~(np.int64(1) << vl)
    s.packet[k].next = 0
    put_on_wire(n, s, port, row, k, now)
    cross(n, s, port, vl, k, now)
    return s.packet[k].octets


@inner
def next_octets(n, s, port, vl, row, now):
    """Octets of the packet that VL ``vl`` of ``port`` would send, 0 for none."""
    if n.port[port].kind == END_PORT:
        if s.vl_more[row].control:
            return s.packet[s.vl_more[row].control].octets
        return stream_octets(s, first_stream(s, row))
    if n.opt.random:
        draw_first(s, port, row, now)
    voq = clear_overdue(n, s, port, vl, row, now)
    if voq < 0:
        return np.int64(0)
    return s.packet[s.voq[voq].head].octets


@inner
def able_vls(n, s, port, now):
    """Bits of the VLs that have a packet and the credits for it. The others look again when that changes."""
    able, left = np.int64(0), s.port[port].ready
    vl = np.int64(0)
    while left >> vl:
        if left >> vl & 1:
            row = port * n.opt.vls + vl
            take_credits(s, row, now)
            octets = next_octets(n, s, port, vl, row, now)
            if octets:
                if has_credit(s, row, octets):
                    able |= np.int64(1) << vl
                    s.vl[row].waits &= ~STARVED
                else:
                    starve(s, port, row)
                    if n.watch_port.shape[0]:
                        log_starved(n, s, port, vl, now)
                    if n.port[port].kind != END_PORT:
                        await_deadline(n, s, port, row, np.int64(s.voq[first_voq(s, row)].head))
        vl += 1
    return able


@inner
def send_of(n, s, port, vl, now):
    """Send a packet of ``vl``; returns its octets."""
    row = port * n.opt.vls + vl
    if n.port[port].kind == END_PORT:
        if s.vl_more[row].control:
            return send_control(n, s, port, vl, row, now)
        return send_stream(n, s, port, vl, row, now)
    return forward(n, s, port, vl, row, first_voq(s, row), now)


@inner
def look(n, s, port, now):
    """Send what ``port`` can send now, and see to it that it looks again when it can send more."""
    if s.port[port].ready == 0:
        return
    if s.port[port].free_at > now:
        arm(s, port, s.port[port].free_at)
        if n.opt.by_sl:
            note_waiting(n, s, port, now)
        return
    if s.port[port].ready & VL15_READY:
        send_smp(n, s, port, now)
        if s.port[port].ready:
            arm(s, port, s.port[port].free_at)
        return
    able = able_vls(n, s, port, now)
    vl = np.int64(-1)
    if able:
        vl = np.int64(0) if n.opt.vls == 1 else arbitrate(n, s, port, able)
    if vl >= 0:
        octets = send_of(n, s, port, vl, now)
        if n.opt.vls > 1:
            account(n, s, port, octets)
        if s.port[port].ready:
            arm(s, port, s.port[port].free_at)
    elif s.port[port].ready:
        waits_from(s, port, now)
    else:  # what waited was overdue
        waits_no_more(n, s, port, now)
    if n.opt.by_sl:
        note_waiting(n, s, port, now)


@inner
def looks(n, s, port, now):
    """The event that :func:`~softib.sim.packet.kernels.link.credits.arm` put: of several only the one that is due counts."""
    if s.port[port].armed == now + 1:
        s.port[port].armed = 0
        look(n, s, port, now)
