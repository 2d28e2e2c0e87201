"""Is there a master of this subnet already? Two Gets, as ``sminfo`` does it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.iba.constants import LID_PERMISSIVE, CapMask, Method, MgmtClass, PortState, SmpAttr
from softib.iba.smp import DATA_AT, MadHeader, PortInfo, SMInfo, Smp
from softib.live.clock import clock_ps
from softib.live.umad_sm.wire import MadWire
from softib.mad.batch import MadBatch
from softib.mad.transactor import Transactor
from softib.sm.state import SmState

__all__ = ["Master", "live_master", "smp_get", "transact"]

TIMEOUT_PS, RETRIES = 200 * 10**9, 2
PS_PER_S = 1e12


@dataclass(frozen=True)
class Master:
    """A manager that answered: its LID, PortGUID and priority."""

    lid: int
    guid: int
    priority: int

    def __str__(self) -> str:
        return f"LID {self.lid}, PortGUID {self.guid:#018x}, priority {self.priority}"


def smp_get(attr: SmpAttr, modifier: int = 0, dlid: int = LID_PERMISSIVE, mkey: int = 0) -> MadBatch:
    """One Get: of the local port (directed route of no hop), or by ``dlid``."""
    batch = MadBatch.zeros(1)
    directed = dlid == LID_PERMISSIVE
    mad = batch.mad[0]
    mad[: MadHeader.size] = MadHeader.pack(
        base_version=1,
        mgmt_class=int(MgmtClass.SUBN_DR if directed else MgmtClass.SUBN_LID),
        class_version=1,
        method=int(Method.GET),
        attr_id=int(attr),
        attr_mod=modifier,
    )
    Smp.mkey.set(mad, mkey)
    if directed:
        Smp.dr_slid.set(mad, LID_PERMISSIVE)
        Smp.dr_dlid.set(mad, LID_PERMISSIVE)
    batch.dlid[0] = dlid
    return batch


def transact(wire: MadWire, request: MadBatch) -> np.ndarray | None:
    """The attribute (uint8[64]) of the answer to one SMP; None where nobody answers, or with a bad
    status."""
    t = Transactor(1, TIMEOUT_PS, RETRIES)
    t.submit(request, np.zeros(1, np.int64))
    inbox: MadBatch | None = None
    while t.busy:
        outbox, deadline_ps = t.step(clock_ps(), inbox)
        for done in t.completed():
            mad = done.batch.mad[0]
            bad = done.timed_out or int(MadHeader.status.get(mad)) & 0x7FFF
            return None if bad else mad[DATA_AT : DATA_AT + 64].copy()
        inbox = wire.exchange(outbox)
        if inbox is None:
            wire.wait(min(0.25, max(0.0, (deadline_ps - clock_ps()) / PS_PER_S)))
            inbox = wire.exchange()
    return None


def live_master(wire: MadWire, mkey: int = 0) -> Master | None:
    """The manager that the port names as its master, where it says by MAD that it is one (IBA
    14.4.1)."""
    info = transact(wire, smp_get(SmpAttr.PORT_INFO, mkey=mkey))
    if info is None or int(PortInfo.port_state.get(info)) != PortState.ACTIVE:
        return None
    lid = int(PortInfo.master_sm_lid.get(info))
    here = lid == int(PortInfo.lid.get(info))
    if not lid or (here and not int(PortInfo.cap_mask.get(info)) & CapMask.IS_SM):
        return None  # nobody manages from this port now: a question would wait for its timeout
    reply = transact(wire, smp_get(SmpAttr.SM_INFO, dlid=lid, mkey=mkey))
    if reply is None or int(SMInfo.sm_state.get(reply)) != SmState.MASTER:
        return None
    return Master(lid, int(SMInfo.guid.get(reply)), int(SMInfo.priority.get(reply)))
