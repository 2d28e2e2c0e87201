"""A standby's copy of its master's records, as MADs bring it: in order, each once, whatever is lost
or comes twice."""

from __future__ import annotations

from softib.iba.vendor.replication import ReplicaFlag, ReplicaStatus
from softib.sm.replication.messages import unpacked
from softib.sm.replication.records import Copied, copied

__all__ = ["Replica"]

AHEAD = 4096
"""MADs that may wait for one that is missing."""


class Replica:
    """``guid``: the manager whose records these are; ``copy`` its number of the full copy,
    ``sequence`` the next MAD of it.

    While a new full copy comes the one before is kept; ``complete`` says that there is one.
    """

    def __init__(self) -> None:
        self.guid = self.copy = self.sequence = 0
        self.complete = False
        self._of = 0  # whose records the complete ones are
        self._records: dict[bytes, tuple[bytes, int]] = {}
        self._incoming: dict[bytes, tuple[bytes, int]] = {}
        self._waiting: dict[int, tuple[int, bytes, int]] = {}

    def keep(self, guid: int, records: dict[bytes, tuple[bytes, int]]) -> None:
        """What this manager knew as a master, for the case that its heir ``guid`` ends before it
        copied it back."""
        self.__init__()  # type: ignore[misc]
        self._records, self._of, self.complete = records, guid, True

    def take(self, head: dict[str, int], octets: bytes, now_ps: int) -> ReplicaStatus:
        """One MAD with records."""
        source = head["guid"], head["copy"]
        if source != (self.guid, self.copy):
            if source[0] == self.guid and source[1] < self.copy:
                return ReplicaStatus.REFUSED  # of an older copy, late
            self.guid, self.copy = source
            self.sequence = 0
            self._incoming, self._waiting = {}, {}
        number = head["sequence"]
        if number < self.sequence:
            return ReplicaStatus.TAKEN  # a repetition
        if number != self.sequence and len(self._waiting) >= AHEAD:
            return ReplicaStatus.REFUSED
        self._waiting[number] = head["flags"], octets, now_ps
        while self.sequence in self._waiting:
            self._apply(*self._waiting.pop(self.sequence))
            self.sequence += 1
        return ReplicaStatus.TAKEN

    def _apply(self, flags: int, octets: bytes, came_ps: int) -> None:
        for key, value in unpacked(octets):
            self._incoming.pop(key, None)
            if value is not None:
                self._incoming[key] = value, came_ps
        if flags & ReplicaFlag.LAST:
            self._records, self._of, self.complete = self._incoming, self.guid, True

    def of(self, guid: int) -> Copied | None:
        """The records of this manager, None where no full copy of them came."""
        return copied(self._records) if self.complete and self._of == guid else None

    @property
    def in_step(self) -> bool:
        """Is the copy that comes the complete one?"""
        return self.complete and self._records is self._incoming
