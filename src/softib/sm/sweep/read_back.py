"""Read the tables of switches that another manager programmed, before they are written (IBA
14.2.5.10, 14.2.5.12).

A manager that takes over does not know these tables. If a switch has a nonzero LinearFDBTop, the
manager reads its forwarding table up to that LID, and the multicast blocks that groups use. The
sweep then sends only differences, so a correct table is not written again while packets use it. A
block whose request is not answered is written.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import LFT_BLOCK, LFT_NO_ROUTE, LID_MCAST_MIN, MFT_BLOCK, MFT_PORTS, SmpAttr
from softib.iba.smp import SwitchInfo
from softib.mad.smp_requests import RequestQueue
from softib.ragged import spread
from softib.routing.graph import SwitchGraph
from softib.sm.database import Database
from softib.sm.managers.mcast_mgr import POSITIONS, McastManager
from softib.sm.managers.ucast_mgr import LftStore

__all__ = ["ReadBack"]


class ReadBack:
    """One reading of tables: :meth:`ask` queues the requests, :meth:`heard` handles the answers,
    and :meth:`finish` passes complete tables to ``store`` and ``groups``.

    ``nodes``: switches of ``db`` whose tables are unknown.
    """

    def __init__(self, db: Database, graph: SwitchGraph, store: LftStore, groups: McastManager, nodes: np.ndarray):
        self.db, self.graph, self.store, self.groups = db, graph, store, groups
        top = SwitchInfo.linear_fdb_top.get(db.switch_info[nodes]).astype(np.int64)
        self.nodes, self.top = nodes[top > 0], top[top > 0]
        blocks = self.top // LFT_BLOCK + 1
        self._row, self._block = spread(blocks)
        self._lft = np.full((len(self._row), LFT_BLOCK), LFT_NO_ROUTE, np.uint8)
        self._have = np.zeros(len(self._row), bool)
        mlids = [g.mlid for g in groups.groups.values() if g.members]
        self.mft_blocks = (max(mlids) - LID_MCAST_MIN) // MFT_BLOCK + 1 if mlids else 0
        positions = -(-(db.node_nports[self.nodes].astype(np.int64) + 1) // MFT_PORTS)
        self._m_row, within = spread(positions * self.mft_blocks)
        self._m_block, self._m_position = within % max(1, self.mft_blocks), within // max(1, self.mft_blocks)
        self._mft = np.zeros((len(self._m_row), MFT_BLOCK), np.uint16)
        self._m_have = np.zeros(len(self._m_row), bool)

    def ask(self, queue: RequestQueue) -> None:
        """Queue the Gets; tags are rows of the requests of each attribute."""
        if not len(self.nodes):
            return
        route = self.db.port_route[self.db.node_base[self.nodes]]
        queue.get(SmpAttr.LFT, route[self._row], np.arange(len(self._row)), self._block)
        if self.mft_blocks:
            modifier = (self._m_position << 28 | self._m_block).astype(np.uint32)
            queue.get(SmpAttr.MFT, route[self._m_row], np.arange(len(self._m_row)), modifier)

    def heard(self, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        """Handle answers (uint8[n, 64])."""
        if attr == SmpAttr.LFT:
            self._lft[tags], self._have[tags] = data, True
        elif attr == SmpAttr.MFT:
            self._mft[tags] = np.ascontiguousarray(data).view(">u2")
            self._m_have[tags] = True

    def finish(self) -> None:
        """Store the tables that were read completely."""
        guids = self.db.node_guid[self.nodes].tolist()
        whole = np.ones(len(guids), bool)
        whole[self._row[~self._have]] = False
        ends = np.cumsum(np.bincount(self._row, minlength=len(guids)))
        for i in np.flatnonzero(whole).tolist():
            first = int(ends[i - 1]) if i else 0
            table = self._lft[first : int(ends[i])].reshape(-1)
            table[int(self.top[i]) + 1 :] = LFT_NO_ROUTE  # entries above LinearFDBTop are not used (IBA 14.2.5.5)
            self.store.tables[guids[i]] = int(self.top[i]), table
        if not self.mft_blocks:
            return
        whole[:] = True
        whole[self._m_row[~self._m_have]] = False
        tables = np.zeros((len(guids), self.mft_blocks, MFT_BLOCK, POSITIONS), np.uint16)
        tables[self._m_row, self._m_block, :, self._m_position] = self._mft
        for i in np.flatnonzero(whole).tolist():
            self.groups.was_read(guids[i], tables[i].reshape(-1, POSITIONS))
