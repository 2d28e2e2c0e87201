"""What devices hold by what the manager wrote: it outlives a sweep, so that the next one sends only
changes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from softib.sm.managers.ar_mgr import ArStore
from softib.sm.managers.link_policy import HeldExtensions
from softib.sm.managers.mkeys import MKeys
from softib.sm.managers.pkey_mgr import PkeyTables
from softib.sm.managers.router_mgr import RouterTables
from softib.sm.managers.ucast_mgr import LftStore
from softib.sm.tables.table_store import TableStore

__all__ = ["Stores"]


@dataclass
class Stores:
    """One store a kind of table."""

    lft: LftStore = field(default_factory=LftStore)
    qos: TableStore = field(default_factory=TableStore)
    congestion: TableStore = field(default_factory=TableStore)
    ar: ArStore = field(default_factory=ArStore)
    aggregation: dict[int, bytes] = field(default_factory=dict)
    aggregation_caps: dict[int, np.ndarray] = field(default_factory=dict)
    """NodeGUID → what an aggregation node answered to ANInfo."""
    trained: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """(NodeGUID, portnum) → width and speed for which its link was trained anew."""
    extensions: HeldExtensions = field(default_factory=dict)
    pkeys: PkeyTables = field(default_factory=dict)
    routers: RouterTables = field(default_factory=RouterTables)
    mkeys: MKeys = field(default_factory=MKeys)
    """M_Keys of end ports: nobody forgets them."""

    @property
    def copied(self) -> tuple[TableStore, ...]:
        """Those of which a standby gets digests, always in this order."""
        return self.qos, self.congestion

    def trust_nothing(self) -> None:
        """A whole sweep asks every device for what it holds and can, where there is a Get for it."""
        self.pkeys.clear()
        self.extensions.clear()
        self.ar.caps.clear()
        self.aggregation_caps.clear()

    def forget_ports(self, guids: np.ndarray, numbers: np.ndarray) -> None:
        """P_Key tables of these ports (NodeGUID, portnum) may be others by now."""
        for place in zip(guids.tolist(), numbers.tolist(), strict=True):
            self.pkeys.pop(place, None)

    def clear(self) -> None:
        """Another manager writes the tables from now on, or has written them."""
        self.trust_nothing()
        self.lft.tables.clear()
        self.lft.sls.forget()
        self.qos.clear()
        self.congestion.clear()
        self.ar.clear()
        self.aggregation.clear()
