"""Mellanox' vendor class 0x0a, as far as infiniband-diags' ``vendstat`` documents it.

The class version is 1. Data begins at byte 24 of the MAD (vendor range 1), and its first eight
bytes are unused. Attributes whose layout is not public (0x91 and above) are not included.
"""

from __future__ import annotations

from softib.iba.structure import Structure, array, field, reserved

__all__ = [
    "ACCESS_REGISTER",
    "BLOCK_SIZE",
    "CAPABILITY_AT",
    "IS3_DEVICE_ID",
    "IS3_PORTS",
    "PDDR",
    "PPCNT",
    "PPHCR",
    "REGISTER_AT",
    "VENDOR_DATA",
    "XMIT_WAIT_ADDRESS",
    "ConfigSpaceRecord",
    "CounterGroupInfo",
    "FecHistogram",
    "GeneralInfo",
    "GeneralInfoExt",
    "HistogramRanges",
    "ModuleInfo",
    "PortRegister",
]


ACCESS_REGISTER = 0x51
CAPABILITY_AT, CAPABLE = 136, 1 << 20
"""Offset of the capability mask in GeneralInfo (class 0x0a), and its bit for the attribute that
reads registers.
"""
REGISTER_AT = 36
"""Offset of the register in the MAD."""
BLOCK_SIZE = 220
PPCNT, PDDR, PPHCR = 0x5008, 0x5031, 0x503E
"""The three registers that softib supports: counters of a port, its diagnostics, and the ranges of
its histogram."""
UNKNOWN_REGISTER, BAD_PARAMETER = 0x14, 0x1C
"""MAD status for a register that the device does not have, and for an index that it does not
have."""
MODULE_PAGE = 3
HISTOGRAM_GROUP = 0x23
KP4, LOW_LATENCY, KR4 = 1, 2, 3
"""Values of PPHCR.active_hist_type: RS(544,514); RS(272,257+1); RS(528,514)."""
BINS = 16
"""Number of bins in a histogram that has one bin for each number of symbols that RS(544,514) can
correct, 0 to 15.
"""


class PortRegister(Structure, size=8, section="mstflint: ppcnt_reg, pddr_reg, pphcr"):
    """The beginning of each of the three registers: the port, and the counter group or page."""

    _reserved0 = reserved(8)
    local_port = field(8, "portnum")
    pnat = field(2, "1: the number is InfiniBand's")
    _reserved1 = reserved(6)
    group = field(8, "PPCNT: group of counters (6 bits)")
    _reserved2 = reserved(1)
    module_info_ext = field(2, "PDDR: 1 = optical power in microwatts, 0 = in dBm")
    _reserved3 = reserved(21)
    page_select = field(8, "PDDR: which page")


class ModuleInfo(Structure, size=208, section="mstflint: pddr_module_info"):
    """Page 3 of PDDR: identity and measurements of the module in a port (SFF-8636 / CMIS).
    ``module_info_ext`` of the request selects the unit of optical power. If all bytes are zero, no
    module answered."""

    cable_technology = field(8, "SFF-8636 byte 147")
    _reserved0 = reserved(24)
    cable_type = field(4, "1 active cable, 2 optical module, 3 passive copper")
    cable_vendor = field(4, "0 other")
    cable_length = field(8, "metres")
    cable_identifier = field(8, "0 QSFP28, 8 OSFP")
    cable_power_class = field(8, "SFF-8636")
    _reserved1 = reserved(96)
    vendor_name = array(16, 8, "ASCII")
    vendor_pn = array(16, 8, "ASCII")
    _reserved2 = reserved(64)
    vendor_sn = array(16, 8, "ASCII")
    temperature = field(16, "1/256 degrees Celsius, signed")
    voltage = field(16, "100 microvolts")
    rx_power = array(8, 16, "by lane")
    tx_power = array(8, 16, "by lane")
    tx_bias = array(8, 16, "by lane, 2 microamperes")
    temperature_high_th = field(16, "alarm")
    temperature_low_th = field(16, "alarm, signed")
    voltage_high_th = field(16, "alarm")
    voltage_low_th = field(16, "alarm")
    rx_power_high_th = field(16, "alarm")
    rx_power_low_th = field(16, "alarm")
    tx_power_high_th = field(16, "alarm")
    tx_power_low_th = field(16, "alarm")
    tx_bias_high_th = field(16, "alarm")
    tx_bias_low_th = field(16, "alarm")
    _reserved3 = reserved(80)
    monitor_cap_mask = field(8, "measured: 1 temperature, 2 voltage, 4 TX power, 8 TX bias, 16 RX power")


