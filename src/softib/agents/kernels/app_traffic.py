# mypy: ignore-errors
"""Adds what applications have sent to the counters of every port on the path. Layout: ``preload/verbs/fabric/traffic.h``.

``v`` is :class:`softib.live.verbs.traffic.Cells`. Everything in the cells is what applications wrote: rows and numbers are
checked before they are used, and a nonsensical cell counts nothing.
"""

import numpy as np

from softib.agents.kernels.ber import arrive_corrupted, rates_of_loss
from softib.agents.kernels.big_endian import get16, get32, inner, put16, put32
from softib.agents.kernels.drain import expire, flow, hold
from softib.agents.kernels.fault_columns import BITS, FAULTY, LAVISH, SLOW
from softib.agents.kernels.flow_control import overruns
from softib.agents.kernels.mad_traffic import (
    RCV_DATA,
    RCV_PKTS,
    RCV_SL,
    UNICAST_RCV,
    UNICAST_XMIT,
    XMIT_DATA,
    XMIT_PKTS,
    XMIT_SL,
    add,
)
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
from softib.agents.kernels.rng import roll
from softib.agents.kernels.route import DLID_MAPPING, INACTIVE, RELAY_ERRORS, XMIT_DISCARDS, end_port
from softib.fabric.counters import COUNTER_NAMES, DETAIL_COUNTERS
from softib.iba.smp import PortInfo
from softib.jit import kernel

MULTICAST_XMIT, MULTICAST_RCV = (
    COUNTER_NAMES.index(n) for n in ("port_multicast_xmit_pkts", "port_multicast_rcv_pkts")
)
XMIT_WAIT = COUNTER_NAMES.index("port_xmit_wait")
MTU_DISCARDS, VL_MAPPING = (
    DETAIL_COUNTERS.names.index(n) for n in ("port_neighbor_mtu_discards", "port_vl_mapping_errors")
)
QKEY_VIOLATIONS_AT = PortInfo.qkey_violations.byte
SUBNET_TIMEOUT_AT = PortInfo.subnet_timeout.byte
BAD_PKEY, BAD_QKEY, BAD_SWITCH_PKEY = 257, 258, 259

# Numbers (uint32, uint64) of a cell, SOFTIB_* constants; a test compares them with the header.
CHUNK, LINKS_ROOM = 64, 40
MAX_LINKS = 128
"""SV_PATH_LINKS; a multicast tree has no more links than there are ports."""
FREE, TAKEN, LIVE, RETIRED, MORE = range(5)
STATE, NEXT, LINKS, DROP, KINDS, LIDS, KEY, QP, CORRUPTED, EGRESS = 0, 1, 3, 5, 7, 8, 9, 10, 14, 24
PACKETS, DWORDS = 8, 10
OWNER, DIRTY = 0, 1
HIGH, PACED = 6, 11
"""Numbers of the file's head: how many chunks were ever claimed; 1 = a program takes the wire's time."""
CLOCK_WAIT = 1
(
    INACTIVE_DROP, MTU_DROP, DLID_DROP, VL_DROP, XMIT_DROP, RCV_DROP, PKEY_DROP, QKEY_DROP, HOQ_DROP, HELD_DROP, OVERRUN_DROP,
) = range(1, 12)  # fmt: skip
LAST_TRAP, SEEN_CORRUPTED = 4, 5
"""Columns of ``seen``: when this cell raised its last trap, ps; corrupted packets, forward and back."""


