# mypy: ignore-errors
"""Rows of SMPs, filled at memory speed."""

import numpy as np

from softib.iba.constants import LID_PERMISSIVE, SMP_DATA, SMP_INITIAL_PATH, MgmtClass
from softib.iba.smp import MadHeader, Smp
from softib.jit import kernel

SUBN_DR = int(MgmtClass.SUBN_DR)
METHOD_AT, HOP_COUNT_AT, ATTR_AT, MODIFIER_AT = (
    MadHeader.method.byte, MadHeader.hop_count.byte, MadHeader.attr_id.byte, MadHeader.attr_mod.byte,
)  # fmt: skip
CLASS_AT, VERSION_AT = MadHeader.mgmt_class.byte, MadHeader.class_version.byte
MKEY_AT, DR_SLID_AT, DR_DLID_AT = Smp.mkey.byte, Smp.dr_slid.byte, Smp.dr_dlid.byte
PERMISSIVE_OCTET = LID_PERMISSIVE & 0xFF
DATA_WORD = SMP_DATA // 8
PATH_AT = SMP_INITIAL_PATH


@kernel(_nrt=False)
def fill_directed(out, words, method, attr, mkey, path, hops, route, out_port, modifier, data, data_row):
    """Write one directed-route SMP a row into ``out`` (uint8[n, 256]; ``words`` = the same octets as uint64[n, 32]).

    Row r follows route ``route[r]`` (``path`` uint8[routes, 64], ``hops`` uint8[routes]) and, where ``out_port[r]`` is
    not 0, one hop more through that port. ``data`` uint64[rows, 8] is read at ``data_row[r]``; no rows = zeros.
    """
    for r in range(len(route)):
        for i in range(32):
            words[r, i] = 0
        at = route[r]
        n = np.int64(hops[at])
        row = out[r]
        for i in range(1, n + 1):
            row[PATH_AT + i] = path[at, i]
        if out_port[r]:
            n += 1
            row[PATH_AT + n] = out_port[r]
        row[0] = 1
        row[CLASS_AT] = SUBN_DR
        row[VERSION_AT] = 1
        row[METHOD_AT] = method
        row[HOP_COUNT_AT] = n
        row[ATTR_AT] = attr >> 8
        row[ATTR_AT + 1] = attr & 0xFF
        mod = np.int64(modifier[r])
        for i in range(4):
            row[MODIFIER_AT + i] = (mod >> (24 - 8 * i)) & 0xFF
        if mkey:
            for i in range(8):
                row[MKEY_AT + i] = np.uint8((mkey >> np.uint64(56 - 8 * i)) & np.uint64(0xFF))
        for i in range(2):
            row[DR_SLID_AT + i] = PERMISSIVE_OCTET
            row[DR_DLID_AT + i] = PERMISSIVE_OCTET
        if data.shape[0]:
            source = data_row[r]
            for i in range(8):
                words[r, DATA_WORD + i] = data[source, i]


@kernel(_nrt=False)
def stamp_tids(out, first):
    """TransactionID of row r becomes ``first + r`` (below 2^32), big-endian."""
    for r in range(out.shape[0]):
        tid = first + r
        for i in range(8):
            out[r, 8 + i] = 0
        for i in range(4):
            out[r, 12 + i] = (tid >> (24 - 8 * i)) & 0xFF
