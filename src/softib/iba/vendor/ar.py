"""Adaptive routing of Mellanox' switches: vendor attributes of the subnet management class (0xff20
… 0xffbd).

IDs and data layouts are those of NVIDIA's OpenSM (``iba/ib_types.h`` and
``opensm/osm_advanced_routing.h``, GPL or BSD). The bits of ``CapabilityMaskSMP`` are those of
mstflint (GPL or BSD). OpenSM's headers define neither how AttributeModifier selects a block of
groups, nor the order of bits in a port mask. softib defines both; the structures document them.

The AR table states the mode of each LID. ``STATIC``: packets leave only through the LID's port in
the linear forwarding table. ``FREE``: the switch chooses a port of the LID's group for each packet.
``BOUNDED``: it chooses one for each flow. If no port of the group is up, the port of the forwarding
table is used. If ``fr_enabled`` is set and the port of the forwarding table is down, a port of the
LID's group is used instead, even for ``STATIC`` (local repair). This is an assumption, because the
meaning of the bit in hardware is not public.
"""

from __future__ import annotations

from softib.iba.structure import Structure, array, field, reserved

__all__ = [
    "AR_GROUPS",
    "AR_GROUP_COPY_ENTRIES",
    "AR_LFT_BLOCK",
    "ARGroupTable",
    "ARGroupTableCopy",
    "ARInfo",
    "ARLinearForwardingTable",
    "ARLinearForwardingTableEntry",
    "CapabilityMaskSMP",
]

AR_GROUPS = 1024
"""Number of groups of softib's switches (GroupCap; the field allows 4095). Group 0 stays empty,
because a table of zeros refers to it."""
AR_LFT_BLOCK = 16
"""Number of LIDs in an ARLinearForwardingTable block."""
AR_GROUP_BLOCK = 2
"""Number of groups in an ARGroupTable block if each group has one subgroup."""
AR_GROUP_COPY_ENTRIES = 16
BOUNDED, FREE, STATIC, HASH = 0, 1, 2, 3
"""Modes of LIDs. softib does not support ``HASH`` (hash-based forwarding)."""
STATE_SHIFT, GROUP_MASK = 14, 0x0FFF
"""Layout of the fabric's column ``ar_lft``: ``state << 14 | group``."""
UD, RC, UC, DC = 1, 2, 4, 8
"""Bits of ``by_transport_disable``."""
CAPABILITY_MODIFIER = 4
"""AttributeModifier of GeneralInfo (0xff17) with which it returns ``CapabilityMaskSMP``."""


class CapabilityMaskSMP(Structure, size=64, attr=0xFF17, section="Mellanox GeneralInfo, AttributeModifier 4; mstflint"):
    """Vendor attributes of the subnet management class that a device supports (the first word; bit
    0 is the least significant)."""

    _reserved0 = reserved(22)
    is_extended_port_info_supported = field(1, "bit 9: MlnxExtPortInfo")
    _reserved1 = reserved(6)
    is_adaptive_routing_rev1_supported = field(1, "bit 2: ARInfo, ARGroupTable, ARLinearForwardingTable 0xff23")
    is_adaptive_routing_supported = field(1, "bit 1: the older table 0xff22; not supported")
    is_private_lft_supported = field(1, "bit 0: private LFTs; not supported")


