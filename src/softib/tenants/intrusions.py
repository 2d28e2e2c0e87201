"""Findings about refused packets: one for each sender, target and key. A finding lasts from the first report until an
hour after the last. Findings are stored in the database, so that a restart of the service does not lose them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace

from softib.tenants.intruders import Intruder
from softib.tenants.store import Store, Unavailable

__all__ = ["SHOWN_S", "Intrusion", "Intrusions"]

SHOWN_S = 3600.0
"""Time from the last report of refused packets to the end of their finding."""
KEPT = 1000
"""Maximum number of findings; the newest are kept. A sender that tries every key causes 65,536."""
Key = tuple[int, int, int, int, int]
"""Trap, sender, target, key and reporter."""


@dataclass(frozen=True)
class Intrusion:
    """A finding about refused packets. ``where``: PortGUID of the sender, "" if unknown. ``count``: number of reports
    between ``begun_s`` and ``last_s``.
    """

    trap: int
    lid: int
    target: int
    key: int
    reporter: int
    begun_s: float
    last_s: float
    count: int
    where: str
    text: str

    @property
    def content(self) -> Key:
        """Return the values that identify the finding: reports with equal values belong to one finding."""
        return self.trap, self.lid, self.target, self.key, self.reporter

    def __str__(self) -> str:
        return self.text if self.count == 1 else f"{self.text}, {self.count} times"

    def ended_s(self, now_s: float) -> float | None:
        """Return the time of the last report if the finding has ended, otherwise None."""
        return self.last_s if self.last_s < now_s - SHOWN_S else None


class Intrusions:
    """All findings about refused packets. ``where_of`` returns the PortGUID of a LID ("" if unknown), ``name_of`` the
    name of its port. Any thread may use them.
    """

    def __init__(self, store: Store, where_of: Callable[[int], str], name_of: Callable[[int], str]):
        self.store, self.where_of, self.name_of = store, where_of, name_of
        self._kept: dict[Key, Intrusion] = {}
        self._changed: set[Key] = set()
        self._ended: list[Intrusion] = []
        self._lock = threading.Lock()
        for row in store.read("SELECT * FROM intrusion ORDER BY last_s"):
            one = Intrusion(*row)
            self._ended += [old] if (old := self._kept.pop(one.content, None)) is not None else []
            self._kept[one.content] = one

    def all(self) -> list[Intrusion]:
        """Return the kept findings, the newest first."""
        with self._lock:
            return sorted([*self._ended, *self._kept.values()], key=lambda one: -one.last_s)

    def take(self, reports: Sequence[Intruder]) -> None:
        """Add reports to the findings. :meth:`write` makes them durable."""
        with self._lock:
            for one in reports:
                key = (one.trap, one.lid, one.target, one.key, one.reporter)
                old = self._kept.pop(key, None)
                if old is not None and old.ended_s(one.at_s) is not None:
                    self._ended.append(old)
                    old = None
                if old is None or not old.where:  # the sender was unknown if the subnet had not been read
                    first, count = (one.at_s, 0) if old is None else (old.begun_s, old.count)
                    old = Intrusion(*key, first, one.at_s, count, self.where_of(one.lid), one.named(self.name_of))
                self._kept[key] = replace(old, last_s=one.at_s, count=old.count + 1)
                self._changed.add(key)
            while len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
            self._ended = self._ended[-KEPT:]

    def write(self) -> None:
        """Write the changed findings to the database. If it is locked, the next call writes them."""
        with self._lock:
            keys, self._changed = self._changed, set()
            rows = [astuple(one) for key in keys if (one := self._kept.get(key)) is not None]
        if not rows:
            return
        marks = ", ".join("?" * len(rows[0]))
        try:
            with self.store.transaction(waits=False):
                self.store.db.executemany(f"INSERT OR REPLACE INTO intrusion VALUES ({marks})", rows)
                self.store.db.execute(
                    "DELETE FROM intrusion WHERE rowid NOT IN"
                    " (SELECT rowid FROM intrusion ORDER BY last_s DESC LIMIT ?)",
                    (2 * KEPT,),
                )
        except Unavailable:
            with self._lock:
                self._changed |= keys
