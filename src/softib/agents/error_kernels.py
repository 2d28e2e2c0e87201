# mypy: ignore-errors
"""Faults of links as numbers: bit errors, links without a signal, ports that drain slowly (IBA 16.1.3.5, 16.1.4, 7.12).

``fault`` int64[ports, 7] holds per port what is wrong with it and its state (columns below), ``fault_rate``
float64[ports, 2] its bit error ratio and the picoseconds it needs to drain one MAD (infinite: it is blocked), ``dice``
the random state. ``options[FAULTY]`` is 0 while no port has a fault: then nothing here is ever looked at.

Symbols flow on a link that is up all the time, so errors grow with time. Nothing ticks: :func:`settle` brings one port
up to a moment, when somebody reads its counters or its link changes.
"""

import math

import numpy as np

from softib.agents.chance_kernels import grow, poisson, roll
from softib.agents.flow_kernels import UPDATE_BITS, overrun, watchdog
from softib.agents.notice_kernels import threshold
from softib.agents.octet_kernels import inner, octet
from softib.agents.route_kernels import LINK_UP, PHYS_AT, SWITCH, end_port
from softib.agents.sample_kernels import FS_PER_PS, TICK_FS, speed_code
from softib.agents.traffic_kernels import MAD_WORDS, add
from softib.fabric.columns import COUNTER_NAMES, DETAIL_COUNTERS, LANE_COUNTERS
from softib.iba.rates import LANES_BY_BIT, SPEEDS
from softib.iba.smp import PortInfo, PortInfoExtended

FAULTY = 2
"""Element of ``options``: ports that have a fault."""
BITS, SETTLED, PHY_ERRORS, DRAINED, WAITED, HELD, FLOWED = range(7)
"""Columns of ``fault``: what is wrong; until when its counters are right (ps); local physical errors not made good yet;
when its buffer is empty of MADs (ps); until when the port that sends to it has waited (ps); that one waits for ever; when
it has drained what applications sent (ps)."""
CUT, DEAD, NOISY, SLOW, LAVISH = 1, 2, 4, 8, 16
"""No signal arrives; the node has no power; bit errors; it drains slowly, and grants credits that it does not
have."""
BER, DRAIN = 0, 1

SYMBOL, RECOVERY, RCV_ERRORS, DISCARDS, INTEGRITY, WAIT = (
    COUNTER_NAMES.index(n) for n in (
        "symbol_error_counter", "link_error_recovery_counter", "port_rcv_errors", "port_xmit_discards",
        "local_link_integrity_errors", "port_xmit_wait")
)  # fmt: skip
LOCAL_PHYSICAL, HOQ_DISCARDS = (
    DETAIL_COUNTERS.names.index(n) for n in ("port_local_physical_errors", "port_sw_hoq_lifetime_limit_discards")
)
SYNC_HEADER, DETECTED, FEC_CORRECTED, FEC_UNCORRECTED, PORT_FEC_CORRECTED, PORT_FEC_UNCORRECTED, PORT_FEC_SYMBOLS = (
    LANE_COUNTERS.fields[n][1] // 8 for n in (
        "sync_header_error_counter", "error_detection_counter", "fec_correctable_block_ctr",
        "fec_uncorrectable_block_ctr", "port_fec_correctable_block_ctr", "port_fec_uncorrectable_block_ctr",
        "port_fec_corrected_symbol_ctr")
)  # fmt: skip
COUNTED_LANES = 12
THRESHOLDS_AT, HOQ_AT, WIDTH_AT = (
    PortInfo.local_phy_errors.byte, PortInfo.hoq_life.byte, PortInfo.link_width_active.byte,
)  # fmt: skip
FEC_ACTIVE_AT, RS_ACTIVE = PortInfoExtended.fec_mode_active.byte, 2
TRAP_INTEGRITY = 129

LANES = np.ones(256, np.int64)
for _bit, _n in LANES_BY_BIT.items():
    LANES[_bit] = _n
SPEED_GBPS = np.array([1.0, *(s.lane_data_gbps for s in SPEEDS)])
LANE_GBPS = np.array([0.0, *(s.lane_gbps for s in SPEEDS)])
PAM4 = np.array([False, *(s.pam4 for s in SPEEDS)])
FIRST_64B66B = 4
"""Speed code (FDR10) from which lanes carry 64b/66b blocks instead of 8b/10b symbols."""
SYNC_SHARE = 2 / 66
PACKET_OCTETS = 4 * float(MAD_WORDS) + 2
"""A MAD's packet with its VCRC."""

