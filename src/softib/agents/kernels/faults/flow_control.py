"""Faults of flow control: ports that drain slowly, flow control packets that are late, and buffer
overruns. The sender to a slow port waits for credits, and a switch discards packets that wait too
long (IBA 18.2.5.4). Late flow control packets trigger the watchdog. Traps 130 and 131 report
overruns and the watchdog (IBA 7.9, 14.2.5.1).

MADs go through :func:`queue` one by one. Data of applications is processed later, in sums, by
:func:`flow`, :func:`expire` and :func:`hold`.

A port sends a flow control packet on each VL at least every 65,536 symbol times. If none arrives
for 400,000 symbol times, the receiver starts recovery of the link. This happens only if errors are
so frequent that six packets in a row are corrupted. A buffer overruns only if its port grants
credits without buffer space. ``overruns`` int64[ports, 2] holds the last update period (65,536
symbol times) with an overrun (-1: none yet), and the number of consecutive periods with one.
"""

import math

import numpy as np

from softib.agents.kernels.big_endian import get8, inner
from softib.agents.kernels.faults.fault_columns import (
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
    grow,
    poisson,
    roll,
)
from softib.agents.kernels.mad_traffic import add
from softib.agents.kernels.notice import threshold
from softib.agents.kernels.route import SWITCH, end_port
from softib.agents.kernels.samples import FS_PER_PS, TICK_FS, speed_code
from softib.fabric.counters import COUNTER_NAMES, DETAIL_COUNTERS, VL_COUNTERS
from softib.iba.rates import SPEEDS
from softib.iba.smp import PortInfo

DISCARDS, WAIT = (COUNTER_NAMES.index(n) for n in ("port_xmit_discards", "port_xmit_wait"))
HOQ_DISCARDS = DETAIL_COUNTERS.names.index("port_sw_hoq_lifetime_limit_discards")
HOQ_AT = PortInfo.hoq_life.byte
SPEED_GBPS = np.array([1.0, *(s.lane_data_gbps for s in SPEEDS)])
HOQ_UNIT_PS, HOQ_FOREVER = 4_096_000, 19
"""HOQLife is 4.096 us times 2^n. Values of n above 19 mean no limit (IBA 14.2.5.6, 18.2.5.4)."""
CREDITS = 8
"""Number of MADs that the receive buffer of a slow port holds before its sender has to wait."""


