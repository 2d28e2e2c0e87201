# mypy: ignore-errors
"""One call for a batch of MADs: route each, let the device answer, collect what only a client can answer.

A batch is processed in its order, as one sender's MADs arrive. Outputs are allocated by the caller.

Two settings make the difference between 2,400 and 120 ns a MAD: no reference counts (``_nrt=False``: nothing here
allocates, and a call with the tables would count some thirty arrays up and down), and the functions on the way of
every MAD inlined (a call would copy the thirty array descriptors).
"""

import numpy as np

from softib.agents.cc_kernels import REFUSED, cc_agent
from softib.agents.error_kernels import BITS, DEAD, FAULTY, rates_of_loss, settle, survive, survive_back
from softib.agents.mkey_kernels import admit
from softib.agents.notice_kernels import local_change, notice, threshold
from softib.agents.octet_kernels import copy, get16, get32, get64, inner
from softib.agents.pkey_kernels import partitioned
from softib.agents.pma_kernels import perf_agent
from softib.agents.port_kernels import drop, fail, get_port_info, set_port_info, train
from softib.agents.route_kernels import (
    ANSWER_LOST,
    FORWARD,
    HOPS,
    LOSS,
    NO_LOSS,
    blame,
    by_lid,
    directed_back,
    end_port,
    route_smp,
    turn,
)
from softib.agents.sample_kernels import advance
from softib.agents.sma_kernels import (
    describe,
    guid_info,
    linear_fdb,
    mlnx_ext_port_info,
    multicast_fdb,
    node_description,
    node_info,
    pkey_table,
    port_info_extended,
    sl_to_vl,
    switch_info,
    vl_arbitration,
)  # fmt: skip
from softib.agents.traffic_kernels import count_back, count_way, fold
from softib.agents.vendor_kernels import vendor_agent
from softib.iba import constants as c
from softib.iba.smp import PortInfo
from softib.jit import kernel

A = c.SmpAttr
NODE_DESC, NODE_INFO, SWITCH_INFO, GUID_INFO, PORT_INFO = (
    int(A.NODE_DESC), int(A.NODE_INFO), int(A.SWITCH_INFO), int(A.GUID_INFO), int(A.PORT_INFO),
)  # fmt: skip
PKEY_TABLE, SL2VL, VL_ARB, LFT, MFT, SM_INFO, MLNX, PORT_INFO_EXT = (
    int(A.PKEY_TABLE), int(A.SL2VL), int(A.VL_ARB), int(A.LFT), int(A.MFT), int(A.SM_INFO),
    int(A.MLNX_EXT_PORT_INFO), int(A.PORT_INFO_EXT),
)  # fmt: skip
SUBN_LID, SUBN_DR, PERF = int(c.MgmtClass.SUBN_LID), int(c.MgmtClass.SUBN_DR), int(c.MgmtClass.PERF)
VENDOR, CONG_CTRL = int(c.MgmtClass.VENDOR_MLNX), int(c.MgmtClass.CONG_CTRL)
GET, SET, TRAP_REPRESS = int(c.Method.GET), int(c.Method.SET), int(c.Method.TRAP_REPRESS)
TRAP, REPORT, SEND = int(c.Method.TRAP), int(c.Method.REPORT), int(c.Method.SEND)
BAD_VERSION, BAD_METHOD, BAD_ATTRIBUTE = (
    int(c.MadStatus.BAD_VERSION), int(c.MadStatus.BAD_METHOD), int(c.MadStatus.BAD_ATTRIBUTE),
)  # fmt: skip
PERMISSIVE = c.LID_PERMISSIVE
LID_AT = PortInfo.lid.byte
MELLANOX = 0x2C9

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
        return node_description(t, m, ingress, modifier, is_set, now)
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
    if attribute == PORT_INFO_EXT:
        return port_info_extended(t, m, ingress, modifier, is_set)
    if attribute == MLNX:
        return mlnx_ext_port_info(t, m, ingress, modifier, is_set)
    return BAD_ATTRIBUTE


@inner
def arrive_gmp(t, m, ingress, now):
    """A GMP at its destination: performance management, congestion control, Mellanox' vendor class."""
    klass, method = m[1], m[3]
    is_vendor = klass == VENDOR and t.vendor_id[t.port_node[ingress]] == MELLANOX
    if (klass != PERF and klass != CONG_CTRL and not is_vendor) or method & 0x80:
        return FOR_CLIENT
    if method == TRAP_REPRESS:
        return SILENT
    if m[2] != (2 if klass == CONG_CTRL else 1):
        turn(m, BAD_VERSION, False)
        return ANSWERED
    if method != GET and method != SET:
        turn(m, BAD_METHOD, False)
        return ANSWERED
    if klass == PERF:
        status = np.int64(perf_agent(t, m, ingress, now))
    elif klass == CONG_CTRL:
        status = np.int64(cc_agent(t, m, ingress, now))
    else:
        status = np.int64(vendor_agent(t, m, ingress, now))
    if status == REFUSED:
        return SILENT
    turn(m, status, False)
    return ANSWERED


