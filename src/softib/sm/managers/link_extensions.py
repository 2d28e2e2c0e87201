"""FDR10 and FEC by port: Mellanox' ExtendedPortInfo (0xff90) and PortInfoExtended (0x33, IBA
14.2.5.19), asked for and set where they differ.

``fdr10`` is OpenSM's option (``opensm/osm_link_mgr.c``): 1 enables FDR10 where a port supports it,
2 disables it; a Set has StateChangeEnable 1. A link trains anew for either, once, as for other
parts of the link policy (OpenSM leaves it until it falls). The manager's own link does not.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import CapMask2, SmpAttr
from softib.iba.devices import MELLANOX, MELLANOX_PARTS
from softib.iba.smp import MlnxExtPortInfo, PortInfo, PortInfoExtended
from softib.mad.smp_requests import RequestQueue
from softib.sm.database import Database
from softib.sm.managers.link_mgr import linked
from softib.sm.managers.link_policy import ports_of
from softib.sm.options.link import FDR10_OFF, FDR10_ON, LinkPolicy

__all__ = ["EXTENSIONS", "HeldExtensions", "LinkExtensions"]

EXTENDED, FEC = int(SmpAttr.MLNX_EXT_PORT_INFO), int(SmpAttr.PORT_INFO_EXT)
EXTENSIONS = (EXTENDED, FEC)
GENERATIONS = ("fdr", "edr", "hdr", "ndr")
HeldExtensions = dict[tuple[int, int, int], np.ndarray]
"""(NodeGUID, portnum, attribute) → what a port read."""


class LinkExtensions:
    """One sweep's part: :meth:`ask`, :meth:`heard`, :meth:`queue`. ``held`` outlives it; a port
    that it knows is not asked."""

    def __init__(self, db: Database, policy: LinkPolicy, held: HeldExtensions):
        self.db, self.held = db, held
        self.fdr10, self.fec = np.zeros(db.n_ports, np.uint8), np.zeros(db.n_ports, np.uint16)
        self.trains: list[int] = []
        """Ports whose link shall train anew."""
        rows = linked(db)
        for rule in policy.rules:
            if rule.fdr10 or rule.fec:
                fits = ports_of(db, rows, rule)
                self.fdr10[fits] = rule.fdr10 or self.fdr10[fits]
                self.fec[fits] = rule.fec or self.fec[fits]

    def _wanted(self) -> list[tuple[int, np.ndarray]]:
        """(attribute, ports that have it and of which something is wanted)."""
        db = self.db
        node = db.port_node
        mellanox = (db.vendor_id[node] == MELLANOX) | np.isin(db.device_id[node], list(MELLANOX_PARTS))
        end = np.where(db.is_switch[node], db.node_base[node], np.arange(db.n_ports))
        extended = PortInfo.cap_mask2.get(db.port_info[end]) & int(CapMask2.PORT_INFO_EXT) > 0
        return [
            (EXTENDED, np.flatnonzero((self.fdr10 > 0) & mellanox)),
            (FEC, np.flatnonzero((self.fec > 0) & extended)),
        ]

    def _key(self, port: int, attr: int) -> tuple[int, int, int]:
        return int(self.db.node_guid[self.db.port_node[port]]), int(self.db.port_num[port]), attr

    def ask(self, queue: RequestQueue) -> None:
        """Put a Get for each port of which it is not known. Tags are ports."""
        for attr, ports in self._wanted():
            rows = np.array([p for p in ports.tolist() if self._key(p, attr) not in self.held], np.int64)
            queue.get(attr, self.db.port_route[rows], rows, self.db.port_num[rows])

    def heard(self, attr: int, ports: np.ndarray, data: np.ndarray) -> None:
        """Answers (uint8[n, 64]) to a Get, or to a Set."""
        for port, image in zip(ports.tolist(), data, strict=True):
            self.held[self._key(port, attr)] = image.copy()

    def lost(self, attr: int, ports: np.ndarray) -> None:
        """Nobody knows what these ports hold."""
        for port in ports.tolist():
            self.held.pop(self._key(port, attr), None)

    def queue(self, queue: RequestQueue) -> None:
        """Put a Set for each port that does not read as wanted."""
        for attr, ports in self._wanted():
            rows = np.array([p for p in ports.tolist() if self._key(p, attr) in self.held], np.int64)
            if not len(rows):
                continue
            held = np.stack([self.held[self._key(p, attr)] for p in rows.tolist()])
            wanted = self._fdr10(held, rows) if attr == EXTENDED else self._fec(held, rows)
            change = (wanted != held).any(axis=1)
            rows = rows[change]
            self.trains += rows.tolist()
            queue.set(attr, self.db.port_route[rows], rows, self.db.port_num[rows], wanted[change])

    def _fdr10(self, held: np.ndarray, ports: np.ndarray) -> np.ndarray:
        X = MlnxExtPortInfo
        wanted, can = held.copy(), X.link_speed_supported.get(held) & 1
        choice = self.fdr10[ports]
        enabled = np.where(choice == FDR10_ON, 1, np.where(choice == FDR10_OFF, 0, X.link_speed_enabled.get(held)))
        enabled = np.where(can > 0, enabled, X.link_speed_enabled.get(held))
        X.link_speed_enabled.set(wanted, enabled)
        X.state_change_enable.set(wanted, (enabled != X.link_speed_enabled.get(held)).astype(np.uint8))
        return wanted

    def _fec(self, held: np.ndarray, ports: np.ndarray) -> np.ndarray:
        wanted = held.copy()
        for name in GENERATIONS:
            supported = PortInfoExtended.fields[f"{name}_fec_mode_supported"].get(held)
            enabled = PortInfoExtended.fields[f"{name}_fec_mode_enabled"]
            modes = supported & self.fec[ports]
            # A generation that has none of the modes keeps its own: without a mode it could not train.
            enabled.set(wanted, np.where(modes > 0, modes, enabled.get(held)))
        return wanted

    def training(self) -> np.ndarray:
        """Switch ports, one for each link of :attr:`trains`, by which it trains anew."""
        db = self.db
        out = set()
        for port in self.trains:
            peer = int(db.port_peer[port])
            if peer < 0 or db.sm_port in (port, peer):
                continue
            ends = [p for p in (port, peer) if db.external[p]]
            out.add(min(ends)) if ends else None
        return np.array(sorted(out), np.int64)
