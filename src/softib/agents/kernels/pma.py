"""The performance management agent: all attributes that contain counters (IBA 16.1, A10). Sampling
is in :mod:`.samples`.

The fabric's counters have 64 bits; each counter in a MAD stops at the maximum of its field.
PortCounters and PortCountersExtended show the same counters, so a Set of one attribute also changes
the other. The specification does not define this. But Linux' qib driver keeps one offset for both,
and OpenSM's performance manager relies on it: on a device with the extended counters, it does not
clear the data counters through PortCounters.
"""

import numpy as np

from softib.agents.kernels.big_endian import clear, copy, get16, get32, get64, inner, put16, put32, put64
from softib.agents.kernels.faults.ber import settle
from softib.agents.kernels.mad_traffic import fold
from softib.agents.kernels.route import end_port
from softib.agents.kernels.samples import samples_control, samples_result
from softib.fabric.counters import (
    CAST_PACKETS,
    COUNTERS,
    DATA,
    DETAIL_COUNTERS,
    LANE_COUNTERS,
    LINK_ERRORS,
    SL_COUNTERS,
    VL_COUNTERS,
)
from softib.iba import constants as c
from softib.iba import perf, perf_optional
from softib.iba.notice import ClassPortInfo
from softib.iba.smp import ATTR_AT, DATA_AT, METHOD_AT

ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


@inner
def put_counter(m, offset, bits, value):
    """Write a counter of 2, 4, 8, 16, 32 or 64 bits. A value that is too large becomes the
    maximum."""
    at = DATA_AT + (offset >> 3)
    if bits == 64:
        put64(m, at, value)
        return
    top = (np.int64(1) << bits) - 1
    v = top if value > np.uint64(top) else np.int64(value)
    if bits == 32:
        put32(m, at, v)
    elif bits == 16:
        put16(m, at, v)
    else:
        shift = 8 - bits - (offset & 7)
        m[at] = (np.int64(m[at]) & ~(top << shift)) | (v << shift)


@inner
def get_counter(m, offset, bits):
    """Return the value of a counter of 2, 4, 8, 16, 32 or 64 bits in a MAD."""
    at = DATA_AT + (offset >> 3)
    if bits == 64:
        return get64(m, at)
    if bits == 32:
        return np.uint64(get32(m, at))
    if bits == 16:
        return np.uint64(get16(m, at))
    return np.uint64((np.int64(m[at]) >> (8 - bits - (offset & 7))) & ((1 << bits) - 1))


@inner
def counted(counters, first, last, column):
    """Return the sum of a counter over the ports ``first``…``last``, limited to 2^64 - 1."""
    total = np.uint64(0)
    for port in range(first, last + 1):
        count = counters[port, column]
        total = ALL_ONES if count > ALL_ONES - total else total + count
    return total


@inner
def counters_of(counters, m, first, last, fields, begin, end, selected, is_set):
    """Get: write the sums of the counters ``fields[begin:end]`` over ports ``first``…``last`` into
    the MAD. Set: first write the counters whose bit is set in ``selected`` (bit 0 = the first
    field), then answer as for a Get."""
    for i in range(begin, end):
        offset, bits, column = fields[i, 0], fields[i, 1], fields[i, 2]
        if is_set and (selected >> np.uint64(i - begin)) & np.uint64(1):
            value = get_counter(m, offset, bits)
            for port in range(first, last + 1):
                counters[port, column] = value
        put_counter(m, offset, bits, counted(counters, first, last, column))


SWITCH = int(c.NodeType.SWITCH)
SET = int(c.Method.SET)
OK, BAD_ATTRIBUTE, BAD_FIELD = int(c.MadStatus.OK), int(c.MadStatus.BAD_ATTRIBUTE), int(c.MadStatus.BAD_FIELD)
ALL_PORTS = perf.ALL_PORTS
CLASS_PORT_INFO, PORT_COUNTERS, PORT_COUNTERS_EXT, EXT_SPEEDS, SW_VL_CONGESTION = (
    ClassPortInfo.attr,
    perf.PortCounters.attr,
    perf_optional.PortCountersExtended.attr,
    perf_optional.PortExtendedSpeedsCounters.attr,
    perf_optional.SwPortVLCongestion.attr,
)
SAMPLES_CONTROL, SAMPLES_RESULT = perf.PortSamplesControl.attr, perf.PortSamplesResult.attr
CAP_MASK_AT, CAP_MASK2_AT = ClassPortInfo.cap_mask.byte, ClassPortInfo.cap_mask2.byte
ALL_PORT_SELECT, XMIT_WAIT = int(perf.CapMask.ALL_PORT_SELECT), int(perf.CapMask.PORT_XMIT_WAIT)
EXTENDED = int(perf.CapMask.EXTENDED_WIDTH | perf.CapMask.EXTENDED_WIDTH_NO_IETF)
ADDITIONAL = int(perf.CapMask2.ADDITIONAL_EXTENDED_COUNTERS)
RESP_TIME = 18  # 1.07 s, the value that adapters report
TRAP_AT, TRAP_OCTETS = ClassPortInfo.trap_gid.byte, 32
PORT_SELECT_AT = DATA_AT + perf.PortCounters.port_select.byte
SELECT_AT = DATA_AT + perf.PortCounters.counter_select.byte
SELECT2_AT = DATA_AT + perf.PortCounters.counter_select2.byte
EXT_SELECT2_AT = DATA_AT + perf_optional.PortCountersExtended.counter_select2.byte
XMIT_WAIT_AT = DATA_AT + perf.PortCounters.port_xmit_wait.byte
EXT_SPEEDS_SELECT_AT = DATA_AT + perf_optional.PortExtendedSpeedsCounters.counter_select.byte

