"""PortSamplesControl and PortSamplesResult (IBA 16.1.3.2, 16.1.3.4): counters are sampled over an
interval that begins and ends when a MAD arrives.

There is one sampling mechanism per end port (a switch has one, at its port 0). A Set in state DONE arms it::

    DONE --Set--> STARTED --SampleStart ticks--> RUNNING --SampleInterval ticks--> DONE

A Set in STARTED or RUNNING has no effect. No code runs in the background: :func:`advance` moves
every armed mechanism to the time of its call. So counts are taken when the first MAD arrives at or
after the due time, or ``AgentPlane.advance`` is called.
"""

import numpy as np

from softib.agents.kernels.big_endian import clear, copy, get8, get16, get32, inner, put16, put32
from softib.agents.kernels.mad_traffic import fold
from softib.fabric.counters import COUNTER_NAMES
from softib.iba import constants as c
from softib.iba.perf import PortSamplesControl as S
from softib.iba.perf import PortSamplesResult as R
from softib.iba.perf import SampleStatus
from softib.iba.rates import SPEEDS
from softib.iba.smp import DATA_AT
from softib.iba.smp import PortInfo as P

OK = int(c.MadStatus.OK)
DONE, STARTED, RUNNING = int(SampleStatus.DONE), int(SampleStatus.STARTED), int(SampleStatus.RUNNING)
SELECT_AT, TICK_AT, WIDTH_AT, MASK_AT, MASK2_AT = (
    S.port_select.byte,
    S.tick.byte,
    S.counter_width.byte,
    S.counter_mask0.byte,
    S.counter_masks_10to14.byte,
)
MECHANISMS_AT, STATUS_AT, START_AT, INTERVAL_AT, TAG_AT, COUNTERS_AT = (
    S.sample_mechanisms.byte,
    S.sample_status.byte,
    S.sample_start.byte,
    S.sample_interval.byte,
    S.tag.byte,
    S.counter_select.byte,
)
KEPT = COUNTERS_AT + 2 * S.counter_select.count - START_AT
R_TAG_AT, R_STATUS_AT, R_COUNTER_AT = R.tag.byte, R.sample_status.byte, R.counter.byte
COUNTERS = S.counter_select.count
WIDTH_32 = 4
# Each of the 15 counters can count all mandatory quantities (bit 0 of its 3-bit mask), and no other
# quantities.
MASKS_0_TO_9, MASKS_10_TO_14 = 0o1111111111, 0o11111
QUANTITIES = np.array(
    [
        COUNTER_NAMES.index(n)
        for n in ("port_xmit_data", "port_rcv_data", "port_xmit_pkts", "port_rcv_pkts", "port_xmit_wait")
    ],
    np.int64,
)
"""Counter that each value of CounterSelect from 1 to 5 selects (16.1.3.3)."""
TICK = 0
TICK_FS = np.array([4_000_000, *(round(10e6 / s.lane_gbps) for s in SPEEDS)], np.int64)
"""Duration of tick 0 (ten bit times of a lane) in femtoseconds, by speed code."""
FS_PER_PS = 1000
PLAIN_AT, EXT_AT, EXT2_AT = P.link_speed_active.byte, P.link_speed_ext_active.byte, P.link_speed_ext2_active.byte
SPEED_BITS = np.array([(s.code, s.speed_bit, s.ext_bit, s.ext2_bit, s.mlnx_bit) for s in SPEEDS], np.int64)


@inner
def speed_code(t, port):
    """Return the code of the active speed of ``port``; 0 = unknown."""
    info = t.port_info[port]
    plain, ext, ext2 = get8(info, PLAIN_AT) >> 4, get8(info, EXT_AT) >> 4, (get8(info, EXT2_AT) >> 5) & 3
    mlnx = get8(t.port_mlnx_speed[port], 2)
    code = np.int64(0)
    for i in range(SPEED_BITS.shape[0]):
        b = SPEED_BITS[i]
        if b[3]:
            hit = ext2 & b[3]
        elif b[2]:
            hit = ext & b[2]
        elif b[4]:
            hit = mlnx & b[4]
        else:
            hit = plain & b[1]
        if hit:
            code = b[0]
    return code


