"""MADs that others send to the manager (queries, traps, SMInfo, and records of other managers).
They are sorted and answered (IBA 13.4.9, 14.2.5.13, 14.4.1, 15.4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softib.iba.constants import RESPONSE_BIT, MadStatus, Method, MgmtClass, SmpAttr
from softib.iba.notice import Notice
from softib.iba.smp import CLASS_AT, DATA_AT, METHOD_AT, MadHeader, SMInfo, Smp
from softib.iba.vendor.vports import VPORT_STATE_CHANGE
from softib.mad.batch import MadBatch, SendStatus
from softib.sm.database import Database
from softib.sm.ha.election import SmControl, SmState
from softib.sm.ha.handover import SWEEPS_IN, Mastership

__all__ = ["SWEEP_TRAPS", "Responder", "Unsolicited", "answer"]


SWEEP_TRAPS = (128, 129, 130, 131, 144, 145, VPORT_STATE_CHANGE)
"""Traps that start a sweep: changes of link state, capabilities, SystemImageGUID or states of
virtual ports; link integrity; buffer overrun; flow control watchdog."""
DIRECTION_BIT = 0x8000
LAST_CONTROL = 5
KeysOf = Callable[[np.ndarray], dict[int, int]]
"""Function from LIDs (ascending) to the known M_Keys of their ports."""


@dataclass
class Unsolicited:
    """``replies`` to send; ``suspects``: LIDs of devices whose traps start a sweep; ``notices``
    uint8[n, 64] and the LIDs that sent them; ``controls``: (modifier, SMInfo of the sender) of each
    Set(SMInfo)."""

    replies: MadBatch
    suspects: tuple[int, ...]
    notices: np.ndarray
    controls: list[tuple[int, np.ndarray]]


def answer(
    mads: MadBatch,
    sm_info: np.ndarray,
    mkeys_of: KeysOf = lambda lids: dict.fromkeys(lids.tolist(), 0),
    has_guid: bool = True,
) -> Unsolicited:
    """Sort ``mads`` (SMP requests and traps) and answer them.

    ``sm_info`` uint8[64] is the answer to Get(SMInfo). ``mkeys_of`` returns the M_Keys of ports,
    because a TrapRepress with a wrong key is a violation at the port, which then sends another trap
    (IBA 14.2.4). As long as a port's key is unknown, its trap is not repressed, and the port
    repeats it. A Set(SMInfo) with an undefined modifier is answered with "bad field". SMInfo is not
    answered until the manager knows its own GUID (``has_guid``): OpenSM ignores a manager with GUID
    0, and would become a second master. All other MADs are not answered.
    """
    mad = mads.mad
    method, attr = MadHeader.method.get(mad), MadHeader.attr_id.get(mad)
    smp = np.isin(MadHeader.mgmt_class.get(mad), (MgmtClass.SUBN_LID, MgmtClass.SUBN_DR))
    question = smp & has_guid & (attr == SmpAttr.SM_INFO) & np.isin(method, (Method.GET, Method.SET))
    trap = smp & (attr == SmpAttr.NOTICE) & (method == Method.TRAP)
    notices = mad[trap][:, DATA_AT : DATA_AT + 64]
    calls = (Notice.is_generic.get(notices) == 1) & np.isin(Notice.trap_number.get(notices), SWEEP_TRAPS)
    suspects = tuple(sorted(set(_device(notices[calls]).tolist())))
    keys = mkeys_of(np.unique(mads.slid[trap]).astype(np.int64)) if trap.any() else {}
    repressed = trap & np.isin(mads.slid, list(keys))
    rows = np.flatnonzero(question | repressed)
    reply = mads[rows]
    reply.mad = reply.mad.copy()
    reply.dlid, reply.slid = mads.slid[rows].copy(), mads.dlid[rows].copy()
    was_trap, is_set = trap[rows], method[rows] == Method.SET
    modifier = MadHeader.attr_mod.get(mad[rows])
    bad = is_set & ((modifier < 1) | (modifier > LAST_CONTROL))
    status = np.where(bad, MadStatus.BAD_FIELD, MadStatus.OK)
    directed = MadHeader.mgmt_class.get(reply.mad) == MgmtClass.SUBN_DR
    MadHeader.status.set(reply.mad, np.where(directed, status | DIRECTION_BIT, status))
    MadHeader.method.set(reply.mad, np.where(was_trap, Method.TRAP_REPRESS, Method.GET_RESP))
    mkeys = np.array([keys.get(lid, 0) for lid in mads.slid[rows].tolist()], np.uint64)
    Smp.mkey.set(reply.mad, np.where(was_trap, mkeys, Smp.mkey.get(reply.mad)))
    infos = mad[rows][:, DATA_AT : DATA_AT + SMInfo.size]
    controls = [(int(modifier[i]), infos[i].copy()) for i in np.flatnonzero(is_set & ~was_trap & ~bad).tolist()]
    reply.mad[~was_trap, DATA_AT : DATA_AT + SMInfo.size] = sm_info
    return Unsolicited(reply, suspects, notices.copy(), controls)


def _device(notices: np.ndarray) -> np.ndarray:
    """Return the LID of the device that each notice (uint8[n, 64]) concerns. In the traps above, it
    is at the start of the details (trap 128), or after 16 reserved bits (the others)."""
    details = notices[:, Notice.data_details.byte :]
    first = Notice.trap_number.get(notices) == 128
    lid = np.where(first[:, None], details[:, :2], details[:, 2:4]).astype(np.int64)
    return lid[:, 0] << 8 | lid[:, 1]


class Responder:
    """Answers MADs from others. ``sent`` is a function that returns the number of MADs that the
    manager has sent (ActCount of SMInfo)."""

    def __init__(self, mastership: Mastership, sent: Callable[[], int]):
        self.mastership, self.sent = mastership, sent
        self.sa_manager, self.replication = mastership.has.sa_manager, mastership.has.replication

    def take(self, now_ps: int, inbox: MadBatch | None, db: Database) -> tuple[MadBatch | None, list[MadBatch]]:
        """Answer requests of others; return the answers to the manager's own SMPs, and the MADs to
        send. ``db`` is the current sweep's."""
        out: list[MadBatch] = []
        if inbox is None or not len(inbox):
            return inbox, out
        # each MAD is examined once, by its first four bytes
        head = np.ascontiguousarray(inbox.mad[:, : METHOD_AT + 1])
        answers = (head[:, METHOD_AT] >= RESPONSE_BIT) & (head[:, CLASS_AT] != MgmtClass.SM_REPLICA)
        if (answers & (head[:, CLASS_AT] != MgmtClass.SUBN_ADM)).all():
            return inbox, out
        copies = inbox.mad[:, CLASS_AT] == MgmtClass.SM_REPLICA
        if copies.any():
            reply = self.replication.receive(now_ps, inbox[copies], self.mastership.state)
            out += [reply] if reply is not None else []
            inbox = inbox[~copies]
        # A request that the port returns because it timed out (umad's ETIMEDOUT) is not a query;
        # its retry is scheduled elsewhere.
        is_request = (inbox.mad[:, METHOD_AT] < RESPONSE_BIT) & (inbox.status == SendStatus.OK)
        if is_request.any():
            alone = bool(is_request.all())
            out.append(self._answer(now_ps, inbox if alone else inbox[is_request], db))
            if alone:
                return None, out
            inbox = inbox[~is_request]
        acknowledged = inbox.mad[:, CLASS_AT] == MgmtClass.SUBN_ADM
        if acknowledged.any():
            self.sa_manager.acknowledged(now_ps, inbox[acknowledged])
            inbox = inbox[~acknowledged]
        return inbox, out

    def _answer(self, now_ps: int, requests: MadBatch, db: Database) -> MadBatch:
        """Answer requests and traps. Only a master is the subnet administrator."""
        master = self.mastership
        to_sa = requests.mad[:, CLASS_AT] == MgmtClass.SUBN_ADM
        if to_sa.all() and master.state == SmState.MASTER:
            return self._administer(now_ps, requests)
        has_guid = self.replication.local_guid != 0
        mkeys, lids = master.has.stores.mkeys, master.has.lids
        answered = answer(requests[~to_sa], self.sm_info(), lambda at: mkeys.of_lids(at, db, lids), has_guid)
        if answered.suspects and master.state in SWEEPS_IN:
            master.schedule.suspect_lids(answered.suspects, db, self.sa_manager.subnet)
        for modifier, info in answered.controls:
            master.control(now_ps, SmControl(modifier), info)
        if master.state == SmState.MASTER:
            master.has.babbling.heard(answered.notices, db, master.config.flaps, now_ps)
            for notice in answered.notices:
                self.sa_manager.forward(notice)
            if to_sa.any():
                return MadBatch.concat([answered.replies, self._administer(now_ps, requests[to_sa])])
        return answered.replies

    def _administer(self, now_ps: int, requests: MadBatch) -> MadBatch:
        self.sa_manager.sm_info(self.sm_info, self.mastership.election.others)
        return self.sa_manager.answer(requests, now_ps)

    def sm_info(self) -> np.ndarray:
        """Return SMInfo (IBA 14.2.5.13). It shows the SM_Key to all managers, because OpenSM
        ignores a manager that does not show it, and OpenSM's requests do not contain its own
        key."""
        config = self.mastership.config
        return SMInfo.pack(
            guid=self.replication.local_guid,
            sm_key=config.sm_key,
            priority=config.priority,
            sm_state=int(self.mastership.state),
            act_count=self.sent() & 0xFFFFFFFF,
        )
