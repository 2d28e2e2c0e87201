"""Default VendorID, DeviceID and GUIDs of a node whose source does not state them.

No device reports VendorID 0, DeviceID 0 or NodeGUID 0 (IBA 14.2.5.3), and programs may reject them
(rdma-core's tests do). An ibsim netlist states none of the three. The defaults are:

=================  ==============================================================================================
NodeGUID           generated, different from every GUID in the source (:func:`generated_guids`)
SystemImageGUID    the NodeGUID: the node is a separate system
VendorID           :data:`softib.iba.devices.MELLANOX`
DeviceID           Mellanox: the part of the node's fastest known speed, ConnectX-3 and SwitchX (every
                   speed up to FDR) if that is slower or unknown; any other vendor:
                   :data:`GENERIC_PART`
Revision           0, which real parts read
=================  ==============================================================================================

``Fabric.node_stated`` records which fields the source states; checks must not rely on the others.
"""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.iba.constants import NodeType
from softib.iba.devices import CA_BY_GENERATION, MELLANOX, SWITCH_BY_GENERATION
from softib.iba.rates import SPEED_BY_CODE, SPEED_BY_NAME

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["GENERIC_PART", "GUID_BASE", "Stated", "complete", "default_device", "generated_guids", "models"]

GUID_BASE = 0x0250F1B000000000
"""Base of generated NodeGUIDs, with a locally administered EUI-64 prefix; node i gets ``GUID_BASE +
(i << 8)``.
"""
_GUID_STEP = np.uint64(1 << 40)

GENERIC_PART = 1
"""DeviceID of a device of another vendor if its type is unknown."""


class Stated(IntFlag):
    """Identity fields that the source states for a node (``Fabric.node_stated``)."""

    NODE_GUID = 1
    SYS_GUID = 2
    VENDOR = 4
    DEVICE = 8
    LINKED_PORTS_ALONE = 16
    """The source states only those ports of the node that have a link, not its number of ports."""


def generated_guids(index: np.ndarray, stated: Any = ()) -> np.ndarray:
    """Return new NodeGUIDs (uint64) for the nodes ``index``. They differ from all GUIDs in
    ``stated``."""
    guids = np.uint64(GUID_BASE) + (index.astype(np.uint64) << np.uint64(8))
    taken = np.asarray(stated, np.uint64)
    while len(guids) and np.isin(guids, taken).any():
        guids += _GUID_STEP
    return guids


def complete(node: dict[str, np.ndarray]) -> np.ndarray:
    """Replace each 0 in the columns ``node`` (those of :meth:`FabricBuilder.nodes`, changed in
    place) with its default. Returns :class:`Stated` of each node (uint8). For a node with
    ``device_id`` below 0, softib chooses a device of the node's generation, and this DeviceID
    counts as stated.
    """
    count = len(node["node_type"])
    guid, sys_guid = node["node_guid"].astype(np.uint64), node["sys_guid"].astype(np.uint64)
    vendor, device = node["vendor_id"].astype(np.int64), node["device_id"].astype(np.int64)
    stated = np.zeros(count, np.uint8)
    for bit, value in (
        (Stated.NODE_GUID, guid),
        (Stated.SYS_GUID, sys_guid),
        (Stated.VENDOR, vendor),
        (Stated.DEVICE, device),
    ):
        stated |= np.where(value != 0, np.uint8(bit), np.uint8(0))
    missing = np.flatnonzero(guid == 0)
    guid[missing] = generated_guids(missing, guid)
    vendor[vendor == 0] = MELLANOX
    chosen = default_device(node["node_type"], node["speed"])
    generic = np.where(
        node["speed"] < SPEED_BY_NAME["FDR"].code,
        default_device(node["node_type"], np.full(count, SPEED_BY_NAME["FDR"].code)),
        chosen,
    )
    device = np.where(device < 0, chosen, np.where(device > 0, device, generic))
    unknown = (stated & (Stated.DEVICE | Stated.VENDOR)) == Stated.VENDOR
    device[unknown & (vendor != MELLANOX)] = GENERIC_PART
    node["node_guid"], node["vendor_id"], node["device_id"] = guid, vendor, device
    node["sys_guid"] = np.where(sys_guid != 0, sys_guid, guid)
    return stated


def default_device(node_type: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the DeviceID (int64) of the Mellanox device for each node type and speed code (0 =
    EDR)."""
    out = np.zeros(len(node_type), np.int64)
    for code in np.unique(codes):
        name = SPEED_BY_CODE[int(code)].name if code else "EDR"
        of = codes == code
        out[of] = np.where(node_type[of] == NodeType.SWITCH, SWITCH_BY_GENERATION[name], CA_BY_GENERATION[name])
    return out


def models(fabric: Fabric) -> np.ndarray:
    """Return a number for the model of each node (int64[nodes]). It is the DeviceID if the source
    states it. Otherwise it is negative: one number for all adapters, and one for each port count of
    switches. The default DeviceID is not used, because it follows from the node's fastest link, and
    this link may be the slow one."""
    stated = (fabric.node_stated & Stated.DEVICE) > 0
    unknown = -1 - np.where(fabric.is_switch, fabric.node_nports.astype(np.int64), 0)
    return np.where(stated, fabric.device_id.astype(np.int64), unknown)
