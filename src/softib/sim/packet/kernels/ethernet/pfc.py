"""Priority flow control (IEEE 802.1Qbb, 802.1Q clause 36): an ingress port that has used its share
of the buffer asks the other end of its link to pause a priority. Bytes count towards their ingress port until they
leave the switch. Above XOFF, the port sends a pause frame with the largest number of quanta (65,535, each of 512 bit
times). The pause frame waits for the frame that is being sent, crosses the cable, and takes effect after the other
end's reaction time. Headroom above XOFF holds the bytes that arrive until then. After half of the quanta the pause
frame is repeated; at XON, a frame with 0 quanta ends the pause. So a pause never expires while its cause lasts, and the
paused sender waits until a frame ends the pause. A run does not end while a pause frame is in transit, or while an
adapter still has to end a pause.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import END_PORT, ETHERNET_TIMER, MILLION, PAUSE_FRAME
from softib.sim.packet.kernels.engine.events import push, push_timer, word
from softib.sim.packet.kernels.link.credits import wire_ps

PAUSE_OCTETS = 84
"""Bytes of a pause frame on the wire: a MAC control frame of 64, preamble and gap of 20 (IEEE 802.3 clause 31)."""


@inner
def ask(net, state, port, vl, pauses, now):
    """Send a pause frame for ``vl`` (or one that ends a pause) from ``port`` to the other end of
    its link."""
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
    """Repeat the request for a pause that is still needed."""
    row = port * net.opt.vls + vl
    if state.queue[row].xoff_sent and state.queue[row].refresh_at == now:
        ask(net, state, port, vl, np.int64(1), now)


@inner
def dynamic_threshold(net, state, port):
    """Return the largest length in bytes of one queue in the switch of ``port``: a share of the free buffer (Choudhury
    and Hahne, 1998)."""
    used = state.queue[net.port[port].port_0 * net.opt.vls].egress
    return max(net.buffer[port].shared - used, np.int64(0)) * net.ethernet.share // MILLION


@inner
def xoff_of(net, state, port):
    """Return the number of bytes above which ``port`` requests a pause."""
    fixed = net.buffer[port].xoff
    return fixed if fixed else dynamic_threshold(net, state, port)


@inner
def has_room(net, state, port, vl, octets):
    """Return whether there is room for ``octets`` more bytes from ``port``. After the port has
    requested a pause, only the headroom is left."""
    row = port * net.opt.vls + vl
    return (
        not state.queue[row].xoff_sent
        or state.queue[row].ingress + octets <= state.queue[row].xoff_ingress + net.buffer[port].headroom
    )


@inner
def came_in(net, state, port, vl, octets, now):
    """Add ``octets`` bytes that entered through ``port`` to the buffer's count."""
    row = port * net.opt.vls + vl
    held = state.queue[row].ingress + octets
    state.queue[row].ingress = held
    state.queue[row].peak_ingress = max(state.queue[row].peak_ingress, held)
    if net.ethernet.pfc and not state.queue[row].xoff_sent and held > xoff_of(net, state, port):
        state.queue[row].xoff_ingress = held
        ask(net, state, port, vl, np.int64(1), now)


@inner
def went_out(net, state, port, vl, octets, now):
    """Subtract ``octets`` bytes that entered through ``port`` from the buffer's count."""
    row = port * net.opt.vls + vl
    state.queue[row].ingress -= octets
    if state.queue[row].xoff_sent and state.queue[row].ingress <= max(
        xoff_of(net, state, port) - net.buffer[port].xon_gap, np.int64(0)
    ):
        ask(net, state, port, vl, np.int64(0), now)


@inner
def pause_frame(net, state, port, payload, now):
    """Apply a pause frame at ``port``. Returns the port to check, -1 if it must wait."""
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
    """Return whether a packet may be sent on port VL ``row`` (replaces the test for credits)."""
    return state.queue[row].paused == 0


@inner
def nobody_waits(state, port, row):
    """Replaces the kernel that waits for credits. It does nothing, because the end of a pause has an event."""


@inner
def nothing_to_take(state, row, now):
    """Replaces the kernel that takes credits. It does nothing."""


@inner
def received(net, state, port, vl, octets, t):
    """Replaces the kernel that grants credits: an adapter has received a packet that is in memory at ``t``; until then
    it occupies the adapter's buffer."""
    if net.port[port].kind != END_PORT or not net.ethernet.pfc or net.opt.rx_fs == 0 or net.port[port].peer == port:
        return
    row = port * net.opt.vls + vl
    now = state.reg.now
    held = (t - now) * 1000 // net.opt.rx_fs
    state.queue[row].peak_ingress = max(state.queue[row].peak_ingress, held)
    if held > net.buffer[port].xoff and not state.queue[row].xoff_sent:
        ask(net, state, port, vl, np.int64(1), now)
        state.reg.in_network += 1  # a pause ends later, so the run must not end before
        push(
            state,
            t - (net.buffer[port].xoff - net.buffer[port].xon_gap) * net.opt.rx_fs // 1000,
            word(port, ETHERNET_TIMER, 8 + vl),
        )


@inner
def drained(net, state, port, vl, now):
    """Handle the time at which the adapter's buffer should be down to XON: end the pause, or check again later."""
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
    """Handle a pause frame, or the time to repeat one. Returns the port to check, -1 for none."""
    if kind == PAUSE_FRAME:
        return pause_frame(net, state, port, payload, now)
    if payload < 8:
        refresh(net, state, port, payload, now)
    else:
        drained(net, state, port, payload - 8, now)
    return np.int64(-1)
