"""What an exporter has recorded: faults, their repairs, and devices that are down."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from softib.api.arguments import Suggests
from softib.errors import InputError
from softib.result import Result

if TYPE_CHECKING:
    from softib.monitor.ledger import Fault

__all__ = ["FaultLedger", "FaultRecord", "Forgotten", "RepairRecord", "fault_ledger", "forget_down", "record_repair"]


@dataclass
class RepairRecord(Result):
    """A repair in the ledger."""

    time: float
    """Seconds since 1970."""
    by: str
    note: str


@dataclass
class FaultRecord(Result):
    """Faults of one cable or device."""

    where: list[str]
    """Names of both ends, or of the device."""
    standing: bool
    """True if the fault is current."""
    begun: float
    """Start of the current or last occurrence, in seconds since 1970."""
    codes: list[str]
    """Codes of the findings of the last occurrence."""
    first: float
    """When it was first seen, in seconds since 1970."""
    last: float
    """When it was last seen, in seconds since 1970."""
    times_in_30_days: int
    """Number of occurrences, including the current one."""
    repairs: list[RepairRecord]

    def line(self) -> str:
        """Return the record as one line of text."""
        when = f"since {_minute(self.begun)}" if self.standing else f"until {_minute(self.last)}"
        if self.times_in_30_days > 1:
            when += f", time {self.times_in_30_days} in 30 days, first seen {_minute(self.first)}"
        if self.repairs:
            last = self.repairs[-1]
            when += f"; repaired {_minute(last.time)} by {last.by}" + (f": {last.note}" if last.note else "")
        where = " ↔ ".join(self.where) or "the fabric"
        return f"{where}: {', '.join(self.codes)}, {'stands ' if self.standing else ''}{when}"


@dataclass
class FaultLedger(Suggests, Result):
    """Faults of a fabric, recorded by its exporter."""

    document = "ledger"

    faults: list[FaultRecord]

    def lines(self) -> list[str]:
        """Return one text line each."""
        return [fault.line() for fault in self.faults]


@dataclass
class Forgotten(Suggests, Result):
    """Ports that an exporter no longer expects."""

    document = "forget"

    ports: list[str]


def fault_ledger(source: str) -> FaultLedger:
    """Return the faults of ``source`` recorded by its exporter: one record per cable or device,
    current faults first, then the latest."""
    from softib.monitor.ledger import faults_of
    from softib.monitor.opening import memory_of

    faults = faults_of(memory_of(source))
    order = sorted(faults, key=lambda f: (f.standing is None, -f.episodes[-1].last_s if f.episodes else 0.0))
    return FaultLedger([_record(f) for f in order])


def record_repair(source: str, *names: str, by: str, note: str = "") -> FaultLedger:
    """Record in the ledger of ``source`` that the person ``by`` repaired the cables or devices ``names`` (``leaf-1``,
    ``leaf-1[3]``). Faults before the repair then no longer count. Returns their records.
    Raises :class:`UnknownName` for a name that is not in the ledger, :class:`InputError` if no
    person is given."""
    from softib.monitor.ledger import Repair, repaired
    from softib.monitor.opening import memory_of

    if not by.strip():
        raise InputError("by is empty; set it to the name of the person who repaired it")
    repair = Repair(time.time(), by.strip(), note.strip())
    return FaultLedger([_record(f) for f in repaired(memory_of(source), names, repair)])


def forget_down(source: str, *names: str) -> Forgotten:
    """Make the exporter of ``source`` forget devices and ports that are down: all of them, or
    ``names`` (``leaf-1``, ``leaf-1[3]``, a GUID). Raises :class:`UnknownName` for a name that is
    not down."""
    from softib.monitor.opening import memory_of
    from softib.monitor.seen_ports import forget

    return Forgotten([port.place for port in forget(memory_of(source), names)])


def _minute(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(" ", "minutes")


def _record(fault: Fault) -> FaultRecord:
    episodes = fault.episodes
    return FaultRecord(
        fault.names,
        fault.standing is not None,
        episodes[-1].first_s if episodes else 0.0,
        episodes[-1].codes if episodes else [],
        episodes[0].first_s if episodes else 0.0,
        episodes[-1].last_s if episodes else 0.0,
        fault.times(time.time()),
        [RepairRecord(r.time_s, r.by, r.note) for r in fault.repairs],
    )
