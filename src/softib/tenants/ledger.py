"""All findings of a service, present and ended. They are stored in the database, so that a restart of the service does
not lose them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

from softib.tenants.drift import KEPT as KEPT_DRIFTS
from softib.tenants.drift import Drift, Drifts
from softib.tenants.findings import (
    PARTITION_KINDS,
    Finding,
    FindingLog,
    intrusion_findings,
    partition_findings,
)
from softib.tenants.intrusions import Intrusions
from softib.tenants.model import guid_text
from softib.tenants.state import State
from softib.tenants.store import Store, Unavailable
from softib.tenants.subnet import SubnetView

__all__ = ["Ledger"]

FINDINGS_S = 5.0
"""Minimum time between two checks of the partitions, unless a client requests one."""
Row = tuple[str, str, str, float | None, float | None, str]
"""Kind, place, text, start time and end time of a finding; for drift, the remaining values as JSON, otherwise ""."""


class Ledger:
    """The findings about the partitions of ``state`` on the ports of ``view``, about changes by other programs
    (``drifts``) and about refused packets (``intrusions``). Any thread may call it.
    """

    def __init__(
        self, store: Store, clock: Callable[[], float], state: State, view: SubnetView, intrusions: Intrusions
    ):
        self.store, self.clock, self.state, self.view, self.intrusions = store, clock, state, view, intrusions
        self._looked, self._look_took = -FINDINGS_S, 0.0
        self._lock = threading.Lock()
        self._stored: set[Row] = set(store.read("SELECT * FROM finding"))
        findings, drifts = list[Finding](), list[Drift]()
        for row in sorted(self._stored, key=lambda row: (row[4] or row[3] or 0.0, row)):
            kind, where, text, begun_s, ended_s, details = row
            if details:
                at_s, guid, port, missing, extra, rival, _ = json.loads(details)
                drifts.append(Drift(at_s, guid, port, tuple(missing), tuple(extra), rival, ended_s))
            else:
                findings.append(Finding(kind, where, text, begun_s, ended_s))
        self.log = FindingLog(clock, findings)
        self.drifts = Drifts(clock, drifts[-KEPT_DRIFTS:])

    def look(self, problem: str, rest_s: float = FINDINGS_S) -> None:
        """Enter the findings whose times the :class:`FindingLog` records: the manager's ``problem`` ("" if it has
        none), and those about partitions. Partitions are checked at most every ``rest_s`` seconds, because the check
        takes long with thousands of partitions, and not before the subnet has been read.
        """
        self.log.look([Finding("manager", "", problem)] if problem else [], ["manager"])
        began = time.monotonic()
        if self.view.ports and began >= self._looked + max(rest_s, 20 * self._look_took if rest_s else 0.0):
            self.log.look(partition_findings(self.state, self.view), PARTITION_KINDS)
            self._looked = time.monotonic()
            self._look_took = self._looked - began
        self.write()

    def all(self, resolved: bool) -> list[Finding]:
        """Return the present findings; if ``resolved``, also those that have ended."""
        drifts = [Finding("drift", guid_text(d.guid), str(d), d.at_s, d.ended_s) for d in self.drifts.kept]
        out = self.log.all() + drifts + intrusion_findings(self.intrusions.all(), self.view, self.clock())
        return [one for one in out if resolved or one.ended_s is None]

    def write(self) -> None:
        """Write the changed findings to the database, except those about refused packets, which :class:`Intrusions`
        writes. If the database is locked, the next call writes them.
        """
        with self._lock:
            rows = {(f.kind, f.where, f.text, f.begun_s, f.ended_s, "") for f in self.log.all()}
            rows |= {self._row(drift) for drift in self.drifts.kept}
            old, new = self._stored - rows, rows - self._stored
            if not old and not new:
                return
            same = " AND ".join(f"{name} IS ?" for name in ("kind", "place", "text", "begun_s", "ended_s", "details"))
            try:
                with self.store.transaction(waits=False):
                    self.store.db.executemany(f"DELETE FROM finding WHERE {same}", sorted(old, key=str))
                    self.store.db.executemany("INSERT INTO finding VALUES (?, ?, ?, ?, ?, ?)", sorted(new, key=str))
            except Unavailable:
                return
            self._stored = rows

    def _row(self, drift: Drift) -> Row:
        details: list[Any] = [*astuple(drift)]
        return "drift", guid_text(drift.guid), "", drift.at_s, drift.ended_s, json.dumps(details)
