"""Tables that are read from devices only on request: P_Key, SLtoVL and VL arbitration tables (IBA
14.2.5.7-9).

A sweep does not read them. The first query for such a record makes the manager read the tables (for
one LID if the query names it), and is answered after that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.iba.constants import PKEY_BLOCK, SmpAttr
from softib.iba.sa import PKeyTableRecord, SaAttr, SL2VLRecord, VLArbRecord
from softib.iba.smp import NodeInfo, PortInfo, SwitchInfo
from softib.iba.structure import Structure
from softib.mad.smp_requests import RequestQueue
from softib.ragged import spread
from softib.sm.database import Database
from softib.sm.sa.subnet import Subnet

__all__ = ["READ_FROM_DEVICES", "Inventory", "Need", "pkey_blocks"]

VL_ARB_BLOCK = 32


@dataclass(frozen=True)
class Need:
    """Tables of one kind (the attribute of the SA record), either of one device or of all devices
    (``lid`` 0)."""

    attr: int
    lid: int = 0


@dataclass(frozen=True)
class _Kind:
    record: type[Structure]
    attr: int
    octets: int
    """Bytes of the table in the record."""


READ_FROM_DEVICES = {
    int(SaAttr.PKEY_RECORD): _Kind(PKeyTableRecord, int(SmpAttr.PKEY_TABLE), 64),
    int(SaAttr.SL2VL_RECORD): _Kind(SL2VLRecord, int(SmpAttr.SL2VL), 8),
    int(SaAttr.VL_ARB_RECORD): _Kind(VLArbRecord, int(SmpAttr.VL_ARB), 64),
}
"""SA record → request to devices."""


class Inventory:
    """One reading of tables: call :meth:`ask`, then :meth:`heard` with the answers. The result is
    ``table``."""

    def __init__(self, subnet: Subnet, need: Need):
        self.subnet, self.kind = subnet, READ_FROM_DEVICES[need.attr]
        ports = subnet.ports_with_info
        if need.lid:
            end = int(subnet.end_of_lid[need.lid])
            base = int(subnet.end_lid[end]) if end >= 0 else -1
            ports = ports[subnet.lid_of_port[ports] == base]
        rows = {SmpAttr.PKEY_TABLE: self._pkeys, SmpAttr.SL2VL: self._sl2vl, SmpAttr.VL_ARB: self._vl_arb}
        self._exists = np.zeros(0, bool)
        self.ports, self.modifiers, self._records = rows[SmpAttr(self.kind.attr)](ports)
        if not len(self._exists):
            self._exists = np.ones(len(self.ports), bool)
        self._have = ~self._exists

    def ask(self, queue: RequestQueue) -> None:
        """Queue the Gets; tags are rows."""
        rows = np.flatnonzero(self._exists)
        queue.get(self.kind.attr, self.subnet.db.port_route[self.ports[rows]], rows, self.modifiers[rows])

    def heard(self, tags: np.ndarray, data: np.ndarray) -> None:
        """Handle answers (uint8[n, 64])."""
        self._have[tags] = True
        self._records[tags, 8 : 8 + self.kind.octets] = data[:, : self.kind.octets]

    @property
    def table(self) -> np.ndarray:
        """Records of the tables read."""
        return self._records[self._have]

    def _pkeys(self, ports: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        db = self.subnet.db
        row, block = spread(pkey_blocks(self.subnet.db, ports))
        port = ports[row]
        number = np.where(db.external[port], db.port_num[port], 0)
        # The least significant byte comes first, as OpenSM on x86 sends it and saquery expects it.
        # (In requests, the most significant byte comes first.)
        swapped = (block & 0xFF) << 8 | block >> 8
        shown = np.where(db.is_switch[db.port_node[port]], number, db.port_num[port])
        record = PKeyTableRecord.pack(lid=self.subnet.lid_of_port[port], block=swapped, portnum=shown)
        return port, block | number.astype(np.int64) << 16, record

    def _sl2vl(self, ports: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        db = self.subnet.db
        switch = db.is_switch[db.port_node[ports]]
        inputs = np.where(switch, db.node_nports[db.port_node[ports]].astype(np.int64) + 1, 1)
        row, in_port = spread(inputs)
        port = ports[row]
        out_port = np.where(db.is_switch[db.port_node[port]], db.port_num[port], 0).astype(np.int64)
        record = SL2VLRecord.pack(lid=self.subnet.lid_of_port[port], in_port=in_port, out_port=out_port)
        return port, in_port << 8 | out_port, record

    def _vl_arb(self, ports: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        db = self.subnet.db
        port, block = np.repeat(ports, 4), np.tile(np.arange(1, 5), len(ports))
        info = db.port_info[port]
        cap = np.where(block <= 2, PortInfo.vl_arb_low_cap.get(info), PortInfo.vl_arb_high_cap.get(info))
        # A table that the port does not have is answered with zeros, as in OpenSM, because osmtest
        # -f q requests all four blocks.
        self._exists = cap > np.where(block % 2, 0, VL_ARB_BLOCK)
        number = np.where(db.is_switch[db.port_node[port]], db.port_num[port], 0).astype(np.int64)
        shown = np.where(db.is_switch[db.port_node[port]], number, db.port_num[port])
        record = VLArbRecord.pack(lid=self.subnet.lid_of_port[port], out_port=shown, block=block)
        return port, block << 16 | number, record


def pkey_blocks(db: Database, ports: np.ndarray) -> np.ndarray:
    """Return int64[n]: number of blocks of each port's P_Key table (by PartitionCap; for external
    switch ports by PartitionEnforcementCap)."""
    node = db.port_node[ports]
    partition_cap = NodeInfo.partition_cap.get(db.node_info[node])
    enforced = SwitchInfo.partition_enforcement_cap.get(db.switch_info[node])
    cap = np.where(db.external[ports], enforced, partition_cap).astype(np.int64)
    return -(-cap // PKEY_BLOCK)
