# mypy: ignore-errors
"""What packets did, as rows: for captures (``--pcap``) and timelines (``--trace``).

Off, ``Net.watch_port`` is empty and each hook is one comparison. On, the packets of watched ports and of watched queue pairs are
written down when they are sent (MADs with all their octets), are whole at an end port or are lost, and watched ports when a VL lacks credits. A row holds what is known
at its own node; rows of several nodes are put in order by their time and port afterwards, never by their place here.
"""

import numpy as np

from softib.iba.constants import MAD_SIZE
from softib.jit import inner
from softib.sim.packet.constants import (
    LOG_LOST,
    LOG_MAD,
    LOG_MAD_ROWS,
    LOG_MAD_WORDS,
    LOG_RECEIVED,
    LOG_SENT,
    LOG_STARVED,
    SMP,
    VL15,
)


@inner
def watched(n, s, port, k):
    """Is packet ``k`` at ``port`` to be written down?"""
    q = np.int64(s.packet[k].stream) >> 1
    of_qp = s.packet[k].kind < SMP and q < n.watch_qp.shape[0] and n.watch_qp[q] != 0
    return n.watch_port[port] != 0 or of_qp


@inner
def new_row(s, kind, port, now):
    """A new row of the log, with its first columns."""
    row = s.reg.log_rows + 1
    s.reg.log_rows = row
    s.log[row].place = np.int64(port) << 4 | kind
    s.log[row].now = now
    return row


@inner
def describe(s, row, k, vl):
    """Write packet ``k`` into the columns of its fields."""
    stream, psn = np.int64(s.packet[k].stream), np.int64(s.packet[k].psn)
    if s.packet[k].kind >= SMP:
        stream, psn = np.int64(-1), np.int64(0)
    s.log[row].flow = stream << 32 | (psn & 0xFFFFFFFF)
    s.log[row].fields = (
        np.int64(s.packet[k].octets)
        | np.int64(s.packet[k].dlid) << 16
        | np.int64(s.packet[k].sl) << 32
        | np.int64(vl) << 36
        | np.int64(s.packet[k].kind) << 40
        | np.int64(s.packet[k].marks) << 48
    )
    s.log[row].came_in = s.packet[k].came_in


@inner
def log_sent(n, s, port, vl, k, now, start, end):
    """``port`` decides at ``now`` to send packet ``k`` on ``vl``: from ``start`` on, until its last octet has left at ``end``. An end port whose
    link is down sends nothing (it discards: IBA chapter 7, link states)."""
    if watched(n, s, port, k) and (vl == VL15 or n.port[port].peer >= 0):
        row = new_row(s, LOG_SENT, port, now)
        describe(s, row, k, vl)
        s.log[row].start = start
        s.log[row].end = end
        s.log[row].entered = s.packet[k].entered
        if s.packet[k].kind >= SMP:
            s.log[row].entered = s.mad_row[s.packet[k].psn].slid
            write_mad(s, port, now, s.packet[k].psn)


@inner
def write_mad(s, port, now, mad):
    """The octets of the MAD in row ``mad``, as they are now, in rows behind that of its packet; the first octet is the lowest of a number."""
    at = 0
    for _ in range(LOG_MAD_ROWS):
        row = new_row(s, LOG_MAD, port, now)
        for word in range(LOG_MAD_WORDS):
            octets = np.int64(0)
            for i in range(8):
                if at < MAD_SIZE:
                    octets |= np.int64(s.mad[mad, at]) << 8 * i
                at += 1
            s.log[row].words[word] = octets


@inner
def log_received(n, s, port, k, now, in_memory, written):
    """Packet ``k`` is whole at end port ``port``; it has left the receive buffer at ``in_memory`` and is in memory at ``written``."""
    if watched(n, s, port, k):
        row = new_row(s, LOG_RECEIVED, port, now)
        describe(s, row, k, s.packet[k].vl)
        s.log[row].start = in_memory
        s.log[row].end = written


@inner
def log_lost(n, s, port, k, reason, now):
    """Packet ``k`` is lost at ``port`` for ``reason``."""
    if watched(n, s, port, k):
        row = new_row(s, LOG_LOST, port, now)
        describe(s, row, k, s.packet[k].vl)
        s.log[row].start = reason


@inner
def log_starved(n, s, port, vl, now):
    """VL ``vl`` of ``port`` has a packet and no credits for it."""
    if n.watch_port[port] != 0:
        row = new_row(s, LOG_STARVED, port, now)
        s.log[row].fields = np.int64(vl) << 36
