"""Priority flow control (IEEE 802.1Qbb, 802.1Q clause 36): an ingress port whose share of the
buffer is used up asks the other end of its link to pause a priority.

Bytes count for the port that they came in by until they leave the switch. Above XOFF a pause frame
goes back with the most quanta (65,535 of 512 bit times); it waits for the frame that is being sent,
crosses the cable, and takes the other end its reaction time. Headroom above XOFF holds what comes
meanwhile. Half of the quanta later the frame is sent again; at XON one with 0 quanta ends the
pause. So a pause never runs out while its cause lasts, and the sender waits for the end alone. A
pause frame under way, and a pause that an adapter has to end, are in the network: a run is not over
before.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import END_PORT, ETHERNET_TIMER, MILLION, PAUSE_FRAME
from softib.sim.packet.kernels.engine.events import push, push_timer, word
from softib.sim.packet.kernels.link.credits import wire_ps

PAUSE_OCTETS = 84
"""A MAC control frame of 64 bytes, preamble and gap of 20 (IEEE 802.3 clause 31)."""


@inner
def ask(net, state, port, vl, pauses, now):
    """``port`` sends a pause frame for ``vl`` (or one that ends a pause) to the other end of its
    link."""
    row = port * net.opt.vls + vl
    state.queue[row].xoff_sent = pauses
    state.queue[row].pauses_sent += 1
    end = max(now, state.port[port].free_at) + wire_ps(net, port, np.int64(PAUSE_OCTETS))
    state.port[port].free_at = end
    peer, at = np.int64(net.port[port].peer), end + net.port[port].delay_ps + net.ethernet.pfc_reaction_ps
    state.reg.in_network += 1
    push(state, at, word(peer, PAUSE_FRAME, vl << 1 | pauses))
    if pauses:
        state.queue[row].refresh_at = now + net.buffer[port].refresh_ps
        push_timer(state, state.queue[row].refresh_at, word(port, ETHERNET_TIMER, vl))


@inner
def refresh(net, state, port, vl, now):
    """A pause that still lasts is asked for again."""
    row = port * net.opt.vls + vl
    if state.queue[row].xoff_sent and state.queue[row].refresh_at == now:
        ask(net, state, port, vl, np.int64(1), now)


@inner
def dynamic_threshold(net, state, port):
    """What one queue of the switch of ``port`` may hold: a share of what is free (Choudhury and
    Hahne, 1998)."""
    used = state.queue[net.port[port].port_0 * net.opt.vls].egress
    return max(net.buffer[port].shared - used, np.int64(0)) * net.ethernet.share // MILLION


@inner
def xoff_of(net, state, port):
    """Octets above which ``port`` asks for a pause."""
    fixed = net.buffer[port].xoff
    return fixed if fixed else dynamic_threshold(net, state, port)


@inner
def has_room(net, state, port, vl, octets):
    """May ``octets`` more that came in by ``port`` be kept? Once it asked for a pause only the
    headroom is left."""
    row = port * net.opt.vls + vl
    return (
        not state.queue[row].xoff_sent
        or state.queue[row].ingress + octets <= state.queue[row].xoff_ingress + net.buffer[port].headroom
    )


@inner
def came_in(net, state, port, vl, octets, now):
    """``octets`` that came in by ``port`` are in the buffer."""
    row = port * net.opt.vls + vl
    held = state.queue[row].ingress + octets
    state.queue[row].ingress = held
    state.queue[row].peak_ingress = max(state.queue[row].peak_ingress, held)
    if net.ethernet.pfc and not state.queue[row].xoff_sent and held > xoff_of(net, state, port):
        state.queue[row].xoff_ingress = held
        ask(net, state, port, vl, np.int64(1), now)


@inner
def went_out(net, state, port, vl, octets, now):
    """``octets`` that came in by ``port`` leave the buffer."""
    row = port * net.opt.vls + vl
    state.queue[row].ingress -= octets
    if state.queue[row].xoff_sent and state.queue[row].ingress <= max(
        xoff_of(net, state, port) - net.buffer[port].xon_gap, np.int64(0)
    ):
        ask(net, state, port, vl, np.int64(0), now)


@inner
def pause_frame(net, state, port, payload, now):
    """A pause frame is obeyed at ``port``. Returns the port to look at, -1 where it must wait."""
    row = port * net.opt.vls + (payload >> 1)
    state.reg.in_network -= 1
    state.queue[row].pauses_received += 1
    since = state.queue[row].paused
    if payload & 1:
        if since == 0:
            state.queue[row].paused = now + 1
        return np.int64(-1)
    if since:
        state.queue[row].paused_ps += now + 1 - since
        state.queue[row].paused = 0
    return np.int64(port)


@inner
def not_paused(state, row, octets):
    """May a packet be sent on port VL ``row``? (takes the place of the test for credits)"""
    return state.queue[row].paused == 0


@inner
def nobody_waits(state, port, row):
    """Takes the place of waiting for credits: the end of a pause is an event."""


@inner
def nothing_to_take(state, row, now):
    """Takes the place of taking credits."""


@inner
def received(net, state, port, vl, octets, t):
    """An adapter has a packet that is in memory at ``t`` (takes the place of granting credits): its
    own buffer may fill."""
    if net.port[port].kind != END_PORT or not net.ethernet.pfc or net.opt.rx_fs == 0 or net.port[port].peer == port:
        return
    row = port * net.opt.vls + vl
    now = state.reg.now
    held = (t - now) * 1000 // net.opt.rx_fs
    state.queue[row].peak_ingress = max(state.queue[row].peak_ingress, held)
    if held > net.buffer[port].xoff and not state.queue[row].xoff_sent:
        ask(net, state, port, vl, np.int64(1), now)
        state.reg.in_network += 1  # until the pause has its end
        push(
            state,
            t - (net.buffer[port].xoff - net.buffer[port].xon_gap) * net.opt.rx_fs // 1000,
            word(port, ETHERNET_TIMER, 8 + vl),
        )


@inner
def drained(net, state, port, vl, now):
    """The adapter's buffer was to be down to XON by now: it ends the pause, or looks again."""
    row = port * net.opt.vls + vl
    at = state.port[port].rx_free - (net.buffer[port].xoff - net.buffer[port].xon_gap) * net.opt.rx_fs // 1000
    if at > now:
        push(state, at, word(port, ETHERNET_TIMER, 8 + vl))
        return
    state.reg.in_network -= 1
    if state.queue[row].xoff_sent:
        ask(net, state, port, vl, np.int64(0), now)


@inner
def roce_event(net, state, port, kind, payload, now):
    """A pause frame, or the time to send one again. Returns the port to look at, -1 for none."""
    if kind == PAUSE_FRAME:
        return pause_frame(net, state, port, payload, now)
    if payload < 8:
        refresh(net, state, port, payload, now)
    else:
        drained(net, state, port, payload - 8, now)
    return np.int64(-1)
