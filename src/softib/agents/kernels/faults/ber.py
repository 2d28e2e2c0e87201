"""Bit errors of links, and their effect on MADs and counters (IBA 16.1.3.5, 16.1.4, 7.12).

A link that is up always carries symbols, so the number of its errors grows with time. There is no
periodic update: :func:`settle` updates one port when its counters are read or its link changes.
"""

import math

import numpy as np

from softib.agents.kernels.big_endian import get8, inner
from softib.agents.kernels.faults.fault_columns import (
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
    grow,
    poisson,
)
from softib.agents.kernels.faults.fec import (
    CODE_DATA_BITS,
    DETECTED,
    LANE_GBPS,
    NRZ_CODE,
    PAM4,
    PAM4_CODE,
    SYMBOL,
    SYMBOL_BITS,
    SYNC_HEADER,
    clean_codewords,
    codeword,
    corrected,
    corrects,
    on_lanes,
    wrong_blocks,
)
from softib.agents.kernels.faults.flow_control import UPDATE_BITS, WAIT, overflows, overrun, queue, tick, watchdog
from softib.agents.kernels.mad_traffic import add
from softib.agents.kernels.notice import threshold
from softib.agents.kernels.route import LINK_UP, PHYS_AT, end_port
from softib.agents.kernels.samples import FS_PER_PS, TICK_FS, speed_code
from softib.fabric.counters import COUNTER_NAMES, DETAIL_COUNTERS
from softib.iba.smp import PortInfo

RECOVERY, RCV_ERRORS, INTEGRITY = (
    COUNTER_NAMES.index(n) for n in ("link_error_recovery_counter", "port_rcv_errors", "local_link_integrity_errors")
)
LOCAL_PHYSICAL = DETAIL_COUNTERS.names.index("port_local_physical_errors")
THRESHOLDS_AT = PortInfo.local_phy_errors.byte
TRAP_INTEGRITY = 129

FIRST_64B66B = 4
"""First speed code (FDR10) at which lanes carry 64b/66b blocks instead of 8b/10b symbols."""
SYNC_SHARE = 2 / 66
CROSSED, CORRUPTED, NOT_SENT = 0, 1, 2
MOST_AT_ONCE = 100_000
"""Maximum number of corrupted application packets per update that are assigned to packets
individually."""


@inner
def wrong_bits(t, port, code, lanes, n):
    """Count ``n`` bit errors that no code corrects. Each makes one symbol (8b/10b) or block
    (64b/66b) wrong."""
    grow(t.counters[port], SYMBOL, n)
    if code >= FIRST_64B66B and n > 0:
        row = t.lane_counters[port]
        headers = min(poisson(t, n * SYNC_SHARE), n)
        grow(row, SYNC_HEADER, headers)
        on_lanes(t, row, DETECTED, lanes, n - headers)


@inner
def idle(t, port, passed):
    """Count the bit errors in the symbols that the link into ``port`` carried in ``passed``
    picoseconds."""
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
    """Return the probability that a flow control packet into ``port`` arrives with an error. The
    error is in its 80 line bits, in its block of 66 bits, or, with FEC, in the codeword that
    contains it."""
    code, ber = speed_code(t, port), min(t.fault_rate[port, BER], 0.5)
    if corrects(t, port, code):
        length, fixes = PAM4_CODE if PAM4[code] else NRZ_CODE
        return codeword(ber, length, fixes)[2]
    return -math.expm1((66 if code >= FIRST_64B66B else UPDATE_BITS) * math.log1p(-ber))


@inner
def lost_updates(t, port):
    """Return the probability that ``port`` does not receive a flow control packet, because the peer
    omits it or it arrives with an error."""
    bits, lost = t.fault[port, BITS], 0.0
    if bits & NOISY:
        lost = corrupted_updates(t, port)
    if bits & STARVED:
        lost = 1.0 - (1.0 - lost) * (1.0 - t.fault_rate[port, LEFT_OUT])
    return lost


@inner
def settle(t, port, now):
    """Update the counters of ``port`` to time ``now``."""
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
    """Count a local physical error. If the number of errors exceeds the threshold (LocalPhyErrors),
    the link recovers: both ends count the recovery, and the receiver counts
    LocalLinkIntegrityErrors and raises trap 129. Each packet without an error cancels one error
    (IBA 7.12.2)."""
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
    """Return whether a MAD arrives at ``port`` with a bit error. Its symbol errors are counted."""
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
    """Return (a, b) such that a packet of L bytes on the link into ``port`` is lost with
    probability 1 - exp(-(a + b L)).

    Without FEC, an error in any of the packet's line bits (10 or 8.25 per byte) destroys it. With
    FEC, a packet begins anywhere in a codeword of 5140 data bits, and is lost if any codeword that
    contains a part of it is uncorrectable. :func:`corrupted` applies the same rule to MADs.
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
    """Process ``corrupted`` corrupted packets among the ``packets`` that arrived for applications
    at ``ingress``. They are assumed to be evenly spread."""
    add(t.counters[ingress], RCV_ERRORS, np.uint64(corrupted))
    add(t.detail_counters[ingress], LOCAL_PHYSICAL, np.uint64(corrupted))
    right = max(packets - corrupted, np.int64(0)) // max(corrupted, np.int64(1))
    for _ in range(min(corrupted, MOST_AT_ONCE)):
        integrity(t, ingress, now)
        t.fault[ingress, PHY_ERRORS] = max(t.fault[ingress, PHY_ERRORS] - right, np.int64(0))


@inner
def cross(t, egress, vl15, now):
    """Return the outcome of a MAD on the cable at ``egress``: CROSSED, CORRUPTED (it arrived with
    an error) or NOT_SENT. VL15 does not use credits (IBA 3.5.7)."""
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
    """Send a MAD over the hops ``first``…``last`` - 1 of ``path``. Return -1 if it arrives,
    otherwise the end of the range of hops that it passed and that are counted."""
    for i in range(first, last):
        fate = cross(t, np.int64(t.path[i]), vl15, now)
        if fate != CROSSED:
            return np.int64(i + (1 if fate == CORRUPTED else 0))
    return np.int64(-1)


@inner
def survive_back(t, last, now):
    """Send the answer of a directed SMP backwards over the hops ``last`` - 1 … 0. Return -1 if it
    arrives, otherwise the first hop that it did not pass and that is not counted."""
    for i in range(last - 1, -1, -1):
        fate = cross(t, np.int64(t.port_peer[t.path[i]]), True, now)
        if fate != CROSSED:
            return np.int64(i if fate == CORRUPTED else i + 1)
    return np.int64(-1)