SYMBOL_BITS, CODE_DATA_BITS = 10.0, 5140.0
PAM4_CODE, NRZ_CODE = (544, 15), (528, 7)
"""RS(544, 514) of PAM4 lanes and RS(528, 514): symbols of a codeword and how many of them it corrects (IEEE 802.3
clause 91, symbols of 10 bits)."""
TAIL_TERMS = 40
HOQ_UNIT_PS, HOQ_FOREVER = 4_096_000, 19
"""HOQLife: 4.096 us times 2^n; above 19 no limit (IBA 14.2.5.6, 18.2.5.4)."""
CREDITS = 8
"""MADs that fit into the receive buffer of a slow port before its sender has to wait."""

CROSSED, SPOILED, NOT_SENT = 0, 1, 2


@inner
def corrects(t, port, code):
    """True when RS-FEC works on the link of ``port`` (always on PAM4 lanes; IBA 14.2.5.19)."""
    return PAM4[code] or octet(t.port_info_ext[port], FEC_ACTIVE_AT + 1) >= RS_ACTIVE


@inner
def codeword(ber, length, fixes):
    """Of one codeword: (expected corrected symbols, probability that it is corrected, that it cannot be)."""
    q = -math.expm1(SYMBOL_BITS * math.log1p(-min(ber, 0.5)))
    right = math.exp(length * math.log1p(-q))
    p, symbols, fixed, lost = right, 0.0, 0.0, 0.0
    for k in range(1, fixes + TAIL_TERMS):
        p *= (length - k + 1) / k * q / (1.0 - q)
        if k <= fixes:
            symbols += k * p
            fixed += p
        else:
            lost += p
    # A long tail is what the others leave; a short one would drown in their rounding.
    return symbols, fixed, (lost if lost < 0.01 else 1.0 - fixed - right)


@inner
def on_lanes(t, row, column, lanes, n):
    """Share ``n`` events among the first ``lanes`` columns."""
    each = n // lanes
    first = np.int64(roll(t) * lanes)
    for i in range(min(lanes, COUNTED_LANES)):
        grow(row, column + i, each + (1 if (i - first) % lanes < n - each * lanes else 0))


@inner
def wrong_bits(t, port, code, lanes, n):
    """Count ``n`` bit errors that no code corrects: each is a symbol (8b/10b) or a block (64b/66b) that is wrong."""
    grow(t.counters[port], SYMBOL, n)
    if code >= FIRST_64B66B and n > 0:
        row = t.lane_counters[port]
        headers = min(poisson(t, n * SYNC_SHARE), n)
        grow(row, SYNC_HEADER, headers)
        on_lanes(t, row, DETECTED, lanes, n - headers)


@inner
def wrong_blocks(t, port, lanes, symbols, fixed, lost):
    """Count what RS-FEC did: corrected symbols by lane, corrected and lost blocks. A lost block is a symbol error."""
    row = t.lane_counters[port]
    on_lanes(t, row, FEC_CORRECTED, lanes, symbols)
    on_lanes(t, row, FEC_UNCORRECTED, lanes, lost)
    grow(row, PORT_FEC_SYMBOLS, symbols)
    grow(row, PORT_FEC_CORRECTED, fixed)
    grow(row, PORT_FEC_UNCORRECTED, lost)
    grow(t.counters[port], SYMBOL, lost)


@inner
def idle(t, port, passed):
    """Errors of ``passed`` picoseconds of symbols on the link into ``port``."""
    code, lanes = speed_code(t, port), LANES[t.port_info[port, WIDTH_AT]]
    ber = t.fault_rate[port, BER]
    bits = LANE_GBPS[code] * lanes * passed * 1e-3
    if not corrects(t, port, code):
        wrong_bits(t, port, code, lanes, poisson(t, bits * ber))
        return
    length, fixes = PAM4_CODE if PAM4[code] else NRZ_CODE
    words = bits / (length * SYMBOL_BITS)
    symbols, fixed, lost = codeword(ber, length, fixes)
    blocks = poisson(t, words * fixed)
    # No block is corrected without a symbol, and none has more than the code can correct.
    count = poisson(t, words * symbols)
    wrong_blocks(t, port, lanes, min(max(count, blocks), blocks * fixes), blocks, poisson(t, words * lost))


@inner
def spoiled_updates(t, port):
    """Probability that a flow control packet into ``port`` arrives with an error: of its 80 line bits, of its block of 66
    bits, or of the codeword around it."""
    code, ber = speed_code(t, port), min(t.fault_rate[port, BER], 0.5)
    if corrects(t, port, code):
        length, fixes = PAM4_CODE if PAM4[code] else NRZ_CODE
        return codeword(ber, length, fixes)[2]
    return -math.expm1((66 if code >= FIRST_64B66B else UPDATE_BITS) * math.log1p(-ber))


