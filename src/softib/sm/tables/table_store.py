"""What devices hold by what the manager wrote, attribute by attribute."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from softib.iba.constants import PortState
from softib.sm.database import Database

__all__ = ["TableStore"]


class TableStore:
    """(NodeGUID, portnum, attribute, modifier) → the attribute. It outlives a sweep, so that the
    next one sends only what differs.

    ``unable``: NodeGUIDs that refused what was sent; they are not asked again.

    ``copied``: (NodeGUID, attribute) → digest of all that a manager before wrote there
    (:meth:`digests` of its store). A device that shall have just that is not written.
    """

    def __init__(self) -> None:
        self.held: dict[tuple[int, int, int, int], bytes] = {}
        self.unable: set[int] = set()
        self.copied: dict[tuple[int, int], bytes] = {}
        self._digests: dict[tuple[int, int], bytes] = {}
        self._touched: set[tuple[int, int]] = set()

    def forget(self, guid: int) -> None:
        """Nothing is known of this device any more."""
        if not (self.held or self.copied or self._digests):
            return
        for key in [k for k in self.held if k[0] == guid]:
            del self.held[key]
        for store in (self.copied, self._digests):
            for written in [k for k in store if k[0] == guid]:
                del store[written]

    def clear(self) -> None:
        """Nothing is known of any."""
        for store in (self.held, self.unable, self.copied, self._digests, self._touched):
            store.clear()

    def digests(self) -> dict[tuple[int, int], bytes]:
        """(NodeGUID, attribute) → 8 octets of all that is held there; only what was written since
        the last time is looked at again."""
        if self._touched:
            images: dict[tuple[int, int], list[tuple[int, int, bytes]]] = {}
            for (guid, number, attr, modifier), image in self.held.items():
                if (guid, attr) in self._touched:
                    images.setdefault((guid, attr), []).append((number, modifier, image))
            self._digests |= {place: _digest(found) for place, found in images.items()}
            self._touched.clear()
        return self._digests

    def changed(
        self, db: Database, attr: int, ports: np.ndarray, modifier: np.ndarray, data: np.ndarray, fresh: np.ndarray
    ) -> np.ndarray:
        """bool[n]: attributes that their port (row of ``db``) does not hold; from now on it does.
        ``fresh`` bool[ports of db]: whatever was written there is lost."""
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
        """bool[n]: attributes of devices that hold, by what was copied, just these; ports that came
        up anew lost theirs all the same."""
        out = np.zeros(len(ports), bool)
        guids = np.array(sorted(guid for guid, what in self.copied if what == attr), np.uint64)
        rows = (
            np.flatnonzero(np.isin(db.node_guid[db.port_node[ports]], guids)) if len(guids) else guids[:0].astype(int)
        )
        of_device: dict[int, list[int]] = {}
        for row, guid in zip(rows.tolist(), db.node_guid[db.port_node[ports[rows]]].tolist(), strict=True):
            of_device.setdefault(guid, []).append(row)
        for guid, mine in of_device.items():
            image = {(int(db.port_num[ports[i]]), int(modifier[i])): data[i].tobytes() for i in mine}
            digest = _digest([(*place, what) for place, what in image.items()])
            if digest == self.copied[guid, attr]:
                out[mine] = True
                self.held |= {(guid, number, attr, m): what for (number, m), what in image.items()}
                self._digests[guid, attr] = digest
        self.copied = {place: digest for place, digest in self.copied.items() if place[1] != attr}
        return out


def _digest(images: list[tuple[int, int, bytes]]) -> bytes:
    """Of (portnum, modifier, attribute)."""
    text = b"".join(number.to_bytes(2, "big") + m.to_bytes(4, "big") + image for number, m, image in sorted(images))
    return blake2b(text, digest_size=8).digest()
