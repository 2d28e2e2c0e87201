"""Firmware and board of each device, by the vendor class of Mellanox devices (0x0a, as ``vendstat
-N`` asks)."""

from __future__ import annotations

import numpy as np

from softib.foreign_text import NAME, shown
from softib.iba.constants import MgmtClass
from softib.iba.vendor.mlnx import CAPABILITY_AT, CAPABLE, EXT_FW_DEVICES, VENDOR_DATA, GeneralInfo, GeneralInfoExt
from softib.monitor.requests import PacedGets, vendor_gets
from softib.monitor.targets import Targets

__all__ = ["with_firmware"]

MELLANOX = "0x0002c9"
"""VendorID of NodeInfo of devices that know the class."""
EXT_AT = GeneralInfo.sw_major.byte - 1


def with_firmware(targets: Targets, gets: PacedGets) -> tuple[Targets, np.ndarray]:
    """``targets`` whose ports have ``text["firmware"]`` and ``text["device"]`` (the PSID) of
    devices that told; others keep "" and their DeviceID. Beside them: agents that let their
    registers be read (bool[e])."""
    t = targets
    _, first = np.unique(t.end, return_index=True)
    wanted = np.flatnonzero(t.ports.text["vendor"][first] == MELLANOX)
    firmware, psid = np.full(len(t.end_lid), "", object), np.full(len(t.end_lid), "", object)

    registers = np.zeros(len(t.end_lid), bool)

    def heard(tags: np.ndarray, mad: np.ndarray) -> None:
        masks = mad[:, VENDOR_DATA + CAPABILITY_AT : VENDOR_DATA + CAPABILITY_AT + 4].astype(np.int64)
        registers[wanted[tags]] = (masks << np.array([24, 16, 8, 0])).sum(axis=1) & CAPABLE > 0
        for end, data in zip(wanted[tags].tolist(), mad[:, VENDOR_DATA:], strict=True):
            firmware[end] = _version(data)
            psid[end] = shown(
                bytes(GeneralInfo.psid.get(data)).split(b"\0")[0].decode("ascii", "replace").strip(), NAME
            )

    attr = GeneralInfo.attr
    assert attr is not None
    if len(wanted):
        batch = vendor_gets(int(MgmtClass.VENDOR_MLNX), attr, t.end_lid[wanted])
        gets.run(batch, t.end_device[wanted], len(t.device_guid), heard)
    device = np.where(psid[t.end] != "", psid[t.end], t.ports.text["device"])
    return t.with_text("firmware", firmware[t.end]).with_text("device", device), registers


def _version(data: np.ndarray) -> str:
    """The extended version where the device has one that is not 0.0.0."""
    device = int(GeneralInfo.device_id.get(data))
    parts: tuple[int, ...] = ()
    if any(first <= device <= last for first, last in EXT_FW_DEVICES):
        more = data[EXT_AT : EXT_AT + GeneralInfoExt.size]
        parts = tuple(int(f.get(more)) for f in (GeneralInfoExt.major, GeneralInfoExt.minor, GeneralInfoExt.sub_minor))
    if not any(parts):
        parts = tuple(int(f.get(data)) for f in (GeneralInfo.fw_major, GeneralInfo.fw_minor, GeneralInfo.fw_sub_minor))
    return ".".join(map(str, parts)) if any(parts) else ""
