"""Registers of Mellanox devices that a Get of vendor class 0x0a reads: modules, and the histogram
of what RS-FEC corrected.

AccessRegisterGMP (attribute 0x51) carries a register: AttributeModifier is its number, the first
eight octets of the attribute are a key, the next four say which block of :data:`BLOCK_SIZE` octets,
then the register follows. Source of the attribute, numbers and layouts: mstflint
(``mtcr_ib_ofed.c``, ``reg_ids.h``, ``register_access_table.adb``), of what the module's fields mean
SFF-8636 and CMIS.
"""

from __future__ import annotations

from softib.iba.structure import Structure, array, field, reserved

__all__ = [
    "ACCESS_REGISTER",
    "BLOCK_SIZE",
    "CAPABILITY_AT",
    "PDDR",
    "PPCNT",
    "PPHCR",
    "REGISTER_AT",
    "FecHistogram",
    "HistogramRanges",
    "ModuleInfo",
    "PortRegister",
]

ACCESS_REGISTER = 0x51
CAPABILITY_AT, CAPABLE = 136, 1 << 20
"""Octet of GeneralInfo (class 0x0a) that holds the capability mask, and its bit for this attribute.
"""
REGISTER_AT = 36
"""Octet of the MAD at which the register begins."""
BLOCK_SIZE = 220
PPCNT, PDDR, PPHCR = 0x5008, 0x5031, 0x503E
"""Counters of a port, its diagnostics, its histogram's ranges."""
UNKNOWN_REGISTER, BAD_PARAMETER = 0x14, 0x1C
"""MAD status of a register that the device has not, and of an index that it has not."""
MODULE_PAGE = 3
HISTOGRAM_GROUP = 0x23
KP4, LOW_LATENCY, KR4 = 1, 2, 3
"""PPHCR.active_hist_type: RS(544,514); RS(272,257+1); RS(528,514)."""
BINS = 16
"""Bins of a histogram that has one for each number of symbols that RS(544,514) corrects, 0 to 15.
"""


class PortRegister(Structure, size=8, section="mstflint: ppcnt_reg, pddr_reg, pphcr"):
    """How each of the three begins: which port, which group of counters or page."""

    _reserved0 = reserved(8)
    local_port = field(8, "portnum")
    pnat = field(2, "1: the number is InfiniBand's")
    _reserved1 = reserved(6)
    group = field(8, "PPCNT: which counters (6 bits)")
    _reserved2 = reserved(1)
    module_info_ext = field(2, "PDDR: 1 = optical power in microwatts, 0 = in dBm")
    _reserved3 = reserved(21)
    page_select = field(8, "PDDR: which page")


class ModuleInfo(Structure, size=208, section="mstflint: pddr_module_info"):
    """Page 3 of PDDR: what the module in a port is and measures (SFF-8636 / CMIS). Optical power as
    ``module_info_ext`` of the request says; all zeros: no module told anything."""

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
    """Group 0x23 of PPCNT: codewords by how many symbols RS-FEC corrected in them; bins as
    :class:`HistogramRanges` says."""

    hist = array(21, 64, "codewords")


class HistogramRanges(Structure, size=92, section="mstflint: pphcr"):
    """PPHCR: the code whose histogram it is, and the range of each bin."""

    active_hist_type = field(4, "0 none, 1 RS(544,514), 2 RS(272,257+1), 3 RS(528,514)")
    _reserved0 = reserved(36)
    num_of_bins = field(8, "bins")
    _reserved1 = reserved(24)
    hist_max_measurement = field(8, "largest number of symbols")
    _reserved2 = reserved(8)
    hist_min_measurement = field(8, "smallest number of symbols")
    _reserved3 = reserved(32)
    bin_range = array(19, 32, "largest number of symbols << 16 | smallest")
