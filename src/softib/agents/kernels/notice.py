"""Traps that devices raise (IBA 13.4.9, 14.2.5.1): a queue of notices, each with the DataDetails
that are sent.

A row of ``notices`` is (time in ps, end port, trap number, portnum). ``notice_data`` holds the 54
bytes of DataDetails. The issuer's LID is written into them only when the trap is sent, because the
port may get its LID after the event.
"""

import numpy as np

from softib.agents.kernels.big_endian import clear, copy, get16, get32, inner, put16, put32
from softib.iba import constants as c
from softib.iba.notice import TrapBadMKey as K
from softib.iba.notice import TrapCapMaskChange as L
from softib.iba.notice import TrapPortThreshold as T
from softib.iba.smp import (
    ATTR_AT,
    CLASS_AT,
    DR_SLID_AT,
    HOP_COUNT_AT,
    METHOD_AT,
    MKEY_AT,
    MODIFIER_AT,
    RETURN_PATH_AT,
)
from softib.iba.smp import PortInfo as P

CAP_MASK_AT, CAP_MASK2_AT = P.cap_mask.byte, P.cap_mask2.byte
TRAP, OTHER_LOCAL = int(c.CapMask.TRAP), int(c.CapMask.OTHER_LOCAL_CHANGES)
CAP_MASK_NOTICE = int(c.CapMask.CAP_MASK_NOTICE)
LOCAL_CHANGE, BAD_MKEY = 144, 256
DESC_CHANGED = 1
OTHER_AT, FLAGS_AT, MASK_AT, MASK2_AT = (
    L.other_local_changes.byte,
    L.change_flags.byte,
    L.cap_mask.byte,
    L.cap_mask2.byte,
)
THRESHOLD_PORT_AT = T.portnum.byte
K_LID_AT, K_DRSLID_AT, K_METHOD_AT, K_ATTR_AT, K_MOD_AT, K_MKEY_AT = (
    K.lid.byte,
    K.dr_slid.byte,
    K.method.byte,
    K.attr_id.byte,
    K.attr_mod.byte,
    K.mkey.byte,
)
K_HOPS_AT, K_PATH_AT, K_PATH = K.dr_hop_count.byte, K.dr_return_path.byte, K.dr_return_path.count
DR_NOTICE, TRUNCATED = 0x80, 0x40
SUBN_DR, PERMISSIVE = int(c.MgmtClass.SUBN_DR), c.LID_PERMISSIVE
DETAILS = 54


@inner
def notice(t, now, port, trap, detail):
    """Queue a trap and return its row, with DataDetails set to zero. Return -1 if the port cannot
    raise a trap.

    If the queue is full, the trap is counted as lost.
    """
    if not get32(t.port_info[port], CAP_MASK_AT) & TRAP:
        return np.int64(-1)
    used = t.notice_count[0]
    if used >= t.notices.shape[0]:
        t.notice_count[1] += 1
        return np.int64(-1)
    t.notices[used, 0] = now
    t.notices[used, 1] = port
    t.notices[used, 2] = trap
    t.notices[used, 3] = detail
    clear(t.notice_data[used], 0, DETAILS)
    t.notice_count[0] = used + 1
    return used


@inner
def local_change(t, now, end, flags):
    """Queue trap 144 of end port ``end``. ``flags`` states what changed; 0 means the
    CapabilityMask."""
    info = t.port_info[end]
    if not get32(info, CAP_MASK_AT) & (OTHER_LOCAL if flags else CAP_MASK_NOTICE):
        return
    row = notice(t, now, end, LOCAL_CHANGE, 0)
    if row < 0:
        return
    data = t.notice_data[row]
    data[OTHER_AT] = 1 if flags else 0
    data[FLAGS_AT] = flags
    copy(data, MASK_AT, info, CAP_MASK_AT, 4)
    copy(data, MASK2_AT, info, CAP_MASK2_AT, 2)


@inner
def threshold(t, now, end, trap, number):
    """Queue trap 129, 130 or 131 for port ``number`` of the node that has end port ``end``."""
    row = notice(t, now, end, trap, number)
    if row >= 0:
        t.notice_data[row, THRESHOLD_PORT_AT] = number


@inner
def bad_mkey(t, m, now, end, slid):
    """Queue trap 256: SMP ``m`` from LID ``slid`` has a wrong M_Key."""
    row = notice(t, now, end, BAD_MKEY, 0)
    if row < 0:
        return
    data = t.notice_data[row]
    put16(data, K_LID_AT, slid)
    data[K_METHOD_AT] = m[METHOD_AT]
    put16(data, K_ATTR_AT, get16(m, ATTR_AT))
    put32(data, K_MOD_AT, get32(m, MODIFIER_AT))
    copy(data, K_MKEY_AT, m, MKEY_AT, 8)
    if m[CLASS_AT] != SUBN_DR:
        return
    put16(data, K_DRSLID_AT, get16(m, DR_SLID_AT))
    hops = np.int64(m[HOP_COUNT_AT])
    shown = min(hops, K_PATH)
    data[K_HOPS_AT] = DR_NOTICE | (TRUNCATED if hops > shown else 0) | shown
    copy(data, K_PATH_AT, m, RETURN_PATH_AT + 1, shown)
