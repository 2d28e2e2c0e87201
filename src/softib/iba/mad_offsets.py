"""Where the fields of a MAD begin, in bytes: the declarations of :mod:`softib.iba.smp` as numbers
that kernels take."""

from __future__ import annotations

from softib.iba.smp import MadHeader, Smp

__all__ = [
    "ATTR_AT",
    "BASE_VERSION_AT",
    "CLASS_AT",
    "DATA_AT",
    "DR_DLID_AT",
    "DR_SLID_AT",
    "HOP_COUNT_AT",
    "HOP_POINTER_AT",
    "INITIAL_PATH_AT",
    "METHOD_AT",
    "MKEY_AT",
    "MODIFIER_AT",
    "RETURN_PATH_AT",
    "STATUS_AT",
    "STATUS_CODE_AT",
    "TID_AT",
    "VERSION_AT",
]

BASE_VERSION_AT, CLASS_AT, VERSION_AT, METHOD_AT = (
    MadHeader.base_version.byte,
    MadHeader.mgmt_class.byte,
    MadHeader.class_version.byte,
    MadHeader.method.byte,
)
STATUS_AT, HOP_POINTER_AT, HOP_COUNT_AT = MadHeader.status.byte, MadHeader.hop_pointer.byte, MadHeader.hop_count.byte
STATUS_CODE_AT = STATUS_AT + 1
"""Of the lower byte of the status, which says why a request was refused (IBA 13.4.7); the upper one
is the class's, and an SMP's D bit."""
TID_AT, ATTR_AT, MODIFIER_AT = MadHeader.tid.byte, MadHeader.attr_id.byte, MadHeader.attr_mod.byte
MKEY_AT, DR_SLID_AT, DR_DLID_AT = Smp.mkey.byte, Smp.dr_slid.byte, Smp.dr_dlid.byte
DATA_AT = Smp.data.byte
"""Of the attribute in an SMP, and of the data in a PerfMgt MAD."""
INITIAL_PATH_AT, RETURN_PATH_AT = Smp.initial_path.byte, Smp.return_path.byte
"""Of entry 0, which no route uses."""
