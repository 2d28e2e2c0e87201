# mypy: ignore-errors
"""Priority flow control (IEEE 802.1Qbb, 802.1Q clause 36): an ingress port whose share of the buffer is used up asks the other end of its
link to pause a priority.

Octets count for the port that they came in by until they leave the switch. Above XOFF a pause frame goes back with the most quanta
(65,535 of 512 bit times); it waits for the frame that is being sent, crosses the cable, and takes the other end its reaction time.
Headroom above XOFF holds what comes meanwhile. Half of the quanta later the frame is sent again; at XON one with 0 quanta ends the pause. So
a pause never runs out while its cause lasts, and the sender waits for the end alone. A pause frame under way, and a pause that an adapter has to end, are in the network:
a run is not over before.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import END_PORT, ETHERNET_TIMER, MILLION, PAUSE_FRAME
from softib.sim.packet.kernels.engine.events import push, push_timer, word
from softib.sim.packet.kernels.link.credits import wire_ps

PAUSE_OCTETS = 84
"""A MAC control frame of 64 octets, preamble and gap of 20 (IEEE 802.3 clause 31)."""


@inner
def ask(n, s, port, vl, pauses, now):
    """``port`` sends a pause frame for ``vl`` (or one that ends a pause) to the other end of its link."""
    row = port * n.opt.vls + vl
    s.queue[row].xoff_sent = pauses
    s.queue[row].pauses_sent += 1
    end = max(now, s.port[port].free_at) + wire_ps(n, port, np.int64(PAUSE_OCTETS))
    s.port[port].free_at = end
    peer, at = np.int64(n.port[port].peer), end + n.port[port].delay_ps + n.ethernet.pfc_reaction_ps
    s.reg.in_network += 1
    push(s, at, word(peer, PAUSE_FRAME, vl << 1 | pauses))
    if pauses:
        s.queue[row].refresh_at = now + n.buffer[port].refresh_ps
        push_timer(s, s.queue[row].refresh_at, word(port, ETHERNET_TIMER, vl))


@inner
def refresh(n, s, port, vl, now):
    """A pause that still lasts is asked for again."""
    row = port * n.opt.vls + vl
    if s.queue[row].xoff_sent and s.queue[row].refresh_at == now:
        ask(n, s, port, vl, np.int64(1), now)


@inner
def dynamic_threshold(n, s, port):
    """What one queue of the switch of ``port`` may hold: a share of what is free (Choudhury and Hahne, 1998)."""
    used = s.queue[n.port[port].port_0 * n.opt.vls].egress
    return max(n.buffer[port].shared - used, np.int64(0)) * n.ethernet.share // MILLION


@inner
def xoff_of(n, s, port):
    """Octets above which ``port`` asks for a pause."""
    fixed = n.buffer[port].xoff
    return fixed if fixed else dynamic_threshold(n, s, port)


@inner
def has_room(n, s, port, vl, octets):
    """May ``octets`` more that came in by ``port`` be kept? Once it asked for a pause only the headroom is left."""
    row = port * n.opt.vls + vl
    return (
        not s.queue[row].xoff_sent
        or s.queue[row].ingress + octets <= s.queue[row].xoff_ingress + n.buffer[port].headroom
    )


@inner
def came_in(n, s, port, vl, octets, now):
    """``octets`` that came in by ``port`` are in the buffer."""
    row = port * n.opt.vls + vl
    held = s.queue[row].ingress + octets
    s.queue[row].ingress = held
    s.queue[row].peak_ingress = max(s.queue[row].peak_ingress, held)
    if n.ethernet.pfc and not s.queue[row].xoff_sent and held > xoff_of(n, s, port):
        s.queue[row].xoff_ingress = held
        ask(n, s, port, vl, np.int64(1), now)


@inner
def went_out(n, s, port, vl, octets, now):
    """``octets`` that came in by ``port`` leave the buffer."""
    row = port * n.opt.vls + vl
    s.queue[row].ingress -= octets
    if s.queue[row].xoff_sent and s.queue[row].ingress <= max(
        xoff_of(n, s, port) - n.buffer[port].xon_gap, np.int64(0)
    ):
        ask(n, s, port, vl, np.int64(0), now)


@inner
def pause_frame(n, s, port, payload, now):
    """A pause frame is obeyed at ``port``. Returns the port to look at, -1 where it must wait."""
    row = port * n.opt.vls + (payload >> 1)
    s.reg.in_network -= 1
    s.queue[row].pauses_received += 1
    since = s.queue[row].paused
    if payload & 1:
        if since == 0:
            s.queue[row].paused = now + 1
        return np.int64(-1)
    if since:
        s.queue[row].paused_ps += now + 1 - since
        s.queue[row].paused = 0
    return np.int64(port)


@inner
def not_paused(s, row, octets):
    """May a packet be sent on port VL ``row``? (takes the place of the test for credits)"""
    return s.queue[row].paused == 0


@inner
def nobody_waits(s, port, row):
    """Takes the place of waiting for credits: the end of a pause is an event."""


@inner
def nothing_to_take(s, row, now):
    """Takes the place of taking credits."""


@inner
def received(n, s, port, vl, octets, t):
    """An adapter has a packet that is in memory at ``t`` (takes the place of granting credits): its own buffer may fill."""
    if n.port[port].kind != END_PORT or not n.ethernet.pfc or n.opt.rx_fs == 0 or n.port[port].peer == port:
        return
    row = port * n.opt.vls + vl
    now = s.reg.now
    held = (t - now) * 1000 // n.opt.rx_fs
    s.queue[row].peak_ingress = max(s.queue[row].peak_ingress, held)
    if held > n.buffer[port].xoff and not s.queue[row].xoff_sent:
        ask(n, s, port, vl, np.int64(1), now)
        s.reg.in_network += 1  # until the pause has its end
        push(
            s,
            t - (n.buffer[port].xoff - n.buffer[port].xon_gap) * n.opt.rx_fs // 1000,
            word(port, ETHERNET_TIMER, 8 + vl),
        )


@inner
def drained(n, s, port, vl, now):
    """The adapter's buffer was to be down to XON by now: it ends the pause, or looks again."""
    row = port * n.opt.vls + vl
    at = s.port[port].rx_free - (n.buffer[port].xoff - n.buffer[port].xon_gap) * n.opt.rx_fs // 1000
    if at > now:
        push(s, at, word(port, ETHERNET_TIMER, 8 + vl))
        return
    s.reg.in_network -= 1
    if s.queue[row].xoff_sent:
        ask(n, s, port, vl, np.int64(0), now)


@inner
def roce_event(n, s, port, kind, payload, now):
    """A pause frame, or the time to send one again. Returns the port to look at, -1 for none."""
    if kind == PAUSE_FRAME:
        return pause_frame(n, s, port, payload, now)
    if payload < 8:
        refresh(n, s, port, payload, now)
    else:
        drained(n, s, port, payload - 8, now)
    return np.int64(-1)