_SELECTED = (*LINK_ERRORS, "vl15_dropped", *DATA, "port_xmit_wait", "qp1_dropped")
"""Counters by bit of CounterSelect (0-15), and of CounterSelect2 (indices 16 and 17 are its bits 0
and 1); IBA 16.1.3.5."""

_EXT_SELECTED = (*DATA, *CAST_PACKETS, *LINK_ERRORS, "vl15_dropped", "port_xmit_wait", "qp1_dropped")
"""Counters by bit of CounterSelect (0-7), followed by those by bit of CounterSelect2 (IBA
16.1.4.11)."""
EXT_BASIC, EXT_COUNTERS, BASIC = 8, len(_EXT_SELECTED), 16

GROUPS = (
    COUNTERS,
    DETAIL_COUNTERS,
    VL_COUNTERS,
    SL_COUNTERS,
    LANE_COUNTERS,
)
"""The columns of the fabric that hold counters: ``counters``, ``detail_counters``, ``vl_counters``,
``sl_counters`` and ``lane_counters``."""
NO_OP_CODE = -1

_ATTRIBUTES = (
    (perf.PortCounters, _SELECTED),
    (perf_optional.PortCountersExtended, _EXT_SELECTED),
    *(
        (s, None)
        for s in (
            perf_optional.PortRcvErrorDetails,
            perf_optional.PortXmitDiscardDetails,
            perf_optional.PortOpRcvCounters,
            perf_optional.PortFlowCtlCounters,
            perf_optional.PortVLOpPackets,
            perf_optional.PortVLOpData,
            perf_optional.PortVLXmitFlowCtlUpdateErrors,
            perf_optional.PortVLXmitWaitCounters,
            perf_optional.PortExtendedSpeedsCounters,
            perf_optional.SwPortVLCongestion,
            perf_optional.PortRcvConCtrl,
            perf_optional.PortSLRcvFECN,
            perf_optional.PortSLRcvBECN,
            perf_optional.PortXmitConCtrl,
            perf_optional.PortVLXmitTimeCong,
            perf_optional.PortXmitDataSL,
            perf_optional.PortRcvDataSL,
        )
    ),
)
"""All attributes that contain counters. The counters are in the order of the attribute's
CounterSelect (None: in wire order)."""


def _tables():
    """Return two tables. The first has the fields of all attributes, one attribute after another:
    int64[fields, 3] (bit offset, bits, column in the group). The second has the attributes:
    int64[n, 5] (ID, group, first field, last field, ``op_code`` that it counts)."""
    fields, attributes = [], []
    for struct, names in _ATTRIBUTES:
        columns = {n for g in GROUPS for n in g.names}
        names = names or [f.name for f in struct.named() if f.name in columns]
        group = next(i for i, g in enumerate(GROUPS) if names[0] in g.names)
        begin = len(fields)
        for name in names:
            f, column = struct.fields[name], GROUPS[group].fields[name][1] // 8
            fields += [(f.offset + i * f.bits, f.bits, column + i) for i in range(f.count)]
        op = (perf_optional.PortOpRcvCounters, perf_optional.PortVLOpPackets, perf_optional.PortVLOpData)
        attributes.append((struct.attr, group, begin, len(fields), op.index(struct) if struct in op else NO_OP_CODE))
    return np.array(fields, np.int64), np.array(attributes, np.int64)


FIELDS, ATTRIBUTES = _tables()


@inner
def class_port_info(t, m, end, which, version, cap_mask, cap_mask2, is_set):
    """Get or Set ClassPortInfo of a GSI class. A Set stores the destination of the class's traps
    (13.4.8.1). ``which`` is the row of ``class_traps``."""
    if is_set:
        copy(t.class_traps[end, which], 0, m, DATA_AT + TRAP_AT, TRAP_OCTETS)
    clear(m, DATA_AT, 192)
    m[DATA_AT] = 1
    m[DATA_AT + 1] = version
    put16(m, DATA_AT + CAP_MASK_AT, cap_mask)
    put32(m, DATA_AT + CAP_MASK2_AT, (cap_mask2 << 5) | RESP_TIME)
    copy(m, DATA_AT + TRAP_AT, t.class_traps[end, which], 0, TRAP_OCTETS)
    return OK


