"""Registers that a Get of Mellanox' vendor class reads (AccessRegisterGMP): the module in a port,
and the histogram of what RS-FEC corrected there."""

import numpy as np

from softib.agents.kernels.ber import settle
from softib.agents.kernels.big_endian import clear, copy, get8, get32, inner, put32, put64
from softib.agents.kernels.fec import PAM4, clean_codewords, corrects
from softib.agents.kernels.samples import speed_code
from softib.iba.vendor import mlnx as r

AT, BLOCK = r.REGISTER_AT, r.BLOCK_SIZE
BLOCK_NUMBER_AT = AT - 4
PPCNT, PDDR, PPHCR = r.PPCNT, r.PDDR, r.PPHCR
OK, UNKNOWN, BAD = 0, r.UNKNOWN_REGISTER, r.BAD_PARAMETER
PORT_AT, IB_PORT_AT, GROUP_AT, UNIT_AT, PAGE_AT = AT + 1, AT + 2, AT + 3, AT + 4, AT + 7
DATA_AT = AT + r.PortRegister.size
HISTOGRAM, MODULE = r.HISTOGRAM_GROUP, r.MODULE_PAGE
BINS, MODULE_SIZE = r.BINS, r.ModuleInfo.size
KP4_MOST, KR4_MOST = 15, 7
KP4, KR4 = r.KP4, r.KR4
H = r.HistogramRanges
TYPE_AT, COUNT_AT, MOST_AT, RANGES_AT = (
    AT,
    AT + H.num_of_bins.byte,
    AT + H.hist_max_measurement.byte,
    AT + H.bin_range.byte,
)
LARGEST = np.uint64(1 << 63)


@inner
def access_register(t, m, node, number, now):
    """Answer the Get of register ``number``; returns the status."""
    if number != PPCNT and number != PDDR and number != PPHCR:
        return UNKNOWN
    if get32(m, BLOCK_NUMBER_AT) >> 16 != 0 or get8(m, IB_PORT_AT) >> 6 != 1:
        return BAD
    which = get8(m, PORT_AT)
    if which < 1 or which > t.node_nports[node]:
        return BAD
    port = np.int64(t.node_base[node]) + which
    if number == PDDR:
        # Power in dBm would need another image: this firmware knows microwatts alone.
        if get8(m, PAGE_AT) != MODULE or get8(m, UNIT_AT) >> 5 & 3 != 1:
            return BAD
        clear(m, DATA_AT, BLOCK - 8)
        copy(m, DATA_AT, t.module_info[port], 0, MODULE_SIZE)
        return OK
    code = speed_code(t, port)
    active = corrects(t, port, code)
    if number == PPCNT:
        if get8(m, GROUP_AT) & 63 != HISTOGRAM:
            return BAD
        settle(t, port, now)
        clean_codewords(t, port, now)
        clear(m, DATA_AT, BLOCK - 8)
        for k in range(BINS):
            value = t.fec_histogram[port, k]
            put64(m, DATA_AT + 8 * k, value if value < LARGEST else np.uint64(0))
        return OK
    clear(m, AT + 5, BLOCK - 5)
    m[TYPE_AT] = ((KP4 if PAM4[code] else KR4) << 4) if active else 0
    bins = (KP4_MOST if PAM4[code] else KR4_MOST) + 1 if active else 0
    m[COUNT_AT], m[MOST_AT] = bins, max(bins - 1, 0)
    for k in range(bins):
        put32(m, RANGES_AT + 4 * k, k << 16 | k)
    return OK