@inner
def waits(t, egress, row, now, until):
    """Count PortXmitWait of ``egress`` for the time up to ``until`` that is not counted yet."""
    since = max(now, row[WAITED])
    if until > since:
        row[WAITED] = until
        grow(t.counters[egress], WAIT, (until - since) * FS_PER_PS // TICK_FS[speed_code(t, egress)])


@inner
def tick(t, egress, slow, now):
    """Count PortXmitWait of ``egress`` while its peer, ``slow``, drains the data of applications.

    A tick is counted while there is data to send and no credit for it (IBA 16.1.3.5). So the
    waiting time is the time that the slow port needs to drain the data, minus the time that the
    link needs to send it.
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
    """Process ``octets`` bytes that applications sent through ``egress`` to ``slow``, which drains
    them at its own rate."""
    row, drain = t.fault[slow], t.fault_rate[slow, DRAIN]
    if drain <= 0.0 or drain == math.inf:
        return
    tick(t, egress, slow, now)
    row[WAITED] = max(row[WAITED], now)
    row[FLOWED] = min(np.float64(max(row[FLOWED], now)) + octets / PACKET_OCTETS * drain, 9e18)


@inner
def expire(t, egress, packets, now):
    """Discard ``packets`` data packets, each of which waited for credits at the head of ``egress``'s
    queue. Each waits for HOQLife; after VLStallCount packets, the rest are discarded at once
    (IBA 18.2.5.4)."""
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
    """Let packets wait at ``egress`` without end, because its peer is blocked and their lifetime is
    unlimited."""
    slow = np.int64(t.port_peer[egress])
    if slow >= 0 and t.fault[slow, BITS] & SLOW and not t.fault[egress, HELD]:
        t.fault[egress, HELD] = max(now, 1)


@inner
def queue(t, egress, ingress, now):
    """Return whether a MAD leaves ``egress`` towards the slow port ``ingress``. The MAD may have to
    wait for credits. A switch discards it if it waits longer than HOQLife (IBA 18.2.5.4)."""
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
    """Return whether the buffer at ``ingress`` is full when a MAD arrives, although the port
    granted credits for it."""
    row, drain = t.fault[ingress], t.fault_rate[ingress, DRAIN]
    if drain == math.inf or row[DRAINED] - now > (CREDITS - 1) * drain:
        return True
    row[DRAINED] = max(row[DRAINED], now) + np.int64(drain)
    return False


UPDATE_SYMBOLS, WATCHDOG_SYMBOLS = 65_536, 400_000
"""Symbol times: maximum between two flow control packets of a VL, and until the watchdog fires (IBA
7.9.2, 7.9.3)."""
MISSED = WATCHDOG_SYMBOLS // UPDATE_SYMBOLS
UPDATE_BITS = 80
"""Line bits of a flow control packet on 8b/10b lanes: two delimiters and six bytes (IBA 7.9.4)."""
RECOVERY, RCV_ERRORS, OVERRUNS = (
    COUNTER_NAMES.index(n)
    for n in ("link_error_recovery_counter", "port_rcv_errors", "excessive_buffer_overrun_errors")
)
BUFFER_OVERRUN = DETAIL_COUNTERS.names.index("port_buffer_overrun_errors")
UPDATE_ERRORS = VL_COUNTERS.fields["port_vl_xmit_flow_ctl_update_errors"][1] // 8
TRAP_OVERRUN, TRAP_WATCHDOG = 130, 131
VLS_AT, THRESHOLDS_AT = PortInfo.operational_vls.byte, PortInfo.overrun_errors.byte
VLS = np.array([1, 1, 2, 4, 8, 15] + [15] * 10, np.int64)
"""Number of data VLs by value of OperationalVLs (IBA 14.2.5.6)."""
LAST, RUN = 0, 1


@inner
def update_ps(t, port):
    """Return the duration in ps of 65,536 symbol times on a lane into ``port``."""
    return np.float64(TICK_FS[speed_code(t, port)]) * UPDATE_SYMBOLS / FS_PER_PS


@inner
def expiries(slots, lost):
    """Return how often, on average, :data:`MISSED` flow control packets in a row are lost, among
    ``slots`` packets that are each lost with probability ``lost``. It is ``slots`` divided by the
    mean waiting time for such a run (Feller, vol. 1, XIII.7)."""
    if lost <= 0.0:
        return 0.0
    run = lost**MISSED
    if lost >= 1.0:
        return slots / MISSED
    return slots * run * (1.0 - lost) / (1.0 - run)


@inner
def watchdog(t, port, lost, passed, now):
    """Run the watchdogs of the VLs of ``port`` for ``passed`` picoseconds in which each flow
    control packet was lost with probability ``lost``. When a watchdog fires, the link recovers and
    the port raises trap 131."""
    if lost < 1e-3:  # the watchdog would fire less than once in a thousand years (8 VLs at XDR)
        return
    vls = VLS[get8(t.port_info[port], VLS_AT) >> 4]
    n = poisson(t, vls * expiries(passed / update_ps(t, port), lost))
    if n <= 0:
        return
    row = t.vl_counters[port]
    grow(row, UPDATE_ERRORS + min(np.int64(roll(t) * vls), 14), n)
    grow(t.counters[port], RECOVERY, n)
    if t.port_peer[port] >= 0:
        grow(t.counters[t.port_peer[port]], RECOVERY, n)
    threshold(t, now, end_port(t, port), TRAP_WATCHDOG, np.int64(t.port_num[port]))


@inner
def overrun(t, port, now):
    """Process a packet that arrived at ``port`` when its buffer was full."""
    overruns(t, port, np.int64(1), 0.0, now)


@inner
def overruns(t, port, packets, octets, now):
    """Process ``packets`` (``octets`` bytes in total) that arrived at ``port`` when its buffer was
    full, at the link's rate. The last one arrives now. If as many consecutive update periods as
    OverrunErrors have an overrun, one ExcessiveBufferOverrunError is counted and trap 130 is raised
    (IBA 7.9, 14.2.5.6)."""
    grow(t.counters[port], RCV_ERRORS, packets)
    grow(t.detail_counters[port], BUFFER_OVERRUN, packets)
    row, each = t.overruns[port], update_ps(t, port)
    gbps = SPEED_GBPS[speed_code(t, port)] * LANES[t.port_info[port, WIDTH_AT]]
    period = np.int64(now / each)
    periods = 1 + np.int64(min(octets * 8e3 / gbps / each, 1e9))
    if period - periods >= row[LAST]:
        if period - periods > row[LAST]:
            row[RUN] = 0
    else:
        periods = max(period - row[LAST], np.int64(0))
    row[LAST] = max(row[LAST], period)
    limit = np.int64(max(get8(t.port_info[port], THRESHOLDS_AT) & 15, 1))
    errors = (row[RUN] + periods) // limit
    row[RUN] = (row[RUN] + periods) % limit
    if errors > 0:
        grow(t.counters[port], OVERRUNS, errors)
        threshold(t, now, end_port(t, port), TRAP_OVERRUN, np.int64(t.port_num[port]))
