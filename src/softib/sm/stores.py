"""What devices hold by what the manager wrote: it outlives a sweep, so that the next one sends only changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from softib.sm.ar_mgr import ArStore
from softib.sm.table_store import TableStore
from softib.sm.ucast_mgr import LftStore

__all__ = ["Stores"]


@dataclass
class Stores:
    """One store a kind of table."""

    lft: LftStore = field(default_factory=LftStore)
    qos: TableStore = field(default_factory=TableStore)
    congestion: TableStore = field(default_factory=TableStore)
    ar: ArStore = field(default_factory=ArStore)
    aggregation: dict[int, bytes] = field(default_factory=dict)

    def clear(self) -> None:
        """Another manager writes the tables from now on, or has written them."""
        self.lft.tables.clear()
        self.qos.clear()
        self.congestion.clear()
        self.ar.clear()
        self.aggregation.clear()
