"""Durable revisions that are not programmed yet (they wait for the manager, are being programmed, or wait for ports
that do not answer), and the P_Keys that ports may therefore still have.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from softib.tenants.state import State
from softib.tenants.subnet import SubnetView
from softib.tenants.writer import Done

__all__ = ["OpenRevisions"]

_Pair = tuple[int, int]
"""P_Key and GUID."""


class OpenRevisions:
    """The revisions that are not programmed yet. Any thread may :meth:`add` revisions and call the queries; only the
    programmer's thread takes revisions. ``wake`` is called after each addition.
    """

    def __init__(self, view: SubnetView, wake: Callable[[], None]):
        self.view, self._wake = view, wake
        self._waiting: dict[int, Done] = {}
        self.pending: dict[int, tuple[Done, frozenset[int]]] = {}
        """Revision → the change, and the GUIDs of the ports for which it waits."""
        self.judged: list[Done] = []
        """The batch that is being programmed."""
        self._released: dict[int, int] = {}
        """P_Key → the newest revision that ended its quarantine."""
        self._lock = threading.Lock()

    def start(self, unprogrammed: list[Done], released: dict[int, int]) -> None:
        """Begin with the revisions that an earlier process did not program. ``released``: P_Key → the newest revision
        that ended its quarantine."""
        self.add(unprogrammed)
        self._released = released

    def add(self, done: list[Done]) -> None:
        """Add revisions that are already in the database."""
        with self._lock:
            for one in done:
                self._waiting[one.revision] = one
                self._released |= dict.fromkeys(one.released, one.revision)
                for pkey in one.rested:
                    self._released.pop(pkey, None)
        self._wake()

    def waiting(self) -> list[Done]:
        """Return the revisions that wait for the manager."""
        with self._lock:
            return list(self._waiting.values())

    def take(self, batch: list[Done]) -> None:
        """Mark the revisions of ``batch``, which the manager has accepted, as being programmed."""
        with self._lock:
            self.judged = batch
            for one in batch:
                self._waiting.pop(one.revision, None)

    def guids(self, batch: list[Done]) -> set[int]:
        """Return the ports that a batch affects."""
        if any(one.everyone for one in batch):
            return set(self.view.ports)
        return set().union(*(one.guids for one in batch))

    def newer(self, guids: Iterable[int]) -> bool:
        """Return whether changes of these ports wait for the manager. If so, the ports' tables are checked after those
        changes.
        """
        return any(one.everyone or not one.guids.isdisjoint(guids) for one in self.waiting())

    def unsettled(self) -> set[int]:
        """Return the ports of waiting and pending changes."""
        return self.guids(self.waiting()).union(*(silent for _, silent in self.pending.values()))

    def counts(self) -> tuple[int, int]:
        """Return the number of revisions that wait for the manager, and of those that wait for members' ports."""
        with self._lock:
            return len({*self._waiting, *(one.revision for one in self.judged)}), len(self.pending)

    # -- pending revisions with nothing left to do --

    def superseded(self, state: State, unsure: set[int]) -> dict[int, bool]:
        """End the pending revisions that have nothing left to do. The ports for which such a revision waits never had
        the P_Keys, and either are no longer members, or a newer pending revision made them members. ``unsure``:
        revisions whose ports may have appeared since the last search. Return the ended revisions, each with whether it
        added members (otherwise it only removed members).
        """
        with self._lock:
            pending = dict(self.pending)
            busy = [*self.judged, *self._waiting.values(), *(pending[n][0] for n in unsure & pending.keys())]
        guids = set[int]().union(*(one.guids for one in busy))
        newest, never, earlier = dict[_Pair, int](), set[_Pair](), set[_Pair]()
        holders: dict[int, set[int]] = {}
        for number, (one, silent) in sorted(pending.items()):
            for pkey, guid in one.joined - earlier:
                held = holders.setdefault(pkey, set(self.view.holders(pkey)))
                if guid in silent and guid not in self.view.ports and guid not in held:
                    never.add((pkey, guid))
            earlier |= one.joined | one.left
            newest |= dict.fromkeys(one.joined | one.left, number)
        out: dict[int, bool] = {}
        for number, (one, silent) in pending.items():
            pairs = {pair for pair in one.joined | one.left if pair[1] in silent}
            done = lambda pair, number=number: (
                pair in never and (newest[pair] > number or pair[0] not in state.memberships(pair[1]))
            )
            if {guid for _, guid in pairs} == silent and silent.isdisjoint(guids) and all(map(done, pairs)):
                out[number] = bool(one.joined)
                self.pending.pop(number, None)
        return out

    # -- P_Keys that former members may still have --

    def is_released(self, pkey: int) -> bool:
        """Return whether an operator ended the quarantine of ``pkey`` and no partition has used it since."""
        return pkey in self._released

    def leaving(self) -> set[int]:
        """Return the P_Keys that former members may still have: their tables have not been read since they left."""
        with self._lock:
            changes = [*self.judged, *self._waiting.values(), *(one for one, _ in self.pending.values())]
        return {pkey for one in changes for pkey, _ in one.left}

    def unread(self, pkey: int) -> dict[int, bool]:
        """Return the ports that may still have ``pkey``: former members whose tables were not read since they left. The
        value is True if the port did not answer; then only the end of the quarantine, or an operator, frees the
        P_Key.
        """
        with self._lock:
            silent = dict(self.pending)
            programmed = {one.revision: one for one in (*self.judged, *self._waiting.values())}
        changes = {number: (one, guids) for number, (one, guids) in silent.items()}
        changes |= {number: (one, one.guids) for number, one in programmed.items()}
        out: dict[int, bool] = {}
        joined = set[int]()
        for number in sorted(changes):
            one, guids = changes[number]
            if pkey not in one.pkeys or number < self._released.get(pkey, 0):
                continue
            for guid in guids:
                if (pkey, guid) in one.joined and guid not in out and guid not in self.view.ports:
                    joined.add(guid)  # it never had the key
                elif (pkey, guid) in one.left and guid not in joined:
                    out[guid] = number in silent
        return out