MEASURES_TEMPERATURE, MEASURES_VOLTAGE, MEASURES_TX_POWER, MEASURES_TX_BIAS, MEASURES_RX_POWER = 1, 2, 4, 8, 16
MODULE_LANES = 8


class FecHistogram(Structure, size=168, section="mstflint: ppcnt_rs_fec_histograms_counters"):
    """Group 0x23 of PPCNT: number of codewords by the number of symbols that RS-FEC corrected in
    them. :class:`HistogramRanges` states the bins."""

    hist = array(21, 64, "codewords")


class HistogramRanges(Structure, size=92, section="mstflint: pphcr"):
    """PPHCR: the code of the histogram and the range of each of its bins."""

    active_hist_type = field(4, "0 none, 1 RS(544,514), 2 RS(272,257+1), 3 RS(528,514)")
    _reserved0 = reserved(36)
    num_of_bins = field(8, "bins")
    _reserved1 = reserved(24)
    hist_max_measurement = field(8, "largest number of symbols")
    _reserved2 = reserved(8)
    hist_min_measurement = field(8, "smallest number of symbols")
    _reserved3 = reserved(32)
    bin_range = array(19, 32, "largest number of symbols << 16 | smallest")


VENDOR_DATA = 24
"""Offset of the attribute in a vendor MAD of classes 0x09 to 0x0f."""
CONFIG_SPACE_ACCESS = 0x50
COUNTER_GROUP_INFO = 0x90
IS3_DEVICE_ID = 47396
"""DeviceID of InfiniScale III, which provides PortXmitWait in its configuration space."""
IS3_PORTS = 24
XMIT_WAIT_ADDRESS, XMIT_WAIT_STEP = 0x10013C, 0x1000
"""PortXmitWait of lane group k = 1…24 is at ADDRESS + k * STEP. Group 1 belongs to port 4, group 2
to port 5, and so on; port 1 follows port 24."""

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
"""Ranges (first, last) of DeviceIDs whose GeneralInfo contains the extended firmware version:
SwitchX, Switch-IB, Quantum, InfiniScale IV, ConnectX-3 to -6, BlueField."""


class GeneralInfo(Structure, size=108, attr=0x17, section="vendstat: IS3 general information"):
    """Identity and firmware of a device."""

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
    """Extended firmware version. On the devices of EXT_FW_DEVICES, it follows ``ini_file_version``,
    and the software version follows it."""

    major = field(32, "firmware version")
    minor = field(32, "firmware version")
    sub_minor = field(32, "firmware version")


class ConfigSpaceRecord(Structure, size=12, attr=CONFIG_SPACE_ACCESS, section="vendstat: config space access"):
    """A record of ConfigSpaceAccess. Up to 18 records follow the eight unused bytes.
    AttributeModifier is 2 << 22 | records << 16."""

    address = field(32, "register")
    data = field(32, "its value")
    mask = field(32, "bits to write")


class CounterGroupInfo(Structure, size=20, attr=COUNTER_GROUP_INFO, section="vendstat: IS4 counter group info"):
    """Counters that count only after their group is selected."""

    _reserved0 = reserved(88)
    num_of_counter_groups = field(8, "groups")
    group_masks = array(2, 32, "values that group n can be set to")
