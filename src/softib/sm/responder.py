"""What others send to the manager: questions, traps, Set(SMInfo), records of other managers;
sorted, and answered (IBA 13.4.9, 14.4.1, 15.4)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softib.iba.constants import RESPONSE_BIT, MgmtClass
from softib.iba.smp import CLASS_AT, METHOD_AT, SMInfo
from softib.mad.batch import MadBatch, SendStatus
from softib.sm import unsolicited
from softib.sm.database import Database
from softib.sm.ha.election import SmControl
from softib.sm.ha.mastership import SWEEPS_IN, Mastership
from softib.sm.state import SmState

__all__ = ["Responder"]


class Responder:
    """``sent`` tells how many MADs the manager has sent (ActCount of SMInfo)."""

    def __init__(self, mastership: Mastership, sent: Callable[[], int]):
        self.mastership, self.sent = mastership, sent
        self.sa_manager, self.replication = mastership.has.sa_manager, mastership.has.replication

    def take(self, now_ps: int, inbox: MadBatch | None, db: Database) -> tuple[MadBatch | None, list[MadBatch]]:
        """Answer what others ask; returns the answers to the manager's own SMPs, and what shall be
        sent. ``db`` is the current sweep's."""
        out: list[MadBatch] = []
        if inbox is None or not len(inbox):
            return inbox, out
        copies = inbox.mad[:, CLASS_AT] == MgmtClass.SM_REPLICA
        if copies.any():
            reply = self.replication.receive(now_ps, inbox[copies], self.mastership.state)
            out += [reply] if reply is not None else []
            inbox = inbox[~copies]
        # A request of ours that the wire hands back (umad's ETIMEDOUT) is no question; its retry stands anyway.
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
        """Answers to requests and traps. Only a master is the subnet administrator."""
        master = self.mastership
        to_sa = requests.mad[:, CLASS_AT] == MgmtClass.SUBN_ADM
        if to_sa.all() and master.state == SmState.MASTER:
            return self._administer(now_ps, requests)
        known = self.replication.local_guid != 0
        mkeys, lids = master.has.stores.mkeys, master.has.lids
        answered = unsolicited.answer(requests[~to_sa], self.sm_info(), lambda at: mkeys.of_lids(at, db, lids), known)
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
        """SMInfo (IBA 14.2.5.13). All managers get to see the SM_Key: OpenSM ignores one that does
        not show it, and asks without its own."""
        config = self.mastership.config
        return SMInfo.pack(
            guid=self.replication.local_guid,
            sm_key=config.sm_key,
            priority=config.priority,
            sm_state=int(self.mastership.state),
            act_count=self.sent() & 0xFFFFFFFF,
        )
