"""Log of packets as rows, for captures (``--pcap``) and timelines (``--trace``).

Without a log, ``Net.watch_port`` is empty and each hook is one comparison. With a log, a packet of a watched port or
queue pair is logged when it is sent (MADs with all their bytes), when it has fully arrived at an end port, and when it
is lost. For watched ports, a VL that lacks credits is logged too. Each row contains only data of the node that wrote
it. The rows of all nodes are later sorted by time and port, not by their position in the log.
"""

import numpy as np

from softib.iba.constants import MAD_SIZE
from softib.jit import inner
from softib.sim.packet.constants import (
    LOG_LOST,
    LOG_MAD,
    LOG_MAD_ROWS,
    LOG_MAD_VALUES,
    LOG_RECEIVED,
    LOG_SENT,
    LOG_STARVED,
    SMP,
    VL15,
)


@inner
def watched(net, state, port, k):
    """Return whether to log packet ``k`` at ``port``."""
    q = np.int64(state.packet[k].stream) >> 1
    of_qp = state.packet[k].kind < SMP and q < net.watch_qp.shape[0] and net.watch_qp[q] != 0
    return net.watch_port[port] != 0 or of_qp


@inner
def new_row(state, kind, port, now):
    """Add a row to the log and fill its first columns."""
    row = state.reg.log_rows + 1
    state.reg.log_rows = row
    state.log[row].place = np.int64(port) << 4 | kind
    state.log[row].now = now
    return row


@inner
def describe(state, row, k, vl):
    """Fill the columns that describe packet ``k``."""
    stream, psn = np.int64(state.packet[k].stream), np.int64(state.packet[k].psn)
    if state.packet[k].kind >= SMP:
        stream, psn = np.int64(-1), np.int64(0)
    state.log[row].flow = stream << 32 | (psn & 0xFFFFFFFF)
    state.log[row].fields = (
        np.int64(state.packet[k].octets)
        | np.int64(state.packet[k].dlid) << 16
        | np.int64(state.packet[k].sl) << 32
        | np.int64(vl) << 36
        | np.int64(state.packet[k].kind) << 40
        | np.int64(state.packet[k].marks) << 48
    )
    state.log[row].came_in = state.packet[k].came_in


@inner
def log_sent(net, state, port, vl, k, now, start, end):
    """Log that ``port`` decides at ``now`` to send packet ``k`` on ``vl``: its first byte leaves at ``start``, its last
    byte at ``end``. Nothing is logged for an end port whose link is down, because it discards the packet (IBA chapter
    7, link states)."""
    if watched(net, state, port, k) and (vl == VL15 or net.port[port].peer >= 0):
        row = new_row(state, LOG_SENT, port, now)
        describe(state, row, k, vl)
        state.log[row].start = start
        state.log[row].end = end
        state.log[row].entered = state.packet[k].entered
        if state.packet[k].kind >= SMP:
            state.log[row].entered = state.mad_row[state.packet[k].psn].slid
            write_mad(state, port, now, state.packet[k].psn)


@inner
def write_mad(state, port, now, mad):
    """Write the present bytes of the MAD in row ``mad`` (little endian) to the log rows that follow the row of its
    packet."""
    at = 0
    for _ in range(LOG_MAD_ROWS):
        row = new_row(state, LOG_MAD, port, now)
        for value in range(LOG_MAD_VALUES):
            octets = np.int64(0)
            for i in range(8):
                if at < MAD_SIZE:
                    octets |= np.int64(state.mad[mad, at]) << 8 * i
                at += 1
            state.log[row].mad[value] = octets


@inner
def log_received(net, state, port, k, now, in_memory, written):
    """Log packet ``k``, fully arrived at end port ``port``; it has left the receive buffer at
    ``in_memory`` and is in memory at ``written``."""
    if watched(net, state, port, k):
        row = new_row(state, LOG_RECEIVED, port, now)
        describe(state, row, k, state.packet[k].vl)
        state.log[row].start = in_memory
        state.log[row].end = written


@inner
def log_lost(net, state, port, k, reason, now):
    """Log that packet ``k`` is lost at ``port`` for ``reason``."""
    if watched(net, state, port, k):
        row = new_row(state, LOG_LOST, port, now)
        describe(state, row, k, state.packet[k].vl)
        state.log[row].start = reason


@inner
def log_starved(net, state, port, vl, now):
    """Log that VL ``vl`` of ``port`` has a packet but no credits."""
    if net.watch_port[port] != 0:
        row = new_row(state, LOG_STARVED, port, now)
        state.log[row].fields = np.int64(vl) << 36
