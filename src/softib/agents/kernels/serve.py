# mypy: ignore-errors
"""One call for a batch of MADs: route each, let the device answer, collect what only a client can answer.

A batch is processed in its order, as one sender's MADs arrive. Outputs are allocated by the caller.

No reference counts (``_nrt=False``): nothing here allocates. The tables are one pointer (:func:`softib.jit.table`).
"""

import numpy as np

from softib.agents.kernels.ber import survive, survive_back
from softib.agents.kernels.big_endian import get16, get64, inner
from softib.agents.kernels.dispatch import ANSWERED, FOR_CLIENT, SUBN_DR, SUBN_LID, arrive
from softib.agents.kernels.fault_columns import BITS, DEAD, FAULTY
from softib.agents.kernels.mad_traffic import count_back, count_level, count_way, fold
from softib.agents.kernels.pkey import partitioned
from softib.agents.kernels.route import (
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
)  # fmt: skip
from softib.agents.kernels.samples import advance
from softib.iba import constants as c
from softib.iba.smp import PortInfo
from softib.jit import kernel

PERMISSIVE = c.LID_PERMISSIVE
LID_AT = PortInfo.lid.byte


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
def lost_on_cables(t, first, last, level, now):
    """True when a MAD of SL ``level`` (-1: on VL15) is lost on a hop ``first``…``last`` - 1 of ``way``; counts the hops that it
    took."""
    end = survive(t, first, last, level < 0, now)
    if end < 0:
        return False
    if t.options[0]:
        count_way(t, first, end, False)
        count_level(t, first, end, level)
    return True


@inner
def answer_leaves(t, is_directed, level, now):
    """True when an answer reaches the sender of its request; counts its hops where they were not counted yet."""
    if is_directed:
        if t.options[FAULTY] == 0:
            return True
        end = survive_back(t, t.pending[FORWARD], now)
        if end >= 0 and t.options[0]:
            count_back(t, end, t.pending[FORWARD])
        return end < 0
    first, last = t.pending[FORWARD], t.pending[HOPS]
    if t.options[FAULTY] and lost_on_cables(t, first, last, level, now):
        return False
    if t.options[0]:
        count_way(t, first, last, False)
        count_level(t, first, last, level)
        if t.pending[ANSWER_LOST]:
            blame(t)
    return t.pending[ANSWER_LOST] == 0


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
        level = np.int64(-1) if is_smp else np.int64(sl[r] & 15) if sl.shape[0] > 0 else np.int64(0)
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
        if faulty and lost_on_cables(t, 0, t.pending[FORWARD], level, now):
            continue
        if at >= 0 and not is_smp:
            addressed = sl.shape[0] > 0
            index = np.int64(pkey_index[r]) if addressed else np.int64(0)
            refused = partitioned(t, port, at, index, level, np.int64(dlid[r]), now)
            if refused >= 0:
                at = np.int64(-1)
                t.pending[FORWARD] = refused
                t.pending[LOSS] = NO_LOSS
        if at < 0:
            if t.options[0]:
                count_way(t, 0, t.pending[FORWARD], False)
                count_level(t, 0, t.pending[FORWARD], level)
                blame(t)
            continue
        # A request by LID has arrived before its device reads a counter; a directed one reads none, and goes home on
        # the links that it came by.
        if t.options[0] and not is_directed:
            count_way(t, 0, t.pending[FORWARD], False)
            count_level(t, 0, t.pending[FORWARD], level)
        fate = arrive(t, m, at, now, PERMISSIVE if is_directed else home_lid)
        arrives = fate != ANSWERED or answer_leaves(t, is_directed, level, now)
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
