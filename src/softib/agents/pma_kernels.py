# mypy: ignore-errors
"""The performance management agent: ClassPortInfo, PortCounters, PortCountersExtended (IBA 16.1).

The fabric counts in 64 bits; each wire field stops at its own largest value. What a Set writes in one attribute, the
other one shows too, because there is one counter behind both.
"""

import numpy as np

from softib.agents.octet_kernels import clear, get16, get32, inner, put16, put32, put64
from softib.fabric.columns import COUNTER_NAMES
from softib.iba import constants as c
from softib.iba import perf

SWITCH = int(c.NodeType.SWITCH)
SET = int(c.Method.SET)
OK, BAD_ATTRIBUTE, BAD_FIELD = int(c.MadStatus.OK), int(c.MadStatus.BAD_ATTRIBUTE), int(c.MadStatus.BAD_FIELD)
DATA = c.SMP_DATA
ALL_PORTS = perf.ALL_PORTS
CLASS_PORT_INFO, PORT_COUNTERS, PORT_COUNTERS_EXT = (
    perf.ClassPortInfo.attr, perf.PortCounters.attr, perf.PortCountersExtended.attr,
)  # fmt: skip
CAP_MASK_AT, RESP_TIME_AT = perf.ClassPortInfo.cap_mask.byte, perf.ClassPortInfo.resp_time_value.offset // 8
CAPABILITIES = 1 << 8 | 1 << 9 | 1 << 12  # AllPortSelect, IsExtendedWidthSupported, PortXmitWait
RESP_TIME = 18  # 1.07 s, as adapters report
PORT_SELECT_AT = DATA + perf.PortCounters.port_select.byte
SELECT_AT = DATA + perf.PortCounters.counter_select.byte
SELECT2_AT = DATA + perf.PortCounters.counter_select2.byte
EXT_SELECT2_AT = DATA + perf.PortCountersExtended.counter_select2.byte

_SELECTED = (
    "symbol_error_counter", "link_error_recovery_counter", "link_downed_counter", "port_rcv_errors",
    "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_discards",
    "port_xmit_constraint_errors", "port_rcv_constraint_errors", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors", "vl15_dropped", "port_xmit_data", "port_rcv_data", "port_xmit_pkts",
    "port_rcv_pkts", "port_xmit_wait", "qp1_dropped",
)  # fmt: skip
"""Counters by bit of CounterSelect (0-15) and CounterSelect2 (16: its bit 0, 17: its bit 1); IBA 16.1.3.5."""

_EXT_SELECTED = (
    "port_xmit_data", "port_rcv_data", "port_xmit_pkts", "port_rcv_pkts", "port_unicast_xmit_pkts",
    "port_unicast_rcv_pkts", "port_multicast_xmit_pkts", "port_multicast_rcv_pkts",
    # CounterSelect2 from here on.
    "symbol_error_counter", "link_error_recovery_counter", "link_downed_counter", "port_rcv_errors",
    "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_discards",
    "port_xmit_constraint_errors", "port_rcv_constraint_errors", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors", "vl15_dropped", "port_xmit_wait", "qp1_dropped",
)  # fmt: skip
EXT_BASIC = 8


def _places(struct, names):
    """int64[fields, 3]: bit offset and bits on the wire, column of the fabric's counters."""
    fields = [getattr(struct, n) for n in names]
    return np.array([(f.offset, f.bits, COUNTER_NAMES.index(f.name)) for f in fields], np.int64)


PLACES = _places(perf.PortCounters, _SELECTED)
EXT_PLACES = _places(perf.PortCountersExtended, _EXT_SELECTED)


@inner
def put_counter(m, offset, bits, value):
    """Write a counter of 4, 8, 16, 32 or 64 bits, saturated."""
    at = DATA + (offset >> 3)
    if bits == 64:
        put64(m, at, value)
        return
    top = (np.int64(1) << bits) - 1
    v = top if value > np.uint64(top) else np.int64(value)
    if bits == 32:
        put32(m, at, v)
    elif bits == 16:
        put16(m, at, v)
    elif bits == 8:
        m[at] = v
    elif offset & 7:
        m[at] = (np.int64(m[at]) & 0xF0) | v
    else:
        m[at] = (np.int64(m[at]) & 0x0F) | (v << 4)


@inner
def get_counter(m, offset, bits):
    """The wire value of a counter of 4, 8, 16, 32 or 64 bits."""
    at = DATA + (offset >> 3)
    if bits == 64:
        v = np.uint64(0)
        for j in range(8):
            v = (v << np.uint64(8)) | np.uint64(m[at + j])
        return v
    if bits == 32:
        return np.uint64(get32(m, at))
    if bits == 16:
        return np.uint64(get16(m, at))
    if bits == 8:
        return np.uint64(m[at])
    return np.uint64((np.int64(m[at]) >> (0 if offset & 7 else 4)) & 15)


@inner
def counted(t, first, last, column):
    """Sum of a counter over ports, stopping at 2^64 - 1."""
    total = np.uint64(0)
    for port in range(first, last + 1):
        more = total + t.counters[port, column]
        total = np.uint64(0xFFFFFFFFFFFFFFFF) if more < total else more
    return total


@inner
def counters_of(t, m, first, last, places, selected, is_set):
    """Get: all counters of ports ``first``…``last``, summed. Set: write the selected ones, then as Get."""
    for i in range(places.shape[0]):
        offset, bits, column = places[i, 0], places[i, 1], places[i, 2]
        if is_set and (selected >> i) & 1:
            value = get_counter(m, offset, bits)
            for port in range(first, last + 1):
                t.counters[port, column] = value
        put_counter(m, offset, bits, counted(t, first, last, column))


@inner
def perf_agent(t, m, ingress):
    """Answer Get or Set of one PerfMgt attribute; returns the status."""
    attribute, is_set = get16(m, 16), m[3] == SET
    if attribute == CLASS_PORT_INFO and not is_set:
        clear(m, DATA, 192)
        m[DATA] = 1
        m[DATA + 1] = 1
        put16(m, DATA + CAP_MASK_AT, CAPABILITIES)
        m[DATA + RESP_TIME_AT] = RESP_TIME
        return OK
    if attribute != PORT_COUNTERS and attribute != PORT_COUNTERS_EXT:
        return BAD_ATTRIBUTE
    node = t.port_node[ingress]
    base, n = np.int64(t.node_base[node]), np.int64(t.node_nports[node])
    number = np.int64(m[PORT_SELECT_AT])
    first, last = base + number, base + number
    if number == ALL_PORTS:
        first, last = base + 1, base + n
    elif number > n or (number == 0 and t.node_type[node] != SWITCH):
        return BAD_FIELD
    if attribute == PORT_COUNTERS:
        selected = get16(m, SELECT_AT) | (np.int64(m[SELECT2_AT]) << 16)
        counters_of(t, m, first, last, PLACES, selected, is_set)
    else:
        selected = (get16(m, SELECT_AT) & ((1 << EXT_BASIC) - 1)) | (get32(m, EXT_SELECT2_AT) << EXT_BASIC)
        counters_of(t, m, first, last, EXT_PLACES, selected, is_set)
    return OK