@inner
def selection(m, attribute):
    """Return a mask of the counters of an attribute that the Set in ``m`` writes."""
    if attribute == EXT_SPEEDS:
        return get64(m, EXT_SPEEDS_SELECT_AT)
    select = get16(m, SELECT_AT)
    if attribute == PORT_COUNTERS:
        select |= np.int64(m[SELECT2_AT]) << 16
    elif attribute == PORT_COUNTERS_EXT:
        select = (select & ((1 << EXT_BASIC) - 1)) | (get32(m, EXT_SELECT2_AT) << EXT_BASIC)
    return np.uint64(select)


@inner
def counted_fields(t, m, node, attribute, row):
    """Return the end index of those counters of ``ATTRIBUTES[row]`` that ``node`` has. Later fields
    are zero."""
    begin, end = ATTRIBUTES[row, 2], ATTRIBUTES[row, 3]
    if attribute == PORT_COUNTERS_EXT and t.perf_caps[node, 1] & ADDITIONAL == 0:
        clear(m, EXT_SELECT2_AT + 4 + 8 * EXT_BASIC, 8 * (EXT_COUNTERS - EXT_BASIC))
        return begin + EXT_BASIC
    if attribute == PORT_COUNTERS and t.perf_caps[node, 0] & XMIT_WAIT == 0:
        clear(m, XMIT_WAIT_AT, 4)
        return begin + BASIC
    return end


@inner
def counting(t, m, row, first, last, is_set, end):
    """Answer a Get or Set of one attribute of ``ATTRIBUTES``, for its fields before ``end`` and the
    ports ``first``…``last``."""
    group, begin, op = ATTRIBUTES[row, 1], ATTRIBUTES[row, 2], ATTRIBUTES[row, 4]
    selected = selection(m, ATTRIBUTES[row, 0])
    if op != NO_OP_CODE:
        if is_set:
            for port in range(first, last + 1):
                t.op_code[port, op] = m[DATA_AT]
        m[DATA_AT] = t.op_code[first, op]
    if group == 0:
        counters_of(t.counters, m, first, last, FIELDS, begin, end, selected, is_set)
    elif group == 1:
        counters_of(t.detail_counters, m, first, last, FIELDS, begin, end, selected, is_set)
    elif group == 2:
        counters_of(t.vl_counters, m, first, last, FIELDS, begin, end, selected, is_set)
    elif group == 3:
        counters_of(t.sl_counters, m, first, last, FIELDS, begin, end, selected, is_set)
    else:
        counters_of(t.lane_counters, m, first, last, FIELDS, begin, end, selected, is_set)


@inner
def perf_agent(t, m, ingress, now):
    """Answer a Get or Set of one PerfMgt attribute. Return the status."""
    attribute, is_set = get16(m, ATTR_AT), m[METHOD_AT] == SET
    node, end = t.port_node[ingress], end_port(t, ingress)
    is_switch = t.node_type[node] == SWITCH
    fold(t)
    if attribute == CLASS_PORT_INFO:
        return class_port_info(t, m, end, 0, 1, t.perf_caps[node, 0], t.perf_caps[node, 1], is_set)
    if attribute == SAMPLES_RESULT:
        return BAD_ATTRIBUTE if is_set else samples_result(t, m, end, now)
    row = -1
    for i in range(ATTRIBUTES.shape[0]):
        if ATTRIBUTES[i, 0] == attribute:
            row = i
    if (row < 0 and attribute != SAMPLES_CONTROL) or (attribute == SW_VL_CONGESTION and not is_switch):
        return BAD_ATTRIBUTE
    cap_mask = t.perf_caps[node, 0]
    if attribute == PORT_COUNTERS_EXT and cap_mask & EXTENDED == 0:
        return BAD_ATTRIBUTE
    base, n = np.int64(t.node_base[node]), np.int64(t.node_nports[node])
    number = np.int64(m[PORT_SELECT_AT])
    first, last = base + number, base + number
    if number == ALL_PORTS and row >= 0 and cap_mask & ALL_PORT_SELECT:
        first, last = base + 1, base + n
    elif number > n or (number == 0 and not is_switch):
        return BAD_FIELD
    for port in range(first, last + 1):
        settle(t, port, now)
    if row < 0:
        return samples_control(t, m, end, first, now, is_set)
    counting(t, m, row, first, last, is_set, counted_fields(t, m, node, attribute, row))
    return OK
