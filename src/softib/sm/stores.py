"""The tables that the manager wrote to devices. They are kept between sweeps, so that the next
sweep sends only changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from softib.iba.constants import PortState
from softib.sm.database import Database, Location
from softib.sm.managers.link_policy import HeldExtensions
from softib.sm.managers.mkeys import MKeys
from softib.sm.managers.pkey_mgr import PkeyTables
from softib.sm.managers.router_mgr import RouterTables
from softib.sm.managers.ucast_mgr import LftStore

__all__ = ["ArStore", "Stores", "TableStore"]


class TableStore:
    """(NodeGUID, portnum, attribute, modifier) → the attribute as written. The store is kept
    between sweeps, so that the next sweep sends only differences.

    ``unable``: NodeGUIDs of devices that rejected a request; they get no further requests.

    ``copied``: (NodeGUID, attribute) → digest of all data that the previous master wrote there
    (made by :meth:`digests` of its store). If the data for a device has the same digest, it is not
    written again.
    """

    def __init__(self) -> None:
        self.held: dict[tuple[int, int, int, int], bytes] = {}
        self.unable: set[int] = set()
        self.copied: dict[tuple[int, int], bytes] = {}
        self._digests: dict[tuple[int, int], bytes] = {}
        self._touched: set[tuple[int, int]] = set()

    def forget(self, guid: int) -> None:
        """Remove everything that is stored for this device."""
        if not (self.held or self.copied or self._digests):
            return
        for key in [k for k in self.held if k[0] == guid]:
            del self.held[key]
        for store in (self.copied, self._digests):
            for written in [k for k in store if k[0] == guid]:
                del store[written]

    def clear(self) -> None:
        """Remove everything that is stored."""
        for store in (self.held, self.unable, self.copied, self._digests, self._touched):
            store.clear()

    def digests(self) -> dict[tuple[int, int], bytes]:
        """Return (NodeGUID, attribute) → 8-byte digest of all data stored there. Only data written
        since the last call is processed."""
        if self._touched:
            images: dict[tuple[int, int], list[tuple[int, int, bytes]]] = {}
            for (guid, number, attr, modifier), image in self.held.items():
                if (guid, attr) in self._touched:
                    images.setdefault((guid, attr), []).append((number, modifier, image))
            self._digests |= {place: _digest(attributes) for place, attributes in images.items()}
            self._touched.clear()
        return self._digests

    def changed(
        self, db: Database, attr: int, ports: np.ndarray, modifier: np.ndarray, data: np.ndarray, fresh: np.ndarray
    ) -> np.ndarray:
        """Return a mask (bool[n]) of the attributes that their port (row of ``db``) does not have
        yet. They count as written after this call. ``fresh`` bool[ports of db]: ports that lost all
        their attributes."""
        fresh = np.where(
            self._written_before(db, attr, ports, modifier, data),
            db.port_state()[ports] < PortState.ARMED,
            fresh[ports],
        )
        node = db.port_node[ports]
        keys = zip(db.node_guid[node].tolist(), db.port_num[ports].tolist(), modifier.tolist(), strict=True)
        new, keep, held = fresh.tolist(), np.zeros(len(ports), bool), self.held
        for i, (guid, number, m) in enumerate(keys):
            key, image = (guid, number, attr, m), data[i].tobytes()
            if guid not in self.unable and (new[i] or held.get(key) != image):
                keep[i], held[key] = True, image
                self._touched.add((guid, attr))
        return keep

    def _written_before(
        self, db: Database, attr: int, ports: np.ndarray, modifier: np.ndarray, data: np.ndarray
    ) -> np.ndarray:
        """Return bool[n]: attributes of devices that already have exactly this data, according to
        the copy from the previous master. Ports that came up again have lost their data."""
        out = np.zeros(len(ports), bool)
        guids = np.array(sorted(guid for guid, written in self.copied if written == attr), np.uint64)
        rows = (
            np.flatnonzero(np.isin(db.node_guid[db.port_node[ports]], guids)) if len(guids) else guids[:0].astype(int)
        )
        of_device: dict[int, list[int]] = {}
        for row, guid in zip(rows.tolist(), db.node_guid[db.port_node[ports[rows]]].tolist(), strict=True):
            of_device.setdefault(guid, []).append(row)
        for guid, rows_of_device in of_device.items():
            image = {(int(db.port_num[ports[i]]), int(modifier[i])): data[i].tobytes() for i in rows_of_device}
            digest = _digest([(*place, written) for place, written in image.items()])
            if digest == self.copied[guid, attr]:
                out[rows_of_device] = True
                self.held |= {(guid, number, attr, m): written for (number, m), written in image.items()}
                self._digests[guid, attr] = digest
        self.copied = {place: digest for place, digest in self.copied.items() if place[1] != attr}
        return out


def _digest(images: list[tuple[int, int, bytes]]) -> bytes:
    """Return a digest of (portnum, modifier, attribute)."""
    text = b"".join(number.to_bytes(2, "big") + m.to_bytes(4, "big") + image for number, m, image in sorted(images))
    return blake2b(text, digest_size=8).digest()


class ArStore:
    """State of adaptive routing that is kept between sweeps: the tables of switches, and the
    numbers of their groups, by NodeGUID and set of ports."""

    def __init__(self) -> None:
        self.tables = TableStore()
        self.numbers: dict[int, dict[bytes, int]] = {}
        self.caps: dict[int, int] = {}
        """Number of groups that each switch supports, by NodeGUID."""

    def forget(self, guid: int) -> None:
        """Discard all knowledge of this switch."""
        self.caps.pop(guid, None)
        self.tables.forget(guid)
        self.numbers.pop(guid, None)

    def clear(self) -> None:
        """Discard all knowledge of all switches."""
        self.caps.clear()
        self.tables.clear()
        self.numbers.clear()


@dataclass
class Stores:
    """One store per kind of table."""

    lft: LftStore = field(default_factory=LftStore)
    qos: TableStore = field(default_factory=TableStore)
    congestion: TableStore = field(default_factory=TableStore)
    ar: ArStore = field(default_factory=ArStore)
    aggregation: dict[int, bytes] = field(default_factory=dict)
    aggregation_caps: dict[int, np.ndarray] = field(default_factory=dict)
    """NodeGUID → answer of an aggregation node to ANInfo."""
    trained: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """(NodeGUID, portnum) → width and speed for which its link was trained again."""
    extensions: HeldExtensions = field(default_factory=dict)
    pkeys: PkeyTables = field(default_factory=dict)
    routers: RouterTables = field(default_factory=RouterTables)
    mkeys: MKeys = field(default_factory=MKeys)
    """M_Keys of end ports. They are never removed."""

    @property
    def copied(self) -> tuple[TableStore, ...]:
        """Stores that make digests for a standby, always in this order."""
        return self.qos, self.congestion

    def trust_nothing(self) -> None:
        """Make a full sweep read the state and capabilities of every device, as far as there is a
        Get for them."""
        self.pkeys.clear()
        self.extensions.clear()
        self.ar.caps.clear()
        self.aggregation_caps.clear()

    def forget_ports(self, locations: Iterable[Location]) -> None:
        """Mark the P_Key tables of these ports as unknown."""
        for location in locations:
            self.pkeys.pop(location, None)

    def clear(self) -> None:
        """Record that another manager writes the tables, or has written them."""
        self.trust_nothing()
        self.lft.tables.clear()
        self.lft.sls.forget()
        self.qos.clear()
        self.congestion.clear()
        self.ar.clear()
        self.aggregation.clear()
