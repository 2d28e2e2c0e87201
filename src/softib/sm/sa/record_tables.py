"""Kinds of SA records that are tables: each kind is a function that returns all its records from
the subnet (IBA 15.2.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softib.iba.constants import GUID_BLOCK, LFT_BLOCK, MFT_BLOCK, MFT_PORTS, NodeType
from softib.iba.sa import (
    GUIDInfoRecord,
    InformInfoRecord,
    LFTRecord,
    LinkRecord,
    MFTRecord,
    NodeRecord,
    PortInfoRecord,
    SaAttr,
    SMInfoRecord,
    SwitchInfoRecord,
    mask_of,
)
from softib.iba.smp import PortInfo
from softib.iba.structure import Structure
from softib.ragged import spread
from softib.sm.sa.subscriptions import inform_table

if TYPE_CHECKING:
    from softib.sm.sa.administrator import Administrator

__all__ = ["KINDS", "Kind", "bits_match"]

MATCH_BITS = 1 << 31
"""If the AttributeModifier has this bit, CapabilityMask in the query selects the ports that have at
least its bits (IBA 15.4.4.1, IsPortInfoCapabilityMaskMatchSupported)."""


@dataclass(frozen=True)
class Kind:
    """A kind of record: its structure, the function that lists it (uint8[n, size]), whether the
    list stays valid until the next sweep (``lasting``), and the fields that only trusted requesters
    see (``hidden``)."""

    record: type[Structure]
    table: Callable[[Administrator], np.ndarray]
    lasting: bool = True
    hidden: tuple[str, ...] = ()


def _nodes(a: Administrator) -> np.ndarray:
    """Return NodeRecords (15.2.5.2), one for each end port, ascending by LID. PortGUID and
    LocalPortNum are those of the end port."""
    subnet = a.administered
    db, ends = subnet.db, slice(subnet.physical)
    nodes = subnet.end_node[ends]
    out = NodeRecord.zeros(len(nodes))
    at = NodeRecord.fields["base_version"].byte
    out[:, at : at + 40] = db.node_info[nodes][:, :40]
    switch = db.node_type[nodes] == NodeType.SWITCH
    for name, values in (
        ("lid", subnet.end_lid[ends]),
        ("port_guid", subnet.end_guid[ends]),
        ("local_port_num", np.where(switch, 0, db.port_num[subnet.end_port[ends]])),
        ("node_description", db.node_desc[nodes]),
    ):
        NodeRecord.fields[name].set(out, values)
    return out


def _ports(a: Administrator) -> np.ndarray:
    """Return a PortInfoRecord (15.2.5.3) for each port whose PortInfo is known, ascending by LID
    and portnum. All ports of a switch have the LID of its port 0."""
    subnet = a.administered
    rows = subnet.ports_with_info
    out = PortInfoRecord.zeros(len(rows))
    out[:, 4:68] = subnet.db.port_info[rows]
    PortInfoRecord.fields["endport_lid"].set(out, subnet.lid_of_port[rows])
    PortInfoRecord.fields["portnum"].set(out, subnet.db.port_num[rows])
    return out


def _switches(a: Administrator) -> np.ndarray:
    """Return SwitchInfoRecords (15.2.5.5), ascending by LID."""
    subnet = a.administered
    rows = subnet.switch_rows
    out = SwitchInfoRecord.zeros(len(rows))
    out[:, 4:24] = subnet.db.switch_info[subnet.graph.switch_node[rows], :20]
    SwitchInfoRecord.fields["lid"].set(out, subnet.switch_lid[rows])
    return out


def _lfts(a: Administrator) -> np.ndarray:
    """Return LinearForwardingTableRecords (15.2.5.6) as written to the switches, ascending by LID
    and block, for blocks up to LinearFDBTop."""
    subnet = a.administered
    rows, lft = subnet.switch_rows, subnet.routing.lft
    blocks = lft.shape[1] // LFT_BLOCK
    out = LFTRecord.zeros(len(rows) * blocks)
    out[:, 8:] = lft[rows].reshape(-1, LFT_BLOCK)
    LFTRecord.lid.set(out, np.repeat(subnet.switch_lid[rows], blocks))
    LFTRecord.block.set(out, np.tile(np.arange(blocks), len(rows)))
    return out


def _mfts(a: Administrator) -> np.ndarray:
    """Return the MulticastForwardingTableRecords (15.2.5.8) that were written to switches,
    ascending by LID, block and position. Empty blocks are left out."""
    subnet, out = a.administered, []
    for row in subnet.switch_rows.tolist():
        mft = a.multicast.groups.table_of(int(subnet.graph.switch_guid[row]))
        masks = mft.reshape(len(mft) // MFT_BLOCK, MFT_BLOCK, 16)
        positions = -(-(int(subnet.graph.switch_nports[row]) + 1) // MFT_PORTS)
        for block in np.flatnonzero(masks.any(axis=(1, 2))).tolist():
            lid, mask = int(subnet.switch_lid[row]), masks[block, :, :positions].T
            out.append(MFTRecord.pack(lid=lid, position=np.arange(positions), block=block, port_mask=mask))
    return np.concatenate(out) if out else MFTRecord.zeros(0)


def _managers(a: Administrator) -> np.ndarray:
    """Return SMInfoRecords (15.2.5.10): that of this manager first, then those of managers that
    answered it. They do not contain SM_Keys."""
    subnet = a.administered
    ports = [subnet.db.sm_port, *a.other_managers]
    out = SMInfoRecord.zeros(len(ports))
    out[:, 4:25] = np.stack([a.sm_info(), *a.other_managers.values()])[:, :21]
    SMInfoRecord.fields["lid"].set(out, subnet.lid_of_port[ports])
    SMInfoRecord.fields["sm_key"].set(out, 0)
    return out


def _links(a: Administrator) -> np.ndarray:
    """Return LinkRecords (15.2.5.13): every cable once in each direction, ascending by LID and
    portnum of the first end."""
    db, lid = a.administered.db, a.administered.lid_of_port
    rows = np.flatnonzero(db.port_peer >= 0)
    rows = rows[(lid[rows] > 0) & (lid[db.port_peer[rows]] > 0)]
    rows = rows[np.lexsort((db.port_num[rows], lid[rows]))]
    peer = db.port_peer[rows]
    return LinkRecord.pack(from_lid=lid[rows], from_port=db.port_num[rows], to_port=db.port_num[peer], to_lid=lid[peer])


def _guids(a: Administrator) -> np.ndarray:
    """Return GUIDInfoRecords (15.2.5.18), ascending by LID and block; an end port has the number of
    blocks that its GUIDCap needs. Entry 0 of block 0 is the PortGUID, the others are alias
    GUIDs."""
    subnet = a.administered
    cap = PortInfo.guid_cap.get(subnet.db.port_info[subnet.end_port[: subnet.physical]]).astype(np.int64)
    end, block = spread(np.maximum(1, -(-cap // GUID_BLOCK)))
    guid0 = np.where(block == 0, subnet.end_guid[end], np.uint64(0))
    records: np.ndarray = GUIDInfoRecord.pack(lid=subnet.end_lid[end], block=block, guid0=guid0)
    for guid, entries in a.aliases.tables.items():
        row = int(subnet.ends_of_guid(np.array([guid], np.uint64))[0])
        for at in np.flatnonzero(end == row).tolist() if row >= 0 else ():
            first = int(block[at]) * GUID_BLOCK
            for i, value in enumerate(entries[first : first + GUID_BLOCK].tolist()):
                GUIDInfoRecord.fields[f"guid{i}"].set(records, value, np.array([at]))
    return records


KINDS: dict[int, Kind] = {
    SaAttr.NODE_RECORD: Kind(NodeRecord, _nodes),
    SaAttr.PORT_INFO_RECORD: Kind(PortInfoRecord, _ports, hidden=("mkey",)),
    SaAttr.SWITCH_INFO_RECORD: Kind(SwitchInfoRecord, _switches),
    SaAttr.LFT_RECORD: Kind(LFTRecord, _lfts),
    SaAttr.MFT_RECORD: Kind(MFTRecord, _mfts, lasting=False),
    SaAttr.SM_INFO_RECORD: Kind(SMInfoRecord, _managers, lasting=False),
    SaAttr.INFORM_INFO_RECORD: Kind(InformInfoRecord, lambda a: inform_table(a.subscriptions), lasting=False),
    SaAttr.LINK_RECORD: Kind(LinkRecord, _links),
    SaAttr.GUID_INFO_RECORD: Kind(GUIDInfoRecord, _guids),
}
"""Kinds of records by attribute."""


def bits_match(table: np.ndarray, comp_mask: int, query: np.ndarray) -> tuple[np.ndarray, frozenset[str]]:
    """Select the PortInfoRecords that have all capability bits of ``query``. Return (rows int64[n],
    components that need not be compared again)."""
    keep = np.ones(len(table), bool)
    names = ("cap_mask", "cap_mask2")
    for name in names:
        if comp_mask & mask_of(PortInfoRecord, name):
            wanted = PortInfoRecord.fields[name].get(query)
            keep &= (PortInfoRecord.fields[name].get(table) & wanted) == wanted
    return np.flatnonzero(keep), frozenset(names)
