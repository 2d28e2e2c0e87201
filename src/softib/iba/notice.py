"""Notices and the contents of each trap (IBA 13.4.8.2 and 14.2.5.1).

``Notice`` is the attribute in an SMP. Its ``data_details`` hold one of the ``Trap…`` structures
below.
"""

from __future__ import annotations

from softib.iba.structure import Structure, array, field, reserved

__all__ = [
    "DETAILS_BY_TRAP",
    "ClassPortInfo",
    "Notice",
    "TrapBadKey",
    "TrapBadMKey",
    "TrapBadSwitchPKey",
    "TrapCapMaskChange",
    "TrapGid",
    "TrapLinkState",
    "TrapPortThreshold",
    "TrapSysImageGuid",
]


class ClassPortInfo(Structure, size=72, attr=0x01, section="13.4.8.1"):
    """Capabilities of a management class on this port, the destination of its traps, and the port
    to which requests are redirected."""

    base_version = field(8, "1")
    class_version = field(8, "1 for PerfMgt")
    cap_mask = field(16, "PerfMgt: 8 AllPortSelect, 9 IsExtendedWidthSupported, 10 …NoIETF, 12 PortXmitWait")
    cap_mask2 = field(27, "class-specific capabilities")
    resp_time_value = field(5, "longest answer time 4.096 us * 2^n")
    redirect_gid = array(2, 64, "GID to send requests to instead: prefix, GUID")
    redirect_tc = field(8, "traffic class")
    redirect_sl = field(4, "SL")
    redirect_fl = field(20, "flow label")
    redirect_lid = field(16, "LID")
    redirect_pkey = field(16, "P_Key")
    _reserved0 = reserved(8)
    redirect_qp = field(24, "QP")
    redirect_qkey = field(32, "Q_Key")
    trap_gid = array(2, 64, "GID that gets traps: prefix, GUID")
    trap_tc = field(8, "traffic class")
    trap_sl = field(4, "SL")
    trap_fl = field(20, "flow label")
    trap_lid = field(16, "LID")
    trap_pkey = field(16, "P_Key")
    trap_hl = field(8, "hop limit")
    trap_qp = field(24, "QP")
    trap_qkey = field(32, "Q_Key")


class Notice(Structure, size=64, attr=0x02, section="13.4.8.2"):
    """Report of an event. (If the subnet administrator forwards it, the GID of the port that issued
    it follows these 64 bytes.)"""

    is_generic = field(1, "1: the trap number is the specification's")
    type = field(7, "0 fatal, 1 urgent, 2 security, 3 subnet management, 4 informational")
    producer_type = field(24, "generic: 1 CA, 2 switch, 3 router, 4 class manager; else VendorID")
    trap_number = field(16, "generic: trap number; else DeviceID")
    issuer_lid = field(16, "LID of the issuer")
    toggle = field(1, "alternates with each notice of the queue")
    count = field(15, "notices waiting")
    data_details = array(54, 8, "one of the structures of this module")


class TrapGid(Structure, size=54, section="14.2.5.1 traps 64-67"):
    """Traps 64 (GID in service), 65 (GID out of service), 66 (multicast group created) and 67
    (multicast group deleted)."""

    _reserved0 = reserved(48)
    gid = array(2, 64, "prefix, GUID")


class TrapLinkState(Structure, size=54, section="14.2.5.1 trap 128"):
    """Trap 128: a port of the switch changed its state."""

    lid = field(16, "LID of the switch")


class TrapPortThreshold(Structure, size=54, section="14.2.5.1 traps 129-131"):
    """Traps 129 (LocalPhyErrors reached its threshold), 130 (OverrunErrors reached its threshold)
    and 131 (flow-control watchdog expired)."""

    _reserved0 = reserved(16)
    lid = field(16, "LID of the port, or of the switch")
    portnum = field(8, "port")


class TrapCapMaskChange(Structure, size=54, section="14.2.5.1 trap 144"):
    """Trap 144: the port's CapabilityMask, NodeDescription, or enabled speeds or widths changed."""

    _reserved0 = reserved(16)
    lid = field(16, "LID of the port")
    _reserved1 = reserved(15)
    other_local_changes = field(1, "1: change_flags has the change")
    cap_mask = field(32, "CapabilityMask now")
    _reserved2 = reserved(10)
    change_flags = field(6, "bit 0 NodeDescription, 1 LinkWidthEnabled, 2 LinkSpeedEnabled, 3 SM priority")
    cap_mask2 = field(16, "CapabilityMask2 now")


class TrapSysImageGuid(Structure, size=54, section="14.2.5.1 trap 145"):
    """Trap 145: the SystemImageGUID changed."""

    _reserved0 = reserved(16)
    lid = field(16, "LID of the port")
    _reserved1 = reserved(16)
    sys_guid = field(64, "SystemImageGUID now")


class TrapBadMKey(Structure, size=54, section="14.2.5.1 trap 256"):
    """Trap 256: an SMP arrived with a wrong M_Key."""

    _reserved0 = reserved(16)
    lid = field(16, "source LID of the SMP")
    dr_slid = field(16, "DrSLID of a directed-route SMP")
    method = field(8, "method of the SMP")
    _reserved1 = reserved(8)
    attr_id = field(16, "AttributeID of the SMP")
    attr_mod = field(32, "AttributeModifier of the SMP")
    mkey = field(64, "M_Key of the SMP")
    _reserved2 = reserved(8)
    dr_notice = field(1, "1: the SMP arrived by directed route")
    dr_path_truncated = field(1, "1: longer than the field below")
    dr_hop_count = field(6, "entries of the return path")
    dr_return_path = array(30, 8, "return path of the SMP")


class TrapBadKey(Structure, size=54, section="14.2.5.1 traps 257, 258"):
    """Traps 257 (a packet arrived with a wrong P_Key) and 258 (with a wrong Q_Key)."""

    _reserved0 = reserved(16)
    lid1 = field(16, "source of the packet")
    lid2 = field(16, "destination of the packet")
    key = field(32, "the key")
    sl = field(4, "SL of the packet")
    _reserved1 = reserved(4)
    qp1 = field(24, "source QP")
    _reserved2 = reserved(8)
    qp2 = field(24, "destination QP")
    gid1 = array(2, 64, "source GID: prefix, GUID")
    gid2 = array(2, 64, "destination GID: prefix, GUID")


class TrapBadSwitchPKey(Structure, size=54, section="14.2.5.1 trap 259"):
    """Trap 259: a switch port dropped a packet because of its P_Key."""

    data_valid = field(16, "which of the following fields are known")
    lid1 = field(16, "source of the packet")
    lid2 = field(16, "destination of the packet")
    pkey = field(16, "the P_Key")
    sl = field(4, "SL of the packet")
    _reserved0 = reserved(4)
    qp1 = field(24, "source QP")
    _reserved1 = reserved(8)
    qp2 = field(24, "destination QP")
    gid1 = array(2, 64, "source GID: prefix, GUID")
    gid2 = array(2, 64, "destination GID: prefix, GUID")
    switch_lid = field(16, "LID of the switch")
    portnum = field(8, "port of the switch")


DETAILS_BY_TRAP: dict[int, type[Structure]] = {
    **dict.fromkeys((64, 65, 66, 67), TrapGid),
    128: TrapLinkState,
    **dict.fromkeys((129, 130, 131), TrapPortThreshold),
    144: TrapCapMaskChange,
    145: TrapSysImageGuid,
    256: TrapBadMKey,
    **dict.fromkeys((257, 258), TrapBadKey),
    259: TrapBadSwitchPKey,
}
"""Structure of ``Notice.data_details`` by trap number."""
