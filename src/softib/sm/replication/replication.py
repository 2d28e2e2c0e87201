"""The replication of a manager, both as master and as standby. It receives MADs and returns MADs.

When a request changes the master's records, the changes are sent before the answer to the request.
So every membership that was granted to a host is in the copy of every reachable standby.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from softib.iba.constants import RESPONSE_BIT, Method, MgmtClass, PortState
from softib.iba.smp import ATTR_AT, CLASS_AT, METHOD_AT, PortInfo
from softib.iba.vendor.replication import (
    RECORD_OCTETS,
    RECORDS_AT,
    RECORDS_ATTR,
    STATE_ATTR,
    ReplicaHead,
    ReplicaStatus,
)
from softib.mad.batch import MadBatch
from softib.mad.transactor import NEVER_PS, Transactor
from softib.sm.config import SmConfig
from softib.sm.ha.election import SmState
from softib.sm.journal import Journal
from softib.sm.managers.partitions import Partition
from softib.sm.replication.records import Copied, Source
from softib.sm.replication.transfer import Record, Replica, Sender, head_of, reply, request

__all__ = ["Replication"]

WINDOW = 32
ASK_SOON_PS = 5 * 10**11
"""Interval at which a standby without a copy requests one, for the first requests."""
TRIES = 10
"""If the master does not answer this number of requests, it is assumed to be another program. Later
requests are sent only together with polls."""


@dataclass
class _Asking:
    """The state of a standby's requests: the time of the next one, and the number of consecutive
    failures."""

    due_ps: int = NEVER_PS
    in_vain: int = 0


@dataclass
class _Sent:
    """Tags of requests, and the standby and copy to which each belongs."""

    about: dict[int, tuple[int, int]] = field(default_factory=dict)
    number: int = 0

    def tag(self, guid: int, copy: int) -> int:
        """Return a new tag."""
        self.number += 1
        self.about[self.number] = guid, copy
        return self.number


class Replication:
    """``source`` holds this manager's records while it is master; ``replica`` holds those of its
    master. ``journal`` records changes."""

    def __init__(self, source: Source, journal: Journal, config: SmConfig):
        self.source, self.journal, self.replica = source, journal, Replica()
        self.sender = Sender(config.sm_key)
        self.local_guid = 0
        self._transactor = Transactor(WINDOW, config.timeout_ps, config.retries)
        self._asking, self._sent = _Asking(), _Sent()
        self._of_sweep: dict[bytes, bytes] = {}
        self._copies = 0

    # -- the wire --

    def receive(self, now_ps: int, inbox: MadBatch, state: SmState) -> MadBatch | None:
        """Handle MADs of the class: answer requests, and complete this manager's requests."""
        query = np.flatnonzero((inbox.mad[:, METHOD_AT] < RESPONSE_BIT) & (inbox.status == 0))
        replies = [r for i in query.tolist() if (r := self._answer(now_ps, inbox[i : i + 1], state)) is not None]
        answers = np.delete(np.arange(len(inbox)), query)
        self._transactor.receive(now_ps, inbox[answers] if len(answers) else None)
        self._ended()
        return MadBatch.concat(replies) if replies else None

    def postpone(self, by_ps: int) -> None:
        """See :meth:`~softib.mad.transactor.Transactor.postpone`."""
        self._transactor.postpone(by_ps)

    def send(self, now_ps: int, state: SmState) -> tuple[MadBatch, int]:
        """Return the MADs to send now, before all others, and the time of the next call."""
        self.source.now_ps = now_ps
        keys = self.journal.take()
        if state == SmState.MASTER and self.sender.standbys and keys:
            self._submit([(key, self.source.value(key)) for key in keys])
        if self._transactor.busy:
            self._transactor.receive(now_ps)
            self._ended()
        return self._transactor.send(now_ps)

    def _ended(self) -> None:
        """Handle answers to this manager's requests, and requests that timed out."""
        for done in self._transactor.completed():
            for tag, mad in zip(done.tags.tolist(), done.batch.mad, strict=True):
                guid, copy = self._sent.about.pop(tag, (0, 0))
                head = {} if done.timed_out else head_of(mad)
                status = head["state"] if head.get("sm_key") == self.sender.sm_key else -1
                if guid:
                    self.sender.over(guid, copy, status)
                else:
                    self._asking.in_vain = 0 if status == ReplicaStatus.TAKEN else self._asking.in_vain + 1

    def _answer(self, now_ps: int, query: MadBatch, state: SmState) -> MadBatch | None:
        mad = query.mad[0]
        head = head_of(mad)
        if head["sm_key"] != self.sender.sm_key or int(mad[CLASS_AT]) != MgmtClass.SM_REPLICA:
            return None
        attr, method = int(mad[ATTR_AT]) << 8 | int(mad[ATTR_AT + 1]), int(mad[METHOD_AT])
        status = ReplicaStatus.REFUSED
        if (
            attr == RECORDS_ATTR
            and method == Method.SET
            and state == SmState.STANDBY
            and head["octets"] <= RECORD_OCTETS
        ):
            status = self.replica.take(head, mad[RECORDS_AT : RECORDS_AT + head["octets"]].tobytes(), now_ps)
        elif attr == STATE_ATTR and method == Method.GET:
            status = self._state_query(now_ps, head, int(query.slid[0]), state)
        return reply(query, self._head(state=int(status)))

    def _head(self, **fields: int) -> np.ndarray:
        return ReplicaHead.pack(sm_key=self.sender.sm_key, guid=self.local_guid, **fields)

    # -- a master --

    def swept(self, here: np.ndarray, partitions: Sequence[Partition] | None) -> None:
        """Handle the end of a sweep as master. ``here``: PortGUIDs of the subnet (uint64[n])."""
        self.source.here, self.source.partitions = set(here.tolist()), partitions
        if not self.sender.standbys:
            return
        before, self._of_sweep = self._of_sweep, self.source.of_sweep()
        records: list[Record] = [(k, v) for k, v in self._of_sweep.items() if before.get(k) != v]
        records += [(k, None) for k in before if k not in self._of_sweep]
        self._submit(records)

    def offer(self, now_ps: int, guid: int, lid: int) -> None:
        """Send a full copy to the manager that will take over, if it has none. A manager that does
        not support this class does not answer, so the copy times out and is not sent again. (If it
        were, sweeps that follow each other faster than the timeout would delay the handover
        forever.)"""
        if guid not in self.sender.standbys and guid not in self.sender.without and lid:
            self._copy(now_ps, guid, lid)

    def ready(self, guid: int) -> bool:
        """Return whether the manager ``guid`` has a full copy, or does not accept copies."""
        return self.sender.ready(guid)

    def _state_query(self, now_ps: int, head: dict[str, int], lid: int, state: SmState) -> ReplicaStatus:
        if state != SmState.MASTER or not self.source.here:
            return ReplicaStatus.NO_MASTER
        if not self.sender.in_step(head["guid"], head["copy"], head["sequence"]):
            self._copy(now_ps, head["guid"], lid)
        return ReplicaStatus.TAKEN

    def _copy(self, now_ps: int, guid: int, lid: int) -> None:
        self._copies = max(self._copies + 1, now_ps)
        self.source.now_ps = now_ps
        if not self.sender.standbys:
            self._of_sweep = self.source.of_sweep()
        for mad in self.sender.begin(self.local_guid, guid, lid, self._copies, self.source.all()):
            self._transactor.submit(mad, np.array([self._sent.tag(guid, self._copies)]))

    def _submit(self, records: list[Record]) -> None:
        for guid, mad in self.sender.changed(self.local_guid, records):
            self._transactor.submit(mad, np.array([self._sent.tag(guid, self.sender.standbys[guid].copy)]))

    # -- a standby --

    def stand_by(self, now_ps: int) -> None:
        """Become a standby."""
        self._no_master()
        self._asking = _Asking(now_ps + ASK_SOON_PS)

    def step_down(self, now_ps: int, heir: int) -> None:
        """Hand over to ``heir``. Keep this manager's records until it has a copy from the heir."""
        self.source.now_ps = now_ps
        self.replica.keep(heir, {key: (value, now_ps) for key, value in self.source.all()})
        self.stand_by(now_ps)

    def lead(self) -> None:
        """Stop being a standby."""
        self._asking.due_ps = NEVER_PS

    def _no_master(self) -> None:
        self.sender.forget()
        self._transactor.abandon()
        self._sent.about.clear()
        self._of_sweep, self.source.here = {}, set()
        self.journal.take()

    @property
    def due_ps(self) -> int:
        """Return the time at which a standby must next read its own port (:meth:`located`)."""
        return self._asking.due_ps

    def asks(self, now_ps: int, pause_ps: int) -> None:
        """Record the request to the manager's own port, and schedule the next one after at most ``pause_ps``."""
        slow = self.replica.in_step or self._asking.in_vain >= TRIES
        self._asking.due_ps = now_ps + (pause_ps if slow else ASK_SOON_PS)

    def located(self, info: np.ndarray) -> None:
        """Handle PortInfo (uint8[64]) of the manager's own port. When there is a path to the master
        that it names, send a request to that master."""
        lid = int(PortInfo.master_sm_lid.get(info))
        if (
            lid
            and int(PortInfo.lid.get(info))
            and int(PortInfo.port_state.get(info)) == PortState.ACTIVE
            and not self._transactor.busy
        ):
            head = self._head(copy=self.replica.copy, sequence=self.replica.sequence)
            self._transactor.submit(request(Method.GET, STATE_ATTR, lid, head), np.array([self._sent.tag(0, 0)]))

    def copy_of(self, guid: int) -> Copied | None:
        """Return the copied records of the master ``guid``; None without a full copy."""
        return self.replica.of(guid)
