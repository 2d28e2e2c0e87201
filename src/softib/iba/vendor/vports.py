"""Virtual ports of a Mellanox HCA: vendor attributes of subnet management.

The layouts are those of ibis (``packets_layouts.h``: ``SMP_VirtualizationInfo``, ``SMP_VPortInfo``,
``SMP_VNodeInfo``, ``SMP_VPortState``). NVIDIA's OpenSM (``iba/ib_types.h``) has the same layout of
VNodeInfo. Attribute IDs are those in ibis' list of attributes; ``ib_types.h`` also has those of
VirtualizationInfo, VPortInfo, VPortState and VPortGUIDInfo.

NVIDIA's OpenSM also documents their meaning: ``osm_vport.h`` (the LID of a virtual port) and
``osm_virt_mgr.h`` (stages of a sweep; VPortStateChange is read between sweeps). Blocks of
VPortPKeyTable have the layout of P_KeyTable (ibdiagnet's ``addSMPVPortPKeyTable``), and
VNodeDescription has that of NodeDescription.

No public source defines the following, so softib defines it: the numbers in AttributeModifier
(:func:`vport_modifier`), VPortGUIDInfo (laid out like GUIDInfo), the fields that a Set writes, how
VPortStateChange is cleared (by writing 1, as in SwitchInfo), and trap 1144.
"""

from __future__ import annotations

from typing import Any

from softib.iba.structure import Structure, array, field, reserved

__all__ = [
    "VIRTUALIZATION_SUPPORTED",
    "VPORT_GUIDS",
    "VPORT_PKEYS",
    "VPORT_STATES",
    "VPORT_STATE_CHANGE",
    "TrapVPortStateChange",
    "VNodeInfo",
    "VPortGUIDInfo",
    "VPortInfo",
    "VPortPKeyTable",
    "VPortState",
    "VirtualizationInfo",
    "vport_modifier",
]

VIRTUALIZATION_SUPPORTED = 15
"""Bit of GeneralInfo's CapabilityMask (0xff17) that is set if a device has virtual ports
(``IB_GENERAL_INFO_VIRTUALIZATION_SUPPORTED_BIT``)."""
VPORT_STATES = 128
"""Number of states in one block of VPortState."""
VPORT_GUIDS, VPORT_PKEYS = 8, 32
"""Number of entries in a block of VPortGUIDInfo, and of VPortPKeyTable."""
VPORT_STATE_CHANGE = 1144
"""Number of the trap that reports that a virtual port came up or went down."""


def vport_modifier(index: Any, block: Any = 0) -> Any:
    """Return the AttributeModifier of VPortGUIDInfo and VPortPKeyTable: the index in the upper half
    and the block in the lower half, as in P_KeyTable. For VPortInfo, VNodeInfo and
    VNodeDescription, AttributeModifier is the index; for VPortState, it is the block. The SMP
    always concerns virtual ports of the physical port at which it arrives."""
    return index << 16 | block


class VirtualizationInfo(Structure, size=64, attr=0xFFB0, section="Mellanox vendor attribute"):
    """The number of a port's virtual ports, and whether virtualization is enabled."""

    vport_cap = field(16, "highest possible index of a virtual port")
    vport_index_top = field(16, "highest index of an enabled one")
    virtualization_enable = field(1, "1 = virtual port 0 has a separate state, 0 = it is the physical port")
    client_reregister = field(1, "requests the clients on all virtual ports to register again")
    vport_state_change = field(1, "the state of a virtual port changed")
    _reserved0 = reserved(13)
    virtualization_revision = field(8, "supported revision; OpenSM supports 0")
    capability_mask = field(8, "optional capabilities; none is defined")


class VPortInfo(Structure, size=64, attr=0xFFB1, section="Mellanox vendor attribute"):
    """Attributes of a virtual port."""

    vport_state = field(4, "0 no change (Set only), 1 Down, 2 Initialize, 3 Armed, 4 Active")
    client_reregister = field(1, "requests the clients on this virtual port to register again")
    lid_required = field(1, "the subnet manager assigns a LID to it")
    _reserved0 = reserved(2)
    guid_cap = field(8, "entries of VPortGUIDInfo")
    capability_mask = field(16, "bit 0 CM, 1 SNMP, 2 device management, 3 vendor class, 4 boot management")
    pkey_violations = field(16, "packets with a P_Key that it does not have")
    qkey_violations = field(16, "packets with a wrong Q_Key")
    vport_lid = field(16, "its LID, if it requires one")
    lid_by_vport_index = field(16, "index of the virtual port whose LID it has otherwise; index 0 means the port's")
    vport_guid = field(64, "its GUID")
    vport_profile = field(64, "not explained in the sources")


class VNodeInfo(Structure, size=64, attr=0xFFB2, section="Mellanox vendor attribute"):
    """The virtual HCA that a virtual port belongs to."""

    partition_cap = field(16, "entries of VPortPKeyTable")
    local_port_num = field(8, "number of the virtual HCA's port that received this MAD")
    num_ports = field(8, "ports of the virtual HCA")
    vnode_guid = field(64, "its NodeGUID")


class VPortState(Structure, size=64, attr=0xFFB3, section="Mellanox vendor attribute"):
    """States of the 128 virtual ports in a block."""

    vport_state = array(128, 4, "as VPortInfo's")


class VPortGUIDInfo(Structure, size=64, attr=0xFFB5, section="Mellanox vendor attribute"):
    """Eight GUIDs of a virtual port."""

    guids = array(8, 64, "entry 0 of block 0 is its own, and read-only")


class VPortPKeyTable(Structure, size=64, attr=0xFFB6, section="Mellanox vendor attribute"):
    """32 P_Keys of a virtual port."""

    pkeys = array(32, 16, "as P_KeyTable's")


class TrapVPortStateChange(Structure, size=54, section="trap 1144, softib's own definition"):
    """The states of a port's virtual ports changed. VPortState holds the new states."""

    _reserved0 = reserved(16)
    lid = field(16, "LID of the port")
    index = field(16, "the virtual port")
