"""Alias GUIDs: additional GUIDs of a port, which work like its PortGUID (Set and Delete of
GUIDInfoRecord, IBA 15.2.5.18, 14.2.5.5).

For example, a virtual function of an adapter has one. The host requests a specific GUID, or 0 to
get one that the SA chooses (as in OpenSM and Linux' mlx4 driver). The GUIDs are written into the
port's GUIDInfo at once, and again whenever the port comes up.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import GUID_BLOCK, SmpAttr
from softib.iba.sa import GUIDInfoRecord as R
from softib.iba.sa import SaMethod, SaStatus, mask_of
from softib.iba.smp import PortInfo
from softib.mad.smp_requests import RequestQueue
from softib.sm.journal import Journal, Kind, record_key
from softib.sm.sa.message import Answer, Request
from softib.sm.sa.subnet import Subnet

__all__ = ["AliasGuids", "queue_aliases"]


LOCALLY_ADMINISTERED = 0x0200_0000_0000_0000
"""Universal/local bit of an EUI-64 (IEEE). It is set in GUIDs that the SA chooses; the LID and the
index of the entry follow."""
NAMES = tuple(f"guid{i}" for i in range(GUID_BLOCK))
WHERE = mask_of(R, "lid", "block")


class AliasGuids:
    """``tables``: PortGUID → its entries (uint64; entry 0 is the PortGUID). ``owners``: alias →
    PortGUID. ``changed``: (PortGUID, block) pairs to write."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.tables: dict[int, np.ndarray] = {}
        self.owners: dict[int, int] = {}
        self.changed: dict[tuple[int, int], None] = {}

    def change(self, subnet: Subnet, r: Request) -> Answer:
        """Set or Delete the entries in the component mask. Only the port itself and trusted
        requesters may do this."""
        if r.comp_mask & WHERE != WHERE:
            return Answer(SaStatus.REQ_INSUFFICIENT_COMPONENTS)
        record = r.data[: R.size].copy()
        end, block = int(subnet.end_of_lid[int(R.lid.get(record))]), int(R.block.get(record))
        if not 0 <= end < subnet.physical or not (r.trusted or r.end == end):
            return Answer(SaStatus.REQ_INVALID)
        cap = int(PortInfo.guid_cap.get(subnet.db.port_info[int(subnet.end_port[end])]))
        if block * GUID_BLOCK >= cap:
            return Answer(SaStatus.REQ_INVALID)
        guid = int(subnet.end_guid[end])
        table = np.zeros(-(-cap // GUID_BLOCK) * GUID_BLOCK, np.uint64)
        if (held := self.tables.get(guid)) is not None:  # the device may now report another GUIDCap than before
            table = held if len(held) >= len(table) else np.concatenate([held, table[len(held) :]])
        self.tables[guid] = table
        table[0] = guid
        for i, name in enumerate(NAMES):
            entry = block * GUID_BLOCK + i
            if not r.comp_mask & mask_of(R, name) or entry == 0 or entry >= cap:
                continue
            wanted = (
                0 if r.method == SaMethod.DELETE else int(R.fields[name].get(record)) or self._given(subnet, end, entry)
            )
            if wanted and self._taken(subnet, wanted, guid, entry):
                continue  # the answer shows the present content of the entry
            self._enter(guid, table, entry, wanted)
        self.changed[guid, block] = None
        self.journal.note(record_key(Kind.ALIAS, guid, bytes((block,))))
        for i, name in enumerate(NAMES):
            R.fields[name].set(record, int(table[block * GUID_BLOCK + i]))
        return Answer(records=record[None])

    def _given(self, subnet: Subnet, end: int, entry: int) -> int:
        guid = LOCALLY_ADMINISTERED | int(subnet.end_lid[end]) << 16 | entry
        while guid in self.owners and self.owners[guid] != int(subnet.end_guid[end]):
            guid += 1 << 32
        return guid

    def _taken(self, subnet: Subnet, wanted: int, guid: int, entry: int) -> bool:
        """Return whether another port, or another entry of this one, has that GUID."""
        if int(subnet.ends_of_guid(np.array([wanted], np.uint64))[0]) >= 0:
            return not (self.owners.get(wanted) == guid and int(self.tables[guid][entry]) == wanted)
        return wanted in self.owners

    def _enter(self, guid: int, table: np.ndarray, entry: int, wanted: int) -> None:
        self.owners.pop(int(table[entry]), None) if table[entry] else None
        table[entry] = wanted
        if wanted:
            self.owners[wanted] = guid

    def block(self, guid: int, block: int) -> bytes | None:
        """Return the entries of a block as on the wire; None if the port has none."""
        table = self.tables.get(guid)
        held = None if table is None else table[block * GUID_BLOCK : (block + 1) * GUID_BLOCK]
        return None if held is None or not held.any() else held.astype(">u8").tobytes()

    def restore(self, blocks: dict[tuple[int, int], np.ndarray]) -> None:
        """Restore the blocks of the previous master, keyed by PortGUID and block (uint64[8]). They
        are written again, since that master may not have written all of them."""
        for (guid, block), entries in sorted(blocks.items()):
            table = np.zeros(max((block + 1) * GUID_BLOCK, len(self.tables.get(guid, ()))), np.uint64)
            held = self.tables.get(guid, table[:0])
            table[: len(held)] = held
            table[block * GUID_BLOCK : (block + 1) * GUID_BLOCK] = entries
            table[0] = guid
            self.tables[guid] = table
            self.owners.update((alias, guid) for alias in entries.tolist() if alias and alias != guid)
            self.changed[guid, block] = None

    # -- the subnet --

    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (aliases ascending, PortGUID of each), uint64[n]."""
        aliases = np.array(sorted(self.owners), np.uint64)
        return aliases, np.array([self.owners[a] for a in aliases.tolist()], np.uint64)

    def blocks(self, guids: set[int]) -> None:
        """Schedule the GUIDs of ports (PortGUIDs) that came up again, because these ports have lost
        them."""
        for guid in sorted(guids & self.tables.keys()):
            for block in range(len(self.tables[guid]) // GUID_BLOCK):
                self.changed[guid, block] = None

    def take(self) -> list[tuple[int, int, np.ndarray]]:
        """Return (PortGUID, block, entries of the block) to write, and empty the list."""
        blocks = [
            (guid, block, self.tables[guid][block * GUID_BLOCK : (block + 1) * GUID_BLOCK])
            for guid, block in self.changed
            if guid in self.tables
        ]
        self.changed.clear()
        return blocks

    def remove_ports(self, guids: set[int]) -> None:
        """Remove the GUIDs of ports that left."""
        for guid in guids & self.tables.keys():
            for block in range(len(self.tables[guid]) // GUID_BLOCK):
                self.journal.note(record_key(Kind.ALIAS, guid, bytes((block,))))
            for alias in self.tables.pop(guid)[1:].tolist():
                self.owners.pop(alias, None)

    def clear(self) -> None:
        """Remove all aliases, because this manager is no longer master."""
        self.tables.clear()
        self.owners.clear()
        self.changed.clear()


def queue_aliases(subnet: Subnet, blocks: list[tuple[int, int, np.ndarray]], queue: RequestQueue) -> None:
    """Queue a Set(GUIDInfo) for each (PortGUID, block, entries of the block) of a present port.
    Tags are ports."""
    ends = subnet.ends_of_guid(np.array([guid for guid, _, _ in blocks], np.uint64))
    here = np.flatnonzero(ends >= 0)
    if not len(here):
        return
    ports = subnet.end_port[ends[here]]
    data = np.zeros((len(here), GUID_BLOCK), ">u8")
    for row, i in enumerate(here.tolist()):
        data[row, : len(blocks[i][2])] = blocks[i][2]
    modifier = np.array([blocks[i][1] for i in here.tolist()], np.uint32)
    queue.set(SmpAttr.GUID_INFO, subnet.db.port_route[ports], ports, modifier, data.view(np.uint8))