@inner(inline="always")
def arrive(t, m, ingress, now, slid):
    """What happens to a MAD at its destination: SILENT, ANSWERED (``m`` is the answer) or FOR_CLIENT.

    ``slid`` is the source LID as the packet carries it.
    """
    klass, method = m[1], m[3]
    is_smp = klass == SUBN_LID or klass == SUBN_DR
    if not is_smp:
        return arrive_gmp(t, m, ingress, now)
    if method & 0x80:
        return FOR_CLIENT
    if method == TRAP_REPRESS:  # it ends the trap of a device, or of a program on that port (IBA 13.4.5, 13.4.9)
        return FOR_CLIENT
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
        if not admit(t, m, end_port(t, ingress), now, slid):
            return SILENT
        turn_status = subnet_agent(t, m, ingress, now)
        turn(m, turn_status, klass == SUBN_DR)
        return ANSWERED


@inner
def round_trip(t, port, lid, is_smp, method):
    """Route a MAD by LID, and a request's answer back: ``pending[ANSWER_LOST]`` says when that does not find its way
    (the tables need not be symmetric)."""
    at = by_lid(t, port, lid, is_smp)
    t.pending[FORWARD] = t.pending[HOPS]
    if at < 0 or method & 0x80 or at == port:
        return at
    home = end_port(t, port)
    back = by_lid(t, end_port(t, at), get16(t.port_info[home], LID_AT), is_smp)
    t.pending[ANSWER_LOST] = back != home
    return at


@inner
def lost_on_cables(t, first, last, vl15, now):
    """True when a MAD is lost on a hop ``first``…``last`` - 1 of ``way``; counts the hops that it took."""
    end = survive(t, first, last, vl15, now)
    if end < 0:
        return False
    if t.options[0]:
        count_way(t, first, end, False)
    return True


@inner
def answer_leaves(t, is_directed, is_smp, now):
    """True when an answer reaches the sender of its request; counts its hops where they were not counted yet."""
    if is_directed:
        if t.options[FAULTY] == 0:
            return True
        end = survive_back(t, t.pending[FORWARD], now)
        if end >= 0 and t.options[0]:
            count_back(t, end, t.pending[FORWARD])
        return end < 0
    first, last = t.pending[FORWARD], t.pending[HOPS]
    if t.options[FAULTY] and lost_on_cables(t, first, last, is_smp, now):
        return False
    if t.options[0]:
        count_way(t, first, last, False)
        if t.pending[ANSWER_LOST]:
            blame(t)
    return t.pending[ANSWER_LOST] == 0


@kernel(_nrt=False)
def set_link(t, port, up, now):
    """Hardware's doing: the link at ``port`` fails, or trains again."""
    if up:
        train(t, port, now)
    else:
        drop(t, port, now)


@kernel(_nrt=False)
def fail_port(t, port, now):
    """Hardware's doing: the far end of the link at ``port`` has gone; this end goes down."""
    fail(t, port, now)


@kernel(_nrt=False)
def settle_ports(t, ports, now):
    """Let time pass for the counters of ``ports`` (int64[n])."""
    for i in range(ports.shape[0]):
        settle(t, ports[i], now)


@kernel(_nrt=False)
def loss_of_ports(t, ports, loss):
    """Write how packets into ``ports`` are lost to bit errors into rows of ``loss`` (float64[all ports, 2])."""
    for i in range(ports.shape[0]):
        port = ports[i]
        loss[port, 0], loss[port, 1] = rates_of_loss(t, port)


@kernel(_nrt=False)
def sample_until(t, now):
    """Let time pass for the sampling mechanisms."""
    advance(t, now)


@kernel(_nrt=False)
def tell_change(t, node, flags, now):
    """Trap 144 of every end port of ``node``; flags 1 = NodeDescription, 0 = CapabilityMask."""
    describe(t, node, now, flags)


@kernel(_nrt=False)
def tell_local_change(t, end, flags, now):
    """Trap 144 of one end port."""
    local_change(t, now, end, flags)


