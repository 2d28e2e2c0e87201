"""The M_Key of each end port (IBA 14.2.4), as in OpenSM's files ``guid2mkey`` and ``neighbors``.

With MKeyProtectBits 2 or 3, a port answers no request without its M_Key, not even NodeInfo. So the
manager needs the key before it can identify the device. It tries the key of the device that was
last seen on that port, and then other known keys of the subnet.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from softib.iba.smp import PortInfo
from softib.mad.smp_requests import Routes
from softib.sm.database import Database
from softib.sm.managers.lid_mgr import Lids

__all__ = ["End", "MKeys", "hidden"]

End = tuple[int, int]
"""(PortGUID, portnum); all ports of a switch have the PortGUID of its port 0."""
TRIED = 4
"""Maximum number of different keys that are tried at a port. Each wrong key is counted as a
violation, and costs all retries of a request."""


@dataclass
class MKeys:
    """``held``: PortGUID → M_Key (0: the port has no key). ``neighbours``: the peer of each port.
    ``default`` is the configured key; with ``lookup`` off, no other key is used (OpenSM's ``m_key``
    and ``m_key_lookup``). ``local_guid``: PortGUID of the manager's own port, if it is known before
    the first MAD (0: unknown)."""

    default: int = 0
    lookup: bool = True
    held: dict[int, int] = field(default_factory=dict)
    neighbours: dict[End, End] = field(default_factory=dict)
    local_guid: int = 0
    _some: bool = False

    @property
    def in_play(self) -> bool:
        """Return whether any port of the subnet has a key, or will get one."""
        return bool(self.default) or (self.lookup and self._some)

    def configure(self, default: int, lookup: bool) -> None:
        """Set the manager's configured key and lookup setting."""
        self.default, self.lookup = default, lookup

    def update(self, held: dict[int, int]) -> None:
        """Add keys from a file or from a previous master."""
        self.held.update(held)
        self._some |= any(held.values())

    def of(self, guids: np.ndarray) -> np.ndarray:
        """Return uint64[n]: the known keys of these ports, 0 if unknown."""
        if not (self.lookup and self._some):
            return np.zeros(len(guids), np.uint64)
        look = self.held.get
        return np.fromiter((look(g, 0) for g in guids.tolist()), np.uint64, len(guids))

    def of_lids(self, wanted: np.ndarray, db: Database, lids: Lids) -> dict[int, int]:
        """Return LID → key, for the port that has the LID in ``db`` or had it according to
        ``lids``. Ports without a known key are omitted. ``wanted`` int64[n] must be ascending."""
        if not self.in_play or not self.lookup:
            return dict.fromkeys(wanted.tolist(), self.default)
        ports = np.flatnonzero(np.isin(db.port_lid, wanted[wanted > 0]))
        guid_of = dict(zip(db.port_lid[ports].tolist(), db.port_guid[ports].tolist(), strict=True))
        if len(guid_of) < len(wanted):
            blocks = sorted((first, last, guid) for guid, (first, last) in lids.items())
            at = np.searchsorted([first for first, _, _ in blocks], wanted, "right") - 1
            for lid, i in zip(wanted.tolist(), at.tolist(), strict=True):
                if i >= 0 and lid <= blocks[i][1]:
                    guid_of.setdefault(lid, blocks[i][2])
        return {lid: self.held[guid] for lid, guid in guid_of.items() if guid in self.held}

    def behind(self, db: Database, ports: np.ndarray) -> np.ndarray | None:
        """Return the keys (uint64[n]) of the devices last seen at ``ports`` (rows), 0 if unknown;
        None if no port has a key."""
        if not (self.lookup and self._some):
            return None
        look = self.neighbours.get
        ends = zip(db.port_guid[ports].tolist(), db.port_num[ports].tolist(), strict=True)
        return self.of(np.array([look(end, (0, 0))[0] for end in ends], np.uint64))

    def next_key(self, tried: list[int]) -> int | None:
        """Return the next key to try after the keys in ``tried`` failed (0 means the configured
        key): first the configured key, then the keys that most ports have. None: all were tried."""
        uses = Counter(key for key in self.held.values() if key)
        keys = [0, *sorted(uses, key=lambda key: (-uses[key], key))]
        done = {key or self.default for key in tried}
        left = [key for key in keys if (key or self.default) not in done]
        return left[0] if left and len(tried) < TRIED else None

    def enter(self, routes: Routes, rows: np.ndarray, guids: np.ndarray) -> None:
        """Record the ports to which the ``rows`` of routes lead."""
        if self.lookup and self._some:
            routes.set_mkey(rows, self.of(guids))

    def fill(self, db: Database) -> None:
        """Store the keys of all end ports in the routes that lead to them."""
        if self.lookup and self._some:
            ends = np.flatnonzero((db.port_route >= 0) & (db.port_guid > 0) & ~db.external)
            db.routes.set_mkey(db.port_route[ends], self.of(db.port_guid[ends]))

    def learn(self, db: Database, ports: np.ndarray, info: np.ndarray) -> None:
        """Record the keys that PortInfo (uint8[n, 64]) of ``ports`` states. A port that hides its
        key was queried with a wrong key, so its key is unknown."""
        keys = PortInfo.mkey.get(info)
        if not (self.in_play or keys.any()):
            return
        ends = ~db.external[ports] & (db.port_guid[ports] > 0)
        ports, keys = ports[ends], keys[ends]
        self.held.update(zip(db.port_guid[ports].tolist(), keys.tolist(), strict=True))
        self._some |= bool(keys.any())
        if self.lookup:
            db.routes.set_mkey(db.port_route[ports], keys)

    def guess(self, guid: int, key: int, first: bool) -> None:
        """Record that the port answered a request with this key (0: the configured key). ``first``:
        no other key was tried before. A port without protection answers requests with any key, and
        its PortInfo states its own key."""
        if not first or (key and guid not in self.held):
            self.update({guid: key or self.default})

    def written(self, db: Database, ports: np.ndarray, keys: np.ndarray) -> None:
        """Record the keys (uint64[n]) that ports accepted in a Set."""
        if not (self.lookup and (self._some or keys.any())):
            return
        self.update(dict(zip(db.port_guid[ports].tolist(), keys.tolist(), strict=True)))
        db.routes.set_mkey(db.port_route[ports], keys)

    def swept(self, db: Database) -> None:
        """Record the neighbours after a sweep. An absent device keeps its entry, since it may come back."""
        if db.sm_port >= 0:
            self.local_guid = int(db.port_guid[db.sm_port])
        if not self.in_play:
            return
        rows = np.flatnonzero(db.port_peer >= 0)
        peers = db.port_peer[rows]
        ends = list(zip(db.port_guid[rows].tolist(), db.port_num[rows].tolist(), strict=True))
        others = list(zip(db.port_guid[peers].tolist(), db.port_num[peers].tolist(), strict=True))
        self.neighbours.update(zip(ends, others, strict=True))
        self.neighbours.update(zip(others, ends, strict=True))


def hidden(info: np.ndarray) -> np.ndarray:
    """Return bool[n]: ports whose PortInfo (uint8[n, 64]) hides an M_Key from a manager that used
    another one (MKeyProtectBits 1, IBA 14.2.4)."""
    return (PortInfo.mkey_protect.get(info) > 0) & (PortInfo.mkey.get(info) == 0)
