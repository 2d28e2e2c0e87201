"""Ports that drain slowly: who sends to them waits for credits, and a switch discards what waits
too long (IBA 18.2.5.4).

MADs meet :func:`queue` one by one. What applications send arrives in sums, afterwards:
:func:`flow`, :func:`expire` and :func:`hold`.
"""

import math

import numpy as np

from softib.agents.kernels.big_endian import get8, inner
from softib.agents.kernels.fault_columns import (
    BITS,
    DRAIN,
    DRAINED,
    FLOWED,
    HELD,
    LANES,
    PACKET_OCTETS,
    SLOW,
    WAITED,
    WIDTH_AT,
)
from softib.agents.kernels.mad_traffic import add
from softib.agents.kernels.rng import grow
from softib.agents.kernels.route import SWITCH
from softib.agents.kernels.samples import FS_PER_PS, TICK_FS, speed_code
from softib.fabric.counters import COUNTER_NAMES, DETAIL_COUNTERS
from softib.iba.rates import SPEEDS
from softib.iba.smp import PortInfo

DISCARDS, WAIT = (COUNTER_NAMES.index(n) for n in ("port_xmit_discards", "port_xmit_wait"))
HOQ_DISCARDS = DETAIL_COUNTERS.names.index("port_sw_hoq_lifetime_limit_discards")
HOQ_AT = PortInfo.hoq_life.byte
SPEED_GBPS = np.array([1.0, *(s.lane_data_gbps for s in SPEEDS)])
HOQ_UNIT_PS, HOQ_FOREVER = 4_096_000, 19
"""HOQLife: 4.096 us times 2^n; above 19 no limit (IBA 14.2.5.6, 18.2.5.4)."""
CREDITS = 8
"""MADs that fit into the receive buffer of a slow port before its sender has to wait."""


@inner
def waits(t, egress, row, now, until):
    """PortXmitWait of ``egress`` for the time up to ``until`` that it has not counted yet."""
    since = max(now, row[WAITED])
    if until > since:
        row[WAITED] = until
        grow(t.counters[egress], WAIT, (until - since) * FS_PER_PS // TICK_FS[speed_code(t, egress)])


@inner
def tick(t, egress, slow, now):
    """PortXmitWait of ``egress`` while the port behind it, ``slow``, drains what applications have
    sent so far.

    A tick counts when there was something to send and no credit for it (IBA 16.1.3.5): of the time
    that the slow port needs, all but what the link itself would have needed.
    """
    row, drain = t.fault[slow], t.fault_rate[slow, DRAIN]
    if drain <= 0.0 or drain == math.inf:
        return
    until = min(now, row[FLOWED] - np.int64((CREDITS - 1) * drain))
    since = row[WAITED]
    if until > since:
        row[WAITED] = until
        code = speed_code(t, egress)
        link_ps = PACKET_OCTETS * 8e3 / (SPEED_GBPS[code] * LANES[t.port_info[egress, WIDTH_AT]])
        waited = (until - since) * max(0.0, 1.0 - link_ps / drain)
        grow(t.counters[egress], WAIT, np.int64(waited) * FS_PER_PS // TICK_FS[code])


@inner
def flow(t, egress, slow, octets, now):
    """Applications have sent ``octets`` through ``egress`` to ``slow``, which takes its time for
    them."""
    row, drain = t.fault[slow], t.fault_rate[slow, DRAIN]
    if drain <= 0.0 or drain == math.inf:
        return
    tick(t, egress, slow, now)
    row[WAITED] = max(row[WAITED], now)
    row[FLOWED] = min(np.float64(max(row[FLOWED], now)) + octets / PACKET_OCTETS * drain, 9e18)


@inner
def expire(t, egress, packets, now):
    """Applications' ``packets`` waited at the head of the queue of ``egress`` for credits that did
    not come, and were discarded: each after HOQLife, from the VLStallCount-th on at once (IBA
    18.2.5.4)."""
    slow = np.int64(t.port_peer[egress])
    add(t.counters[egress], DISCARDS, packets)
    add(t.detail_counters[egress], HOQ_DISCARDS, packets)
    if slow < 0 or not t.fault[slow, BITS] & SLOW:
        return
    info = t.port_info[egress]
    life, stall = get8(info, HOQ_AT) & 31, max(get8(info, HOQ_AT) >> 5, 1)
    if life <= HOQ_FOREVER:
        limit = np.int64(HOQ_UNIT_PS) << life
        waits(t, egress, t.fault[slow], now, now + limit * min(np.int64(stall), np.int64(min(packets, np.uint64(7)))))


@inner
def hold(t, egress, now):
    """Packets wait at ``egress`` for ever: the port behind it is blocked, and nothing bounds their
    time."""
    slow = np.int64(t.port_peer[egress])
    if slow >= 0 and t.fault[slow, BITS] & SLOW and not t.fault[egress, HELD]:
        t.fault[egress, HELD] = max(now, 1)


@inner
def queue(t, egress, ingress, now):
    """True when a MAD leaves ``egress`` towards the slow port ``ingress``. It may have to wait for
    credits; a switch throws it away when that takes longer than HOQLife (IBA 18.2.5.4)."""
    row, drain = t.fault[ingress], t.fault_rate[ingress, DRAIN]
    wait = np.int64(0)
    blocked = drain == math.inf
    if not blocked:
        wait = max(np.int64(0), max(row[DRAINED] - now, 0) - np.int64((CREDITS - 1) * drain))
    life = get8(t.port_info[egress], HOQ_AT) & 31
    if t.node_type[t.port_node[egress]] != SWITCH or life > HOQ_FOREVER:
        if blocked:
            hold(t, egress, now)
            return False
    else:
        limit = np.int64(HOQ_UNIT_PS) << life
        if blocked or wait > limit:
            waits(t, egress, row, now, now + limit)
            add(t.counters[egress], DISCARDS, np.uint64(1))
            add(t.detail_counters[egress], HOQ_DISCARDS, np.uint64(1))
            return False
    waits(t, egress, row, now, now + wait)
    row[DRAINED] = max(row[DRAINED], now) + np.int64(drain)
    return True


@inner
def overflows(t, ingress, now):
    """True when a MAD finds the buffer of ``ingress`` full, which had promised that it is not."""
    row, drain = t.fault[ingress], t.fault_rate[ingress, DRAIN]
    if drain == math.inf or row[DRAINED] - now > (CREDITS - 1) * drain:
        return True
    row[DRAINED] = max(row[DRAINED], now) + np.int64(drain)
    return False
