"""Ports that are up but whose device does not answer. They are read once in each sweep, and between
sweeps at growing intervals.

No phase of a sweep waits for these devices. Between sweeps, a NodeInfo request is sent to each of
them after one timeout, then after two, and so on, up to :data:`LONGEST` timeouts. An answer starts
a sweep of the switch in front of the device. A late answer counts too: the next sweep then waits
for this device as for all others. (On a loaded machine, every answer may take longer than the few
milliseconds for which discovery waits for an unknown device.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.iba.constants import RESPONSE_BIT, SmpAttr
from softib.iba.smp import METHOD_AT, STATUS_AT, TID_AT
from softib.mad.batch import MadBatch
from softib.mad.smp_requests import MAX_HOPS, RequestQueue
from softib.mad.transactor import NEVER_PS, Transactor
from softib.sm.database import Database, Location
from softib.sm.managers.mkeys import MKeys

__all__ = ["SilentPorts"]

LONGEST = 256
"""Longest interval between two requests, in timeouts (51 s with OpenSM's timeout of 200 ms)."""
FIRST_TID = 1 << 31
"""First TransactionID of these requests. It distinguishes their answers from answers to a sweep's
requests."""


@dataclass
class _Silence:
    questions: int
    next_ps: int


class SilentPorts:
    """``ports``: the silent ports. Call :meth:`note` after each sweep, :meth:`answers` with the
    MADs that arrived, and :meth:`send` at each step."""

    def __init__(self, window: int, timeout_ps: int, retries: int):
        self.timeout_ps, self.retries = timeout_ps, retries
        self.ports: dict[Location, _Silence] = {}
        self._transactor = Transactor(window, timeout_ps, 0, FIRST_TID)
        self._queried: list[Location] = []
        self.answering: set[Location] = set()
        """Locations where a device answered although the last sweep found none."""
        self._timed_out: dict[Location, int] = {}
        """TransactionID of the last abandoned request, by location."""

    @property
    def young(self) -> bool:
        """Return whether some silent port has not yet been sent the usual number of retries."""
        last = self.retries + self._transactor.busy
        return any(s.questions <= last for s in self.ports.values())

    def note(self, db: Database, ports: list[int], now_ps: int) -> None:
        """Record the end of a sweep in which ``ports`` (rows) did not answer."""
        before, self.ports = self.ports, {}
        for port in ports:
            place = db.location(port)
            held = before.get(place)
            questions = 1 if held is None else held.questions + 1
            self.ports[place] = _Silence(questions, now_ps + self._pause(questions))
        self.answering.clear()

    def clear(self) -> None:
        """Clear the list of silent devices, since another manager reads them."""
        self.ports.clear()
        self.answering.clear()
        self._timed_out.clear()
        self._transactor.abandon()

    def postpone(self, by_ps: int) -> None:
        """See :meth:`~softib.mad.transactor.Transactor.postpone`."""
        self._transactor.postpone(by_ps)

    def answers(self, now_ps: int, inbox: MadBatch | None) -> tuple[MadBatch | None, set[int]]:
        """Remove the answers to these requests from ``inbox``; return the rest, and the NodeGUIDs
        of the switches through which the answers came."""
        answering: set[Location] = set()
        if inbox is not None and (self._transactor.busy or self._timed_out):
            replies = inbox.mad[:, TID_AT + 4] >= FIRST_TID >> 24
            if replies.any():
                answering |= self._after_timeout(inbox[replies])
                self._transactor.receive(now_ps, inbox[replies])
                inbox = None if replies.all() else inbox[~replies]
        self._transactor.receive(now_ps)
        for done in self._transactor.completed():
            locations = [self._queried[tag] for tag in done.tags.tolist()]
            if done.timed_out:
                self._timed_out.update(zip(locations, done.batch.tid.tolist(), strict=True))
            else:
                answering.update(locations)
        self.answering |= answering
        return inbox, {guid for guid, _ in answering}

    def _after_timeout(self, answers: MadBatch) -> set[Location]:
        """Return the locations whose devices answered late, after the request was abandoned."""
        tids = np.ascontiguousarray(answers.mad[:, TID_AT + 4 : TID_AT + 8]).view(">u4")[:, 0].tolist()
        good = (answers.mad[:, METHOD_AT] >= RESPONSE_BIT) & (answers.mad[:, STATUS_AT] & 0x7F == 0)
        good &= answers.mad[:, STATUS_AT + 1] == 0
        came = {tid for tid, ok in zip(tids, good.tolist(), strict=True) if ok}
        locations = {place for place, tid in self._timed_out.items() if tid in came}
        for place in locations:
            del self._timed_out[place]
        return locations & self.ports.keys()

    def send(self, db: Database, mkeys: MKeys, now_ps: int) -> tuple[MadBatch, int]:
        """Return the requests that are due, and the time of the next call."""
        due = [place for place, s in self.ports.items() if s.next_ps <= now_ps]
        if due:
            if not self._transactor.busy:
                self._queried = []
            self._ask(db, mkeys, due, now_ps)
        batch, deadline_ps = self._transactor.send(now_ps)
        return batch, min([deadline_ps, *(s.next_ps for s in self.ports.values())], default=NEVER_PS)

    def _ask(self, db: Database, mkeys: MKeys, due: list[Location], now_ps: int) -> None:
        ports, tags = [], []
        for place in due:
            silence = self.ports[place]
            silence.questions += 1
            silence.next_ps = now_ps + self._pause(silence.questions)
            node = db.node_of(place[0])
            port = int(db.node_base[node]) + place[1]
            # only if the directed route can be one hop longer
            if node >= 0 and db.routes.hops[db.port_route[port]] < MAX_HOPS:
                ports.append(port)
                tags.append(len(self._queried))
                self._queried.append(place)
        queue = RequestQueue(db.routes, mkeys.default)
        rows = np.array(ports, np.int64)
        queue.get(
            SmpAttr.NODE_INFO,
            db.port_route[rows],
            np.array(tags, np.int64),
            0,
            db.port_num[rows],
            mkeys.behind(db, rows),
        )
        if len(queue):
            self._transactor.submit(*queue.take(len(queue)))

    def _pause(self, questions: int) -> int:
        """Return the pause before the next request. It is one timeout for the usual number of
        retries, and then doubles each time."""
        return self.timeout_ps * min(1 << max(0, questions - self.retries), LONGEST)
