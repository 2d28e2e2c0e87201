# mypy: ignore-errors
"""Mail between the parts of a run on several cores: packets, credits and arrivals for ports of another part (:mod:`~.windows`).

A part writes into its own box, one of two: while the others still read what it wrote in the window before, it fills the other.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.kernels.events import word
from softib.sim.packet.kernels.pools import free_packet
from softib.sim.packet.tables import (
    ABOUT,
    EVERYBODY,
    FOR_PART,
    IN_NETWORK,
    LETTER,
    MAIL_FIRST,
    MAILED,
    OF_ARRIVAL,
    OF_CREDIT,
    OF_EVENT,
    OF_PACKET,
    PACKET_AT,
    PACKET_COLUMNS,
    PART,
    PART_OF,
    ROUND,
    WHEN,
)  # fmt: skip


@inner
def write_letter(s, part, letter, t, about):
    """A letter of kind ``letter`` for ``part``; returns its row."""
    i = s.reg[MAILED]
    me, box = s.reg[PART], s.reg[ROUND] & 1
    s.reg[MAILED] = i + 1
    s.reg[MAIL_FIRST] = min(s.reg[MAIL_FIRST], t)
    s.mail[me, box, i, FOR_PART] = part
    s.mail[me, box, i, LETTER] = letter
    s.mail[me, box, i, WHEN] = t
    s.mail[me, box, i, ABOUT] = about
    return i


@inner
def mail_packet(n, s, port, kind, k, t):
    """Packet ``k`` is on its way to ``port``, in another part, where event ``kind`` waits for it at ``t``: its header is through the switch."""
    me, box = s.reg[PART], s.reg[ROUND] & 1
    i = write_letter(s, n.rare[port, PART_OF], OF_PACKET, t, word(port, kind, 0))
    for column in range(PACKET_COLUMNS):
        s.mail[me, box, i, PACKET_AT + column] = s.when[k, column]
    free_packet(s, k)
    s.reg[IN_NETWORK] += 1  # in the network it still is


@inner
def mail_event(n, s, port, what, t):
    """``what`` happens at ``t`` at ``port``, in another part; it is in the network until then."""
    write_letter(s, n.rare[port, PART_OF], OF_EVENT, t, what)


@inner
def mail_credit(n, s, sender, row, blocks, t):
    """Credits of ``blocks`` reach port VL ``row`` of ``sender``, in another part, at ``t``."""
    write_letter(s, n.rare[sender, PART_OF], OF_CREDIT, t, row << 16 | blocks)


@inner
def mail_arrival(s, m, t):
    """Message ``m`` arrived at ``t``: others may wait for it anywhere."""
    write_letter(s, np.int64(EVERYBODY), OF_ARRIVAL, t, m)
