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
from softib.sim.packet.ethernet_tables import (
    EGRESS,
    ETHERNET_TIMER,
    HEADROOM,
    INGRESS,
    MILLION,
    PAUSE_FRAME,
    PAUSED,
    PAUSED_PS,
    PAUSES_RECEIVED,
    PAUSES_SENT,
    PEAK_INGRESS,
    PFC,
    PFC_REACTION_PS,
    REFRESH_AT,
    REFRESH_PS,
    SHARE,
    SHARED,
    XOFF,
    XOFF_INGRESS,
    XOFF_SENT,
    XON_GAP,
)
from softib.sim.packet.kernels.events import push, push_timer, word
from softib.sim.packet.kernels.links import wire_ps
from softib.sim.packet.tables import (
    BASE,
    DELAY,
    END_PORT,
    FREE,
    IN_NETWORK,
    KIND,
    NOW,
    OPT_VLS,
    PEER,
    RX_FREE,
    RX_FS,
)

PAUSE_OCTETS = 84
"""A MAC control frame of 64 octets, preamble and gap of 20 (IEEE 802.3 clause 31)."""


@inner
def ask(n, s, port, vl, pauses, now):
    """``port`` sends a pause frame for ``vl`` (or one that ends a pause) to the other end of its link."""
    row = port * n.opt[OPT_VLS] + vl
    s.queue[row, XOFF_SENT] = pauses
    s.queue[row, PAUSES_SENT] += 1
    end = max(now, s.port[port, FREE]) + wire_ps(n, port, np.int64(PAUSE_OCTETS))
    s.port[port, FREE] = end
    peer, at = np.int64(n.port[port, PEER]), end + n.port[port, DELAY] + n.ethernet[PFC_REACTION_PS]
    s.reg[IN_NETWORK] += 1
    push(s, at, word(peer, PAUSE_FRAME, vl << 1 | pauses))
    if pauses:
        s.queue[row, REFRESH_AT] = now + n.buffer[port, REFRESH_PS]
        push_timer(s, s.queue[row, REFRESH_AT], word(port, ETHERNET_TIMER, vl))


@inner
def refresh(n, s, port, vl, now):
    """A pause that still lasts is asked for again."""
    row = port * n.opt[OPT_VLS] + vl
    if s.queue[row, XOFF_SENT] and s.queue[row, REFRESH_AT] == now:
        ask(n, s, port, vl, np.int64(1), now)


@inner
def dynamic_threshold(n, s, port):
    """What one queue of the switch of ``port`` may hold: a share of what is free (Choudhury and Hahne, 1998)."""
    used = s.queue[n.port[port, BASE] * n.opt[OPT_VLS], EGRESS]
    return max(n.buffer[port, SHARED] - used, np.int64(0)) * n.ethernet[SHARE] // MILLION


@inner
def xoff_of(n, s, port):
    """Octets above which ``port`` asks for a pause."""
    fixed = n.buffer[port, XOFF]
    return fixed if fixed else dynamic_threshold(n, s, port)


@inner
def has_room(n, s, port, vl, octets):
    """May ``octets`` more that came in by ``port`` be kept? Once it asked for a pause only the headroom is left."""
    row = port * n.opt[OPT_VLS] + vl
    return (
        not s.queue[row, XOFF_SENT]
        or s.queue[row, INGRESS] + octets <= s.queue[row, XOFF_INGRESS] + n.buffer[port, HEADROOM]
    )


@inner
def came_in(n, s, port, vl, octets, now):
    """``octets`` that came in by ``port`` are in the buffer."""
    row = port * n.opt[OPT_VLS] + vl
    held = s.queue[row, INGRESS] + octets
    s.queue[row, INGRESS] = held
    s.queue[row, PEAK_INGRESS] = max(s.queue[row, PEAK_INGRESS], held)
    if n.ethernet[PFC] and not s.queue[row, XOFF_SENT] and held > xoff_of(n, s, port):
        s.queue[row, XOFF_INGRESS] = held
        ask(n, s, port, vl, np.int64(1), now)


@inner
def went_out(n, s, port, vl, octets, now):
    """``octets`` that came in by ``port`` leave the buffer."""
    row = port * n.opt[OPT_VLS] + vl
    s.queue[row, INGRESS] -= octets
    if s.queue[row, XOFF_SENT] and s.queue[row, INGRESS] <= max(
        xoff_of(n, s, port) - n.buffer[port, XON_GAP], np.int64(0)
    ):
        ask(n, s, port, vl, np.int64(0), now)


@inner
def pause_frame(n, s, port, payload, now):
    """A pause frame is obeyed at ``port``. Returns the port to look at, -1 where it must wait."""
    row = port * n.opt[OPT_VLS] + (payload >> 1)
    s.reg[IN_NETWORK] -= 1
    s.queue[row, PAUSES_RECEIVED] += 1
    since = s.queue[row, PAUSED]
    if payload & 1:
        if since == 0:
            s.queue[row, PAUSED] = now + 1
        return np.int64(-1)
    if since:
        s.queue[row, PAUSED_PS] += now + 1 - since
        s.queue[row, PAUSED] = 0
    return np.int64(port)


@inner
def not_paused(s, row, octets):
    """May a packet be sent on port VL ``row``? (takes the place of the test for credits)"""
    return s.queue[row, PAUSED] == 0


@inner
def nobody_waits(s, port, row):
    """Takes the place of waiting for credits: the end of a pause is an event."""


@inner
def nothing_to_take(s, row, now):
    """Takes the place of taking credits."""


@inner
def received(n, s, port, vl, octets, t):
    """An adapter has a packet that is in memory at ``t`` (takes the place of granting credits): its own buffer may fill."""
    if n.port[port, KIND] != END_PORT or not n.ethernet[PFC] or n.opt[RX_FS] == 0 or n.port[port, PEER] == port:
        return
    row = port * n.opt[OPT_VLS] + vl
    now = s.reg[NOW]
    held = (t - now) * 1000 // n.opt[RX_FS]
    s.queue[row, PEAK_INGRESS] = max(s.queue[row, PEAK_INGRESS], held)
    if held > n.buffer[port, XOFF] and not s.queue[row, XOFF_SENT]:
        ask(n, s, port, vl, np.int64(1), now)
        s.reg[IN_NETWORK] += 1  # until the pause has its end
        push(
            s,
            t - (n.buffer[port, XOFF] - n.buffer[port, XON_GAP]) * n.opt[RX_FS] // 1000,
            word(port, ETHERNET_TIMER, 8 + vl),
        )


@inner
def drained(n, s, port, vl, now):
    """The adapter's buffer was to be down to XON by now: it ends the pause, or looks again."""
    row = port * n.opt[OPT_VLS] + vl
    at = s.port[port, RX_FREE] - (n.buffer[port, XOFF] - n.buffer[port, XON_GAP]) * n.opt[RX_FS] // 1000
    if at > now:
        push(s, at, word(port, ETHERNET_TIMER, 8 + vl))
        return
    s.reg[IN_NETWORK] -= 1
    if s.queue[row, XOFF_SENT]:
        ask(n, s, port, vl, np.int64(0), now)
