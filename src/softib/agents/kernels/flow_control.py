"""Flow control that fails: the watchdog of late updates, and buffers that overrun (IBA 7.9,
14.2.5.1 traps 130, 131).

A port sends a flow control packet on each VL at least every 65,536 symbol times. Where none arrives
for 400,000, the receiver has the link recover: that needs errors so dense that six in a row are
corrupted. A buffer overruns only when its owner grants credits that it does not have. ``overruns``
int64[ports, 2]: the last update period (65,536 symbol times) with an overrun (-1: none yet), and
how many such periods came one after the other.
"""

import numpy as np

from softib.agents.kernels.big_endian import get8, inner
from softib.agents.kernels.drain import SPEED_GBPS
from softib.agents.kernels.fault_columns import LANES, WIDTH_AT
from softib.agents.kernels.notice import threshold
from softib.agents.kernels.rng import grow, poisson, roll
from softib.agents.kernels.route import end_port
from softib.agents.kernels.samples import FS_PER_PS, TICK_FS, speed_code
from softib.fabric.counters import COUNTER_NAMES, DETAIL_COUNTERS, VL_COUNTERS
from softib.iba.smp import PortInfo

UPDATE_SYMBOLS, WATCHDOG_SYMBOLS = 65_536, 400_000
"""Longest time between two flow control packets of a VL, and after which the watchdog fires (IBA
7.9.2, 7.9.3)."""
MISSED = WATCHDOG_SYMBOLS // UPDATE_SYMBOLS
UPDATE_BITS = 80
"""Line bits of a flow control packet on 8b/10b lanes: two delimiters and six octets (IBA 7.9.4)."""
RECOVERY, RCV_ERRORS, OVERRUNS = (
    COUNTER_NAMES.index(n)
    for n in ("link_error_recovery_counter", "port_rcv_errors", "excessive_buffer_overrun_errors")
)
BUFFER_OVERRUN = DETAIL_COUNTERS.names.index("port_buffer_overrun_errors")
UPDATE_ERRORS = VL_COUNTERS.fields["port_vl_xmit_flow_ctl_update_errors"][1] // 8
TRAP_OVERRUN, TRAP_WATCHDOG = 130, 131
VLS_AT, THRESHOLDS_AT = PortInfo.operational_vls.byte, PortInfo.overrun_errors.byte
VLS = np.array([1, 1, 2, 4, 8, 15] + [15] * 10, np.int64)
"""Data VLs by OperationalVLs (IBA 14.2.5.6)."""
LAST, RUN = 0, 1


@inner
def update_ps(t, port):
    """Picoseconds of 65,536 symbol times of a lane into ``port``."""
    return np.float64(TICK_FS[speed_code(t, port)]) * UPDATE_SYMBOLS / FS_PER_PS


@inner
def expiries(slots, lost):
    """How often ``slots`` flow control packets, each corrupted with probability ``lost``, miss
    :data:`MISSED` times in a row on average: slots over the mean waiting time of such a run
    (Feller, vol. 1, XIII.7)."""
    if lost <= 0.0:
        return 0.0
    run = lost**MISSED
    if lost >= 1.0:
        return slots / MISSED
    return slots * run * (1.0 - lost) / (1.0 - run)


@inner
def watchdog(t, port, lost, passed, now):
    """Let the watchdogs of the VLs of ``port`` run for ``passed`` picoseconds in which updates were
    corrupted with probability ``lost``. One that fires has the link recover, and the port raises
    trap 131."""
    if lost < 1e-3:  # less than one in a thousand years (8 VLs at XDR)
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
    """A packet arrived at ``port`` and found no room."""
    overruns(t, port, np.int64(1), 0.0, now)


@inner
def overruns(t, port, packets, octets, now):
    """``packets`` arrived at ``port`` and found no room, ``octets`` in all, at the link's rate and
    the last of them now. OverrunErrors update periods in a row with one are an
    ExcessiveBufferOverrunError, and trap 130 (IBA 7.9, 14.2.5.6)."""
    grow(t.counters[port], RCV_ERRORS, packets)
    grow(t.detail_counters[port], BUFFER_OVERRUN, packets)
    row, each = t.overruns[port], update_ps(t, port)
    gbps = SPEED_GBPS[speed_code(t, port)] * LANES[t.port_info[port, WIDTH_AT]]
    period = np.int64(now / each)
    more = 1 + np.int64(min(octets * 8e3 / gbps / each, 1e9))
    if period - more >= row[LAST]:
        if period - more > row[LAST]:
            row[RUN] = 0
    else:
        more = max(period - row[LAST], np.int64(0))
    row[LAST] = max(row[LAST], period)
    limit = np.int64(max(get8(t.port_info[port], THRESHOLDS_AT) & 15, 1))
    errors = (row[RUN] + more) // limit
    row[RUN] = (row[RUN] + more) % limit
    if errors > 0:
        grow(t.counters[port], OVERRUNS, errors)
        threshold(t, now, end_port(t, port), TRAP_OVERRUN, np.int64(t.port_num[port]))
