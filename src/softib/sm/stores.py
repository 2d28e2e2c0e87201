"""What devices hold by what the manager wrote: it outlives a sweep, so that the next one sends only changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from softib.sm.qos_mgr import QosStore
from softib.sm.ucast_mgr import LftStore

__all__ = ["Stores"]


@dataclass
class Stores:
    """One store a kind of table."""

    lft: LftStore = field(default_factory=LftStore)
    qos: QosStore = field(default_factory=QosStore)

    def clear(self) -> None:
        """Another manager writes the tables from now on, or has written them."""
        self.lft.tables.clear()
        self.qos.held.clear()