@inner
def pass_links(t, v, cell, first, n, packets, dwords, multicast, now):
    """Links ``first`` … ``first + n - 1`` of ``cell`` carried this."""
    here, at = np.int64(cell), np.int64(0)
    level = np.int64(v.cells[cell, KINDS] >> np.uint32(24)) & 15
    if first + n > t.port_peer.shape[0] + 2 * MAX_LINKS:
        return
    for i in range(first + n):
        if at == LINKS_ROOM:
            here = np.int64(v.cells[here, NEXT])
            if here == 0 or here >= v.cells.shape[0] or v.cells[here, STATE] != MORE:
                return
            at = np.int64(0)
        port = np.int64(v.cells[here, EGRESS + at])
        at += 1
        if i < first or port >= t.port_peer.shape[0]:
            continue
        peer = np.int64(t.port_peer[port])
        if peer < 0:
            continue
        out, into = t.counters[port], t.counters[peer]
        add(out, XMIT_DATA, dwords)
        add(out, XMIT_PKTS, packets)
        add(out, MULTICAST_XMIT if multicast else UNICAST_XMIT, packets)
        add(into, RCV_DATA, dwords)
        add(t.sl_counters[port], XMIT_SL + level, dwords)
        add(t.sl_counters[peer], RCV_SL + level, dwords)
        add(into, RCV_PKTS, packets)
        add(into, MULTICAST_RCV if multicast else UNICAST_RCV, packets)
        if t.options[FAULTY] and t.fault[peer, BITS] & (SLOW | LAVISH) == SLOW:
            flow(t, port, peer, 4.0 * np.float64(dwords), now)


