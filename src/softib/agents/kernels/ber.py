# mypy: ignore-errors
"""Faults of links: bit errors and what becomes of a MAD on a cable that has one (IBA 16.1.3.5, 16.1.4, 7.12).

Symbols flow on a link that is up all the time, so errors grow with time. Nothing ticks: :func:`settle` brings one port
up to a moment, when somebody reads its counters or its link changes.
"""

import math

import numpy as np

from softib.agents.kernels.big_endian import get8, inner
from softib.agents.kernels.drain import WAIT, overflows, queue, tick
from softib.agents.kernels.fault_columns import (
    BER,
    BITS,
    FAULTY,
    HELD,
    LANES,
    LAVISH,
    LEFT_OUT,
    NOISY,
    PACKET_OCTETS,
    PHY_ERRORS,
    SETTLED,
    SLOW,
    STARVED,
    WIDTH_AT,
)  # fmt: skip
from softib.agents.kernels.flow_control import UPDATE_BITS, overrun, watchdog
from softib.agents.kernels.mad_traffic import add
from softib.agents.kernels.notice import threshold
from softib.agents.kernels.rng import grow, poisson, roll
from softib.agents.kernels.route import LINK_UP, PHYS_AT, end_port
from softib.agents.kernels.samples import FS_PER_PS, TICK_FS, speed_code
from softib.fabric.counters import COUNTER_NAMES, DETAIL_COUNTERS, LANE_COUNTERS
from softib.iba.rates import SPEEDS
from softib.iba.smp import PortInfo, PortInfoExtended

SYMBOL, RECOVERY, RCV_ERRORS, INTEGRITY = (
    COUNTER_NAMES.index(n) for n in (
        "symbol_error_counter", "link_error_recovery_counter", "port_rcv_errors", "local_link_integrity_errors")
)  # fmt: skip
LOCAL_PHYSICAL = DETAIL_COUNTERS.names.index("port_local_physical_errors")
SYNC_HEADER, DETECTED, FEC_CORRECTED, FEC_UNCORRECTED, PORT_FEC_CORRECTED, PORT_FEC_UNCORRECTED, PORT_FEC_SYMBOLS = (
    LANE_COUNTERS.fields[n][1] // 8 for n in (
        "sync_header_error_counter", "error_detection_counter", "fec_correctable_block_ctr",
        "fec_uncorrectable_block_ctr", "port_fec_correctable_block_ctr", "port_fec_uncorrectable_block_ctr",
        "port_fec_corrected_symbol_ctr")
)  # fmt: skip
COUNTED_LANES = 12
THRESHOLDS_AT = PortInfo.local_phy_errors.byte
FEC_ACTIVE_AT, RS_ACTIVE = PortInfoExtended.fec_mode_active.byte, 2
TRAP_INTEGRITY = 129

LANE_GBPS = np.array([0.0, *(s.lane_gbps for s in SPEEDS)])
PAM4 = np.array([False, *(s.pam4 for s in SPEEDS)])
FIRST_64B66B = 4
"""Speed code (FDR10) from which lanes carry 64b/66b blocks instead of 8b/10b symbols."""
SYNC_SHARE = 2 / 66
SYMBOL_BITS, CODE_DATA_BITS = 10.0, 5140.0
PAM4_CODE, NRZ_CODE = (544, 15), (528, 7)
"""RS(544, 514) of PAM4 lanes and RS(528, 514): symbols of a codeword and how many of them it corrects (IEEE 802.3
clause 91, symbols of 10 bits)."""
TAIL_TERMS = 40
LEAST_MEAN = 1e-9
"""Where fewer codewords are expected none is drawn: each look would cost a random number for nothing."""
CROSSED, CORRUPTED, NOT_SENT = 0, 1, 2
MOST_AT_ONCE = 100_000
"""Corrupted packets of applications at most that one look at their counts follows one by one."""


