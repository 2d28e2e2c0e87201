"""Mellanox' vendor class 0x0a, as far as infiniband-diags' ``vendstat`` publishes it.

Class version 1; data begin at octet 24 of the MAD (vendor range 1), where the first eight octets
stay empty. Attributes without a public layout (0x91 on) are not here.
"""

from __future__ import annotations

from softib.iba.structure import Structure, array, field, reserved

__all__ = [
    "IS3_DEVICE_ID",
    "IS3_PORTS",
    "VENDOR_DATA",
    "XMIT_WAIT_ADDRESS",
    "ConfigSpaceRecord",
    "CounterGroupInfo",
    "GeneralInfo",
    "GeneralInfoExt",
]

VENDOR_DATA = 24
"""Offset of the attribute in a vendor MAD of classes 0x09 to 0x0f."""
CONFIG_SPACE_ACCESS = 0x50
COUNTER_GROUP_INFO = 0x90
IS3_DEVICE_ID = 47396
"""InfiniScale III, whose configuration space holds PortXmitWait."""
IS3_PORTS = 24
XMIT_WAIT_ADDRESS, XMIT_WAIT_STEP = 0x10013C, 0x1000
"""PortXmitWait of lane group k = 1…24 is at ADDRESS + k * STEP; group 1 is port 4, and after port
24 comes port 1."""

EXT_FW_DEVICES = (
    (0x0245, 0x0245),
    (0xC738, 0xC73B),
    (0xCB20, 0xCB20),
    (0xCF08, 0xCF08),
    (0xD2F0, 0xD2F0),
    (0x01B3, 0x01B3),
    (0x1003, 0x101B),
    (0xA2D2, 0xA2D2),
)
"""DeviceIDs (first, last) whose GeneralInfo has the extended firmware version in the middle:
SwitchX, Switch-IB, Quantum, InfiniScale IV, ConnectX-3 to -6, BlueField."""


class GeneralInfo(Structure, size=108, attr=0x17, section="vendstat: IS3 general information"):
    """Which part, which firmware."""

    _reserved0 = reserved(64)
    hw_revision = field(16, "hardware revision")
    device_id = field(16, "as NodeInfo.DeviceID")
    _reserved1 = reserved(192)
    uptime = field(32, "seconds")
    _reserved2 = reserved(8)
    fw_major = field(8, "firmware version")
    fw_minor = field(8, "firmware version")
    fw_sub_minor = field(8, "firmware version")
    build_id = field(32, "firmware build")
    month = field(8, "BCD")
    day = field(8, "BCD")
    year = field(16, "BCD")
    _reserved3 = reserved(16)
    hour = field(16, "BCD")
    psid = array(16, 8, "parameter set, text")
    ini_file_version = field(32, "version of the parameters")
    _reserved4 = reserved(8)
    sw_major = field(8, "software version")
    sw_minor = field(8, "software version")
    sw_sub_minor = field(8, "software version")
    _reserved5 = reserved(224)


class GeneralInfoExt(Structure, size=28, section="vendstat: IS4 extended firmware information"):
    """Follows ``ini_file_version`` on the devices of EXT_FW_DEVICES and moves the software version
    back."""

    major = field(32, "firmware version")
    minor = field(32, "firmware version")
    sub_minor = field(32, "firmware version")


class ConfigSpaceRecord(Structure, size=12, attr=CONFIG_SPACE_ACCESS, section="vendstat: config space access"):
    """One of up to 18 records behind the eight empty octets; AttributeModifier is 2 << 22 | records
    << 16."""

    address = field(32, "register")
    data = field(32, "its value")
    mask = field(32, "bits to write")


class CounterGroupInfo(Structure, size=20, attr=COUNTER_GROUP_INFO, section="vendstat: IS4 counter group info"):
    """Which counters have to be selected in groups before they count."""

    _reserved0 = reserved(88)
    num_of_counter_groups = field(8, "groups")
    group_masks = array(2, 32, "values that group n can be set to")