@inner
def egress_at(t, v, cell, i):
    """Row of the port that packets of ``cell`` leave for its link ``i``; -1: there is none."""
    here = np.int64(cell)
    for _ in range(i // LINKS_ROOM):
        here = np.int64(v.cells[here, NEXT])
        if here == 0 or here >= v.cells.shape[0] or v.cells[here, STATE] != MORE:
            return np.int64(-1)
    port = np.int64(v.cells[here, EGRESS + i % LINKS_ROOM])
    return port if port < t.port_peer.shape[0] and t.port_peer[port] >= 0 else np.int64(-1)


@inner
def corruption_rate(t, egress, octets):
    """How likely a packet of ``octets`` is corrupted on the link behind ``egress``, for small values."""
    if egress < 0:
        return 0.0
    a, b = rates_of_loss(t, np.int64(t.port_peer[egress]))
    return a + b * octets


@inner
def corrupt(t, v, cell, first, n, corrupted, packets, dwords, now):
    """Bit errors corrupted ``corrupted`` of ``packets`` on links ``first`` … ``first + n - 1`` of ``cell``: each at one of those whose
    cable makes any, by how likely it does."""
    if t.options[FAULTY] == 0 or n > MAX_LINKS:
        return
    octets = 4.0 * np.float64(dwords) / max(np.float64(packets), 1.0) + 2.0
    packets = max(packets, np.uint64(corrupted))  # their counts may come a moment later
    total = 0.0
    for i in range(first, first + n):
        total += corruption_rate(t, egress_at(t, v, cell, i), octets)
    if total <= 0.0:
        return
    draw, sum_, done = roll(t), 0.0, np.int64(0)
    for i in range(first, first + n):
        egress = egress_at(t, v, cell, i)
        sum_ += corruption_rate(t, egress, octets)
        here = np.int64(corrupted * min(sum_ / total, 1.0) + draw) - done
        done += here
        if here > 0:
            arrive_corrupted(t, np.int64(t.port_peer[egress]), here, np.int64(min(packets, np.uint64(1 << 62))), now)


@inner
def violate(t, end, at, packets):
    """A violation counter of PortInfo (16 bits) grows."""
    put16(t.port_info[end], at, min(np.int64(0xFFFF), np.int64(get16(t.port_info[end], at)) + np.int64(packets)))


@inner
def trap(t, v, cell, port, number, now):
    """Trap 257, 258 or 259 with the details of ``cell``; one cell raises one in a SubnetTimeout (IBA 13.4.9)."""
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
    """Packets of direction ``direction``, ``dwords`` units of 4 bytes in all, were lost at the port that the cell names."""
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


@inner
def fold_cell(t, v, cell, now):
    """What ``cell`` counted since the last time. Returns 1 when there was something."""
    changed = 0
    for direction in range(2):
        packets, dwords = v.counts[cell, PACKETS + direction], v.counts[cell, DWORDS + direction]
        new_packets, new_dwords = packets - v.seen[cell, direction], dwords - v.seen[cell, 2 + direction]
        corrupted = np.uint64(v.cells[cell, CORRUPTED + direction])
        new_corrupted = np.int64((corrupted - v.seen[cell, SEEN_CORRUPTED + direction]) & np.uint64(0xFFFFFFFF))
        if new_packets == np.uint64(0) and new_dwords == np.uint64(0) and new_corrupted == 0:
            continue
        changed = 1
        v.seen[cell, direction], v.seen[cell, 2 + direction] = packets, dwords
        first = np.int64(v.cells[cell, LINKS]) if direction else np.int64(0)
        if new_corrupted != 0:
            v.seen[cell, SEEN_CORRUPTED + direction] = corrupted
            corrupt(
                t,
                v,
                cell,
                first,
                np.int64(v.cells[cell, LINKS + direction]),
                new_corrupted,
                new_packets,
                new_dwords,
                now,
            )
        multicast = (v.cells[cell, KINDS] >> np.uint32(16)) & np.uint32(0xFF) != 0
        pass_links(
            t, v, cell, first, np.int64(v.cells[cell, LINKS + direction]), new_packets, new_dwords, multicast, now
        )
        if new_packets != np.uint64(0):
            drop(t, v, cell, direction, new_packets, new_dwords, now)
    return changed


@inner
def free_cell(v, cell):
    """A retired cell, and those that hold its further ports, can be taken again; their states are the last stores."""
    for i in range(v.seen.shape[1]):
        v.seen[cell, i] = 0
    here = np.int64(v.cells[cell, NEXT])
    v.cells[cell, STATE] = FREE
    while 0 < here < v.cells.shape[0] and v.cells[here, STATE] == MORE:
        after = np.int64(v.cells[here, NEXT])
        v.cells[here, STATE] = FREE
        here = after


@inner
def fold_link_waits(t, v):
    """PortXmitWait of ports whose data waited for links behind them."""
    for port in range(min(v.waited.shape[0], t.port_peer.shape[0])):
        more = v.lanes[port, CLOCK_WAIT] - v.waited[port]
        if more != np.uint64(0):
            v.waited[port] = v.lanes[port, CLOCK_WAIT]
            add(t.counters[port], XMIT_WAIT, more)


@kernel(_nrt=False)
def fold_cells(t, v, now):
    """Bring the counters up to date. Returns the number of cells that had counted something.

    Chunks that nobody touched since the last time but one are not looked at (``v.watch``: touched at the last time).
    """
    changed = 0
    if v.head[PACED] != 0:
        fold_link_waits(t, v)
    for chunk in range(min(np.int64(v.head[HIGH]), v.watch.shape[0])):
        at = chunk * CHUNK
        dirty = v.cells[at, DIRTY]
        if dirty == 0 and v.watch[chunk] == 0:
            continue
        v.watch[chunk] = dirty != 0
        v.cells[at, DIRTY] = 0
        for cell in range(at + 1, at + CHUNK):
            state = v.cells[cell, STATE]
            if state == LIVE or state == RETIRED:
                changed += fold_cell(t, v, cell, now)
                if state == RETIRED:
                    free_cell(v, cell)
    return changed


@kernel(_nrt=False)
def retire_chunks(v, owner):
    """Everything that process ``owner``, now dead, still had open is retired, to be folded once more."""
    for chunk in range(min(np.int64(v.head[HIGH]), v.watch.shape[0])):
        at = chunk * CHUNK
        if v.cells[at, OWNER] == owner:
            v.cells[at, DIRTY] = 1
            for cell in range(at + 1, at + CHUNK):
                if v.cells[cell, STATE] == LIVE:
                    v.cells[cell, STATE] = RETIRED


@kernel(_nrt=False)
def free_chunks(v, owner):
    """The chunks of a dead process, folded, are nobody's."""
    for chunk in range(min(np.int64(v.head[HIGH]), v.watch.shape[0])):
        at = chunk * CHUNK
        if v.cells[at, OWNER] == owner:
            for cell in range(at + 1, at + CHUNK):
                v.cells[cell, STATE] = FREE
                for i in range(v.seen.shape[1]):
                    v.seen[cell, i] = 0
            v.cells[at, DIRTY] = 0
            v.watch[chunk] = 0
            v.cells[at, OWNER] = 0
