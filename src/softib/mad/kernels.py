"""Rows of SMPs, filled at memory speed."""

import numpy as np

from softib.iba.constants import LID_PERMISSIVE, MgmtClass
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
    TID_AT,
    VERSION_AT,
)
from softib.jit import kernel

SUBN_DR = int(MgmtClass.SUBN_DR)
PERMISSIVE_BYTE = LID_PERMISSIVE & 0xFF


@kernel(_nrt=False, steps=lambda mads, *rest: 16 * len(mads), rows=True)
def fill_directed(mads, mads64, routes, c, data, method, attr):
    """Write one directed-route SMP a row into ``mads`` (uint8[n, 256]; ``mads64`` = the same bytes
    as uint64[n, 32]).

    Row r follows route ``c.route[r]`` of ``routes`` (``path`` uint8[routes, 64], ``hops``
    uint8[routes]) and, where ``c.out_port[r]`` is not 0, one hop more through that port; its
    AttributeModifier is ``c.modifier[r]``, its M_Key ``c.mkey[r]``. ``data`` uint64[rows, 8] is
    read at ``c.data_row[r]``; no rows = zeros. Tables: :mod:`softib.mad.smp_requests`.
    """
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


@kernel(_nrt=False, steps=lambda mads, first: 2 * len(mads))
def stamp_tids(mads, first):
    """TransactionID of row r becomes ``first + r`` (below 2^32), big-endian."""
    for r in range(mads.shape[0]):
        tid = first + r
        for i in range(8):
            mads[r, TID_AT + i] = 0
        for i in range(4):
            mads[r, TID_AT + 4 + i] = (tid >> (24 - 8 * i)) & 0xFF