class ARInfo(Structure, size=64, attr=0xFF20, section="NVIDIA OpenSM ib_types.h, ib_ar_info_t"):
    """Capabilities and settings of a switch's adaptive routing. A Set changes only the fields
    marked (set)."""

    _reserved0 = reserved(1)
    dyn_cap_calc_sup = field(1, "capacities depend on what is enabled")
    by_transp_cap = field(1, "by_transport_disable is obeyed")
    by_sl_en = field(1, "(set) enable_by_sl_mask is used")
    by_sl_cap = field(1, "can choose by SL")
    glb_groups = field(1, "all tables share the groups")
    is4_mode = field(1, "InfiniScale IV")
    no_fallback = field(1, "(set) a group without a port that is up drops instead of using the port of the table")
    direction_num_sup = field(8, "directions of routing notifications")
    group_table_copy_sup = field(4, "blocks of ARGroupTableCopy, 0 = no such attribute")
    sub_grps_active = field(4, "(set) subgroups of a group, minus one; 0 here")
    _reserved1 = reserved(2)
    rn_xmit_enabled = field(1, "routing notifications are sent")
    fr_enabled = field(
        1,
        "(set) fast recovery; softib's own meaning: if the port of the table is down, a port of the LID's group "
        "that is up is used",
    )
    fr_supported = field(1, "fast recovery")
    frn_supported = field(1, "fault routing notification")
    arn_supported = field(1, "adaptive routing notification")
    ar_enabled = field(1, "(set) adaptive routing")
    string_width_cap = field(4, "of routing notifications")
    group_table_cap = field(4, "group tables, minus one")
    group_top = field(12, "(set) highest group in use")
    group_cap = field(12, "groups")
    enable_by_sl_mask = field(16, "(set) bit n: SL n is routed adaptively, if by_sl_en")
    sub_grps_sup = field(8, "subgroups of a group, minus one")
    rn_version_cap = field(4, "version of routing notifications")
    ar_version_cap = field(4, "version of adaptive routing; 1: ARLinearForwardingTable 0xff23")
    _reserved2 = reserved(24)
    by_transport_disable = field(8, "(set) transports that are not routed adaptively: 1 UD, 2 RC, 4 UC, 8 DC")
    ageing_time_value = field(32, "(set) microseconds after which a flow of a BOUNDED LID may change its port")
    cap_fields1 = field(8, "hash-based forwarding and related settings")
    _reserved3 = reserved(8)
    enable_features1 = field(8, "hash-based forwarding and related settings")
    _reserved4 = reserved(8)
    whbf_granularity = field(8, "weighted hash-based forwarding")
    _reserved5 = reserved(8)
    enable_by_sl_mask_hbf = field(16, "SLs of hash-based forwarding")


class ARGroupTable(Structure, size=64, attr=0xFF21, section="NVIDIA OpenSM ib_types.h, ib_ar_group_table_t"):
    """Two port masks of 256 bits. softib defines that AttributeModifier is the number of the block,
    and that the block contains groups 2 * block and 2 * block + 1. A mask is a big-endian number in
    which bit p is port p, like the masks of SwitchCongestionSetting."""

    sub_group_0 = array(32, 8, "ports of group 2 block")
    sub_group_1 = array(32, 8, "ports of group 2 block + 1")


class ARLinearForwardingTableEntry(Structure, size=4, section="NVIDIA OpenSM ib_types.h, ib_ar_lft_entry_t"):
    """How a switch forwards packets to one LID."""

    lid_state = field(2, "0 BOUNDED, 1 FREE, 2 STATIC, 3 hash-based (not supported)")
    _reserved0 = reserved(2)
    table_number = field(4, "group table, 0")
    port = field(8, "egress port of the LinearForwardingTable: a Set writes it too (softib's own)")
    group = field(16, "group of ports")


class ARLinearForwardingTable(Structure, size=64, attr=0xFF23, section="NVIDIA OpenSM ib_types.h, ib_ar_lft_t"):
    """A block of 16 LIDs, with one ARLinearForwardingTableEntry per LID. AttributeModifier is the
    number of the block (bits 0-23)."""

    entry = array(AR_LFT_BLOCK, 32, "ARLinearForwardingTableEntry")


class ARGroupTableCopy(Structure, size=64, attr=0xFFBD, section="NVIDIA OpenSM ib_types.h, ib_ar_group_copy_t"):
    """Copy the group in AttributeModifier[11:0] to ranges of groups: 16 entries of (last, first),
    where (0, 0) means no range. Only Set is supported."""

    entry = array(AR_GROUP_COPY_ENTRIES, 32, "last group (16 bits), first group (16)")
