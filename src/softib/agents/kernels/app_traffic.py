"""Add the packets of applications to the counters of every port on their path.
``preload/verbs/fabric/traffic.h`` declares the layout of cells.

``v`` is :class:`softib.live.verbs.traffic.Cells`. Applications can write every byte of a cell, so
rows and indices are checked before use. An invalid cell counts nothing.
"""

import numpy as np

from softib.agents.kernels.app_drops import (
    CHUNK,
    CLOCK_WAIT,
    CORRUPTED,
    DIRTY,
    DWORDS,
    EGRESS,
    FREE,
    HIGH,
    KINDS,
    LINKS,
    LINKS_ROOM,
    LIVE,
    MAX_LINKS,
    MORE,
    NEXT,
    OWNER,
    PACED,
    PACKETS,
    RETIRED,
    SEEN_CORRUPTED,
    STATE,
    drop,
)
from softib.agents.kernels.big_endian import inner
from softib.agents.kernels.faults.ber import arrive_corrupted, rates_of_loss
from softib.agents.kernels.faults.fault_columns import BITS, FAULTY, LAVISH, SLOW, roll
from softib.agents.kernels.faults.flow_control import flow
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
from softib.fabric.counters import COUNTER_NAMES
from softib.jit import kernel

MULTICAST_XMIT, MULTICAST_RCV = (
    COUNTER_NAMES.index(n) for n in ("port_multicast_xmit_pkts", "port_multicast_rcv_pkts")
)
XMIT_WAIT = COUNTER_NAMES.index("port_xmit_wait")


@inner
def pass_links(t, v, cell, first, n, packets, dwords, multicast, now):
    """Count ``packets`` on the links ``first`` … ``first + n - 1`` of ``cell``."""
    ip = np.int64(v.is_ip[v.cells[cell - cell % CHUNK, OWNER] & np.uint32(0xFFFF)])
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
        v.moved[port, ip] += dwords
        v.moved[peer, ip] += dwords
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
    """Return the row of the port through which packets of ``cell`` are sent onto its link ``i``; -1
    if the cell has no such link."""
    here = np.int64(cell)
    for _ in range(i // LINKS_ROOM):
        here = np.int64(v.cells[here, NEXT])
        if here == 0 or here >= v.cells.shape[0] or v.cells[here, STATE] != MORE:
            return np.int64(-1)
    port = np.int64(v.cells[here, EGRESS + i % LINKS_ROOM])
    return port if port < t.port_peer.shape[0] and t.port_peer[port] >= 0 else np.int64(-1)


@inner
def corruption_rate(t, egress, octets):
    """Return the probability that bit errors corrupt a packet of ``octets`` bytes on the link at
    ``egress``. The result is accurate only for small probabilities."""
    if egress < 0:
        return 0.0
    a, b = rates_of_loss(t, np.int64(t.port_peer[egress]))
    return a + b * octets


@inner
def corrupt(t, v, cell, first, n, corrupted, packets, dwords, now):
    """Count ``corrupted`` of ``packets`` as corrupted by bit errors on links ``first`` … ``first +
    n - 1`` of ``cell``. Each corrupted packet is assigned to one link, with a probability
    proportional to that of an error on this link."""
    if t.options[FAULTY] == 0 or n > MAX_LINKS:
        return
    octets = 4.0 * np.float64(dwords) / max(np.float64(packets), 1.0) + 2.0
    # the count of packets may be updated slightly later than the count of corrupted ones
    packets = max(packets, np.uint64(corrupted))
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
def fold_cell(t, v, cell, now):
    """Add to the counters all packets that ``cell`` counted since the last call. Return 1 if there
    were any."""
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
    """Free a retired cell, and the cells that hold its additional ports. Their state is written
    last."""
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
    """Count PortXmitWait at ports whose data had to wait for later links of its path."""
    for port in range(min(v.waited.shape[0], t.port_peer.shape[0])):
        waits = v.link_clocks[port, CLOCK_WAIT] - v.waited[port]
        if waits != np.uint64(0):
            v.waited[port] = v.link_clocks[port, CLOCK_WAIT]
            add(t.counters[port], XMIT_WAIT, waits)


@kernel(_nrt=False)
def fold_cells(t, v, now):
    """Add the packets of all cells to the counters. Return the number of cells that counted
    packets.

    A chunk that has changed neither in this call nor in the previous one is skipped (``v.watch``:
    it changed in the previous call).
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
    """Retire all open cells of the dead process ``owner``, so that they are counted a last time."""
    for chunk in range(min(np.int64(v.head[HIGH]), v.watch.shape[0])):
        at = chunk * CHUNK
        if v.cells[at, OWNER] == owner:
            v.cells[at, DIRTY] = 1
            for cell in range(at + 1, at + CHUNK):
                if v.cells[cell, STATE] == LIVE:
                    v.cells[cell, STATE] = RETIRED


@kernel(_nrt=False)
def free_chunks(v, owner):
    """Free the chunks of a dead process whose packets are counted."""
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