@kernel(_nrt=False)
def tell_details(t, end, trap, number, data, now):
    """Any trap, with its 54 octets of DataDetails."""
    row = notice(t, now, end, trap, number)
    if row >= 0:
        copy(t.notice_data[row], 0, data, 0, 54)


@kernel(_nrt=False)
def tell_threshold(t, end, trap, number, now):
    """Trap 129, 130 or 131 of port ``number`` of the node of end port ``end``."""
    threshold(t, now, end, trap, number)


@kernel(_nrt=False)
def serve(
    t, port, now, words, dlid, out, out_words, out_row, out_slid, out_dlid, out_tid, client_row, client_port, counts
):
    """As :func:`serve_addressed` for a sender that names neither SL nor P_Key index: both are 0."""
    none = dlid[:0]
    serve_addressed(
        t, port, now, words, dlid, none, none, out, out_words, out_row, out_slid, out_dlid, out_tid, client_row,
        client_port, counts,
    )  # fmt: skip


@kernel(_nrt=False)
def serve_addressed(
    t,
    port,
    now,
    words,
    dlid,
    sl,
    pkey_index,
    out,
    out_words,
    out_row,
    out_slid,
    out_dlid,
    out_tid,
    client_row,
    client_port,
    counts,
):
    """Send the whole batch ``words`` (MADs of 256 octets as uint64[n, 32]) from ``port``. ``dlid``, ``sl`` and
    ``pkey_index`` are uint16[n]; the latter two may be empty.

    Answers go to the front of ``out`` (uint8[n, 256]; ``out_words`` are the same octets); ``out_row`` names the request of each. What a client must handle goes to the
    back of ``out``, growing downwards, with ``client_row`` and ``client_port`` in the same order. ``counts`` gets
    (answers, for clients).
    """
    n = words.shape[0]
    k, back = 0, n
    if t.samplers[0, 0]:
        advance(t, now)
    own = end_port(t, port)
    home_lid = get16(t.port_info[own], LID_AT)
    faulty = t.options[FAULTY] != 0
    if faulty and t.fault[port, BITS] & DEAD:
        n = 0
    for r in range(n):
        m = out[k]
        for i in range(32):
            out_words[k, i] = words[r, i]
        if m[0] != 1:
            continue
        is_directed = m[1] == SUBN_DR
        is_smp = is_directed or m[1] == SUBN_LID
        t.pending[HOPS] = 0
        t.pending[FORWARD] = -1
        t.pending[LOSS] = NO_LOSS
        t.pending[ANSWER_LOST] = 0
        if is_directed and m[3] & 0x80:
            at = directed_back(t, m, port)
        elif is_directed:
            at = route_smp(t, m, port, np.int64(dlid[r]))
        else:
            at = round_trip(t, port, np.int64(dlid[r]), is_smp, m[3])
        if t.pending[FORWARD] < 0:
            t.pending[FORWARD] = t.pending[HOPS]
        if faulty and lost_on_cables(t, 0, t.pending[FORWARD], is_smp, now):
            continue
        if at >= 0 and not is_smp:
            addressed = sl.shape[0] > 0
            index = np.int64(pkey_index[r]) if addressed else np.int64(0)
            level = np.int64(sl[r]) if addressed else np.int64(0)
            refused = partitioned(t, port, at, index, level, np.int64(dlid[r]), now)
            if refused >= 0:
                at = np.int64(-1)
                t.pending[FORWARD] = refused
                t.pending[LOSS] = NO_LOSS
        if at < 0:
            if t.options[0]:
                count_way(t, 0, t.pending[FORWARD], False)
                blame(t)
            continue
        # A request by LID has arrived before its device reads a counter; a directed one reads none, and goes home on
        # the links that it came by.
        if t.options[0] and not is_directed:
            count_way(t, 0, t.pending[FORWARD], False)
        fate = arrive(t, m, at, now, PERMISSIVE if is_directed else home_lid)
        arrives = fate != ANSWERED or answer_leaves(t, is_directed, is_smp, now)
        if t.options[0] and is_directed:
            count_way(t, 0, t.pending[FORWARD], fate == ANSWERED and arrives)
        if not arrives:
            continue
        if fate == ANSWERED:
            out_row[k] = r
            out_tid[k] = get64(m, 8)
            out_slid[k] = dlid[r]
            out_dlid[k] = PERMISSIVE if is_directed else get16(t.port_info[own], LID_AT)
            k += 1
        elif fate == FOR_CLIENT:
            back -= 1
            client_row[back] = r
            client_port[back] = end_port(t, at)
            for i in range(32):
                out_words[back, i] = out_words[k, i]
    fold(t)
    counts[0] = k
    counts[1] = words.shape[0] - back
