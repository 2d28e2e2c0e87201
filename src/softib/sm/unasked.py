"""MADs that nobody asked for: other managers' SMInfo questions and devices' traps (IBA 14.2.5.13, 13.4.9)."""

from __future__ import annotations

import numpy as np

from softib.iba.constants import SMP_DATA, MadStatus, Method, MgmtClass, SmpAttr
from softib.iba.notice import Notice
from softib.iba.smp import MadHeader, SMInfo
from softib.mad.batch import MadBatch

__all__ = ["SWEEP_TRAPS", "answer"]

SWEEP_TRAPS = (128, 129, 130, 131, 144)
"""Link state, link integrity, buffer overrun, flow control watchdog, capabilities changed: look at the subnet again."""
DIRECTION_BIT = 0x8000


def answer(asked: MadBatch, sm_info: np.ndarray) -> tuple[MadBatch, bool]:
    """Answers to ``asked`` (SMP requests and traps), and whether one of the traps calls for a sweep.

    ``sm_info`` uint8[64] is what Get(SMInfo) answers. A Set(SMInfo) changes nothing yet (no election): it is refused as a
    method that is not supported. What is neither question nor trap is left without an answer.
    """
    mad = asked.mad
    method, attr = MadHeader.method.get(mad), MadHeader.attr_id.get(mad)
    smp = np.isin(MadHeader.mgmt_class.get(mad), (MgmtClass.SUBN_LID, MgmtClass.SUBN_DR))
    question = smp & (attr == SmpAttr.SM_INFO) & np.isin(method, (Method.GET, Method.SET))
    trap = smp & (attr == SmpAttr.NOTICE) & (method == Method.TRAP)
    notices = mad[trap][:, SMP_DATA : SMP_DATA + 64]
    numbers = Notice.trap_number.get(notices)[Notice.is_generic.get(notices) == 1]
    rows = np.flatnonzero(question | trap)
    reply = asked[rows]
    reply.mad = reply.mad.copy()
    reply.dlid, reply.slid = asked.slid[rows].copy(), asked.dlid[rows].copy()
    was_trap = trap[rows]
    is_set = method[rows] == Method.SET
    status = np.where(is_set, MadStatus.BAD_METHOD, MadStatus.OK)
    directed = MadHeader.mgmt_class.get(reply.mad) == MgmtClass.SUBN_DR
    MadHeader.status.set(reply.mad, np.where(directed, status | DIRECTION_BIT, status))
    MadHeader.method.set(reply.mad, np.where(was_trap, Method.TRAP_REPRESS, Method.GET_RESP))
    reply.mad[~was_trap, SMP_DATA : SMP_DATA + SMInfo.size] = sm_info
    return reply, bool(np.isin(numbers, SWEEP_TRAPS).any())
