"""ClassPortInfo, which every class of general services answers (IBA 13.4.8.1). It begins at octet
64 of the MAD."""

from __future__ import annotations

from softib.iba.structure import Structure, array, field, reserved

__all__ = ["ClassPortInfo"]


class ClassPortInfo(Structure, size=72, attr=0x01, section="13.4.8.1"):
    """What a class on this port can do, where its traps go, and whether requests are redirected."""

    base_version = field(8, "1")
    class_version = field(8, "1 for PerfMgt")
    cap_mask = field(16, "PerfMgt: 8 AllPortSelect, 9 IsExtendedWidthSupported, 10 …NoIETF, 12 PortXmitWait")
    cap_mask2 = field(27, "class-specific capabilities")
    resp_time_value = field(5, "longest answer time 4.096 us * 2^n")
    redirect_gid = array(2, 64, "GID to ask instead: prefix, GUID")
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
