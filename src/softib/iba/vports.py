"""Virtual ports of a Mellanox HCA: vendor attributes of subnet management.

Layouts as in ibis (``packets_layouts.h``: ``SMP_VirtualizationInfo``, ``SMP_VPortInfo``, ``SMP_VNodeInfo``,
``SMP_VPortState``); NVIDIA's OpenSM (``iba/ib_types.h``) was compared for VNodeInfo, and agrees. Attribute IDs as in
ibis' attribute list and, for VirtualizationInfo, VPortInfo, VPortState and VPortGUIDInfo, in ``ib_types.h``.

The layouts alone are here: nothing in softib answers or asks these attributes yet. How AttributeModifier names a
virtual port and a block is in neither header.
"""

from __future__ import annotations

from enum import IntEnum

from softib.iba.structure import Structure, array, field, reserved

__all__ = [
    "VIRTUALIZATION_SUPPORTED",
    "VPORT_STATES",
    "VNodeInfo",
    "VPortAttr",
    "VPortInfo",
    "VPortState",
    "VirtualizationInfo",
]

VIRTUALIZATION_SUPPORTED = 15
"""Bit of GeneralInfo's CapabilityMask (0xff17) of a device with virtual ports (``IB_GENERAL_INFO_VIRTUALIZATION_SUPPORTED_BIT``)."""
VPORT_STATES = 128
"""States in one block of VPortState."""


class VPortAttr(IntEnum):
    """Attribute IDs."""

    VIRTUALIZATION_INFO = 0xFFB0
    VPORT_INFO = 0xFFB1
    VNODE_INFO = 0xFFB2
    VPORT_STATE = 0xFFB3
    VNODE_DESCRIPTION = 0xFFB4
    VPORT_GUID_INFO = 0xFFB5
    VPORT_PKEY_TABLE = 0xFFB6


class VirtualizationInfo(Structure, size=64, attr=0xFFB0, section="Mellanox vendor attribute"):
    """How many virtual ports a port has, and whether they are in use."""

    vport_cap = field(16, "highest index of a virtual port that the port can have")
    vport_index_top = field(16, "highest index of one that is enabled")
    virtualization_enable = field(1, "1 = virtual port 0 has a state of its own, 0 = it is the physical port")
    client_reregister = field(1, "asks the clients on all virtual ports to register again")
    vport_state_change = field(1, "the state of a virtual port changed")
    _reserved0 = reserved(13)
    virtualization_revision = field(8, "revision that the SMA speaks; OpenSM knows 0")
    capability_mask = field(8, "optional capabilities; none is defined")


class VPortInfo(Structure, size=64, attr=0xFFB1, section="Mellanox vendor attribute"):
    """One virtual port."""

    vport_state = field(4, "0 no change (Set only), 1 Down, 2 Initialize, 3 Armed, 4 Active")
    client_reregister = field(1, "asks the clients on this virtual port to register again")
    lid_required = field(1, "the subnet manager gives it a LID of its own")
    _reserved0 = reserved(2)
    guid_cap = field(8, "entries of VPortGUIDInfo")
    capability_mask = field(16, "bit 0 CM, 1 SNMP, 2 device management, 3 vendor class, 4 boot management")
    pkey_violations = field(16, "packets with a P_Key that it does not have")
    qkey_violations = field(16, "packets with a wrong Q_Key")
    vport_lid = field(16, "its LID, if it requires one")
    lid_by_vport_index = field(
        16, "index of the virtual port whose LID it has otherwise (as its name says: the sources do not explain it)"
    )
    vport_guid = field(64, "its GUID")
    vport_profile = field(64, "not explained in the sources")


class VNodeInfo(Structure, size=64, attr=0xFFB2, section="Mellanox vendor attribute"):
    """The virtual HCA that a virtual port belongs to."""

    partition_cap = field(16, "entries of VPortPKeyTable")
    local_port_num = field(8, "number of the virtual HCA's port that received this MAD")
    num_ports = field(8, "ports of the virtual HCA")
    vnode_guid = field(64, "its NodeGUID")


class VPortState(Structure, size=64, attr=0xFFB3, section="Mellanox vendor attribute"):
    """States of 128 virtual ports in a block."""

    vport_state = array(128, 4, "as VPortInfo's")
