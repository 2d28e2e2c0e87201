"""A Mellanox router's tables of the subnets that it connects: vendor attributes of subnet
management.

The layouts are those of the public headers of NVIDIA's OpenSM (``iba/ib_types.h``:
``ib_router_info_t``, ``ib_rtr_adj_table_block_t``, ``ib_rtr_next_hop_table_block_t``) and of ibis
(``packets_layouts.h``), which agree. A site-local prefix is 0xfec0, 32 zero bits and a 16-bit
subnet number (IBA 4.1.1). The table of adjacent subnets contains only the subnet number.
"""

from __future__ import annotations

from softib.iba.structure import Structure, field, reserved

__all__ = ["ADJACENT_BLOCK", "NEXT_HOP_BLOCK", "SITE_LOCAL", "AdjacentSubnet", "NextHop", "RouterInfo"]

SITE_LOCAL = 0xFEC0_0000_0000_0000
"""Prefix of site-local GIDs with subnet number 0."""
ADJACENT_BLOCK, NEXT_HOP_BLOCK = 8, 4
"""Number of records in a block of each table. AttributeModifier is the number of the block."""


class RouterInfo(Structure, size=64, attr=0xFFD0, section="Mellanox vendor attribute"):
    """Sizes of a router's tables."""

    capability_mask = field(32, "1 = fast recovery notifications pass the router")
    next_hop_table_cap = field(32, "records that fit")
    next_hop_table_top = field(32, "number of existing records")
    table_changes = field(16, "tables that changed: 0x8000 adjacent subnets, 0x4000 next hops")
    adjacent_table_top = field(8, "number of existing records")
    adjacent_table_cap = field(8, "records that fit")
    cap_supported_subnets = field(8, "subnets that the device can join")
    _reserved0 = reserved(8)
    ar_group_to_router_lid_table_cap = field(16, "groups of adaptive routing")
    _reserved1 = reserved(7)
    pfrn_rtr_en = field(1, "fast recovery notifications pass")
    adjacent_router_lid_info_top = field(8, "number of existing records")
    cap_router_lid = field(16, "LIDs of routers that it holds")
    max_ar_group_id = field(12, "highest group of adaptive routing that passes")
    global_router_lid_base = field(20, "first LID of a router in all subnets")
    _reserved2 = reserved(12)
    global_router_lid_top = field(20, "last one")
    _reserved3 = reserved(12)
    local_router_lid_base = field(20, "first LID of a router in this subnet")
    _reserved4 = reserved(12)
    local_router_lid_top = field(20, "last one")


class AdjacentSubnet(Structure, size=8, section="Mellanox vendor attribute 0xffd2"):
    """A site-local subnet in which the router has a port. A block has eight of these records."""

    pkey = field(16, "P_Key of the router's port there")
    subnet_prefix = field(16, "number of the subnet")
    pfrn_rtr_en_max_group_id = field(16, "fast recovery notifications, highest group that passes")
    master_sm_lid = field(16, "LID of the subnet manager there")


class NextHop(Structure, size=16, section="Mellanox vendor attribute 0xffd1"):
    """A subnet that the router can reach through another router. A block has four of these
    records."""

    subnet_prefix = field(64, "prefix of its GIDs")
    weight = field(8, "of this path among several")
    _reserved0 = reserved(8)
    pkey = field(16, "P_Key of packets there")
    _reserved1 = reserved(32)
