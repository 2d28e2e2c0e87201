"""CABLE_INFO of a .db_csv (``--get_cable_info``): what modules measure and their alarm thresholds,
into the register image that devices answer (``module_info``).

Names of the columns: ibdiagnet's own reader of that section (ibutils2, CableInfoRecord). Powers are
read in the forms that ibdiagnet prints, ``0.945 mW, -0.246 dBm``, in either unit alone, and as
whole numbers, which are SFF-8636's (0.1 µW); currents in mA, voltages in mV or V. No file with
filled columns is among those that we could look at.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from softib.fabric.formats.ibdiagnet.csv_sections import Section
from softib.fabric.formats.ibdiagnet.section_writer import SectionWriter
from softib.iba import mlnx_registers as r
from softib.iba.mlnx_registers import ModuleInfo

__all__ = ["modules"]

_NUMBER = re.compile(r"\s*+\"?(-?(?:0x[0-9a-fA-F]{1,8}|\d{1,6}(?:\.\d{1,6})?))\s*+(dBm|mW|uW|mA|uA|mV|V|C)?\b")
_DBM = re.compile(r"(-?\d{1,4}(?:\.\d{1,6})?)\s*+dBm")
_ABSENT = ("", "N/A", "NA", "N", "None")
M = ModuleInfo


def _number(text: str) -> tuple[float, str]:
    m = _NUMBER.match(text)
    if not m:
        raise ValueError
    return float(int(m[1], 16)) if "x" in m[1] else float(m[1]), m[2] or ""


def _microwatts(text: str) -> float:
    both = _DBM.search(text)
    if both:
        return float(min(1e3 * 10 ** (float(both[1]) / 10), 0xFFFF))
    value, unit = _number(text)
    if unit == "mW" or (not unit and "." in text):
        return value * 1e3
    if unit == "uW":
        return value
    if unit:
        raise ValueError
    return value / 10.0


def _bias(text: str) -> float:
    value, unit = _number(text)
    return {"mA": 500.0, "": 500.0, "uA": 0.5}[unit] * value


def _voltage(text: str) -> float:
    value, unit = _number(text)
    return {"mV": 10.0, "V": 1e4, "": 10.0 if value >= 100 else 1e4}[unit] * value


def _degrees(text: str) -> float:
    value, unit = _number(text)
    if unit not in ("", "C") or not -128 <= value < 128:
        raise ValueError
    return value * 256.0


_ONE: tuple[tuple[str, str, Callable[[str], float], int], ...] = (
    ("Temperature", "temperature", _degrees, r.MEASURES_TEMPERATURE),
    ("SupplyVoltageReporting", "voltage", _voltage, r.MEASURES_VOLTAGE),
    ("AlarmTemperatureHighThresh", "temperature_high_th", _degrees, 0),
    ("AlarmTemperatureLowThresh", "temperature_low_th", _degrees, 0),
    ("AlarmVoltageHighThresh", "voltage_high_th", _voltage, 0),
    ("AlarmVoltageLowThresh", "voltage_low_th", _voltage, 0),
    ("RXPowerHighThresh", "rx_power_high_th", _microwatts, 0),
    ("RXPowerLowThresh", "rx_power_low_th", _microwatts, 0),
    ("TXPowerHighThresh", "tx_power_high_th", _microwatts, 0),
    ("TXPowerLowThresh", "tx_power_low_th", _microwatts, 0),
    ("TXBiasHighThresh", "tx_bias_high_th", _bias, 0),
    ("TXBiasLowThresh", "tx_bias_low_th", _bias, 0),
)
_LANES: tuple[tuple[str, str, Callable[[str], float], int], ...] = (
    ("RX{}Power", "rx_power", _microwatts, r.MEASURES_RX_POWER),
    ("TX{}Power", "tx_power", _microwatts, r.MEASURES_TX_POWER),
    ("TX{}Bias", "tx_bias", _bias, r.MEASURES_TX_BIAS),
)


def modules(writer: SectionWriter, s: Section, rows: np.ndarray, port: np.ndarray) -> None:
    """Fill ``module_info`` of the ports ``port`` from the rows ``rows``."""
    image = writer.f.module_info[port]
    able = M.monitor_cap_mask.get(image).astype(np.int64)
    for column, field, read, bit in _ONE:
        if s.has(column):
            values, there = _values(writer, s, column, rows, read)
            before = getattr(M, field).get(image).astype(np.int64)
            getattr(M, field).set(image, np.where(there, values & 0xFFFF, before))
            able |= np.where(there, bit, 0)
    for pattern, field, read, bit in _LANES:
        lanes = getattr(M, field).get(image).astype(np.int64)
        for k in range(r.MODULE_LANES):
            if s.has(pattern.format(k + 1)):
                values, there = _values(writer, s, pattern.format(k + 1), rows, read)
                lanes[:, k] = np.where(there, values, lanes[:, k])
                able |= np.where(there, bit, 0)
        getattr(M, field).set(image, lanes)
    # A passive cable reads zeros throughout: it measures nothing.
    light = (
        (M.rx_power.get(image).any(axis=1)) | (M.tx_power.get(image).any(axis=1)) | (M.tx_bias.get(image).any(axis=1))
    )
    optical = r.MEASURES_RX_POWER | r.MEASURES_TX_POWER | r.MEASURES_TX_BIAS
    able = np.where(light, able, able & ~optical)
    M.monitor_cap_mask.set(image, able)
    if able.any():
        writer.f.module_info[port] = image
        writer.records.add("modules")


def _values(
    writer: SectionWriter, s: Section, name: str, rows: np.ndarray, read: Callable[[str], float]
) -> tuple[np.ndarray, np.ndarray]:
    """A column in the register's unit (int64), and where it says something."""
    texts = s.text(name)
    values, there = np.zeros(len(rows), np.int64), np.zeros(len(rows), bool)
    for i, row in enumerate(rows.tolist()):
        text = texts[row].strip().strip('"')
        if text in _ABSENT:
            continue
        try:
            value = round(read(text))
            if not (-0x8000 <= value < 0x8000 if read is _degrees else 0 <= value <= 0xFFFF):
                raise ValueError
            values[i], there[i] = value, True
        except (ValueError, KeyError):
            if name != "Temperature":  # said already
                writer.problems.add(
                    s.lines[row], f"{s.name}: {name} is no reading of a module; such as -1.2 dBm, 6.5 mA, 3.3 V, 45C"
                )
    return values, there