@inner
def tick(t, egress, slow, now):
    """PortXmitWait of ``egress`` while the port behind it, ``slow``, drains what applications have sent so far.

    A tick counts when there was something to send and no credit for it (IBA 16.1.4.1 and annex A10): of the time that the slow
    port needs, all but what the link itself would have needed.
    """
    row, drain = t.fault[slow], t.fault_rate[slow, DRAIN]
    if drain <= 0.0 or drain == math.inf:
        return
    until = min(now, row[FLOWED] - np.int64((CREDITS - 1) * drain))
    since = row[WAITED]
    if until > since:
        row[WAITED] = until
        code = speed_code(t, egress)
        own = PACKET_OCTETS * 8e3 / (SPEED_GBPS[code] * LANES[t.port_info[egress, WIDTH_AT]])
        waited = (until - since) * max(0.0, 1.0 - own / drain)
        grow(t.counters[egress], WAIT, np.int64(waited) * FS_PER_PS // TICK_FS[code])


@inner
def flow(t, egress, slow, octets, now):
    """Applications have sent ``octets`` through ``egress`` to ``slow``, which takes its time for them."""
    row, drain = t.fault[slow], t.fault_rate[slow, DRAIN]
    if drain <= 0.0 or drain == math.inf:
        return
    tick(t, egress, slow, now)
    row[WAITED] = max(row[WAITED], now)
    row[FLOWED] = min(np.float64(max(row[FLOWED], now)) + octets / PACKET_OCTETS * drain, 9e18)


@inner
def expire(t, egress, packets, now):
    """Applications' ``packets`` waited at the head of the queue of ``egress`` for credits that did not come, and were
    discarded: each after HOQLife, from the VLStallCount-th on at once (IBA 18.2.5.4)."""
    slow = np.int64(t.port_peer[egress])
    add(t.counters[egress], DISCARDS, packets)
    add(t.detail_counters[egress], HOQ_DISCARDS, packets)
    if slow < 0 or not t.fault[slow, BITS] & SLOW:
        return
    info = t.port_info[egress]
    life, stall = octet(info, HOQ_AT) & 31, max(octet(info, HOQ_AT) >> 5, 1)
    if life <= HOQ_FOREVER:
        limit = np.int64(HOQ_UNIT_PS) << life
        waits(t, egress, t.fault[slow], now, now + limit * min(np.int64(stall), np.int64(min(packets, np.uint64(7)))))


@inner
def hold(t, egress, now):
    """Applications' packets wait at ``egress`` for ever: the port behind it is blocked, and nothing bounds their time."""
    slow = np.int64(t.port_peer[egress])
    if slow >= 0 and t.fault[slow, BITS] & SLOW and not t.fault[egress, HELD]:
        settle(t, egress, now)
        t.fault[egress, SETTLED] = now
        t.fault[egress, HELD] = 1


@inner
def settle(t, port, now):
    """Bring the counters of ``port`` up to ``now``."""
    if t.options[FAULTY] == 0:
        return
    row = t.fault[port]
    passed = now - row[SETTLED]
    if passed <= 0:
        return
    row[SETTLED] = now
    if t.port_info[port, PHYS_AT] >> 4 != LINK_UP:
        return
    if row[BITS] & NOISY:
        idle(t, port, passed)
        watchdog(t, port, spoiled_updates(t, port), passed, now)
    if row[HELD]:
        grow(t.counters[port], WAIT, passed * FS_PER_PS // TICK_FS[speed_code(t, port)])
    elif row[BITS] & SLOW and t.port_peer[port] >= 0:
        tick(t, np.int64(t.port_peer[port]), port, now)
    if t.port_peer[port] >= 0 and t.fault[t.port_peer[port], BITS] & SLOW:
        tick(t, port, np.int64(t.port_peer[port]), now)


@inner
def integrity(t, port, now):
    """A local physical error more. Beyond the threshold (LocalPhyErrors) the link recovers: both ends count it, the
    receiver counts LocalLinkIntegrityErrors and raises trap 129. A packet without error makes one good (IBA 7.12.2)."""
    row = t.fault[port]
    row[PHY_ERRORS] += 1
    if row[PHY_ERRORS] <= octet(t.port_info[port], THRESHOLDS_AT) >> 4:
        return
    row[PHY_ERRORS] = 0
    add(t.counters[port], INTEGRITY, np.uint64(1))
    add(t.counters[port], RECOVERY, np.uint64(1))
    add(t.counters[t.port_peer[port]], RECOVERY, np.uint64(1))
    threshold(t, now, end_port(t, port), TRAP_INTEGRITY, np.int64(t.port_num[port]))


@inner
def spoiled(t, port):
    """True when a bit of a MAD is wrong as it arrives at ``port``; counts the symbols."""
    code, lanes = speed_code(t, port), LANES[t.port_info[port, WIDTH_AT]]
    ber = t.fault_rate[port, BER]
    if corrects(t, port, code):
        words = 1.0 + (PACKET_OCTETS * 8 - 1) / CODE_DATA_BITS
        length, fixes = PAM4_CODE if PAM4[code] else NRZ_CODE
        lost = poisson(t, words * codeword(ber, length, fixes)[2])
        wrong_blocks(t, port, lanes, np.int64(0), np.int64(0), lost)
        return lost > 0
    line = PACKET_OCTETS * (8 * 66 / 64 if code >= FIRST_64B66B else 10)
    wrong = poisson(t, line * ber)
    wrong_bits(t, port, code, lanes, wrong)
    return wrong > 0


@inner
def rates_of_loss(t, port):
    """(a, b): a packet of L octets on the wire into ``port`` is lost with probability 1 - exp(-(a + b L)).

    Without FEC each of its line bits (10 or 8.25 an octet) can be wrong; with it a packet begins anywhere in a codeword
    of 5140 data bits, and is lost with each that cannot be corrected: the rule of :func:`spoiled` for any length.
    """
    if t.fault[port, BITS] & NOISY == 0:
        return 0.0, 0.0
    code, ber = speed_code(t, port), min(t.fault_rate[port, BER], 0.5)
    if not corrects(t, port, code):
        return 0.0, ber * (8 * 66 / 64 if code >= FIRST_64B66B else 10)
    length, fixes = PAM4_CODE if PAM4[code] else NRZ_CODE
    lost = codeword(ber, length, fixes)[2]
    return lost * (1.0 - 1.0 / CODE_DATA_BITS), lost * 8 / CODE_DATA_BITS


@inner
def queue(t, egress, ingress, now):
    """True when a MAD leaves ``egress`` towards the slow port ``ingress``. It may have to wait for credits; a switch
    throws it away when that takes longer than HOQLife (IBA 18.2.5.4)."""
    row, drain = t.fault[ingress], t.fault_rate[ingress, DRAIN]
    wait = np.int64(0)
    blocked = drain == math.inf
    if not blocked:
        wait = max(np.int64(0), max(row[DRAINED] - now, 0) - np.int64((CREDITS - 1) * drain))
    life = octet(t.port_info[egress], HOQ_AT) & 31
    if t.node_type[t.port_node[egress]] != SWITCH or life > HOQ_FOREVER:
        if blocked:
            settle(t, egress, now)
            t.fault[egress, HELD] = 1
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


@inner
def waits(t, egress, row, now, until):
    """PortXmitWait of ``egress`` for the time up to ``until`` that it has not counted yet."""
    since = max(now, row[WAITED])
    if until > since:
        row[WAITED] = until
        grow(t.counters[egress], WAIT, (until - since) * FS_PER_PS // TICK_FS[speed_code(t, egress)])


@inner
def cross(t, egress, vl15, now):
    """What happens to a MAD on the cable behind ``egress``: CROSSED, SPOILED (it was sent and arrived with an error) or
    NOT_SENT. VL15 knows no credits (IBA 3.5.7)."""
    ingress = np.int64(t.port_peer[egress])
    bits = t.fault[ingress, BITS]
    if bits & LAVISH and not vl15:
        if overflows(t, ingress, now):
            overrun(t, ingress, now)
            return SPOILED
    elif bits & SLOW and not vl15 and not queue(t, egress, ingress, now):
        return NOT_SENT
    if not bits & NOISY:
        return CROSSED
    if not spoiled(t, ingress):
        if t.fault[ingress, PHY_ERRORS] > 0:
            t.fault[ingress, PHY_ERRORS] -= 1
        return CROSSED
    add(t.counters[ingress], RCV_ERRORS, np.uint64(1))
    add(t.detail_counters[ingress], LOCAL_PHYSICAL, np.uint64(1))
    integrity(t, ingress, now)
    return SPOILED


@inner
def survive(t, first, last, vl15, now):
    """Send a MAD over the hops ``first``…``last`` - 1 of ``way``; -1 when it arrives, else the end of the hops that
    count."""
    for i in range(first, last):
        fate = cross(t, np.int64(t.way[i]), vl15, now)
        if fate != CROSSED:
            return np.int64(i + (1 if fate == SPOILED else 0))
    return np.int64(-1)


@inner
def survive_back(t, last, now):
    """As :func:`survive` for the answer of a directed SMP, on the hops ``last`` - 1 … 0 backwards: -1, or the first hop
    that does not count."""
    for i in range(last - 1, -1, -1):
        fate = cross(t, np.int64(t.port_peer[t.way[i]]), True, now)
        if fate != CROSSED:
            return np.int64(i if fate == SPOILED else i + 1)
    return np.int64(-1)
