"""A standby tells its master that its priority is another now: trap 144, ChangeFlags bit 3 (IBA
14.2.5.1), as OpenSM does.

A master asks other managers for SMInfo when it sweeps, and nothing else would make it sweep.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import Method, MgmtClass, SmpAttr
from softib.iba.notice import Notice, TrapCapMaskChange
from softib.iba.smp import DATA_AT, MadHeader, PortInfo
from softib.mad.batch import MadBatch

__all__ = ["priority_changed"]

LOCAL_CHANGE, INFORMATIONAL, CA = 144, 4, 1
SM_PRIORITY = 1 << 3


def priority_changed(port_info: np.ndarray) -> MadBatch | None:
    """The trap of the port whose PortInfo is ``port_info`` (uint8[64]) to the master that it names;
    None where there is none yet."""
    lid, master_lid = int(PortInfo.lid.get(port_info)), int(PortInfo.master_sm_lid.get(port_info))
    if not lid or not master_lid:
        return None
    batch = MadBatch.zeros(1)
    batch.mad[0, : MadHeader.size] = MadHeader.pack(
        base_version=1,
        mgmt_class=int(MgmtClass.SUBN_LID),
        class_version=1,
        method=int(Method.TRAP),
        attr_id=int(SmpAttr.NOTICE),
        tid=LOCAL_CHANGE,
    )
    details = TrapCapMaskChange.pack(
        lid=lid,
        other_local_changes=1,
        cap_mask=PortInfo.cap_mask.get(port_info),
        change_flags=SM_PRIORITY,
        cap_mask2=PortInfo.cap_mask2.get(port_info),
    )
    notice = Notice.pack(is_generic=1, type=INFORMATIONAL, producer_type=CA, trap_number=LOCAL_CHANGE, issuer_lid=lid)
    notice[Notice.data_details.byte : Notice.data_details.byte + len(details)] = details
    batch.mad[0, DATA_AT : DATA_AT + len(notice)] = notice
    batch.dlid[0], batch.slid[0] = master_lid, lid
    return batch
