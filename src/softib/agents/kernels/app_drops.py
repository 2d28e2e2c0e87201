"""Count application packets that a port dropped, and raise the traps for wrong keys (IBA 7.7, 10.2,
13.4.9). Indices into a cell are those of ``preload/verbs/fabric/traffic.h`` (a test compares them).
Columns that only the daemon uses are those of :data:`softib.live.verbs.traffic.Cells`."""

import numpy as np

from softib.agents.kernels.big_endian import get16, get32, inner, put16, put32
from softib.agents.kernels.faults.flow_control import expire, hold, overruns
from softib.agents.kernels.mad_traffic import add
from softib.agents.kernels.notice import notice
from softib.agents.kernels.pkey import (
    ALL_BUT_GIDS,
    B_KEY_AT,
    B_LID1_AT,
    B_LID2_AT,
    B_QP2_AT,
    B_SL_AT,
    CAP_MASK_AT,
    LID_AT,
    RCV_CONSTRAINT,
    SWITCH_TRAP,
    VIOLATIONS_AT,
    W_LID1_AT,
    W_LID2_AT,
    W_LID_AT,
    W_PKEY_AT,
    W_PORT_AT,
    W_QP2_AT,
    W_SL_AT,
    W_VALID_AT,
    XMIT_CONSTRAINT,
)
from softib.agents.kernels.route import DLID_MAPPING, INACTIVE, RELAY_ERRORS, XMIT_DISCARDS, end_port
from softib.fabric.counters import DETAIL_COUNTERS
from softib.iba.smp import PortInfo

# Indices into a cell (uint32 and uint64), and other SOFTIB_* constants.
CHUNK, LINKS_ROOM = 64, 40
MAX_LINKS = 128
"""SV_PATH_LINKS. A multicast tree cannot have more links than there are ports."""
FREE, TAKEN, LIVE, RETIRED, MORE = range(5)
STATE, NEXT, LINKS, DROP, KINDS, LIDS, KEY, QP, CORRUPTED, EGRESS = 0, 1, 3, 5, 7, 8, 9, 10, 14, 24
PACKETS, DWORDS = 8, 10
OWNER, DIRTY = 0, 1
HIGH, PACED = 6, 11
"""Indices into the head of the file: the largest number of chunks that were in use; and whether a
program uses pacing (1)."""
CLOCK_WAIT = 1
(
    INACTIVE_DROP,
    MTU_DROP,
    DLID_DROP,
    VL_DROP,
    XMIT_DROP,
    RCV_DROP,
    PKEY_DROP,
    QKEY_DROP,
    HOQ_DROP,
    HELD_DROP,
    OVERRUN_DROP,
) = range(1, 12)
LAST_TRAP, SEEN_CORRUPTED = 4, 5
"""Columns of ``seen``: the time in ps of this cell's last trap; the numbers of corrupted packets,
forward and back."""


MTU_DISCARDS, VL_MAPPING = (
    DETAIL_COUNTERS.names.index(n) for n in ("port_neighbor_mtu_discards", "port_vl_mapping_errors")
)
QKEY_VIOLATIONS_AT = PortInfo.qkey_violations.byte
SUBNET_TIMEOUT_AT = PortInfo.subnet_timeout.byte
BAD_PKEY, BAD_QKEY, BAD_SWITCH_PKEY = 257, 258, 259


@inner
def violate(t, end, at, packets):
    """Increase a 16-bit violation counter of PortInfo."""
    put16(t.port_info[end], at, min(np.int64(0xFFFF), np.int64(get16(t.port_info[end], at)) + np.int64(packets)))


@inner
def trap(t, v, cell, port, number, now):
    """Raise trap 257, 258 or 259 with the details of ``cell``. A cell raises at most one trap per
    SubnetTimeout (IBA 13.4.9)."""
    end = end_port(t, port)
    pause = np.int64(4_096_000) << np.int64(t.port_info[end, SUBNET_TIMEOUT_AT] & 31)
    last = np.int64(v.seen[cell, LAST_TRAP])
    if last != 0 and now - last < pause:
        return
    if number == BAD_SWITCH_PKEY and not get32(t.port_info[end], CAP_MASK_AT) & SWITCH_TRAP:
        return
    row = notice(t, now, end, number, np.int64(t.port_num[port]) if number == BAD_SWITCH_PKEY else np.int64(0))
    if row < 0:
        return
    v.seen[cell, LAST_TRAP] = np.uint64(max(now, 1))
    data, c = t.notice_data[row], v.cells[cell]
    slid, dlid = np.int64(c[LIDS] & 0xFFFF), np.int64(c[LIDS] >> 16)
    sl_and_qp = (np.int64(c[KINDS] >> 24) & 15) << 28 | np.int64(c[QP] & 0xFFFFFF)
    qp2 = np.int64(c[QP + 1] & 0xFFFFFF)
    if number == BAD_SWITCH_PKEY:
        put16(data, W_VALID_AT, ALL_BUT_GIDS)
        put16(data, W_LID1_AT, slid)
        put16(data, W_LID2_AT, dlid)
        put16(data, W_PKEY_AT, np.int64(c[KEY] & 0xFFFF))
        put32(data, W_SL_AT, sl_and_qp)
        put32(data, W_QP2_AT - 1, qp2)
        put16(data, W_LID_AT, get16(t.port_info[end], LID_AT))
        data[W_PORT_AT] = t.port_num[port]
        return
    put16(data, B_LID1_AT, slid)
    put16(data, B_LID2_AT, dlid)
    put32(data, B_KEY_AT, np.int64(c[KEY]))
    put32(data, B_SL_AT, sl_and_qp)
    put32(data, B_QP2_AT - 1, qp2)


@inner
def drop(t, v, cell, direction, packets, dwords, now):
    """Count ``packets`` that were lost in ``direction`` at the port that the cell names. ``dwords``
    is their total size in 4-byte units."""
    kind = np.int64(v.cells[cell, KINDS] >> np.uint32(8 * direction)) & 0xFF
    port = np.int64(v.cells[cell, DROP + direction])
    if kind == 0 or port >= t.port_peer.shape[0]:
        return
    row, details = t.counters[port], t.detail_counters[port]
    if kind == INACTIVE_DROP or kind == MTU_DROP:
        add(row, XMIT_DISCARDS, packets)
        add(details, INACTIVE if kind == INACTIVE_DROP else MTU_DISCARDS, packets)
    elif kind == DLID_DROP or kind == VL_DROP:
        add(row, RELAY_ERRORS, packets)
        add(details, DLID_MAPPING if kind == DLID_DROP else VL_MAPPING, packets)
    elif kind == XMIT_DROP or kind == RCV_DROP:
        add(row, XMIT_CONSTRAINT if kind == XMIT_DROP else RCV_CONSTRAINT, packets)
        trap(t, v, cell, port, BAD_SWITCH_PKEY, now)
    elif kind == HOQ_DROP:
        expire(t, port, packets, now)
    elif kind == HELD_DROP:
        hold(t, port, now)
    elif kind == OVERRUN_DROP:
        overruns(t, port, np.int64(min(packets, np.uint64(1 << 62))), 4.0 * np.float64(dwords), now)
    elif kind == PKEY_DROP:
        violate(t, end_port(t, port), VIOLATIONS_AT, packets)
        trap(t, v, cell, port, BAD_PKEY, now)
    elif kind == QKEY_DROP:
        violate(t, end_port(t, port), QKEY_VIOLATIONS_AT, packets)
        trap(t, v, cell, port, BAD_QKEY, now)
