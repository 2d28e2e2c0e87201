# mypy: ignore-errors
"""One call for a batch of MADs: route each, let the device answer, collect what only a client can answer.

A batch is processed in its order, as one sender's MADs arrive. Outputs are allocated by the caller.

Two settings make the difference between 2,400 and 120 ns a MAD: no reference counts (``_nrt=False``: nothing here
allocates, and a call with the tables would count some thirty arrays up and down), and the functions on the way of
every MAD inlined (a call would copy the thirty array descriptors).
"""

import numpy as np

from softib.agents.mkey_kernels import admit
from softib.agents.octet_kernels import get16, get32, get64, inner
from softib.agents.pma_kernels import perf_agent
from softib.agents.port_kernels import drop, get_port_info, set_port_info, train
from softib.agents.route_kernels import by_lid, directed_back, end_port, route_smp, turn
from softib.agents.sma_kernels import (
    guid_info,
    linear_fdb,
    mlnx_ext_port_info,
    multicast_fdb,
    node_description,
    node_info,
    pkey_table,
    sl_to_vl,
    switch_info,
    vl_arbitration,
)  # fmt: skip
from softib.iba import constants as c
from softib.iba.smp import PortInfo
from softib.jit import kernel

A = c.SmpAttr
NODE_DESC, NODE_INFO, SWITCH_INFO, GUID_INFO, PORT_INFO = (
    int(A.NODE_DESC), int(A.NODE_INFO), int(A.SWITCH_INFO), int(A.GUID_INFO), int(A.PORT_INFO),
)  # fmt: skip
PKEY_TABLE, SL2VL, VL_ARB, LFT, MFT, SM_INFO, NOTICE, MLNX = (
    int(A.PKEY_TABLE), int(A.SL2VL), int(A.VL_ARB), int(A.LFT), int(A.MFT), int(A.SM_INFO), int(A.NOTICE),
    int(A.MLNX_EXT_PORT_INFO),
)  # fmt: skip
SUBN_LID, SUBN_DR, PERF = int(c.MgmtClass.SUBN_LID), int(c.MgmtClass.SUBN_DR), int(c.MgmtClass.PERF)
GET, SET, TRAP_REPRESS = int(c.Method.GET), int(c.Method.SET), int(c.Method.TRAP_REPRESS)
TRAP, REPORT, SEND = int(c.Method.TRAP), int(c.Method.REPORT), int(c.Method.SEND)
BAD_VERSION, BAD_METHOD, BAD_ATTRIBUTE = (
    int(c.MadStatus.BAD_VERSION), int(c.MadStatus.BAD_METHOD), int(c.MadStatus.BAD_ATTRIBUTE),
)  # fmt: skip
PERMISSIVE = c.LID_PERMISSIVE
LID_AT = PortInfo.lid.byte

SILENT, ANSWERED, FOR_CLIENT = 0, 1, 2


@inner(inline="always")
def subnet_agent(t, m, ingress, now):
    """Answer Get or Set of one attribute; returns the status."""
    attribute, modifier = get16(m, 16), get32(m, 20)
    is_set = m[3] == SET
    if attribute == LFT:
        return linear_fdb(t, m, ingress, modifier, is_set)
    if attribute == PORT_INFO:
        # Bit 31 says that the SM knows extended speeds.
        if is_set:
            return set_port_info(t, m, ingress, modifier & 0x7FFFFFFF, now)
        return get_port_info(t, m, ingress, modifier & 0x7FFFFFFF)
    if attribute == NODE_INFO:
        return node_info(t, m, ingress, modifier, is_set)
    if attribute == NODE_DESC:
        return node_description(t, m, ingress, modifier, is_set)
    if attribute == SWITCH_INFO:
        return switch_info(t, m, ingress, modifier, is_set)
    if attribute == PKEY_TABLE:
        return pkey_table(t, m, ingress, modifier, is_set)
    if attribute == SL2VL:
        return sl_to_vl(t, m, ingress, modifier, is_set)
    if attribute == VL_ARB:
        return vl_arbitration(t, m, ingress, modifier, is_set)
    if attribute == MFT:
        return multicast_fdb(t, m, ingress, modifier, is_set)
    if attribute == GUID_INFO:
        return guid_info(t, m, ingress, modifier, is_set)
    if attribute == MLNX:
        return mlnx_ext_port_info(t, m, ingress, modifier, is_set)
    return BAD_ATTRIBUTE