@inner
def corrects(t, port, code):
    """True when RS-FEC works on the link of ``port`` (always on PAM4 lanes; IBA 14.2.5.19)."""
    return PAM4[code] or get8(t.port_info_ext[port], FEC_ACTIVE_AT + 1) >= RS_ACTIVE


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
def codewords_in(t, port, passed):
    """Codewords that the link into ``port`` carries in ``passed`` picoseconds."""
    code = speed_code(t, port)
    length = PAM4_CODE[0] if PAM4[code] else NRZ_CODE[0]
    return LANE_GBPS[code] * LANES[t.port_info[port, WIDTH_AT]] * passed * 1e-3 / (length * SYMBOL_BITS)


@inner
def clean_codewords(t, port, now):
    """Count the codewords since the last look in bin 0 of the histogram; :func:`corrected` takes those with errors out again, in the same time."""
    passed = now - t.fec_clock[port]
    began = t.fec_clock[port] != 0
    t.fec_clock[port] = max(now, np.int64(1))
    if not began or passed <= 0 or t.port_info[port, PHYS_AT] >> 4 != LINK_UP:
        return
    if corrects(t, port, speed_code(t, port)):
        t.fec_histogram[port, 0] += np.uint64(codewords_in(t, port, passed))


@inner
def corrected(t, port, ber, length, fixes, codewords):
    """Draw how many of ``codewords`` have 1 … ``fixes`` wrong symbols, and how many more; counts them in the histogram.

    (corrected symbols, corrected codewords, lost ones).
    """
    q = -math.expm1(SYMBOL_BITS * math.log1p(-min(ber, 0.5)))
    p, symbols, fixed = math.exp(length * math.log1p(-q)), np.int64(0), np.int64(0)
    for k in range(1, fixes + 1):
        p *= (length - k + 1) / k * q / (1.0 - q)
        mean = codewords * p
        if mean > LEAST_MEAN:
            n = poisson(t, mean)
            symbols += k * n
            fixed += n
            t.fec_histogram[port, k] += np.uint64(n)
    lost = poisson(t, codewords * codeword(ber, length, fixes)[2])
    if t.fec_clock[port] != 0:
        t.fec_histogram[port, 0] -= np.uint64(fixed + lost)
    return symbols, fixed, lost


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
    symbols, fixed, lost = corrected(t, port, ber, length, fixes, bits / (length * SYMBOL_BITS))
    wrong_blocks(t, port, lanes, symbols, fixed, lost)


@inner
def corrupted_updates(t, port):
    """Probability that a flow control packet into ``port`` arrives with an error: of its 80 line bits, of its block of 66
    bits, or of the codeword around it."""
    code, ber = speed_code(t, port), min(t.fault_rate[port, BER], 0.5)
    if corrects(t, port, code):
        length, fixes = PAM4_CODE if PAM4[code] else NRZ_CODE
        return codeword(ber, length, fixes)[2]
    return -math.expm1((66 if code >= FIRST_64B66B else UPDATE_BITS) * math.log1p(-ber))


@inner
def lost_updates(t, port):
    """Probability that ``port`` misses a flow control packet: the other end leaves it out, or it arrives with an error."""
    bits, lost = t.fault[port, BITS], 0.0
    if bits & NOISY:
        lost = corrupted_updates(t, port)
    if bits & STARVED:
        lost = 1.0 - (1.0 - lost) * (1.0 - t.fault_rate[port, LEFT_OUT])
    return lost


