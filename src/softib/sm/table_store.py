"""What devices hold by what the manager wrote, attribute by attribute."""

from __future__ import annotations

import numpy as np

from softib.sm.database import Database

__all__ = ["TableStore"]


class TableStore:
    """(NodeGUID, portnum, attribute, modifier) → the attribute. It outlives a sweep, so that the next one sends only what differs.

    ``unable``: NodeGUIDs that refused what was sent; they are not asked again.
    """

    def __init__(self) -> None:
        self.held: dict[tuple[int, int, int, int], bytes] = {}
        self.unable: set[int] = set()

    def forget(self, guid: int) -> None:
        """Nothing is known of this device any more."""
        for key in [k for k in self.held if k[0] == guid]:
            del self.held[key]

    def clear(self) -> None:
        """Nothing is known of any."""
        self.held.clear()
        self.unable.clear()

    def changed(
        self, db: Database, attr: int, ports: np.ndarray, modifier: np.ndarray, data: np.ndarray, fresh: np.ndarray
    ) -> np.ndarray:
        """bool[n]: attributes that their port (row of ``db``) does not hold; from now on it does. ``fresh`` bool[ports of db]:
        whatever was written there is lost."""
        node = db.port_node[ports]
        keys = zip(db.node_guid[node].tolist(), db.port_num[ports].tolist(), modifier.tolist(), strict=True)
        new, keep, held = fresh[ports].tolist(), np.zeros(len(ports), bool), self.held
        for i, (guid, number, m) in enumerate(keys):
            key, image = (guid, number, attr, m), data[i].tobytes()
            if guid not in self.unable and (new[i] or held.get(key) != image):
                keep[i], held[key] = True, image
        return keep
