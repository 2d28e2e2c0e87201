"""Reed-Solomon forward error correction of a link: how many codewords are corrected and lost at a
bit error ratio, and the counters that show it (IBA 5.3, 14.2.5.19; IEEE 802.3 clause 91)."""

import math

import numpy as np

from softib.agents.kernels.big_endian import get8, inner
from softib.agents.kernels.faults.fault_columns import LANES, WIDTH_AT, grow, poisson, roll
from softib.agents.kernels.route import LINK_UP, PHYS_AT
from softib.agents.kernels.samples import speed_code
from softib.fabric.counters import COUNTER_NAMES, LANE_COUNTERS
from softib.iba.rates import SPEEDS
from softib.iba.smp import PortInfoExtended

SYMBOL = COUNTER_NAMES.index("symbol_error_counter")
SYNC_HEADER, DETECTED, FEC_CORRECTED, FEC_UNCORRECTED, PORT_FEC_CORRECTED, PORT_FEC_UNCORRECTED, PORT_FEC_SYMBOLS = (
    LANE_COUNTERS.fields[n][1] // 8
    for n in (
        "sync_header_error_counter",
        "error_detection_counter",
        "fec_correctable_block_ctr",
        "fec_uncorrectable_block_ctr",
        "port_fec_correctable_block_ctr",
        "port_fec_uncorrectable_block_ctr",
        "port_fec_corrected_symbol_ctr",
    )
)
COUNTED_LANES = 12
FEC_ACTIVE_AT, RS_ACTIVE = PortInfoExtended.fec_mode_active.byte, 2
LANE_GBPS = np.array([0.0, *(s.lane_gbps for s in SPEEDS)])
PAM4 = np.array([False, *(s.pam4 for s in SPEEDS)])
SYMBOL_BITS, CODE_DATA_BITS = 10.0, 5140.0
PAM4_CODE, NRZ_CODE = (544, 15), (528, 7)
"""RS(544, 514) of PAM4 lanes, and RS(528, 514) of other lanes: number of 10-bit symbols in a
codeword, and number of symbols that the code can correct (IEEE 802.3 clause 91)."""
TAIL_TERMS = 40
LEAST_MEAN = 1e-9
"""If fewer codewords than this are expected, none is drawn, to save a random number per update."""


@inner
def corrects(t, port, code):
    """Return whether RS-FEC is active on the link of ``port``. It always is on PAM4 lanes (IBA
    14.2.5.19)."""
    return PAM4[code] or get8(t.port_info_ext[port], FEC_ACTIVE_AT + 1) >= RS_ACTIVE


@inner
def codeword(ber, length, fixes):
    """Return three values for one codeword: the expected number of corrected symbols, the
    probability that the codeword has errors and is corrected, and the probability that it is
    uncorrectable."""
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
    # If fewer errors are expected than the code corrects, the small tail is summed directly: in 1 -
    # sum, it would be lost in rounding.
    return symbols, fixed, (lost if length * q < fixes else 1.0 - fixed - right)


@inner
def on_lanes(t, row, column, lanes, n):
    """Distribute ``n`` events among the counters of the first ``lanes`` lanes."""
    each = n // lanes
    first = np.int64(roll(t) * lanes)
    for i in range(min(lanes, COUNTED_LANES)):
        grow(row, column + i, each + (1 if (i - first) % lanes < n - each * lanes else 0))


@inner
def wrong_blocks(t, port, lanes, symbols, fixed, lost):
    """Count the outcome of RS-FEC: corrected symbols per lane, corrected blocks, and lost blocks.
    Each lost block also counts as a symbol error."""
    row = t.lane_counters[port]
    on_lanes(t, row, FEC_CORRECTED, lanes, symbols)
    on_lanes(t, row, FEC_UNCORRECTED, lanes, lost)
    grow(row, PORT_FEC_SYMBOLS, symbols)
    grow(row, PORT_FEC_CORRECTED, fixed)
    grow(row, PORT_FEC_UNCORRECTED, lost)
    grow(t.counters[port], SYMBOL, lost)


@inner
def codewords_in(t, port, passed):
    """Return the number of codewords that the link into ``port`` carries in ``passed`` picoseconds."""
    code = speed_code(t, port)
    length = PAM4_CODE[0] if PAM4[code] else NRZ_CODE[0]
    return LANE_GBPS[code] * LANES[t.port_info[port, WIDTH_AT]] * passed * 1e-3 / (length * SYMBOL_BITS)


@inner
def clean_codewords(t, port, now):
    """Count all codewords since the last update in bin 0 of the histogram. :func:`corrected`
    subtracts those with errors in the same update."""
    passed = now - t.fec_clock[port]
    began = t.fec_clock[port] != 0
    t.fec_clock[port] = max(now, np.int64(1))
    if not began or passed <= 0 or t.port_info[port, PHYS_AT] >> 4 != LINK_UP:
        return
    if corrects(t, port, speed_code(t, port)):
        t.fec_histogram[port, 0] += np.uint64(codewords_in(t, port, passed))


@inner
def corrected(t, port, ber, length, fixes, codewords):
    """Draw how many of ``codewords`` have 1 … ``fixes`` wrong symbols, and how many have more.
    Count them in the histogram.

    Return (corrected symbols, corrected codewords, lost codewords).
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