@inner(inline="always")
def arrive(t, m, ingress, now):
    """What happens to a MAD at its destination: SILENT, ANSWERED (``m`` is the answer) or FOR_CLIENT."""
    klass, method = m[1], m[3]
    is_smp = klass == SUBN_LID or klass == SUBN_DR
    if (not is_smp and klass != PERF) or method & 0x80:
        return FOR_CLIENT
    if method == TRAP_REPRESS:
        return SILENT
    if m[2] != 1:
        turn(m, BAD_VERSION, klass == SUBN_DR)
        return ANSWERED
    if is_smp:
        attribute = get16(m, 16)
        # The subnet manager on that node answers for itself; traps and reports are addressed to it.
        if attribute == SM_INFO or method == TRAP or method == REPORT or method == SEND:
            return FOR_CLIENT
        if method != GET and method != SET:
            turn(m, BAD_METHOD, klass == SUBN_DR)
            return ANSWERED
        if not admit(t, m, end_port(t, ingress), now):
            return SILENT
        turn_status = subnet_agent(t, m, ingress, now)
        turn(m, turn_status, klass == SUBN_DR)
        return ANSWERED
    if method != GET and method != SET:
        turn(m, BAD_METHOD, False)
        return ANSWERED
    turn(m, perf_agent(t, m, ingress), False)
    return ANSWERED


@inner
def round_trip(t, port, lid, is_smp, method):
    """Route a MAD by LID; -1 too when its answer would not find the way back (the tables need not be symmetric)."""
    at = by_lid(t, port, lid, is_smp)
    if at < 0 or method & 0x80 or at == port:
        return at
    home = end_port(t, port)
    back = by_lid(t, end_port(t, at), get16(t.port_info[home], LID_AT), is_smp)
    return at if back == home else np.int64(-1)


@kernel(_nrt=False)
def set_link(t, port, up, now):
    """Hardware's doing: the link at ``port`` fails, or trains again."""
    if up:
        train(t, port, now)
    else:
        drop(t, port, now)


@kernel(_nrt=False)
def serve(
    t, port, now, words, dlid, out, out_words, out_row, out_slid, out_dlid, out_tid, client_row, client_port, counts
):
    """Send the whole batch ``words`` (MADs of 256 octets as uint64[n, 32]) from ``port``.

    Answers go to the front of ``out`` (uint8[n, 256]; ``out_words`` are the same octets); ``out_row`` names the request of each. What a client must handle goes to the
    back of ``out``, growing downwards, with ``client_row`` and ``client_port`` in the same order. ``counts`` gets
    (answers, for clients).
    """
    n = words.shape[0]
    k, back = 0, n
    for r in range(n):
        m = out[k]
        for i in range(32):
            out_words[k, i] = words[r, i]
        if m[0] != 1:
            continue
        is_directed = m[1] == SUBN_DR
        is_smp = is_directed or m[1] == SUBN_LID
        if is_directed and m[3] & 0x80:
            at = directed_back(t, m, port)
        elif is_directed:
            at = route_smp(t, m, port, np.int64(dlid[r]))
        else:
            at = round_trip(t, port, np.int64(dlid[r]), is_smp, m[3])
        if at < 0:
            continue
        fate = arrive(t, m, at, now)
        if fate == ANSWERED:
            out_row[k] = r
            out_tid[k] = get64(m, 8)
            out_slid[k] = dlid[r]
            own = end_port(t, port)
            out_dlid[k] = PERMISSIVE if is_directed else get16(t.port_info[own], LID_AT)
            k += 1
        elif fate == FOR_CLIENT:
            back -= 1
            client_row[back] = r
            client_port[back] = end_port(t, at)
            for i in range(32):
                out_words[back, i] = out_words[k, i]
    counts[0] = k
    counts[1] = n - back
