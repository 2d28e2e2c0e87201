# mypy: ignore-errors
"""What packets did, as rows: for captures (``--pcap``) and timelines (``--trace``).

Off, ``Net.watch_port`` is empty and each hook is one comparison. On, the packets of watched ports and of watched queue pairs are
written down when they are sent (MADs with all their octets), are whole at an end port or are lost, and watched ports when a VL lacks credits. A row holds what is known
at its own node; rows of several nodes are put in order by their time and port afterwards, never by their place here.
"""

import numpy as np

from softib.iba.constants import MAD_SIZE
from softib.jit import inner
from softib.sim.packet.tables import (
    DLID,
    ENTERED,
    FLAGS,
    IN,
    L_CAME_IN,
    L_END,
    L_ENTERED,
    L_FIELDS,
    L_FLOW,
    L_NOW,
    L_PORT,
    L_ROWS,
    L_START,
    LEVEL,
    LOG_COLUMNS,
    LOG_LOST,
    LOG_MAD,
    LOG_MAD_AT,
    LOG_MAD_ROWS,
    LOG_RECEIVED,
    LOG_SENT,
    LOG_STARVED,
    MR_SLID,
    OCTETS,
    PEER,
    PSN,
    QP,
    SMP,
    VL,
    VL15,
    WHAT,
)  # fmt: skip


@inner
def watched(n, s, port, k):
    """Is packet ``k`` at ``port`` to be written down?"""
    q = np.int64(s.packet[k, QP]) >> 1
    of_qp = s.packet[k, WHAT] < SMP and q < n.watch_qp.shape[0] and n.watch_qp[q] != 0
    return n.watch_port[port] != 0 or of_qp


@inner
def new_row(s, kind, port, now):
    """A new row of the log, with its first columns."""
    row = s.log[0, L_ROWS] + 1
    s.log[0, L_ROWS] = row
    s.log[row, L_PORT] = np.int64(port) << 4 | kind
    s.log[row, L_NOW] = now
    return row


@inner
def describe(s, row, k, vl):
    """Write packet ``k`` into the columns of its fields."""
    stream, psn = np.int64(s.packet[k, QP]), np.int64(s.packet[k, PSN])
    if s.packet[k, WHAT] >= SMP:
        stream, psn = np.int64(-1), np.int64(0)
    s.log[row, L_FLOW] = stream << 32 | (psn & 0xFFFFFFFF)
    s.log[row, L_FIELDS] = (
        np.int64(s.packet[k, OCTETS])
        | np.int64(s.packet[k, DLID]) << 16
        | np.int64(s.packet[k, LEVEL]) << 32
        | np.int64(vl) << 36
        | np.int64(s.packet[k, WHAT]) << 40
        | np.int64(s.packet[k, FLAGS]) << 48
    )
    s.log[row, L_CAME_IN] = s.packet[k, IN]


@inner
def log_sent(n, s, port, vl, k, now, start, end):
    """``port`` decides at ``now`` to send packet ``k`` on ``vl``: from ``start`` on, until its last octet has left at ``end``. An end port whose
    link is down sends nothing (it discards: IBA chapter 7, link states)."""
    if watched(n, s, port, k) and (vl == VL15 or n.port[port, PEER] >= 0):
        row = new_row(s, LOG_SENT, port, now)
        describe(s, row, k, vl)
        s.log[row, L_START] = start
        s.log[row, L_END] = end
        s.log[row, L_ENTERED] = s.when[k, ENTERED]
        if s.packet[k, WHAT] >= SMP:
            s.log[row, L_ENTERED] = s.mad_row[s.packet[k, PSN], MR_SLID]
            write_mad(s, port, now, s.packet[k, PSN])


@inner
def write_mad(s, port, now, mad):
    """The octets of the MAD in row ``mad``, as they are now, in rows behind that of its packet; the first octet is the lowest of a number."""
    at = 0
    for _ in range(LOG_MAD_ROWS):
        row = new_row(s, LOG_MAD, port, now)
        for column in range(LOG_MAD_AT, LOG_COLUMNS):
            octets = np.int64(0)
            for i in range(8):
                if at < MAD_SIZE:
                    octets |= np.int64(s.mad[mad, at]) << 8 * i
                at += 1
            s.log[row, column] = octets


@inner
def log_received(n, s, port, k, now, in_memory, written):
    """Packet ``k`` is whole at end port ``port``; it has left the receive buffer at ``in_memory`` and is in memory at ``written``."""
    if watched(n, s, port, k):
        row = new_row(s, LOG_RECEIVED, port, now)
        describe(s, row, k, s.packet[k, VL])
        s.log[row, L_START] = in_memory
        s.log[row, L_END] = written


@inner
def log_lost(n, s, port, k, column, now):
    """Packet ``k`` is lost and ``port`` counts it in ``column``."""
    if watched(n, s, port, k):
        row = new_row(s, LOG_LOST, port, now)
        describe(s, row, k, s.packet[k, VL])
        s.log[row, L_START] = column


@inner
def log_starved(n, s, port, vl, now):
    """VL ``vl`` of ``port`` has a packet and no credits for it."""
    if n.watch_port[port] != 0:
        row = new_row(s, LOG_STARVED, port, now)
        s.log[row, L_FIELDS] = np.int64(vl) << 36