@inner
def settle(t, port, now):
    """Bring the counters of ``port`` up to ``now``."""
    if t.fec_clock[port] != 0:
        clean_codewords(t, port, now)
    if t.options[FAULTY] == 0:
        return
    row = t.fault[port]
    passed = now - row[SETTLED]
    if passed <= 0:
        return
    row[SETTLED] = now
    held = row[HELD]
    if held:
        row[HELD] = now
    if t.port_info[port, PHYS_AT] >> 4 != LINK_UP:
        return
    if row[BITS] & NOISY:
        idle(t, port, passed)
    if row[BITS] & (NOISY | STARVED):
        watchdog(t, port, lost_updates(t, port), passed, now)
    if held:
        grow(t.counters[port], WAIT, (now - held) * FS_PER_PS // TICK_FS[speed_code(t, port)])
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
    if row[PHY_ERRORS] <= get8(t.port_info[port], THRESHOLDS_AT) >> 4:
        return
    row[PHY_ERRORS] = 0
    add(t.counters[port], INTEGRITY, np.uint64(1))
    add(t.counters[port], RECOVERY, np.uint64(1))
    add(t.counters[t.port_peer[port]], RECOVERY, np.uint64(1))
    threshold(t, now, end_port(t, port), TRAP_INTEGRITY, np.int64(t.port_num[port]))


@inner
def corrupted(t, port):
    """True when a bit of a MAD is wrong as it arrives at ``port``; counts the symbols."""
    code, lanes = speed_code(t, port), LANES[t.port_info[port, WIDTH_AT]]
    ber = t.fault_rate[port, BER]
    if corrects(t, port, code):
        codewords = 1.0 + (PACKET_OCTETS * 8 - 1) / CODE_DATA_BITS
        length, fixes = PAM4_CODE if PAM4[code] else NRZ_CODE
        lost = poisson(t, codewords * codeword(ber, length, fixes)[2])
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
    of 5140 data bits, and is lost with each that cannot be corrected: the rule of :func:`corrupted` for any length.
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
def arrive_corrupted(t, ingress, corrupted, packets, now):
    """``corrupted`` of ``packets`` of applications arrived at ``ingress`` with wrong bits, evenly among them."""
    add(t.counters[ingress], RCV_ERRORS, np.uint64(corrupted))
    add(t.detail_counters[ingress], LOCAL_PHYSICAL, np.uint64(corrupted))
    right = max(packets - corrupted, np.int64(0)) // max(corrupted, np.int64(1))
    for _ in range(min(corrupted, MOST_AT_ONCE)):
        integrity(t, ingress, now)
        t.fault[ingress, PHY_ERRORS] = max(t.fault[ingress, PHY_ERRORS] - right, np.int64(0))


@inner
def cross(t, egress, vl15, now):
    """What happens to a MAD on the cable behind ``egress``: CROSSED, CORRUPTED (it was sent and arrived with an error) or
    NOT_SENT. VL15 knows no credits (IBA 3.5.7)."""
    ingress = np.int64(t.port_peer[egress])
    bits = t.fault[ingress, BITS]
    if bits & LAVISH and not vl15:
        if overflows(t, ingress, now):
            overrun(t, ingress, now)
            return CORRUPTED
    elif bits & SLOW and not vl15 and not queue(t, egress, ingress, now):
        return NOT_SENT
    if not bits & NOISY:
        return CROSSED
    if not corrupted(t, ingress):
        if t.fault[ingress, PHY_ERRORS] > 0:
            t.fault[ingress, PHY_ERRORS] -= 1
        return CROSSED
    add(t.counters[ingress], RCV_ERRORS, np.uint64(1))
    add(t.detail_counters[ingress], LOCAL_PHYSICAL, np.uint64(1))
    integrity(t, ingress, now)
    return CORRUPTED


@inner
def survive(t, first, last, vl15, now):
    """Send a MAD over the hops ``first``…``last`` - 1 of ``path``; -1 when it arrives, else the end of the hops that
    count."""
    for i in range(first, last):
        fate = cross(t, np.int64(t.path[i]), vl15, now)
        if fate != CROSSED:
            return np.int64(i + (1 if fate == CORRUPTED else 0))
    return np.int64(-1)


@inner
def survive_back(t, last, now):
    """As :func:`survive` for the answer of a directed SMP, on the hops ``last`` - 1 … 0 backwards: -1, or the first hop
    that does not count."""
    for i in range(last - 1, -1, -1):
        fate = cross(t, np.int64(t.port_peer[t.path[i]]), True, now)
        if fate != CROSSED:
            return np.int64(i if fate == CORRUPTED else i + 1)
    return np.int64(-1)