@inner
def status_at(t, end, now):
    """Return the SampleStatus of the sampling mechanism of end port ``end``."""
    begin, until = t.sample_ps[end, 0], t.sample_ps[end, 1]
    if until == 0 or now >= until:
        return DONE
    return RUNNING if now >= begin else STARTED


@inner
def advance(t, now):
    """Take the counts of every armed mechanism that is due. Row 0 of ``samplers`` holds the number
    of mechanisms. Each further row holds an end port, the port that it samples, and 1 if the count
    at the start of the interval is taken."""
    n, kept = t.samplers[0, 0], 0
    for i in range(1, n + 1):
        end, port, begun = t.samplers[i, 0], t.samplers[i, 1], t.samplers[i, 2]
        if not begun and now >= t.sample_ps[end, 0]:
            fold(t)
            for q in range(QUANTITIES.shape[0]):
                t.sample_count[end, q] = t.counters[port, QUANTITIES[q]]
            begun = np.int64(1)
        if now >= t.sample_ps[end, 1]:
            fold(t)
            for q in range(QUANTITIES.shape[0]):
                here, before = t.counters[port, QUANTITIES[q]], t.sample_count[end, q]
                # If the counter is lower than before, it was cleared during the interval.
                t.sample_count[end, q] = here - before if here >= before else here
            continue
        kept += 1
        t.samplers[kept, 0], t.samplers[kept, 1], t.samplers[kept, 2] = end, port, begun
    t.samplers[0, 0] = kept


@inner
def samples_control(t, m, end, port, now, is_set):
    """Get the sampling settings, or Set them, which arms the mechanism of ``end`` to sample
    ``port``."""
    kept = t.sample_control[end]
    n = t.samplers[0, 0]
    if is_set and status_at(t, end, now) == DONE and n + 1 < t.samplers.shape[0]:
        copy(kept, START_AT, m, DATA_AT + START_AT, KEPT)
        kept[SELECT_AT] = m[DATA_AT + SELECT_AT]
        fs = TICK_FS[speed_code(t, port)]
        begin = now + get32(m, DATA_AT + START_AT) * fs // FS_PER_PS
        until = begin + max(get32(m, DATA_AT + INTERVAL_AT) * fs // FS_PER_PS, 1)
        t.sample_ps[end, 0], t.sample_ps[end, 1] = begin, until
        t.samplers[n + 1, 0], t.samplers[n + 1, 1], t.samplers[n + 1, 2] = end, port, 0
        t.samplers[0, 0] = n + 1
        advance(t, now)
    number = m[DATA_AT + SELECT_AT]
    clear(m, DATA_AT, 192)
    m[DATA_AT + SELECT_AT], m[DATA_AT + TICK_AT], m[DATA_AT + WIDTH_AT] = number, TICK, WIDTH_32
    put32(m, DATA_AT + MASK_AT, MASKS_0_TO_9)
    put16(m, DATA_AT + MASK2_AT, MASKS_10_TO_14)
    m[DATA_AT + STATUS_AT] = status_at(t, end, now)
    copy(m, DATA_AT + START_AT, kept, START_AT, KEPT)
    return OK


@inner
def samples_result(t, m, end, now):
    """Get the counts of the interval; while sampling runs, the counts up to now."""
    clear(m, DATA_AT, 192)
    kept, status = t.sample_control[end], status_at(t, end, now)
    put16(m, DATA_AT + R_TAG_AT, get16(kept, TAG_AT))
    m[DATA_AT + R_STATUS_AT] = status
    port = np.int64(t.node_base[t.port_node[end]]) + get8(kept, SELECT_AT)
    for i in range(COUNTERS):
        quantity = get16(kept, COUNTERS_AT + 2 * i)
        if quantity < 1 or quantity > QUANTITIES.shape[0] or status == STARTED or t.sample_ps[end, 1] == 0:
            continue
        value = t.sample_count[end, quantity - 1]
        if status == RUNNING:
            here = t.counters[port, QUANTITIES[quantity - 1]]
            value = here - value if here >= value else here
        put32(m, DATA_AT + R_COUNTER_AT + 4 * i, min(np.int64(value & np.uint64(0x7FFFFFFFFFFFFFFF)), 0xFFFFFFFF))
    return OK
