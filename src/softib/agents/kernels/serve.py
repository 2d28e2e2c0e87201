"""Process a batch of MADs in one call: route each MAD, let its device answer, and collect the MADs
for clients.

MADs are processed in the order of the batch, because the MADs of one sender arrive in order. The
caller allocates the output arrays.
"""

import numpy as np

from softib.agents.kernels.big_endian import get16, get64, inner
from softib.agents.kernels.dispatch import ANSWERED, FOR_CLIENT, SILENT, SUBN_DR, SUBN_LID, arrive
from softib.agents.kernels.faults.ber import survive, survive_back
from softib.agents.kernels.faults.fault_columns import BITS, DEAD, FAULTY
from softib.agents.kernels.mad_traffic import count_back, count_hops, count_level, fold
from softib.agents.kernels.pkey import partitioned
from softib.agents.kernels.route import (
    ANSWER_LOST,
    HOPS,
    LOSS,
    NO_LOSS,
    REQUEST_HOPS,
    blame,
    by_lid,
    directed_back,
    end_port,
    route_smp,
)
from softib.agents.kernels.samples import advance
from softib.iba import constants as c
from softib.iba.smp import BASE_VERSION_AT, CLASS_AT, METHOD_AT, TID_AT, PortInfo
from softib.jit import kernel

PERMISSIVE, RESPONSE_BIT, MAD_SIZE = c.LID_PERMISSIVE, c.RESPONSE_BIT, c.MAD_SIZE
LID_AT = PortInfo.lid.byte
SMALL_PORTS = 10_000
"""Number of ports of about 2,500 hosts. In Python, their bring-up takes a few seconds."""


@inner
def round_trip(t, port, lid, is_smp, method):
    """Route a MAD by LID, and the answer of a request back to ``port``. ``progress[ANSWER_LOST]``
    is set if the answer does not arrive, because the tables may lead it along another path."""
    at = by_lid(t, port, lid, is_smp)
    t.progress[REQUEST_HOPS] = t.progress[HOPS]
    if at < 0 or method & RESPONSE_BIT or at == port:
        return at
    home = end_port(t, port)
    back = by_lid(t, end_port(t, at), get16(t.port_info[home], LID_AT), is_smp)
    t.progress[ANSWER_LOST] = back != home
    return at


@inner
def lost_on_cables(t, first, last, level, now):
    """Return whether a MAD with SL ``level`` (-1: on VL15) is lost on one of the hops
    ``first``…``last`` - 1 of ``path``. Count the hops that it passed."""
    end = survive(t, first, last, level < 0, now)
    if end < 0:
        return False
    if t.options[0]:
        count_hops(t, first, end, False)
        count_level(t, first, end, level)
    return True


@inner
def answer_leaves(t, is_directed, level, now):
    """Return whether an answer reaches the sender of its request. Count its hops if they are not
    counted yet."""
    if is_directed:
        if t.options[FAULTY] == 0:
            return True
        end = survive_back(t, t.progress[REQUEST_HOPS], now)
        if end >= 0 and t.options[0]:
            count_back(t, end, t.progress[REQUEST_HOPS])
        return end < 0
    first, last = t.progress[REQUEST_HOPS], t.progress[HOPS]
    if t.options[FAULTY] and lost_on_cables(t, first, last, level, now):
        return False
    if t.options[0]:
        count_hops(t, first, last, False)
        count_level(t, first, last, level)
        if t.progress[ANSWER_LOST]:
            blame(t)
    return t.progress[ANSWER_LOST] == 0


@inner
def to_its_device(t, m, port, dlid, level, pkey_index, now):
    """Send a MAD from ``port`` through the fabric. Return its destination port, or -1 if it was
    lost; the loss is counted.

    ``level`` is the SL, or -1 for an SMP. The hops of a directed MAD are counted by :func:`serve`,
    together with those of its answer.
    """
    is_directed, is_smp, method = m[CLASS_AT] == SUBN_DR, level < 0, m[METHOD_AT]
    t.progress[HOPS] = 0
    t.progress[REQUEST_HOPS] = -1
    t.progress[LOSS] = NO_LOSS
    t.progress[ANSWER_LOST] = 0
    if is_directed and method & RESPONSE_BIT:
        at = directed_back(t, m, port)
    elif is_directed:
        at = route_smp(t, m, port, dlid)
    else:
        at = round_trip(t, port, dlid, is_smp, method)
    if t.progress[REQUEST_HOPS] < 0:
        t.progress[REQUEST_HOPS] = t.progress[HOPS]
    if t.options[FAULTY] and lost_on_cables(t, 0, t.progress[REQUEST_HOPS], level, now):
        return np.int64(-1)
    if at >= 0 and not is_smp:
        refused = partitioned(t, port, at, pkey_index, level, dlid, now)
        if refused >= 0:
            at = np.int64(-1)
            t.progress[REQUEST_HOPS] = refused
            t.progress[LOSS] = NO_LOSS
    if at < 0 and t.options[0]:
        count_hops(t, 0, t.progress[REQUEST_HOPS], False)
        count_level(t, 0, t.progress[REQUEST_HOPS], level)
        blame(t)
    return np.int64(at)


