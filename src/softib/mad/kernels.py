"""Kernels that build SMPs, and match answers with requests."""

import numpy as np

from softib.iba.constants import LID_PERMISSIVE, RESPONSE_BIT, MadStatus, MgmtClass
from softib.iba.smp import (
    ATTR_AT,
    BASE_VERSION_AT,
    CLASS_AT,
    DATA_AT,
    DR_DLID_AT,
    DR_SLID_AT,
    HOP_COUNT_AT,
    INITIAL_PATH_AT,
    METHOD_AT,
    MKEY_AT,
    MODIFIER_AT,
    STATUS_AT,
    STATUS_CODE_AT,
    TID_AT,
    VERSION_AT,
)
from softib.jit import inner, kernel

SUBN_DR = int(MgmtClass.SUBN_DR)
PERMISSIVE_BYTE = LID_PERMISSIVE & 0xFF
BUSY = int(MadStatus.BUSY)

WAITING, ON_WIRE, OVERDUE, RETRY, DONE = range(5)
"""State of a request: not sent; sent, and counted in the window; sent, but no longer counted in the
window; timed out, and waiting to be sent again; finished."""


@kernel(_nrt=False, steps=lambda mads, *rest: 13 * len(mads), rows=True)
def fill_directed(mads, mads64, routes, c, data, method, attr):
    """Write one directed-route SMP per row into ``mads`` (uint8[n, 256]; ``mads64`` = the same bytes
    as uint64[n, 32]).

    Row r follows route ``c.route[r]`` of ``routes`` (``path`` uint8[routes, 64], ``hops``
    uint8[routes]). If ``c.out_port[r]`` is not 0, one more hop through that port follows. The
    AttributeModifier is ``c.modifier[r]``, the M_Key ``c.mkey[r]``. The attribute is row
    ``c.data_row[r]`` of ``data`` (uint64[rows, 8]), or zeros if ``data`` has no rows. Tables:
    :mod:`softib.mad.smp_requests`. Returns the number of hops of the longest route; an SMP can hold
    at most 63.
    """
    most = np.int64(0)
    for r in range(mads.shape[0]):
        for i in range(mads64.shape[1]):
            mads64[r, i] = 0
        at = c.route[r]
        n = np.int64(routes.hops[at])
        m = mads[r]
        for i in range(1, n + 1):
            m[INITIAL_PATH_AT + i] = routes.path[at, i]
        if c.out_port[r]:
            n += 1
            m[INITIAL_PATH_AT + n] = c.out_port[r]
        most = max(most, n)
        m[BASE_VERSION_AT] = 1
        m[CLASS_AT] = SUBN_DR
        m[VERSION_AT] = 1
        m[METHOD_AT] = method
        m[HOP_COUNT_AT] = n
        m[ATTR_AT] = attr >> 8
        m[ATTR_AT + 1] = attr & 0xFF
        mod = np.int64(c.modifier[r])
        for i in range(4):
            m[MODIFIER_AT + i] = (mod >> (24 - 8 * i)) & 0xFF
        if c.mkey[r]:
            for i in range(8):
                m[MKEY_AT + i] = np.uint8((c.mkey[r] >> np.uint64(56 - 8 * i)) & np.uint64(0xFF))
        for i in range(2):
            m[DR_SLID_AT + i] = PERMISSIVE_BYTE
            m[DR_DLID_AT + i] = PERMISSIVE_BYTE
        if data.shape[0]:
            source = c.data_row[r]
            for i in range(8):
                mads64[r, DATA_AT // 8 + i] = data[source, i]
    return most


@inner
def kind_of(m):
    """Return management class and attribute of a MAD as one number. A request and its answer have
    the same number."""
    return np.int64(m[CLASS_AT]) << 16 | np.int64(m[ATTR_AT]) << 8 | np.int64(m[ATTR_AT + 1])


@kernel(_nrt=False, steps=lambda mads, *rest: 3 * len(mads), rows=True)
def stamp(mads, first, kind):
    """Set the TransactionID of row r to ``first + r`` (below 2^32), big-endian, and ``kind[r]``
    (uint32) to its :func:`kind_of`."""
    for r in range(mads.shape[0]):
        m = mads[r]
        tid = first + r
        for i in range(4):
            m[TID_AT + i] = 0
            m[TID_AT + 4 + i] = (tid >> (24 - 8 * i)) & 0xFF
        kind[r] = kind_of(m)


@kernel(_nrt=False, steps=lambda mads, *rest: 7 * len(mads), rows=True)
def match(mads, first, n, t, rows, refused, left):
    """Finish the requests answered by ``mads`` (uint8[n, 256]).

    ``rows[r]`` int64 becomes the row of the request that ``mads[r]`` answers, -1 if there is none. This row is TID -
    ``first``; requests are in the first ``n`` rows of ``t`` (:data:`~softib.mad.outstanding.RequestColumns`).
    ``refused[r]`` is set to True if the response has an error status.

    An answer has the response bit, the TID of a request that was sent and is not finished, and the
    class and attribute of this request. If a request has two answers, the first is used. A "busy"
    answer is ignored, so the request is sent again after its timeout (IBA 13.4.7).

    ``left`` int64[3]: the number of requests that were answered, the number of those that were
    counted in the window, and how many of the latter were repetitions.
    """
    left[:] = 0
    for r in range(mads.shape[0]):
        m = mads[r]
        tid = np.int64(0)
        for i in range(TID_AT + 4, TID_AT + 8):
            tid = tid << 8 | np.int64(m[i])
        at = tid - first
        rows[r] = -1
        if m[METHOD_AT] < RESPONSE_BIT or at < 0 or at >= n:
            continue
        state = t.state[at]
        if state == WAITING or state == DONE or m[STATUS_AT + 1] & BUSY or t.kind[at] != kind_of(m):
            continue
        if state == ON_WIRE:
            left[1] += 1
            left[2] += t.tries[at] > 1
        t.state[at] = DONE
        rows[r] = at
        refused[r] = m[STATUS_CODE_AT] != 0 or m[STATUS_AT] & 0x7F != 0
        left[0] += 1
