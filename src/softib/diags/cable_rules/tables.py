"""Forwarding tables as MADs or files told them: which ports of a switch the traffic that came by
another port goes to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from softib.diags.observations import ObservedPorts
    from softib.fabric.model import Fabric

__all__ = ["ForwardingTables", "tables_of"]

NO_ROUTE = 255


@dataclass(frozen=True)
class ForwardingTables:
    """``switch_guid`` uint64[s], ascending; ``lft`` uint8[s, LIDs]: egress portnum by LID, 255 =
    none. ``lids`` int64: the LIDs of channel adapters' ports, which applications send to."""

    switch_guid: np.ndarray
    lft: np.ndarray
    lids: np.ndarray

    def row(self, guid: int) -> int:
        """The row of a switch; -1 where its table is not known."""
        at = int(np.searchsorted(self.switch_guid, np.uint64(guid)))
        return at if at < len(self.switch_guid) and int(self.switch_guid[at]) == guid else -1

    @cached_property
    def _by_lid(self) -> np.ndarray:
        return self.lft[:, self.lids]

    def onwards(self, guid: int, portnum: int, next_guid: int) -> dict[int, int]:
        """Where traffic that leaves ``guid`` by ``portnum`` leaves the switch ``next_guid``:
        portnum -> number of destinations.

        A node that is no switch sends to all of them.
        """
        here, there = self.row(guid), self.row(next_guid)
        if there < 0:
            return {}
        out = self._by_lid[there]
        if here >= 0:
            out = out[self._by_lid[here] == portnum]
        count = np.bincount(out, minlength=256)
        return {int(p): int(count[p]) for p in np.flatnonzero(count).tolist() if p not in (0, NO_ROUTE)}


def tables_of(fabric: Fabric, ports: ObservedPorts) -> ForwardingTables | None:
    """Those that ``fabric`` holds: a subnet that was read by MADs, or a file with its forwarding
    tables. None without any."""
    if not fabric.sizes.switches or not (fabric.lft != NO_ROUTE).any():
        return None
    guid = fabric.node_guid[fabric.switch_node]
    order = np.argsort(guid, kind="stable")
    hosts = np.unique(np.asarray(ports.lid, np.int64)[~np.asarray(ports.switch, bool)])
    hosts = hosts[(hosts > 0) & (hosts < fabric.lft.shape[1])]
    return ForwardingTables(guid[order], fabric.lft[order], hosts)