@inner
def answered(t, m, at, now, level, self_lid):
    """Let the device at ``at`` process the MAD, which becomes the answer, and send the answer back.
    Return ANSWERED, FOR_CLIENT, or SILENT if there is no answer.

    A request by LID is counted before its device reads a counter. A directed request reads no
    counters, and its answer returns on the same links, so both are counted together.
    """
    is_directed = m[CLASS_AT] == SUBN_DR
    if t.options[0] and not is_directed:
        count_hops(t, 0, t.progress[REQUEST_HOPS], False)
        count_level(t, 0, t.progress[REQUEST_HOPS], level)
    fate = arrive(t, m, at, now, PERMISSIVE if is_directed else self_lid)
    arrives = fate != ANSWERED or answer_leaves(t, is_directed, level, now)
    if t.options[0] and is_directed:
        count_hops(t, 0, t.progress[REQUEST_HOPS], fate == ANSWERED and arrives)
    return fate if arrives else SILENT


@inner
def copy_mad(to, row, of, from_row):
    """Copy the 256 bytes of one MAD in units of 64 bits."""
    for i in range(MAD_SIZE // 8):
        to[row, i] = of[from_row, i]


@copy_mad.in_python
def _copy_mad(to, row, of, from_row):
    to[row] = of[from_row]


def steps_of(t, port, now, mads, *rest):
    """Return the cost of :func:`serve` in Python (50 us per MAD), in steps. It is infinite on a
    large fabric: many batches will follow the first, so the kernel is compiled at once."""
    return 100 * len(mads) if len(t.port_node) <= SMALL_PORTS else float("inf")


@kernel(shared=True, _nrt=False, steps=steps_of, rows=True)
def serve(t, port, now, mads, q, answers, answers64, a, o):
    """Send the MADs ``mads`` (uint64[n, 32]: 256 bytes each) from ``port``. Their addresses are in
    the first n rows of ``q`` (:data:`~softib.mad.batch.MadColumns`).

    Answers are written to ``answers`` (uint8[n, 256]) from the first row on; ``answers64`` is a
    view of the same bytes. Their LIDs (as they arrive at ``port``) and TIDs are written to the rows
    of ``a`` (also MadColumns). ``o.row`` (:data:`~softib.agents.layout.Outcome`) is the row of the
    request of each answer. An answer has the SL and the P_Key index of its request, and its QPs
    exchanged. MADs for clients are written to ``answers`` from the last row on, downwards;
    ``o.client_row`` and ``o.client_port`` have the same order. ``o.served`` becomes (number of
    answers, number of MADs for clients). ``q.mad``, ``a.mad`` and the other columns are not used.
    """
    n = mads.shape[0]
    k, back = 0, n
    dlids, sls, pkey_indices = q.dlid, q.sl, q.pkey_index
    rows, tids, answer_slids, answer_dlids = o.row, a.tid, a.slid, a.dlid
    if t.samplers[0, 0]:
        advance(t, now)
    self_port = end_port(t, port)
    self_lid = get16(t.port_info[self_port], LID_AT)
    if t.options[FAULTY] and t.fault[port, BITS] & DEAD:
        n = 0
    for r in range(n):
        m = answers[k]
        copy_mad(answers64, k, mads, r)
        if m[BASE_VERSION_AT] != 1:
            continue
        dlid = np.int64(dlids[r])
        is_directed = m[CLASS_AT] == SUBN_DR
        level = np.int64(-1) if is_directed or m[CLASS_AT] == SUBN_LID else np.int64(sls[r] & 15)
        at = to_its_device(t, m, port, dlid, level, np.int64(pkey_indices[r]), now)
        if at < 0:
            continue
        fate = answered(t, m, at, now, level, self_lid)
        if fate == ANSWERED:
            rows[k] = r
            tids[k] = get64(m, TID_AT)
            answer_slids[k] = dlid
            answer_dlids[k] = PERMISSIVE if is_directed else get16(t.port_info[self_port], LID_AT)
            k += 1
        elif fate == FOR_CLIENT:
            back -= 1
            o.client_row[back] = r
            o.client_port[back] = end_port(t, at)
            copy_mad(answers64, back, answers64, k)
    fold(t)
    o.served[0] = k
    o.served[1] = mads.shape[0] - back


@kernel(_nrt=False)
def answer(t, m, ingress, now, slid):
    """Process a MAD that a simulated network carried to its node. It enters through port
    ``ingress`` (the end port, if it was routed by LID). ``m`` (uint8[256]) becomes the answer.
    Return SILENT, ANSWERED or FOR_CLIENT. The caller counts packets and checks links."""
    if m[BASE_VERSION_AT] != 1:
        return SILENT
    if t.samplers[0, 0]:
        advance(t, now)
    return arrive(t, m, ingress, now, PERMISSIVE if m[CLASS_AT] == SUBN_DR else slid)
